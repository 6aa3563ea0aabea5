//! A database with canned rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::{Calls, Mode, NOW};
use crate::model::audit::{AuditEntry, AuditRecord, ChainFault};
use crate::model::count::Count;
use crate::model::dead_letter::{
    DeadLetter, DeadLetterCounts, DeadLetterDetail, DeadLetterGroups, DeadLetterQuery,
    DeathRecorded, NewDeath,
};
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId,
};
use crate::model::inbox::InboxRow;
use crate::model::numbers::Numbers;
use crate::model::operation::Operation;
use crate::model::outbox::{
    Leases, OutboxCounts, OutboxEvent, OutboxQuery, OutboxRow, OutboxState, Sequence,
};
use crate::model::page::{Cursor, Page};
use crate::model::trouble::SentEvent;
use crate::store::{
    Begun, BusinessTx, CheckLine, Guarded, ItemStep, MigrationStep, NewOperation, Repair,
    Reservation, Safety, Store, StoreError, StoreFacts, StoreProbe, StoreResult,
};

/// A database with canned rows.
pub(in crate::observe::tests) struct FakeStore {
    pub(in crate::observe::tests) service: String,
    pub(in crate::observe::tests) mode: Mutex<Mode>,
    pub(in crate::observe::tests) calls: Calls,
    pub(in crate::observe::tests) counts: Mutex<OutboxCounts>,
    pub(in crate::observe::tests) letter: Mutex<Option<DeadLetterDetail>>,
    pub(in crate::observe::tests) original: Mutex<Option<OutboxEvent>>,
    /// Lets an outbox page through, when the test wants to hold it back.
    pub(in crate::observe::tests) page_gate: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
    /// Rows that were sent.
    pub(in crate::observe::tests) sent: Mutex<Vec<SentEvent>>,
    /// Refuses to tell all numbers at once.
    pub(in crate::observe::tests) is_picky: AtomicBool,
    /// Events its consumer has seen.
    pub(in crate::observe::tests) seen: Mutex<Vec<EventId>>,
}

impl FakeStore {
    pub(in crate::observe::tests) fn new(service: &str) -> Arc<Self> {
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

    pub(in crate::observe::tests) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub(super) async fn answer<T>(&self, name: &'static str, value: T) -> StoreResult<T> {
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

    pub(super) fn unused<T>(&self) -> StoreResult<T> {
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

pub(in crate::observe::tests) fn counts() -> OutboxCounts {
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

pub(in crate::observe::tests) fn row(state: OutboxState) -> OutboxRow {
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
