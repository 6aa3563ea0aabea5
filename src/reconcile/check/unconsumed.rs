//! Sent, and no inbox row: per consumer and by id, never by counts (C-04). Queues, dead letters and what
//! waits for an earlier version are looked at before anything is called missing (C-03).

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{BuiltIn, Check, Ground, Look, PAGE, missed};
use crate::base::clock::Timestamp;
use crate::broker::{Binding, topic};
use crate::config::{InboxPart, Service};
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::EventId;
use crate::model::scan::{Difference, Fact, NotCompared, Suggestion};
use crate::reconcile::backlog::{self, Backlog};
use crate::store::StoreError;
use crate::store::scan::SentEvent;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "sent-not-consumed",
    about: "Events that were sent and that a bound consumer's inbox does not have",
    build: || Box::<Unconsumed>::default(),
};

type Bound = Result<Vec<Binding>, NotCompared>;

#[derive(Default)]
struct Unconsumed {
    /// What is bound to each exchange.
    bound: Mutex<HashMap<String, Bound>>,
    /// What the first look saw of each suspect.
    seen: Mutex<HashMap<String, SentEvent>>,
}

/// One consumer and what it should have.
struct Duty<'a> {
    service: &'a Service,
    inbox: &'a InboxPart,
    events: Vec<&'a SentEvent>,
}

impl Unconsumed {
    /// What is bound to an exchange, asked once a scan.
    async fn bound(&self, ground: &Ground, exchange: &str) -> Bound {
        let mut known = self.bound.lock().await;
        if let Some(bound) = known.get(exchange) {
            return bound.clone();
        }
        let what = format!("bindings of {exchange}");
        let bound = match &ground.ports.broker {
            None => Err(NotCompared {
                what,
                reason: "no broker is configured: who should get what is not known".to_owned(),
                is_unreachable: false,
            }),
            Some(broker) => broker
                .bindings(exchange)
                .await
                .map_err(|error| NotCompared {
                    what,
                    reason: format!("{error}: who should get what is not known"),
                    is_unreachable: true,
                }),
        };
        known.insert(exchange.to_owned(), bound.clone());
        bound
    }

    /// Consumers of the context, each with the events that are routed to its queue.
    async fn duties<'a>(
        &self,
        ground: &'a Ground,
        emitter: &Service,
        events: &'a [SentEvent],
        look: &mut Look,
    ) -> Vec<Duty<'a>> {
        let own = emitter.outbox.as_ref().map_or("", |part| &part.exchange);
        let mut bound: HashMap<&str, Vec<Binding>> = HashMap::new();
        for event in events {
            let exchange = event.exchange.as_deref().unwrap_or(own);
            if exchange.is_empty() || bound.contains_key(exchange) {
                continue;
            }
            let bindings = match self.bound(ground, exchange).await {
                Ok(bindings) => bindings,
                Err(missing) => {
                    look.not_compared.push(missing);
                    Vec::new()
                }
            };
            if bindings.iter().any(|binding| !binding.is_to_queue) {
                look.notes.push(format!(
                    "{exchange} is bound to another exchange: what goes on from there is not followed"
                ));
            }
            bound.insert(exchange, bindings);
        }
        let routed = |event: &SentEvent, queue: &str| {
            let exchange = event.exchange.as_deref().unwrap_or(own);
            let key = event.routing_key.as_deref().unwrap_or(&event.event_type);
            if exchange.is_empty() {
                return key == queue;
            }
            bound.get(exchange).is_some_and(|bindings| {
                bindings.iter().any(|binding| {
                    binding.is_to_queue
                        && binding.destination == queue
                        && (binding.routing_key.is_empty()
                            || topic::matches(&binding.routing_key, key))
                })
            })
        };
        let services = ground.ports.context.services.iter();
        services
            .filter_map(|service| Some((service, service.inbox.as_ref()?)))
            .map(|(service, inbox)| Duty {
                service,
                inbox,
                events: events
                    .iter()
                    .filter(|event| routed(event, &inbox.queue))
                    .collect(),
            })
            .filter(|duty| !duty.events.is_empty())
            .collect()
    }

    /// Which events of a duty are missing, and what is known about them.
    async fn judge(
        ground: &Ground,
        (emitter, now): (&str, Timestamp),
        duty: Duty<'_>,
        look: &mut Look,
    ) -> Result<Vec<(Difference, SentEvent)>, NotCompared> {
        let name = &duty.service.name;
        let consumer = &duty.inbox.consumer;
        let inbox = |error| missed(format!("inbox of {name}"), &error);
        let store = ground.store(name).map_err(inbox)?;
        let ids: Vec<EventId> = duty.events.iter().map(|e| e.event_id.clone()).collect();
        let consumed = store.find_consumed(&ids).await.map_err(inbox)?;
        look.rows_read += consumed.len() as u64;
        let consumed: HashSet<EventId> = consumed.into_iter().map(|row| row.event_id).collect();
        let mut missing: Vec<&SentEvent> = Vec::new();
        for event in duty.events {
            if consumed.contains(&event.event_id) {
                continue;
            }
            if ground.is_over(Some(event.changed_at()), now) {
                missing.push(event);
            } else {
                look.in_flight += 1;
            }
        }
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<EventId> = missing.iter().map(|e| e.event_id.clone()).collect();
        let waiting: HashSet<EventId> = store
            .find_waiting(&ids)
            .await
            .map_err(inbox)?
            .into_iter()
            .collect();
        let dead: HashMap<EventId, Option<DeadLetterStatus>> =
            if duty.service.dead_letters.is_some() {
                let told = |error| missed(format!("dead letters of {name}"), &error);
                let marks = store.find_letters(consumer, &ids).await.map_err(told)?;
                marks
                    .into_iter()
                    .map(|mark| (mark.event_id, mark.status))
                    .collect()
            } else {
                HashMap::new()
            };
        look.rows_read += (waiting.len() + dead.len()) as u64;
        let horizon = store.inbox_horizon(consumer).await.map_err(inbox)?;
        let backlog = backlog::look(ground, &duty.inbox.queue).await?;
        let patience = backlog::patience(ground);
        let mut found = Vec::new();
        for event in missing {
            let id = &event.event_id;
            if let Some(status) = dead.get(id) {
                let is_open = matches!(
                    status,
                    None | Some(DeadLetterStatus::Open | DeadLetterStatus::Replaying)
                );
                look.explain(if is_open {
                    "dead letter, open"
                } else {
                    "dead letter, closed"
                });
            } else if waiting.contains(id) {
                look.explain(format!("{consumer} waits for an earlier version"));
            } else if horizon.is_some_and(|horizon| event.changed_at() <= horizon) {
                look.explain(format!("older than the inbox of {name} remembers"));
            } else if let Some(why) = backlog.may_hold(event.changed_at(), patience) {
                look.explain(why);
            } else {
                let difference = difference(emitter, event, duty.inbox, &backlog);
                found.push((difference, event.clone()));
            }
        }
        Ok(found)
    }

    async fn all(
        &self,
        ground: &Ground,
        (part, now): (&str, Timestamp),
        events: &[SentEvent],
        only: Option<&HashSet<String>>,
        look: &mut Look,
    ) {
        let Some(emitter) = ground.ports.context.service(part) else {
            return;
        };
        let mut seen = Vec::new();
        for mut duty in self.duties(ground, emitter, events, look).await {
            if let Some(only) = only {
                let consumer = duty.inbox.consumer.as_str();
                duty.events
                    .retain(|event| only.contains(&subject(consumer, &event.event_id)));
                if duty.events.is_empty() {
                    continue;
                }
            }
            match Self::judge(ground, (part, now), duty, look).await {
                Ok(found) => seen.extend(found),
                Err(missing) => look.not_compared.push(missing),
            }
        }
        let mut known = self.seen.lock().await;
        for (difference, event) in seen {
            known.insert(difference.subject.clone(), event);
            look.differences.push(difference);
        }
    }
}

