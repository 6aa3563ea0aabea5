//! What redrive asks of a database, whatever it is. One method = one transaction = one named
//! transition, guarded and fenced in its statement (design invariant 1): losing a race is a value.
//!
//! One [`Store`] stands for one service's database. Adapters live in `sql`; every dialect passes
//! the suite in `contract`.

mod error;
pub mod inbox;
pub mod outbox;
mod saga;
pub mod scan;
pub mod sql;
pub mod trace;
mod trouble;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::model::audit::{AuditEntry, AuditRecord, ChainFault};
use crate::model::dead_letter::{
    DeadLetter, DeadLetterCounts, DeadLetterDetail, DeadLetterGroups, DeadLetterQuery,
    DeathRecorded, NewDeath,
};
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId,
};
use crate::model::inbox::{InboxInsert, InboxRow};
use crate::model::numbers::Numbers;
use crate::model::operation::{ItemState, Operation, OperationItem, Verb};
use crate::model::outbox::{
    Leases, NewEvent, OutboxCounts, OutboxEvent, OutboxQuery, OutboxRow, Sequence,
};
use crate::model::page::{Cursor, Page};
use crate::model::saga::{NewSaga, Saga, SagaRef, Work};
use crate::model::waiting::{NewWaiting, Parked};

pub use error::{StoreError, StoreResult};
pub use inbox::InboxStore;
pub use outbox::{Claim, ClaimRequest, FailedAttempt, OutboxStore, Reaped, Unreadable};
pub use saga::{SagaAction, SagaClaimRequest, SagaStore};
pub use scan::ScanStore;
pub use trace::TraceStore;
pub use trouble::TroubleStore;

/// What a layout can do for a verb; the console shows the reason instead of a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "safety", content = "reason")]
pub enum Safety {
    /// Fenced; cannot double by itself.
    Safe,
    /// Works, but may send or do something twice: why.
    MayDuplicate(String),
    /// Only the application can do it: why.
    NeedsApplication(String),
    /// Cannot be done: why.
    Impossible(String),
}

/// What is known about a store without asking the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreFacts {
    /// Service name.
    pub service: String,
    /// `mysql`, `mariadb`, `sqlite`; `mysql` until probed.
    pub product: String,
    /// Outbox layout, if it has one.
    pub outbox_layout: Option<String>,
    /// The inbox's consumer, if it has one.
    pub consumer: Option<ConsumerName>,
    /// Has dead letters.
    pub has_dead_letters: bool,
    /// Has sagas.
    pub has_sagas: bool,
    /// Has our journal tables.
    pub has_journal: bool,
    /// True when outbox rows carry a token and a lease.
    pub is_fenced: bool,
    /// Replaying a failed outbox row.
    pub outbox_replay: Safety,
    /// Releasing an expired lease.
    pub release: Safety,
}

/// The answer to "are you there?".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreProbe {
    /// Round trip in microseconds.
    pub latency_us: u64,
    /// e.g. `MariaDB 10.11.19`.
    pub version: String,
    /// The database's clock.
    pub database_now: Timestamp,
    /// Database clock minus ours, the round trip halved, in microseconds.
    pub skew_us: i64,
}

/// One line of `redrive check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckLine {
    /// What was looked at, e.g. `table outbox_events`.
    pub subject: String,
    /// How it stands.
    pub level: CheckLevel,
    /// What was found, or what is missing and how to mend it.
    pub finding: String,
}

/// How a checked thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Works, with a limit worth knowing.
    Warning,
    /// Something will not work.
    Problem,
    /// Could not be looked at.
    Unreachable,
}

/// What `redrive migrate` would run or ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MigrationStep {
    /// File name, e.g. `0001_outbox.sql`.
    pub name: String,
    /// True when the database already has it.
    pub is_applied: bool,
    /// The statements.
    pub sql: String,
}

/// An operation about to start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOperation {
    /// Its identity, fixed at the plan.
    pub operation_id: OperationId,
    /// What.
    pub verb: Verb,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Ticket.
    pub ticket: Option<String>,
    /// Digest of the confirmed plan.
    pub plan_digest: String,
    /// The plan as JSON text.
    pub plan: String,
}

