//! The consumer runtime on real servers: two consumers with several lanes each, events in any order and
//! more than once, one effect each and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive::base::clock::Clock;
use redrive::broker::{Broker, Outgoing};
use redrive::model::message::{FieldValue, Message, Payload, Properties};
use redrive::pipeline::Worker as _;
use redrive::pipeline::consumer::{
    Consumer, ConsumerSettings, Handler, Outcome, Received, VersionPolicy,
};
use redrive::store::{BusinessTx, Value};
use tokio::sync::Notify;

use super::broker::arena::{Arena, PATIENCE, confirmed, declare, queue};
use super::store::fixture::{Fixture, leak, native};

const QUEUE: &str = "inventory.orders";
const AGGREGATES: i64 = 8;
const VERSIONS: i64 = 12;
const EFFECT: &str = "INSERT INTO effects_in_order (aggregate_id, version) VALUES (?, ?)";

/// Writes each effect down in the order of the commits; fails now and then, the first time.
#[derive(Default)]
struct Ledger {
    calls: AtomicU64,
}

#[async_trait]
impl Handler for Ledger {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let aggregate = event.aggregate_id.as_ref().expect("a key").to_string();
        let version = event.aggregate_version.expect("a version");
        let row = [Value::Text(aggregate), Value::Int(version)];
        if let Err(error) = tx.execute(EFFECT, &row).await {
            return error.into();
        }
        if event.attempt == 1 && call % 7 == 3 {
            return Outcome::Transient("busy".to_owned());
        }
        Outcome::Done
    }

    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::increment()
    }
}

