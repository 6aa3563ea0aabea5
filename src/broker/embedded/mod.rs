//! The in-process broker of the embedded pipeline: durable queues, topic exchanges, mandatory
//! returns, confirms, prefetch, redelivery, expiry, delivery limits and dead-lettering with typed
//! `x-death`. It behaves as RabbitMQ does where both are asked the same (`contract`), and lives as
//! long as the process: "durable" here means that a queue outlives its clients.
//!
//! Faults for tests and drills: [`EmbeddedBroker::set_blocked`], [`EmbeddedBroker::set_up`],
//! [`EmbeddedBroker::disconnect_all`].

mod death;
mod meter;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::clock::Clock;
use crate::broker::wire::refusal;
use crate::broker::{
    Binding, Broker, BrokerError, BrokerOverview, BrokerResult, Consumer, Delivery, Flow,
    NodeFacts, Outgoing, PublishOutcome, Publisher, QueueDepth, QueueFacts, QueuePage, Topology,
};
use state::{Moment, State};

/// A broker inside this process. Cheap to share.
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    clock: Clock,
    state: Mutex<State>,
    condition: Mutex<Condition>,
    /// Rung whenever something may have become deliverable or a condition changed.
    changed: Notify,
}

struct Condition {
    is_up: bool,
    blocked: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while holding it is a bug in pure code; the state itself stays consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment {
            instant: Instant::now(),
            wall: self.clock.now(),
        }
    }

    fn ensure_up(&self) -> BrokerResult<()> {
        if self.condition().is_up {
            Ok(())
        } else {
            Err(BrokerError::Unavailable(
                "the embedded broker is stopped".to_owned(),
            ))
        }
    }

    fn flow(&self) -> Flow {
        let condition = self.condition();
        match (&condition.blocked, condition.is_up) {
            (_, false) => Flow::Unknown,
            (Some(reason), true) => Flow::Blocked(reason.clone()),
            (None, true) => Flow::Open,
        }
    }
}

impl EmbeddedBroker {
    /// An empty broker.
    pub fn new(name: &str) -> Arc<Self> {
        Self::with_clock(name, Clock::System)
    }

    /// An empty broker whose death records carry this clock's time.
    pub fn with_clock(name: &str, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                clock,
                state: Mutex::new(State::new(Instant::now())),
                condition: Mutex::new(Condition {
                    is_up: true,
                    blocked: None,
                }),
                changed: Notify::new(),
            }),
        })
    }

    /// Blocks publishing as a resource alarm does, or lets it go on (B-06).
    pub fn set_blocked(&self, reason: Option<&str>) {
        self.shared.condition().blocked = reason.map(str::to_owned);
        self.shared.changed.notify_waiters();
    }

    /// Stops or starts it. Stopping cuts every consumer off; queues keep their messages.
    pub fn set_up(&self, is_up: bool) {
        self.shared.condition().is_up = is_up;
        if !is_up {
            self.disconnect_all();
        }
        self.shared.changed.notify_waiters();
    }

    /// Cuts every consumer off, as a lost connection does: unacknowledged messages go back.
    pub fn disconnect_all(&self) {
        let now = self.shared.now();
        self.shared.state().unsubscribe_all(now);
        self.shared.changed.notify_waiters();
    }
}

#[async_trait]
impl Broker for EmbeddedBroker {
    fn name(&self) -> String {
        format!("embedded:{}", self.shared.name)
    }

    async fn probe(&self) -> BrokerResult<Duration> {
        self.shared.ensure_up().map(|()| Duration::ZERO)
    }

    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>> {
        self.shared.ensure_up()?;
        Ok(Box::new(EmbeddedPublisher {
            shared: Arc::clone(&self.shared),
        }))
    }

    async fn consumer(&self, queue: &str, prefetch: u16) -> BrokerResult<Box<dyn Consumer>> {
        self.shared.ensure_up()?;
        let id = self.shared.state().subscribe(queue, prefetch);
        let id = id.ok_or_else(|| BrokerError::NotFound(format!("queue not found: {queue}")))?;
        Ok(Box::new(EmbeddedConsumer {
            shared: Arc::clone(&self.shared),
            id,
        }))
    }

    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>> {
        self.shared.ensure_up()?;
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.expire(now);
        Ok(state
            .depth(queue)
            .map(|(ready, consumers)| QueueDepth { ready, consumers }))
    }

    async fn declare(&self, topology: &Topology) -> BrokerResult<()> {
        self.shared.ensure_up()?;
        self.shared.state().declare(topology);
        Ok(())
    }

