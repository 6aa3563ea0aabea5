//! What an inbox may forget.

use std::time::Duration;

use redrive::model::ids::EventId;
use redrive::model::outbox::OutboxState;
use redrive::store::inbox::{ArchiveRequest, Archived};
use redrive::store::{ClaimRequest, StoreError};

use super::fixture::{Fixture, consume, consumer};

const HOUR: Duration = Duration::from_hours(1);

fn request(rows_max: u32, archive: bool) -> ArchiveRequest {
    ArchiveRequest {
        consumer: consumer(),
        keep: HOUR,
        rows_max,
        archive,
    }
}

/// Inbox rows that were processed so many hours ago.
async fn processed(f: &Fixture, rows: &[(&str, i64)]) {
    for (id, hours) in rows {
        let tx = consume(&f.store, id, &"a".repeat(64)).await;
        tx.commit().await.expect("commits");
        let then = f.moment(-hours * 3_600_000_000);
        f.sql(format!(
            "UPDATE consumer_inbox SET processed_at = {then} WHERE event_id = '{id}'"
        ))
        .await;
    }
}

async fn archive(f: &Fixture, request: &ArchiveRequest) -> Archived {
    f.store.archive_inbox(request).await.expect("archives")
}

pub async fn i_01_old_rows_leave_the_inbox_oldest_first_and_the_horizon_follows(f: &Fixture) {
    let rows = [("e-5", 5), ("e-2", 2), ("e-3", 3), ("e-0", 0)];
    processed(f, &rows).await;
    assert_eq!(f.store.inbox_horizon(&consumer()).await, Ok(None));
    let first = archive(f, &request(2, true)).await;
    assert_eq!((first.rows, first.is_full), (2, true));
    let row = async |id: &str| {
        f.store
            .archived_inbox_row(&consumer(), &EventId::new(id))
            .await
    };
    let e3 = row("e-3").await.expect("reads").expect("archived");
    assert_eq!(e3.payload_sha256, Some("a".repeat(64)));
    assert_eq!(first.horizon, Some(e3.processed_at));
    assert_eq!(f.store.inbox_horizon(&consumer()).await, Ok(first.horizon));
    assert_eq!(row("e-2").await, Ok(None));
    let left = f.store.inbox_row(&consumer(), &"e-5".into()).await;
    assert_eq!(left, Ok(None));

    let second = archive(f, &request(2, true)).await;
    assert_eq!((second.rows, second.is_full), (1, false));
    assert!(second.horizon > first.horizon);
    assert_eq!(archive(f, &request(2, true)).await, Archived::default());
    assert_eq!(f.store.inbox_horizon(&consumer()).await, Ok(second.horizon));
    assert_eq!(f.number("SELECT COUNT(*) FROM consumer_inbox").await, 1);
}

pub async fn a_row_archived_twice_keeps_its_later_time_and_the_horizon_never_goes_back(
    f: &Fixture,
) {
    processed(f, &[("e-1", 2)]).await;
    let first = archive(f, &request(10, true)).await;
    // Forgotten, it was processed again, with another payload, and an older row turns up.
    let tx = consume(&f.store, "e-1", &"b".repeat(64)).await;
    tx.commit().await.expect("commits");
    let then = f.moment(-2 * 3_600_000_000);
    f.sql(format!("UPDATE consumer_inbox SET processed_at = {then}"))
        .await;
    archive(f, &request(10, true)).await;
    let row = f.store.archived_inbox_row(&consumer(), &"e-1".into()).await;
    let row = row.expect("reads").expect("archived");
    assert_eq!(row.payload_sha256, Some("b".repeat(64)));
    let horizon = f.store.inbox_horizon(&consumer()).await.expect("reads");
    assert!(horizon >= first.horizon);
    processed(f, &[("e-9", 9)]).await;
    let third = archive(f, &request(10, true)).await;
    assert_eq!((third.rows, third.horizon), (1, horizon));
    assert_eq!(f.store.inbox_horizon(&consumer()).await, Ok(horizon));
}

pub async fn without_an_archive_nothing_is_kept_but_the_horizon(f: &Fixture) {
    processed(f, &[("e-1", 2)]).await;
    let gone = archive(f, &request(10, false)).await;
    assert_eq!(gone.rows, 1);
    let row = f.store.archived_inbox_row(&consumer(), &"e-1".into()).await;
    assert_eq!(row, Ok(None));
    assert!(gone.horizon.is_some());
    let other = f.store.inbox_horizon(&"mail".into()).await;
    assert_eq!(other, Ok(None));
}

pub async fn an_inbox_that_is_the_services_own_table_is_not_touched(f: &Fixture) {
    let compact = f.with(|service, _| {
        if let Some(inbox) = &mut service.inbox {
            "compact".clone_into(&mut inbox.layout);
        }
    });
    let refused = compact.archive_inbox(&request(10, true)).await;
    assert!(
        matches!(refused, Err(StoreError::Unsupported { .. })),
        "{refused:?}"
    );
    assert_eq!(compact.inbox_horizon(&consumer()).await, Ok(None));
    compact.close().await;
}

pub async fn the_oldest_letter_that_waits_for_somebody_is_known(f: &Fixture) {
    assert_eq!(f.store.oldest_unresolved().await, Ok(None));
    f.bury("e-1").await;
    f.bury("e-2").await;
    let then = f.moment(-7_200_000_000);
    f.sql(format!(
        "UPDATE dead_letters SET first_died_at = {then}, status = 'replaying' WHERE event_id = 'e-1'"
    ))
    .await;
    let age = f.store.oldest_unresolved().await.expect("reads");
    let age = age.expect("an age");
    assert!((7_199.0..7_260.0).contains(&age), "{age}");
    f.sql("UPDATE dead_letters SET status = 'replayed' WHERE event_id = 'e-1'")
        .await;
    let left = f.store.oldest_unresolved().await.expect("reads");
    assert!(left.is_some_and(|left| left < age), "the other one's");
}

/// Cleaning and relaying at the same time: batches by key lock nothing a relay or a consumer needs.
pub async fn q_21_cleaning_up_does_not_lock_out_the_relay(f: &Fixture) {
    let rows: Vec<String> = (0..40).map(|n| format!("old-{n}")).collect();
    let rows: Vec<(&str, i64)> = rows.iter().map(|id| (id.as_str(), 3)).collect();
    processed(f, &rows).await;
    let events: Vec<String> = (0..40).map(|n| format!("new-{n}")).collect();
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    f.emit(&events).await;
    let other = f.another();
    let cleaning = async {
        let mut left = 0;
        for _ in 0..8 {
            left += archive(f, &request(5, true)).await.rows;
        }
        left
    };
    let relaying = async {
        let claim = ClaimRequest {
            batch_rows: 5,
            lease: HOUR,
        };
        let mut sent = 0;
        for round in 0..8 {
            let claimed = other.claim_batch(&claim).await.expect("never locked out");
            let ids: Vec<EventId> = claimed
                .events
                .iter()
                .map(|event| event.row.event_id.clone())
                .collect();
            sent += other.complete(&claimed.token, &ids).await.expect("marks");
            // A consumer writes into the very table that is being cleaned.
            let tx = consume(&other, &format!("fresh-{round}"), &"c".repeat(64)).await;
            tx.commit().await.expect("commits");
        }
        sent
    };
    let (left, sent) = tokio::join!(cleaning, relaying);
    assert_eq!((left, sent), (40, 40));
    assert_eq!(f.ids(OutboxState::Sent).await.len(), 40);
    assert_eq!(f.number("SELECT COUNT(*) FROM consumer_inbox").await, 8);
    other.close().await;
}
