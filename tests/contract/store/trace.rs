//! The look-ups of journeys: by key, on every database.

use std::time::Duration;

use redrive::model::ids::{AggregateId, EventId, OperationId, SagaId};
use redrive::model::message::{Message, Payload};
use redrive::model::operation::Verb;
use redrive::model::outbox::NewEvent;
use redrive::model::saga::{NewSaga, NewStep};
use redrive::model::waiting::NewWaiting;
use redrive::store::{Begun, StoreError};

use super::fixture::{Fixture, audit, consume, consumer, event, operation};

fn id(text: &str) -> EventId {
    EventId::new(text)
}

pub async fn an_aggregate_is_read_with_its_causes(f: &Fixture) {
    let mut tx = f.store.begin().await.expect("begins");
    tx.append(&event("e-1")).await.expect("appends");
    let caused = NewEvent {
        aggregate_version: 2,
        causation_id: Some("e-1".to_owned()),
        exchange: Some(String::new()),
        routing_key: Some("inventory.orders".to_owned()),
        ..event("e-2")
    };
    tx.append(&caused).await.expect("appends");
    tx.commit().await.expect("commits");
    let trail = f.store.trail(&AggregateId::new("order-42")).await;
    let trail = trail.expect("reads");
    let told: Vec<_> = trail
        .rows
        .iter()
        .map(|row| {
            (
                row.row.event_id.as_str(),
                row.causation_id.as_deref(),
                row.exchange.as_deref(),
            )
        })
        .collect();
    assert_eq!(told, [("e-1", None, None), ("e-2", Some("e-1"), Some(""))]);
    assert!(!trail.truncated && trail.not_answered.is_none());
    let nobody = f.store.trail(&AggregateId::new("nobody")).await;
    assert!(nobody.expect("reads").rows.is_empty());
}

pub async fn inbox_rows_and_waiting_events_are_found_by_their_ids(f: &Fixture) {
    let digest = "d".repeat(64);
    let tx = consume(&f.store, "e-1", &digest).await;
    tx.commit().await.expect("commits");
    let mut tx = f.store.begin().await.expect("begins");
    let waiting = NewWaiting {
        consumer: consumer(),
        event_id: id("e-3"),
        aggregate_id: AggregateId::new("order-42"),
        version: 3,
        missing_version: 2,
        exchange: "shop.events".to_owned(),
        routing_key: "order.created".to_owned(),
        message: Message {
            payload: Payload::new(b"{}".to_vec()),
            ..Message::default()
        },
        patience: Duration::from_mins(1),
    };
    tx.park(&waiting).await.expect("parks");
    tx.commit().await.expect("commits");

    let ids = [id("e-1"), id("e-2"), id("e-3")];
    let rows = f.store.inbox_rows(&consumer(), &ids).await.expect("reads");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0].event_id, &rows[0].payload_sha256),
        (&ids[0], &Some(digest))
    );
    let notes = f
        .store
        .waiting_notes(&consumer(), &ids)
        .await
        .expect("reads");
    assert_eq!(notes.len(), 1);
    let note = &notes[0];
    assert_eq!(
        (&note.event_id, note.version, note.missing_version),
        (&ids[2], 3, 2)
    );
    assert!(note.deadline_at > note.parked_at);
    assert_eq!(f.store.inbox_rows(&consumer(), &[]).await, Ok(vec![]));
}

pub async fn what_was_done_with_an_event_is_found(f: &Fixture) {
    let letter = f.bury("e-1").await;
    let (operation, reservation) = (operation(Verb::Replay), f.reservation(&letter).await);
    let record = audit(&operation, "intent");
    let begun = f
        .store
        .begin_replay(&operation, std::slice::from_ref(&reservation), &record)
        .await;
    assert_eq!(begun, Ok(Begun::Started));
    let by_letter = f.store.items_of_letter(&letter).await.expect("reads");
    let by_event = f.store.items_of_event(&id("e-1")).await.expect("reads");
    assert_eq!(by_letter, by_event);
    assert_eq!(by_letter.len(), 1);
    assert_eq!(by_letter[0].0, operation.operation_id);
    let ids = [operation.operation_id.clone(), OperationId::new("no-such")];
    let heads = f.store.operation_heads(&ids).await.expect("reads");
    assert_eq!(heads.len(), 1);
    assert!(heads[0].items.is_empty(), "a batch has thousands");
    let entries = f
        .store
        .audit_of(&operation.operation_id)
        .await
        .expect("reads");
    assert_eq!(
        entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [1]
    );

    f.sql(format!(
        "INSERT INTO repairs (repair_id, operation_id, original_event_id, dead_letter_id, new_event_id, \
         diff, reason, actor, created_at) VALUES ('r', 'op', 'e-1', 'l', 'e-9', '', 'why', 'mia', {})",
        f.moment(0)
    ))
    .await;
    let from = f.store.repairs_of(&id("e-1")).await.expect("reads");
    let to = f.store.repairs_of(&id("e-9")).await.expect("reads");
    assert_eq!(from, to);
    assert_eq!(
        (&from[0].original_event_id, &from[0].new_event_id),
        (&Some(id("e-1")), &id("e-9"))
    );
    assert_eq!(f.store.repairs_of(&id("e-2")).await, Ok(vec![]));
}

pub async fn without_the_index_a_journal_is_not_walked(f: &Fixture) {
    let drop = if f.store.facts().product == "sqlite" {
        "DROP INDEX operation_items_event"
    } else {
        "ALTER TABLE operation_items DROP INDEX operation_items_event"
    };
    f.sql(drop).await;
    let found = f.store.items_of_event(&id("e-1")).await;
    let Err(StoreError::Unsupported { reason, .. }) = &found else {
        panic!("{found:?}");
    };
    assert!(reason.contains("redrive migrate"), "{reason}");
}

pub async fn sagas_are_found_by_event_and_by_key(f: &Fixture) {
    let new = NewSaga {
        saga_id: SagaId::generate(),
        saga_type: "order".to_owned(),
        business_key: "order-42".to_owned(),
        data: "{}".to_owned(),
        deadline: Duration::from_hours(1),
        expires: None,
        steps: vec![NewStep {
            name: "reserve".to_owned(),
            forward_key: "42:reserve".to_owned(),
            compensation_key: None,
        }],
    };
    let mut tx = f.store.begin().await.expect("begins");
    assert_eq!(tx.saga_start(&new).await, Ok(true));
    tx.commit().await.expect("commits");
    f.sql("UPDATE saga_steps SET event_id = 'e-1'").await;
    let ids = [id("e-1"), id("e-2")];
    let by_event = f.store.sagas_of_events(&ids).await.expect("reads");
    let by_key = f.store.sagas_of_key("order-42").await.expect("reads");
    assert_eq!(by_event, by_key);
    assert_eq!(by_key.len(), 1);
    assert_eq!(
        (&by_key[0].saga_id, by_key[0].steps.len()),
        (&new.saga_id, 1)
    );
    assert_eq!(f.store.sagas_of_key("order-43").await, Ok(vec![]));
    assert_eq!(f.store.sagas_of_events(&[]).await, Ok(vec![]));
}