fn event(aggregate: i64, version: i64) -> Outgoing {
    let mut properties = Properties {
        message_id: Some(format!("e-{aggregate}-{version}")),
        kind: Some("order.changed".to_owned()),
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let headers = &mut properties.headers;
    headers.set("aggregate_id", FieldValue::text(format!("a-{aggregate}")));
    headers.set("aggregate_version", FieldValue::I64(version));
    Outgoing {
        exchange: String::new(),
        routing_key: QUEUE.to_owned(),
        message: Message {
            properties,
            payload: Payload::new(b"{}".to_vec()),
        },
    }
}

/// Every event, in an order that suits nobody, each fifth twice.
fn shuffled() -> Vec<Outgoing> {
    let mut events: Vec<(i64, i64)> = (0..AGGREGATES)
        .flat_map(|aggregate| (1..=VERSIONS).map(move |version| (aggregate, version)))
        .collect();
    events.sort_by_key(|(aggregate, version)| (version * 7 + aggregate * 5) % 11);
    let again = events.clone().into_iter().step_by(5);
    let again: Vec<_> = again.collect();
    events.extend(again);
    events
        .into_iter()
        .map(|(aggregate, version)| event(aggregate, version))
        .collect()
}

fn consumer(fixture: &Fixture, broker: &Arc<dyn Broker>) -> Consumer {
    with_handler(fixture, broker, Arc::new(Ledger::default()))
}

fn with_handler(
    fixture: &Fixture,
    broker: &Arc<dyn Broker>,
    handler: Arc<dyn Handler>,
) -> Consumer {
    let service = native("sqlite::memory:");
    let settings = ConsumerSettings {
        prefetch: 20,
        lanes: 4,
        retry_delays: vec![Duration::from_millis(100); 3],
        time_limit: PATIENCE,
        ..ConsumerSettings::of(&service)
    };
    let ports = (fixture.another(), Arc::clone(broker));
    Consumer::with_settings(&service, ports, &Clock::System, (handler, settings))
        .expect("it has an inbox")
}

/// Two consumers until everything has its effect.
async fn consume_all(fixture: &Fixture, broker: &Arc<dyn Broker>) {
    let mut first = consumer(fixture, broker);
    let mut second = consumer(fixture, broker);
    let all = AGGREGATES * VERSIONS;
    let passes = async {
        loop {
            let (one, two) = tokio::join!(first.run_once(), second.run_once());
            for report in [one, two] {
                assert_eq!(report.get("dead"), 0, "{report:?}");
            }
            let done = fixture.number("SELECT COUNT(*) FROM consumer_inbox").await;
            if done == all {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE * 2, passes)
        .await
        .expect("everything is consumed");
    tokio::join!(first.drain(), second.drain());
}

async fn each_effect_once_and_in_order(fixture: Fixture, test: &str) {
    let number = if fixture.product == "sqlite" {
        "INTEGER PRIMARY KEY AUTOINCREMENT"
    } else {
        "BIGINT AUTO_INCREMENT PRIMARY KEY"
    };
    let table = leak(format!(
        "CREATE TABLE effects_in_order (n {number}, aggregate_id VARCHAR(64) NOT NULL, \
         version BIGINT NOT NULL)"
    ));
    fixture
        .store
        .create_business_tables(vec![table].leak())
        .await
        .expect("creates");
    Arena::rabbitmq(test)
        .await
        .run(|broker| async move {
            declare(
                &broker,
                &[],
                vec![queue(QUEUE), queue("inventory.orders.dlq")],
            )
            .await;
            confirmed(&broker, shuffled()).await;
            consume_all(&fixture, &broker).await;
            let all = AGGREGATES * VERSIONS;
            let effects = fixture
                .number("SELECT COUNT(*) FROM effects_in_order")
                .await;
            assert_eq!(effects, all, "one effect an event");
            let out_of_order = fixture
                .number(
                    "SELECT COUNT(*) FROM effects_in_order a JOIN effects_in_order b \
                     ON a.aggregate_id = b.aggregate_id AND a.n < b.n AND a.version >= b.version",
                )
                .await;
            assert_eq!(out_of_order, 0);
            let waiting = fixture.number("SELECT COUNT(*) FROM waiting_events").await;
            assert_eq!(waiting, 0, "nobody is left waiting");
            fixture.drop_database().await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_each_effect_happens_once_and_in_order() {
    each_effect_once_and_in_order(Fixture::mariadb().await, "consume on mariadb").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mysql_each_effect_happens_once_and_in_order() {
    if let Some(fixture) = Fixture::mysql().await {
        each_effect_once_and_in_order(fixture, "consume on mysql").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_each_effect_happens_once_and_in_order() {
    each_effect_once_and_in_order(Fixture::sqlite().await, "consume on sqlite").await;
}

/// Waits for a sign before the first event of `a-0` is done.
#[derive(Default)]
struct Slow {
    sign: Notify,
}

#[async_trait]
impl Handler for Slow {
    async fn handle(&self, event: &Received, _tx: &mut dyn BusinessTx) -> Outcome {
        if event.aggregate_id == Some("a-0".into()) {
            self.sign.notified().await;
        }
        Outcome::Done
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_a_slow_event_holds_up_its_own_lane_and_nothing_else() {
    let fixture = Fixture::mariadb().await;
    Arena::rabbitmq("a slow lane")
        .await
        .run(|broker| async move {
            declare(
                &broker,
                &[],
                vec![queue(QUEUE), queue("inventory.orders.dlq")],
            )
            .await;
            let events = (0..16).map(|aggregate| event(aggregate, 1));
            confirmed(&broker, events.collect()).await;
            let slow = Arc::new(Slow::default());
            let mut consumer = with_handler(&fixture, &broker, slow.clone());
            let mut done = 0;
            let passes = async {
                // Four lanes: what is behind the slow event waits, the other lanes are read empty.
                while done < 8 {
                    done += consumer.run_once().await.get("done");
                }
                assert!(done < 16, "the slow one is not done");
                slow.sign.notify_one();
                while done < 16 {
                    done += consumer.run_once().await.get("done");
                }
            };
            tokio::time::timeout(PATIENCE, passes)
                .await
                .expect("the others go on");
            consumer.drain().await;
            let left = broker.depth(QUEUE).await.expect("answers");
            assert_eq!(
                left.expect("the queue").ready,
                0,
                "everything is acknowledged"
            );
            fixture.drop_database().await;
        })
        .await;
}
