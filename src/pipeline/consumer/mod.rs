//! The consumer runtime: what a Rust service calls to consume a queue with a once-only effect.
//!
//! ```text
//! validate ─▶ begin ─▶ inbox row ─▶ handler: effect and outgoing events ─▶ commit ─▶ ack
//!    │                   │ duplicate: roll back, ack      │ transient: roll back, wait, again (bounded)
//!    │                   │ other content: dead letter     │ permanent, panic: roll back, dead letter
//!    └ invalid: dead letter                               └ rejected: its result event commits too
//! ```
//!
//! A dead letter is published to the DLQ with its reason and a confirm before the original is
//! acknowledged; when that is not certain, the original is rejected and the broker dead-letters it.
//! A database that is away is nobody's fault: messages are given back and nothing dies of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use tokio::time::sleep;

use super::copy::Copier;
use super::death::{aggregate_id_of, aggregate_version_of, event_id_of, replays_of};
use super::subscription::Subscription;
use super::{Report, Worker, headers};
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::deadline::within;
use crate::base::text;
use crate::broker::{Broker, Delivery};
use crate::config::Service;
use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::inbox::InboxInsert;
use crate::model::message::{FieldValue, Message};
use crate::store::{BusinessTx, Store, StoreError};

/// Registered name.
pub const NAME: &str = "consumer";

/// A valid event on its way to a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Its identity: the inbox key.
    pub event_id: EventId,
    /// e.g. `order.created`.
    pub event_type: Option<String>,
    /// Whose event it is.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the aggregate's sequence.
    pub aggregate_version: Option<i64>,
    /// Times an operator has replayed it; 0 for a first delivery.
    pub replays: i64,
    /// 1 for the first try of this delivery.
    pub attempt: u32,
    /// The message as it came.
    pub message: Message,
}

/// What a handler made of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The effect is in the transaction: commit it.
    Done,
    /// Business said no, and the result event that says so is in the transaction: commit it.
    Rejected,
    /// May work if tried again: roll back, wait, try again, a bounded number of times.
    Transient(String),
    /// Will never work as it is: roll back, dead letter.
    Permanent {
        /// Short and the same for equal causes: dead letters are grouped by it.
        class: String,
        /// One line about this event.
        error: String,
    },
    /// Nothing can be handled now, whatever the event: roll back, give everything back, wait.
    Away(String),
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Contended { .. } => Self::Transient(error.to_string()),
            StoreError::Failed { .. } => Self::Permanent {
                class: "database refused the effect".to_owned(),
                error: error.to_string(),
            },
            // Away, or a missing table or right: it would hit every event, none of them is to blame.
            StoreError::Unavailable { .. }
            | StoreError::TimedOut { .. }
            | StoreError::Denied { .. }
            | StoreError::Mapping { .. }
            | StoreError::Unsupported { .. } => Self::Away(error.to_string()),
        }
    }
}

/// A service's reaction to one event. Everything it does goes through `tx`, or it may happen twice.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Reacts. A panic is caught and counts as permanent.
    ///
    /// # Cancel safety
    /// Dropped at the time limit; the transaction is rolled back then.
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome;

    /// The service's version, told with every dead letter.
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// Limits of a consumer; all have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerSettings {
    /// Messages in flight, and at most handled a pass.
    pub prefetch: u16,
    /// Tries of one delivery before it is a dead letter.
    pub attempts_max: u32,
    /// Wait between those tries. They hold the queue up, so keep it short.
    pub backoff: Backoff,
    /// Time limit of one try.
    pub time_limit: Duration,
    /// Queue dead letters are published to. `None`: rejected, and the broker dead-letters them
    /// without a reason.
    pub dead_letter_queue: Option<String>,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            prefetch: 50,
            attempts_max: 3,
            backoff: Backoff {
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
            },
            time_limit: Duration::from_secs(10),
            dead_letter_queue: None,
        }
    }
}

impl ConsumerSettings {
    /// The defaults with the dead-letter queue `service` collects for its inbox's queue: the one
    /// named after it, else its first.
    pub fn of(service: &Service) -> Self {
        let queue = service.inbox.as_ref().map(|inbox| inbox.queue.as_str());
        let collected = service
            .dead_letters
            .as_ref()
            .map(|part| part.queues.as_slice())
            .unwrap_or_default();
        let own = collected
            .iter()
            .find(|name| queue.is_some_and(|queue| name.starts_with(queue)))
            .or_else(|| collected.first());
        Self {
            dead_letter_queue: own.cloned(),
            ..Self::default()
        }
    }
}

/// Consumes one queue for one inbox.
pub struct Consumer {
    service: String,
    work: Work,
    clock: Clock,
    subscription: Subscription,
    copier: Copier,
}

/// What is done with one event, apart from where it came from.
struct Work {
    name: ConsumerName,
    store: Arc<dyn Store>,
    handler: Arc<dyn Handler>,
    settings: ConsumerSettings,
}

