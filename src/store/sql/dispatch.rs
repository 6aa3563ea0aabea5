//! The dispatcher's and the reaper's side of the port.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::ids::{AggregateId, ClaimToken, EventId};
use crate::model::outbox::OutboxState;
use crate::store::{Claim, ClaimRequest, FailedAttempt, OutboxStore, Reaped, StoreResult};

use super::{SqlStore, call, claim, sequence};

#[async_trait]
impl OutboxStore for SqlStore {
    async fn claim_batch(&self, request: &ClaimRequest) -> StoreResult<Claim> {
        call!(self, "claim batch", claim::claim_batch, [request], [])
    }

    async fn complete(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64> {
        call!(self, "complete", claim::complete, [token, event_ids], [])
    }

    async fn renew(&self, token: &ClaimToken, lease: Duration) -> StoreResult<u64> {
        call!(self, "renew", claim::renew, [token], [lease])
    }

    async fn outbox_states(
        &self,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<(EventId, OutboxState)>> {
        call!(self, "outbox states", claim::states, [event_ids], [])
    }

    async fn fail_attempts(
        &self,
        token: &ClaimToken,
        attempts: &[FailedAttempt],
    ) -> StoreResult<u64> {
        call!(
            self,
            "fail attempts",
            claim::fail_attempts,
            [token, attempts],
            []
        )
    }

    async fn give_back(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64> {
        call!(self, "give back", claim::give_back, [token, event_ids], [])
    }

    async fn claim_sequences(&self, request: &ClaimRequest) -> StoreResult<Claim> {
        call!(self, "claim sequences", sequence::claim, [request], [])
    }

    async fn wake_sequences(&self, sent: &[(AggregateId, i64)]) -> StoreResult<u64> {
        call!(self, "wake sequences", sequence::wake, [sent], [])
    }

    async fn reap(&self, limit: u32) -> StoreResult<Reaped> {
        call!(self, "reap", claim::reap, [], [limit])
    }
}
