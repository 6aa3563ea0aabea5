//! Applied versions and the events that wait for one.

use std::time::Duration;

use redrive::model::count::Count;
use redrive::model::ids::{AggregateId, EventId};
use redrive::model::message::{FieldValue, Message, Payload};
use redrive::model::waiting::{NewWaiting, Parked, WaitingEvent, WaitingFound};
use redrive::store::{Guarded, StoreError};

use super::fixture::{Fixture, consumer};

const MINUTE: Duration = Duration::from_mins(1);

fn key() -> AggregateId {
    AggregateId::new("order-42")
}

pub fn early(id: &str, version: i64) -> NewWaiting {
    let mut message = Message {
        payload: Payload::new(b"\x00\xff{\"a\":1.10}".to_vec()),
        ..Message::default()
    };
    message.properties.message_id = Some(id.to_owned());
    let headers = &mut message.properties.headers;
    headers.set("x-tenant", FieldValue::U16(7));
    headers.set("x-raw", FieldValue::Bytes(vec![0, 255]));
    NewWaiting {
        consumer: consumer(),
        event_id: EventId::new(id),
        aggregate_id: key(),
        version,
        missing_version: version - 1,
        exchange: "shop.events".to_owned(),
        routing_key: "order.created".to_owned(),
        message,
        patience: MINUTE,
    }
}

pub async fn park(f: &Fixture, waiting: &NewWaiting) -> Parked {
    let mut tx = f.store.begin().await.expect("begins");
    let parked = tx.park(waiting).await.expect("parks");
    tx.commit().await.expect("commits");
    parked
}

/// Applies a version to the sequence.
async fn apply(f: &Fixture, version: i64) {
    let mut tx = f.store.begin().await.expect("begins");
    let last = tx.lock_version(&consumer(), &key(), 0).await;
    let last = last.expect("locks");
    let moved = tx.set_version(&consumer(), &key(), last, version).await;
    assert_eq!(moved, Ok(Guarded::Done));
    tx.commit().await.expect("commits");
}

async fn next(f: &Fixture) -> Option<WaitingEvent> {
    let next = f.store.next_waiting(&consumer(), &key()).await;
    next.expect("reads")
}

async fn ready(f: &Fixture) -> Vec<String> {
    let ready = f.store.ready_waiting(&consumer(), 10).await;
    let ids = ready.expect("reads").events.into_iter().map(|w| w.event_id);
    ids.map(|id| id.to_string()).collect()
}

pub async fn a_sequence_moves_on_under_its_lock(f: &Fixture) {
    apply(f, 1).await;
    let mut tx = f.store.begin().await.expect("begins");
    assert_eq!(tx.lock_version(&consumer(), &key(), 0).await, Ok(1));
    let stale = tx.set_version(&consumer(), &key(), 0, 2).await;
    assert_eq!(stale, Ok(Guarded::LostRace));
    let other = tx.lock_version(&"mail".into(), &key(), 0).await;
    assert_eq!(other, Ok(0), "another consumer has its own");
    tx.rollback().await.expect("rolls back");
    apply(f, 2).await;

    // Whoever comes second waits for the first, and reads what it left.
    let other = f.another();
    let mut first = f.store.begin().await.expect("begins");
    let last = first.lock_version(&consumer(), &key(), 0).await;
    assert_eq!(last, Ok(2));
    let second = async {
        let mut tx = other.begin().await.expect("begins");
        let last = tx.lock_version(&consumer(), &key(), 0).await;
        tx.rollback().await.expect("rolls back");
        last
    };
    let first = async {
        let moved = first.set_version(&consumer(), &key(), 2, 3).await;
        assert_eq!(moved, Ok(Guarded::Done));
        first.commit().await
    };
    let (last, committed) = tokio::join!(second, first);
    assert_eq!((last, committed), (Ok(3), Ok(())));
    other.close().await;
}

pub async fn two_that_begin_a_sequence_do_not_both_win(f: &Fixture) {
    let (one, two) = (f.another(), f.another());
    let begin = async |store: &std::sync::Arc<dyn redrive::store::Store>| {
        let mut tx = store.begin().await.expect("begins");
        let last = match tx.lock_version(&consumer(), &key(), 0).await {
            Ok(last) => last,
            Err(StoreError::Contended { .. }) => return None,
            Err(other) => panic!("{other}"),
        };
        let moved = tx.set_version(&consumer(), &key(), last, last + 1).await;
        assert_eq!(moved, Ok(Guarded::Done));
        tx.commit().await.expect("commits");
        Some(last)
    };
    let (a, b) = tokio::join!(begin(&one), begin(&two));
    let mut applied: Vec<i64> = [a, b].into_iter().flatten().collect();
    applied.sort_unstable();
    assert!(applied == [0] || applied == [0, 1], "{applied:?}");
    one.close().await;
    two.close().await;
}

