//! The dispatcher's passes on SQLite and the in-process broker.

mod answers;
#[cfg(feature = "drill")]
mod armed;

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::base::backoff::Backoff;
use crate::broker::{NewQueue, Topology};
use crate::config::Order;
use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldValue, Message};
use crate::model::outbox::{NewEvent, OutboxState};
use crate::pipeline::test_support::{Bench, Hook, Meddler, new_event};
use crate::store::ClaimRequest;
use crate::store::sql::SqlStore;

fn settings() -> DispatcherSettings {
    DispatcherSettings::default()
}

fn dispatcher(bench: &Bench, settings: DispatcherSettings) -> Dispatcher {
    let part = bench.service("orders").outbox.clone().expect("an outbox");
    Dispatcher::new("orders", part, settings, bench.connected("orders")).expect("valid limits")
}

fn quick() -> DispatcherSettings {
    DispatcherSettings {
        attempts_max: 2,
        give_up_after: Duration::ZERO,
        backoff: Backoff {
            base: Duration::ZERO,
            cap: Duration::ZERO,
        },
        ..settings()
    }
}

async fn state(bench: &Bench, id: &EventId) -> (OutboxState, Option<String>) {
    let event = bench.store("orders").outbox_event(id).await.expect("reads");
    let row = event.expect("the row").row;
    (row.state, row.last_error)
}

#[tokio::test]
async fn a_committed_event_is_published_once_and_marked() {
    let bench = Bench::new().await;
    let event = new_event("order.created", r#"{"a":1.10}"#);
    bench.append("orders", &event).await;
    let mut dispatcher = dispatcher(&bench, settings());
    let report = dispatcher.run_once().await;
    assert_eq!(report.problem, None);
    assert_eq!((report.get("claimed"), report.get("sent")), (1, 1));
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Sent);
    assert!(dispatcher.run_once().await.is_idle);
    let taken = bench.take("inventory.orders").await;
    let ids: Vec<_> = taken
        .iter()
        .map(|d| d.message.properties.message_id.clone())
        .collect();
    assert_eq!(ids, [Some(event.event_id.to_string())]);
    assert_eq!(taken[0].message.payload, event.payload);
}

#[tokio::test]
async fn b_01_an_unroutable_event_is_never_marked_and_fails_at_once() {
    let bench = Bench::new().await;
    let event = new_event("nobody.listens", "{}");
    bench.append("orders", &event).await;
    let report = dispatcher(&bench, settings()).run_once().await;
    assert_eq!(
        (
            report.get("unroutable"),
            report.get("failed"),
            report.get("sent")
        ),
        (1, 1, 0)
    );
    let (now, error) = state(&bench, &event.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    assert!(error.expect("told").starts_with("unroutable: 312 NO_ROUTE"));
}

#[tokio::test]
async fn what_the_broker_may_take_later_is_tried_a_bounded_number_of_times() {
    let bench = Bench::new().await;
    full_queue(&bench).await;
    let event = NewEvent {
        exchange: Some("full".to_owned()),
        ..of("8812", 1)
    };
    bench.append("orders", &event).await;
    let mut dispatcher = dispatcher(&bench, quick());
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("nacked"), report.get("retried")), (1, 1));
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Pending);
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("nacked"), report.get("failed")), (1, 1));
    let (now, error) = state(&bench, &event.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    let error = error.expect("told");
    assert!(error.starts_with("given up after 2 attempts, "), "{error}");
    assert!(error.contains("refused by broker (nack)"), "{error}");
}

#[tokio::test]
async fn a_queue_that_stays_full_costs_no_row_and_a_dispatcher_that_dies_meanwhile_none_either() {
    let bench = Bench::new().await;
    full_queue(&bench).await;
    let event = NewEvent {
        exchange: Some("full".to_owned()),
        ..of("8812", 1)
    };
    bench.append("orders", &event).await;
    // More attempts than a row may have, and it is young.
    let limits = DispatcherSettings {
        give_up_after: settings().give_up_after,
        ..quick()
    };
    let mut dispatcher = dispatcher(&bench, limits);
    for _ in 0..5 {
        let report = dispatcher.run_once().await;
        assert_eq!((report.get("nacked"), report.get("retried")), (1, 1));
    }
    let store = bench.store("orders");
    let dies = ClaimRequest {
        batch_rows: 1,
        lease: Duration::ZERO,
    };
    let claim = store.claim_batch(&dies).await.expect("claims");
    assert_eq!(claim.events.len(), 1);
    assert_eq!(store.reap(10).await.expect("reaps").rows, 1);
    assert_eq!(dispatcher.run_once().await.get("retried"), 1);
    assert_eq!(bench.take("full").await.len(), 1);
    assert_eq!(dispatcher.run_once().await.get("sent"), 1);
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Sent);
}

