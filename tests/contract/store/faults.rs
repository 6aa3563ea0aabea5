//! Locks, clean-ups and refusals of a busy database: what a dispatcher does about each.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::embedded::EmbeddedBroker;
use redrive::broker::{Broker, NewQueue, Topology};
use redrive::config::DispatcherSettings;
use redrive::model::ids::EventId;
use redrive::model::operation::Verb;
use redrive::model::outbox::OutboxState;
use redrive::pipeline::Worker as _;
use redrive::pipeline::dispatcher::Dispatcher;
use redrive::store::{Begun, FailedAttempt, Store};

use super::fixture::{Fixture, audit, claim, emit, ids_of, leak, operation, outbox_part};
use super::journal::repair_of;

/// The next `n` changes of a row, or only those `when` an outbox row becomes so, end in this error of the server. The counter is in a table that knows no
/// transactions, so that a rolled back change has used one up.
async fn fail_next(f: &Fixture, n: u32, error: u16, when: &str) {
    let ddl = [
        "CREATE TABLE IF NOT EXISTS faults (what INT NOT NULL, left_over INT NOT NULL) ENGINE = MyISAM".to_owned(),
        "DELETE FROM faults".to_owned(),
        format!("INSERT INTO faults VALUES ({error}, {n})"),
    ];
    let triggers = [
        ("UPDATE", "outbox_events", when),
        ("UPDATE", "dead_letters", "TRUE"),
        ("INSERT", "repairs", "TRUE"),
    ]
        .into_iter()
        .flat_map(|(verb, table, when)| {
            [
                format!("DROP TRIGGER IF EXISTS faulty_{table}"),
                format!(
                    "CREATE TRIGGER faulty_{table} BEFORE {verb} ON {table} FOR EACH ROW BEGIN \
                     DECLARE n INT; SELECT left_over INTO n FROM faults LIMIT 1; \
                     IF n > 0 AND {when} THEN UPDATE faults SET left_over = left_over - 1; \
                     SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {error}, \
                     MESSAGE_TEXT = 'Deadlock found when trying to get lock; try restarting transaction'; \
                     END IF; END"
                ),
            ]
        });
    let statements: Vec<&'static str> = ddl.into_iter().chain(triggers).map(leak).collect();
    f.store
        .create_business_tables(statements.leak())
        .await
        .expect("faults are set up");
}

pub async fn q_02_a_deadlock_is_repeated_and_nothing_else_is(f: &Fixture) {
    if f.product == "sqlite" {
        return; // One writer at a time: it waits instead.
    }
    f.emit(&["e-1", "e-2", "e-3"]).await;
    for error in [1213, 1205] {
        fail_next(f, 2, error, "TRUE").await;
        let taken = claim(&f.store, 3).await;
        assert_eq!(taken.events.len(), 3, "{error}");
        assert!(taken.events.iter().all(|e| e.row.attempts == Some(1)));
        fail_next(f, 3, error, "TRUE").await;
        assert_eq!(
            f.store.give_back(&taken.token, &ids_of(&taken)).await,
            Ok(3)
        );
    }
    let taken = claim(&f.store, 3).await;
    fail_next(f, 3, 1213, "TRUE").await;
    let sent = [EventId::new("e-1"), EventId::new("e-2")];
    assert_eq!(f.store.complete(&taken.token, &sent).await, Ok(2));
    fail_next(f, 3, 1213, "TRUE").await;
    let failed = [FailedAttempt {
        event_id: EventId::new("e-3"),
        error: "unroutable".into(),
        retry_after: None,
    }];
    assert_eq!(f.store.fail_attempts(&taken.token, &failed).await, Ok(1));
    fail_next(f, 3, 1213, "TRUE").await;
    let replay = operation(Verb::Replay);
    let begun = f
        .store
        .replay_outbox_row(&replay, &failed[0].event_id, 1, &audit(&replay, "outcome"))
        .await;
    assert_eq!(begun, Ok(Begun::Started));
    let id = f.bury("d-1").await;
    fail_next(f, 3, 1213, "TRUE").await;
    let repair = operation(Verb::Repair);
    let what = repair_of(f.reservation(&id).await, &repair, "r-1");
    assert_eq!(f.store.repair(&repair, &what).await, Ok(Begun::Started));
    assert_eq!(f.number("SELECT COUNT(*) FROM repairs").await, 1);
    assert_eq!(f.store.audit_verify().await, Ok(Ok(2)), "one entry each");
    assert_eq!(f.number("SELECT left_over FROM faults").await, 0, "all met");
}

