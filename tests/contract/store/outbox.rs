//! The outbox: claims, fences, pages, counts.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::model::count::Count;
use redrive::model::ids::{ClaimToken, EventId};
use redrive::model::message::{FieldTable, FieldValue, Payload};
use redrive::model::operation::Verb;
use redrive::model::outbox::{NewEvent, OutboxState};
use redrive::store::{ClaimRequest, FailedAttempt, StoreError};

use super::fixture::{Fixture, audit, claim, event, ids_of, operation, page};

pub async fn events_go_from_pending_to_sent_with_their_bytes(f: &Fixture) {
    let sent = NewEvent {
        payload: Payload::new("{\"a\\u0000b\":1.10, \"e\":1E400, \"s\":\"\\ud800🧾\"}"),
        headers: FieldTable::from_iter([("x-tenant".to_owned(), FieldValue::text("eu-1"))]),
        exchange: Some(String::new()),
        routing_key: Some("inventory.orders".into()),
        trace_id: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        causation_id: Some("cause".into()),
        ..event("e-1")
    };
    let mut tx = f.store.begin().await.expect("begins");
    tx.append(&sent).await.expect("appends");
    tx.commit().await.expect("commits");

    let taken = claim(&f.store, 10).await;
    let [got] = taken.events.as_slice() else {
        panic!("one event: {taken:?}")
    };
    assert_eq!(got.payload, sent.payload);
    assert_eq!(got.headers, sent.headers);
    assert_eq!(got.exchange.as_deref(), Some(""));
    assert_eq!(got.routing_key, sent.routing_key);
    assert_eq!(got.trace_id, sent.trace_id);
    assert_eq!(got.causation_id, sent.causation_id);
    assert_eq!(got.row.attempts, Some(1));
    assert_eq!(got.row.claim_token.as_ref(), Some(&taken.token));
    assert_eq!(f.store.complete(&taken.token, &ids_of(&taken)).await, Ok(1));
    let stored = f
        .store
        .outbox_event(&EventId::new("e-1"))
        .await
        .expect("reads")
        .expect("is there");
    assert_eq!(stored.row.state, OutboxState::Sent);
    assert!(stored.row.sent_at.is_some() && stored.row.claim_token.is_none());
    assert_eq!(stored.payload, sent.payload);
}

pub async fn a_claim_is_fenced_by_its_token(f: &Fixture) {
    f.emit(&["e-1", "e-2"]).await;
    let stale = claim(&f.store, 2).await;
    f.expire_leases().await;
    assert_eq!(f.store.reap(10).await.expect("reaps").rows, 2);
    let fresh = claim(&f.store, 2).await;
    let ids = ids_of(&fresh);
    assert_eq!(ids, ids_of(&stale));
    // The first holder wakes up late: nothing it says counts any more.
    assert_eq!(f.store.complete(&stale.token, &ids).await, Ok(0));
    assert_eq!(f.store.give_back(&stale.token, &ids).await, Ok(0));
    assert_eq!(
        f.store.renew(&stale.token, Duration::from_mins(1)).await,
        Ok(0)
    );
    let failed = FailedAttempt {
        event_id: ids[0].clone(),
        error: "late".into(),
        retry_after: None,
    };
    assert_eq!(f.store.fail_attempts(&stale.token, &[failed]).await, Ok(0));
    assert_eq!(f.store.complete(&fresh.token, &ids).await, Ok(2));
    // A second completion of the same rows finds nothing to do.
    assert_eq!(f.store.complete(&fresh.token, &ids).await, Ok(0));
}

