//! Version policies: newer wins, one by one with a waiting room, guarded transitions.

use super::*;

const VERSION: &str = "SELECT version FROM applied_versions WHERE aggregate_id = '8812'";
const WAITING: &str = "SELECT COUNT(*) FROM waiting_events";
const APPLIED: &str = "SELECT COALESCE(SUM(order_no * 0 + quantity), 0) FROM reservations";
const REMEMBER: &str = "INSERT INTO reservations (order_no, sku, quantity, state) \
     VALUES (?, 'SKU-TEA', ?, 'reserved')";
/// The versions in the order they were applied, as one number: 1, 2, 3 is 123.
const ORDER: &str = "SELECT CAST(COALESCE(GROUP_CONCAT(quantity, ''), '0') AS INTEGER) \
     FROM (SELECT quantity FROM reservations ORDER BY order_no) x";

/// Of every handler of a test, so that rows keep the order of the calls.
static CALLS: AtomicU64 = AtomicU64::new(1);

/// Writes down each version it applies.
struct Sequenced(VersionPolicy);

#[async_trait]
impl Handler for Sequenced {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        let call = i64::try_from(CALLS.fetch_add(1, Ordering::SeqCst)).expect("small");
        let version = event.aggregate_version.expect("a version");
        let row = [Value::Int(call), Value::Int(version)];
        if let Err(error) = tx.execute(REMEMBER, &row).await {
            return error.into();
        }
        match event.event_type.as_deref() {
            Some("flaky") if event.attempt == 1 => Outcome::Transient("busy".to_owned()),
            Some("bad") => Outcome::Permanent {
                class: "bad".to_owned(),
                error: "bad".to_owned(),
            },
            Some("overtaken") => Outcome::of_transition(0),
            _ => Outcome::Done,
        }
    }

    fn policy(&self, _event: &Received) -> VersionPolicy {
        self.0
    }
}

fn event(version: i64, kind: &str) -> Message {
    versioned(&format!("e-{version}"), version, kind)
}

fn versioned(id: &str, version: i64, kind: &str) -> Message {
    let mut message = message(Some(id), kind, format!("{{\"v\":{version}}}").as_bytes());
    let table = &mut message.properties.headers;
    table.set("aggregate_id", FieldValue::text("8812"));
    table.set("aggregate_version", FieldValue::I64(version));
    message
}

fn one_by_one(patience: Duration) -> VersionPolicy {
    VersionPolicy::Increment { first: 1, patience }
}

fn with_policy(bench: &Bench, policy: VersionPolicy) -> Consumer {
    let handler: Arc<dyn Handler> = Arc::new(Sequenced(policy));
    let work = (handler, settings(bench));
    let ports = bench.connected("inventory");
    Consumer::with_settings(bench.service("inventory"), ports, &Clock::System, work)
        .expect("an inbox")
}

#[tokio::test]
async fn an_older_snapshot_is_absorbed_and_leaves_its_inbox_row() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::Snapshot);
    let messages = vec![
        event(3, "ok"),
        event(2, "ok"),
        versioned("e-3b", 3, "ok"),
        event(7, "ok"),
    ];
    bench.put(QUEUE, messages).await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("done"), report.get("stale")), (2, 2));
    assert_eq!(bench.number("inventory", ORDER).await, 37);
    assert_eq!(bench.number("inventory", VERSION).await, 7);
    assert_eq!(bench.number("inventory", INBOX).await, 4);
    assert_eq!(bench.ready(QUEUE).await, 0);
}

#[tokio::test]
async fn a_snapshot_whose_handler_fails_does_not_count_as_applied() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::Snapshot);
    bench
        .put(QUEUE, vec![event(3, "bad"), event(2, "ok")])
        .await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("dead"), report.get("done")), (1, 1));
    assert_eq!(bench.number("inventory", VERSION).await, 2);
}