/// A dispatcher on this database, and a broker with one queue.
async fn dispatcher(
    store: &Arc<dyn Store>,
    settings: DispatcherSettings,
) -> (Dispatcher, Arc<EmbeddedBroker>) {
    let broker = EmbeddedBroker::new("faults");
    let topology = Topology {
        exchanges: vec!["shop.events".into()],
        queues: vec![NewQueue {
            name: "orders".into(),
            bindings: vec![("shop.events".into(), "#".into())],
            ..NewQueue::default()
        }],
    };
    broker.declare(&topology).await.expect("declares");
    let ports: (Arc<dyn Store>, Arc<dyn Broker>) = (Arc::clone(store), broker.clone());
    let dispatcher = Dispatcher::new("orders", outbox_part("native"), settings, ports);
    (dispatcher.expect("limits that fit"), broker)
}

async fn published(broker: &EmbeddedBroker) -> u64 {
    let depth = broker.depth("orders").await.expect("answers");
    depth.expect("the queue").ready
}

pub async fn q_02_a_mark_that_meets_locks_is_repeated_and_nothing_is_sent_twice(f: &Fixture) {
    if f.product == "sqlite" {
        return; // As above.
    }
    f.emit(&["e-1", "e-2", "e-3"]).await;
    let (mut dispatcher, broker) = dispatcher(&f.store, DispatcherSettings::default()).await;
    // More than one call of the store repeats by itself.
    fail_next(f, 9, 1213, "NEW.status = 'sent'").await;
    let report = dispatcher.run_once().await;
    assert_eq!(
        (report.problem.clone(), report.get("sent")),
        (None, 3),
        "{report:?}"
    );
    assert_eq!(published(&broker).await, 3, "each once");
    assert_eq!(f.ids(OutboxState::Sent).await.len(), 3);
    assert_eq!(f.number("SELECT left_over FROM faults").await, 0);
}

pub async fn q_20_what_could_not_be_marked_in_time_is_marked_later_and_not_sent_again(f: &Fixture) {
    let says = "2 confirmed events are not marked yet";
    is_marked_later_and_sent_once(f, (1213, "NEW.status = 'sent'"), says).await;
}

/// The database refuses the mark for good, row by row, and refuses to park the first row as well.
pub async fn q_20_what_can_be_neither_marked_nor_parked_is_marked_later_and_not_sent_again(
    f: &Fixture,
) {
    let when = "NEW.status IN ('sent', 'failed')";
    is_marked_later_and_sent_once(f, (1644, when), "nor parked").await;
}

/// Confirmed events meet `error` at their sent mark: nothing is claimed before they are marked, and each went out once.
async fn is_marked_later_and_sent_once(f: &Fixture, (error, when): (u16, &str), says: &str) {
    if f.product == "sqlite" {
        return; // One writer at a time: it waits instead.
    }
    f.emit(&["e-1", "e-2"]).await;
    let (mut dispatcher, broker) = dispatcher(&f.store, DispatcherSettings::default()).await;
    fail_next(f, 1000, error, when).await;
    let problem = dispatcher.run_once().await.problem.expect("told");
    assert!(problem.contains(says), "{problem}");
    f.emit(&["e-3"]).await;
    let report = dispatcher.run_once().await;
    assert_eq!(
        report.get("claimed"),
        0,
        "first what is confirmed: {report:?}"
    );
    f.sql("UPDATE faults SET left_over = 0").await;
    let report = dispatcher.run_once().await;
    assert_eq!(
        (report.problem.clone(), report.get("sent")),
        (None, 3),
        "{report:?}"
    );
    assert_eq!(published(&broker).await, 3, "each once");
}

