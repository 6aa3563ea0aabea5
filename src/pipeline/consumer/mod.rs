//! The consumer runtime: what a Rust service calls to consume a queue with a once-only effect.
//!
//! ```text
//! validate ─▶ begin ─▶ inbox row ─▶ place in the sequence ─▶ handler: effect, outgoing events ─▶ commit ─▶ ack
//!    │                   │ duplicate:     │ past: commit, ack        │ lock: roll back, again at once
//!    │                   │ roll back, ack │ gap: roll back, park,    │ transient: roll back, copy to a retry queue, ack
//!    │                   │ other content: │ ack                      │ permanent, panic: roll back, dead letter
//!    └ invalid: dead     └ dead letter                              └ rejected: its result event commits too
//! ```
//!
//! A dead letter is published to the DLQ with its reason and a confirm before the original is
//! acknowledged; when that is not certain, the original is rejected and the broker dead-letters it.
//! A retry is a copy in `<queue>.retry.<ms>`, confirmed before the original is acknowledged.
//! A database that is away is nobody's fault: messages are given back and nothing dies of it.
//!
//! Events are handled in lanes: one aggregate's in one lane, one after the other. A pass does not wait
//! for a slow one; what it began goes on in the next pass.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use redrive::assembly::Services;
//! use redrive::base::tasks::Tasks;
//! use redrive::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
//! use redrive::pipeline::supervisor::Supervisor;
//! use redrive::pipeline::{self, Handlers};
//! use redrive::store::{BusinessTx, Value};
//!
//! struct Stock;
//!
//! const RESERVE: &str = "UPDATE orders SET state = 'reserved' WHERE order_no = ? AND state = 'new'";
//!
//! #[async_trait]
//! impl Handler for Stock {
//!     async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
//!         let (Some("order.created"), Some(order)) = (event.event_type.as_deref(), &event.aggregate_id)
//!         else {
//!             return Outcome::Permanent {
//!                 class: "unknown event".to_owned(),
//!                 error: format!("no handler for {:?}", event.event_type),
//!             };
//!         };
//!         // Everything goes through `tx`: it commits with the inbox row, or not at all.
//!         match tx.execute(RESERVE, &[Value::Text(order.to_string())]).await {
//!             Ok(rows) => Outcome::of_transition(rows),
//!             Err(error) => error.into(),
//!         }
//!     }
//!
//!     fn policy(&self, _event: &Received) -> VersionPolicy {
//!         VersionPolicy::increment()
//!     }
//! }
//!
//! /// Consumes until `tasks` is stopped; `services` is a context opened from its file.
//! fn start(services: &Services, tasks: &Tasks) -> Result<(), String> {
//!     let stock: Arc<dyn Handler> = Arc::new(Stock);
//!     let handlers = Handlers::from([("inventory".into(), stock)]);
//!     let workers = pipeline::build(&services.ports, &["consumer".to_owned()], &handlers)?;
//!     drop(Supervisor::start(workers, tasks));
//!     Ok(())
//! }
//! ```

mod attempt;
mod event;
mod lanes;
mod letter;
mod retry;
mod sequence;
mod settings;
mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until, timeout};

use super::copy::Copier;
use super::subscription::Subscription;
use super::{Report, Worker};
use crate::base::clock::Clock;
use crate::broker::{Broker, Delivery};
use crate::config::Service;
use crate::store::Store;
use lanes::{Job, Lanes, Tags};
use letter::Arrived;
use retry::RetryQueues;
use work::{Ended, Verdict, Work};

pub use event::{Handler, Outcome, Received, VersionPolicy};
pub use settings::ConsumerSettings;

/// Registered name.
pub const NAME: &str = "consumer";

/// Guard: an acknowledgement comes after the commit.
const GUARD_ACK_ORDER: &str = "guard.consumer_ack_order";

