//! What explains a stuck pipeline beyond its counts: claims and leases, rows by error, waits on locks, causes
//! of dead letters, sagas, queues, and events that were sent and never seen. Read at a slow pace, each
//! part bounded (`docs/ARCHITECTURE.md`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;

use crate::broker::{Binding, Broker, topic};
use crate::config::{InboxPart, Service};
use crate::model::ids::EventId;
use crate::model::outbox::Leases;
use crate::model::trouble::SentEvent;
use crate::store::Store;

use super::Observer;
use super::snapshot::{CauseSnapshot, Landed, Missing, PerService, QueueSnapshot, Unread, Unseen};

/// Failed rows, and rows tried in vain, that are grouped at most.
const TROUBLE_ROWS: u32 = 200;
/// Sent events that are followed up in one look.
const FOLLOWED_ROWS: u32 = 200;

/// Claimed events that are looked for at the consumers.
const LANDED_ROWS: usize = 50;

/// What each exchange is bound to; `None` = no such exchange, or its bindings cannot be read.
type Routes = HashMap<String, Option<Vec<Binding>>>;

impl Observer {
    /// Everything a diagnosis needs beyond health and flow.
    pub async fn causes(&self) -> CauseSnapshot {
        let claims = async {
            let leases = self.leases().await.services;
            let landed = self.landed(&leases).await;
            (leases, landed)
        };
        let troubles = self.of_services(
            |service| service.outbox.is_some(),
            |service, store| {
                self.reader.store(
                    &service.name,
                    "failed rows",
                    store.row_troubles(TROUBLE_ROWS),
                )
            },
        );
        let locks = self.of_services(
            |service| service.outbox.is_some(),
            |service, store| {
                self.reader
                    .store(&service.name, "lock waits", store.lock_waits())
            },
        );
        let letters = self.letter_groups();
        let sagas = self.of_services(
            |service| service.sagas.is_some(),
            |service, store| self.open_sagas(service, store),
        );
        let horizons = self.of_services(
            |service| service.inbox.is_some(),
            |service, store| async move {
                let Some(inbox) = &service.inbox else {
                    return Ok(None);
                };
                let read = store.inbox_horizon(&inbox.consumer);
                self.reader
                    .store(&service.name, "inbox horizon", read)
                    .await
            },
        );
        // One after the other: an event whose queue was empty before it was looked for is lost, one whose
        // queue became empty afterwards was consumed meanwhile.
        let events = Box::pin(async {
            let queues = self.with_depths(self.queues(1).await).await;
            (queues, self.unseen().await)
        });
        let ((leases, landed), troubles, locks, letters, sagas, horizons, (queues, unseen)) =
            tokio::join!(claims, troubles, locks, letters, sagas, horizons, events);
        CauseSnapshot {
            leases,
            troubles,
            locks,
            letters,
            sagas,
            horizons,
            queues,
            unseen,
            landed,
        }
    }

    /// Whether rows under a lease that is over went out: a consumer that has seen one tells. Asked only where
    /// there are such rows.
    async fn landed(&self, leases: &[PerService<Leases>]) -> Vec<PerService<Landed>> {
        let over = leases.iter().filter_map(|part| {
            let groups = part.value.iter().flat_map(|leases| &leases.groups);
            let over = groups.filter(|group| group.left_s.is_some_and(|left| left < 0.0));
            let mut ids: Vec<EventId> = over.flat_map(|group| group.sample.clone()).collect();
            ids.truncate(LANDED_ROWS);
            (!ids.is_empty()).then_some((part.service.as_str(), ids))
        });
        join_all(over.map(|(service, ids)| async move {
            let looks = self.ports.iter().filter_map(|(consumer, store)| {
                let read = store.seen_by(&consumer.inbox.as_ref()?.consumer, &ids);
                Some(self.reader.store(&consumer.name, "claimed events", read))
            });
            let mut seen = HashSet::new();
            let mut unread = None;
            for look in join_all(looks).await {
                match look {
                    Ok(ids) => seen.extend(ids),
                    Err(reason) => unread = Some(reason),
                }
            }
            // What one consumer has seen was sent, whatever the others would say.
            let is_known = unread.is_none() || !seen.is_empty();
            PerService {
                service: service.to_owned(),
                value: is_known.then_some(Landed {
                    followed: ids.len() as u64,
                    seen: seen.len() as u64,
                }),
                unread: if is_known { None } else { unread },
            }
        }))
        .await
    }