#[tokio::test]
async fn early_events_wait_and_are_consumed_in_order_once_the_missing_one_has_come() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench
        .put(QUEUE, vec![event(4, "ok"), event(3, "ok"), event(1, "ok")])
        .await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("parked"), report.get("done")), (2, 1));
    assert_eq!(bench.number("inventory", WAITING).await, 2);
    assert_eq!(
        bench.number("inventory", INBOX).await,
        1,
        "no row says done"
    );
    assert_eq!(bench.ready(QUEUE).await, 0, "they are acknowledged");

    bench.put(QUEUE, vec![event(2, "ok")]).await;
    let report = consumer.run_once().await;
    assert_eq!(report.get("done"), 3);
    assert_eq!(bench.number("inventory", ORDER).await, 1234);
    assert_eq!(bench.number("inventory", WAITING).await, 0);
    assert_eq!(bench.number("inventory", INBOX).await, 4);
}

#[tokio::test]
async fn an_event_that_waits_is_one_event_however_often_it_is_delivered() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench
        .put(
            QUEUE,
            vec![event(2, "ok"), event(2, "ok"), versioned("e-2", 2, "ok")],
        )
        .await;
    consumer.run_once().await;
    assert_eq!(bench.number("inventory", WAITING).await, 1);
    let mut other = versioned("e-2", 2, "ok");
    other.payload = crate::model::message::Payload::new(b"{}".to_vec());
    bench
        .put(QUEUE, vec![other, event(1, "ok"), event(2, "ok")])
        .await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("dead"), report.get("done")), (1, 2));
    assert_eq!(report.get("duplicates"), 1);
    assert_eq!(bench.number("inventory", ORDER).await, 12);
}

#[tokio::test]
async fn a_sweep_that_finds_what_a_delivery_consumes_meanwhile_counts_nothing() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench.put(QUEUE, vec![event(2, "ok")]).await;
    consumer.run_once().await;
    bench
        .execute("inventory", "UPDATE applied_versions SET version = 1")
        .await;
    let swept = Arc::clone(&consumer.work).sweep(false).await;
    let [aggregate_id] = swept.ready.as_slice() else {
        panic!("one is ready: {:?}", swept.ready)
    };
    let job = || Job::Waiting(aggregate_id.clone());
    let first = Arc::clone(&consumer.work).run(0, job()).await;
    assert_eq!(first.tally.counts, [("done", 1)]);
    let second = Arc::clone(&consumer.work).run(0, job()).await;
    assert_eq!(second.tally.counts, []);
    assert_eq!(bench.number("inventory", INBOX).await, 1);
}

#[tokio::test]
async fn a_successor_that_fails_for_now_goes_round_and_is_still_applied_in_order() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench
        .put(
            QUEUE,
            vec![event(3, "ok"), event(2, "flaky"), event(1, "ok")],
        )
        .await;
    let (report, _) = run_until(&mut consumer, |r| r.get("done") == 3).await;
    assert_eq!(report.get("retried"), 1);
    assert_eq!(bench.number("inventory", WAITING).await, 0);
    assert_eq!(bench.number("inventory", VERSION).await, 3);
    // Calls are counted, and the one that failed was rolled back.
    assert_eq!(bench.number("inventory", ORDER).await, 123);
}

#[tokio::test]
async fn what_a_worker_left_behind_after_a_commit_is_found_by_the_next() {
    let bench = Bench::new().await;
    let mut first = with_policy(&bench, VersionPolicy::increment());
    bench.put(QUEUE, vec![event(2, "ok")]).await;
    first.run_once().await;
    drop(first);
    // Its predecessor was applied by somebody who died before looking for successors.
    bench
        .execute("inventory", "UPDATE applied_versions SET version = 1")
        .await;
    let mut next = with_policy(&bench, VersionPolicy::increment());
    let (report, _) = run_until(&mut next, |r| r.get("done") == 1).await;
    assert_eq!(report.get("dead"), 0);
    assert_eq!(bench.number("inventory", WAITING).await, 0);
}

