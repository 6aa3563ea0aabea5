//! Giving up waiting events: not while the missing one is still tried, one after the other, and whatever
//! a row beside them looks like.

use super::*;
use crate::store::BusinessTx;

const LEASED: &str = "SELECT COUNT(*) FROM waiting_events WHERE lease_until IS NOT NULL";
const WAITING: &str = "SELECT COUNT(*) FROM waiting_events";
const OVERDUE: &str = "UPDATE waiting_events SET deadline_at = 0";

/// Every sequence begins with 1 and waits a minute.
struct OneByOne;

#[async_trait]
impl Handler for OneByOne {
    async fn handle(&self, _: &Received, _: &mut dyn BusinessTx) -> Outcome {
        Outcome::Done
    }
    fn policy(&self, _: &Received) -> VersionPolicy {
        VersionPolicy::Increment {
            first: 1,
            patience: Duration::from_mins(1),
        }
    }
}

fn one_by_one(bench: &Bench, settings: ConsumerSettings, broker: Arc<dyn Broker>) -> Consumer {
    let handler: Arc<dyn Handler> = Arc::new(OneByOne);
    let (ports, work) = ((bench.store("inventory"), broker), (handler, settings));
    Consumer::with_settings(bench.service("inventory"), ports, &Clock::System, work)
        .expect("an inbox")
}

fn early(aggregate: &str) -> Message {
    let mut message = message(Some(&format!("e-{aggregate}")), "ok", b"{}");
    let table = &mut message.properties.headers;
    table.set("aggregate_id", FieldValue::text(aggregate));
    table.set("aggregate_version", FieldValue::I64(3));
    message
}

/// Parks one event of each of three sequences, overdue.
async fn three_overdue(bench: &Bench) {
    bench.put(QUEUE, ["a", "b", "c"].map(early).to_vec()).await;
    let mut consumer = one_by_one(bench, settings(bench), bench.broker.clone());
    let (_, problems) = run_until(&mut consumer, |r| r.get("parked") == 3).await;
    assert_eq!(problems, [""; 0]);
    consumer.drain().await;
    bench.execute("inventory", OVERDUE).await;
}

#[tokio::test]
async fn an_event_waits_as_long_as_the_missing_one_may_still_be_tried() {
    let bench = Bench::new().await;
    bench.put(QUEUE, vec![early("a")]).await;
    let settings = ConsumerSettings {
        retry_delays: vec![Duration::from_mins(30)],
        ..settings(&bench)
    };
    let mut consumer = one_by_one(&bench, settings, bench.broker.clone());
    run_until(&mut consumer, |r| r.get("parked") == 1).await;
    let waits = "SELECT (deadline_at - attempted_at) / 1000000 FROM waiting_events";
    assert!(bench.number("inventory", waits).await >= 31 * 60);
}

#[tokio::test]
async fn overdue_events_are_taken_one_by_one() {
    let bench = Bench::new().await;
    three_overdue(&bench).await;
    let (most, published) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut broker = Meddler::new(&bench.broker);
    let store = bench.store("inventory");
    let seen = (Arc::clone(&most), Arc::clone(&published));
    broker.before_publish = Some(Arc::new(move || {
        let (store, (most, published)) = (Arc::clone(&store), seen.clone());
        async move {
            let leased = leased(&store).await;
            most.fetch_max(leased, Ordering::SeqCst);
            published.fetch_add(1, Ordering::SeqCst);
        }
        .boxed()
    }));
    let mut consumer = one_by_one(&bench, settings(&bench), Arc::new(broker));
    run_until(&mut consumer, |r| r.get("dead") == 3).await;
    assert_eq!(published.load(Ordering::SeqCst), 3);
    assert_eq!(
        most.load(Ordering::SeqCst),
        1,
        "the others are not held meanwhile"
    );
    assert_eq!(bench.number("inventory", WAITING).await, 0);
}

async fn leased(store: &Arc<dyn Store>) -> u64 {
    let mut tx = store.begin().await.expect("begins");
    let row = tx.fetch_one(LEASED, &[]).await.expect("reads");
    tx.rollback().await.expect("rolls back");
    match row.as_deref() {
        Some([Value::Int(n)]) => u64::try_from(*n).expect("a count"),
        other => panic!("not a number: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_that_cannot_be_buried_ends_the_sweep() {
    let bench = Bench::new().await;
    three_overdue(&bench).await;
    let settings = ConsumerSettings {
        dead_letter_queue: Some("deleted.dlq".to_owned()),
        ..settings(&bench)
    };
    let mut consumer = one_by_one(&bench, settings, bench.broker.clone());
    let told = AtomicU64::new(0);
    let passes = async {
        while told.load(Ordering::SeqCst) == 0 {
            let report = consumer.run_once().await;
            if let Some(problem) = &report.problem {
                assert!(problem.contains("stays parked"), "{problem}");
                assert!(problem.contains("deleted.dlq"), "{problem}");
                told.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    timeout(Duration::from_secs(20), passes)
        .await
        .expect("told");
    assert_eq!(bench.number("inventory", LEASED).await, 1);
    assert_eq!(bench.number("inventory", WAITING).await, 3);
    let again = consumer.run_once().await;
    assert!(again.problem.is_some(), "it stands until the next look");
}

#[tokio::test]
async fn a_waiting_row_that_cannot_be_read_hides_no_other() {
    let bench = Bench::new().await;
    three_overdue(&bench).await;
    bench
        .execute(
            "inventory",
            "UPDATE waiting_events SET headers = '1', deadline_at = -1 WHERE aggregate_id = 'b'",
        )
        .await;
    // The turn of c has come.
    bench
        .execute(
            "inventory",
            "UPDATE applied_versions SET version = 2 WHERE aggregate_id = 'c'",
        )
        .await;
    let mut consumer = one_by_one(&bench, settings(&bench), bench.broker.clone());
    let (_, problems) =
        run_until(&mut consumer, |r| r.get("dead") == 1 && r.get("done") == 1).await;
    let told = problems.join("; ");
    assert!(told.contains("the first is e-b"), "{told}");
    assert_eq!(bench.number("inventory", WAITING).await, 1);
}
