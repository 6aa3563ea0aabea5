//! One SQL implementation of the store port, rendered from the mapping, per dialect. MySQL 8, MariaDB
//! 10.6 and SQLite differ in `dialect` and `session` only.
//!
//! A call runs in its own tracked task, with a time limit, and to its end: a caller that is dropped
//! leaves nothing half done. A transaction that met a lock is repeated, because it was rolled
//! back.

mod archive;
mod audit;
mod business;
mod check;
mod claim;
mod db;
mod dead_letter;
mod death;
mod dialect;
mod dispatch;
mod exec;
mod facts;
mod fault;
mod inbox;
mod journal;
mod migrate;
mod named;
mod numbers;
mod open_transaction;
mod operation;
mod outbox;
mod page;
mod pool;
mod saga;
mod saga_move;
mod scan;
mod scan_read;
mod sequence;
mod session;
mod statement;
mod trace;
mod trouble;
mod verbs;
mod version;
mod waiting;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::base::backoff::Backoff;
use crate::base::deadline::within;
use crate::base::tasks::Tasks;
use crate::config::{ConfigError, Service, Thresholds};
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
use crate::model::outbox::{Leases, OutboxCounts, OutboxEvent, OutboxQuery, OutboxRow, Sequence};
use crate::model::page::{Cursor, Page};

use super::{
    Begun, BusinessTx, CheckLevel, CheckLine, Guarded, ItemStep, MigrationStep, NewOperation,
    Repair, Reservation, Store, StoreError, StoreFacts, StoreProbe, StoreResult,
};
use db::Db;
use fault::SqlResult;

/// Tries of a transaction that meets locks.
const TRIES: u32 = 4;
/// Waits between them.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(5),
    cap: Duration::from_millis(100),
};
/// Calls that walk a whole (own, small) table or change it get so many times the usual limit.
const LONG: u32 = 40;

/// One service's database behind the port.
pub struct SqlStore {
    db: Arc<Db>,
    tasks: Tasks,
}

impl SqlStore {
    /// Opens a service's database. Reaches nothing: sessions are made when first used.
    ///
    /// # Errors
    /// A [`ConfigError`] for a URL, layout or table name that cannot be used.
    pub fn connect(
        service: &Service,
        thresholds: &Thresholds,
        read_only: bool,
    ) -> Result<Arc<dyn Store>, ConfigError> {
        Ok(Arc::new(Self {
            db: Arc::new(Db::open(service, thresholds, read_only)?),
            tasks: Tasks::new(),
        }))
    }

    /// Runs one call in its own task, with a limit, and repeats it while it only met locks.
    async fn call<T, W, F>(
        &self,
        operation: &'static str,
        limit: Duration,
        work: W,
    ) -> StoreResult<T>
    where
        W: Fn(Arc<Db>) -> F + Send + Sync + 'static,
        F: Future<Output = SqlResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let service = self.db.service.clone();
        let (give, answer) = oneshot::channel();
        let give = Arc::new(Mutex::new(Some(give)));
        let work: Work = Box::new(move |db| {
            let (work, give) = (work(db), Arc::clone(&give));
            Box::pin(async move {
                let value = work.await?;
                // Nothing that can panic runs while it is held.
                let give = give.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(give) = give {
                    // A caller that is gone needs no answer.
                    drop(give.send(value));
                }
                Ok(())
            })
        });
        self.run(operation, limit, work).await?;
        answer.await.map_err(|_| stopped(service, operation))
    }

    /// As [`SqlStore::call`], for work that hands its answer over itself: one task for all kinds of answers, which
    /// is less to compile and less to wake up at every statement.
    async fn run(&self, operation: &'static str, limit: Duration, work: Work) -> StoreResult<()> {
        let db = Arc::clone(&self.db);
        let task = self.tasks.spawn(async move {
            let tries = async {
                let mut tried = 1;
                loop {
                    match work(Arc::clone(&db)).await {
                        Err(fault) if fault.is_contended() && tried < TRIES => {
                            tokio::time::sleep(PAUSE.delay(tried)).await;
                            tried += 1;
                        }
                        other => return other,
                    }
                }
            };
            let service = db.service.clone();
            match within(operation, limit, tries).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(fault)) => Err(fault.into_store_error(&service, operation, limit)),
                Err(late) => Err(StoreError::TimedOut {
                    service,
                    operation: late.operation,
                    after: late.after,
                }),
            }
        });
        let service = &self.db.service;
        task.await
            .unwrap_or_else(|_| Err(stopped(service.clone(), operation)))
    }
}

/// One try of a call.
type Work = Box<dyn Fn(Arc<Db>) -> BoxFuture<'static, SqlResult<()>> + Send + Sync>;

