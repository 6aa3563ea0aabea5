//! The consumer runtime on SQLite and the in-process broker: one effect a delivery, whatever happens.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::base::backoff::Backoff;
use crate::model::message::{FieldValue, Message};
use crate::pipeline::dead_letter_collector::Collector;
use crate::pipeline::headers;
use crate::pipeline::test_support::{Bench, Meddler, message};
use crate::store::{BusinessTx, Value};

mod trouble;
mod versions;
mod waiting_room;

const QUEUE: &str = "inventory.orders";
const EFFECT: &str = "INSERT INTO reservations (order_no, sku, quantity, state) \
     VALUES (?, 'SKU-TEA', 1, 'reserved')";
const EFFECTS: &str = "SELECT COUNT(*) FROM reservations";
const INBOX: &str = "SELECT COUNT(*) FROM consumer_inbox";

/// Does one effect a call, then whatever the event type says.
#[derive(Default)]
struct Scripted {
    calls: AtomicU64,
}

#[async_trait]
impl Handler for Scripted {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let number = i64::try_from(call).expect("small");
        if let Err(error) = tx.execute(EFFECT, &[Value::Int(number)]).await {
            return error.into();
        }
        match event.event_type.as_deref() {
            Some("flaky") if event.attempt == 1 => Outcome::Transient("busy".to_owned()),
            Some("locked") if call == 0 => Outcome::Contended("lock wait".to_owned()),
            Some("hopeless") => Outcome::Transient("processor answered 502".to_owned()),
            Some("panic") => panic!("index out of range"),
            Some("hang") => std::future::pending().await,
            Some("bad") => Outcome::Permanent {
                class: "decode: missing field `sku`".to_owned(),
                error: "missing field `sku` at line 1 column 58".to_owned(),
            },
            Some("no") => Outcome::Rejected,
            _ => Outcome::Done,
        }
    }

    fn version(&self) -> &'static str {
        "4.2.0"
    }
}

fn settings(bench: &Bench) -> ConsumerSettings {
    ConsumerSettings {
        retry_delays: vec![Duration::from_millis(1), Duration::from_millis(2)],
        backoff: Backoff {
            base: Duration::ZERO,
            cap: Duration::ZERO,
        },
        time_limit: Duration::from_secs(10),
        ..ConsumerSettings::of(bench.service("inventory"))
    }
}

fn consumer(bench: &Bench, ports: (Arc<dyn Store>, Arc<dyn Broker>)) -> Consumer {
    let handler: Arc<dyn Handler> = Arc::new(Scripted::default());
    let work = (handler, settings(bench));
    Consumer::with_settings(bench.service("inventory"), ports, &Clock::System, work)
        .expect("an inbox")
}

/// Passes until `is_over`, added up; the problems of all of them.
async fn run_until(
    consumer: &mut Consumer,
    is_over: impl Fn(&Report) -> bool,
) -> (Report, Vec<String>) {
    let mut total = Report::new(NAME, "inventory");
    let mut problems = Vec::new();
    let passes = async {
        while !is_over(&total) {
            let report = consumer.run_once().await;
            for (counter, n) in &report.counts {
                total.add(counter, *n);
            }
            problems.extend(report.problem);
        }
    };
    timeout(Duration::from_secs(20), passes)
        .await
        .expect("it comes to that");
    (total, problems)
}

/// Consumes `messages` in one pass.
async fn consume(bench: &Bench, messages: Vec<Message>) -> Report {
    bench.put(QUEUE, messages).await;
    consumer(bench, bench.connected("inventory"))
        .run_once()
        .await
}

async fn counts(bench: &Bench) -> (i64, i64) {
    (
        bench.number("inventory", EFFECTS).await,
        bench.number("inventory", INBOX).await,
    )
}

#[tokio::test]
async fn a_second_delivery_has_no_second_effect() {
    let bench = Bench::new().await;
    let event = message(Some("e-1"), "ok", b"{}");
    let report = consume(&bench, vec![event.clone(), event]).await;
    assert_eq!((report.get("done"), report.get("duplicates")), (1, 1));
    assert_eq!(counts(&bench).await, (1, 1));
    assert_eq!(bench.ready(QUEUE).await, 0);
}

