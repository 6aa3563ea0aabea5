//! What a dispatcher and a reaper ask of the database whose outbox they work on.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::Timestamp;
use crate::model::ids::{AggregateId, ClaimToken, EventId};
use crate::model::outbox::{OutboxEvent, OutboxState};

use super::StoreResult;

/// What to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// At most so many rows.
    pub batch_rows: u32,
    /// How long the claim holds.
    pub lease: Duration,
}

/// Rows taken by one claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Fences the rows; made for this claim even where the layout cannot store it.
    pub token: ClaimToken,
    /// Rows in the order they should go out.
    pub events: Vec<OutboxEvent>,
    /// Rows under the claim that cannot be read: no attempt will ever help.
    pub unreadable: Vec<Unreadable>,
    /// Rows that were due and stay because an earlier one of their aggregate is not sent; their time
    /// was put off.
    pub held: u64,
    /// The database's clock at the claim.
    pub claimed_at: Timestamp,
}

/// A row that cannot be read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The row.
    pub event_id: EventId,
    /// Whose event it is, if that can be read: in sequence it holds the later ones.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the aggregate's sequence, if that can be read.
    pub aggregate_version: Option<i64>,
    /// Why.
    pub problem: String,
}

/// Expired rows that went back to pending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reaped {
    /// How many.
    pub rows: u64,
    /// By the claim that lost them; `None` where the layout has no token.
    pub claims: Vec<(Option<ClaimToken>, u64)>,
    /// Seconds the oldest lease was overdue.
    pub overdue_s: f64,
}

/// What becomes of a row whose attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedAttempt {
    /// The row.
    pub event_id: EventId,
    /// Why; stored cut and escaped so that storing it cannot fail (P-13).
    pub error: String,
    /// Back to pending after so long, or failed for good.
    pub retry_after: Option<Duration>,
}

/// The dispatcher's and the reaper's side of a store. Everything after a claim is fenced: by the state
/// of the row and, where the layout has one, by the claim's token.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims due rows, oldest due first. Rows under an expired lease are the reaper's.
    async fn claim_batch(&self, request: &ClaimRequest) -> StoreResult<Claim>;
    /// Marks rows sent; returns how many still belonged to the token (invariant: check it).
    async fn complete(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64>;
    /// Extends a claim; returns how many rows still belonged to the token.
    async fn renew(&self, token: &ClaimToken, lease: Duration) -> StoreResult<u64>;
    /// Where these rows stand; a row that is not there is left out. For a caller whose fenced statement
    /// did its work while its answer was lost.
    async fn outbox_states(
        &self,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<(EventId, OutboxState)>>;
    /// Gives rows back after a failed attempt; returns how many still belonged to the token.
    async fn fail_attempts(
        &self,
        token: &ClaimToken,
        attempts: &[FailedAttempt],
    ) -> StoreResult<u64>;
    /// Gives rows back untried (attempt not counted): shutdown or a blocked broker.
    async fn give_back(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64>;
    /// As [`OutboxStore::claim_batch`], but of each aggregate only rows with no earlier unsent row outside
    /// the claim, in version order; the others are held. `Unsupported` says which column or index is
    /// missing.
    async fn claim_sequences(&self, request: &ClaimRequest) -> StoreResult<Claim>;
    /// Rows held by a row that went out at last are due at once: the next few hundred later versions of
    /// each of these aggregates.
    async fn wake_sequences(&self, sent: &[(AggregateId, i64)]) -> StoreResult<u64>;
    /// Rows whose lease has run out back to pending, at most `limit`, guarded by state *and* time on the
    /// database's clock. Attempts stay. `Unsupported` where the layout has no lease.
    async fn reap(&self, limit: u32) -> StoreResult<Reaped>;
}