/// How long a pass reads before it reports.
const PASS: Duration = Duration::from_secs(1);
/// Between looks at the events that wait for an earlier one.
const SWEEP: Duration = Duration::from_secs(5);
/// How long a queue that never runs empty is read before waiting events are given up: the missing one may
/// be in it.
const CATCH_UP: Duration = Duration::from_mins(1);
/// Acknowledgements gathered at most before they are sent.
const ACKS_MAX: usize = 64;

/// Consumes one queue for one inbox.
pub struct Consumer {
    service: String,
    work: Arc<Work>,
    subscription: Subscription,
    lanes: Lanes,
    tags: Tags,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    sweep_at: Instant,
    is_sweeping: bool,
    /// When waiting events may be given up: once what is in the queue has been read.
    may_give_up_at: Option<Instant>,
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
        // SQLite has one writer at a time: a second lane would only wait for the first.
        let lanes = if store.facts().product == "sqlite" {
            1
        } else {
            settings.lanes
        };
        Some(Self {
            service: service.name.clone(),
            subscription: Subscription::new(
                &inbox.queue,
                settings.prefetch,
                Arc::clone(&broker),
                clock.clone(),
            ),
            lanes: Lanes::new(lanes),
            tags: Tags::default(),
            running: FuturesUnordered::new(),
            sweep_at: Instant::now(),
            is_sweeping: false,
            may_give_up_at: None,
            work: Arc::new(Work {
                name: inbox.consumer.clone(),
                queue: inbox.queue.clone(),
                store,
                handler,
                copier: Copier::new(Arc::clone(&broker)),
                retries: RetryQueues::new(broker, &inbox.queue, &settings.retry_delays),
                settings,
                clock: clock.clone(),
            }),
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
        if self.subscription.open().await? {
            self.begin_again(report).await;
        }
        let until = Instant::now() + PASS;
        loop {
            self.start_jobs();
            if Instant::now() >= until {
                return Ok(());
            }
            if self.running.is_empty() {
                let Some(delivery) = self.subscription.next().await? else {
                    self.has_caught_up();
                    return Ok(());
                };
                self.take(delivery, report).await?;
                continue;
            }
            let has_room = self.tags.len() < usize::from(self.work.settings.prefetch);
            tokio::select! {
                biased;
                Some(ended) = self.running.next() => self.settle(ended, report).await?,
                delivery = self.subscription.arrive(), if has_room => {
                    let delivery = delivery?;
                    self.take(delivery, report).await?;
                }
                () = sleep_until(until) => {}
            }
        }
    }

    /// A fresh subscription: its tags begin anew, and its retry queues must be there.
    async fn begin_again(&mut self, report: &mut Report) {
        self.lanes.clear();
        self.tags.clear();
        self.may_give_up_at = Some(Instant::now() + CATCH_UP);
        if let Err(problem) = self.work.retries.declare().await {
            report.problem = Some(format!(
                "{problem}; until it can be used, failed events are tried again in this process"
            ));
        }
    }

    /// The queue ran empty: what was missing is not in it.
    fn has_caught_up(&mut self) {
        let now = Instant::now();
        if self.may_give_up_at.is_some_and(|at| at > now) {
            self.may_give_up_at = Some(now);
            self.sweep_at = now;
        }
    }

    async fn take(&mut self, delivery: Delivery, report: &mut Report) -> Result<(), String> {
        report.is_idle = false;
        if self.work.settings.crash_points.is_off(GUARD_ACK_ORDER) {
            self.subscription.ack(delivery.tag, false).await?;
        } else {
            self.tags.taken(delivery.tag);
        }
        self.lanes.push(Job::Delivery {
            tag: delivery.tag,
            arrived: Box::new(Arrived {
                message: delivery.message,
                exchange: delivery.exchange,
                routing_key: delivery.routing_key,
            }),
        });
        Ok(())
    }

    fn start_jobs(&mut self) {
        while let Some((lane, job)) = self.lanes.start() {
            let work = Arc::clone(&self.work);
            self.running.push(work.run(lane, job).boxed());
        }
        if !self.is_sweeping && Instant::now() >= self.sweep_at {
            self.is_sweeping = true;
            let may_give_up = self.may_give_up_at.is_some_and(|at| Instant::now() >= at);
            let work = Arc::clone(&self.work);
            self.running.push(work.sweep(may_give_up).boxed());
        }
    }

    /// Settles a job, and all others that have ended by now, with as few acknowledgements as possible.
    async fn settle(&mut self, ended: Ended, report: &mut Report) -> Result<(), String> {
        let mut away = self.note(ended, report).await?;
        for _ in 1..ACKS_MAX {
            // More of the same lane's work can begin while the others are counted.
            match self.running.next().now_or_never().flatten() {
                Some(ended) => {
                    let also = self.note(ended, report).await?;
                    away = away.or(also);
                }
                None => break,
            }
        }
        self.acknowledge().await?;
        match away {
            None => Ok(()),
            Some(reason) => {
                self.lanes.clear();
                self.finish(report).await;
                self.acknowledge().await?;
                self.subscription.give_back(&reason).await;
                Err(self.subscription.describe())
            }
        }
    }

    /// Takes note of an end; the reason when the database is away.
    async fn note(&mut self, ended: Ended, report: &mut Report) -> Result<Option<String>, String> {
        for (counter, n) in ended.tally.counts {
            report.is_idle = false;
            report.add(counter, n);
        }
        if ended.tally.problem.is_some() {
            report.problem = ended.tally.problem;
        }
        if let Some(lane) = ended.lane {
            self.lanes.free(lane);
        } else {
            self.is_sweeping = false;
            self.sweep_at = Instant::now() + SWEEP;
        }
        for event in ended.ready {
            self.lanes.push(Job::Waiting(Box::new(event)));
        }
        match (ended.verdict, ended.tag) {
            (Verdict::Settled, Some(tag)) => self.tags.done(tag),
            (Verdict::Refused, Some(tag)) => {
                self.tags.refused(tag);
                self.subscription.reject(tag, false).await?;
            }
            (Verdict::Settled | Verdict::Refused, None) => {}
            (Verdict::Away(reason), _) => return Ok(Some(reason)),
        }
        Ok(None)
    }

    async fn acknowledge(&mut self) -> Result<(), String> {
        for (tag, up_to) in self.tags.flush() {
            self.subscription.ack(tag, up_to).await?;
        }
        Ok(())
    }

    /// Waits for what is being handled: nothing may hold a transaction while nobody drives it. Each has
    /// its own time limit.
    async fn finish(&mut self, report: &mut Report) {
        while let Some(ended) = self.running.next().await {
            match self.note(ended, report).await {
                Ok(None) => {}
                Ok(Some(problem)) | Err(problem) => {
                    tracing::debug!(problem, "while finishing");
                }
            }
        }
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
        let passed = self.pass(&mut report).await;
        if let Err(problem) = passed {
            // The subscription is gone: what is committed now is found by the inbox when it comes again.
            self.lanes.clear();
            self.finish(&mut report).await;
            self.tags.clear();
            report.problem = Some(problem);
        } else if report.problem.is_some() {
            // The loop pauses after a problem; nothing may be left half done meanwhile.
            self.finish(&mut report).await;
            if let Err(problem) = self.acknowledge().await {
                report.problem = Some(problem);
            }
        }
        report.is_idle &= self.running.is_empty();
        report
    }

    async fn drain(&mut self) {
        self.lanes.clear();
        let limit = self.work.settings.drain_limit;
        let mut report = Report::new(NAME, &self.service);
        if timeout(limit, self.finish(&mut report)).await.is_err() {
            tracing::warn!(
                worker.name = NAME,
                service = self.service,
                left = self.running.len(),
                "stopped while events were being handled: they are rolled back and given back"
            );
        }
        if let Err(problem) = self.acknowledge().await {
            tracing::warn!(problem, "the last acknowledgements were not sent");
        }
        self.running.clear();
        self.tags.clear();
        self.subscription.close().await;
    }
}

#[cfg(test)]
mod tests;
