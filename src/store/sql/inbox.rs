//! The consumer's side of the port.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::waiting::{WaitingEvent, WaitingSummary};
use crate::store::{Guarded, InboxStore, StoreResult};

use super::{SqlStore, call, waiting};

#[async_trait]
impl InboxStore for SqlStore {
    async fn next_waiting(
        &self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Option<WaitingEvent>> {
        call!(
            self,
            "next waiting",
            waiting::next,
            [consumer, aggregate_id],
            []
        )
    }

    async fn ready_waiting(
        &self,
        consumer: &ConsumerName,
        limit: u32,
    ) -> StoreResult<Vec<WaitingEvent>> {
        call!(self, "ready waiting", waiting::ready, [consumer], [limit])
    }

    async fn take_overdue(
        &self,
        consumer: &ConsumerName,
        limit: u32,
        lease: Duration,
    ) -> StoreResult<Vec<WaitingEvent>> {
        call!(
            self,
            "take overdue",
            waiting::take_overdue,
            [consumer],
            [limit, lease]
        )
    }

    async fn remove_waiting(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
        attempts: i64,
    ) -> StoreResult<Guarded> {
        call!(
            self,
            "remove waiting",
            waiting::remove,
            [consumer, event_id],
            [attempts]
        )
    }

    async fn waiting_summary(&self) -> StoreResult<Option<WaitingSummary>> {
        call!(self, "waiting summary", waiting::summary, [], [])
    }
}
