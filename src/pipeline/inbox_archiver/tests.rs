//! What may be forgotten, and what may not.

use super::*;
use crate::base::clock::Clock;
use crate::config::Context;
use crate::pipeline::dead_letter_collector::Collector;
use crate::pipeline::test_support::{Bench, message, new_event};
use crate::store::ClaimRequest;

const DAY: Duration = Duration::from_hours(24);
const HOUR: Duration = Duration::from_hours(1);

const INBOX: &str = "SELECT COUNT(*) FROM consumer_inbox";
const ARCHIVE: &str = "SELECT COUNT(*) FROM consumer_inbox_archive";

async fn bench(change: impl FnOnce(&mut Context)) -> Bench {
    Bench::with(|context| {
        context.inbox_retention = Some(7 * DAY);
        context.retention.archive = true;
        context.retention.interval = Duration::ZERO;
        change(context);
    })
    .await
}

fn archiver(bench: &Bench) -> Archiver {
    let service = bench.service("inventory");
    Archiver::new(&bench.ports, service, &bench.store("inventory"), false).expect("an inbox")
}

/// Inbox rows e-1, e-2, … that were processed 10 and 1 days ago.
async fn process(bench: &Bench, ids: &[&str]) {
    for id in ids {
        let mut tx = bench.store("inventory").begin().await.expect("begins");
        let found = tx
            .inbox_insert(&"inventory".into(), &(*id).into(), &"a".repeat(64))
            .await;
        found.expect("inserts");
        tx.commit().await.expect("commits");
    }
}

/// Ten days pass for every row there is.
async fn ten_days_later(bench: &Bench) {
    for statement in [
        "UPDATE consumer_inbox SET processed_at = processed_at - 864000000000",
        "UPDATE dead_letters SET first_died_at = first_died_at - 864000000000, \
         last_died_at = last_died_at - 864000000000",
    ] {
        bench.execute("inventory", statement).await;
    }
}

async fn counts(bench: &Bench) -> (i64, i64) {
    (
        bench.number("inventory", INBOX).await,
        bench.number("inventory", ARCHIVE).await,
    )
}

#[tokio::test]
async fn old_rows_move_to_the_archive_and_the_horizon_with_them() {
    let bench = bench(|_| {}).await;
    process(&bench, &["e-1", "e-2"]).await;
    ten_days_later(&bench).await;
    process(&bench, &["e-3"]).await;
    let store = bench.store("inventory");
    let consumer = "inventory".into();
    assert_eq!(store.inbox_horizon(&consumer).await, Ok(None));
    let report = archiver(&bench).run_once().await;
    assert_eq!((report.get("archived"), report.problem), (2, None));
    assert_eq!(counts(&bench).await, (1, 2));
    let horizon = store.inbox_horizon(&consumer).await.expect("reads");
    let archived = store.archived_inbox_row(&consumer, &"e-2".into()).await;
    let archived = archived.expect("reads").expect("the row");
    assert_eq!(Some(archived.processed_at), horizon);
    let report = archiver(&bench).run_once().await;
    assert!(report.is_idle, "nothing else is old enough");
}

#[tokio::test]
async fn without_an_archive_old_rows_go() {
    let bench = bench(|context| context.retention.archive = false).await;
    process(&bench, &["e-1"]).await;
    ten_days_later(&bench).await;
    let report = archiver(&bench).run_once().await;
    assert_eq!(report.get("deleted"), 1);
    assert_eq!(counts(&bench).await, (0, 0));
}

#[tokio::test]
async fn i_01_nothing_is_forgotten_that_an_open_dead_letter_may_still_need() {
    let bench = bench(|_| {}).await;
    // Committed, then refused: the row is there, and so is a dead letter of the same event.
    process(&bench, &["e-1"]).await;
    bench
        .put(
            "inventory.orders.dlq",
            vec![message(Some("e-1"), "order.created", b"{}")],
        )
        .await;
    let mut collector = Collector::new(
        &bench.ports.context,
        bench.service("inventory"),
        bench.connected("inventory"),
        &Clock::System,
    );
    assert_eq!(collector.run_once().await.get("new"), 1);
    ten_days_later(&bench).await;
    let report = archiver(&bench).run_once().await;
    assert_eq!((report.get("archived"), report.problem), (0, None));
    assert_eq!(counts(&bench).await, (1, 0));
    // Resolved, it is not needed any more.
    bench
        .execute("inventory", "UPDATE dead_letters SET status = 'resolved'")
        .await;
    let report = archiver(&bench).run_once().await;
    assert_eq!(report.get("archived"), 1);
}

