//! All that is counted at a look, in one statement.

use std::sync::Arc;
use std::time::Duration;

use redrive::model::count::Count;
use redrive::model::numbers::Numbers;
use redrive::store::{Store, StoreError};

use super::compact::compact;
use super::fixture::{Fixture, claim, consume, emit, ids_of};
use super::waiting::{early, park};

const WINDOW: Duration = Duration::from_mins(1);

/// The same, each by a statement of its own.
async fn one_by_one(store: &Arc<dyn Store>) -> Numbers {
    Numbers {
        outbox: store.outbox_counts().await.ok(),
        inbox_recent: store.inbox_recent(WINDOW).await.ok(),
        waiting: store.waiting_summary().await.expect("reads"),
        dead_letters: store.dead_letter_counts().await.ok(),
    }
}

/// Without what time alone changes; ages must be near each other.
fn still(numbers: Numbers, ages: &mut Vec<Option<f64>>) -> Numbers {
    let mut numbers = numbers;
    if let Some(outbox) = &mut numbers.outbox {
        ages.push(outbox.oldest_due_s.take());
        ages.push(outbox.oldest_pending_s.take());
        outbox.database_now = redrive::base::clock::Timestamp::from_micros(0);
    }
    if let Some(waiting) = &mut numbers.waiting {
        ages.push(waiting.oldest_s.take());
        ages.push(waiting.untried_s.take());
        ages.push(waiting.next_deadline_s.take());
    }
    numbers
}

async fn agree(store: &Arc<dyn Store>) -> Numbers {
    let at_once = store.numbers(WINDOW).await.expect("counts");
    let (mut ages, mut other_ages) = (Vec::new(), Vec::new());
    let expected = still(one_by_one(store).await, &mut other_ages);
    assert_eq!(still(at_once.clone(), &mut ages), expected);
    for (age, other) in ages.iter().zip(other_ages) {
        match (age, other) {
            (Some(age), Some(other)) => assert!((age - other).abs() < 30.0, "{age} {other}"),
            (age, other) => assert_eq!(*age, other),
        }
    }
    at_once
}

pub async fn what_is_counted_at_once_is_what_each_part_says(f: &Fixture) {
    let empty = agree(&f.store).await;
    assert_eq!(empty.inbox_recent, Some(Count::Exact(0)));
    f.emit(&["e-1", "e-2", "e-3", "e-4", "e-5", "e-6"]).await;
    let sent = claim(&f.store, 1).await;
    let done = f.store.complete(&sent.token, &ids_of(&sent)).await;
    assert_eq!(done, Ok(1));
    claim(&f.store, 2).await;
    for id in ["i-1", "i-2", "i-3", "i-4"] {
        let digest = "a".repeat(64);
        let tx = consume(&f.store, id, &digest).await;
        tx.commit().await.expect("commits");
    }
    for (id, version) in [("w-3", 3), ("w-4", 4), ("w-5", 5), ("w-6", 6), ("w-7", 7)] {
        park(f, &early(id, version)).await;
    }
    for id in ["d-1", "d-2", "d-3", "d-4", "d-5", "d-6", "d-7"] {
        f.bury(id).await;
    }
    let numbers = agree(&f.store).await;
    let outbox = numbers.outbox.expect("an outbox");
    assert_eq!(
        (outbox.pending, outbox.due, outbox.sending),
        (Count::Exact(3), Count::Exact(3), Count::Exact(2))
    );
    assert!(outbox.oldest_due_s.is_some() && outbox.oldest_pending_s.is_some());
    assert_eq!(outbox.sent_last_minute, Some(Count::Exact(1)));
    assert_eq!(numbers.inbox_recent, Some(Count::Exact(4)));
    assert_eq!(numbers.waiting.expect("an inbox").count, Count::Exact(5));
    assert_eq!(
        numbers.dead_letters.expect("dead letters").open,
        Count::Exact(7)
    );
}

pub async fn a_part_a_service_does_not_have_is_not_counted(f: &Fixture) {
    let store = compact(f).await;
    emit(&store, &["e-1", "e-2"]).await;
    let numbers = agree(&store).await;
    assert_eq!(numbers.outbox.expect("an outbox").pending, Count::Exact(2));
    assert_eq!(numbers.dead_letters, None);
    store.close().await;
    let bare = f.with(|service, _| {
        (service.outbox, service.inbox) = (None, None);
        (service.dead_letters, service.sagas) = (None, None);
    });
    assert_eq!(bare.numbers(WINDOW).await, Ok(Numbers::default()));
    bare.close().await;
}

/// An installation that attaches to inboxes of its own has no table of waiting events.
pub async fn where_nothing_can_wait_the_rest_is_counted(f: &Fixture) {
    f.emit(&["e-1"]).await;
    f.sql("DROP TABLE waiting_events").await;
    for _ in 0..2 {
        let numbers = agree(&f.store).await;
        assert_eq!(numbers.waiting, None);
        assert_eq!(numbers.outbox.expect("an outbox").pending, Count::Exact(1));
    }
}

pub async fn any_other_table_that_is_missing_is_told(f: &Fixture) {
    f.sql("DROP TABLE dead_letter_deaths").await;
    let error = f.store.numbers(WINDOW).await.expect_err("no such table");
    assert!(matches!(error, StoreError::Mapping { .. }), "{error}");
    assert!(error.to_string().contains("dead_letter_deaths"), "{error}");
}
