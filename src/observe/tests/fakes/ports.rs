//! What it tells of sagas, scans, its inbox, its outbox and of trouble.

use std::time::Duration;

use async_trait::async_trait;

use super::FakeStore;
use crate::base::clock::Timestamp;
use crate::model::audit::{AuditEntry, AuditRecord};
use crate::model::count::Count;
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, FindingId, OperationId, SagaId,
    ScanId,
};
use crate::model::inbox::InboxRow;
use crate::model::operation::{Operation, OperationItem};
use crate::model::outbox::OutboxState;
use crate::model::page::{Cursor, Page};
use crate::model::saga::{Saga, SagaClaim, SagaState};
use crate::model::scan::{Finding, FindingQuery, Scan};
use crate::model::trouble::{LockWaits, RowTroubles, SentEvent};
use crate::model::waiting::{WaitingEvent, WaitingFound, WaitingSummary};
use crate::store::inbox::{ArchiveRequest, Archived};
use crate::store::scan::{
    KnownEvent, LetterMark, NewFindings, NewScan, OverdueSaga, PlaceCursor, Places, RuleQuery,
    RuleRows, ScanStep, ScanStore, SentEvent as WalkedEvent, Walk, WalkFrom,
};
use crate::store::trace::{RepairLink, Trail, WaitingNote};
use crate::store::{
    Begun, Claim, ClaimRequest, FailedAttempt, Guarded, InboxStore, NewOperation, OutboxStore,
    Reaped, SagaAction, SagaClaimRequest, SagaStore, StoreResult, TraceStore, TroubleStore,
};

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