/// What is said of a call whose task has ended without an answer.
fn stopped(service: String, operation: &'static str) -> StoreError {
    StoreError::Failed {
        service,
        operation,
        detail: "the call was stopped".to_owned(),
    }
}

/// `call!(self, "operation", function(&cloned, &cloned; copied, copied))`
macro_rules! call {
    ($self:ident, $operation:literal, $function:path, [$($cloned:ident),*], [$($copied:ident),*]) => {
        call!($self, $operation, $self.db.timeout, $function, [$($cloned),*], [$($copied),*])
    };
    ($self:ident, $operation:literal, $limit:expr, $function:path, [$($cloned:ident),*], [$($copied:ident),*]) => {{
        $(let $cloned = $cloned.to_owned();)*
        $self
            .call($operation, $limit, move |db| {
                $(let $cloned = $cloned.clone();)*
                async move { $function(&db $(, &$cloned)* $(, $copied)*).await }
            })
            .await
    }};
}

use call;

#[async_trait]
impl Store for SqlStore {
    fn facts(&self) -> StoreFacts {
        facts::of(&self.db)
    }

    async fn probe(&self) -> StoreResult<StoreProbe> {
        call!(self, "probe", check::probe, [], [])
    }

    async fn check(&self) -> Vec<CheckLine> {
        let limit = self.db.timeout.saturating_mul(4);
        let lines: StoreResult<Vec<CheckLine>> = call!(self, "check", limit, check::check, [], []);
        lines.unwrap_or_else(|error| {
            vec![CheckLine {
                subject: "database".to_owned(),
                level: CheckLevel::Unreachable,
                finding: error.to_string(),
            }]
        })
    }

    async fn outbox_counts(&self) -> StoreResult<OutboxCounts> {
        call!(self, "outbox counts", outbox::counts, [], [])
    }

    async fn numbers(&self, window: Duration) -> StoreResult<Numbers> {
        call!(self, "counts", numbers::read, [], [window])
    }

    async fn outbox_page(&self, query: &OutboxQuery) -> StoreResult<Page<OutboxRow>> {
        call!(self, "outbox page", outbox::page, [query], [])
    }

    async fn outbox_event(&self, event_id: &EventId) -> StoreResult<Option<OutboxEvent>> {
        call!(self, "outbox event", outbox::event, [event_id], [])
    }

    async fn outbox_by_prefix(&self, prefix: &str) -> StoreResult<Vec<OutboxRow>> {
        call!(self, "outbox by prefix", outbox::by_prefix, [prefix], [])
    }

    async fn outbox_sequence(&self, aggregate_id: &AggregateId) -> StoreResult<Sequence> {
        call!(
            self,
            "outbox sequence",
            outbox::sequence,
            [aggregate_id],
            []
        )
    }

    async fn leases(&self, limit: u32) -> StoreResult<Leases> {
        call!(self, "leases", outbox::leases, [], [limit])
    }

