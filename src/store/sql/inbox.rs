//! The consumer's side of the port.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::Timestamp;
use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::inbox::InboxRow;
use crate::model::waiting::{WaitingEvent, WaitingFound, WaitingSummary};
use crate::store::inbox::{ArchiveRequest, Archived};
use crate::store::{Guarded, InboxStore, StoreResult};

use super::{SqlStore, archive, call, waiting};

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
    ) -> StoreResult<WaitingFound> {
        call!(self, "ready waiting", waiting::ready, [consumer], [limit])
    }

    async fn take_overdue(
        &self,
        consumer: &ConsumerName,
        limit: u32,
        lease: Duration,
    ) -> StoreResult<WaitingFound> {
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

    async fn applied_version(
        &self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
    ) -> StoreResult<Option<i64>> {
        call!(
            self,
            "applied version",
            waiting::applied,
            [consumer, aggregate_id],
            []
        )
    }

    async fn archive_inbox(&self, request: &ArchiveRequest) -> StoreResult<Archived> {
        call!(self, "archive inbox", archive::batch, [request], [])
    }

    async fn inbox_horizon(&self, consumer: &ConsumerName) -> StoreResult<Option<Timestamp>> {
        call!(self, "inbox horizon", archive::horizon, [consumer], [])
    }

    async fn archived_inbox_row(
        &self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<Option<InboxRow>> {
        call!(
            self,
            "archived inbox row",
            archive::archived_row,
            [consumer, event_id],
            []
        )
    }

    async fn oldest_unresolved(&self) -> StoreResult<Option<f64>> {
        call!(
            self,
            "oldest unresolved",
            archive::oldest_unresolved,
            [],
            []
        )
    }
}