/// A queue that nacks from now on.
async fn full_queue(bench: &Bench) {
    let full = NewQueue {
        name: "full".to_owned(),
        max_length: Some(1),
        bindings: vec![("full".to_owned(), "#".to_owned())],
        ..NewQueue::default()
    };
    let topology = Topology {
        exchanges: vec!["full".to_owned()],
        queues: vec![full],
    };
    bench.broker.declare(&topology).await.expect("declares");
    bench.put("full", vec![Message::default()]).await;
}

#[tokio::test]
async fn b_03_a_missing_exchange_fails_its_own_row_and_no_other() {
    let bench = Bench::new().await;
    let mut bad = new_event("order.created", "{}");
    bad.exchange = Some("does.not.exist".to_owned());
    for position in 0..50 {
        if position == 17 {
            bench.append("orders", &bad).await;
        } else {
            bench
                .append("orders", &new_event("order.created", "{}"))
                .await;
        }
    }
    let report = dispatcher(&bench, settings()).run_once().await;
    assert_eq!((report.get("sent"), report.get("failed")), (49, 1));
    assert_eq!(bench.ready("inventory.orders").await, 49);
    let (now, error) = state(&bench, &bad.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    assert!(error.expect("told").contains("does.not.exist"));
}

#[tokio::test]
async fn b_06_a_blocked_broker_means_nothing_is_claimed() {
    let bench = Bench::new().await;
    let event = new_event("order.created", "{}");
    bench.append("orders", &event).await;
    let mut dispatcher = dispatcher(&bench, settings());
    bench.broker.set_blocked(Some("memory"));
    let report = dispatcher.run_once().await;
    assert_eq!(report.get("claimed"), 0);
    assert!(report.problem.expect("told").contains("memory"));
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Pending);
    bench.broker.set_blocked(None);
    assert_eq!(dispatcher.run_once().await.get("sent"), 1);
}

#[tokio::test]
async fn a_broker_that_is_away_costs_no_attempt() {
    let bench = Bench::new().await;
    bench
        .append("orders", &new_event("order.created", "{}"))
        .await;
    let mut dispatcher = dispatcher(&bench, settings());
    assert_eq!(dispatcher.run_once().await.get("sent"), 1);
    let event = new_event("order.created", "{}");
    bench.append("orders", &event).await;
    bench.broker.set_up(false);
    let report = dispatcher.run_once().await;
    assert!(report.problem.is_some());
    let row = bench
        .store("orders")
        .outbox_event(&event.event_id)
        .await
        .expect("reads");
    let row = row.expect("the row").row;
    assert_eq!((row.state, row.attempts), (OutboxState::Pending, Some(0)));
}

fn meddling(bench: &Bench, settings: DispatcherSettings, hook: Hook) -> Dispatcher {
    let part = bench.service("orders").outbox.clone().expect("an outbox");
    let broker = Meddler {
        before_publish: Some(hook),
        ..Meddler::new(&bench.broker)
    };
    let ports: (Arc<dyn Store>, Arc<dyn Broker>) = (bench.store("orders"), Arc::new(broker));
    Dispatcher::new("orders", part, settings, ports).expect("valid limits")
}

