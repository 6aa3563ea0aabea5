//! Broker or database away while workers run: told, and made good without anybody's help.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use redrive::assembly::{Options, Services};
use redrive::base::tasks::Tasks;
use redrive::model::ids::ConsumerName;
use redrive::pipeline::consumer::{Handler, Outcome, Received};
use redrive::pipeline::supervisor::{Supervisor, WorkerStatus};
use redrive::pipeline::{self, Handlers};
use redrive::store::BusinessTx;
use tokio::sync::watch;
use tokio::time::Instant;

use super::node::{DATABASE, FIRST, Node, Wanted};
use super::shop::{DLQ, PATIENCE, QUEUE, Servers, Shop, until};

const BODY: &[u8] = br#"{"order_id":4711}"#;
/// Longest wait between two tries of a subscription, and the connection's heartbeat.
const BACK_WITHIN: Duration = Duration::from_secs(30 + 15);

/// A service that can do everything.
struct Easy;

#[async_trait]
impl Handler for Easy {
    async fn handle(&self, _: &Received, _: &mut dyn BusinessTx) -> Outcome {
        Outcome::Done
    }
}

/// Workers in this process, as a service runs them.
struct Workers {
    services: Services,
    tasks: Tasks,
    status: watch::Receiver<Vec<WorkerStatus>>,
}

impl Workers {
    fn start(config: &Path) -> Self {
        let config = redrive::config::load::load(Some(config), &|_| None).expect("a configuration");
        let context = Arc::new(config.contexts[0].clone());
        let services = Services::open(context, Options::default()).expect("valid");
        let handlers: Handlers = HashMap::from([(
            ConsumerName::new("inventory"),
            Arc::new(Easy) as Arc<dyn Handler>,
        )]);
        let names = ["collector".to_owned(), "consumer".to_owned()];
        let workers = pipeline::build(&services.ports, &names, &handlers.into()).expect("workers");
        assert_eq!(workers.len(), 2);
        let tasks = Tasks::new();
        let status = Supervisor::start(workers, &tasks);
        Self {
            services,
            tasks,
            status,
        }
    }

    /// Waits until every worker is well.
    async fn are_well(&mut self) {
        let waiting = self.status.wait_for(|all| {
            all.iter()
                .all(|worker| worker.passes > 0 && worker.problem_since.is_none())
        });
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.expect("well in time").expect("workers run");
    }

    /// Waits until a worker tells a problem.
    async fn problem_of(&mut self, name: &str) -> String {
        let problem = |all: &[WorkerStatus]| {
            all.iter()
                .find(|worker| worker.worker == name)
                .and_then(|worker| worker.last.as_ref()?.problem.clone())
        };
        let waiting = self.status.wait_for(|all| problem(all).is_some());
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        problem(&found.expect("told in time").expect("workers run")).expect("told")
    }

    async fn stop(self) {
        assert!(self.tasks.stop(PATIENCE).await, "workers stop");
        self.services.close().await;
    }
}

fn message(id: &str) -> (BasicProperties, &'static [u8]) {
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(id.into());
    (properties, BODY)
}

/// Connections, channels and consumers of the shop's virtual host, as the broker counts them.
async fn open_things(node: &Node, shop: &Shop) -> (usize, usize, usize) {
    let lines = async |arguments: &[&str]| {
        let listed = node.ctl(arguments).await;
        listed
            .lines()
            .filter(|line| line.contains(&shop.vhost))
            .count()
    };
    let headless = "--no-table-headers";
    let consumers = node
        .ctl(&["list_consumers", "-p", &shop.vhost, headless, "queue_name"])
        .await;
    (
        lines(&["list_connections", headless, "vhost"]).await,
        lines(&["list_channels", headless, "vhost"]).await,
        consumers.lines().count(),
    )
}

async fn letters(shop: &Shop) -> i64 {
    shop.count("SELECT COUNT(*) FROM dead_letters").await
}