/// Why an event dies.
struct Death {
    class: String,
    error: String,
    attempts: u32,
}

/// What one delivery came to.
enum Handled {
    /// Committed.
    Done,
    /// Committed, with a result event that says no.
    Rejected,
    /// The inbox had it.
    Duplicate,
    /// To the dead-letter queue.
    Dead(Death),
    /// The database is away.
    Away(String),
}

/// What one try came to.
enum Tried {
    Over(Handled),
    Again(String),
}

impl Consumer {
    /// A consumer of `service`'s inbox; `None` when it has none. Reaches nothing yet.
    pub fn new(
        service: &Service,
        ports: (Arc<dyn Store>, Arc<dyn Broker>),
        clock: &Clock,
        handler: Arc<dyn Handler>,
    ) -> Option<Self> {
        Self::with_settings(
            service,
            ports,
            clock,
            (handler, ConsumerSettings::of(service)),
        )
    }

    /// The same with other limits.
    pub fn with_settings(
        service: &Service,
        ports: (Arc<dyn Store>, Arc<dyn Broker>),
        clock: &Clock,
        work: (Arc<dyn Handler>, ConsumerSettings),
    ) -> Option<Self> {
        let inbox = service.inbox.as_ref()?;
        let ((store, broker), (handler, settings)) = (ports, work);
        Some(Self {
            service: service.name.clone(),
            clock: clock.clone(),
            subscription: Subscription::new(
                &inbox.queue,
                settings.prefetch,
                Arc::clone(&broker),
                clock.clone(),
            ),
            copier: Copier::new(broker),
            work: Work {
                name: inbox.consumer.clone(),
                store,
                handler,
                settings,
            },
        })
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), String> {
        // Nothing is taken that could not be committed: each return counts against a delivery limit.
        if self.subscription.is_due()
            && let Err(error) = self.work.store.probe().await
        {
            self.subscription.give_back(&error.to_string()).await;
            return Err(self.subscription.describe());
        }
        self.subscription.open().await?;
        for _ in 0..self.work.settings.prefetch {
            let Some(delivery) = self.subscription.next().await? else {
                return Ok(());
            };
            report.is_idle = false;
            self.consume(&delivery, report).await?;
        }
        Ok(())
    }

    async fn consume(&mut self, delivery: &Delivery, report: &mut Report) -> Result<(), String> {
        match self.work.handle(&delivery.message, report).await {
            Handled::Done => {
                report.add("done", 1);
                self.subscription.ack(delivery.tag, false).await
            }
            Handled::Rejected => {
                report.add("rejected", 1);
                self.subscription.ack(delivery.tag, false).await
            }
            Handled::Duplicate => {
                report.add("duplicates", 1);
                self.subscription.ack(delivery.tag, false).await
            }
            Handled::Dead(death) => self.bury(delivery, &death, report).await,
            Handled::Away(reason) => {
                self.subscription.give_back(&reason).await;
                Err(self.subscription.describe())
            }
        }
    }

    /// Publishes the dead letter with its reason, then acknowledges; else leaves it to the broker.
    async fn bury(
        &mut self,
        delivery: &Delivery,
        death: &Death,
        report: &mut Report,
    ) -> Result<(), String> {
        report.add("dead", 1);
        let Some(queue) = self.work.settings.dead_letter_queue.clone() else {
            return self.subscription.reject(delivery.tag, false).await;
        };
        let letter = self.dead_letter(delivery, death);
        match self.copier.send(&queue, letter).await {
            Ok(()) => self.subscription.ack(delivery.tag, false).await,
            Err(problem) => {
                report.problem = Some(format!(
                    "a dead letter could not be published with its reason ({problem}); it was \
                     rejected instead"
                ));
                self.subscription.reject(delivery.tag, false).await
            }
        }
    }

    fn dead_letter(&self, delivery: &Delivery, death: &Death) -> Message {
        let mut message = delivery.message.clone();
        let table = &mut message.properties.headers;
        let died_at = u64::try_from(self.clock.now().micros() / 1_000_000).unwrap_or_default();
        let texts = [
            (headers::FAILED_QUEUE, self.subscription.queue()),
            (headers::REASON, "rejected"),
            (headers::DEATH_ID, EventId::generate().as_str()),
            (headers::SOURCE_EXCHANGE, &delivery.exchange),
            (headers::SOURCE_ROUTING_KEY, &delivery.routing_key),
            (headers::ERROR_CLASS, text::cut_bytes(&death.class, 200)),
            (headers::ERROR_SUMMARY, text::cut_bytes(&death.error, 2000)),
            (headers::CONSUMER_VERSION, self.work.handler.version()),
        ]
        .map(|(name, value)| (name, FieldValue::text(value)));
        for (name, value) in texts {
            table.set(name, value);
        }
        table.set(headers::DIED_AT, FieldValue::Time(died_at));
        table.set(
            headers::RETRY_COUNT,
            FieldValue::I64(i64::from(death.attempts)),
        );
        message
    }
}

