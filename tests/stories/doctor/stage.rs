//! The shop with a consumer at work, what a fault left to be undone, and how the doctor is asked.

use std::time::{Duration, Instant};

use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use redrive::base::tasks::Tasks;
use redrive::drill::proxy::{Line, Proxy};
use serde_json::Value;
use sqlx::{AssertSqlSafe, MySqlPool, Row as _};
use tokio::process::Child;

use super::super::node::Node;
use super::super::redrive::{Answer, Console};
use super::super::shop::{
    DLQ, Event, OTHER_QUEUE, PATIENCE, QUEUE, Servers, Shop, take_effect, until,
};
use super::consumer::{Consumer, Manner};

/// Limits short enough for a story, longer than a healthy pipeline needs. What has to be old for a rule
/// is written with an old time, so that nothing is waited for.
const LIMITS: &str = r#"
[contexts.shop.verdicts]
due = "20s"
lease = "1s"
lock_wait = "1s"
transaction = "1s"
lag = "5s"
consumed = "5s"
waiting = "5s"
poison = 3
[contexts.shop.retention]
replay_window = "14d"
[contexts.shop.scan]
second_look = "200ms"
"#;

/// Longer than [`LIMITS`] lets an event be due, in seconds.
pub const LATE: u32 = 60;

/// From one sample of the statistics to the next, and a little more.
const SAMPLE: Duration = Duration::from_millis(1_500);

/// The stage of one test; the rows of the table play on it one after the other.
pub struct Stage {
    pub shop: Shop,
    /// The console the pipeline's own workers and verbs are run with.
    pub console: Console,
    /// The console that is asked; a row may make it see less.
    pub eyes: Console,
    /// Servers of this stage alone.
    pub node: Option<Node>,
    pub holder: Option<sqlx::Transaction<'static, sqlx::MySql>>,
    pub proxy: Option<Proxy>,
    pub event: Option<Event>,
    /// An account a row made.
    pub account: Option<String>,
    pub consumer: Option<Consumer>,
    worker: Option<Child>,
    http: reqwest::Client,
    tasks: Tasks,
}

impl Stage {
    /// A stage on the servers all tests share.
    pub async fn open(story: &str) -> Self {
        Self::open_on(story, Servers::shared(), None).await
    }

    /// A stage on servers of its own.
    pub async fn open_on_own(story: &str, node: Node) -> Self {
        Self::open_on(story, Servers::of(&node), Some(node)).await
    }

    async fn open_on(story: &str, servers: Servers, node: Option<Node>) -> Self {
        let shop = Shop::open_on(story, servers).await;
        // What only the shop's other team takes would hide that nobody takes it.
        shop.delete_queue(OTHER_QUEUE).await;
        let consumer = Consumer::attach(&shop, Manner::Works).await;
        let text = configuration(&shop);
        let stage = Self {
            console: written(&shop, "doctor", &text),
            eyes: written(&shop, "doctor", &text),
            node,
            holder: None,
            proxy: None,
            event: None,
            account: None,
            consumer: Some(consumer),
            worker: None,
            http: client(),
            tasks: Tasks::new(),
            shop,
        };
        // The tables of sagas are none of a plain shop's.
        for service in ["orders", "inventory"] {
            let migrate = ["migrate", "--service", service, "--apply"];
            stage.console.run(&migrate).await;
        }
        // The statistics of a new vhost come a moment late.
        until("nothing is said of a new shop", || async {
            is_quiet(&stage.doctor().await)
        })
        .await;
        stage
    }

    /// One run of `redrive doctor`: three looks, two refreshes.
    pub async fn doctor(&self) -> Answer {
        self.eyes.try_run(&["doctor"]).await
    }

    /// A console with the doctor's configuration, changed.
    pub fn console_with(&self, name: &str, change: impl Fn(String) -> String) -> Console {
        written(&self.shop, name, &change(configuration(&self.shop)))
    }

    /// The doctor looks through another configuration from now on.
    pub fn look_through(&mut self, name: &str, change: impl Fn(String) -> String) {
        self.eyes = self.console_with(name, change);
    }

    /// The doctor looks through its own configuration again.
    pub fn look_plainly(&mut self) {
        self.look_through("doctor", |text| text);
    }

    /// A proxy to the server of `url`, and the same URL through it.
    pub async fn proxy_to(&mut self, url: &str) -> String {
        let parsed = url::Url::parse(url).expect("a URL");
        let (host, port) = (parsed.host_str(), parsed.port());
        let (host, port) = (host.expect("a host"), port.expect("a port"));
        let proxy = Proxy::to(host, port, &self.tasks).await.expect("listens");
        let through = url.replacen(
            &format!("@{host}:{port}"),
            &format!("@{host}:{}", proxy.port()),
            1,
        );
        assert_ne!(through, url);
        self.proxy = Some(proxy);
        through
    }

    /// What passes through the proxy from now on.
    pub fn line(&self, line: Line) {
        self.proxy.as_ref().expect("a proxy").set(line);
    }

    // ---- tables --------------------------------------------------------------------------------

