//! What a journey is read with: look-ups by key only, each with a limit, so that asking for the story
//! of one event costs the same on a table of any size.

use async_trait::async_trait;
use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::inbox::InboxRow;
use crate::model::operation::{Operation, OperationItem};
use crate::model::outbox::OutboxRow;
use crate::model::saga::Saga;

use super::StoreResult;

/// Rows of an aggregate that are read at most.
pub const TRAIL_MAX: usize = 50;
/// Repairs, operations and sagas of one event or letter that are read at most.
pub const LINKS_MAX: usize = 20;
/// Audit entries of one operation that are read at most.
pub const AUDIT_MAX: usize = 20;

/// An outbox row with what links it to others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrailRow {
    /// The row.
    pub row: OutboxRow,
    /// The event this one was caused by; `None` also where the layout keeps none.
    pub causation_id: Option<String>,
    /// Exchange, when the row overrides the service's.
    pub exchange: Option<String>,
    /// Routing key, when the row overrides the event type.
    pub routing_key: Option<String>,
}

/// The newest events of one aggregate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trail {
    /// Oldest first, at most [`TRAIL_MAX`].
    pub rows: Vec<TrailRow>,
    /// True when there are older ones that were not read.
    pub truncated: bool,
    /// Why it could not be asked, e.g. which index is missing.
    pub not_answered: Option<String>,
}

/// An event that waits for an earlier version, without its message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingNote {
    /// The event.
    pub event_id: EventId,
    /// Who waits.
    pub consumer: ConsumerName,
    /// Its version.
    pub version: i64,
    /// The version that must come first.
    pub missing_version: i64,
    /// When it was parked first.
    pub parked_at: Timestamp,
    /// When it was tried last.
    pub attempted_at: Timestamp,
    /// Times it was tried.
    pub attempts: i64,
    /// When it becomes a dead letter.
    pub deadline_at: Timestamp,
    /// Digest of the payload that waits.
    pub payload_sha256: String,
}

/// The link from an event to the one that replaced it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepairLink {
    /// The operation that did it.
    pub operation_id: OperationId,
    /// The event that was repaired, when its message carried an id.
    pub original_event_id: Option<EventId>,
    /// The dead letter it was.
    pub dead_letter_id: DeadLetterId,
    /// The event that replaced it.
    pub new_event_id: EventId,
    /// Why.
    pub reason: String,
    /// Who.
    pub actor: String,
    /// When, on the database's clock.
    pub created_at: Timestamp,
}

/// The look-ups of journeys.
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// Events of one aggregate with their causes. (aggregate, …), at most [`TRAIL_MAX`].
    async fn trail(&self, aggregate_id: &AggregateId) -> StoreResult<Trail>;
    /// Inbox rows of these events. Primary key.
    async fn inbox_rows(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<InboxRow>>;
    /// Which of these events wait for an earlier version. Primary key. None where nothing can wait.
    async fn waiting_notes(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<WaitingNote>>;
    /// What operations did with a letter, newest first. (letter, state), at most [`LINKS_MAX`].
    async fn items_of_letter(
        &self,
        id: &DeadLetterId,
    ) -> StoreResult<Vec<(OperationId, OperationItem)>>;
    /// What operations did with an event, newest first. (event), at most [`LINKS_MAX`]; `Unsupported`
    /// where that index is not migrated yet.
    async fn items_of_event(
        &self,
        event_id: &EventId,
    ) -> StoreResult<Vec<(OperationId, OperationItem)>>;
    /// These operations without their items: a batch has thousands. Primary key.
    async fn operation_heads(&self, ids: &[OperationId]) -> StoreResult<Vec<Operation>>;
    /// Repairs of an event, and the repair that made it. (original), (new), at most [`LINKS_MAX`].
    async fn repairs_of(&self, event_id: &EventId) -> StoreResult<Vec<RepairLink>>;
    /// Audit entries of an operation, oldest first. (operation), at most [`AUDIT_MAX`].
    async fn audit_of(&self, operation_id: &OperationId) -> StoreResult<Vec<AuditEntry>>;
    /// Sagas with a step that waits for one of these events or sent it. (event), at most [`LINKS_MAX`].
    async fn sagas_of_events(&self, event_ids: &[EventId]) -> StoreResult<Vec<Saga>>;
    /// Sagas of any type with this business key. (type, business key): one jump a type, at most
    /// [`LINKS_MAX`].
    async fn sagas_of_key(&self, business_key: &str) -> StoreResult<Vec<Saga>>;
}
