//! Where the events are: routes of the broker, depths of its queues, inboxes and waiting tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::broker::{Binding, topic};
use crate::model::ids::{ConsumerName, EventId};
use crate::model::inbox::InboxRow;
use crate::observe::snapshot::Unread;
use crate::store::Store;

use super::super::facts::{EventFacts, Facts, Inbox, Route, Seen};
use super::Gatherer;

impl Gatherer<'_> {
    /// What an outbox row says of its way.
    pub(super) fn routing(&self, event: &mut EventFacts, service: &str, key: Option<&str>) {
        let services = &self.observer.ports().context.services;
        let part = services
            .iter()
            .find(|known| known.name == service)
            .and_then(|known| known.outbox.as_ref());
        let own = event.exchange.take();
        event.exchange = own.or_else(|| part.map(|part| part.exchange.clone()));
        event.routing_key = key.or_else(|| event.event_type()).map(str::to_owned);
    }

    /// The queues each event is routed to, as bindings are now.
    pub(super) async fn routes(&self, facts: &mut Facts) {
        let mut bindings: BTreeMap<String, Option<Vec<Binding>>> = BTreeMap::new();
        for event in &mut facts.events {
            let (Some(exchange), Some(key)) = (&event.exchange, &event.routing_key) else {
                continue;
            };
            if exchange.is_empty() {
                // The default exchange: the key names the queue.
                event.route = Route::Queues(vec![key.clone()]);
                continue;
            }
            if !bindings.contains_key(exchange) {
                let found = self.bindings(exchange).await;
                bindings.insert(exchange.clone(), found);
            }
            if let Some(Some(bindings)) = bindings.get(exchange) {
                event.route = Route::Queues(bound(bindings, key));
            }
        }
    }

    async fn bindings(&self, exchange: &str) -> Option<Vec<Binding>> {
        let Some(broker) = &self.observer.ports().broker else {
            self.limit(format!(
                "no broker is configured: who should get what goes to {exchange} is not known"
            ));
            return None;
        };
        match self.observer.bindings_of(broker, exchange).await {
            Ok(found) => Some(found.unwrap_or_default()),
            Err(unread) => {
                self.unread(Unread {
                    what: format!("{}: who should get it", unread.what),
                    ..unread
                });
                None
            }
        }
    }

    /// How full the queues are of consumers that have not got something.
    pub(super) async fn depths(&self, facts: &mut Facts) {
        if self.observer.ports().broker.is_none() {
            return;
        }
        for (index, consumer) in facts.consumers.iter_mut().enumerate() {
            let is_waited_for = facts.events.iter().any(|event| {
                let is_absent = event
                    .seen
                    .iter()
                    .any(|seen| seen.consumer == index && seen.inbox == Inbox::Absent);
                is_absent
                    && matches!(&event.route, Route::Queues(queues) if queues.contains(&consumer.queue))
            });
            if !is_waited_for {
                continue;
            }
            match self.observer.depth(&consumer.queue).await {
                Ok(depth) => {
                    consumer.depth = depth.map(|depth| (depth.ready, depth.consumers));
                }
                Err(unread) => self.unread(unread),
            }
        }
    }

    /// What each inbox and each waiting table says of each event.
    pub(super) async fn inboxes(&self, facts: &mut Facts) {
        let ids: Vec<EventId> = facts
            .events
            .iter()
            .filter_map(|event| event.event_id.clone())
            .collect();
        for index in 0..facts.consumers.len() {
            self.inbox(facts, index, &ids).await;
        }
    }

    async fn inbox(&self, facts: &mut Facts, index: usize, ids: &[EventId]) {
        let Some(consumer) = facts.consumers.get(index).cloned() else {
            return;
        };
        let Some(store) = self.store(&consumer.service) else {
            return;
        };
        let service = consumer.service.as_str();
        let rows = self
            .ask(service, "inbox rows", store.inbox_rows(&consumer.name, ids))
            .await;
        let notes = self
            .ask(
                service,
                "waiting events",
                store.waiting_notes(&consumer.name, ids),
            )
            .await;
        // Where the inbox forgets nothing by us, an absent row is an absent row.
        let horizon = self.horizon(store, &consumer.name).await;
        for event in &mut facts.events {
            let Some(id) = event.event_id.clone() else {
                continue;
            };
            let waits = notes.iter().flatten().filter(|note| note.event_id == id);
            let named = waits.map(|note| (service.to_owned(), note.clone()));
            event.waiting.extend(named);
            let mut seen = Seen {
                consumer: index,
                inbox: Inbox::Unread,
                row: None,
            };
            if let Some(rows) = &rows {
                seen.row = rows.iter().find(|row| row.event_id == id).cloned();
                seen.inbox = if seen.row.is_some() {
                    Inbox::Row
                } else {
                    Inbox::Absent
                };
            }
            let created = event.outbox.first().and_then(|(_, row)| row.created_at);
            let may_be_forgotten = seen.inbox == Inbox::Absent
                && horizon.is_some_and(|horizon| created.is_none_or(|at| at <= horizon));
            if may_be_forgotten {
                let read = store.archived_inbox_row(&consumer.name, &id);
                let archived: Option<Option<InboxRow>> =
                    self.ask(service, "archived inbox row", read).await;
                (seen.inbox, seen.row) = match archived {
                    Some(Some(row)) => (Inbox::Archived, Some(row)),
                    Some(None) | None => (Inbox::Forgotten, None),
                };
            }
            event.seen.push(seen);
        }
    }

    /// How far back the inbox has forgotten; an inbox that is the service's own table forgets nothing by
    /// us, and that is no limit worth telling.
    async fn horizon(&self, store: &Arc<dyn Store>, consumer: &ConsumerName) -> Option<Timestamp> {
        store.inbox_horizon(consumer).await.ok().flatten()
    }
}

/// Queues a key is bound to, by the rules of a topic exchange, which are those of a direct one where no
/// binding has a pattern; an empty key is how a fanout is bound.
fn bound(bindings: &[Binding], key: &str) -> Vec<String> {
    let mut queues: Vec<String> = bindings
        .iter()
        .filter(|binding| binding.is_to_queue)
        .filter(|binding| {
            binding.routing_key.is_empty() || topic::matches(&binding.routing_key, key)
        })
        .map(|binding| binding.destination.clone())
        .collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}
