//! What a diagnosis asks: bounded, and never answered with less than there is.

use std::time::Duration;

use redrive::base::secret::SecretUrl;
use redrive::model::ids::EventId;
use redrive::model::trouble::RowGroup;
use redrive::store::{FailedAttempt, StoreError};

use super::fixture::{Fixture, claim, consume, consumer, leak};

const HOUR: Duration = Duration::from_hours(1);

fn failed(id: &str, error: &str, retry_after: Option<Duration>) -> FailedAttempt {
    FailedAttempt {
        event_id: EventId::new(id),
        error: error.to_owned(),
        retry_after,
    }
}

fn told(groups: &[RowGroup]) -> Vec<(&str, u64)> {
    let told = groups.iter();
    told.map(|group| (group.error.as_deref().unwrap_or_default(), group.rows))
        .collect()
}

pub async fn rows_are_grouped_by_what_went_wrong(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3", "e-4", "e-5"]).await;
    let taken = claim(&f.store, 4).await;
    let attempts = [
        failed("e-1", "unroutable: 312 NO_ROUTE", None),
        failed("e-2", "unroutable: 312 NO_ROUTE", None),
        failed("e-3", "refused: too large", None),
        failed("e-4", "unknown whether sent: no confirm", Some(HOUR)),
    ];
    assert_eq!(f.store.fail_attempts(&taken.token, &attempts).await, Ok(4));
    let troubles = f.store.row_troubles(100).await.expect("reads");
    let unroutable = ("unroutable: 312 NO_ROUTE", 2);
    assert_eq!(
        told(&troubles.failed),
        [unroutable, ("refused: too large", 1)]
    );
    assert_eq!(
        told(&troubles.retried),
        [("unknown whether sent: no confirm", 1)]
    );
    assert!(!troubles.is_cut);
    // What was not read is said.
    assert!(f.store.row_troubles(2).await.expect("reads").is_cut);
}

pub async fn what_was_sent_is_followed_to_its_consumer(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3", "e-4"]).await;
    let taken = claim(&f.store, 10).await;
    let ids: Vec<EventId> = ["e-1", "e-2", "e-3"].map(EventId::new).to_vec();
    assert_eq!(f.store.complete(&taken.token, &ids).await, Ok(3));
    let sent = f.store.sent_recently(HOUR, 10).await.expect("reads");
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent.iter().all(|row| row.age_s >= 0.0), "{sent:?}");
    let newest = f.store.sent_recently(HOUR, 1).await.expect("reads");
    assert_eq!(newest.len(), 1);
    let window = Duration::from_micros(1);
    let none = f.store.sent_recently(window, 10).await.expect("reads");
    assert_eq!(none, []);

    // One consumed, one dead, one nowhere.
    let tx = consume(&f.store, "e-1", leak("ab".repeat(32))).await;
    tx.commit().await.expect("commits");
    f.bury("e-2").await;
    let mut seen = f.store.seen_by(&consumer(), &ids).await.expect("reads");
    seen.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    assert_eq!(seen, ["e-1", "e-2"].map(EventId::new));
}

/// Between two looks at the server's transactions. InnoDB tells them from a copy that it renews only when
/// nobody has read it for 100 ms: who asks more often is told the same for ever.
pub const LOOKS: Duration = Duration::from_millis(250);

pub async fn who_holds_locks_is_seen_or_the_missing_right_named(f: &Fixture) {
    if f.product == "sqlite" {
        assert_eq!(f.store.lock_waits().await, Ok(None));
        return;
    }
    f.emit(&["e-1"]).await;
    let mut holder = f.store.begin().await.expect("begins");
    let lock = "UPDATE outbox_events SET attempts = 7 WHERE event_id = 'e-1'";
    holder.execute(lock, &[]).await.expect("locks");
    let another = f.another();
    let waiter = async {
        // Ends when the holder rolls back; the server may give up waiting before.
        loop {
            let mut tx = another.begin().await.expect("begins");
            let has_lock = tx.execute(lock, &[]).await.is_ok();
            tx.rollback().await.expect("rolls back");
            if has_lock {
                break;
            }
        }
    };
    let look = async {
        let mut ticks = tokio::time::interval(LOOKS);
        loop {
            let locks = f.store.lock_waits().await.expect("reads").expect("applies");
            if locks.waiting > 0 {
                assert!(locks.longest_s.is_some_and(|s| s < 60.0), "{locks:?}");
                assert!(locks.oldest_holder_s.is_some_and(|s| s < 60.0), "{locks:?}");
                assert!(locks.holder.is_some(), "{locks:?}");
                break;
            }
            ticks.tick().await;
        }
        holder.rollback().await.expect("rolls back");
    };
    tokio::join!(waiter, look);
    let mut ticks = tokio::time::interval(LOOKS);
    loop {
        let locks = f.store.lock_waits().await.expect("reads").expect("applies");
        if (locks.waiting, locks.oldest_holder_s) == (0, None) {
            break;
        }
        ticks.tick().await;
    }
    another.close().await;
    without_the_right(f).await;
}

/// Not an answer that knows of this account's own sessions only.
async fn without_the_right(f: &Fixture) {
    let name = format!("blind{}", std::process::id());
    let mut database = String::new();
    let account = f.with(|service, _| {
        let mut url = url::Url::parse(service.database.expose()).expect("a URL");
        url.path().trim_start_matches('/').clone_into(&mut database);
        url.set_username(&name).expect("a user");
        url.set_password(Some("x")).expect("a password");
        service.database = SecretUrl::new(url.to_string());
    });
    f.sql(format!("CREATE USER '{name}'@'%' IDENTIFIED BY 'x'"))
        .await;
    f.sql(format!("GRANT SELECT ON `{database}`.* TO '{name}'@'%'"))
        .await;
    match account.lock_waits().await {
        Err(StoreError::Denied { detail, .. }) => assert!(detail.contains("PROCESS"), "{detail}"),
        other => panic!("not refused: {other:?}"),
    }
    account.close().await;
    f.sql(format!("DROP USER '{name}'@'%'")).await;
}