#[tokio::test]
async fn an_acknowledgement_lost_after_the_commit_has_no_second_effect() {
    let bench = Bench::new().await;
    bench
        .put(QUEUE, vec![message(Some("e-1"), "ok", b"{}")])
        .await;
    let broker = Meddler::new(&bench.broker);
    broker.acks_lost.store(1, Ordering::SeqCst);
    let mut first = consumer(&bench, (bench.store("inventory"), Arc::new(broker)));
    let report = first.run_once().await;
    assert!(report.problem.expect("told").contains("connection lost"));
    drop(first);
    let report = consumer(&bench, bench.connected("inventory"))
        .run_once()
        .await;
    assert_eq!((report.get("done"), report.get("duplicates")), (0, 1));
    assert_eq!(counts(&bench).await, (1, 1));
}

#[tokio::test]
async fn a_failed_try_rolls_inbox_and_effect_back_together_and_then_works_once() {
    let bench = Bench::new().await;
    let event = message(Some("e-1"), "flaky", b"{}");
    bench.put(QUEUE, vec![event]).await;
    let mut consumer = consumer(&bench, bench.connected("inventory"));
    let (report, problems) = run_until(&mut consumer, |r| r.get("done") == 1).await;
    assert_eq!((report.get("retried"), problems.as_slice()), (1, &[][..]));
    assert_eq!(counts(&bench).await, (1, 1));
}

#[tokio::test]
async fn a_lock_is_tried_again_at_once_and_not_sent_round() {
    let bench = Bench::new().await;
    let report = consume(&bench, vec![message(Some("e-1"), "locked", b"{}")]).await;
    assert_eq!((report.get("retried"), report.get("done")), (0, 1));
    assert_eq!(counts(&bench).await, (1, 1));
}

#[tokio::test]
async fn a_message_that_waits_for_its_next_try_holds_nobody_up() {
    let bench = Bench::new().await;
    let messages = vec![
        message(Some("e-1"), "flaky", b"{}"),
        message(Some("e-2"), "ok", b"{}"),
    ];
    bench.put(QUEUE, messages).await;
    let service = bench.service("inventory");
    let settings = ConsumerSettings {
        retry_delays: vec![Duration::from_hours(1)],
        ..settings(&bench)
    };
    let handler: Arc<dyn Handler> = Arc::new(Scripted::default());
    let (ports, work) = (bench.connected("inventory"), (handler, settings));
    let mut consumer =
        Consumer::with_settings(service, ports, &Clock::System, work).expect("an inbox");
    let report = consumer.run_once().await;
    assert_eq!((report.get("retried"), report.get("done")), (1, 1));
    assert_eq!(bench.ready(QUEUE).await, 0);
    let waiting = bench.take("inventory.orders.retry.3600000").await;
    let [waiting] = waiting.as_slice() else {
        panic!("one waits: {waiting:?}")
    };
    let table = &waiting.message.properties.headers;
    assert_eq!(table.get(headers::ATTEMPT), Some(&FieldValue::I64(1)));
    let reason = table.get(headers::RETRY_REASON);
    assert_eq!(reason.and_then(FieldValue::as_text), Some("busy"));
}

#[tokio::test]
async fn h_12_the_failed_queue_of_a_retried_message_is_the_work_queue_whoever_dead_letters_it() {
    let bench = Bench::new().await;
    for dead_letter_queue in [Some("inventory.orders.dlq".to_owned()), None] {
        let event = message(Some("e-1"), "hopeless", b"{}");
        let out = crate::broker::Outgoing {
            exchange: "shop.events".to_owned(),
            routing_key: "order.created".to_owned(),
            message: event,
        };
        let publisher = bench.broker.publisher().await.expect("a publisher");
        publisher.publish(vec![out], Duration::from_secs(5)).await;
        bench.take("notification.orders").await;
        let service = bench.service("inventory");
        let settings = ConsumerSettings {
            dead_letter_queue,
            ..settings(&bench)
        };
        let handler: Arc<dyn Handler> = Arc::new(Scripted::default());
        let (ports, work) = (bench.connected("inventory"), (handler, settings));
        let mut consumer =
            Consumer::with_settings(service, ports, &Clock::System, work).expect("an inbox");
        let (report, _) = run_until(&mut consumer, |r| r.get("dead") == 1).await;
        assert_eq!(report.get("retried"), 2);
        consumer.drain().await;
        let mut collector = Collector::new(
            &bench.ports.context,
            bench.service("inventory"),
            bench.connected("inventory"),
            &Clock::System,
        );
        collector.run_once().await;
        let letters = bench.open_letters("inventory").await;
        let [letter] = letters.as_slice() else {
            panic!("one letter: {letters:?}")
        };
        assert_eq!(letter.failed_queue.as_deref(), Some(QUEUE));
        assert_eq!(letter.source_exchange.as_deref(), Some("shop.events"));
        assert_eq!(letter.source_routing_key.as_deref(), Some("order.created"));
        assert_eq!(letter.reason.as_deref(), Some("rejected"));
    }
}

