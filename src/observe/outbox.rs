//! Outboxes, their leases, and sagas: parts of services that are read the same way.

use std::future::Future;
use std::sync::Arc;

use futures::future::join_all;

use crate::config::Service;
use crate::model::outbox::{OutboxCounts, OutboxQuery};
use crate::model::page::Page;
use crate::store::Store;

use super::reader::{nothing_read, part};
use super::snapshot::{
    LeaseSnapshot, OutboxFacts, OutboxSnapshot, PerService, SagaSnapshot, Unread,
};
use super::{Observer, OutboxView};

/// Claimed rows that are grouped at most; more are marked as truncated.
const LEASE_ROWS: u32 = 1_000;

impl Observer {
    /// Outboxes.
    pub async fn outbox(&self, view: &OutboxView) -> OutboxSnapshot {
        let services = self
            .of_services(
                |service| service.outbox.is_some(),
                |service, store| self.outbox_facts(service, store, view),
            )
            .await;
        OutboxSnapshot { services }
    }

    async fn outbox_facts(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
        view: &OutboxView,
    ) -> Result<OutboxFacts, Unread> {
        let is_asked = view.service.as_ref().is_none_or(|s| *s == service.name);
        let query = OutboxQuery {
            state: view.state,
            // A cursor belongs to one table: without a service every outbox shows its first page.
            after: view.after.clone().filter(|_| view.service.is_some()),
            limit: view.limit,
            event_type: view.event_type.clone(),
        };
        let page = async {
            if !is_asked {
                return Ok(Page::default());
            }
            if let Some(event_id) = &view.event {
                let read = store.outbox_event(event_id);
                let found = self
                    .reader
                    .store(&service.name, "outbox event", read)
                    .await?;
                return Ok(Page {
                    rows: found.into_iter().map(|event| event.row).collect(),
                    next: None,
                });
            }
            let mut page = self
                .reader
                .store(&service.name, "outbox page", store.outbox_page(&query))
                .await?;
            if let Some(filter) = &view.payload {
                page.rows = self.with_payload(service, store, page.rows, filter).await?;
            }
            Ok(page)
        };
        let counts = self.counts(service, store);
        let (counts, page) = futures::try_join!(counts, page)?;
        Ok(OutboxFacts {
            facts: store.facts(),
            counts,
            state: match page.rows.first() {
                Some(row) if view.event.is_some() => row.state,
                _ => view.state,
            },
            page,
        })
    }

    /// Counts and ages of one outbox, for the pane and for the flow.
    pub(super) async fn counts(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
    ) -> Result<OutboxCounts, Unread> {
        let outbox = self.counted(service, store).await.outbox;
        outbox.unwrap_or_else(|| {
            Err(Unread {
                what: format!("outbox of {}", service.name),
                reason: "it has none in the configuration".to_owned(),
                is_unreachable: false,
            })
        })
    }

    /// Leases, read once for the pane and the verdicts.
    pub async fn leases(&self) -> LeaseSnapshot {
        let services = self
            .of_services(
                |service| service.outbox.is_some(),
                |service, store| {
                    let read = store.leases(LEASE_ROWS);
                    let read = self.reader.store(&service.name, "leases", read);
                    self.leases.get(&service.name, read)
                },
            )
            .await;
        LeaseSnapshot { services }
    }

    /// Sagas.
    pub async fn sagas(&self) -> SagaSnapshot {
        let limit = self.ports.context.thresholds.page_rows;
        let services = self
            .of_services(
                |service| service.sagas.is_some(),
                |service, store| {
                    self.reader
                        .store(&service.name, "sagas", store.sagas(limit))
                },
            )
            .await;
        SagaSnapshot { services }
    }

    /// Reads a part of every service that has it, all at the same time.
    pub(super) async fn of_services<'a, T, F>(
        &'a self,
        has_part: impl Fn(&Service) -> bool,
        read: impl Fn(&'a Service, &'a Arc<dyn Store>) -> F,
    ) -> Vec<PerService<T>>
    where
        F: Future<Output = Result<T, Unread>>,
    {
        join_all(
            self.ports
                .iter()
                .filter(|(service, _)| has_part(service))
                .map(|(service, store)| {
                    let reading = read(service, store);
                    async move { part(&service.name, reading.await) }
                }),
        )
        .await
    }
}

impl OutboxSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}

impl LeaseSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}

impl SagaSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}
