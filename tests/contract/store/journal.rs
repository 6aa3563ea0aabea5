//! Operator actions: reservations, steps, proofs, the audit chain.

use redrive::model::audit::ChainFault;
use redrive::model::dead_letter::{DeadLetterStatus, DeathRecorded, NewDeath};
use redrive::model::ids::{ClaimToken, EventId};
use redrive::model::message::Payload;
use redrive::model::operation::{ItemState, OperationState, Verb};
use redrive::model::outbox::{NewEvent, OutboxState};
use redrive::store::{
    Begun, FailedAttempt, Guarded, NewOperation, Repair, Reservation, StoreError,
};

use super::fixture::{Fixture, audit, claim, death, event, operation, step};

/// A letter, reserved.
async fn begun(f: &Fixture, event_id: &str) -> (NewOperation, Reservation) {
    let id = f.bury(event_id).await;
    let (operation, reservation) = (operation(Verb::Replay), f.reservation(&id).await);
    let begun = f
        .store
        .begin_replay(
            &operation,
            std::slice::from_ref(&reservation),
            &audit(&operation, "intent"),
        )
        .await;
    assert_eq!(begun, Ok(Begun::Started));
    (operation, reservation)
}

async fn walk(f: &Fixture, operation: &NewOperation, token: &ClaimToken, states: &[ItemState]) {
    for pair in states.windows(2) {
        assert_eq!(
            f.store
                .step_item(&step(operation, token, pair[0], pair[1]))
                .await,
            Ok(Guarded::Done),
            "{pair:?}"
        );
    }
}

async fn state_of(f: &Fixture, operation: &NewOperation) -> (OperationState, ItemState) {
    let found = f
        .store
        .operation(&operation.operation_id)
        .await
        .expect("reads")
        .expect("is there");
    (found.state, found.items[0].state)
}