#[tokio::test]
async fn without_its_retry_queue_an_event_is_tried_again_here_and_that_is_said() {
    let bench = Bench::new().await;
    bench
        .put(QUEUE, vec![message(Some("e-1"), "flaky", b"{}")])
        .await;
    let mut broker = Meddler::new(&bench.broker);
    broker.refuses_to_declare = true;
    let ports = (
        bench.store("inventory"),
        Arc::new(broker) as Arc<dyn Broker>,
    );
    let mut consumer = consumer(&bench, ports);
    let (report, problems) = run_until(&mut consumer, |r| r.get("done") == 1).await;
    assert_eq!(report.get("retried"), 1);
    let told = problems.join("; ");
    assert!(told.contains("inventory.orders.retry.1"), "{told}");
    assert!(told.contains("may not declare"), "{told}");
    assert_eq!(counts(&bench).await, (1, 1));
}

#[tokio::test]
async fn a_stop_finishes_what_runs_and_gives_the_rest_back() {
    let bench = Bench::new().await;
    let messages = (0..5)
        .map(|n| message(Some(&format!("e-{n}")), "ok", b"{}"))
        .collect();
    bench.put(QUEUE, messages).await;
    let mut consumer = consumer(&bench, bench.connected("inventory"));
    let mut report = Report::new(NAME, "inventory");
    consumer.subscription.open().await.expect("opens");
    for _ in 0..5 {
        let delivery = consumer.subscription.next().await.expect("reads");
        let delivery = delivery.expect("a message");
        consumer.take(delivery, &mut report).await.expect("takes");
    }
    consumer.start_jobs();
    consumer.drain().await;
    assert_eq!(counts(&bench).await, (1, 1), "the one that ran");
    assert_eq!(bench.ready(QUEUE).await, 4, "the rest is back");
}

#[tokio::test]
async fn a_business_rejection_is_committed_and_acknowledged() {
    let bench = Bench::new().await;
    let report = consume(&bench, vec![message(Some("e-1"), "no", b"{}")]).await;
    assert_eq!(report.get("rejected"), 1);
    assert_eq!(counts(&bench).await, (1, 1));
    assert_eq!(bench.ready("inventory.orders.dlq").await, 0);
}

