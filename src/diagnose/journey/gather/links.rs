//! What was done with the events: operations with their audit entries, and sagas.

use std::collections::HashMap;

use futures::future::join_all;

use crate::base::clock::Timestamp;
use crate::model::ids::{AggregateId, EventId, OperationId};
use crate::model::operation::OperationItem;

use super::super::facts::{Facts, OperationFacts};
use super::{Gatherer, LINEAGE_MAX, OPERATIONS_MAX};

type Items = Vec<(String, OperationId, OperationItem)>;

impl Gatherer<'_> {
    /// Operations on these events and letters, with the items that matter.
    pub(super) async fn operations(&self, facts: &mut Facts, clocks: &HashMap<String, Timestamp>) {
        let mut items = self.items_of_letters(facts).await;
        items.extend(self.items_of_events(facts).await);
        for (service, store) in self.services(|service| service.journal) {
            // The one that was asked for was read whole.
            let whole: Vec<OperationId> = facts
                .operations
                .iter()
                .filter(|of| of.service == service)
                .map(|of| of.operation.operation_id.clone())
                .collect();
            let mut ids: Vec<OperationId> = Vec::new();
            let found = items.iter().filter(|(of, ..)| of == service);
            ids.extend(found.map(|(_, id, _)| id.clone()));
            let repaired = facts.repairs.iter().filter(|(of, _)| of == service);
            ids.extend(repaired.map(|(_, link)| link.operation_id.clone()));
            ids.sort();
            ids.dedup();
            ids.retain(|id| !whole.contains(id));
            if ids.len() > OPERATIONS_MAX {
                self.limit(format!(
                    "{service} has more than {OPERATIONS_MAX} operations on these: the newest are shown"
                ));
                ids.drain(..ids.len() - OPERATIONS_MAX);
            }
            let heads = self.ask(service, "operations", store.operation_heads(&ids));
            for mut operation in heads.await.unwrap_or_default() {
                for (of, id, item) in &items {
                    let is_new = !operation.items.iter().any(|known| known.no == item.no);
                    if of == service && *id == operation.operation_id && is_new {
                        operation.items.push(item.clone());
                    }
                }
                operation.items.sort_by_key(|item| item.no);
                facts.operations.push(OperationFacts {
                    service: service.to_owned(),
                    operation,
                    audit: Vec::new(),
                });
            }
        }
        for of in &mut facts.operations {
            if let Some(now) = clocks.get(&of.service) {
                of.operation = of.operation.clone().shown_at(*now);
            }
            let Some(store) = self.store(&of.service) else {
                continue;
            };
            let audit = store.audit_of(&of.operation.operation_id);
            let audit = self.ask(&of.service, "audit entries", audit).await;
            of.audit = audit.unwrap_or_default();
        }
    }

    async fn items_of_letters(&self, facts: &Facts) -> Items {
        let mut out = Vec::new();
        let letters = facts.events.iter().flat_map(|event| &event.letters);
        for letter in letters.take(LINEAGE_MAX) {
            let services = &self.observer.ports().context.services;
            let has_journal = services
                .iter()
                .any(|service| service.name == letter.service && service.journal);
            let Some(store) = self.store(&letter.service).filter(|_| has_journal) else {
                continue;
            };
            let id = letter.letter.dead_letter_id.clone();
            let read = store.items_of_letter(&id);
            let found = self.ask(&letter.service, "operation items", read).await;
            out.extend(
                found
                    .into_iter()
                    .flatten()
                    .map(|(id, item)| (letter.service.clone(), id, item)),
            );
        }
        out
    }

    /// Replays of outbox rows have no letter to be found by.
    async fn items_of_events(&self, facts: &Facts) -> Items {
        let mut out = Vec::new();
        let events = facts
            .events
            .iter()
            .filter(|event| event.role.is_told_in_full() || has_trouble(event));
        for event in events.take(LINEAGE_MAX) {
            let Some(id) = event.event_id.clone() else {
                continue;
            };
            let reads = self
                .services(|service| service.journal && service.outbox.is_some())
                .into_iter()
                .map(|(service, store)| {
                    let id = id.clone();
                    async move {
                        let read = store.items_of_event(&id);
                        (service, self.ask(service, "operation items", read).await)
                    }
                });
            for (service, found) in join_all(reads).await {
                out.extend(
                    found
                        .into_iter()
                        .flatten()
                        .map(|(id, item)| (service.to_owned(), id, item)),
                );
            }
        }
        out
    }

    /// Sagas that wait for one of these events, or are about one of these aggregates.
    pub(super) async fn sagas(&self, facts: &mut Facts, aggregates: &[AggregateId]) {
        let ids: Vec<EventId> = facts
            .events
            .iter()
            .filter_map(|event| event.event_id.clone())
            .collect();
        for (service, store) in self.services(|service| service.sagas.is_some()) {
            let read = self.ask(service, "sagas", store.sagas_of_events(&ids));
            let mut found = read.await.unwrap_or_default();
            for aggregate in aggregates {
                let read = store.sagas_of_key(aggregate.as_str());
                found.extend(self.ask(service, "sagas", read).await.unwrap_or_default());
            }
            for saga in found {
                let is_known = facts
                    .sagas
                    .iter()
                    .any(|(of, known)| of == service && known.saga_id == saga.saga_id);
                if !is_known {
                    facts.sagas.push((service.to_owned(), saga));
                }
            }
        }
    }
}

fn has_trouble(event: &super::super::facts::EventFacts) -> bool {
    event
        .outbox
        .iter()
        .any(|(_, row)| row.last_error.is_some() || row.attempts.is_some_and(|n| n > 1))
}