#[tokio::test]
async fn i_01_while_dead_letters_cannot_be_read_nothing_is_forgotten() {
    let bench = bench(|_| {}).await;
    process(&bench, &["e-1"]).await;
    ten_days_later(&bench).await;
    let payment = bench.store("payment");
    payment
        .create_business_tables(&["DROP TABLE dead_letters"])
        .await
        .expect("drops");
    let report = archiver(&bench).run_once().await;
    let problem = report.problem.expect("told");
    assert!(problem.contains("nothing is forgotten"), "{problem}");
    assert_eq!(counts(&bench).await, (1, 0));
}

#[tokio::test]
async fn i_01_nothing_is_forgotten_that_a_dispatcher_may_send_again() {
    let bench = bench(|_| {}).await;
    process(&bench, &["e-1"]).await;
    let store = bench.store("orders");
    let event = new_event("order.created", "{}");
    let mut tx = store.begin().await.expect("begins");
    tx.append(&event).await.expect("appends");
    tx.commit().await.expect("commits");
    ten_days_later(&bench).await;
    // Twenty days old, and claimed by a dispatcher that died after its confirm.
    bench
        .execute(
            "orders",
            "UPDATE outbox_events SET created_at = created_at - 1728000000000",
        )
        .await;
    let report = archiver(&bench).run_once().await;
    assert_eq!((report.get("archived"), report.problem), (0, None));
    let request = ClaimRequest {
        batch_rows: 1,
        lease: HOUR,
    };
    let claim = store.claim_batch(&request).await.expect("claims");
    let report = archiver(&bench).run_once().await;
    assert_eq!((report.get("archived"), report.problem), (0, None));
    let sent = store.complete(&claim.token, std::slice::from_ref(&event.event_id));
    assert_eq!(sent.await, Ok(1));
    assert_eq!(archiver(&bench).run_once().await.get("archived"), 1);
}

#[tokio::test]
async fn what_is_wrong_stands_until_the_next_look() {
    let bench = bench(|_| {}).await;
    let payment = bench.store("payment");
    payment
        .create_business_tables(&["DROP TABLE dead_letters"])
        .await
        .expect("drops");
    let mut archiver = archiver(&bench);
    let first = archiver.run_once().await.problem;
    assert!(first.is_some());
    assert_eq!(archiver.run_once().await.problem, first, "not looked again");
}

#[tokio::test]
async fn batches_go_on_until_nothing_is_old() {
    let bench = bench(|context| context.retention.batch_rows = 2).await;
    let ids: Vec<String> = (0..25).map(|n| format!("e-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    process(&bench, &ids).await;
    ten_days_later(&bench).await;
    let mut archiver = archiver(&bench);
    let first = archiver.run_once().await;
    assert_eq!((first.get("archived"), first.is_idle), (20, false));
    let second = archiver.run_once().await;
    assert_eq!(second.get("archived"), 5);
    assert_eq!(counts(&bench).await, (0, 25));
}

#[test]
fn the_longest_wish_wins() {
    let keep = |window, letter: Option<f64>| {
        let what = "a dead letter";
        let oldest = letter.map(|age_s| Oldest { age_s, what });
        longest(7 * DAY, window, oldest, Duration::ZERO)
    };
    assert_eq!(
        longest(DAY, None, None, 7 * DAY).age,
        7 * DAY + HOUR,
        "a copy in a retry queue comes back after its delay"
    );
    assert_eq!(keep(None, None).age, 7 * DAY);
    assert_eq!(keep(Some(14 * DAY), None).age, 14 * DAY);
    assert_eq!(keep(Some(DAY), Some(3600.0)).age, 7 * DAY);
    let letter = keep(Some(14 * DAY), Some(20.0 * 86_400.0));
    assert_eq!(letter.age, 20 * DAY + HOUR);
    let told = letter.because.expect("told");
    assert!(told.contains("held back by a dead letter"), "{told}");
}

#[tokio::test]
async fn a_context_that_keeps_its_inbox_for_ever_has_no_archiver_unless_one_is_asked_for() {
    let bench = Bench::with(|context| context.inbox_retention = None).await;
    let service = bench.service("inventory");
    let store = bench.store("inventory");
    assert!(Archiver::new(&bench.ports, service, &store, false).is_none());
    let mut asked = Archiver::new(&bench.ports, service, &store, true).expect("asked for");
    let problem = asked.run_once().await.problem.expect("told");
    assert!(problem.contains("inbox_retention is not set"), "{problem}");
}