pub async fn an_event_waits_whole_and_once(f: &Fixture) {
    let waiting = early("e-3", 3);
    assert_eq!(park(f, &waiting).await, Parked::Waiting);
    assert_eq!(park(f, &waiting).await, Parked::Again);
    let mut other = waiting.clone();
    other.message.payload = Payload::new(b"{}".to_vec());
    let stored_sha256 = waiting.message.payload.sha256();
    assert_eq!(park(f, &other).await, Parked::Conflict { stored_sha256 });
    assert_eq!(f.number("SELECT COUNT(*) FROM waiting_events").await, 1);
    apply(f, 2).await;
    let found = next(f).await.expect("its turn");
    assert_eq!(found.message, waiting.message);
    assert_eq!((found.version, found.missing_version), (3, 2));
    assert_eq!(
        (found.attempts, found.exchange.as_str()),
        (2, "shop.events")
    );
    assert!(found.attempted_at >= found.parked_at);
    assert_eq!(found.deadline_at, found.attempted_at.plus(MINUTE));
    let summary = f.store.waiting_summary().await.expect("reads");
    assert_eq!(summary.expect("an inbox").count, Count::Exact(1));
    let mut tx = f.store.begin().await.expect("begins");
    let forgotten = tx.forget_waiting(&consumer(), &found.event_id).await;
    assert_eq!(forgotten, Ok(1));
    tx.commit().await.expect("commits");
    assert_eq!(next(f).await, None);
}

pub async fn an_event_whose_turn_has_come_is_found(f: &Fixture) {
    for (id, version) in [("e-4", 4), ("e-3", 3), ("e-2", 2)] {
        park(f, &early(id, version)).await;
    }
    assert_eq!((next(f).await, ready(f).await.len()), (None, 0), "unseen");
    apply(f, 1).await;
    let turn = next(f).await.expect("its turn");
    assert_eq!(turn.event_id.as_str(), "e-2");
    assert_eq!(ready(f).await, ["e-2"]);
    apply(f, 3).await;
    // Older ones are past: they are found as well, so that nothing stays behind.
    assert_eq!(ready(f).await, ["e-2", "e-3", "e-4"]);
    let other = f.store.ready_waiting(&"mail".into(), 10).await;
    assert_eq!(other, Ok(WaitingFound::default()));
}

pub async fn an_unreadable_waiting_row_stands_beside_the_others(f: &Fixture) {
    for (id, version) in [("e-2", 2), ("e-3", 3), ("e-8", 8), ("e-9", 9)] {
        park(f, &early(id, version)).await;
    }
    apply(f, 2).await;
    let then = f.moment(-60_000_000);
    f.sql(format!("UPDATE waiting_events SET deadline_at = {then}"))
        .await;
    f.sql("UPDATE waiting_events SET headers = '1' WHERE event_id IN ('e-2', 'e-8')".to_owned())
        .await;
    let found = f.store.ready_waiting(&consumer(), 10).await;
    let (events, unreadable) = apart(&found.expect("reads"));
    assert_eq!(
        (events, unreadable),
        (vec!["e-3".to_owned()], vec!["e-2".to_owned()])
    );
    let found = f.store.take_overdue(&consumer(), 10, MINUTE).await;
    let (events, unreadable) = apart(&found.expect("reads"));
    assert_eq!(
        (events, unreadable),
        (vec!["e-9".to_owned()], vec!["e-8".to_owned()])
    );
    let again = f.store.take_overdue(&consumer(), 10, MINUTE).await;
    assert_eq!(again, Ok(WaitingFound::default()), "both are taken");
}

fn apart(found: &WaitingFound) -> (Vec<String>, Vec<String>) {
    let events = found.events.iter().map(|w| w.event_id.to_string());
    let unreadable = found.unreadable.iter().map(|(id, _)| id.to_string());
    (events.collect(), unreadable.collect())
}

pub async fn i_03_the_deadline_is_counted_from_the_last_attempt(f: &Fixture) {
    let waiting = early("e-3", 3);
    park(f, &waiting).await;
    // First parked three days ago, overdue since.
    for column in ["parked_at", "attempted_at", "deadline_at"] {
        let then = f.moment(-259_200_000_000);
        f.sql(format!("UPDATE waiting_events SET {column} = {then}"))
            .await;
    }
    park(f, &waiting).await;
    let overdue = f.store.take_overdue(&consumer(), 10, MINUTE).await;
    assert_eq!(overdue, Ok(WaitingFound::default()));
    let summary = f.store.waiting_summary().await.expect("reads");
    let summary = summary.expect("an inbox");
    assert!(summary.oldest_s.expect("an age") > 259_000.0);
    assert!(summary.untried_s.expect("an age") < 60.0);
    assert!(summary.next_deadline_s.expect("a deadline") > 0.0);
}

pub async fn an_overdue_event_is_given_up_by_one_worker_at_a_time(f: &Fixture) {
    let late = |id: &str, version| NewWaiting {
        patience: Duration::ZERO,
        ..early(id, version)
    };
    park(f, &late("e-3", 3)).await;
    park(f, &late("e-9", 9)).await;
    apply(f, 2).await;
    let other = f.another();
    let taken = f.store.take_overdue(&consumer(), 10, MINUTE).await;
    let taken = taken.expect("reads").events;
    let ids: Vec<_> = taken.iter().map(|w| w.event_id.as_str()).collect();
    assert_eq!(ids, ["e-9"], "the turn of e-3 has come: it is not given up");
    let again = other.take_overdue(&consumer(), 10, MINUTE).await;
    assert_eq!(again, Ok(WaitingFound::default()), "somebody has it");
    // Sent again meanwhile: whoever was giving it up does not take it away.
    park(f, &early("e-9", 9)).await;
    let removed = f
        .store
        .remove_waiting(&consumer(), &"e-9".into(), taken[0].attempts)
        .await;
    assert_eq!(removed, Ok(Guarded::LostRace));
    let removed = f
        .store
        .remove_waiting(&consumer(), &"e-9".into(), taken[0].attempts + 1)
        .await;
    assert_eq!(removed, Ok(Guarded::Done));
    other.close().await;
}
