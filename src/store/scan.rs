//! What reconciliation asks of a database: pages of what is to be compared, rows by id, the read-only
//! queries of rules, and the tables that keep scans and findings.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::Timestamp;
use crate::model::audit::AuditRecord;
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, FindingId, SagaId, ScanId,
};
use crate::model::inbox::InboxRow;
use crate::model::outbox::OutboxState;
use crate::model::page::{Cursor, Page};
use crate::model::saga::SagaState;
use crate::model::scan::{
    Difference, Finding, FindingQuery, NotCompared, Progress, Scan, ScanState,
};

use super::{Guarded, StoreResult, Value};

/// Rows in the order of a walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page starts; `None`: this was the last one.
    pub next: Option<Cursor>,
    /// The database's clock.
    pub now: Timestamp,
}

/// Where a walk starts.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkFrom {
    /// The first page looks back so far, by the database's clock.
    pub window: Duration,
    /// A later page starts here.
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
}

/// An event that was sent, as far as its way is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct SentEvent {
    /// The event.
    pub event_id: EventId,
    /// Its aggregate.
    pub aggregate_id: Option<AggregateId>,
    /// Its type.
    pub event_type: String,
    /// Exchange, when the row overrides the service's.
    pub exchange: Option<String>,
    /// Routing key, when the row overrides the type.
    pub routing_key: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was marked; `None` where the layout keeps no such time.
    pub sent_at: Option<Timestamp>,
}

impl SentEvent {
    /// Its last transition, as far as the table tells.
    pub fn changed_at(&self) -> Timestamp {
        self.sent_at.unwrap_or(self.created_at)
    }
}

/// An outbox row that was looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownEvent {
    /// The event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Where it stands.
    pub state: OutboxState,
    /// When it was written.
    pub created_at: Option<Timestamp>,
    /// When it was marked sent.
    pub sent_at: Option<Timestamp>,
    /// Digest of its payload, when asked for.
    pub payload_sha256: Option<String>,
}

/// A dead letter that was looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct LetterMark {
    /// Its event.
    pub event_id: EventId,
    /// The letter.
    pub dead_letter_id: DeadLetterId,
    /// Its status; `None`: a word of a newer version.
    pub status: Option<DeadLetterStatus>,
    /// When it changed last.
    pub updated_at: Timestamp,
}

/// An event's place in its sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Whose.
    pub aggregate_id: AggregateId,
    /// Which.
    pub version: i64,
    /// The event.
    pub event_id: EventId,
    /// When it was written.
    pub created_at: Timestamp,
}

/// Where a walk over sequences goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceCursor {
    /// The aggregate.
    pub aggregate_id: String,
    /// The version.
    pub version: i64,
    /// The event.
    pub event_id: String,
}

/// A page of places, by aggregate and version.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// The rows.
    pub rows: Vec<Place>,
    /// True when there are more.
    pub is_full: bool,
    /// The database's clock.
    pub now: Timestamp,
}

/// A saga past its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct OverdueSaga {
    /// The saga.
    pub saga_id: SagaId,
    /// Its type.
    pub saga_type: String,
    /// Its business key.
    pub business_key: String,
    /// When it should have ended.
    pub deadline_at: Timestamp,
    /// Its last transition.
    pub updated_at: Timestamp,
    /// Who looks after it.
    pub owner: Option<String>,
}

/// A rule's query, ready to run: one statement that reads, with `?` for each value.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleQuery {
    /// The statement.
    pub statement: String,
    /// What is bound.
    pub values: Vec<Value>,
    /// More rows than this are refused: a rule has to say its own limit.
    pub rows_max: u32,
}

/// What a rule's query answered. Times are microseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleRows {
    /// Column names as the statement gives them.
    pub columns: Vec<String>,
    /// Rows in those columns' order.
    pub rows: Vec<Vec<Value>>,
    /// The database's clock.
    pub now: Timestamp,
}

/// A scan about to start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewScan {
    /// Its identity.
    pub scan_id: ScanId,
    /// The rule.
    pub rule: String,
    /// Who starts it.
    pub actor: String,
    /// Fences its writes.
    pub token: ClaimToken,
    /// How long it is believed alive without a sign.
    pub lease: Duration,
    /// Where it starts.
    pub progress: Progress,
}

/// What a running scan writes after each page, and at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanStep {
    /// The scan.
    pub scan_id: ScanId,
    /// Fences the write.
    pub token: ClaimToken,
    /// How long it is believed alive without a sign.
    pub lease: Duration,
    /// `Running`, or how it ended.
    pub state: ScanState,
    /// Rows read so far.
    pub rows_read: u64,
    /// Parts that were not compared.
    pub not_compared: Vec<NotCompared>,
    /// How far it is.
    pub progress: Progress,
}

