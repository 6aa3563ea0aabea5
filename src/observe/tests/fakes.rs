//! A database and a broker that answer, refuse or hang as a test says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::{Clock, Timestamp};
use crate::base::secret::SecretUrl;
use crate::broker::{
    Binding, Broker, BrokerError, BrokerOverview, BrokerResult, Consumer, Flow, Publisher,
    QueueDepth, QueueFacts, QueuePage, Topology,
};
use crate::config::{
    Context, DeadLetterPart, DispatcherSettings, Environment, InboxPart, OutboxPart, SagaPart,
    Service, Thresholds,
};
use crate::model::audit::{AuditEntry, AuditRecord, ChainFault};
use crate::model::count::Count;
use crate::model::dead_letter::{
    DeadLetter, DeadLetterCounts, DeadLetterDetail, DeadLetterGroups, DeadLetterQuery,
    DeathRecorded, NewDeath,
};
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, FindingId, OperationId, SagaId,
    ScanId,
};
use crate::model::inbox::InboxRow;
use crate::model::numbers::Numbers;
use crate::model::operation::{Operation, OperationItem};
use crate::model::outbox::{
    Leases, OutboxCounts, OutboxEvent, OutboxQuery, OutboxRow, OutboxState, Sequence,
};
use crate::model::page::{Cursor, Page};
use crate::model::saga::{Saga, SagaClaim, SagaState};
use crate::model::scan::{Finding, FindingQuery, Scan};
use crate::model::trouble::{LockWaits, RowTroubles, SentEvent};
use crate::model::waiting::{WaitingEvent, WaitingFound, WaitingSummary};
use crate::ports::Ports;
use crate::store::inbox::{ArchiveRequest, Archived};
use crate::store::scan::{
    KnownEvent, LetterMark, NewFindings, NewScan, OverdueSaga, PlaceCursor, Places, RuleQuery,
    RuleRows, ScanStep, ScanStore, SentEvent as WalkedEvent, Walk, WalkFrom,
};
use crate::store::trace::{RepairLink, Trail, WaitingNote};
use crate::store::{
    Begun, BusinessTx, CheckLine, Claim, ClaimRequest, FailedAttempt, Guarded, InboxStore,
    ItemStep, MigrationStep, NewOperation, OutboxStore, Reaped, Repair, Reservation, Safety,
    SagaAction, SagaClaimRequest, SagaStore, Store, StoreError, StoreFacts, StoreProbe,
    StoreResult, TraceStore, TroubleStore,
};

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

/// How a fake server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Up,
    Down,
    Hung,
}

/// Counts calls and how many of one kind were ever under way together.
#[derive(Default)]
pub(super) struct Calls {
    by_name: Mutex<BTreeMap<&'static str, (usize, usize, usize)>>,
    total: AtomicUsize,
}

struct Running<'a>(&'a Calls, &'static str);

