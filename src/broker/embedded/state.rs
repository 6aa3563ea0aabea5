//! The broker as a value: exchanges, queues, what is ready and what is out. Every rule of routing,
//! redelivery, limits and dead-lettering is here, without a task and without waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::clock::Timestamp;
use crate::base::crash::ARMED;
use crate::broker::{Binding, Delivery, NewQueue, Outgoing, PublishOutcome, QueueFacts, Topology};
use crate::model::message::{FieldValue, Message};

use super::death::{self, DeathNote};
use super::meter::Meter;
use crate::broker::topic;

/// Guard: a message that no queue takes comes back.
const MANDATORY: &str = "guard.mandatory";

/// Both clocks at one instant.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub instant: Instant,
    pub wall: Timestamp,
}

/// A message in a queue.
struct Stored {
    message: Message,
    exchange: String,
    routing_key: String,
    returns: i64,
    expires_at: Option<Instant>,
}

/// A delivered message nobody has acknowledged.
struct Out {
    stored: Stored,
    queue: String,
}

struct Queue {
    definition: NewQueue,
    ready: VecDeque<Stored>,
    unacked: u64,
    unacked_bytes: u64,
    consumers: u64,
    published: Meter,
    delivered: Meter,
    acked: Meter,
    redelivered: Meter,
}

struct Subscription {
    queue: String,
    prefetch: usize,
    next_tag: u64,
    out: BTreeMap<u64, Out>,
}

/// Everything the broker holds.
pub(super) struct State {
    start: Instant,
    exchanges: BTreeMap<String, Vec<(String, String)>>,
    queues: BTreeMap<String, Queue>,
    subscriptions: HashMap<u64, Subscription>,
    next_subscription: u64,
}