pub async fn two_claimers_share_the_backlog(f: &Fixture) {
    let ids: Vec<String> = (0..40).map(|n| format!("e-{n:02}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let other = f.another();
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let (a, b) = tokio::join!(claim(&f.store, 5), claim(&other, 5));
        for id in ids_of(&a).into_iter().chain(ids_of(&b)) {
            assert!(seen.insert(id.clone()), "{id} was claimed twice");
        }
    }
    assert_eq!(seen.len(), 40);
    assert!(claim(&f.store, 5).await.events.is_empty());
    other.close().await;
}

pub async fn an_expired_lease_is_claimed_again_after_the_reaper(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3"]).await;
    let first = claim(&f.store, 2).await;
    let alive = f.store.reap(10).await.expect("reaps");
    assert_eq!((alive.rows, alive.claims.len()), (0, 0), "still leased");
    f.expire_leases().await;
    let counts = f.store.outbox_counts().await.expect("counts");
    assert_eq!(counts.expired_leases, Some(Count::Exact(2)));
    let leases = f.store.leases(10).await.expect("reads");
    assert!(leases.groups[0].left_s.expect("has a lease") < 0.0);
    assert_eq!(leases.groups[0].claim_token.as_ref(), Some(&first.token));
    let third = claim(&f.store, 3).await;
    assert_eq!(
        ids_of(&third),
        [EventId::new("e-3")],
        "a claim takes over nothing"
    );
    let reaped = f.store.reap(10).await.expect("reaps");
    assert_eq!(
        (reaped.rows, reaped.claims),
        (2, vec![(Some(first.token), 2)])
    );
    assert!(reaped.overdue_s > 0.0);
    let second = claim(&f.store, 1).await;
    assert_eq!(second.events[0].row.attempts, Some(2), "attempts stay");
    assert_eq!(f.store.reap(10).await.expect("reaps").rows, 0);
    assert_eq!(f.store.complete(&third.token, &ids_of(&third)).await, Ok(1));
}

pub async fn two_reapers_and_a_late_completion_share_the_expired_rows(f: &Fixture) {
    let ids: Vec<String> = (0..60).map(|n| format!("e-{n:02}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let late = claim(&f.store, 60).await;
    f.expire_leases().await;
    let other = f.another();
    let all = ids_of(&late);
    let reap = async |store: &std::sync::Arc<dyn redrive::store::Store>| {
        let mut rows = 0;
        loop {
            match store.reap(7).await.expect("reaps").rows {
                0 => return rows,
                some => rows += some,
            }
        }
    };
    let (a, b, done) = tokio::join!(
        reap(&f.store),
        reap(&other),
        other.complete(&late.token, &all)
    );
    assert_eq!(a + b + done.expect("completes"), 60, "each row once");
    other.close().await;
}

pub async fn a_row_that_cannot_be_read_is_claimed_beside_the_others(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3"]).await;
    f.sql("UPDATE outbox_events SET headers = '[1' WHERE event_id = 'e-2'")
        .await;
    let taken = claim(&f.store, 10).await;
    assert_eq!(taken.events.len(), 2);
    let [(id, why)] = taken.unreadable.as_slice() else {
        panic!("one: {taken:?}")
    };
    assert_eq!(id.as_str(), "e-2");
    assert!(why.contains("headers"), "{why}");
    let failed = FailedAttempt {
        event_id: id.clone(),
        error: why.clone(),
        retry_after: None,
    };
    assert_eq!(f.store.fail_attempts(&taken.token, &[failed]).await, Ok(1));
}

pub async fn a_sequence_is_claimed_from_its_head(f: &Fixture) {
    // Versions 1 to 4 of one aggregate.
    f.emit(&["e-1", "e-2", "e-3", "e-4"]).await;
    let request = |batch_rows| ClaimRequest {
        batch_rows,
        lease: Duration::from_secs(30),
    };
    let head = f.store.claim_sequences(&request(2)).await.expect("claims");
    assert_eq!(ids_of(&head), ["e-1", "e-2"].map(EventId::new));
    assert_eq!(head.held, 0);
    // The rest waits for it, and is not met again by the next claim.
    let other = f.another();
    let behind = other.claim_sequences(&request(10)).await.expect("claims");
    assert_eq!((behind.events.len(), behind.held), (0, 2));
    // For half a second; for longer here, so that no slow server makes this a matter of luck.
    let later = f.moment(3_600_000_000);
    f.sql(format!(
        "UPDATE outbox_events SET next_attempt_at = {later} WHERE last_error LIKE 'held: %'"
    ))
    .await;
    let again = other.claim_sequences(&request(10)).await.expect("claims");
    assert_eq!((again.events.len(), again.held), (0, 0));
    assert_eq!(f.store.complete(&head.token, &ids_of(&head)).await, Ok(2));
    let order_42 = ("order-42".into(), 2);
    assert_eq!(
        f.store
            .wake_sequences(std::slice::from_ref(&order_42))
            .await,
        Ok(2)
    );
    assert_eq!(f.store.wake_sequences(&[order_42]).await, Ok(0));
    let rest = other.claim_sequences(&request(10)).await.expect("claims");
    assert_eq!(ids_of(&rest), ["e-3", "e-4"].map(EventId::new));
    other.close().await;
}

pub async fn a_failed_head_holds_only_its_own_sequence(f: &Fixture) {
    f.emit(&["e-1", "e-2"]).await;
    let mut tx = f.store.begin().await.expect("begins");
    let other = NewEvent {
        aggregate_id: "order-43".into(),
        aggregate_version: 2,
        ..event("f-2")
    };
    tx.append(&other).await.expect("appends");
    tx.commit().await.expect("commits");
    let request = ClaimRequest {
        batch_rows: 1,
        lease: Duration::from_secs(30),
    };
    let head = f.store.claim_sequences(&request).await.expect("claims");
    let failed = FailedAttempt {
        event_id: EventId::new("e-1"),
        error: "unroutable".into(),
        retry_after: None,
    };
    assert_eq!(f.store.fail_attempts(&head.token, &[failed]).await, Ok(1));
    let all = ClaimRequest {
        batch_rows: 10,
        ..request
    };
    let taken = f.store.claim_sequences(&all).await.expect("claims");
    assert_eq!(ids_of(&taken), [EventId::new("f-2")]);
    assert_eq!(taken.held, 1);
    let held = f.store.outbox_event(&EventId::new("e-2")).await;
    let held = held.expect("reads").expect("is there").row;
    assert_eq!((held.state, held.attempts), (OutboxState::Pending, Some(0)));
    assert!(held.last_error.expect("told").starts_with("held: "));
    let counts = f.store.outbox_counts().await.expect("counts");
    assert_eq!(counts.due, Count::Exact(0), "held rows are not due");
}

pub async fn a_renewed_lease_is_not_expired(f: &Fixture) {
    f.emit(&["e-1"]).await;
    let held = claim(&f.store, 1).await;
    f.expire_leases().await;
    assert_eq!(
        f.store.renew(&held.token, Duration::from_mins(1)).await,
        Ok(1)
    );
    assert!(claim(&f.store, 1).await.events.is_empty());
    assert_eq!(f.store.complete(&held.token, &ids_of(&held)).await, Ok(1));
}

pub async fn rows_given_back_are_untried(f: &Fixture) {
    f.emit(&["e-1", "e-2"]).await;
    let taken = claim(&f.store, 2).await;
    assert_eq!(
        f.store.give_back(&taken.token, &ids_of(&taken)).await,
        Ok(2)
    );
    let again = claim(&f.store, 2).await;
    assert!(again.events.iter().all(|e| e.row.attempts == Some(1)));
}

pub async fn p_13_failed_attempts_keep_their_reason(f: &Fixture) {
    f.emit(&["e-1", "e-2"]).await;
    let taken = claim(&f.store, 2).await;
    let attempts = [
        FailedAttempt {
            event_id: EventId::new("e-1"),
            error: format!("{}こんにちは👩‍💻\0", "x".repeat(996)),
            retry_after: Some(Duration::from_mins(1)),
        },
        FailedAttempt {
            event_id: EventId::new("e-2"),
            error: "exchange missing".into(),
            retry_after: None,
        },
    ];
    assert_eq!(f.store.fail_attempts(&taken.token, &attempts).await, Ok(2));
    let pending = f
        .store
        .outbox_event(&EventId::new("e-1"))
        .await
        .expect("reads")
        .expect("is there")
        .row;
    assert_eq!(pending.state, OutboxState::Pending);
    assert_eq!(pending.last_error, Some(format!("{}こ", "x".repeat(996))));
    assert!(pending.next_attempt_at > pending.created_at);
    assert!(claim(&f.store, 2).await.events.is_empty(), "not due yet");
    assert_eq!(f.ids(OutboxState::Failed).await, ["e-2"]);
    let counts = f.store.outbox_counts().await.expect("counts");
    assert_eq!(
        (counts.pending, counts.due, counts.failed),
        (Count::Exact(1), Count::Exact(0), Count::Exact(1))
    );
    assert_eq!(counts.oldest_due_s, None);
}

pub async fn a_released_claim_is_pending_only_after_its_lease(f: &Fixture) {
    f.emit(&["e-1", "e-2"]).await;
    let taken = claim(&f.store, 2).await;
    let release = operation(Verb::Release);
    let record = audit(&release, "outcome");
    assert_eq!(
        f.store.release_lease(&release, &taken.token, &record).await,
        Ok(0),
        "the holder may be alive"
    );
    f.expire_leases().await;
    assert_eq!(
        f.store
            .release_lease(&release, &ClaimToken::generate(), &record)
            .await,
        Ok(0),
        "another claim's token"
    );
    assert_eq!(
        f.store.release_lease(&release, &taken.token, &record).await,
        Ok(2)
    );
    assert_eq!(f.ids(OutboxState::Pending).await.len(), 2);
    assert_eq!(f.store.audit_verify().await, Ok(Ok(1)));
    assert_eq!(f.store.complete(&taken.token, &ids_of(&taken)).await, Ok(0));
}

pub async fn pages_are_stable_at_any_depth(f: &Fixture) {
    let ids: Vec<String> = (0..57).map(|n| format!("e-{n:02}")).collect();
    // One transaction: most rows share their time, the id breaks the tie.
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    for state in [
        OutboxState::Pending,
        OutboxState::Sending,
        OutboxState::Sent,
    ] {
        let mut seen = Vec::new();
        let mut query = page(state, 10);
        loop {
            let page = f.store.outbox_page(&query).await.expect("pages");
            seen.extend(page.rows.iter().map(|row| row.event_id.to_string()));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let unique: BTreeSet<_> = seen.iter().cloned().collect();
        assert_eq!((seen.len(), unique.len()), (57, 57), "{}", state.word());
        if state == OutboxState::Pending {
            claim(&f.store, 100).await;
        }
        if state == OutboxState::Sending {
            let leases = f.store.leases(1).await.expect("reads");
            let token = leases.groups[0].claim_token.clone().expect("a token");
            let ids: Vec<EventId> = ids.iter().map(EventId::new).collect();
            assert_eq!(f.store.complete(&token, &ids).await, Ok(57));
        }
    }
}

pub async fn a_page_of_one_type_is_bounded_and_goes_on(f: &Fixture) {
    let mut tx = f.store.begin().await.expect("begins");
    for n in 0..90 {
        let event_type = if n % 45 == 44 {
            "order.cancelled"
        } else {
            "order.created"
        };
        let event = NewEvent {
            event_type: event_type.into(),
            ..event(&format!("e-{n:02}"))
        };
        tx.append(&event).await.expect("appends");
    }
    tx.commit().await.expect("commits");
    let mut query = page(OutboxState::Pending, 1);
    query.event_type = Some("order.cancelled".into());
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let page = f.store.outbox_page(&query).await.expect("pages");
        found.extend(page.rows.iter().map(|row| row.event_id.to_string()));
        pages += 1;
        assert!(pages < 20, "it ends");
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    found.sort();
    assert_eq!(found.len(), 2, "{found:?}");
}

pub async fn counts_stop_at_their_cap(f: &Fixture) {
    let ids: Vec<String> = (0..12).map(|n| format!("e-{n:02}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let capped = f.with(|_, thresholds| thresholds.count_cap = 10);
    let counts = capped.outbox_counts().await.expect("counts");
    assert_eq!(counts.pending, Count::AtLeast(10));
    assert_eq!(counts.due, Count::AtLeast(10));
    assert_eq!(counts.sending, Count::Exact(0));
    assert!(
        counts
            .oldest_due_s
            .is_some_and(|s| (0.0..30.0).contains(&s))
    );
    assert!(
        counts
            .oldest_pending_s
            .is_some_and(|s| (0.0..30.0).contains(&s))
    );
    assert_eq!(counts.sent_last_minute, Some(Count::Exact(0)));
    match (f.product, counts.sent) {
        ("sqlite", sent) => assert_eq!(sent, None, "unknown is not zero"),
        (_, sent) => assert!(matches!(sent, Some(Count::About(_))), "{sent:?}"),
    }
    let exact = f.store.outbox_counts().await.expect("counts");
    assert_eq!(exact.pending, Count::Exact(12));
    capped.close().await;
}

pub async fn an_aggregate_is_read_in_order_and_a_prefix_finds_its_event(f: &Fixture) {
    f.emit(&["0197-c", "0197-a", "0198-b"]).await;
    let sequence = f
        .store
        .outbox_sequence(&"order-42".into())
        .await
        .expect("reads");
    let versions: Vec<_> = sequence
        .rows
        .iter()
        .map(|row| row.aggregate_version)
        .collect();
    assert_eq!(versions, [Some(1), Some(2), Some(3)]);
    assert!(!sequence.truncated && sequence.not_answered.is_none());
    let found = f.store.outbox_by_prefix("0197").await.expect("reads");
    let ids: Vec<_> = found.iter().map(|row| row.event_id.as_str()).collect();
    assert_eq!(ids, ["0197-a", "0197-c"]);
    assert!(matches!(
        f.store.outbox_by_prefix("019").await,
        Err(StoreError::Unsupported { .. })
    ));
    assert_eq!(
        f.store.outbox_by_prefix("%%%%").await.expect("reads"),
        vec![]
    );
}

pub async fn without_its_index_a_question_is_not_answered(f: &Fixture) {
    let drop_index = |index: &str| match f.product {
        "sqlite" => format!("DROP INDEX {index}"),
        _ => format!("DROP INDEX {index} ON outbox_events"),
    };
    for index in ["outbox_created", "outbox_aggregate"] {
        f.sql(drop_index(index)).await;
    }
    let other = f.another();
    f.emit(&["e-1"]).await;
    let counts = other.outbox_counts().await.expect("counts");
    assert_eq!(counts.pending, Count::Exact(1));
    assert_eq!(
        (counts.oldest_pending_s, counts.sent_last_minute),
        (None, None)
    );
    let sequence = other
        .outbox_sequence(&"order-42".into())
        .await
        .expect("reads");
    let reason = sequence.not_answered.expect("a reason");
    assert!(
        reason.contains("aggregate_id, aggregate_version"),
        "{reason}"
    );
    match other.outbox_page(&page(OutboxState::Sent, 10)).await {
        Err(StoreError::Unsupported { reason, .. }) => {
            assert!(reason.contains("status, created_at"), "{reason}");
        }
        unexpected => panic!("{unexpected:?}"),
    }
    let request = ClaimRequest {
        batch_rows: 1,
        lease: Duration::from_secs(1),
    };
    match other.claim_sequences(&request).await {
        Err(StoreError::Unsupported { reason, .. }) => {
            assert!(
                reason.contains("aggregate_id, aggregate_version"),
                "{reason}"
            );
        }
        unexpected => panic!("{unexpected:?}"),
    }
    other.close().await;
}

pub async fn q_01_a_claim_does_not_block_inserts(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3"]).await;
    let other = f.another();
    // The claim asks for more rows than there are, so its scan reaches the end of the index, while
    // producers insert there.
    let claims = async {
        for _ in 0..10 {
            let taken = other
                .claim_batch(&ClaimRequest {
                    batch_rows: 10,
                    lease: Duration::from_secs(30),
                })
                .await
                .expect("claims");
            other
                .give_back(&taken.token, &ids_of(&taken))
                .await
                .expect("gives back");
        }
    };
    let inserts = async {
        for n in 4..20 {
            f.emit(&[&format!("e-{n}")]).await;
        }
    };
    tokio::join!(claims, inserts);
    assert_eq!(f.ids(OutboxState::Pending).await.len(), 19);
    other.close().await;
}

pub async fn q_10_a_row_committed_late_is_still_claimed(f: &Fixture) {
    if f.product == "sqlite" {
        return; // One writer at a time: rows commit in the order they begin.
    }
    let mut late = f.store.begin().await.expect("begins");
    late.append(&event("e-1")).await.expect("appends");
    f.emit(&["e-2"]).await;
    assert_eq!(ids_of(&claim(&f.store, 10).await), [EventId::new("e-2")]);
    late.commit().await.expect("commits");
    assert_eq!(ids_of(&claim(&f.store, 10).await), [EventId::new("e-1")]);
}

pub async fn big_batches_are_completed_whole(f: &Fixture) {
    let ids: Vec<String> = (0..1203).map(|n| format!("e-{n:04}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let taken = claim(&f.store, 5000).await;
    assert_eq!(taken.events.len(), 1203);
    assert_eq!(
        f.store.complete(&taken.token, &ids_of(&taken)).await,
        Ok(1203)
    );
}