impl Calls {
    fn enter(&self, name: &'static str) -> Running<'_> {
        self.total.fetch_add(1, Ordering::SeqCst);
        let mut calls = self.by_name.lock().unwrap();
        let (count, running, most) = calls.entry(name).or_default();
        *count += 1;
        *running += 1;
        *most = (*most).max(*running);
        Running(self, name)
    }

    pub(super) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    pub(super) fn of(&self, name: &str) -> usize {
        self.by_name.lock().unwrap().get(name).map_or(0, |c| c.0)
    }

    pub(super) fn most_together(&self, name: &str) -> usize {
        self.by_name.lock().unwrap().get(name).map_or(0, |c| c.2)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.by_name.lock().unwrap().get_mut(self.1) {
            entry.1 -= 1;
        }
    }
}

/// A database with canned rows.
pub(super) struct FakeStore {
    pub(super) service: String,
    pub(super) mode: Mutex<Mode>,
    pub(super) calls: Calls,
    pub(super) counts: Mutex<OutboxCounts>,
    pub(super) letter: Mutex<Option<DeadLetterDetail>>,
    pub(super) original: Mutex<Option<OutboxEvent>>,
    /// Lets an outbox page through, when the test wants to hold it back.
    pub(super) page_gate: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
    /// Rows that were sent.
    pub(super) sent: Mutex<Vec<SentEvent>>,
    /// Refuses to tell all numbers at once.
    pub(super) is_picky: AtomicBool,
    /// Events its consumer has seen.
    pub(super) seen: Mutex<Vec<EventId>>,
}

impl FakeStore {
    pub(super) fn new(service: &str) -> Arc<Self> {
        Arc::new(Self {
            service: service.to_owned(),
            mode: Mutex::new(Mode::Up),
            calls: Calls::default(),
            counts: Mutex::new(counts()),
            letter: Mutex::default(),
            original: Mutex::default(),
            page_gate: Mutex::default(),
            sent: Mutex::default(),
            is_picky: AtomicBool::new(false),
            seen: Mutex::default(),
        })
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    async fn answer<T>(&self, name: &'static str, value: T) -> StoreResult<T> {
        let _running = self.calls.enter(name);
        let mode = *self.mode.lock().unwrap();
        match mode {
            Mode::Up => Ok(value),
            Mode::Down => Err(StoreError::Unavailable {
                service: self.service.clone(),
                detail: "connection refused".to_owned(),
            }),
            Mode::Hung => std::future::pending().await,
        }
    }

    fn unused<T>(&self) -> StoreResult<T> {
        Err(StoreError::Unsupported {
            service: self.service.clone(),
            reason: "observing never asks this".to_owned(),
        })
    }
}

fn dead_letter_counts() -> DeadLetterCounts {
    DeadLetterCounts {
        open: Count::Exact(41),
        deaths_last_minute: Count::Exact(2),
    }
}

pub(super) fn counts() -> OutboxCounts {
    OutboxCounts {
        pending: Count::Exact(12),
        due: Count::Exact(12),
        sending: Count::Exact(0),
        failed: Count::AtLeast(10_000),
        sent: Some(Count::About(1_000_000)),
        expired_leases: Some(Count::Exact(0)),
        oldest_due_s: Some(4.0),
        oldest_pending_s: Some(4.0),
        sent_last_minute: Some(Count::Exact(120)),
        database_now: NOW,
    }
}

#[async_trait]
impl SagaStore for FakeStore {
    async fn sagas(&self, _: u32) -> StoreResult<Vec<Saga>> {
        self.answer("sagas", Vec::new()).await
    }
    async fn sagas_open(&self, _: u32) -> StoreResult<Vec<Saga>> {
        self.answer("sagas_open", Vec::new()).await
    }
    async fn saga(&self, _: &SagaId) -> StoreResult<Option<Saga>> {
        self.unused()
    }
    async fn sagas_by_prefix(&self, _: &str) -> StoreResult<Vec<Saga>> {
        self.unused()
    }
    async fn claim_sagas(&self, _: &SagaClaimRequest) -> StoreResult<SagaClaim> {
        self.unused()
    }
    async fn postpone_saga(
        &self,
        _: &ClaimToken,
        _: &SagaId,
        _: &str,
        _: Duration,
    ) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn act_on_saga(
        &self,
        _: &NewOperation,
        _: &SagaAction,
        _: &AuditRecord,
    ) -> StoreResult<Begun> {
        self.unused()
    }
}

#[async_trait]
impl ScanStore for FakeStore {
    async fn walk_sent(&self, _: &WalkFrom) -> StoreResult<Walk<WalkedEvent>> {
        self.unused()
    }
    async fn walk_inbox(&self, _: &WalkFrom) -> StoreResult<Walk<InboxRow>> {
        self.unused()
    }
    async fn newest_consumed(&self, _: u32) -> StoreResult<Vec<InboxRow>> {
        self.unused()
    }
    async fn find_events(&self, _: &[EventId], _: bool) -> StoreResult<Vec<KnownEvent>> {
        self.unused()
    }
    async fn find_consumed(&self, _: &[EventId]) -> StoreResult<Vec<InboxRow>> {
        self.unused()
    }
    async fn find_letters(&self, _: &ConsumerName, _: &[EventId]) -> StoreResult<Vec<LetterMark>> {
        self.unused()
    }
    async fn find_waiting(&self, _: &[EventId]) -> StoreResult<Vec<EventId>> {
        self.unused()
    }
    async fn walk_places(&self, _: Option<&PlaceCursor>, _: u32) -> StoreResult<Places> {
        self.unused()
    }
    async fn overdue_sagas(
        &self,
        _: SagaState,
        _: Option<&Cursor>,
        _: u32,
    ) -> StoreResult<Walk<OverdueSaga>> {
        self.unused()
    }
    async fn rule_rows(&self, _: &RuleQuery) -> StoreResult<RuleRows> {
        self.unused()
    }
    async fn begin_scan(&self, _: &NewScan) -> StoreResult<()> {
        self.unused()
    }
    async fn resume_scan(&self, _: &ScanId, _: &ClaimToken, _: Duration) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn step_scan(&self, _: &ScanStep) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn stop_scan(&self, _: &ScanId) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn record_findings(&self, _: &ClaimToken, _: &NewFindings) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn clear_findings(
        &self,
        _: &ClaimToken,
        _: &str,
        _: &ScanId,
        _: Option<Timestamp>,
    ) -> StoreResult<u64> {
        self.unused()
    }
    async fn scans_page(&self, _: Option<&Cursor>, _: u32) -> StoreResult<Page<Scan>> {
        self.answer("scans", Page::default()).await
    }
    async fn scans_by_prefix(&self, _: &str) -> StoreResult<Vec<Scan>> {
        self.unused()
    }
    async fn findings_page(&self, _: &FindingQuery) -> StoreResult<Page<Finding>> {
        self.answer("findings", Page::default()).await
    }
    async fn findings_by_prefix(&self, _: &str) -> StoreResult<Vec<Finding>> {
        self.unused()
    }
    async fn open_findings(&self) -> StoreResult<Option<Count>> {
        self.answer("open_findings", Some(Count::Exact(0))).await
    }
    async fn annotate_finding(
        &self,
        _: &FindingId,
        _: Option<&str>,
        _: Option<&str>,
        _: &AuditRecord,
    ) -> StoreResult<Guarded> {
        self.unused()
    }
}

#[async_trait]
impl InboxStore for FakeStore {
    async fn next_waiting(
        &self,
        _: &ConsumerName,
        _: &AggregateId,
    ) -> StoreResult<Option<WaitingEvent>> {
        self.unused()
    }
    async fn ready_waiting(&self, _: &ConsumerName, _: u32) -> StoreResult<WaitingFound> {
        self.unused()
    }
    async fn take_overdue(
        &self,
        _: &ConsumerName,
        _: u32,
        _: Duration,
    ) -> StoreResult<WaitingFound> {
        self.unused()
    }
    async fn remove_waiting(&self, _: &ConsumerName, _: &EventId, _: i64) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn waiting_summary(&self) -> StoreResult<Option<WaitingSummary>> {
        self.answer("waiting_summary", None).await
    }
    async fn applied_version(&self, _: &ConsumerName, _: &AggregateId) -> StoreResult<Option<i64>> {
        self.unused()
    }
    async fn archive_inbox(&self, _: &ArchiveRequest) -> StoreResult<Archived> {
        self.unused()
    }
    async fn inbox_horizon(&self, _: &ConsumerName) -> StoreResult<Option<Timestamp>> {
        self.answer("inbox_horizon", None).await
    }
    async fn archived_inbox_row(
        &self,
        _: &ConsumerName,
        _: &EventId,
    ) -> StoreResult<Option<InboxRow>> {
        self.unused()
    }
    async fn oldest_unresolved(&self) -> StoreResult<Option<f64>> {
        self.unused()
    }
}

#[async_trait]
impl TraceStore for FakeStore {
    async fn trail(&self, _: &AggregateId) -> StoreResult<Trail> {
        self.unused()
    }
    async fn inbox_rows(&self, _: &ConsumerName, _: &[EventId]) -> StoreResult<Vec<InboxRow>> {
        self.unused()
    }
    async fn waiting_notes(
        &self,
        _: &ConsumerName,
        _: &[EventId],
    ) -> StoreResult<Vec<WaitingNote>> {
        self.unused()
    }
    async fn items_of_letter(
        &self,
        _: &DeadLetterId,
    ) -> StoreResult<Vec<(OperationId, OperationItem)>> {
        self.unused()
    }
    async fn items_of_event(&self, _: &EventId) -> StoreResult<Vec<(OperationId, OperationItem)>> {
        self.unused()
    }
    async fn operation_heads(&self, _: &[OperationId]) -> StoreResult<Vec<Operation>> {
        self.unused()
    }
    async fn repairs_of(&self, _: &EventId) -> StoreResult<Vec<RepairLink>> {
        self.unused()
    }
    async fn audit_of(&self, _: &OperationId) -> StoreResult<Vec<AuditEntry>> {
        self.unused()
    }
    async fn sagas_of_events(&self, _: &[EventId]) -> StoreResult<Vec<Saga>> {
        self.unused()
    }
    async fn sagas_of_key(&self, _: &str) -> StoreResult<Vec<Saga>> {
        self.unused()
    }
}

#[async_trait]
impl OutboxStore for FakeStore {
    async fn claim_batch(&self, _: &ClaimRequest) -> StoreResult<Claim> {
        self.unused()
    }
    async fn claim_sequences(&self, _: &ClaimRequest) -> StoreResult<Claim> {
        self.unused()
    }
    async fn wake_sequences(&self, _: &[(AggregateId, i64)]) -> StoreResult<u64> {
        self.unused()
    }
    async fn reap(&self, _: u32) -> StoreResult<Reaped> {
        self.unused()
    }
    async fn complete(&self, _: &ClaimToken, _: &[EventId]) -> StoreResult<u64> {
        self.unused()
    }
    async fn renew(&self, _: &ClaimToken, _: Duration) -> StoreResult<u64> {
        self.unused()
    }
    async fn fail_attempts(&self, _: &ClaimToken, _: &[FailedAttempt]) -> StoreResult<u64> {
        self.unused()
    }
    async fn give_back(&self, _: &ClaimToken, _: &[EventId]) -> StoreResult<u64> {
        self.unused()
    }
    async fn outbox_states(&self, _: &[EventId]) -> StoreResult<Vec<(EventId, OutboxState)>> {
        self.unused()
    }
}

#[async_trait]
impl TroubleStore for FakeStore {
    async fn row_troubles(&self, _: u32) -> StoreResult<RowTroubles> {
        self.answer("row_troubles", RowTroubles::default()).await
    }
    async fn lock_waits(&self) -> StoreResult<Option<LockWaits>> {
        self.answer("lock_waits", None).await
    }
    async fn sent_recently(&self, _: Duration, _: u32) -> StoreResult<Vec<SentEvent>> {
        let sent = self.sent.lock().unwrap().clone();
        self.answer("sent_recently", sent).await
    }
    async fn seen_by(&self, _: &ConsumerName, ids: &[EventId]) -> StoreResult<Vec<EventId>> {
        let seen = self.seen.lock().unwrap().clone();
        let known = ids.iter().filter(|id| seen.contains(id)).cloned().collect();
        self.answer("seen_by", known).await
    }
}

#[async_trait]
impl Store for FakeStore {
    fn facts(&self) -> StoreFacts {
        StoreFacts {
            service: self.service.clone(),
            product: "fake".to_owned(),
            outbox_layout: Some("native".to_owned()),
            consumer: None,
            has_dead_letters: true,
            has_sagas: true,
            has_journal: true,
            is_fenced: true,
            outbox_replay: Safety::Safe,
            release: Safety::Safe,
        }
    }
    async fn probe(&self) -> StoreResult<StoreProbe> {
        let skew_us = if self.service == "orders" {
            -3_000_000
        } else {
            20_000
        };
        let probe = StoreProbe {
            latency_us: 2_000,
            version: "fake 1".to_owned(),
            database_now: NOW,
            skew_us,
        };
        self.answer("probe", probe).await
    }
    async fn check(&self) -> Vec<CheckLine> {
        Vec::new()
    }
    async fn numbers(&self, _: Duration) -> StoreResult<Numbers> {
        if self.is_picky.load(Ordering::Relaxed) {
            return Err(StoreError::Denied {
                service: self.service.clone(),
                operation: "numbers",
                detail: "SELECT command denied".to_owned(),
            });
        }
        let consumes = self.service == "inventory";
        let numbers = Numbers {
            outbox: Some(self.counts.lock().unwrap().clone()),
            inbox_recent: consumes.then_some(Count::Exact(50)),
            waiting: None,
            dead_letters: consumes.then(dead_letter_counts),
        };
        self.answer("numbers", numbers).await
    }
    async fn outbox_counts(&self) -> StoreResult<OutboxCounts> {
        let counts = self.counts.lock().unwrap().clone();
        self.answer("outbox_counts", counts).await
    }
    async fn outbox_page(&self, query: &OutboxQuery) -> StoreResult<Page<OutboxRow>> {
        let gate = self.page_gate.lock().unwrap().clone();
        let page = Page {
            rows: vec![row(query.state)],
            next: None,
        };
        let answer = self.answer("outbox_page", page);
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        answer.await
    }
    async fn outbox_event(&self, _: &EventId) -> StoreResult<Option<OutboxEvent>> {
        let original = self.original.lock().unwrap().clone();
        self.answer("outbox_event", original).await
    }
    async fn outbox_by_prefix(&self, _: &str) -> StoreResult<Vec<OutboxRow>> {
        self.unused()
    }
    async fn outbox_sequence(&self, _: &AggregateId) -> StoreResult<Sequence> {
        self.answer("outbox_sequence", Sequence::default()).await
    }
    async fn leases(&self, _: u32) -> StoreResult<Leases> {
        self.answer("leases", Leases::default()).await
    }
    async fn inbox_row(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<Option<InboxRow>> {
        let row = InboxRow {
            consumer: consumer.clone(),
            event_id: event_id.clone(),
            processed_at: NOW,
            payload_sha256: None,
        };
        self.answer("inbox_row", Some(row)).await
    }
    async fn inbox_recent(&self, _: Duration) -> StoreResult<Count> {
        self.answer("inbox_recent", Count::Exact(50)).await
    }
    async fn dead_letter_counts(&self) -> StoreResult<DeadLetterCounts> {
        self.answer("dead_letter_counts", dead_letter_counts())
            .await
    }
    async fn dead_letter_groups(&self) -> StoreResult<DeadLetterGroups> {
        let groups = DeadLetterGroups {
            open: Some(Count::Exact(41)),
            deaths_last_minute: Some(Count::Exact(2)),
            ..DeadLetterGroups::default()
        };
        self.answer("dead_letter_groups", groups).await
    }
    async fn dead_letter_page(&self, _: &DeadLetterQuery) -> StoreResult<Page<DeadLetter>> {
        self.answer("dead_letter_page", Page::default()).await
    }
    async fn dead_letter(&self, _: &DeadLetterId) -> StoreResult<Option<DeadLetterDetail>> {
        let letter = self.letter.lock().unwrap().clone();
        self.answer("dead_letter", letter).await
    }
    async fn dead_letters_of_event(&self, _: &EventId) -> StoreResult<Vec<DeadLetter>> {
        self.unused()
    }
    async fn dead_letters_of_aggregate(&self, _: &AggregateId) -> StoreResult<Vec<DeadLetter>> {
        let own = self.letter.lock().unwrap().clone();
        self.answer("aggregate", own.into_iter().map(|d| d.letter).collect())
            .await
    }
    async fn operations_page(&self, _: Option<&Cursor>, _: u32) -> StoreResult<Page<Operation>> {
        self.answer("operations_page", Page::default()).await
    }
    async fn operation(&self, _: &OperationId) -> StoreResult<Option<Operation>> {
        self.answer("operation", None).await
    }
    async fn unfinished_operations(&self, _: u32) -> StoreResult<Vec<Operation>> {
        self.answer("unfinished_operations", Vec::new()).await
    }
    async fn audit_page(&self, _: Option<i64>, _: u32) -> StoreResult<Vec<AuditEntry>> {
        self.answer("audit_page", Vec::new()).await
    }
    async fn audit_verify(&self) -> StoreResult<Result<i64, ChainFault>> {
        self.unused()
    }
    async fn begin(&self) -> StoreResult<Box<dyn BusinessTx>> {
        self.unused()
    }
    async fn record_death(&self, _: &NewDeath) -> StoreResult<DeathRecorded> {
        self.unused()
    }
    async fn settle_deaths(&self, _: &[String]) -> StoreResult<u64> {
        self.unused()
    }
    async fn begin_replay(
        &self,
        _: &NewOperation,
        _: &[Reservation],
        _: &AuditRecord,
    ) -> StoreResult<Begun> {
        self.unused()
    }
    async fn step_item(&self, _: &ItemStep) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn replay_outbox_row(
        &self,
        _: &NewOperation,
        _: &EventId,
        _: i64,
        _: &AuditRecord,
    ) -> StoreResult<Begun> {
        self.unused()
    }
    async fn repair(&self, _: &NewOperation, _: &Repair) -> StoreResult<Begun> {
        self.unused()
    }
    async fn close_dead_letter(
        &self,
        _: &NewOperation,
        _: &Reservation,
        _: bool,
        _: &AuditRecord,
    ) -> StoreResult<Begun> {
        self.unused()
    }
    async fn release_lease(
        &self,
        _: &NewOperation,
        _: &ClaimToken,
        _: &AuditRecord,
    ) -> StoreResult<u64> {
        self.unused()
    }
    async fn audit_append(&self, _: &AuditRecord) -> StoreResult<AuditEntry> {
        self.unused()
    }
    async fn annotate_dead_letter(
        &self,
        _: &DeadLetterId,
        _: Option<&str>,
        _: Option<&str>,
        _: &AuditRecord,
    ) -> StoreResult<Guarded> {
        self.unused()
    }
    async fn migrate(&self, _: bool) -> StoreResult<Vec<MigrationStep>> {
        self.unused()
    }
    async fn create_business_tables(&self, _: &'static [&'static str]) -> StoreResult<()> {
        self.unused()
    }
    async fn close(&self) {}
}

pub(super) fn row(state: crate::model::outbox::OutboxState) -> OutboxRow {
    OutboxRow {
        event_id: EventId::new("0197c3f2-7d2a"),
        aggregate_id: None,
        aggregate_version: None,
        event_type: "order.created".to_owned(),
        state,
        attempts: Some(1),
        next_attempt_at: None,
        claim_token: None,
        lease_until: None,
        last_error: None,
        created_at: None,
        sent_at: None,
    }
}

/// A broker whose two ports fail on their own.
pub(super) struct FakeBroker {
    pub(super) amqp: Mutex<Mode>,
    pub(super) management: Mutex<Result<Mode, BrokerError>>,
    pub(super) depths: Mutex<BTreeMap<String, QueueDepth>>,
    pub(super) facts: Mutex<Vec<QueueFacts>>,
    pub(super) bindings: Mutex<BTreeMap<String, Vec<Binding>>>,
    pub(super) statistics_off: Mutex<bool>,
    pub(super) calls: Calls,
}

impl FakeBroker {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            amqp: Mutex::new(Mode::Up),
            management: Mutex::new(Ok(Mode::Up)),
            depths: Mutex::default(),
            facts: Mutex::default(),
            bindings: Mutex::default(),
            statistics_off: Mutex::new(false),
            calls: Calls::default(),
        })
    }

    pub(super) fn queue_depth(&self, queue: &str, ready: u64, consumers: u64) {
        let depth = QueueDepth { ready, consumers };
        self.depths.lock().unwrap().insert(queue.to_owned(), depth);
    }

    async fn by_amqp<T>(&self, value: T) -> BrokerResult<T> {
        let _running = self.calls.enter("amqp");
        let mode = *self.amqp.lock().unwrap();
        by(mode, value).await
    }

    async fn by_management<T>(&self, value: T) -> BrokerResult<T> {
        let _running = self.calls.enter("management");
        let mode = self.management.lock().unwrap().clone()?;
        by(mode, value).await
    }
}