/// Findings of one page, written by the scan that holds the token.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFindings {
    /// The scan.
    pub scan_id: ScanId,
    /// The rule.
    pub rule: String,
    /// What it found.
    pub differences: Vec<Difference>,
}

/// Reconciliation's side of a store.
#[async_trait]
pub trait ScanStore: Send + Sync {
    // ---- what is compared --------------------------------------------------------------------

    /// Sent events, oldest first, from the window on.
    async fn walk_sent(&self, from: &WalkFrom) -> StoreResult<Walk<SentEvent>>;
    /// Inbox rows of the service's consumer, oldest first, from the window on.
    async fn walk_inbox(&self, from: &WalkFrom) -> StoreResult<Walk<InboxRow>>;
    /// The newest inbox rows.
    async fn newest_consumed(&self, limit: u32) -> StoreResult<Vec<InboxRow>>;
    /// Outbox rows of these ids; with `digests`, what their payloads hash to.
    async fn find_events(&self, ids: &[EventId], digests: bool) -> StoreResult<Vec<KnownEvent>>;
    /// Inbox rows of these ids, those in the archive included.
    async fn find_consumed(&self, ids: &[EventId]) -> StoreResult<Vec<InboxRow>>;
    /// Dead letters of a consumer's events.
    async fn find_letters(
        &self,
        consumer: &ConsumerName,
        ids: &[EventId],
    ) -> StoreResult<Vec<LetterMark>>;
    /// Which of these wait for an earlier version.
    async fn find_waiting(&self, ids: &[EventId]) -> StoreResult<Vec<EventId>>;
    /// Every event by aggregate and version.
    async fn walk_places(&self, after: Option<&PlaceCursor>, limit: u32) -> StoreResult<Places>;
    /// Sagas of one state past their deadline, longest first.
    async fn overdue_sagas(
        &self,
        state: SagaState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> StoreResult<Walk<OverdueSaga>>;
    /// Runs a rule's query in a read-only session, within the statement's time limit.
    async fn rule_rows(&self, query: &RuleQuery) -> StoreResult<RuleRows>;

    // ---- scans and findings ------------------------------------------------------------------

    /// Records a scan that starts.
    async fn begin_scan(&self, scan: &NewScan) -> StoreResult<()>;
    /// Takes over a scan that was stopped, failed, or whose holder gave no sign for its lease.
    async fn resume_scan(
        &self,
        id: &ScanId,
        token: &ClaimToken,
        lease: Duration,
    ) -> StoreResult<Guarded>;
    /// Moves a scan on, fenced by its token; lost when it was stopped or taken over.
    async fn step_scan(&self, step: &ScanStep) -> StoreResult<Guarded>;
    /// Stops a running scan, whoever runs it: its next step loses.
    async fn stop_scan(&self, id: &ScanId) -> StoreResult<Guarded>;
    /// Writes what a page found, in one transaction: a known difference is seen again, a new one is
    /// added. Lost when the scan is no longer the token's.
    async fn record_findings(
        &self,
        token: &ClaimToken,
        found: &NewFindings,
    ) -> StoreResult<Guarded>;
    /// Open findings of a rule that this scan did not see again, and nobody else since it began, are gone: at
    /// most some hundred in one transaction; the number, 0 when the scan is no longer the token's. With
    /// `since`, only those whose row was written at or after it.
    async fn clear_findings(
        &self,
        token: &ClaimToken,
        rule: &str,
        scan: &ScanId,
        since: Option<Timestamp>,
    ) -> StoreResult<u64>;
    /// Scans, newest first.
    async fn scans_page(&self, after: Option<&Cursor>, limit: u32) -> StoreResult<Page<Scan>>;
    /// Scans whose id starts so (at least 4 characters), at most 20.
    async fn scans_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Scan>>;
    /// Findings in one state, last seen first.
    async fn findings_page(&self, query: &FindingQuery) -> StoreResult<Page<Finding>>;
    /// Findings whose id starts so (at least 4 characters), at most 20.
    async fn findings_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Finding>>;
    /// Open findings, capped. `Ok(None)` where the tables are older than scans.
    async fn open_findings(&self) -> StoreResult<Option<Count>>;
    /// Sets owner or note, with an audit entry; `None` keeps, empty clears.
    async fn annotate_finding(
        &self,
        id: &FindingId,
        owner: Option<&str>,
        note: Option<&str>,
        audit: &AuditRecord,
    ) -> StoreResult<Guarded>;
}