/// A dead letter to be reserved, as the plan froze it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The letter.
    pub dead_letter_id: DeadLetterId,
    /// Its row version at the plan.
    pub version: i64,
    /// Its payload digest at the plan.
    pub payload_sha256: String,
    /// Fences the item.
    pub token: ClaimToken,
    /// How long the holder is believed alive without a sign.
    pub lease: Duration,
}

/// What became of the try to start an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Intent, items, reservations and audit entry are committed.
    Started,
    /// Somebody else holds an item.
    Held {
        /// The operation that holds it.
        operation_id: OperationId,
        /// Who started that.
        actor: String,
        /// When.
        since: Timestamp,
    },
    /// The letter is closed already.
    Closed {
        /// Its status now.
        status: String,
        /// When it was last changed.
        at: Timestamp,
    },
    /// The row changed since the plan; plan again.
    Drifted {
        /// What differs.
        what: String,
    },
    /// The row is gone.
    Missing,
}

/// What a guarded write found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// The row was in the expected state and was changed.
    Done,
    /// It was not: somebody else was faster.
    LostRace,
}

/// One step of an operation's item, with what it means for its dead letter and the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemStep {
    /// The operation.
    pub operation_id: OperationId,
    /// The item's number.
    pub no: i64,
    /// Fences the step.
    pub token: ClaimToken,
    /// States it may be in now. Each pair must satisfy [`ItemState::may_become`].
    pub from: Vec<ItemState>,
    /// The state it gets.
    pub to: ItemState,
    /// Stored with the item.
    pub evidence: String,
    /// Written in the same transaction; `None` for a step nobody needs to read about.
    pub audit: Option<AuditRecord>,
}

/// A repair, applied in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// The letter as the plan froze it.
    pub reservation: Reservation,
    /// The new event; goes to this service's own outbox.
    pub new_event: NewEvent,
    /// Unified diff of the payloads, for people.
    pub diff: String,
    /// Intent and outcome in one: the transaction is both.
    pub audit: AuditRecord,
}

/// A value bound to a handler's statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// 64 signed bits.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A business transaction: the effect, the inbox row and the outgoing events commit together.
/// Dropping it without commit rolls back. Statements use `?` placeholders on every database.
///
/// # Errors
/// Every call: [`StoreError`]. A deadlock, a lost connection or a call that was not answered in time ends the transaction:
/// from then on every call, the commit too, gives that error again, whether or not it was passed over. A row that a
/// key refused ends nothing.
#[async_trait]
pub trait BusinessTx: Send {
    /// Inserts the inbox row: first statement of a consumer's transaction.
    async fn inbox_insert(
        &mut self,
        consumer: &ConsumerName,
        event_id: &EventId,
        payload_sha256: &str,
    ) -> StoreResult<InboxInsert>;

    /// The last version of a sequence this consumer has applied, locked until the end of the
    /// transaction; a sequence it has not seen begins at `base`. Two that begin one at the same time:
    /// one of them is [`StoreError::Contended`].
    async fn lock_version(
        &mut self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
        base: i64,
    ) -> StoreResult<i64>;

    /// Moves a locked sequence on, guarded by the version that was read.
    async fn set_version(
        &mut self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
        from: i64,
        to: i64,
    ) -> StoreResult<Guarded>;

    /// Parks an event that came before the one it builds on; no inbox row may be in the transaction.
    /// One that waits already gets a new deadline.
    async fn park(&mut self, waiting: &NewWaiting) -> StoreResult<Parked>;

