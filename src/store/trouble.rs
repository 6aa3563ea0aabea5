//! What a diagnosis asks of a database beside the counts: a few bounded reads at a slow pace.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::ids::{ConsumerName, EventId};
use crate::model::trouble::{LockWaits, RowTroubles, SentEvent};

use super::StoreResult;

/// The diagnosing side of a store. Reads only.
#[async_trait]
pub trait TroubleStore: Send + Sync {
    /// Failed rows and rows tried in vain by type and error, from at most `limit` rows of each.
    async fn row_troubles(&self, limit: u32) -> StoreResult<RowTroubles>;
    /// Who waits for locks in this database. `Ok(None)` where the question makes no sense: SQLite locks
    /// the whole file. `Denied` names the missing right.
    async fn lock_waits(&self) -> StoreResult<Option<LockWaits>>;
    /// Rows created within `window` that are sent, newest first, at most `limit`.
    async fn sent_recently(&self, window: Duration, limit: u32) -> StoreResult<Vec<SentEvent>>;
    /// Which of these events the consumer has done with, has parked, or has given up: the others never
    /// reached it.
    async fn seen_by(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<EventId>>;
}