impl State {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            exchanges: BTreeMap::new(),
            queues: BTreeMap::new(),
            subscriptions: HashMap::new(),
            next_subscription: 1,
        }
    }

    /// Declares what is missing; a queue that exists keeps its messages and definition.
    pub(super) fn declare(&mut self, topology: &Topology) {
        for exchange in &topology.exchanges {
            self.exchanges.entry(exchange.clone()).or_default();
        }
        for queue in &topology.queues {
            for (exchange, key) in &queue.bindings {
                let bindings = self.exchanges.entry(exchange.clone()).or_default();
                let binding = (key.clone(), queue.name.clone());
                if !bindings.contains(&binding) {
                    bindings.push(binding);
                }
            }
            self.queues
                .entry(queue.name.clone())
                .or_insert_with(|| Queue {
                    definition: queue.clone(),
                    ready: VecDeque::new(),
                    unacked: 0,
                    unacked_bytes: 0,
                    consumers: 0,
                    published: Meter::default(),
                    delivered: Meter::default(),
                    acked: Meter::default(),
                    redelivered: Meter::default(),
                });
        }
    }

    /// Routes one message: the outcome a confirming, mandatory publisher gets.
    pub(super) fn publish(&mut self, outgoing: Outgoing, now: Moment) -> PublishOutcome {
        let Outgoing {
            exchange,
            routing_key,
            mut message,
        } = outgoing;
        if !exchange.is_empty() && !self.exchanges.contains_key(&exchange) {
            return PublishOutcome::Refused(format!("exchange not found: {exchange}"));
        }
        let keys = routing_keys(&message, &routing_key);
        message.properties.headers.take_where(|name| name == "BCC");
        let queues = self.route(&exchange, &keys);
        if queues.is_empty() && !ARMED.is_off(MANDATORY) {
            return PublishOutcome::Returned("312 NO_ROUTE".to_owned());
        }
        let mut is_full = false;
        for queue in queues {
            is_full |= !self.enqueue(&queue, &message, &exchange, &routing_key, now);
        }
        if is_full {
            PublishOutcome::Nacked
        } else {
            PublishOutcome::Confirmed
        }
    }

    fn route(&self, exchange: &str, keys: &[String]) -> Vec<String> {
        let mut queues: Vec<String> = if exchange.is_empty() {
            keys.iter()
                .filter(|key| self.queues.contains_key(*key))
                .cloned()
                .collect()
        } else {
            let bindings = self.exchanges.get(exchange).map_or(&[][..], Vec::as_slice);
            bindings
                .iter()
                .filter(|(pattern, _)| keys.iter().any(|key| topic::matches(pattern, key)))
                .map(|(_, queue)| queue.clone())
                .collect()
        };
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// False when the queue is full and refuses.
    fn enqueue(
        &mut self,
        name: &str,
        message: &Message,
        exchange: &str,
        routing_key: &str,
        now: Moment,
    ) -> bool {
        let start = self.start;
        let Some(queue) = self.queues.get_mut(name) else {
            return false;
        };
        let limit = queue
            .definition
            .max_length
            .and_then(|limit| usize::try_from(limit).ok());
        if limit.is_some_and(|limit| queue.ready.len() >= limit) {
            return false;
        }
        let own_ttl: Option<u64> = message
            .properties
            .expiration
            .as_ref()
            .and_then(|text| text.parse().ok());
        let queue_ttl = queue
            .definition
            .message_ttl_ms
            .and_then(|ms| u64::try_from(ms).ok());
        let ttl_ms = match (own_ttl, queue_ttl) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        queue.ready.push_back(Stored {
            message: message.clone(),
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            returns: 0,
            expires_at: ttl_ms.map(|ms| now.instant + Duration::from_millis(ms)),
        });
        queue.published.add(start, now.instant, 1);
        true
    }

    /// Opens a subscription; `None` when the queue does not exist.
    pub(super) fn subscribe(&mut self, queue: &str, prefetch: u16) -> Option<u64> {
        self.queues.get_mut(queue)?.consumers += 1;
        let id = self.next_subscription;
        self.next_subscription += 1;
        let subscription = Subscription {
            queue: queue.to_owned(),
            prefetch: usize::from(prefetch.max(1)),
            next_tag: 1,
            out: BTreeMap::new(),
        };
        self.subscriptions.insert(id, subscription);
        Some(id)
    }

    /// True while the subscription has not been cut off.
    pub(super) fn is_subscribed(&self, id: u64) -> bool {
        self.subscriptions.contains_key(&id)
    }

    /// The next message for a subscription, if there is one and its prefetch allows it.
    pub(super) fn deliver(&mut self, id: u64, now: Moment) -> Option<Delivery> {
        self.expire(now);
        let start = self.start;
        let subscription = self.subscriptions.get_mut(&id)?;
        if subscription.out.len() >= subscription.prefetch {
            return None;
        }
        let queue = self.queues.get_mut(&subscription.queue)?;
        let stored = queue.ready.pop_front()?;
        queue.unacked += 1;
        queue.unacked_bytes += stored.message.payload.bytes().len() as u64;
        queue.delivered.add(start, now.instant, 1);
        let tag = subscription.next_tag;
        subscription.next_tag += 1;
        let mut message = stored.message.clone();
        if stored.returns > 0 {
            queue.redelivered.add(start, now.instant, 1);
            if queue.definition.is_quorum {
                message
                    .properties
                    .headers
                    .set("x-delivery-count", FieldValue::I64(stored.returns));
            }
        }
        let delivery = Delivery {
            tag,
            is_redelivered: stored.returns > 0,
            exchange: stored.exchange.clone(),
            routing_key: stored.routing_key.clone(),
            message,
        };
        let queue = subscription.queue.clone();
        subscription.out.insert(tag, Out { stored, queue });
        Some(delivery)
    }

    /// Forgets one message, or all up to it.
    pub(super) fn ack(&mut self, id: u64, tag: u64, up_to: bool, now: Moment) {
        let start = self.start;
        for out in self.take_out(id, tag, up_to) {
            if let Some(queue) = self.queues.get_mut(&out.queue) {
                queue.acked.add(start, now.instant, 1);
            }
        }
    }

    /// Back to the front of its queue, or on to where the queue dead-letters.
    pub(super) fn reject(&mut self, id: u64, tag: u64, requeue: bool, now: Moment) {
        for out in self.take_out(id, tag, false) {
            if requeue {
                self.requeue(out, now);
            } else {
                self.dead_letter(&out.queue, out.stored, "rejected", now);
            }
        }
    }

    /// Ends a subscription: what it had goes back in its old order.
    pub(super) fn unsubscribe(&mut self, id: u64, now: Moment) {
        let Some(subscription) = self.subscriptions.remove(&id) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(&subscription.queue) {
            queue.consumers = queue.consumers.saturating_sub(1);
        }
        for (_, out) in subscription.out.into_iter().rev() {
            self.settle_out(&out);
            self.requeue(out, now);
        }
    }

    /// Ends every subscription, as a lost connection does.
    pub(super) fn unsubscribe_all(&mut self, now: Moment) {
        let ids: Vec<u64> = self.subscriptions.keys().copied().collect();
        for id in ids {
            self.unsubscribe(id, now);
        }
    }

    fn take_out(&mut self, id: u64, tag: u64, up_to: bool) -> Vec<Out> {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return Vec::new();
        };
        let taken: Vec<Out> = if up_to {
            let rest = subscription.out.split_off(&(tag + 1));
            std::mem::replace(&mut subscription.out, rest)
                .into_values()
                .collect()
        } else {
            subscription.out.remove(&tag).into_iter().collect()
        };
        for out in &taken {
            self.settle_out(out);
        }
        taken
    }

    fn settle_out(&mut self, out: &Out) {
        if let Some(queue) = self.queues.get_mut(&out.queue) {
            queue.unacked = queue.unacked.saturating_sub(1);
            let bytes = out.stored.message.payload.bytes().len() as u64;
            queue.unacked_bytes = queue.unacked_bytes.saturating_sub(bytes);
        }
    }

    fn requeue(&mut self, out: Out, now: Moment) {
        let Out {
            mut stored,
            queue: name,
        } = out;
        stored.returns += 1;
        let Some(queue) = self.queues.get_mut(&name) else {
            return;
        };
        let limit = queue.definition.delivery_limit;
        if queue.definition.is_quorum && limit.is_some_and(|limit| stored.returns > limit) {
            self.dead_letter(&name, stored, "delivery_limit", now);
        } else {
            queue.ready.push_front(stored);
        }
    }

    fn dead_letter(&mut self, name: &str, stored: Stored, reason: &str, now: Moment) {
        let Some(queue) = self.queues.get(name) else {
            return;
        };
        let Some((exchange, key)) = queue.definition.dead_letter.clone() else {
            return;
        };
        let Stored {
            mut message,
            exchange: from,
            routing_key,
            ..
        } = stored;
        let routing_keys = routing_keys(&message, &routing_key);
        let note = DeathNote {
            queue: name,
            reason,
            exchange: &from,
            routing_keys: routing_keys.clone(),
            at: now.wall,
        };
        death::record(&mut message, &note);
        let keys = if key.is_empty() {
            routing_keys
        } else {
            // A dead-letter routing key replaces the carbon copies too.
            message.properties.headers.take_where(|name| name == "CC");
            vec![key.clone()]
        };
        let key = if key.is_empty() { routing_key } else { key };
        for target in self.route(&exchange, &keys) {
            if reason != "rejected" && death::is_cycle(&message, &target) {
                continue;
            }
            self.enqueue(&target, &message, &exchange, &key, now);
        }
    }

    /// Dead-letters what has expired at the head of its queue.
    pub(super) fn expire(&mut self, now: Moment) {
        let names: Vec<String> = self.queues.keys().cloned().collect();
        for name in names {
            while let Some(stored) = self.queues.get_mut(&name).and_then(|queue| {
                let is_due = queue
                    .ready
                    .front()?
                    .expires_at
                    .is_some_and(|at| at <= now.instant);
                if is_due {
                    queue.ready.pop_front()
                } else {
                    None
                }
            }) {
                self.dead_letter(&name, stored, "expired", now);
            }
        }
    }

    /// When the next message at a head expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.queues
            .values()
            .filter_map(|queue| queue.ready.front()?.expires_at)
            .min()
    }

    /// Ready messages and consumers of a queue.
    pub(super) fn depth(&self, queue: &str) -> Option<(u64, u64)> {
        self.queues
            .get(queue)
            .map(|queue| (queue.ready.len() as u64, queue.consumers))
    }

    /// Queue names in order.
    pub(super) fn queue_names(&self) -> Vec<String> {
        self.queues.keys().cloned().collect()
    }

    /// Bindings from one exchange; `None` when it does not exist.
    pub(super) fn bindings(&self, exchange: &str) -> Option<Vec<Binding>> {
        let binding = |routing_key: &String, queue: &String| Binding {
            source: exchange.to_owned(),
            destination: queue.clone(),
            is_to_queue: true,
            routing_key: routing_key.clone(),
        };
        if exchange.is_empty() {
            return Some(
                self.queues
                    .keys()
                    .map(|queue| binding(queue, queue))
                    .collect(),
            );
        }
        Some(
            self.exchanges
                .get(exchange)?
                .iter()
                .map(|(key, queue)| binding(key, queue))
                .collect(),
        )
    }

    /// What the management view says of a queue.
    pub(super) fn facts(&self, name: &str, now: Moment) -> Option<QueueFacts> {
        let queue = self.queues.get(name)?;
        let definition = &queue.definition;
        let ready_bytes: u64 = queue
            .ready
            .iter()
            .map(|s| s.message.payload.bytes().len() as u64)
            .sum();
        let head_at = queue
            .ready
            .front()
            .and_then(|stored| stored.message.properties.timestamp);
        #[expect(clippy::cast_precision_loss, reason = "an age in seconds")]
        let head_age_s = head_at.map(|at| (now.wall.micros() as f64 / 1e6 - at as f64).max(0.0));
        Some(QueueFacts {
            name: name.to_owned(),
            kind: Some(
                if definition.is_quorum {
                    "quorum"
                } else {
                    "classic"
                }
                .to_owned(),
            ),
            state: Some("running".to_owned()),
            is_durable: Some(true),
            ready: Some(queue.ready.len() as u64),
            unacked: Some(queue.unacked),
            bytes: Some(ready_bytes + queue.unacked_bytes),
            consumers: Some(queue.consumers),
            rate_in: Some(queue.published.rate(self.start, now.instant)),
            rate_out: Some(queue.delivered.rate(self.start, now.instant)),
            rate_ack: Some(queue.acked.rate(self.start, now.instant)),
            rate_redelivered: Some(queue.redelivered.rate(self.start, now.instant)),
            head_age_s,
            members: None,
            members_online: None,
            dead_letter_exchange: definition
                .dead_letter
                .as_ref()
                .map(|(exchange, _)| exchange.clone()),
            dead_letter_routing_key: definition.dead_letter.as_ref().map(|(_, key)| key.clone()),
            policy: None,
            delivery_limit: definition.delivery_limit,
        })
    }
}

/// The message's own routing key, then those of its `CC` and `BCC` headers.
fn routing_keys(message: &Message, routing_key: &str) -> Vec<String> {
    let mut keys = vec![routing_key.to_owned()];
    for header in ["CC", "BCC"] {
        if let Some(FieldValue::Array(values)) = message.properties.headers.get(header) {
            keys.extend(
                values
                    .iter()
                    .filter_map(|value| value.as_text().map(str::to_owned)),
            );
        }
    }
    keys
}