pub async fn an_operation_is_reserved_published_and_proven(f: &Fixture) {
    let (operation, reservation) = begun(f, "e-1").await;
    let letter = f.detail(&reservation.dead_letter_id).await.letter;
    assert_eq!(letter.status, DeadLetterStatus::Replaying);
    assert_eq!(letter.operation_id.as_ref(), Some(&operation.operation_id));
    let found = f.store.operation(&operation.operation_id).await;
    let found = found.expect("reads").expect("is there");
    assert_eq!(
        (found.plan.as_str(), found.actor.as_str()),
        (r#"{"plan":"as shown"}"#, "mia@desk")
    );
    let item = &found.items[0];
    assert_eq!(
        (item.no, item.state, item.deaths_before),
        (1, ItemState::Reserved, 1)
    );
    assert!(item.lease_until.is_some() && item.published_at.is_none());
    walk(
        f,
        &operation,
        &reservation.token,
        &[
            ItemState::Reserved,
            ItemState::Publishing,
            ItemState::Published,
        ],
    )
    .await;
    let letter = f.detail(&reservation.dead_letter_id).await.letter;
    assert_eq!(letter.replays, 1);
    assert!(letter.last_replayed_at.is_some());
    let mut proven = step(
        &operation,
        &reservation.token,
        ItemState::Published,
        ItemState::Consumed,
    );
    proven.audit = Some(audit(&operation, "outcome"));
    assert_eq!(f.store.step_item(&proven).await, Ok(Guarded::Done));
    let letter = f.detail(&reservation.dead_letter_id).await.letter;
    assert_eq!(letter.status, DeadLetterStatus::Replayed);
    let found = f.store.operation(&operation.operation_id).await;
    let found = found.expect("reads").expect("is there");
    assert_eq!(found.state, OperationState::Finished);
    assert!(found.finished_at.is_some() && found.items[0].published_at.is_some());
    let phases: Vec<_> = f
        .store
        .audit_page(None, 10)
        .await
        .expect("reads")
        .into_iter()
        .map(|entry| (entry.seq, entry.record.phase))
        .collect();
    assert_eq!(
        phases,
        [(2, "outcome".to_owned()), (1, "intent".to_owned())]
    );
}

pub async fn r_01_a_second_replay_is_told_who_holds_it(f: &Fixture) {
    let id = f.bury("e-1").await;
    let other = f.another();
    let reservation = f.reservation(&id).await;
    let (first, second) = (operation(Verb::Replay), operation(Verb::Replay));
    let (first_audit, second_audit) = (audit(&first, "intent"), audit(&second, "intent"));
    let reservations = [reservation];
    let (a, b) = tokio::join!(
        f.store.begin_replay(&first, &reservations, &first_audit),
        other.begin_replay(&second, &reservations, &second_audit),
    );
    let answers = [a.expect("answers"), b.expect("answers")];
    assert_eq!(
        answers.iter().filter(|a| **a == Begun::Started).count(),
        1,
        "{answers:?}"
    );
    let winner = if answers[0] == Begun::Started {
        &first
    } else {
        &second
    };
    let held = answers
        .iter()
        .find(|a| **a != Begun::Started)
        .expect("the other answer");
    assert!(
        matches!(held, Begun::Held { operation_id, actor, .. }
            if *operation_id == winner.operation_id && actor == "mia@desk"),
        "{held:?}"
    );
    // The same plan pressed twice.
    let again = f
        .store
        .begin_replay(winner, &reservations, &audit(winner, "intent"))
        .await;
    assert!(matches!(again, Ok(Begun::Held { .. })), "{again:?}");
    assert_eq!(f.store.audit_verify().await, Ok(Ok(1)));
    other.close().await;
}

pub async fn a_changed_letter_is_drifted_and_a_closed_one_closed(f: &Fixture) {
    let id = f.bury("e-1").await;
    let seen = f.reservation(&id).await;
    let next = NewDeath {
        message: super::fixture::message(b"other"),
        ..death("e-1")
    };
    f.store.record_death(&next).await.expect("records");
    let begin = async |reservation: &Reservation| {
        let operation = operation(Verb::Replay);
        f.store
            .begin_replay(
                &operation,
                std::slice::from_ref(reservation),
                &audit(&operation, "intent"),
            )
            .await
            .expect("answers")
    };
    match begin(&seen).await {
        Begun::Drifted { what } => assert!(what.contains("payload changed"), "{what}"),
        unexpected => panic!("{unexpected:?}"),
    }
    let mut missing = seen.clone();
    missing.dead_letter_id = "missing".into();
    assert_eq!(begin(&missing).await, Begun::Missing);
    let closing = operation(Verb::Discard);
    let now = f.reservation(&id).await;
    let closed = f
        .store
        .close_dead_letter(&closing, &now, false, &audit(&closing, "outcome"))
        .await;
    assert_eq!(closed, Ok(Begun::Started));
    match begin(&f.reservation(&id).await).await {
        Begun::Closed { status, .. } => assert_eq!(status, "discarded"),
        unexpected => panic!("{unexpected:?}"),
    }
    assert_eq!(
        f.store.audit_verify().await,
        Ok(Ok(1)),
        "refusals write nothing"
    );
}

pub async fn steps_are_fenced_and_illegal_ones_refused(f: &Fixture) {
    let (operation, reservation) = begun(f, "e-1").await;
    let stranger = ClaimToken::generate();
    let from_stranger = step(
        &operation,
        &stranger,
        ItemState::Reserved,
        ItemState::Publishing,
    );
    assert_eq!(
        f.store.step_item(&from_stranger).await,
        Ok(Guarded::LostRace)
    );
    let too_early = step(
        &operation,
        &reservation.token,
        ItemState::Publishing,
        ItemState::Published,
    );
    assert_eq!(f.store.step_item(&too_early).await, Ok(Guarded::LostRace));
    let illegal = step(
        &operation,
        &reservation.token,
        ItemState::Reserved,
        ItemState::Consumed,
    );
    assert!(matches!(
        f.store.step_item(&illegal).await,
        Err(StoreError::Failed { .. })
    ));
    let legal = step(
        &operation,
        &reservation.token,
        ItemState::Reserved,
        ItemState::Publishing,
    );
    let other = f.another();
    let (a, b) = tokio::join!(f.store.step_item(&legal), other.step_item(&legal));
    let mut both = [a.expect("answers"), b.expect("answers")];
    both.sort_by_key(|g| *g == Guarded::LostRace);
    assert_eq!(both, [Guarded::Done, Guarded::LostRace]);
    other.close().await;
}

pub async fn an_unroutable_replay_opens_the_letter_again(f: &Fixture) {
    let (operation, reservation) = begun(f, "e-1").await;
    walk(
        f,
        &operation,
        &reservation.token,
        &[
            ItemState::Reserved,
            ItemState::Publishing,
            ItemState::Unroutable,
        ],
    )
    .await;
    let letter = f.detail(&reservation.dead_letter_id).await.letter;
    assert_eq!(letter.status, DeadLetterStatus::Open);
    assert_eq!((letter.operation_id, letter.replays), (None, 0));
    assert_eq!(
        state_of(f, &operation).await,
        (OperationState::Finished, ItemState::Unroutable)
    );
    // Free for the next one.
    let next = super::fixture::operation(Verb::Replay);
    let reservation = f.reservation(&reservation.dead_letter_id).await;
    let begun = f
        .store
        .begin_replay(&next, &[reservation], &audit(&next, "intent"))
        .await;
    assert_eq!(begun, Ok(Begun::Started));
}

pub async fn r_13_a_death_after_a_replay_ends_its_item(f: &Fixture) {
    let (operation, reservation) = begun(f, "e-1").await;
    walk(
        f,
        &operation,
        &reservation.token,
        &[
            ItemState::Reserved,
            ItemState::Publishing,
            ItemState::Published,
        ],
    )
    .await;
    // A death that carries another operation's mark is no answer to this one.
    let foreign = NewDeath {
        operation_id: Some("another-operation".into()),
        fingerprint: "foreign".into(),
        ..death("e-1")
    };
    f.store.record_death(&foreign).await.expect("records");
    assert_eq!(state_of(f, &operation).await.1, ItemState::Published);
    let again = NewDeath {
        operation_id: Some(operation.operation_id.clone()),
        fingerprint: "after the replay".into(),
        ..death("e-1")
    };
    assert!(matches!(
        f.store.record_death(&again).await,
        Ok(DeathRecorded::Again { deaths: 3, .. })
    ));
    assert_eq!(
        state_of(f, &operation).await,
        (OperationState::Finished, ItemState::DiedAgain)
    );
    let detail = f.detail(&reservation.dead_letter_id).await;
    assert_eq!(detail.letter.status, DeadLetterStatus::Open);
    assert_eq!(
        detail.deaths[0].operation_id.as_ref(),
        Some(&operation.operation_id)
    );
    let last = f.store.audit_page(None, 1).await.expect("reads").remove(0);
    assert_eq!(last.record.phase, "outcome");
    assert!(last.record.detail.contains("died_again"));
    assert!(matches!(f.store.audit_verify().await, Ok(Ok(2))));
    assert!(
        f.store
            .unfinished_operations(10)
            .await
            .expect("reads")
            .is_empty()
    );
}

pub async fn an_unknown_outcome_holds_the_letter_until_it_is_given_up(f: &Fixture) {
    let (operation, reservation) = begun(f, "e-1").await;
    walk(
        f,
        &operation,
        &reservation.token,
        &[
            ItemState::Reserved,
            ItemState::Publishing,
            ItemState::Unknown,
        ],
    )
    .await;
    assert_eq!(
        state_of(f, &operation).await,
        (OperationState::Unknown, ItemState::Unknown)
    );
    let unfinished = f.store.unfinished_operations(10).await.expect("reads");
    assert_eq!(unfinished.len(), 1);
    assert_eq!(unfinished[0].items.len(), 1);
    let next = super::fixture::operation(Verb::Replay);
    let now = f.reservation(&reservation.dead_letter_id).await;
    let held = f
        .store
        .begin_replay(&next, &[now], &audit(&next, "intent"))
        .await;
    assert!(matches!(held, Ok(Begun::Held { .. })), "{held:?}");
    walk(
        f,
        &operation,
        &reservation.token,
        &[ItemState::Unknown, ItemState::Refused],
    )
    .await;
    let now = f.reservation(&reservation.dead_letter_id).await;
    let begun = f
        .store
        .begin_replay(&next, &[now], &audit(&next, "intent"))
        .await;
    assert_eq!(begun, Ok(Begun::Started));
}

pub fn repair_of(reservation: Reservation, operation: &NewOperation, new_id: &str) -> Repair {
    Repair {
        reservation,
        new_event: NewEvent {
            payload: Payload::new(r#"{"sku":"a-1"}"#),
            causation_id: Some("e-1".into()),
            ..event(new_id)
        },
        diff: "-{\"sku\":null}\n+{\"sku\":\"a-1\"}\n".into(),
        audit: audit(operation, "outcome"),
    }
}

pub async fn a_repair_is_whole_or_not_at_all(f: &Fixture) {
    let id = f.bury("e-1").await;
    f.emit(&["taken"]).await;
    // The new id is taken: nothing of the repair may stay.
    let bad = operation(Verb::Repair);
    let repair = repair_of(f.reservation(&id).await, &bad, "taken");
    assert!(f.store.repair(&bad, &repair).await.is_err());
    assert_eq!(f.detail(&id).await.letter.status, DeadLetterStatus::Open);
    assert_eq!(f.store.operation(&bad.operation_id).await, Ok(None));
    assert_eq!(f.number("SELECT COUNT(*) FROM repairs").await, 0);
    assert_eq!(f.store.audit_verify().await, Ok(Ok(0)));

    let good = operation(Verb::Repair);
    let repair = repair_of(f.reservation(&id).await, &good, "e-2");
    assert_eq!(f.store.repair(&good, &repair).await, Ok(Begun::Started));
    let letter = f.detail(&id).await.letter;
    assert_eq!(letter.status, DeadLetterStatus::Repaired);
    let stored = f.store.outbox_event(&EventId::new("e-2")).await;
    let stored = stored.expect("reads").expect("is there");
    assert_eq!(stored.row.state, OutboxState::Pending);
    assert_eq!(stored.payload.text(), Some(r#"{"sku":"a-1"}"#));
    let found = f.store.operation(&good.operation_id).await;
    let found = found.expect("reads").expect("is there");
    assert_eq!(found.state, OperationState::Finished);
    assert_eq!(found.items[0].new_event_id, Some(EventId::new("e-2")));
    assert_eq!(f.number("SELECT COUNT(*) FROM repairs").await, 1);
    assert_eq!(f.store.audit_verify().await, Ok(Ok(1)));
    // The original stays as it was.
    assert_eq!(
        f.detail(&id).await.message.payload.bytes(),
        br#"{"sku":null}"#
    );
    let again = f.store.repair(&operation(Verb::Repair), &repair).await;
    assert!(matches!(again, Ok(Begun::Closed { .. })), "{again:?}");
}

pub async fn a_discarded_letter_stays_closed_until_it_dies_again(f: &Fixture) {
    for (is_resolved, status) in [
        (false, DeadLetterStatus::Discarded),
        (true, DeadLetterStatus::Resolved),
    ] {
        let event_id = format!("e-{is_resolved}");
        let id = f.bury(&event_id).await;
        let operation = operation(Verb::Discard);
        let reservation = f.reservation(&id).await;
        let record = audit(&operation, "outcome");
        let closed = f
            .store
            .close_dead_letter(&operation, &reservation, is_resolved, &record)
            .await;
        assert_eq!(closed, Ok(Begun::Started));
        assert_eq!(f.detail(&id).await.letter.status, status);
        f.store
            .record_death(&death(&event_id))
            .await
            .expect("records");
        assert_eq!(f.detail(&id).await.letter.status, DeadLetterStatus::Open);
        assert_eq!(state_of(f, &operation).await.1, ItemState::Applied);
    }
}

pub async fn a_failed_outbox_row_goes_back_to_pending_once(f: &Fixture) {
    f.emit(&["e-1"]).await;
    let id = EventId::new("e-1");
    let replay = async |attempts: i64| {
        let operation = operation(Verb::Replay);
        f.store
            .replay_outbox_row(&operation, &id, attempts, &audit(&operation, "outcome"))
            .await
            .expect("answers")
    };
    match replay(1).await {
        Begun::Closed { status, .. } => assert_eq!(status, "pending"),
        unexpected => panic!("{unexpected:?}"),
    }
    let taken = claim(&f.store, 1).await;
    let failed = FailedAttempt {
        event_id: id.clone(),
        error: "no such exchange".into(),
        retry_after: None,
    };
    f.store
        .fail_attempts(&taken.token, &[failed])
        .await
        .expect("fails");
    assert!(matches!(replay(7).await, Begun::Drifted { .. }));
    assert_eq!(replay(1).await, Begun::Started);
    assert!(matches!(replay(1).await, Begun::Closed { .. }));
    let row = f
        .store
        .outbox_event(&id)
        .await
        .expect("reads")
        .expect("is there")
        .row;
    assert_eq!((row.state, row.attempts), (OutboxState::Pending, Some(0)));
    let missing = operation(Verb::Replay);
    let begun = f
        .store
        .replay_outbox_row(&missing, &"none".into(), 1, &audit(&missing, "outcome"))
        .await;
    assert_eq!(begun, Ok(Begun::Missing));
    assert_eq!(f.store.audit_verify().await, Ok(Ok(1)));
}

pub async fn the_audit_chain_verifies_and_finds_tampering(f: &Fixture) {
    let record = audit(&operation(Verb::Replay), "refused");
    let other = f.another();
    for _ in 0..5 {
        let (a, b) = tokio::join!(f.store.audit_append(&record), other.audit_append(&record));
        assert_ne!(a.expect("appends").seq, b.expect("appends").seq);
    }
    assert_eq!(f.store.audit_verify().await, Ok(Ok(10)));
    f.sql("UPDATE audit_log SET reason = 'because' WHERE seq = 4")
        .await;
    assert_eq!(
        f.store.audit_verify().await,
        Ok(Err(ChainFault::Altered { seq: 4 }))
    );
    f.sql("DELETE FROM audit_log WHERE seq = 4").await;
    assert_eq!(
        f.store.audit_verify().await,
        Ok(Err(ChainFault::Gap {
            expected: 4,
            found: 5
        }))
    );
    f.sql("DELETE FROM audit_log WHERE seq >= 4").await;
    assert_eq!(
        f.store.audit_verify().await,
        Ok(Err(ChainFault::CutOff { last: 3, head: 10 }))
    );
    other.close().await;
}

pub async fn operations_are_listed_newest_first_and_unfinished_ones_found(f: &Fixture) {
    let mut begun_ids = Vec::new();
    for n in 0..5 {
        let (operation, _) = begun(f, &format!("e-{n}")).await;
        begun_ids.push(operation.operation_id);
    }
    let first = f.store.operations_page(None, 3).await.expect("pages");
    let second = f
        .store
        .operations_page(first.next.as_ref(), 3)
        .await
        .expect("pages");
    let listed: Vec<_> = first
        .rows
        .into_iter()
        .chain(second.rows)
        .map(|operation| operation.operation_id)
        .collect();
    begun_ids.sort();
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, begun_ids);
    assert_eq!(second.next, None);
    let unfinished = f.store.unfinished_operations(3).await.expect("reads");
    assert_eq!(unfinished.len(), 3);
    assert!(
        unfinished
            .iter()
            .all(|operation| operation.items.len() == 1)
    );
}