    pub async fn orders(&self, statement: &str) {
        sql(&self.shop.orders, statement).await;
    }

    pub async fn inventory(&self, statement: &str) {
        sql(&self.shop.inventory, statement).await;
    }

    /// Name of the orders' database.
    pub fn orders_database(&self) -> String {
        let options = self.shop.orders.connect_options();
        options.get_database().unwrap_or_default().to_owned()
    }

    /// A number from the orders' database.
    pub async fn number(&self, statement: &str) -> i64 {
        let row = sqlx::query(AssertSqlSafe(statement.to_owned()))
            .fetch_one(&self.shop.orders)
            .await;
        row.expect("a row").get(0)
    }

    /// Commits one event that has been due for so many seconds.
    pub async fn emit(&self, event: &Event, event_type: &str, due_s: u32) {
        sqlx::query(
            "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload,
             created_at, next_attempt_at)
             VALUES (?, ?, ?, ?, ?, NOW(6) - INTERVAL ? SECOND, NOW(6) - INTERVAL ? SECOND)",
        )
        .bind(&event.id)
        .bind(&event.key)
        .bind(event.version)
        .bind(event_type)
        .bind(String::from_utf8_lossy(&event.body).as_ref())
        .bind(due_s)
        .bind(due_s)
        .execute(&self.shop.orders)
        .await
        .expect("an outbox row");
    }

    /// Commits orders that are due now.
    pub async fn order(&self, how_many: i64) {
        for n in 0..how_many {
            self.emit(&Event::order(n, true), "order.created", 0).await;
        }
    }

    // ---- workers -------------------------------------------------------------------------------

    /// One pass of a dispatcher.
    pub async fn dispatch(&self) {
        self.console.run(&["worker", "dispatcher", "--once"]).await;
    }

    /// Starts a worker with a crash point, and waits until it stands there.
    pub async fn start_until(&mut self, console: &Console, worker: &str, point: (&str, &str)) {
        let (name, action) = point;
        let before = console.worker_log().matches(name).count();
        self.worker = Some(console.start_worker(&[worker], &format!("{name}={action}")));
        until("the crash point", || async {
            console.worker_log().matches(name).count() > before
        })
        .await;
    }

    /// Starts workers that run until they are killed.
    pub fn start(&mut self, console: &Console, workers: &[&str]) {
        self.worker = Some(console.start_worker(workers, ""));
    }

    /// `kill -9`.
    pub async fn kill_worker(&mut self) {
        let mut worker = self.worker.take().expect("a worker");
        worker.kill().await.expect("kill -9");
    }

    /// Every lease of the outbox has run out.
    pub async fn time_passes(&self) {
        self.orders(
            "UPDATE outbox_events SET lease_until = NOW(6) - INTERVAL 5 SECOND WHERE status = 'sending'",
        )
        .await;
    }

    /// Reaper and dispatcher at work until everything is sent and seen.
    pub async fn pipeline_goes_on(&self) {
        self.time_passes().await;
        self.console.run(&["worker", "reaper", "--once"]).await;
        until("everything is sent", || async {
            self.orders(
                "UPDATE outbox_events SET next_attempt_at = NOW(6) WHERE status = 'pending'",
            )
            .await;
            self.dispatch().await;
            let waits = "SELECT COUNT(*) FROM outbox_events WHERE status <> 'sent'";
            self.number(waits).await == 0
        })
        .await;
        self.all_is_consumed().await;
    }

    /// Waits until no event is without its effect.
    pub async fn all_is_consumed(&self) {
        until("nothing is missing", || async {
            self.missing().await.is_empty()
        })
        .await;
    }

    /// Orders of the outbox that have neither an inbox row nor a dead letter. One look into an index an order:
    /// tens of thousands are asked about after a load.
    pub async fn missing(&self) -> Vec<(String, Vec<u8>)> {
        let inventory = self.shop.database();
        let statement = format!(
            "SELECT o.event_id, CAST(o.payload AS BINARY) FROM outbox_events o
             WHERE o.event_type LIKE 'order.%'
             AND NOT EXISTS (SELECT 1 FROM `{inventory}`.consumer_inbox i
                             WHERE i.consumer_name = 'inventory' AND i.event_id = o.event_id)
             AND NOT EXISTS (SELECT 1 FROM `{inventory}`.dead_letters d WHERE d.event_id = o.event_id)"
        );
        sqlx::query_as(AssertSqlSafe(statement))
            .fetch_all(&self.shop.orders)
            .await
            .expect("rows")
    }

    /// Every event has its effect or its dead letter, and none has two effects.
    pub async fn nothing_is_lost_and_nothing_doubled(&self) {
        let missing = self.missing().await;
        assert!(missing.is_empty(), "lost: {missing:?}");
        let doubled = "SELECT COUNT(*) FROM (SELECT event_id FROM effects GROUP BY event_id \
                       HAVING COUNT(*) > 1) twice";
        assert_eq!(
            self.shop.count(doubled).await,
            0,
            "effects that are doubled"
        );
    }

    /// A person reads the business tables, and books what never came.
    pub async fn reconciled_by_hand(&self) {
        for (id, body) in self.missing().await {
            take_effect(&self.shop.inventory, &id, &body).await;
        }
    }

    // ---- broker --------------------------------------------------------------------------------

    /// Another consumer in the place of the one there is.
    pub async fn change_consumer(&mut self, manner: Option<Manner>) {
        if let Some(consumer) = self.consumer.take() {
            consumer.leave().await;
        }
        if let Some(manner) = manner {
            self.consumer = Some(Consumer::attach(&self.shop, manner).await);
        }
    }

    /// The shop's queue, with or without a way for what is rejected.
    pub async fn declare_work_queue(&self, dead_letters: bool) {
        let mut arguments = vec![("x-queue-type", text("quorum"))];
        if dead_letters {
            arguments.push(("x-dead-letter-exchange", text("shop.dead")));
        }
        self.declare(QUEUE, arguments).await;
    }

    /// A queue that takes orders.
    pub async fn declare(&self, queue: &str, arguments: Vec<(&str, AMQPValue)>) {
        let (connection, channel) = self.shop.channel().await;
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert(name.into(), value);
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(queue.into(), durable, table)
            .await
            .expect("declared");
        let (exchange, key) = ("shop.events".into(), "order.*".into());
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        channel
            .queue_bind(queue.into(), exchange, key, options, none)
            .await
            .expect("bound");
        drop(connection.close(200, "OK".into()).await);
    }

    /// Waits until the broker's statistics tell something of the shop's queue: they come seconds late, and a
    /// fault they do not show is not there yet for anybody.
    pub async fn statistics(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        let vhost = self.shop.vhost.replace('/', "%2f");
        until(what, || async {
            let facts = self.management(&format!("queues/{vhost}/{QUEUE}")).await;
            wanted(&facts)
        })
        .await;
    }

    /// Waits until a rate of the statistics has been 0 for longer than one of their samples is valid.
    pub async fn is_still(&self, of: &str) {
        let since = std::cell::Cell::new(Instant::now());
        self.statistics(&format!("{of} is still"), |facts| {
            if rate(facts, of) > 0.0 {
                since.set(Instant::now());
            }
            since.get().elapsed() > SAMPLE
        })
        .await;
    }

    /// One answer of the management API, as the broker gives it; nothing for what is not there.
    pub async fn management(&self, path: &str) -> Value {
        let mut url = url::Url::parse(&self.shop.servers.management).expect("a URL");
        let account = (url.username().to_owned(), url.password().map(str::to_owned));
        url.set_username("").expect("a host");
        url.set_password(None).expect("a host");
        let answer = self
            .http
            .get(format!("{url}api/{path}"))
            .basic_auth(account.0, account.1)
            .send()
            .await
            .expect("the management API answers");
        answer.json().await.unwrap_or_default()
    }

    /// Events that the consumer rejected lie in the dead-letter queue.
    pub async fn died(&self, events: usize) {
        for n in 0..events {
            let n = i64::try_from(n).expect("small");
            self.emit(&Event::order(n, false), "order.created", 0).await;
        }
        self.dispatch().await;
        self.shop.arrives(DLQ, events).await;
    }

    /// Leaves nothing behind.
    pub async fn close(mut self) {
        self.change_consumer(None).await;
        self.shop.close().await;
        if let Some(node) = self.node.take() {
            node.stop().await;
        }
        assert!(self.tasks.stop(PATIENCE).await, "the proxies end");
    }
}

