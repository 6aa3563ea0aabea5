//! What a consumer's database keeps beside the inbox rows: events that wait for an earlier version, and
//! how far back the inbox remembers.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::waiting::{WaitingEvent, WaitingSummary};

use super::{Guarded, StoreResult};

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
    async fn ready_waiting(
        &self,
        consumer: &ConsumerName,
        limit: u32,
    ) -> StoreResult<Vec<WaitingEvent>>;
    /// Takes waiting events whose deadline is over, for `lease`, on the database's clock.
    async fn take_overdue(
        &self,
        consumer: &ConsumerName,
        limit: u32,
        lease: Duration,
    ) -> StoreResult<Vec<WaitingEvent>>;
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
}