    /// Removes a waiting event in the transaction that consumes it; 0 when it did not wait.
    async fn forget_waiting(
        &mut self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<u64>;

    /// Appends an event to this database's outbox.
    async fn append(&mut self, event: &NewEvent) -> StoreResult<()>;

    /// Writes a new saga with its steps; `false` when its business key has one already.
    async fn saga_start(&mut self, saga: &NewSaga) -> StoreResult<bool>;

    /// Locks a saga and reads it, with its business input and the database's clock. The first lock of
    /// whoever moves it: before business rows, so that two movers wait and never deadlock.
    async fn saga(&mut self, of: &SagaRef) -> StoreResult<Option<Work>>;

    /// Writes a locked saga after a move, guarded by the version before it and, for a coordinator, by
    /// the token of its claim. Ends the claim.
    async fn saga_move(
        &mut self,
        before: &Saga,
        after: &Saga,
        token: Option<&ClaimToken>,
    ) -> StoreResult<Guarded>;

    /// Runs a statement; returns the rows matched.
    async fn execute(&mut self, statement: &'static str, values: &[Value]) -> StoreResult<u64>;

    /// Reads at most one row of integers and texts.
    async fn fetch_one(
        &mut self,
        statement: &'static str,
        values: &[Value],
    ) -> StoreResult<Option<Vec<Value>>>;

    /// Commits.
    async fn commit(self: Box<Self>) -> StoreResult<()>;

    /// Rolls back.
    async fn rollback(self: Box<Self>) -> StoreResult<()>;
}

/// One service's database. Looking uses a small pool of read-only sessions; writes use another.
/// Every call has a time limit and runs to its end in its own task when its caller is dropped, so
/// that cancelling never leaves a session inside a transaction.
#[async_trait]
pub trait Store:
    InboxStore + OutboxStore + SagaStore + ScanStore + TraceStore + TroubleStore
{
    /// What is known without asking.
    fn facts(&self) -> StoreFacts;

    // ---- looking -----------------------------------------------------------------------------

    /// Reaches the server.
    async fn probe(&self) -> StoreResult<StoreProbe>;
    /// Version, rights, tables, columns, indexes. Never fails: what cannot be read is a line.
    async fn check(&self) -> Vec<CheckLine>;
    /// All that is counted once a second, in one statement: what `outbox_counts`, `inbox_recent` of `window`,
    /// `waiting_summary` and `dead_letter_counts` answer. Fails as a whole; who wants to know which part it is
    /// asks each.
    async fn numbers(&self, window: Duration) -> StoreResult<Numbers>;
    /// Capped counts and ages.
    async fn outbox_counts(&self) -> StoreResult<OutboxCounts>;
    /// A page of rows in one state.
    async fn outbox_page(&self, query: &OutboxQuery) -> StoreResult<Page<OutboxRow>>;
    /// One event with its payload.
    async fn outbox_event(&self, event_id: &EventId) -> StoreResult<Option<OutboxEvent>>;
    /// Events whose id starts with `prefix` (at least 4 characters), at most 20.
    async fn outbox_by_prefix(&self, prefix: &str) -> StoreResult<Vec<OutboxRow>>;
    /// Events of one aggregate, at most 50.
    async fn outbox_sequence(&self, aggregate_id: &AggregateId) -> StoreResult<Sequence>;
    /// Claims and their leases, from at most `limit` rows.
    async fn leases(&self, limit: u32) -> StoreResult<Leases>;
    /// One inbox row.
    async fn inbox_row(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<Option<InboxRow>>;
    /// Inbox rows written in the last `window`, capped at the count cap.
    async fn inbox_recent(&self, window: Duration) -> StoreResult<crate::model::count::Count>;
    /// Open dead letters and recent deaths: one statement, for a look once a second.
    async fn dead_letter_counts(&self) -> StoreResult<DeadLetterCounts>;
    /// Open dead letters by cause; groups at most `count_cap` rows.
    async fn dead_letter_groups(&self) -> StoreResult<DeadLetterGroups>;
    /// A page of dead letters.
    async fn dead_letter_page(&self, query: &DeadLetterQuery) -> StoreResult<Page<DeadLetter>>;
    /// One dead letter with message and deaths.
    async fn dead_letter(&self, id: &DeadLetterId) -> StoreResult<Option<DeadLetterDetail>>;
    /// Dead letters of one event (one a consumer), at most 20.
    async fn dead_letters_of_event(&self, event_id: &EventId) -> StoreResult<Vec<DeadLetter>>;
    /// Dead letters of one aggregate, at most 50.
    async fn dead_letters_of_aggregate(
        &self,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Vec<DeadLetter>>;
    /// Operations, newest first, without their items.
    async fn operations_page(
        &self,
        after: Option<&Cursor>,
        limit: u32,
    ) -> StoreResult<Page<Operation>>;
    /// One operation with its items.
    async fn operation(&self, id: &OperationId) -> StoreResult<Option<Operation>>;
    /// Operations that still have an item that is not final, oldest first, with items, at most `limit`.
    async fn unfinished_operations(&self, limit: u32) -> StoreResult<Vec<Operation>>;
    /// Audit entries, newest first.
    async fn audit_page(&self, after_seq: Option<i64>, limit: u32) -> StoreResult<Vec<AuditEntry>>;
    /// Reads the whole chain in pages and checks it; the number of entries.
    async fn audit_verify(&self) -> StoreResult<Result<i64, ChainFault>>;

    // ---- consumers and the collector -----------------------------------------------------------

    /// Begins a business transaction (READ COMMITTED, with a time limit).
    async fn begin(&self) -> StoreResult<Box<dyn BusinessTx>>;
    /// Records a death in one transaction.
    async fn record_death(&self, death: &NewDeath) -> StoreResult<DeathRecorded>;
    /// The messages without an id that have these fingerprints are acknowledged: from now on an equal
    /// message is another one, even a redelivered one (B-14). Repeating it changes nothing.
    async fn settle_deaths(&self, fingerprints: &[String]) -> StoreResult<u64>;

    // ---- operator actions ----------------------------------------------------------------------

    /// Commits the intent: operation, one reserved item a letter (`open` → `replaying`), audit entry.
    async fn begin_replay(
        &self,
        operation: &NewOperation,
        reservations: &[Reservation],
        audit: &AuditRecord,
    ) -> StoreResult<Begun>;
    /// Moves an item on, with its dead letter (`consumed` → `replayed`; `unroutable`, `refused` → `open`;
    /// `published` counts the replay) and its audit entry; closes the operation with its last item.
    async fn step_item(&self, step: &ItemStep) -> StoreResult<Guarded>;
    /// A failed outbox row back to pending, with operation and audit entry, in one transaction.
    async fn replay_outbox_row(
        &self,
        operation: &NewOperation,
        event_id: &EventId,
        attempts_seen: i64,
        audit: &AuditRecord,
    ) -> StoreResult<Begun>;
    /// New event, link, diff, audit entry, original to `repaired`: one transaction.
    async fn repair(&self, operation: &NewOperation, repair: &Repair) -> StoreResult<Begun>;
    /// Dead letter to `discarded` (or `resolved`), with operation and audit entry.
    async fn close_dead_letter(
        &self,
        operation: &NewOperation,
        reservation: &Reservation,
        is_resolved: bool,
        audit: &AuditRecord,
    ) -> StoreResult<Begun>;
    /// An expired lease back to pending, guarded by token *and* time; the number of rows.
    async fn release_lease(
        &self,
        operation: &NewOperation,
        token: &ClaimToken,
        audit: &AuditRecord,
    ) -> StoreResult<u64>;
    /// Appends an audit entry on its own (a refused try, an unlock).
    async fn audit_append(&self, record: &AuditRecord) -> StoreResult<AuditEntry>;
    /// Sets owner or note of a dead letter, with an audit entry.
    async fn annotate_dead_letter(
        &self,
        id: &DeadLetterId,
        owner: Option<&str>,
        note: Option<&str>,
        audit: &AuditRecord,
    ) -> StoreResult<Guarded>;

    // ---- the house -----------------------------------------------------------------------------

    /// Migrations and whether they are applied; with `apply`, runs the missing ones. Idempotent.
    async fn migrate(&self, apply: bool) -> StoreResult<Vec<MigrationStep>>;
    /// Runs a script of the sandbox's own business tables (`CREATE TABLE IF NOT EXISTS …`).
    async fn create_business_tables(&self, statements: &'static [&'static str]) -> StoreResult<()>;
    /// Closes the pools.
    async fn close(&self);
}

/// The item of a single-event operation, if there is exactly one.
pub fn only_item(operation: &Operation) -> Option<&OperationItem> {
    match operation.items.as_slice() {
        [item] => Some(item),
        _ => None,
    }
}
