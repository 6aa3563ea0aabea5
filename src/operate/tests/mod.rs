//! Stories of one event: from the dead letter to its proof, on SQLite and the in-process broker.

mod publishing;
mod refusing;
mod replaying;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use super::plan::{Access, Level, OperateError, Request, Target};
use super::test_support::{
    CONSUMER, DLQ, Letter, QUEUE, Scene, act, because, level, line, operation_of, operator, refusal,
};
use crate::broker::{Broker, NewQueue, Topology};
use crate::config::Environment;
use crate::model::dead_letter::{DeadLetterStatus, NewDeath};
use crate::model::ids::{ClaimToken, ConsumerName, OperationId};
use crate::model::message::{FieldValue, Payload};
use crate::model::operation::{ItemState, OperationState, Verb};
use crate::model::outbox::OutboxState;
use crate::pipeline::headers::REPLAYS;
use crate::pipeline::test_support::{Meddler, new_event};
use crate::store::inbox::ArchiveRequest;
use crate::store::{
    Begun, ClaimRequest, FailedAttempt, Guarded, ItemStep, NewOperation, Reservation,
};

const SOON: Duration = Duration::from_secs(5);

fn discard(letter: &Letter, is_resolved: bool) -> Request {
    Request::Discard {
        target: letter.target(),
        is_resolved,
    }
}

/// An operation as a console leaves it that is killed: reserved, and stepped to `state`.
async fn killed(scene: &Scene, letter: &Letter, state: ItemState) -> OperationId {
    let store = scene.bench.store(CONSUMER);
    let row = scene.letter(letter).await;
    let operation = NewOperation {
        operation_id: OperationId::generate(),
        verb: Verb::Replay,
        actor: "mia@desk".to_owned(),
        reason: "rollout".to_owned(),
        ticket: None,
        plan_digest: String::new(),
        plan: "{}".to_owned(),
    };
    let reservation = Reservation {
        dead_letter_id: letter.dead_letter_id.clone(),
        version: row.version,
        payload_sha256: row.payload_sha256,
        token: ClaimToken::generate(),
        // Over at once: its holder gives no more sign.
        lease: Duration::ZERO,
    };
    let audit = crate::model::audit::AuditRecord {
        actor: "mia@desk".to_owned(),
        action: "replay".to_owned(),
        phase: "intent".to_owned(),
        operation_id: Some(operation.operation_id.clone()),
        subject: letter.event.event_id.to_string(),
        reason: "rollout".to_owned(),
        detail: "{}".to_owned(),
    };
    let begun = store
        .begin_replay(&operation, std::slice::from_ref(&reservation), &audit)
        .await
        .expect("begins");
    assert_eq!(begun, Begun::Started);
    if state == ItemState::Publishing {
        let step = ItemStep {
            operation_id: operation.operation_id.clone(),
            no: 1,
            token: reservation.token,
            from: vec![ItemState::Reserved],
            to: ItemState::Publishing,
            evidence: "being sent".to_owned(),
            audit: None,
        };
        assert_eq!(store.step_item(&step).await.expect("steps"), Guarded::Done);
    }
    operation.operation_id
}