impl Work {
    /// Tries an event until it is over, at most the allowed number of times.
    async fn handle(&self, message: &Message, report: &mut Report) -> Handled {
        let mut event = match validate(message) {
            Ok(event) => event,
            Err(error) => {
                return Handled::Dead(Death {
                    class: format!("invalid: {error}"),
                    error: error.to_owned(),
                    attempts: 1,
                });
            }
        };
        loop {
            let error = match self.attempt(&event).await {
                Tried::Over(handled) => return handled,
                Tried::Again(error) => error,
            };
            if event.attempt >= self.settings.attempts_max {
                // A dead database must not turn a whole queue into dead letters.
                if let Err(away) = self.store.probe().await {
                    return Handled::Away(away.to_string());
                }
                return Handled::Dead(Death {
                    class: format!("gave up: {error}"),
                    error,
                    attempts: event.attempt,
                });
            }
            report.add("retried", 1);
            sleep(self.settings.backoff.delay(event.attempt)).await;
            event.attempt += 1;
        }
    }

    async fn attempt(&self, event: &Received) -> Tried {
        let mut tx = match self.store.begin().await {
            Ok(tx) => tx,
            Err(error) => return store_trouble(error, event.attempt),
        };
        let sha256 = event.message.payload.sha256();
        match tx.inbox_insert(&self.name, &event.event_id, &sha256).await {
            Ok(InboxInsert::First) => {}
            Ok(InboxInsert::Duplicate) => {
                roll_back(tx).await;
                return Tried::Over(Handled::Duplicate);
            }
            Ok(InboxInsert::Conflict { stored_sha256 }) => {
                roll_back(tx).await;
                return Tried::Over(Handled::Dead(Death {
                    class: "conflict: same id, other content".to_owned(),
                    error: format!(
                        "event {} was processed with payload sha256 {stored_sha256}, this one has \
                         {sha256}",
                        event.event_id
                    ),
                    attempts: event.attempt,
                }));
            }
            Err(error) => {
                roll_back(tx).await;
                return store_trouble(error, event.attempt);
            }
        }
        match self.call(event, tx.as_mut()).await {
            Outcome::Done => commit(tx, event.attempt, Handled::Done).await,
            Outcome::Rejected => commit(tx, event.attempt, Handled::Rejected).await,
            failed @ (Outcome::Transient(_) | Outcome::Permanent { .. } | Outcome::Away(_)) => {
                roll_back(tx).await;
                tried(failed, event.attempt)
            }
        }
    }

    /// The handler, with a time limit and its panics caught.
    async fn call(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        let work = AssertUnwindSafe(self.handler.handle(event, tx)).catch_unwind();
        match within("handler", self.settings.time_limit, work).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Outcome::Permanent {
                class: "panic".to_owned(),
                error: super::panic_text(panic.as_ref()),
            },
            Err(late) => Outcome::Transient(late.to_string()),
        }
    }
}

/// What every event must have before a transaction is opened for it.
fn validate(message: &Message) -> Result<Received, &'static str> {
    let event_id = event_id_of(message).ok_or("no message id")?;
    Ok(Received {
        event_id: EventId::new(event_id),
        event_type: message
            .properties
            .kind
            .clone()
            .filter(|kind| !kind.is_empty()),
        aggregate_id: aggregate_id_of(message),
        aggregate_version: aggregate_version_of(message),
        replays: replays_of(message),
        attempt: 1,
        message: message.clone(),
    })
}

/// What trouble with our own statements means for an event.
fn store_trouble(error: StoreError, attempts: u32) -> Tried {
    tried(Outcome::from(error), attempts)
}

/// What an outcome without a commit means for an event.
fn tried(outcome: Outcome, attempts: u32) -> Tried {
    match outcome {
        Outcome::Done => Tried::Over(Handled::Done),
        Outcome::Rejected => Tried::Over(Handled::Rejected),
        Outcome::Transient(error) => Tried::Again(error),
        Outcome::Permanent { class, error } => Tried::Over(Handled::Dead(Death {
            class,
            error,
            attempts,
        })),
        Outcome::Away(reason) => Tried::Over(Handled::Away(reason)),
    }
}

/// A commit without an answer may have happened: the message comes again and the inbox tells.
async fn commit(tx: Box<dyn BusinessTx>, attempts: u32, handled: Handled) -> Tried {
    match tx.commit().await {
        Ok(()) => Tried::Over(handled),
        Err(error) => store_trouble(error, attempts),
    }
}

/// A failed rollback needs no answer: a session that is dropped rolls back as well.
async fn roll_back(tx: Box<dyn BusinessTx>) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!(%error, "rollback was left to the database");
    }
}

#[async_trait]
impl Worker for Consumer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        report.is_idle = true;
        if let Err(problem) = self.pass(&mut report).await {
            report.problem = Some(problem);
        }
        report
    }

    async fn drain(&mut self) {
        self.subscription.close().await;
    }
}

#[cfg(test)]
mod tests;