/// Nothing is said, and all was seen.
pub fn is_quiet(answer: &Answer) -> bool {
    let items = answer.json["items"].as_array();
    answer.code == 0 && answer.json["complete"] == true && items.is_some_and(Vec::is_empty)
}

fn client() -> reqwest::Client {
    // Another test of this process may have been first.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build();
    client.expect("an HTTP client")
}

/// A rate of the statistics; nothing has happened yet where there is none.
pub fn rate(facts: &Value, of: &str) -> f64 {
    let rate = &facts["message_stats"][format!("{of}_details")]["rate"];
    rate.as_f64().unwrap_or_default()
}

/// A text argument of a queue.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

async fn sql(pool: &MySqlPool, statement: &str) {
    sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(pool)
        .await
        .expect("runs");
}

/// The shop's configuration, with the limits of these stories and sagas.
fn configuration(shop: &Shop) -> String {
    let outbox = "outbox = { layout = \"native\", exchange = \"shop.events\" }\n";
    let changes = [
        // A slow machine is no fault of the pipeline.
        (
            "statement_timeout = \"500ms\"\n",
            "statement_timeout = \"5s\"\nrefresh = \"300ms\"\n".to_owned(),
        ),
        (
            outbox,
            format!("{outbox}sagas = {{ layout = \"native\" }}\n"),
        ),
    ];
    let mut text = shop.console.configuration();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}: {text}");
        text = text.replacen(from, &to, 1);
    }
    text + LIMITS
}

fn written(shop: &Shop, name: &str, text: &str) -> Console {
    let config = shop.folder().join(format!("{name}.toml"));
    std::fs::write(&config, text).expect("a configuration");
    Console::new(config, shop.folder())
}
