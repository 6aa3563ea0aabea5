//! The consumer's transaction.

use std::time::Duration;

use redrive::model::count::Count;
use redrive::model::ids::EventId;
use redrive::model::inbox::InboxInsert;
use redrive::model::outbox::OutboxState;
use redrive::store::inbox::ArchiveRequest;
use redrive::store::{StoreError, Value};

use super::fixture::{Fixture, consume, consumer, event};

pub async fn the_second_delivery_is_a_duplicate_and_other_content_a_conflict(f: &Fixture) {
    let (id, digest) = (EventId::new("e-1"), "a".repeat(64));
    let insert = async |digest: &str| {
        let mut tx = f.store.begin().await.expect("begins");
        let found = tx.inbox_insert(&consumer(), &id, digest).await;
        tx.commit().await.expect("commits");
        found.expect("inserts")
    };
    assert_eq!(insert(&digest).await, InboxInsert::First);
    assert_eq!(insert(&digest).await, InboxInsert::Duplicate);
    assert_eq!(
        insert(&"b".repeat(64)).await,
        InboxInsert::Conflict {
            stored_sha256: digest.clone()
        }
    );
    let row = f
        .store
        .inbox_row(&consumer(), &id)
        .await
        .expect("reads")
        .expect("is there");
    assert_eq!(row.payload_sha256, Some(digest));
    assert_eq!(
        f.store.inbox_row(&"mail".into(), &id).await.expect("reads"),
        None
    );
}

pub async fn a_rollback_or_a_drop_leaves_nothing(f: &Fixture) {
    let table = "CREATE TABLE IF NOT EXISTS effects_seen (n BIGINT NOT NULL PRIMARY KEY)";
    f.store
        .create_business_tables(vec![table].leak())
        .await
        .expect("creates");
    for is_dropped in [false, true] {
        let mut tx = consume(&f.store, "e-1", &"a".repeat(64)).await;
        tx.execute("INSERT INTO effects_seen (n) VALUES (?)", &[Value::Int(1)])
            .await
            .expect("runs");
        tx.append(&event("result-1")).await.expect("appends");
        if is_dropped {
            drop(tx);
        } else {
            tx.rollback().await.expect("rolls back");
        }
        assert_eq!(f.number("SELECT COUNT(*) FROM effects_seen").await, 0);
        let row = f.store.inbox_row(&consumer(), &EventId::new("e-1")).await;
        assert_eq!(row.expect("reads"), None);
        assert!(f.ids(OutboxState::Pending).await.is_empty());
    }
    let mut tx = consume(&f.store, "e-1", &"a".repeat(64)).await;
    tx.append(&event("result-1")).await.expect("appends");
    tx.commit().await.expect("commits");
    assert_eq!(f.ids(OutboxState::Pending).await, ["result-1"]);
}

/// A handler that passes over its deadlock: InnoDB has rolled back the inbox row too, and what follows would commit
/// by itself.
pub async fn q_02_a_transaction_that_lost_to_a_deadlock_commits_nothing_more(f: &Fixture) {
    if f.product == "sqlite" {
        return; // One writer at a time: it waits instead.
    }
    f.sql("CREATE TABLE effects (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)")
        .await;
    f.sql("INSERT INTO effects VALUES (1, 0), (2, 0)").await;
    let touch = "UPDATE effects SET n = n + 1 WHERE id = ?";
    let digest = "a".repeat(64);
    let mut one = consume(&f.store, "e-1", &digest).await;
    let mut two = consume(&f.another(), "e-2", &digest).await;
    assert_eq!(one.execute(touch, &[Value::Int(1)]).await, Ok(1));
    assert_eq!(two.execute(touch, &[Value::Int(2)]).await, Ok(1));
    let (ones, twos) = tokio::join!(
        one.execute(touch, &[Value::Int(2)]),
        two.execute(touch, &[Value::Int(1)])
    );
    let (mut loser, winner, lost, won) = if ones.is_err() {
        (one, two, ones, twos)
    } else {
        (two, one, twos, ones)
    };
    assert_eq!(won, Ok(1));
    let is_contended = |error: &StoreError| matches!(error, StoreError::Contended { .. });
    assert!(lost.is_err_and(|error| is_contended(&error)));

    let appended = loser.append(&event("e-3")).await;
    assert!(appended.is_err_and(|error| is_contended(&error)));
    let committed = loser.commit().await;
    assert!(committed.is_err_and(|error| is_contended(&error)));
    assert_eq!(winner.commit().await, Ok(()));
    assert_eq!(f.number("SELECT SUM(n) FROM effects").await, 2);
    let rows = f.store.inbox_recent(Duration::from_mins(1)).await;
    assert_eq!(rows, Ok(Count::Exact(1)));
    assert_eq!(f.ids(OutboxState::Pending).await, Vec::<String>::new());
}

pub async fn recent_rows_are_counted_in_their_window(f: &Fixture) {
    for id in ["e-1", "e-2"] {
        consume(&f.store, id, &"a".repeat(64))
            .await
            .commit()
            .await
            .expect("commits");
    }
    let before = f.moment(-3_600_000_000);
    f.sql(format!(
        "UPDATE consumer_inbox SET processed_at = {before} WHERE event_id = 'e-1'"
    ))
    .await;
    let recent = f.store.inbox_recent(Duration::from_mins(1)).await;
    assert_eq!(recent, Ok(Count::Exact(1)));
}

/// A text the inbox's character set cannot hold is about this one event, and says so at once: tried
/// again and again it would hold the queue up for ever.
pub async fn q_20_a_text_no_column_takes_is_the_events_own_fault(f: &Fixture) {
    if f.product != "sqlite" {
        let narrow = "ALTER TABLE consumer_inbox CONVERT TO CHARACTER SET utf8mb3";
        f.store
            .create_business_tables(vec![narrow].leak())
            .await
            .expect("a table as some have it");
    }
    let mut tx = f.store.begin().await.expect("begins");
    let odd = EventId::new("e-\u{1f9fe}");
    let inserted = tx.inbox_insert(&consumer(), &odd, &"a".repeat(64)).await;
    tx.rollback().await.expect("rolls back");
    if f.product == "sqlite" {
        assert_eq!(inserted, Ok(InboxInsert::First));
    } else {
        let error = inserted.expect_err("no such character there");
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
        assert!(!error.is_retryable());
    }
    // What can be written is written as before, and may be forgotten as before.
    let tx = consume(&f.store, "e-1", &"a".repeat(64)).await;
    tx.commit().await.expect("commits");
    let forget = ArchiveRequest {
        consumer: consumer(),
        keep: Duration::ZERO,
        rows_max: 10,
        archive: true,
    };
    let then = f.moment(-1_000_000);
    f.sql(format!("UPDATE consumer_inbox SET processed_at = {then}"))
        .await;
    assert_eq!(f.store.archive_inbox(&forget).await.expect("moves").rows, 1);
}