    async fn inbox_row(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<Option<InboxRow>> {
        call!(
            self,
            "inbox row",
            business::inbox_row,
            [consumer, event_id],
            []
        )
    }

    async fn inbox_recent(&self, window: Duration) -> StoreResult<Count> {
        call!(self, "inbox recent", business::inbox_recent, [], [window])
    }

    async fn dead_letter_counts(&self) -> StoreResult<DeadLetterCounts> {
        call!(self, "dead letter counts", dead_letter::counts, [], [])
    }

    async fn dead_letter_groups(&self) -> StoreResult<DeadLetterGroups> {
        call!(self, "dead letter groups", dead_letter::groups, [], [])
    }

    async fn dead_letter_page(&self, query: &DeadLetterQuery) -> StoreResult<Page<DeadLetter>> {
        call!(self, "dead letter page", dead_letter::page, [query], [])
    }

    async fn dead_letter(&self, id: &DeadLetterId) -> StoreResult<Option<DeadLetterDetail>> {
        call!(self, "dead letter", dead_letter::detail, [id], [])
    }

    async fn dead_letters_of_event(&self, event_id: &EventId) -> StoreResult<Vec<DeadLetter>> {
        call!(
            self,
            "dead letters of event",
            dead_letter::of_event,
            [event_id],
            []
        )
    }

    async fn dead_letters_of_aggregate(
        &self,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Vec<DeadLetter>> {
        call!(
            self,
            "dead letters of aggregate",
            dead_letter::of_aggregate,
            [aggregate_id],
            []
        )
    }

    async fn operations_page(
        &self,
        after: Option<&Cursor>,
        limit: u32,
    ) -> StoreResult<Page<Operation>> {
        let start = operation::PageStart {
            after: after.cloned(),
        };
        call!(self, "operations page", operation::page, [start], [limit])
    }

    async fn operation(&self, id: &OperationId) -> StoreResult<Option<Operation>> {
        call!(self, "operation", operation::one, [id], [])
    }

    async fn unfinished_operations(&self, limit: u32) -> StoreResult<Vec<Operation>> {
        call!(
            self,
            "unfinished operations",
            operation::unfinished,
            [],
            [limit]
        )
    }

    async fn audit_page(&self, after_seq: Option<i64>, limit: u32) -> StoreResult<Vec<AuditEntry>> {
        call!(self, "audit page", audit::page, [], [after_seq, limit])
    }

    async fn audit_verify(&self) -> StoreResult<Result<i64, ChainFault>> {
        let limit = self.db.timeout.saturating_mul(LONG);
        call!(self, "audit verify", limit, audit::verify, [], [])
    }

    async fn begin(&self) -> StoreResult<Box<dyn BusinessTx>> {
        let begun = self
            .call("begin", self.db.timeout, business::SqlBusinessTx::begin)
            .await?;
        Ok(Box::new(begun))
    }

    async fn record_death(&self, death: &NewDeath) -> StoreResult<DeathRecorded> {
        call!(self, "record death", death::record, [death], [])
    }

    async fn settle_deaths(&self, fingerprints: &[String]) -> StoreResult<u64> {
        call!(self, "settle deaths", death::settle, [fingerprints], [])
    }

    async fn begin_replay(
        &self,
        operation: &NewOperation,
        reservations: &[Reservation],
        audit: &AuditRecord,
    ) -> StoreResult<Begun> {
        call!(
            self,
            "begin replay",
            journal::begin_replay,
            [operation, reservations, audit],
            []
        )
    }

    async fn step_item(&self, step: &ItemStep) -> StoreResult<Guarded> {
        call!(self, "step item", journal::step_item, [step], [])
    }

    async fn replay_outbox_row(
        &self,
        operation: &NewOperation,
        event_id: &EventId,
        attempts_seen: i64,
        audit: &AuditRecord,
    ) -> StoreResult<Begun> {
        call!(
            self,
            "replay outbox row",
            verbs::replay_outbox_row,
            [operation, event_id, audit],
            [attempts_seen]
        )
    }

    async fn repair(&self, operation: &NewOperation, repair: &Repair) -> StoreResult<Begun> {
        call!(self, "repair", verbs::repair, [operation, repair], [])
    }

    async fn close_dead_letter(
        &self,
        operation: &NewOperation,
        reservation: &Reservation,
        is_resolved: bool,
        audit: &AuditRecord,
    ) -> StoreResult<Begun> {
        call!(
            self,
            "close dead letter",
            verbs::close_dead_letter,
            [operation, reservation, audit],
            [is_resolved]
        )
    }

    async fn release_lease(
        &self,
        operation: &NewOperation,
        token: &ClaimToken,
        audit: &AuditRecord,
    ) -> StoreResult<u64> {
        call!(
            self,
            "release lease",
            verbs::release_lease,
            [operation, token, audit],
            []
        )
    }

    async fn audit_append(&self, record: &AuditRecord) -> StoreResult<AuditEntry> {
        call!(self, "audit append", audit::append_alone, [record], [])
    }

    async fn annotate_dead_letter(
        &self,
        id: &DeadLetterId,
        owner: Option<&str>,
        note: Option<&str>,
        audit: &AuditRecord,
    ) -> StoreResult<Guarded> {
        let annotation = verbs::Annotation {
            owner: owner.map(ToOwned::to_owned),
            note: note.map(ToOwned::to_owned),
        };
        call!(
            self,
            "annotate dead letter",
            verbs::annotate,
            [id, annotation, audit],
            []
        )
    }

    async fn migrate(&self, apply: bool) -> StoreResult<Vec<MigrationStep>> {
        let limit = self.db.timeout.saturating_mul(LONG);
        call!(self, "migrate", limit, migrate::migrate, [], [apply])
    }

    async fn create_business_tables(&self, statements: &'static [&'static str]) -> StoreResult<()> {
        let limit = self.db.timeout.saturating_mul(LONG);
        call!(
            self,
            "create business tables",
            limit,
            migrate::create_tables,
            [],
            [statements]
        )
    }

    async fn close(&self) {
        // What was begun is finished first; nobody is left waiting for longer than a call may take.
        if !self.tasks.stop(self.db.timeout).await {
            tracing::warn!(store.service = %self.db.service, "calls were still running at close");
        }
        self.db.pools.read.close().await;
        if let Some(write) = &self.db.pools.write {
            write.close().await;
        }
    }
}