fn subject(consumer: &str, id: &EventId) -> String {
    format!("{consumer} {id}")
}

fn difference(
    emitter: &str,
    event: &SentEvent,
    inbox: &InboxPart,
    backlog: &Backlog,
) -> Difference {
    let consumer = inbox.consumer.as_str();
    let id = &event.event_id;
    let mut facts = vec![
        Fact::new("type", &event.event_type),
        Fact::new("sent_at", event.changed_at().to_rfc3339()),
        Fact::new("queue", &inbox.queue),
        Fact::new("messages in the queue", backlog.messages.to_string()),
    ];
    if let Some(aggregate) = &event.aggregate_id {
        facts.push(Fact::new("key", aggregate.as_str()));
    }
    Difference {
        class: "sent_not_consumed".to_owned(),
        subject: subject(consumer, id),
        service: emitter.to_owned(),
        summary: format!(
            "{} was sent, and {consumer} has neither an inbox row nor a dead letter; it is not in {}",
            event.event_type, inbox.queue
        ),
        event_id: Some(id.clone()),
        consumer: Some(inbox.consumer.clone()),
        since: Some(event.changed_at()),
        at: Some(event.created_at),
        facts,
        suggestion: Some(Suggestion {
            verb: "look".to_owned(),
            target: id.to_string(),
            service: emitter.to_owned(),
            command: format!("redrive outbox --state sent --filter id:{id}"),
        }),
    }
}

#[async_trait]
impl Check for Unconsumed {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        ground.services(|service| service.outbox.is_some())
    }

    fn is_windowed(&self) -> bool {
        true
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let walk = ground
            .store(part)?
            .walk_sent(&ground.from(after, PAGE))
            .await?;
        let mut look = Look::of_page(&walk);
        self.all(ground, (part, walk.now), &walk.rows, None, &mut look)
            .await;
        Ok(look)
    }

    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let store = ground.store(part)?;
        let only: HashSet<String> = suspects.into_iter().map(|s| s.subject).collect();
        let mut events: Vec<SentEvent> = Vec::new();
        {
            let known = self.seen.lock().await;
            events.extend(
                only.iter()
                    .filter_map(|subject| known.get(subject).cloned()),
            );
        }
        events.sort_by(|a, b| (a.created_at, &a.event_id).cmp(&(b.created_at, &b.event_id)));
        events.dedup_by(|a, b| a.event_id == b.event_id);
        // What was sent again since is on its way again.
        let ids: Vec<EventId> = events.iter().map(|e| e.event_id.clone()).collect();
        let now: HashMap<EventId, Option<Timestamp>> = store
            .find_events(&ids, false)
            .await?
            .into_iter()
            .filter(|event| event.state == crate::model::outbox::OutboxState::Sent)
            .map(|event| (event.event_id, event.sent_at))
            .collect();
        events.retain(|event| now.contains_key(&event.event_id));
        for event in &mut events {
            if let Some(Some(sent_at)) = now.get(&event.event_id) {
                event.sent_at = Some(*sent_at);
            }
        }
        let clock = store.probe().await?.database_now;
        let mut look = Look {
            rows_read: now.len() as u64,
            ..Look::default()
        };
        self.all(ground, (part, clock), &events, Some(&only), &mut look)
            .await;
        Ok(look)
    }
}
