//! The compact layout: what works without token and lease, and what is said not to.

use std::sync::Arc;
use std::time::Duration;

use redrive::model::ids::{ClaimToken, EventId};
use redrive::model::inbox::InboxInsert;
use redrive::model::operation::Verb;
use redrive::model::outbox::OutboxState;
use redrive::store::{Begun, FailedAttempt, Safety, Store, StoreError};

use super::fixture::{
    Fixture, audit, claim, consumer, emit, event, ids_of, inbox_part, operation, outbox_part, page,
    rows,
};

/// A service with the compact tables, in tables of their own names.
pub async fn compact(f: &Fixture) -> Arc<dyn Store> {
    let store = f.with(|service, _| {
        let mut outbox = outbox_part("compact");
        outbox.table = Some("team_outbox".into());
        service.outbox = Some(outbox);
        service.inbox = Some(inbox_part("compact"));
        service.dead_letters = None;
        service.sagas = None;
    });
    store.migrate(true).await.expect("migrates");
    store
}

pub async fn the_small_layout_claims_completes_and_replays(f: &Fixture) {
    let store = compact(f).await;
    emit(&store, &["e-1", "e-2", "e-3"]).await;
    let taken = claim(&store, 2).await;
    assert_eq!(taken.events.len(), 2);
    assert_eq!(taken.events[0].payload, event("e-1").payload);
    assert_eq!(taken.events[0].row.claim_token, None);
    let other = f.another();
    assert_eq!(
        claim(&store, 2).await.events.len(),
        1,
        "taken rows are not taken again"
    );
    other.close().await;
    let ids = ids_of(&taken);
    // Fenced by the status only: a second completion finds nothing.
    assert_eq!(store.complete(&taken.token, &ids).await, Ok(2));
    assert_eq!(store.complete(&taken.token, &ids).await, Ok(0));
    let failed = FailedAttempt {
        event_id: EventId::new("e-3"),
        error: "no such exchange 🧾".into(),
        retry_after: None,
    };
    assert_eq!(store.fail_attempts(&taken.token, &[failed]).await, Ok(1));
    let dead = rows(&store, OutboxState::Failed).await.remove(0);
    assert_eq!(
        dead.last_error.as_deref(),
        Some("no such exchange \\u{1f9fe}")
    );
    let replay = operation(Verb::Replay);
    let begun = store
        .replay_outbox_row(&replay, &dead.event_id, 1, &audit(&replay, "outcome"))
        .await;
    assert_eq!(begun, Ok(Begun::Started));
    let again = claim(&store, 5).await;
    assert_eq!(store.give_back(&again.token, &ids_of(&again)).await, Ok(1));
    let sent = store.outbox_page(&page(OutboxState::Sent, 10)).await;
    assert_eq!(sent.expect("pages").rows.len(), 2);
    let sequence = store.outbox_sequence(&"order-42".into()).await;
    assert_eq!(sequence.expect("reads").rows.len(), 3);
    store.close().await;
}

pub async fn the_small_layout_says_what_it_cannot(f: &Fixture) {
    let store = compact(f).await;
    emit(&store, &["e-1"]).await;
    claim(&store, 1).await;
    let facts = store.facts();
    assert!(!facts.is_fenced);
    assert!(matches!(facts.outbox_replay, Safety::MayDuplicate(_)));
    assert!(
        matches!(&facts.release, Safety::Impossible(why) if why.contains("no lease")),
        "{facts:?}"
    );
    let counts = store.outbox_counts().await.expect("counts");
    assert_eq!(counts.expired_leases, None, "never zero");
    let leases = store.leases(10).await.expect("reads");
    assert_eq!(
        leases.not_answered.as_deref(),
        Some("this layout has no lease")
    );
    let token = ClaimToken::generate();
    assert!(matches!(
        store.renew(&token, Duration::from_secs(1)).await,
        Err(StoreError::Unsupported { .. })
    ));
    let unsupported = |answer: Option<StoreError>, word: &str| match answer {
        Some(StoreError::Unsupported { reason, .. }) => {
            assert!(reason.contains(word), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    unsupported(store.reap(10).await.err(), "no lease");
    let request = redrive::store::ClaimRequest {
        batch_rows: 1,
        lease: Duration::from_secs(1),
    };
    unsupported(
        store.claim_sequences(&request).await.err(),
        "no version in the sequence",
    );
    let release = operation(Verb::Release);
    assert!(matches!(
        store
            .release_lease(&release, &token, &audit(&release, "outcome"))
            .await,
        Err(StoreError::Unsupported { .. })
    ));
    store.close().await;
}

pub async fn the_small_inbox_knows_its_duplicates(f: &Fixture) {
    let store = compact(f).await;
    for expected in [InboxInsert::First, InboxInsert::Duplicate] {
        let mut tx = store.begin().await.expect("begins");
        let found = tx
            .inbox_insert(&consumer(), &EventId::new("e-1"), &"a".repeat(64))
            .await;
        assert_eq!(found, Ok(expected));
        tx.commit().await.expect("commits");
    }
    let row = store.inbox_row(&consumer(), &"e-1".into()).await;
    assert_eq!(row.expect("reads").expect("is there").payload_sha256, None);
    assert!(matches!(
        store.inbox_row(&"mail".into(), &"e-1".into()).await,
        Err(StoreError::Unsupported { .. })
    ));
    store.close().await;
}