#[tokio::test(flavor = "multi_thread")]
async fn b_07_a_killed_broker_is_told_and_collecting_goes_on_when_it_is_back() {
    let node = Node::start().await;
    let mut shop = Shop::open_on("killed_broker", Servers::of(&node)).await;
    let mut workers = Workers::start(&shop.config);
    workers.are_well().await;
    shop.put(DLQ, &[message("e-0")]).await;
    until("collected", || async { letters(&shop).await == 1 }).await;
    let before = open_things(&node, &shop).await;
    assert_eq!(before.2, 2, "one consumer a queue");
    let tasks = alive();

    node.kill(&[FIRST]).await;
    for (worker, queue, last) in [
        ("collector", DLQ, "(last read "),
        ("consumer", QUEUE, "(nothing read yet)"),
    ] {
        let problem = workers.problem_of(worker).await;
        let told = format!("{queue}: not read since ");
        assert!(
            problem.starts_with(&told) && problem.contains(last),
            "{problem}"
        );
    }
    let status = shop.console.try_run(&["status"]).await;
    assert_ne!(status.code, 0, "{status:#?}");
    let told = status.json.to_string();
    assert!(
        told.contains("broker is not reachable: 127.0.0.1:"),
        "{told}"
    );

    node.restart(&[FIRST]).await;
    let up = Instant::now();
    shop.reconnect().await;
    shop.put(DLQ, &[message("e-1")]).await;
    shop.put(QUEUE, &[message("e-2")]).await;
    until("collected and consumed", || async {
        letters(&shop).await == 2 && shop.count("SELECT COUNT(*) FROM consumer_inbox").await == 1
    })
    .await;
    assert!(up.elapsed() < BACK_WITHIN, "{:?}", up.elapsed());
    workers.are_well().await;
    until("no more connections than before", || async {
        open_things(&node, &shop).await == before
    })
    .await;

    // The same by the operator's tool, time and again.
    for round in 3..6 {
        let listed = node
            .ctl(&[
                "list_connections",
                "--no-table-headers",
                "pid",
                "client_properties",
            ])
            .await;
        for line in listed.lines().filter(|line| line.contains("redrive")) {
            let pid = line.split_whitespace().next().expect("a pid");
            node.ctl(&["close_connection", pid, "drill"]).await;
        }
        shop.put(DLQ, &[message(&format!("e-{round}"))]).await;
        until("collected", || async { letters(&shop).await == round }).await;
        workers.are_well().await;
    }
    until("no more connections than before", || async {
        open_things(&node, &shop).await == before
    })
    .await;
    until("no more tasks than before", || async { alive() <= tasks }).await;
    workers.stop().await;
    shop.console.verify_audit().await;
    shop.close().await;
    node.stop().await;
}

/// Tasks of this process.
fn alive() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// The broker takes a channel away whose delivery is not acknowledged for so long.
const CONSUMER_TIMEOUT: &str = "consumer_timeout = 15000";
/// It looks once a minute; here each second. There is no line of `rabbitmq.conf` for it.
const LOOK_OFTEN: [&str; 2] = [
    "eval",
    "application:set_env(rabbit, channel_tick_interval, 1000).",
];

/// Ends when the broker's consumer timeout has passed: a delivery of our own is held until then.
async fn consumer_timeout(shop: &Shop) {
    let (_connection, channel) = shop.channel().await;
    channel
        .basic_qos(1, BasicQosOptions::default())
        .await
        .expect("a prefetch");
    let mut consumer = channel
        .basic_consume(
            super::shop::OTHER_QUEUE.into(),
            "control".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .expect("a subscription");
    shop.put(super::shop::OTHER_QUEUE, &[message("control")])
        .await;
    let held = consumer
        .next()
        .await
        .expect("a delivery")
        .expect("no error");
    let over = tokio::time::timeout(3 * PATIENCE, consumer.next()).await;
    assert!(
        matches!(over, Ok(None | Some(Err(_)))),
        "the channel is closed"
    );
    drop(held);
}

async fn fifty(shop: &Shop) {
    let ids: Vec<_> = (0..50).map(|n| format!("e-{n}")).collect();
    let messages: Vec<_> = ids.iter().map(|id| message(id)).collect();
    shop.put(DLQ, &messages).await;
}

async fn each_once(shop: &Shop) {
    until("all collected", || async { letters(shop).await == 50 }).await;
    shop.arrives(DLQ, 0).await;
    assert_eq!(letters(shop).await, 50);
    let deaths = "SELECT COUNT(*) FROM dead_letter_deaths";
    assert_eq!(shop.count(deaths).await, 50, "each message once");
}

#[tokio::test(flavor = "multi_thread")]
async fn b_09_a_database_away_for_longer_than_the_consumer_timeout_costs_nothing() {
    let node = Node::start_with(Wanted {
        database: true,
        conf: CONSUMER_TIMEOUT,
        ..Wanted::NODE
    })
    .await;
    node.ctl(&LOOK_OFTEN).await;
    let shop = Shop::open_on("database_away", Servers::of(&node)).await;
    let mut workers = Workers::start(&shop.config);
    workers.are_well().await;

    node.kill(&[DATABASE]).await;
    fifty(&shop).await;
    let problem = workers.problem_of("collector").await;
    assert!(problem.contains(DLQ), "{problem}");
    consumer_timeout(&shop).await;
    // Given back: nobody holds them, so the broker had nothing to time out.
    shop.arrives(DLQ, 50).await;

    node.restart(&[DATABASE]).await;
    each_once(&shop).await;
    workers.are_well().await;
    workers.stop().await;
    shop.console.verify_audit().await;
    shop.close().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_09_a_channel_taken_away_while_the_table_takes_no_row_is_opened_again() {
    let node = Node::start_with(Wanted {
        conf: CONSUMER_TIMEOUT,
        ..Wanted::NODE
    })
    .await;
    node.ctl(&LOOK_OFTEN).await;
    let shop = Shop::open_on("table_away", Servers::of(&node)).await;
    let mut workers = Workers::start(&shop.config);
    workers.are_well().await;

    // The database answers, its table does not: the collector keeps what it has taken.
    shop.change("RENAME TABLE dead_letters TO hidden").await;
    fifty(&shop).await;
    until("held", || async { shop.depth(DLQ).await == 0 }).await;
    consumer_timeout(&shop).await;
    shop.change("RENAME TABLE hidden TO dead_letters").await;
    each_once(&shop).await;
    workers.are_well().await;
    workers.stop().await;
    shop.console.verify_audit().await;
    shop.close().await;
    node.stop().await;
}
