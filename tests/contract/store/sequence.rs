//! Claims in sequence beside producers that commit at an awkward moment.

use std::sync::Arc;
use std::time::Duration;

use redrive::model::ids::EventId;
use redrive::model::message::Payload;
use redrive::model::outbox::{NewEvent, OutboxState};
use redrive::store::{Claim, ClaimRequest, Store};

use super::fixture::{Fixture, event, ids_of, leak};

/// Rows of other aggregates between the first and the last row of a claim.
const FILLERS: i64 = 150;
/// Together they are more than the sockets between server and store hold.
const FILLER_BYTES: usize = 160 * 1024;
/// So many bytes of the claim's answer pass at first: less than one row.
const PASS_BYTES: usize = 64 * 1024;

const REQUEST: ClaimRequest = ClaimRequest {
    batch_rows: 200,
    lease: Duration::from_secs(30),
};

async fn claims(store: &Arc<dyn Store>) -> Claim {
    store.claim_sequences(&REQUEST).await.expect("claims")
}

/// A producer writes versions 1 and 2 of an aggregate in one transaction, and commits it while a claim is
/// between them: too late for version 1, in time for version 2.
pub async fn a_sequence_committed_while_a_claim_passes_goes_out_in_order(f: &Fixture) {
    if f.product == "sqlite" {
        return; // One writer at a time: nobody commits while a claim runs.
    }
    let (store, gate) = f.gated();
    let mut fill = f.store.begin().await.expect("begins");
    for n in 1..=FILLERS {
        let filler = NewEvent {
            aggregate_id: format!("filler-{n}").as_str().into(),
            aggregate_version: n,
            payload: Payload::new(vec![b'x'; FILLER_BYTES]),
            ..event(&format!("f-{n:03}"))
        };
        fill.append(&filler).await.expect("appends");
    }
    fill.commit().await.expect("commits");
    // By due time: the first filler, version 1, the other fillers, version 2.
    let due = |place: &str| format!("TIMESTAMP '2026-01-01 00:00:00' + INTERVAL ({place}) SECOND");
    f.sql(format!(
        "UPDATE outbox_events SET next_attempt_at = {}",
        due("aggregate_version * 2")
    ))
    .await;
    let mut producer = f.store.begin().await.expect("begins");
    for version in [1, 2] {
        let event = NewEvent {
            aggregate_version: version,
            ..event(&format!("e-{version}"))
        };
        producer.append(&event).await.expect("appends");
    }
    let late = due("CASE aggregate_version WHEN 1 THEN 3 ELSE 3000 END");
    producer
        .execute(
            leak(format!(
                "UPDATE outbox_events SET next_attempt_at = {late} WHERE event_id IN ('e-1', 'e-2')"
            )),
            &[],
        )
        .await
        .expect("runs");
    // Sessions are made before the gate is narrow.
    assert_eq!(store.reap(1).await.expect("answers").rows, 0);
    gate.pass(Some(PASS_BYTES));
    let interfere = async {
        // Nobody may stand in the claim's way for long, so it is looked at one row after the other.
        let mut rows = (2..20).cycle();
        while !is_locked(f, rows.next().expect("endless")).await {}
        producer.commit().await.expect("commits");
        let is_through = is_locked(f, FILLERS).await;
        gate.pass(None);
        assert!(!is_through, "the claim was held between the two versions");
    };
    let (taken, ()) = tokio::join!(claims(&store), interfere);
    let ids = ids_of(&taken);
    assert!(ids.len() > 100, "{} rows", ids.len());
    assert!(!ids.contains(&EventId::new("e-1")), "it came too late");
    assert!(!ids.contains(&EventId::new("e-2")), "sent before version 1");
    assert_eq!(taken.held, 1, "version 2 was met");
    // Nothing is left behind: version 1 goes next, then version 2. That one is held for half a second only, and
    // on a slow machine it would be due again by now.
    f.sql("UPDATE outbox_events SET next_attempt_at = NOW(6) + INTERVAL 1 HOUR WHERE event_id = 'e-2'")
        .await;
    let next = claims(&f.store).await;
    assert!(ids_of(&next).contains(&EventId::new("e-1")));
    assert_eq!(f.ids(OutboxState::Pending).await, ["e-2"]);
    let ids = ids_of(&next);
    let done = f.store.complete(&next.token, &ids).await;
    assert_eq!(done, Ok(ids.len() as u64));
    assert_eq!(
        f.store.wake_sequences(&[("order-42".into(), 1)]).await,
        Ok(1)
    );
    assert_eq!(ids_of(&claims(&f.store).await), [EventId::new("e-2")]);
    store.close().await;
}

/// True when somebody holds a filler.
async fn is_locked(f: &Fixture, n: i64) -> bool {
    let mut tx = f.store.begin().await.expect("begins");
    let look = leak(format!(
        "SELECT event_id FROM outbox_events WHERE event_id = 'f-{n:03}' FOR UPDATE SKIP LOCKED"
    ));
    let found = tx.fetch_one(look, &[]).await.expect("reads");
    tx.rollback().await.expect("rolls back");
    found.is_none()
}
