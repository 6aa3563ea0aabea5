//! What is to blame and what is not: full and missing dead-letter queues, databases that stall, refuse or
//! lack a table, events no database takes.

use super::*;
use crate::broker::{NewQueue, Topology};
use crate::pipeline::test_support::new_event;
use crate::store::StoreError;

const DEAD: &str = "inventory.orders.dlq";
const TIGHT: &str = "tight.orders";
const TIGHT_DEAD: &str = "tight.orders.dlq";

/// Fails on the database's word, as the event type says.
struct Refused;

#[async_trait]
impl Handler for Refused {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        let done = match event.event_type.as_deref() {
            Some("binary") => {
                let mut binary = new_event("order.seen", "");
                binary.payload = crate::model::message::Payload::new(vec![0xff]);
                tx.append(&binary).await.map(|()| 0)
            }
            Some("column") => tx.execute("UPDATE reservations SET nope = 1", &[]).await,
            Some("constraint") => {
                tx.execute("INSERT INTO reservations (order_no) VALUES (1)", &[])
                    .await
            }
            Some("slow") => Err(StoreError::TimedOut {
                service: "inventory".to_owned(),
                operation: "business statement",
                after: Duration::from_secs(5),
            }),
            Some("bad") => {
                return Outcome::Permanent {
                    class: "bad".to_owned(),
                    error: "bad".to_owned(),
                };
            }
            Some("nothing works") => return Outcome::Away("no licence".to_owned()),
            _ => tx.execute(EFFECT, &[Value::Int(1)]).await,
        };
        done.map_or_else(Outcome::from, |_| Outcome::Done)
    }
}

fn refused(bench: &Bench, settings: ConsumerSettings) -> Consumer {
    let handler: Arc<dyn Handler> = Arc::new(Refused);
    let ports = bench.connected("inventory");
    let work = (handler, settings);
    Consumer::with_settings(bench.service("inventory"), ports, &Clock::System, work)
        .expect("an inbox")
}

/// A bench whose inventory reads a queue with a dead-letter queue of one place.
async fn tight(dead_letter: Option<&str>) -> Bench {
    let bench = Bench::with(|context| {
        for service in &mut context.services {
            if let (Some(inbox), Some(dead)) = (&mut service.inbox, &mut service.dead_letters)
                && service.name == "inventory"
            {
                TIGHT.clone_into(&mut inbox.queue);
                dead.queues = vec![TIGHT_DEAD.to_owned()];
            }
        }
    })
    .await;
    let topology = Topology {
        exchanges: Vec::new(),
        queues: vec![
            NewQueue {
                name: TIGHT_DEAD.to_owned(),
                max_length: Some(1),
                ..NewQueue::default()
            },
            NewQueue {
                name: TIGHT.to_owned(),
                dead_letter: dead_letter.map(|queue| (String::new(), queue.to_owned())),
                ..NewQueue::default()
            },
        ],
    };
    bench.broker.declare(&topology).await.expect("declares");
    bench
}

fn events(kind: &str, ids: std::ops::Range<u32>) -> Vec<Message> {
    ids.map(|n| message(Some(&format!("e-{n}")), kind, b"{}"))
        .collect()
}

#[tokio::test]
async fn an_event_whose_dead_letter_queue_is_full_is_kept_until_there_is_room() {
    let bench = tight(Some(TIGHT_DEAD)).await;
    bench.put(TIGHT_DEAD, events("in the way", 90..91)).await;
    let mut messages = events("bad", 0..2);
    messages.extend(events("ok", 2..3));
    bench.put(TIGHT, messages).await;
    let mut consumer = refused(&bench, settings(&bench));
    let (report, problems) = run_until(&mut consumer, |r| r.get("done") == 1).await;
    assert_eq!((report.get("held"), report.get("dead")), (2, 0));
    let told = problems.join("; ");
    assert!(told.contains("make room in it"), "{told}");
    assert!(
        consumer.run_once().await.problem.is_some(),
        "as long as it lasts"
    );
    assert_eq!(bench.take(TIGHT_DEAD).await.len(), 1);
    run_until(&mut consumer, |r| r.get("dead") == 1).await;
    assert_eq!(bench.take(TIGHT_DEAD).await.len(), 1);
    run_until(&mut consumer, |r| r.get("dead") == 1).await;
    assert_eq!(bench.take(TIGHT_DEAD).await.len(), 1);
    let report = consumer.run_once().await;
    assert_eq!((report.problem, report.counts), (None, Vec::new()));
    consumer.drain().await;
    assert_eq!(bench.ready(TIGHT).await, 0);
}

#[tokio::test]
async fn an_event_whose_dead_letter_queue_is_missing_is_kept_until_there_is_one() {
    let bench = Bench::new().await;
    bench.put(QUEUE, events("bad", 0..1)).await;
    let settings = ConsumerSettings {
        dead_letter_queue: Some("deleted.dlq".to_owned()),
        ..settings(&bench)
    };
    let mut consumer = refused(&bench, settings);
    let report = consumer.run_once().await;
    assert!(report.problem.expect("told").contains("create deleted.dlq"));
    assert_eq!(bench.ready(DEAD).await, 0);
    let queue = NewQueue {
        name: "deleted.dlq".to_owned(),
        ..NewQueue::default()
    };
    let topology = Topology {
        exchanges: Vec::new(),
        queues: vec![queue],
    };
    bench.broker.declare(&topology).await.expect("declares");
    run_until(&mut consumer, |r| r.get("dead") == 1).await;
    assert_eq!(bench.take("deleted.dlq").await.len(), 1);
}