async fn by<T>(mode: Mode, value: T) -> BrokerResult<T> {
    match mode {
        Mode::Up => Ok(value),
        Mode::Down => Err(BrokerError::Unavailable("connection refused".to_owned())),
        Mode::Hung => std::future::pending().await,
    }
}

#[async_trait]
impl Broker for FakeBroker {
    fn name(&self) -> String {
        "vhost /".to_owned()
    }
    async fn probe(&self) -> BrokerResult<Duration> {
        self.by_amqp(Duration::from_millis(4)).await
    }
    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>> {
        Err(BrokerError::NotConfigured("unused".to_owned()))
    }
    async fn consumer(&self, _: &str, _: u16) -> BrokerResult<Box<dyn Consumer>> {
        Err(BrokerError::NotConfigured("unused".to_owned()))
    }
    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>> {
        let depth = self.depths.lock().unwrap().get(queue).copied();
        self.by_amqp(depth).await
    }
    async fn declare(&self, _: &Topology) -> BrokerResult<()> {
        Ok(())
    }
    fn flow(&self) -> Flow {
        Flow::Open
    }
    async fn overview(&self) -> BrokerResult<BrokerOverview> {
        self.by_management(BrokerOverview {
            product: "RabbitMQ 3.10.8".to_owned(),
            latency_us: 11_000,
            ..BrokerOverview::default()
        })
        .await
    }
    async fn queues(&self, _: u32, _: u32) -> BrokerResult<QueuePage> {
        let queues = self.facts.lock().unwrap().clone();
        let page = QueuePage {
            total: Some(queues.len() as u64),
            queues,
            statistics_off: *self.statistics_off.lock().unwrap(),
        };
        self.by_management(page).await
    }
    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        let facts = self.facts.lock().unwrap().clone();
        self.by_management(facts.into_iter().find(|f| f.name == name))
            .await
    }
    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        let bindings = self.bindings.lock().unwrap().get(exchange).cloned();
        let bindings = self.by_management(bindings).await?;
        bindings.ok_or_else(|| BrokerError::NotFound(format!("no exchange {exchange}")))
    }
    fn user(&self) -> Option<String> {
        Some("ops".to_owned())
    }
    fn frame_max(&self) -> u32 {
        0
    }
    async fn close(&self) {}
}