pub async fn q_18_what_is_wrong_with_the_database_is_said_and_mended_by_itself(f: &Fixture) {
    f.emit(&["e-1"]).await;
    let store = f.another();
    let (mut dispatcher, broker) = dispatcher(&store, DispatcherSettings::default()).await;
    f.sql("ALTER TABLE outbox_events RENAME TO elsewhere").await;
    let problem = dispatcher.run_once().await.problem.expect("told");
    assert!(
        problem.contains("outbox_events") && problem.contains("redrive check"),
        "{problem}"
    );
    assert_eq!(published(&broker).await, 0);
    f.sql("ALTER TABLE elsewhere RENAME TO outbox_events").await;
    let report = dispatcher.run_once().await;
    assert_eq!(
        (report.problem.clone(), report.get("sent")),
        (None, 1),
        "{report:?}"
    );
    store.close().await;
}

pub async fn q_21_a_clean_up_in_batches_does_not_lock_the_relay_out(f: &Fixture) {
    let ids: Vec<String> = (0..600).map(|n| format!("e-{n:03}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let taken = claim(&f.store, 500).await;
    assert_eq!(
        f.store.complete(&taken.token, &ids_of(&taken)).await,
        Ok(500)
    );
    if f.product == "sqlite" {
        f.sql("DELETE FROM outbox_events WHERE status = 'sent'")
            .await;
        assert_eq!(claim(&f.store, 500).await.events.len(), 100);
        return; // One writer at a time: a clean-up and a claim take turns.
    }
    // A clean-up has deleted a batch by its keys and has not committed yet.
    let mut cleaning = f.another().begin().await.expect("begins");
    let sent: Vec<String> = taken
        .events
        .iter()
        .map(|e| format!("'{}'", e.row.event_id))
        .collect();
    let deleted = cleaning
        .execute(
            leak(format!(
                "DELETE FROM outbox_events WHERE event_id IN ({}) AND status = 'sent'",
                sent.join(", ")
            )),
            &[],
        )
        .await;
    assert_eq!(deleted, Ok(500));
    let others = async {
        f.emit(&["f-1"]).await;
        let mut seen = 0;
        loop {
            let taken = claim(&f.store, 40).await;
            if taken.events.is_empty() {
                return seen;
            }
            seen += taken.events.len();
            let ids = ids_of(&taken);
            assert_eq!(
                f.store.complete(&taken.token, &ids).await,
                Ok(ids.len() as u64)
            );
        }
    };
    let within = Duration::from_secs(15);
    let seen = tokio::time::timeout(within, others).await;
    assert_eq!(seen.expect("nobody waits for the clean-up"), 101);
    cleaning.commit().await.expect("commits");
    assert_eq!(
        f.ids(OutboxState::Sent).await.len(),
        100,
        "of 101, in a page of 100"
    );
}

pub async fn a_hundred_held_rows_cost_one_claim_and_are_not_met_again(f: &Fixture) {
    let ids: Vec<String> = (0..100).map(|n| format!("e-{n:03}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    f.sql("UPDATE outbox_events SET status = 'failed' WHERE event_id = 'e-000'")
        .await;
    emit(&f.store, &["other"]).await;
    f.sql(
        "UPDATE outbox_events SET aggregate_id = 'order-77', aggregate_version = 5 \
         WHERE event_id = 'other'",
    )
    .await;
    let request = redrive::store::ClaimRequest {
        batch_rows: 50,
        lease: Duration::from_secs(30),
    };
    let (mut held, mut claimed, mut claims) = (0, Vec::new(), 0);
    loop {
        let claim = f.store.claim_sequences(&request).await.expect("claims");
        if claim.held == 0 && claim.events.is_empty() {
            break;
        }
        held += claim.held;
        claimed.extend(ids_of(&claim));
        claims += 1;
    }
    assert_eq!(
        (held, claimed, claims),
        (99, vec![EventId::new("other")], 2)
    );
}