#[tokio::test]
async fn a_lost_fence_does_not_complete_and_is_counted() {
    let bench = Bench::new().await;
    let event = new_event("order.created", "{}");
    bench.append("orders", &event).await;
    let store = bench.store("orders");
    let hook: Hook = Arc::new(move || {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let leases = store.leases(10).await.expect("leases");
            let group = &leases.groups[0];
            let token = group.claim_token.clone().expect("a token");
            assert_eq!(store.give_back(&token, &group.sample).await, Ok(1));
        })
    });
    let report = meddling(&bench, settings(), hook).run_once().await;
    assert_eq!(
        (
            report.get("confirmed"),
            report.get("sent"),
            report.get("lost_fence")
        ),
        (1, 0, 1)
    );
    assert!(
        !report.is_idle,
        "too slow for its lease it sends everything twice: the loop has to back off"
    );
    assert!(
        report
            .problem
            .expect("told")
            .contains("belonged to somebody else")
    );
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Pending);
}

#[tokio::test]
async fn a_slow_batch_keeps_its_lease() {
    let bench = Bench::new().await;
    bench
        .append("orders", &new_event("order.created", "{}"))
        .await;
    let (store, looks) = (bench.store("orders"), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&looks);
    let hook: Hook = Arc::new(move || {
        let (store, seen) = (Arc::clone(&store), Arc::clone(&seen));
        Box::pin(async move {
            let lease = |leases: crate::model::outbox::Leases| leases.groups[0].lease_until;
            let first = lease(store.leases(10).await.expect("leases"));
            while lease(store.leases(10).await.expect("leases")) == first {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let limits = DispatcherSettings {
        lease: Duration::from_millis(600),
        send_deadline: Duration::from_millis(500),
        statement_timeout: Duration::from_millis(20),
        ..settings()
    };
    let report = meddling(&bench, limits, hook).run_once().await;
    assert!(report.get("renewed") >= 1, "{report:?}");
    assert_eq!((report.get("sent"), report.get("lost_fence")), (1, 0));
}

#[tokio::test]
async fn a_lease_shorter_than_its_batch_is_refused_with_the_arithmetic() {
    let bench = Bench::new().await;
    let part = bench.service("orders").outbox.clone().expect("an outbox");
    let limits = DispatcherSettings {
        lease: Duration::from_secs(10),
        ..settings()
    };
    let refused = Dispatcher::new("orders", part, limits, bench.connected("orders")).err();
    assert_eq!(
        refused.expect("refused"),
        "orders: dispatcher.lease: a batch may outlive its lease: statement_timeout 3s (the claim's answer) + \
         send_deadline 10s + statement_timeout 3s (the sent mark) = 16s, which is not below lease 10s; make \
         lease longer than 16s"
    );
}

fn of(aggregate: &str, version: i64) -> NewEvent {
    NewEvent {
        aggregate_id: AggregateId::new(aggregate),
        aggregate_version: version,
        ..new_event("order.created", "{}")
    }
}

fn unroutable(event: NewEvent) -> NewEvent {
    NewEvent {
        routing_key: Some("nobody.listens".to_owned()),
        ..event
    }
}

async fn append_all(bench: &Bench, events: &[NewEvent]) {
    let mut tx = bench.store("orders").begin().await.expect("begins");
    for event in events {
        tx.append(event).await.expect("appends");
    }
    tx.commit().await.expect("commits");
}

async fn sql(bench: &Bench, statement: &'static str) {
    let mut tx = bench.store("orders").begin().await.expect("begins");
    tx.execute(statement, &[]).await.expect("runs");
    tx.commit().await.expect("commits");
}

/// Aggregate and version of what arrived, in order.
async fn arrived(bench: &Bench) -> Vec<(String, i64)> {
    let of = |delivery: &crate::broker::Delivery| {
        let headers = &delivery.message.properties.headers;
        let key = headers.get("aggregate_id").and_then(FieldValue::as_text);
        let version = headers
            .get("aggregate_version")
            .and_then(FieldValue::as_i64);
        (key.expect("a key").to_owned(), version.expect("a version"))
    };
    bench
        .take("inventory.orders")
        .await
        .iter()
        .map(of)
        .collect()
}

fn in_sequence() -> DispatcherSettings {
    DispatcherSettings {
        order: Order::Sequence,
        ..settings()
    }
}

#[tokio::test]
async fn a_pass_goes_on_while_batches_are_full_and_keeps_their_order() {
    let bench = Bench::new().await;
    let events: Vec<_> = (1..=230).map(|version| of("8812", version)).collect();
    append_all(&bench, &events).await;
    let limits = DispatcherSettings {
        batch_rows: 20,
        ..settings()
    };
    let report = dispatcher(&bench, limits).run_once().await;
    assert_eq!((report.get("claimed"), report.get("sent")), (230, 230));
    let versions: Vec<_> = arrived(&bench).await.into_iter().map(|(_, v)| v).collect();
    assert_eq!(versions, (1..=230).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failed_head_holds_its_sequence_and_nothing_else() {
    let bench = Bench::new().await;
    let bad = unroutable(of("8812", 2));
    let events = [
        of("8812", 1),
        bad.clone(),
        of("8812", 3),
        of("8812", 4),
        of("9004", 1),
        of("9004", 2),
    ];
    append_all(&bench, &events).await;
    let mut dispatcher = dispatcher(&bench, in_sequence());
    let report = dispatcher.run_once().await;
    assert_eq!(
        (
            report.get("sent"),
            report.get("failed"),
            report.get("given_back")
        ),
        (3, 1, 2),
        "{report:?}"
    );
    let expected = [("8812", 1), ("9004", 1), ("9004", 2)];
    let mut seen = arrived(&bench).await;
    seen.sort();
    assert_eq!(seen, expected.map(|(key, v)| (key.to_owned(), v)));
    // The next claim puts the held rows off, and the one after that does not meet them any more.
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("held"), report.get("claimed")), (2, 0));
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("held"), report.is_idle), (0, true));
    // The binding is mended and the head set back: what waits behind it goes at once, in order.
    sql(
        &bench,
        "UPDATE outbox_events SET status = 'pending', attempts = 0, routing_key = NULL \
         WHERE status = 'failed'",
    )
    .await;
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("sent"), report.get("woken")), (1, 2));
    assert_eq!(dispatcher.run_once().await.get("sent"), 2);
    let versions: Vec<_> = arrived(&bench).await.into_iter().map(|(_, v)| v).collect();
    assert_eq!(versions, [2, 3, 4]);
}

#[tokio::test]
async fn q_12_a_head_that_cannot_be_read_holds_its_sequence_and_nothing_else() {
    let bench = Bench::new().await;
    let bad = of("8812", 2);
    let events = [
        of("8812", 1),
        bad.clone(),
        of("8812", 3),
        of("8812", 4),
        of("9004", 1),
        of("9004", 2),
    ];
    append_all(&bench, &events).await;
    sql(
        &bench,
        "UPDATE outbox_events SET headers = '[[\"x\",' \
         WHERE aggregate_id = '8812' AND aggregate_version = 2",
    )
    .await;
    let mut dispatcher = dispatcher(&bench, in_sequence());
    let report = dispatcher.run_once().await;
    assert_eq!(
        (
            report.get("sent"),
            report.get("failed"),
            report.get("given_back")
        ),
        (3, 1, 2),
        "{report:?}"
    );
    let expected = [("8812", 1), ("9004", 1), ("9004", 2)];
    let mut seen = arrived(&bench).await;
    seen.sort();
    assert_eq!(seen, expected.map(|(key, v)| (key.to_owned(), v)));
    let (now, error) = state_of_unreadable(&bench, &bad.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    assert!(error.expect("told").starts_with("cannot be read: "));
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("held"), report.get("claimed")), (2, 0));
}

