//! Dead letters as lists, and everything about one of them.

use std::sync::Arc;

use futures::future::join_all;

use crate::config::Service;
use crate::model::dead_letter::{DeadLetter, DeadLetterGroups, DeadLetterQuery, Whereabouts};
use crate::model::ids::{ConsumerName, DeadLetterId, EventId};
use crate::model::inbox::InboxRow;
use crate::model::outbox::Sequence;
use crate::model::page::Page;
use crate::store::Store;

use super::reader::{AMQP, nothing_read, part};
use super::snapshot::{DeadLetterFacts, DeadLetterSnapshot, DeadLetterView, PerService, Unread};
use super::{DeadLettersView, Observer};

impl Observer {
    /// Dead letters.
    pub async fn dead_letters(&self, view: &DeadLettersView) -> DeadLetterSnapshot {
        let services = self
            .of_services(
                |service| service.dead_letters.is_some(),
                |service, store| self.dead_letter_facts(service, store, view),
            )
            .await;
        DeadLetterSnapshot { services }
    }

    async fn dead_letter_facts(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
        view: &DeadLettersView,
    ) -> Result<DeadLetterFacts, Unread> {
        let is_asked = view.service.as_ref().is_none_or(|s| *s == service.name);
        let query = DeadLetterQuery {
            status: view.status,
            consumer: view.consumer.as_deref().map(ConsumerName::new),
            event_type: view.event_type.clone(),
            error_class: view.error_class.clone(),
            after: view.after.clone().filter(|_| view.service.is_some()),
            limit: view.limit,
        };
        let page = async {
            if !is_asked {
                return Ok(Page::default());
            }
            let read = store.dead_letter_page(&query);
            let mut page = self
                .reader
                .store(&service.name, "dead letter page", read)
                .await?;
            if let Some(filter) = &view.payload {
                let rows = self.letters_with_payload(service, store, page.rows, filter);
                page.rows = rows.await?;
            }
            Ok(page)
        };
        let groups = self.groups(service, store);
        let queued = async { Ok(self.queued(service).await) };
        let (groups, page, queued) = futures::try_join!(groups, page, queued)?;
        Ok(DeadLetterFacts {
            groups,
            page,
            queued,
        })
    }

    /// Open dead letters of every service by cause.
    pub async fn letter_groups(&self) -> Vec<PerService<DeadLetterGroups>> {
        self.of_services(
            |service| service.dead_letters.is_some(),
            |service, store| self.groups(service, store),
        )
        .await
    }

    /// Open dead letters of a service by cause, read once for the pane and the verdicts.
    async fn groups(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
    ) -> Result<DeadLetterGroups, Unread> {
        let read = self
            .reader
            .store(&service.name, "dead letters", store.dead_letter_groups());
        self.letter_groups.get(&service.name, read).await
    }

    /// Depth of each DLQ of a service; `None` when it is not known.
    async fn queued(&self, service: &Service) -> Vec<(String, Option<u64>)> {
        let queues = service.dead_letters.iter().flat_map(|part| &part.queues);
        join_all(queues.map(|queue| async move {
            let depth = self.depth(queue).await.ok().flatten();
            (queue.clone(), depth.map(|depth| depth.ready))
        }))
        .await
    }

    /// Everything about one dead letter; `Ok(None)` when it is gone.
    ///
    /// # Errors
    /// Why the dead letter itself could not be read. What else could not be read is in the view.
    pub async fn dead_letter(
        &self,
        service: &str,
        id: &DeadLetterId,
    ) -> Result<Option<DeadLetterView>, Unread> {
        let Some(store) = self.ports.store(service) else {
            return Err(Unread {
                what: format!("dead letter {id}"),
                reason: format!("there is no service {service} in this context"),
                is_unreachable: false,
            });
        };
        let read = self
            .reader
            .store(service, "dead letter", store.dead_letter(id))
            .await?;
        let Some(detail) = read else {
            return Ok(None);
        };
        let letter = &detail.letter;
        let mut unread = Vec::new();
        let (inboxes, origin, siblings, whereabouts) = tokio::join!(
            self.inboxes_of(letter.event_id.as_ref()),
            self.origin_of(letter),
            self.siblings_of(letter),
            self.whereabouts_of(letter),
        );
        // A message without an id has no inbox row to read: that is known, not unread.
        if letter.event_id.is_some() {
            unread.extend(inboxes.iter().filter_map(|inbox| inbox.unread.clone()));
        }
        let (original, sequence) = origin.collect_into(&mut unread);
        let siblings = siblings.collect_into(&mut unread);
        let whereabouts = whereabouts.collect_into(&mut unread);
        Ok(Some(DeadLetterView {
            service: service.to_owned(),
            whereabouts,
            inboxes,
            original,
            sequence,
            siblings,
            detail,
            unread,
        }))
    }

