//! The dispatcher: its decisions as a table, its passes on SQLite and the in-process broker.

use std::sync::atomic::{AtomicU64, Ordering};

use rstest::rstest;

use super::*;
use crate::model::outbox::OutboxState;
use crate::pipeline::test_support::{Bench, Hook, Meddler, new_event};

fn settings() -> DispatcherSettings {
    DispatcherSettings::default()
}

#[rstest]
#[case(PublishOutcome::Confirmed, 8, "sent")]
#[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 1, "slow unroutable: 312 NO_ROUTE")]
#[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 8, "fail given up after 8 attempts: unroutable: 312 NO_ROUTE")]
#[case(PublishOutcome::Refused("exchange not found".into()), 1, "slow refused: exchange not found")]
#[case(
    PublishOutcome::Nacked,
    7,
    "backoff refused by broker (nack): queue full or limit"
)]
#[case(
    PublishOutcome::Nacked,
    9,
    "fail given up after 9 attempts: refused by broker (nack): queue full or limit"
)]
#[case(PublishOutcome::Unknown("no confirm".into()), 1, "backoff unknown whether sent: no confirm")]
fn every_outcome_has_one_consequence(
    #[case] outcome: PublishOutcome,
    #[case] attempts: u32,
    #[case] expected: &str,
) {
    let said = match verdict(&outcome, attempts, &settings()) {
        Next::Sent => "sent".to_owned(),
        Next::Retry {
            wait: Wait::Slow,
            error,
        } => format!("slow {error}"),
        Next::Retry {
            wait: Wait::Backoff,
            error,
        } => format!("backoff {error}"),
        Next::Fail { error } => format!("fail {error}"),
    };
    assert_eq!(said, expected);
}

fn dispatcher(bench: &Bench, settings: DispatcherSettings) -> Dispatcher {
    let part = bench.service("orders").outbox.clone().expect("an outbox");
    Dispatcher::new("orders", part, settings, bench.connected("orders")).expect("valid limits")
}

fn quick() -> DispatcherSettings {
    DispatcherSettings {
        attempts_max: 2,
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
async fn b_01_an_unroutable_event_is_never_marked_and_fails_after_its_attempts() {
    let bench = Bench::new().await;
    let event = new_event("nobody.listens", "{}");
    bench.append("orders", &event).await;
    let mut dispatcher = dispatcher(&bench, quick());
    let report = dispatcher.run_once().await;
    assert_eq!(
        (
            report.get("unroutable"),
            report.get("retried"),
            report.get("sent")
        ),
        (1, 1, 0)
    );
    let (now, error) = state(&bench, &event.event_id).await;
    assert_eq!(now, OutboxState::Pending);
    assert!(error.expect("told").starts_with("unroutable: 312 NO_ROUTE"));
    let report = dispatcher.run_once().await;
    assert_eq!(report.get("failed"), 1);
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Failed);
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
    assert_eq!((report.get("sent"), report.get("retried")), (49, 1));
    assert_eq!(bench.ready("inventory.orders").await, 49);
    let (now, error) = state(&bench, &bad.event_id).await;
    assert_eq!(now, OutboxState::Pending);
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
    assert!(
        refused
            .expect("refused")
            .contains("lease (10s) must be longer")
    );
}