#[tokio::test]
async fn an_event_that_is_meant_for_later_is_not_woken() {
    let bench = Bench::new().await;
    append_all(&bench, &[unroutable(of("8812", 1)), of("8812", 2)]).await;
    let later = of("8812", 3);
    append_all(&bench, std::slice::from_ref(&later)).await;
    sql(
        &bench,
        "UPDATE outbox_events SET next_attempt_at = next_attempt_at + 3600000000 \
         WHERE aggregate_version = 3",
    )
    .await;
    let mut dispatcher = dispatcher(&bench, in_sequence());
    dispatcher.run_once().await;
    dispatcher.run_once().await;
    sql(
        &bench,
        "UPDATE outbox_events SET status = 'pending', attempts = 0, routing_key = NULL \
         WHERE status = 'failed'",
    )
    .await;
    assert_eq!(dispatcher.run_once().await.get("woken"), 1);
    assert_eq!(dispatcher.run_once().await.get("sent"), 1);
    assert_eq!(state(&bench, &later.event_id).await.0, OutboxState::Pending);
}

#[tokio::test]
async fn q_12_rows_that_can_never_be_sent_stop_nothing() {
    let bench = Bench::new().await;
    let mut no_exchange = of("1", 1);
    no_exchange.exchange = Some("does.not.exist".to_owned());
    let mut no_header = of("2", 1);
    no_header.headers.set(
        "x".repeat(300),
        FieldValue::text("a name too long for AMQP"),
    );
    let no_text = of("3", 1);
    let mut events = vec![no_exchange, no_header, no_text.clone()];
    events.extend((4..=1000).map(|n| of(&n.to_string(), 1)));
    append_all(&bench, &events).await;
    sql(
        &bench,
        "UPDATE outbox_events SET headers = '[[\"x\",' WHERE aggregate_id = '3'",
    )
    .await;
    let limits = DispatcherSettings {
        batch_rows: 3,
        ..settings()
    };
    let mut dispatcher = dispatcher(&bench, limits);
    let (mut sent, mut failed) = (0, 0);
    loop {
        let report = dispatcher.run_once().await;
        assert_eq!(report.problem, None);
        if report.is_idle {
            break;
        }
        sent += report.get("sent");
        failed += report.get("failed");
    }
    assert_eq!((sent, failed), (997, 3));
    let (now, error) = state_of_unreadable(&bench, &no_text.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    assert!(error.expect("told").starts_with("cannot be read: "));
}

/// A row with broken headers can be listed, though not read whole.
async fn state_of_unreadable(bench: &Bench, id: &EventId) -> (OutboxState, Option<String>) {
    let found = bench.store("orders").outbox_by_prefix(id.as_str()).await;
    let row = found.expect("reads").remove(0);
    (row.state, row.last_error)
}

#[tokio::test]
async fn q_20_what_was_published_and_cannot_be_marked_is_parked_and_not_sent_again() {
    let bench = Bench::new().await;
    let (good, bad) = (of("1", 1), of("2", 1));
    append_all(&bench, &[good.clone(), bad.clone()]).await;
    sql(
        &bench,
        "CREATE TRIGGER no_mark BEFORE UPDATE ON outbox_events \
         WHEN NEW.status = 'sent' AND NEW.aggregate_id = '2' \
         BEGIN SELECT RAISE(ABORT, 'Incorrect string value'); END",
    )
    .await;
    let mut dispatcher = dispatcher(&bench, settings());
    let report = dispatcher.run_once().await;
    assert_eq!(
        (
            report.get("confirmed"),
            report.get("sent"),
            report.get("unrecorded")
        ),
        (2, 1, 1)
    );
    assert!(
        report
            .problem
            .expect("told")
            .contains("refuses its sent mark")
    );
    assert_eq!(state(&bench, &good.event_id).await.0, OutboxState::Sent);
    let (now, error) = state(&bench, &bad.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    let error = error.expect("told");
    assert!(error.starts_with("published, not recorded: "), "{error}");
    assert!(dispatcher.run_once().await.is_idle);
    assert_eq!(bench.ready("inventory.orders").await, 2);
}

#[tokio::test]
async fn a_row_that_ends_every_dispatcher_is_given_up() {
    let bench = Bench::new().await;
    let event = of("8812", 1);
    append_all(&bench, std::slice::from_ref(&event)).await;
    let store = bench.store("orders");
    let request = ClaimRequest {
        batch_rows: 1,
        lease: Duration::ZERO,
    };
    // Claimed, and no word of it any more: once for each attempt it may have.
    for _ in 0..8 {
        assert_eq!(
            store
                .claim_batch(&request)
                .await
                .expect("claims")
                .events
                .len(),
            1
        );
        assert_eq!(store.reap(10).await.expect("reaps").rows, 1);
    }
    let report = dispatcher(&bench, settings()).run_once().await;
    assert_eq!((report.get("failed"), report.get("confirmed")), (1, 0));
    let (now, error) = state(&bench, &event.event_id).await;
    assert_eq!(now, OutboxState::Failed);
    assert!(error.expect("told").contains("ended without an outcome"));
}

#[tokio::test]
async fn q_14_no_transaction_is_open_while_a_batch_is_published_and_a_row_changes_twice() {
    let bench = Bench::new().await;
    append_all(&bench, &[of("1", 1), of("2", 1)]).await;
    sql(&bench, "CREATE TABLE changes (event_id TEXT NOT NULL)").await;
    sql(
        &bench,
        "CREATE TRIGGER counted AFTER UPDATE ON outbox_events \
         BEGIN INSERT INTO changes VALUES (NEW.event_id); END",
    )
    .await;
    // SQLite has one writer at a time: a producer of another process gets in, so nobody holds one.
    let other = SqlStore::connect(
        bench.service("orders"),
        &bench.ports.context.thresholds,
        false,
    )
    .expect("opens");
    let hook: Hook = Arc::new(move || {
        let other = Arc::clone(&other);
        Box::pin(async move {
            let mut tx = other.begin().await.expect("no writer is in the way");
            tx.append(&of("3", 1)).await.expect("appends");
            tx.commit().await.expect("commits");
        })
    });
    let limits = DispatcherSettings {
        batch_rows: 2,
        ..settings()
    };
    let report = meddling(&bench, limits, hook).run_once().await;
    assert!(report.get("sent") >= 2, "{report:?}");
    assert_eq!(report.problem, None);
    let changes = bench
        .number(
            "orders",
            "SELECT COUNT(*) FROM changes WHERE event_id IN \
         (SELECT event_id FROM outbox_events WHERE aggregate_id IN ('1', '2'))",
        )
        .await;
    assert_eq!(changes, 4, "claimed, sent");
}

#[tokio::test]
async fn b_06_what_was_claimed_when_the_alarm_came_is_given_back_untried() {
    let bench = Bench::new().await;
    let events: Vec<_> = (1..=6).map(|n| of(&n.to_string(), 1)).collect();
    append_all(&bench, &events).await;
    let broker = Arc::clone(&bench.broker);
    let hook: Hook = Arc::new(move || {
        let broker = Arc::clone(&broker);
        Box::pin(async move { broker.set_blocked(Some("memory")) })
    });
    let limits = DispatcherSettings {
        batch_rows: 2,
        send_deadline: Duration::from_millis(50),
        ..settings()
    };
    let report = meddling(&bench, limits, hook).run_once().await;
    assert_eq!(report.get("sent"), 0);
    assert_eq!(
        report.get("claimed"),
        report.get("given_back"),
        "{report:?}"
    );
    assert!(report.problem.expect("told").contains("memory"));
    for event in &events {
        let row = bench.store("orders").outbox_event(&event.event_id).await;
        let row = row.expect("reads").expect("the row").row;
        assert_eq!((row.state, row.attempts), (OutboxState::Pending, Some(0)));
    }
    bench.broker.set_blocked(None);
    assert_eq!(
        dispatcher(&bench, settings()).run_once().await.get("sent"),
        6
    );
}

#[tokio::test]
async fn two_dispatchers_in_sequence_keep_every_order() {
    let bench = Bench::new().await;
    let events: Vec<_> = (1..=12)
        .flat_map(|version| (0..5).map(move |key| of(&format!("order-{key}"), version)))
        .collect();
    append_all(&bench, &events).await;
    let limits = DispatcherSettings {
        batch_rows: 7,
        ..in_sequence()
    };
    let (mut a, mut b) = (dispatcher(&bench, limits), dispatcher(&bench, limits));
    let mut sent = 0;
    while sent < 60 {
        let (one, two) = tokio::join!(a.run_once(), b.run_once());
        assert_eq!((one.problem.clone(), two.problem.clone()), (None, None));
        sent += one.get("sent") + two.get("sent");
    }
    let seen = arrived(&bench).await;
    assert_eq!(seen.len(), 60);
    for key in 0..5 {
        let key = format!("order-{key}");
        let versions: Vec<_> = seen
            .iter()
            .filter(|(k, _)| *k == key)
            .map(|(_, v)| *v)
            .collect();
        assert_eq!(versions, (1..=12).collect::<Vec<_>>(), "{key}");
    }
}