#[tokio::test]
async fn what_cannot_be_consumed_leaves_no_row_and_a_dead_letter_that_says_why() {
    let bench = Bench::new().await;
    let mut expiring = message(Some("e-bad"), "bad", b"\x00\xff");
    expiring.properties.expiration = Some("60000".to_owned());
    let messages = vec![
        expiring,
        message(Some("e-panic"), "panic", b"{}"),
        message(Some("e-hopeless"), "hopeless", b"{}"),
        message(None, "ok", b"{}"),
        message(Some("e-good"), "ok", b"{}"),
    ];
    bench.put(QUEUE, messages).await;
    let mut consumer = consumer(&bench, bench.connected("inventory"));
    let (report, _) = run_until(&mut consumer, |r| r.get("dead") == 4).await;
    assert_eq!(report.get("done"), 1);
    assert_eq!(counts(&bench).await, (1, 1));
    let mut collector = Collector::new(
        &bench.ports.context,
        bench.service("inventory"),
        bench.connected("inventory"),
        &Clock::System,
    );
    assert_eq!(collector.run_once().await.get("new"), 4);
    let letters = bench.open_letters("inventory").await;
    let mut causes: Vec<_> = letters
        .iter()
        .map(|letter| (letter.error_class.as_str(), letter.retry_count))
        .collect();
    causes.sort_unstable();
    assert_eq!(
        causes,
        [
            ("decode: missing field `sku`", Some(1)),
            ("gave up: processor answered #", Some(3)),
            ("invalid: no message id", Some(1)),
            ("panic", Some(1)),
        ]
    );
    for letter in &letters {
        assert_eq!(letter.failed_queue.as_deref(), Some(QUEUE));
        assert_eq!(letter.consumer.as_str(), "inventory");
        assert_eq!(letter.consumer_version.as_deref(), Some("4.2.0"));
    }
    let bad = letters
        .iter()
        .find(|l| l.event_id == Some("e-bad".into()))
        .expect("the letter");
    let detail = bench
        .store("inventory")
        .dead_letter(&bad.dead_letter_id)
        .await;
    let detail = detail.expect("reads").expect("the letter");
    assert_eq!(detail.message.payload.bytes(), b"\x00\xff");
    assert_eq!(detail.message.properties.expiration, None);
}

#[tokio::test]
async fn a_handler_that_never_answers_is_given_up_after_its_tries_and_leaves_no_row() {
    let bench = Bench::new().await;
    bench
        .put(QUEUE, vec![message(Some("e-1"), "hang", b"{}")])
        .await;
    let settings = ConsumerSettings {
        time_limit: Duration::from_millis(50),
        ..settings(&bench)
    };
    let handler: Arc<dyn Handler> = Arc::new(Scripted::default());
    let (ports, work) = (bench.connected("inventory"), (handler, settings));
    let service = bench.service("inventory");
    let mut consumer =
        Consumer::with_settings(service, ports, &Clock::System, work).expect("an inbox");
    let (report, _) = run_until(&mut consumer, |r| r.get("dead") == 1).await;
    assert_eq!((report.get("done"), report.get("retried")), (0, 2));
    assert_eq!(counts(&bench).await, (0, 0));
    let mut collector = Collector::new(
        &bench.ports.context,
        bench.service("inventory"),
        bench.connected("inventory"),
        &Clock::System,
    );
    assert_eq!(collector.run_once().await.get("new"), 1);
    let letters = bench.open_letters("inventory").await;
    let [letter] = letters.as_slice() else {
        panic!("one letter: {letters:?}")
    };
    assert_eq!(
        (letter.error_class.as_str(), letter.retry_count),
        ("gave up: handler did not answer within #ms", Some(3))
    );
    assert_eq!(letter.consumer_version.as_deref(), Some("4.2.0"));
}

#[tokio::test]
async fn the_same_id_with_other_content_is_a_conflict_and_is_not_absorbed() {
    let bench = Bench::new().await;
    let messages = vec![
        message(Some("e-1"), "ok", b"{}"),
        message(Some("e-1"), "ok", br#"{"other":1}"#),
    ];
    let report = consume(&bench, messages).await;
    assert_eq!((report.get("done"), report.get("dead")), (1, 1));
    let dead = bench.take("inventory.orders.dlq").await;
    let class = dead[0].message.properties.headers.get(headers::ERROR_CLASS);
    assert_eq!(
        class.and_then(FieldValue::as_text),
        Some("conflict: same id, other content")
    );
}

#[tokio::test]
async fn a_stop_is_waited_for_as_long_as_the_configuration_lets_it_take() {
    let bench = Bench::new().await;
    for limit in [Duration::from_secs(1), Duration::from_mins(3)] {
        let settings = ConsumerSettings {
            drain_limit: limit,
            ..settings(&bench)
        };
        let handler: Arc<dyn Handler> = Arc::new(Scripted::default());
        let (service, ports) = (bench.service("inventory"), bench.connected("inventory"));
        let consumer = Consumer::with_settings(service, ports, &Clock::System, (handler, settings))
            .expect("an inbox");
        let waited = consumer.drain_limit();
        assert!(waited > limit, "{waited:?}: time for the acknowledgements");
        assert!(waited < limit + Duration::from_secs(5), "{waited:?}");
    }
}