#[tokio::test]
async fn a_gap_that_does_not_close_becomes_a_dead_letter_that_names_it_and_can_be_replayed() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, one_by_one(Duration::ZERO));
    bench.put(QUEUE, vec![event(1, "ok"), event(3, "ok")]).await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("done"), report.get("parked")), (1, 1));
    bench
        .execute("inventory", "UPDATE waiting_events SET deadline_at = 0")
        .await;
    // The sweep gives up once the queue has been read.
    run_until(&mut consumer, |r| r.get("dead") == 1).await;
    assert_eq!(bench.number("inventory", WAITING).await, 0);
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
    assert_eq!(letter.event_id, Some("e-3".into()));
    assert_eq!(letter.error_class, "version gap: waiting for v#");
    let told = letter.error_summary.as_deref().expect("told");
    assert!(
        told.contains("v3 of 8812 is waiting for v2 since 20"),
        "{told}"
    );
    assert_eq!(letter.failed_queue.as_deref(), Some(QUEUE));
    // Sent again before its predecessor, it waits again; then both are applied.
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench.put(QUEUE, vec![event(3, "ok"), event(2, "ok")]).await;
    let (_, _) = run_until(&mut consumer, |r| r.get("done") == 2).await;
    assert_eq!(bench.number("inventory", VERSION).await, 3);
}

#[tokio::test]
async fn i_03_a_waiting_event_tried_a_moment_ago_is_not_given_up_for_its_age() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, one_by_one(Duration::from_mins(1)));
    bench.put(QUEUE, vec![event(3, "ok")]).await;
    consumer.run_once().await;
    // Parked three days ago and overdue since; then an operator sends it again.
    bench
        .execute(
            "inventory",
            "UPDATE waiting_events SET parked_at = parked_at - 259200000000, \
             attempted_at = attempted_at - 259200000000, deadline_at = deadline_at - 259200000000",
        )
        .await;
    bench.put(QUEUE, vec![event(3, "ok")]).await;
    drop(consumer);
    let mut consumer = with_policy(&bench, one_by_one(Duration::from_mins(1)));
    let report = consumer.run_once().await;
    assert_eq!((report.get("parked"), report.get("dead")), (1, 0));
    let store = bench.store("inventory");
    let overdue = store
        .take_overdue(&"inventory".into(), 10, Duration::from_mins(1))
        .await;
    assert!(overdue.expect("reads").is_empty());
    let summary = store.waiting_summary().await.expect("reads");
    let summary = summary.expect("a waiting room");
    let three_days = 259_200.0;
    assert!(summary.oldest_s.expect("an age") >= three_days);
    assert!(summary.untried_s.expect("an age") < 60.0);
    assert!(summary.next_deadline_s.expect("a deadline") > 0.0);
}

#[tokio::test]
async fn an_event_without_a_place_in_a_sequence_is_a_dead_letter() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::increment());
    bench
        .put(QUEUE, vec![message(Some("e-1"), "ok", b"{}")])
        .await;
    let report = consumer.run_once().await;
    assert_eq!(report.get("dead"), 1);
    let dead = bench.take("inventory.orders.dlq").await;
    let class = dead[0].message.properties.headers.get(headers::ERROR_CLASS);
    assert_eq!(
        class.and_then(FieldValue::as_text),
        Some("invalid: no aggregate_id")
    );
}

#[tokio::test]
async fn a_transition_that_matched_nothing_is_stale_and_leaves_its_inbox_row() {
    let bench = Bench::new().await;
    let mut consumer = with_policy(&bench, VersionPolicy::Transition);
    bench.put(QUEUE, vec![event(5, "overtaken")]).await;
    let report = consumer.run_once().await;
    assert_eq!((report.get("stale"), report.get("done")), (1, 0));
    assert_eq!(bench.number("inventory", INBOX).await, 1);
    assert_eq!(
        bench.number("inventory", APPLIED).await,
        5,
        "what was written stays"
    );
}