/// Two services, `orders` (outbox, sagas) and `inventory` (outbox, inbox, dead letters), on fakes.
pub(super) struct World {
    pub(super) orders: Arc<FakeStore>,
    pub(super) inventory: Arc<FakeStore>,
    pub(super) broker: Arc<FakeBroker>,
    pub(super) ports: Ports,
}

impl World {
    pub(super) fn new() -> Self {
        let (orders, inventory) = (FakeStore::new("orders"), FakeStore::new("inventory"));
        let broker = FakeBroker::new();
        broker.queue_depth("inventory.orders", 0, 1);
        broker.queue_depth("inventory.orders.dlq", 0, 1);
        let stores: Vec<Arc<dyn Store>> = vec![orders.clone(), inventory.clone()];
        let ports = Ports {
            alerts: None,
            context: Arc::new(context()),
            stores,
            broker: Some(broker.clone()),
            clock: Clock::fixed(NOW),
        };
        Self {
            orders,
            inventory,
            broker,
            ports,
        }
    }
}

fn outbox() -> OutboxPart {
    OutboxPart {
        layout: "native".to_owned(),
        table: None,
        exchange: "shop.events".to_owned(),
    }
}

fn context() -> Context {
    let service = |name: &str| Service {
        name: name.to_owned(),
        database: SecretUrl::new("sqlite::memory:".to_owned()),
        outbox: Some(outbox()),
        inbox: None,
        dead_letters: None,
        sagas: None,
        journal: true,
    };
    let mut orders = service("orders");
    orders.sagas = Some(SagaPart {
        layout: "native".to_owned(),
        table: None,
    });
    let mut inventory = service("inventory");
    inventory.inbox = Some(InboxPart {
        layout: "native".to_owned(),
        table: None,
        consumer: ConsumerName::new("inventory"),
        queue: "inventory.orders".to_owned(),
    });
    inventory.dead_letters = Some(DeadLetterPart {
        layout: "native".to_owned(),
        table: None,
        queues: vec!["inventory.orders.dlq".to_owned()],
    });
    Context {
        name: "shop".to_owned(),
        environment: Environment::Sandbox,
        read_only: false,
        amqp: Some(SecretUrl::new("amqp://ops@mq/%2f".to_owned())),
        management: Some(SecretUrl::new("http://ops@mq:15672".to_owned())),
        services: vec![orders, inventory],
        rights: Vec::new(),
        never_replay: Vec::new(),
        inbox_retention: None,
        ticket_pattern: None,
        unlock: Duration::from_mins(10),
        masked: Vec::new(),
        owners: Vec::new(),
        thresholds: Thresholds::default(),
        dispatcher: DispatcherSettings::default(),
        consumer: crate::config::ConsumerLimits::default(),
        drill: crate::config::DrillSettings::default(),
        retention: crate::config::RetentionSettings::default(),
        verdicts: crate::config::VerdictSettings::default(),
        on_death: None,
        scan: crate::config::ScanSettings::default(),
    }
}