#[tokio::test]
async fn an_event_that_would_be_lost_is_not_rejected() {
    for dead_letter in [None, Some("deleted.dlq")] {
        let bench = tight(dead_letter).await;
        bench.put(TIGHT, events("bad", 0..1)).await;
        let settings = ConsumerSettings {
            dead_letter_queue: None,
            ..settings(&bench)
        };
        let mut consumer = refused(&bench, settings);
        let report = consumer.run_once().await;
        let told = report.problem.clone().expect("told");
        assert!(told.contains("set dead_letters"), "{told}");
        assert_eq!((report.get("held"), report.get("dead")), (1, 0));
        consumer.drain().await;
        assert_eq!(bench.ready(TIGHT).await, 1, "{dead_letter:?}");
    }
}

/// Takes its database away and hangs.
struct Cut(Arc<dyn Store>);

#[async_trait]
impl Handler for Cut {
    async fn handle(&self, _: &Received, _: &mut dyn BusinessTx) -> Outcome {
        self.0.close().await;
        std::future::pending().await
    }
}

#[tokio::test]
async fn what_fails_while_a_problem_is_being_settled_is_given_back() {
    let bench = Bench::new().await;
    bench.put(QUEUE, events("ok", 0..1)).await;
    // The first pass has a problem, and the event outlives it.
    let mut broker = Meddler::new(&bench.broker);
    broker.refuses_to_declare = true;
    let ports = (
        bench.store("inventory"),
        Arc::new(broker) as Arc<dyn Broker>,
    );
    let handler: Arc<dyn Handler> = Arc::new(Cut(bench.store("inventory")));
    let settings = ConsumerSettings {
        retry_delays: vec![Duration::from_millis(1)],
        time_limit: PASS + PASS / 2,
        ..settings(&bench)
    };
    let work = (handler, settings);
    let mut consumer =
        Consumer::with_settings(bench.service("inventory"), ports, &Clock::System, work)
            .expect("an inbox");
    let report = consumer.run_once().await;
    let told = report.problem.expect("told");
    assert!(told.contains("not reachable"), "{told}");
    assert_eq!(bench.ready(QUEUE).await, 1);
}

#[tokio::test]
async fn an_event_no_database_takes_dies_alone_and_with_a_reason() {
    for (kind, class, tries) in [
        ("binary", "database cannot store the effect", 0),
        ("constraint", "database refused the effect", 0),
        ("column", "gave up: ", 2),
        ("slow", "gave up: ", 2),
    ] {
        let bench = Bench::new().await;
        let mut messages = events(kind, 0..1);
        messages.extend(events("ok", 1..2));
        bench.put(QUEUE, messages).await;
        let mut consumer = refused(&bench, settings(&bench));
        let (report, problems) = run_until(&mut consumer, |r| r.get("dead") == 1).await;
        assert_eq!(
            (report.get("done"), report.get("retried"), problems.len()),
            (1, tries, 0),
            "{kind}: {problems:?}"
        );
        let dead = bench.take(DEAD).await;
        let found = dead[0].message.properties.headers.get(headers::ERROR_CLASS);
        let found = found.and_then(FieldValue::as_text).expect("a class");
        assert!(found.starts_with(class), "{kind}: {found}");
    }
}

#[tokio::test]
async fn a_database_that_refuses_every_event_kills_a_few_and_no_more() {
    let bench = Bench::new().await;
    bench.put(QUEUE, events("constraint", 0..14)).await;
    let mut consumer = refused(&bench, settings(&bench));
    let (report, problems) = run_until(&mut consumer, |r| r.get("held") == 4).await;
    assert_eq!(report.get("dead"), 10);
    let again = consumer.run_once().await;
    assert_eq!((again.get("held"), again.get("dead")), (0, 0));
    let told = again.problem.or(problems.last().cloned()).expect("told");
    assert!(told.contains("not their fault"), "{told}");
    // It takes something again: what it still refuses is to blame.
    bench.put(QUEUE, events("ok", 20..21)).await;
    run_until(&mut consumer, |r| r.get("dead") == 4).await;
    assert_eq!(bench.ready(DEAD).await, 14);
}

#[tokio::test]
async fn a_missing_table_kills_no_message_and_gives_none_back() {
    let bench = Bench::new().await;
    let store = bench.store("inventory");
    store
        .create_business_tables(&["ALTER TABLE consumer_inbox RENAME TO hidden"])
        .await
        .expect("hides it");
    bench.put(QUEUE, events("ok", 0..1)).await;
    let mut consumer = refused(&bench, settings(&bench));
    let report = consumer.run_once().await;
    let told = report.problem.clone().expect("told");
    assert!(told.contains("consumer_inbox"), "{told}");
    assert_eq!((report.get("held"), report.get("dead")), (1, 0));
    assert_eq!(bench.ready(QUEUE).await, 0, "no return is counted");
    // At the same time: a pass may have ended within a try, whose transaction has the only writer.
    let shown = store.create_business_tables(&["ALTER TABLE hidden RENAME TO consumer_inbox"]);
    let (shown, _) = tokio::join!(shown, run_until(&mut consumer, |r| r.get("done") == 1));
    shown.expect("shows it");
    assert_eq!(counts(&bench).await, (1, 1));
}

#[tokio::test]
async fn a_handler_that_can_do_nothing_holds_nobody_elses_events_up() {
    let bench = Bench::new().await;
    let mut messages = events("nothing works", 0..1);
    messages.extend(events("ok", 1..2));
    bench.put(QUEUE, messages).await;
    let mut consumer = refused(&bench, settings(&bench));
    let (report, problems) = run_until(&mut consumer, |r| r.get("done") == 1).await;
    assert_eq!((report.get("held"), report.get("dead")), (1, 0));
    assert!(problems.join("; ").contains("no licence"));
    consumer.drain().await;
    assert_eq!(bench.ready(QUEUE).await, 1);
}