    /// Whether each consumer of the context has the event already.
    async fn inboxes_of(&self, event_id: Option<&EventId>) -> Vec<PerService<Option<InboxRow>>> {
        let inboxes = self
            .ports
            .iter()
            .filter_map(|(service, store)| Some((service, store, service.inbox.as_ref()?)));
        join_all(inboxes.map(|(service, store, inbox)| async move {
            let read = match event_id {
                Some(id) => {
                    self.reader
                        .store(
                            &service.name,
                            "inbox row",
                            store.inbox_row(&inbox.consumer, id),
                        )
                        .await
                }
                None => Err(Unread {
                    what: format!("inbox of {}", service.name),
                    reason: "the message carries no event id".to_owned(),
                    is_unreachable: false,
                }),
            };
            part(&service.name, read)
        }))
        .await
    }

    /// The outbox original and the sequence around it.
    async fn origin_of(&self, letter: &DeadLetter) -> Found<(Option<(String, String)>, Sequence)> {
        let mut found = Found::new((None, Sequence::default()));
        let outboxes = || {
            self.ports
                .iter()
                .filter(|(service, _)| service.outbox.is_some())
        };
        if let Some(id) = &letter.event_id {
            let events = join_all(outboxes().map(|(service, store)| async move {
                let read =
                    self.reader
                        .store(&service.name, "outbox original", store.outbox_event(id));
                (service.name.as_str(), read.await)
            }))
            .await;
            for (service, event) in events {
                let Some(event) = found.keep(event).flatten() else {
                    continue;
                };
                let digest = event.payload.sha256();
                found.value.0.get_or_insert((service.to_owned(), digest));
            }
        }
        let Some(aggregate_id) = &letter.aggregate_id else {
            found.value.1.not_answered = Some("the message carries no aggregate id".to_owned());
            return found;
        };
        let origin = found.value.0.as_ref().map(|(service, _)| service.clone());
        let asked = outboxes().filter(|(s, _)| origin.as_ref().is_none_or(|o| *o == s.name));
        let sequences = join_all(asked.map(|(service, store)| {
            self.reader.store(
                &service.name,
                "sequence",
                store.outbox_sequence(aggregate_id),
            )
        }))
        .await;
        for sequence in sequences {
            if let Some(sequence) = found.keep(sequence)
                && (found.value.1.rows.is_empty() || !sequence.rows.is_empty())
            {
                found.value.1 = sequence;
            }
        }
        found
    }

    /// Other dead letters of the same aggregate, in every service.
    async fn siblings_of(&self, letter: &DeadLetter) -> Found<Vec<DeadLetter>> {
        let mut found = Found::new(Vec::new());
        let Some(aggregate_id) = &letter.aggregate_id else {
            return found;
        };
        let read = self
            .of_services(
                |service| service.dead_letters.is_some(),
                |service, store| {
                    self.reader.store(
                        &service.name,
                        "dead letters of the aggregate",
                        store.dead_letters_of_aggregate(aggregate_id),
                    )
                },
            )
            .await;
        for service in read {
            found.unread.extend(service.unread);
            found.value.extend(
                service
                    .value
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|other| other.dead_letter_id != letter.dead_letter_id),
            );
        }
        found
    }

    /// Where the letter lies. An empty DLQ proves that only the table has it. One with messages may
    /// or may not hold a copy: looking inside would count as a delivery (B-10), so nobody looks, and
    /// the answer is *unknown*. That is no failure to read, and is not listed as one.
    async fn whereabouts_of(&self, letter: &DeadLetter) -> Found<Whereabouts> {
        let mut found = Found::new(Whereabouts::Unknown);
        if self.ports.broker.is_none() {
            return found;
        }
        match self.depth(&letter.dead_letter_queue).await {
            Ok(Some(depth)) if depth.ready > 0 => {}
            // A queue that is gone holds no copy either.
            Ok(_) => found.value = Whereabouts::Table,
            Err(unread) => found.unread.push(unread),
        }
        found
    }

    /// Depth of one queue by the message port.
    pub(crate) async fn depth(
        &self,
        queue: &str,
    ) -> Result<Option<crate::broker::QueueDepth>, Unread> {
        let what = format!("depth of {queue}");
        let Some(broker) = &self.ports.broker else {
            return Err(Unread {
                what,
                reason: "no broker is configured".to_owned(),
                is_unreachable: false,
            });
        };
        self.reader
            .broker(AMQP, what, "queue depth", broker.depth(queue))
            .await
    }
}

/// A value and what could not be read on the way to it.
struct Found<T> {
    value: T,
    unread: Vec<Unread>,
}

impl<T> Found<T> {
    fn new(value: T) -> Self {
        Self {
            value,
            unread: Vec::new(),
        }
    }

    /// The part, or `None` with its reason kept.
    fn keep<P>(&mut self, read: Result<P, Unread>) -> Option<P> {
        read.map_err(|unread| self.unread.push(unread)).ok()
    }

    fn collect_into(self, unread: &mut Vec<Unread>) -> T {
        unread.extend(self.unread);
        self.value
    }
}

impl DeadLetterSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}