    /// What the queues of the configuration say for themselves takes the place of the statistics, which are
    /// seconds old.
    async fn with_depths(&self, mut snapshot: QueueSnapshot) -> QueueSnapshot {
        let own = snapshot
            .queues
            .iter_mut()
            .filter(|queue| matches!(queue.role.as_str(), "work" | "dlq") && !queue.is_missing());
        join_all(own.map(|queue| async {
            if let Ok(Some(depth)) = self.depth(&queue.facts.name).await {
                queue.facts.ready = Some(depth.ready);
                queue.facts.consumers = Some(depth.consumers);
            }
        }))
        .await;
        snapshot
    }

    /// Events that were sent longer ago than they may take, by the consumers that have never seen them.
    async fn unseen(&self) -> Vec<PerService<Unseen>> {
        let Some(broker) = &self.ports.broker else {
            return Vec::new();
        };
        let (routes, sent) = tokio::join!(self.routes(broker), self.sent_recently());
        let consumers: Vec<_> = self
            .ports
            .iter()
            .filter_map(|(service, store)| Some((service, store, service.inbox.as_ref()?)))
            .collect();
        join_all(sent.into_iter().map(|part| async {
            let value = match part.value {
                None => None,
                Some(sent) => {
                    let due = self.due_by_now(&part.service, &sent);
                    let looks = consumers.iter().map(|(service, store, inbox)| {
                        self.unseen_by((service, store, inbox), &part.service, &due, &routes)
                    });
                    let mut unseen = Unseen {
                        is_cut: sent.len() >= FOLLOWED_ROWS as usize,
                        followed: due.len() as u64,
                        ..Unseen::default()
                    };
                    for look in join_all(looks).await {
                        match look {
                            Ok(missing) => unseen.missing.extend(missing),
                            Err(reason) => unseen.unread.push(reason),
                        }
                    }
                    Some(unseen)
                }
            };
            PerService {
                service: part.service,
                value,
                unread: part.unread,
            }
        }))
        .await
    }

    async fn sent_recently(&self) -> Vec<PerService<Vec<SentEvent>>> {
        let limits = &self.ports.context.verdicts;
        // What an inbox may have forgotten proves nothing.
        let kept = self.ports.context.inbox_retention;
        let window = kept.map_or(limits.followed, |kept| limits.followed.min(kept));
        self.of_services(
            |service| service.outbox.is_some(),
            |service, store| {
                let read = store.sent_recently(window, FOLLOWED_ROWS);
                self.reader.store(&service.name, "sent events", read)
            },
        )
        .await
    }

    /// Those whose time is over, with where they went. Counted from the sent mark: an old event that was
    /// sent just now is under way (C-01).
    fn due_by_now(&self, service: &str, sent: &[SentEvent]) -> Vec<Followed> {
        let exchange = self
            .ports
            .context
            .service(service)
            .and_then(|service| service.outbox.as_ref())
            .map(|outbox| outbox.exchange.clone())
            .unwrap_or_default();
        let patience = self.ports.context.verdicts.consumed.as_secs_f64();
        let due = sent.iter().filter(|event| event.age_s >= patience);
        due.map(|event| Followed {
            exchange: event.exchange.clone().unwrap_or_else(|| exchange.clone()),
            routing_key: event
                .routing_key
                .clone()
                .unwrap_or_else(|| event.event_type.clone()),
            event: event.clone(),
        })
        .collect()
    }

