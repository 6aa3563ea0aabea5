//! What a consumer's database keeps beside the inbox rows: events that wait for an earlier version, and
//! how far back the inbox remembers.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::Timestamp;
use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::inbox::InboxRow;
use crate::model::waiting::{WaitingEvent, WaitingFound, WaitingSummary};

use super::{Guarded, StoreResult};

/// What an inbox may forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveRequest {
    /// Whose rows.
    pub consumer: ConsumerName,
    /// Rows younger than this stay, by the database's clock.
    pub keep: Duration,
    /// At most so many rows in one transaction.
    pub rows_max: u32,
    /// Copied to the archive before they go.
    pub archive: bool,
}

/// What one batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Rows that left the inbox.
    pub rows: u64,
    /// There may be more.
    pub is_full: bool,
    /// Ids processed at or before this may be forgotten now.
    pub horizon: Option<Timestamp>,
}

/// The consumer's side of a store, beside [`super::BusinessTx`].
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// The next waiting event of one sequence whose turn it is, or that is past.
    async fn next_waiting(
        &self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Option<WaitingEvent>>;
    /// Waiting events of any sequence whose turn it is, in order within each: what a worker that died
    /// after a commit left behind.
    async fn ready_waiting(&self, consumer: &ConsumerName, limit: u32)
    -> StoreResult<WaitingFound>;
    /// Takes waiting events whose deadline is over, for `lease`, on the database's clock.
    async fn take_overdue(
        &self,
        consumer: &ConsumerName,
        limit: u32,
        lease: Duration,
    ) -> StoreResult<WaitingFound>;
    /// Removes a waiting event of which a copy went on, unless it was tried again since it had
    /// `attempts`.
    async fn remove_waiting(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
        attempts: i64,
    ) -> StoreResult<Guarded>;
    /// How many events wait, and for how long. `Ok(None)` where nothing can wait: the service has no
    /// inbox, or its tables are older than waiting events.
    async fn waiting_summary(&self) -> StoreResult<Option<WaitingSummary>>;
    /// The last version of a sequence a consumer has applied; `None` where it keeps no versions.
    async fn applied_version(
        &self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Option<i64>>;

    /// Forgets one batch of old inbox rows and moves the horizon on, in one transaction.
    async fn archive_inbox(&self, request: &ArchiveRequest) -> StoreResult<Archived>;
    /// Ids processed at or before this may have been forgotten; `None` when none ever was by us.
    async fn inbox_horizon(&self, consumer: &ConsumerName) -> StoreResult<Option<Timestamp>>;
    /// A row the inbox has forgotten and the archive keeps.
    async fn archived_inbox_row(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<Option<InboxRow>>;
    /// Seconds since the oldest dead letter here that is open or being replayed died first.
    async fn oldest_unresolved(&self) -> StoreResult<Option<f64>>;
}