    fn flow(&self) -> Flow {
        self.shared.flow()
    }

    async fn overview(&self) -> BrokerResult<BrokerOverview> {
        self.shared.ensure_up()?;
        let is_blocked = self.shared.condition().blocked.is_some();
        let node = NodeFacts {
            name: self.name(),
            is_running: Some(true),
            memory_alarm: Some(is_blocked),
            disk_alarm: Some(false),
        };
        Ok(BrokerOverview {
            product: "embedded broker".to_owned(),
            nodes: Some(vec![node]),
            nodes_problem: None,
            latency_us: 0,
        })
    }

    async fn queues(&self, page: u32, page_size: u32) -> BrokerResult<QueuePage> {
        self.shared.ensure_up()?;
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.expire(now);
        let names = state.queue_names();
        let size = page_size.max(1) as usize;
        let skipped = size.saturating_mul(page.saturating_sub(1) as usize);
        let queues = names
            .iter()
            .skip(skipped)
            .take(size)
            .filter_map(|name| state.facts(name, now));
        Ok(QueuePage {
            queues: queues.collect(),
            total: Some(names.len() as u64),
            statistics_off: false,
        })
    }

    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        self.shared.ensure_up()?;
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.expire(now);
        Ok(state.facts(name, now))
    }

    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        self.shared.ensure_up()?;
        let bindings = self.shared.state().bindings(exchange);
        bindings.ok_or_else(|| BrokerError::NotFound(format!("exchange not found: {exchange}")))
    }

    fn user(&self) -> Option<String> {
        None
    }

    fn frame_max(&self) -> u32 {
        0
    }

    async fn close(&self) {}
}

struct EmbeddedPublisher {
    shared: Arc<Shared>,
}

#[async_trait]
impl Publisher for EmbeddedPublisher {
    async fn publish(&self, messages: Vec<Outgoing>, deadline: Duration) -> Vec<PublishOutcome> {
        let until = Instant::now() + deadline;
        let count = messages.len();
        loop {
            let changed = self.shared.changed.notified();
            match self.shared.flow() {
                Flow::Open => break,
                Flow::Unknown => {
                    let why = "the embedded broker is stopped".to_owned();
                    return vec![PublishOutcome::Unsent(why); count];
                }
                Flow::Blocked(reason) => {
                    if tokio::time::timeout_at(until, changed).await.is_err() {
                        let why = format!("broker blocked for {deadline:?}: {reason}");
                        return vec![PublishOutcome::Unsent(why); count];
                    }
                }
            }
        }
        let now = self.shared.now();
        let outcomes = {
            let mut state = self.shared.state();
            messages
                .into_iter()
                .map(|message| match refusal(&message, None, 0) {
                    Some(reason) => PublishOutcome::Refused(reason),
                    None => state.publish(message, now),
                })
                .collect()
        };
        self.shared.changed.notify_waiters();
        outcomes
    }

    fn flow(&self) -> Flow {
        self.shared.flow()
    }
}

struct EmbeddedConsumer {
    shared: Arc<Shared>,
    id: u64,
}

impl EmbeddedConsumer {
    fn ensure_subscribed(&self) -> BrokerResult<()> {
        if self.shared.state().is_subscribed(self.id) {
            Ok(())
        } else {
            Err(BrokerError::Unavailable(
                "connection to the embedded broker was lost".to_owned(),
            ))
        }
    }
}

#[async_trait]
impl Consumer for EmbeddedConsumer {
    async fn next(&mut self) -> BrokerResult<Delivery> {
        loop {
            // Registered before looking, so that a message between look and wait is not missed.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.ensure_subscribed()?;
            let now = self.shared.now();
            let (delivery, expiry) = {
                let mut state = self.shared.state();
                (state.deliver(self.id, now), state.next_expiry())
            };
            if let Some(delivery) = delivery {
                return Ok(delivery);
            }
            match expiry {
                // An error only means that the expiry came before a change: look again.
                Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }

    async fn ack(&mut self, tag: u64, up_to: bool) -> BrokerResult<()> {
        self.ensure_subscribed()?;
        let now = self.shared.now();
        self.shared.state().ack(self.id, tag, up_to, now);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn reject(&mut self, tag: u64, requeue: bool) -> BrokerResult<()> {
        self.ensure_subscribed()?;
        let now = self.shared.now();
        self.shared.state().reject(self.id, tag, requeue, now);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn close(self: Box<Self>) {}
}

impl Drop for EmbeddedConsumer {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.state().unsubscribe(self.id, now);
        self.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