    async fn unseen_by(
        &self,
        (service, store, inbox): (&Service, &Arc<dyn Store>, &InboxPart),
        emitter: &str,
        due: &[Followed],
        routes: &Routes,
    ) -> Result<Vec<Missing>, Unread> {
        let mut expected = Vec::new();
        for followed in due {
            match reaches(routes, followed, &inbox.queue) {
                Some(true) => expected.push(followed),
                Some(false) => {}
                None => {
                    return Err(Unread {
                        what: format!("what {} should get", inbox.consumer),
                        reason: format!("bindings of exchange {} are not known", followed.exchange),
                        is_unreachable: false,
                    });
                }
            }
        }
        if expected.is_empty() {
            return Ok(Vec::new());
        }
        let ids = expected.iter().map(|followed| &followed.event.event_id);
        let mut seen = self.seen.among((emitter, &service.name), ids.clone());
        let unknown: Vec<_> = ids.filter(|id| !seen.contains(*id)).cloned().collect();
        if !unknown.is_empty() {
            let read = store.seen_by(&inbox.consumer, &unknown);
            let read = self.reader.store(&service.name, "seen events", read);
            seen.extend(read.await?);
        }
        self.seen.keep((emitter, &service.name), seen.clone());
        Ok(expected
            .into_iter()
            .filter(|followed| !seen.contains(&followed.event.event_id))
            .map(|followed| Missing {
                consumer: inbox.consumer.to_string(),
                queue: inbox.queue.clone(),
                event_id: followed.event.event_id.clone(),
                event_type: followed.event.event_type.clone(),
                age_s: followed.event.age_s,
            })
            .collect())
    }

    /// Bindings of the exchanges the outboxes of this context send to.
    async fn routes(&self, broker: &Arc<dyn Broker>) -> Routes {
        let mut names: Vec<&str> = self
            .ports
            .context
            .services
            .iter()
            .filter_map(|service| Some(service.outbox.as_ref()?.exchange.as_str()))
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        let reads = join_all(names.iter().map(|name| self.bindings_of(broker, name))).await;
        let pairs = names.into_iter().zip(reads);
        pairs
            .map(|(name, read)| (name.to_owned(), read.ok().flatten()))
            .collect()
    }
}

/// Events of an emitter that a consumer was found to have, by the services of both: they are not asked for
/// again while they are followed.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<(String, String), HashSet<EventId>>>);

impl Seen {
    fn among<'a>(
        &self,
        (emitter, consumer): (&str, &str),
        ids: impl Iterator<Item = &'a EventId>,
    ) -> HashSet<EventId> {
        // Nothing that can panic runs while it is held.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get(&(emitter.to_owned(), consumer.to_owned())) else {
            return HashSet::new();
        };
        ids.filter(|id| known.contains(*id)).cloned().collect()
    }

    fn keep(&self, (emitter, consumer): (&str, &str), seen: HashSet<EventId>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((emitter.to_owned(), consumer.to_owned()), seen);
    }
}

/// An event and where it was sent.
struct Followed {
    event: SentEvent,
    exchange: String,
    routing_key: String,
}

/// Whether an event's exchange brings it to a queue; `None` when that is not known: an exchange bound
/// to another one is not followed, and a binding without a key is that of an exchange that is no topic
/// exchange. The default exchange names the queue.
fn reaches(routes: &Routes, followed: &Followed, queue: &str) -> Option<bool> {
    if followed.exchange.is_empty() {
        return Some(followed.routing_key == queue);
    }
    let bindings = routes.get(&followed.exchange)?.as_ref()?;
    let own = |binding: &&Binding| binding.is_to_queue && binding.destination == queue;
    if bindings
        .iter()
        .filter(own)
        .any(|binding| topic::matches(&binding.routing_key, &followed.routing_key))
    {
        return Some(true);
    }
    let is_unclear = bindings.iter().any(|binding| !binding.is_to_queue)
        || bindings
            .iter()
            .filter(own)
            .any(|b| b.routing_key.is_empty());
    (!is_unclear).then_some(false)
}

impl CauseSnapshot {
    /// Every part that could not be read.
    pub fn unread(&self) -> Vec<Unread> {
        let mut out = self.queues.unread.clone();
        collect(&self.leases, &mut out);
        collect(&self.troubles, &mut out);
        collect(&self.locks, &mut out);
        collect(&self.letters, &mut out);
        collect(&self.sagas, &mut out);
        collect(&self.horizons, &mut out);
        collect(&self.unseen, &mut out);
        collect(&self.landed, &mut out);
        for unseen in self.unseen.iter().filter_map(|part| part.value.as_ref()) {
            out.extend(unseen.unread.iter().cloned());
        }
        out
    }
}

fn collect<T>(parts: &[PerService<T>], out: &mut Vec<Unread>) {
    out.extend(parts.iter().filter_map(|part| part.unread.clone()));
}
