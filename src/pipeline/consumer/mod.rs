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
//! acknowledged; while that is not certain, the original is kept unacknowledged and tried again.
//! A retry is a copy in `<queue>.retry.<ms>`, confirmed before the original is acknowledged.
//! A database that is away is nobody's fault: messages are given back and nothing dies of it. One that
//! answers and refuses one event after the other is not the events' fault either: they are kept.
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
//! use redrive::pipeline::{self, Handlers, Program};
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
//!     let program = Program {
//!         handlers: Handlers::from([("inventory".into(), stock)]),
//!         ..Program::default()
//!     };
//!     let workers = pipeline::build(&services.ports, &["consumer".to_owned()], &program)?;
//!     drop(Supervisor::start(workers, tasks));
//!     Ok(())
//! }
//! ```

mod attempt;
mod blame;
mod event;
mod held;
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
use blame::Refusals;
use held::Held;
use lanes::{Job, Lanes, Tags};
use letter::Arrived;
use retry::RetryQueues;
use work::{Ended, Verdict, Work};

pub use attempt::{AFTER_COMMIT, BEFORE_COMMIT};
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
/// What a stop needs beyond the drain limit: the last acknowledgements and the channel's end.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);
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
    held: Held,
    sweep_at: Instant,
    is_sweeping: bool,
    /// What the last sweep found wrong; it stands until the next one.
    sweep_problem: Option<String>,
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
            held: Held::new(settings.backoff),
            sweep_at: Instant::now(),
            is_sweeping: false,
            sweep_problem: None,
            may_give_up_at: None,
            work: Arc::new(Work {
                name: inbox.consumer.clone(),
                queue: inbox.queue.clone(),
                store,
                handler,
                copier: Copier::new(Arc::clone(&broker)),
                retries: RetryQueues::new(
                    Arc::clone(&broker),
                    &inbox.queue,
                    &settings.retry_delays,
                ),
                broker,
                refusals: Refusals::default(),
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
            let has_room = self.tags.len() < usize::from(self.work.settings.prefetch);
            if self.running.is_empty() {
                tokio::select! {
                    biased;
                    Some(job) = self.held.due() => self.lanes.push(job),
                    delivery = self.subscription.next() => {
                        let Some(delivery) = delivery? else {
                            // With no room nothing can arrive: that says nothing about the queue.
                            if has_room {
                                self.has_caught_up();
                            }
                            return Ok(());
                        };
                        self.take(delivery, report).await?;
                    }
                }
                continue;
            }
            tokio::select! {
                biased;
                Some(ended) = self.running.next() => self.settle(ended, report).await?,
                Some(job) = self.held.due() => self.lanes.push(job),
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
        self.forget();
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
            // What is kept may be what others wait for.
            let may_give_up =
                self.held.is_empty() && self.may_give_up_at.is_some_and(|at| Instant::now() >= at);
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
                Err(self.give_back(&reason).await)
            }
        }
    }

    /// Takes note of an end; the reason when the database is away.
    async fn note(&mut self, ended: Ended, report: &mut Report) -> Result<Option<String>, String> {
        for (counter, n) in ended.tally.counts {
            report.is_idle = false;
            report.add(counter, n);
        }
        if let Some(lane) = ended.lane {
            self.lanes.free(lane);
            if ended.tally.problem.is_some() {
                report.problem = ended.tally.problem;
            }
        } else {
            self.sweep_problem = ended.tally.problem;
            self.is_sweeping = false;
            self.sweep_at = Instant::now() + SWEEP;
        }
        for aggregate_id in ended.ready {
            self.lanes.push(Job::Waiting(aggregate_id));
        }
        match (ended.verdict, ended.tag) {
            (Verdict::Settled, Some(tag)) => {
                self.held.over(tag);
                self.tags.done(tag);
            }
            (Verdict::Refused, Some(tag)) => {
                self.held.over(tag);
                self.tags.refused(tag);
                self.subscription.reject(tag, false).await?;
                report.add("dead", 1);
            }
            (Verdict::Held(why), Some(tag)) => {
                report.add("held", u64::from(!self.held.has(tag)));
                let Some(arrived) = ended.kept else {
                    return Ok(Some(why));
                };
                if !self.held.keep(tag, arrived, why.clone()) {
                    return Ok(Some(why));
                }
            }
            (Verdict::Settled | Verdict::Refused | Verdict::Held(_), None) => {}
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
    /// its own time limit. The reason when the database went away meanwhile: nobody works on those
    /// events any more, so they have to be given back.
    async fn finish(&mut self, report: &mut Report) -> Option<String> {
        let mut away = None;
        while let Some(ended) = self.running.next().await {
            match self.note(ended, report).await {
                Ok(also) => away = away.or(also),
                // The subscription was lost: there is nothing left to give back.
                Err(problem) => tracing::debug!(problem, "while finishing"),
            }
        }
        away
    }

    /// Gives back what is not settled; why, for the report.
    async fn give_back(&mut self, reason: &str) -> String {
        self.subscription.give_back(reason).await;
        self.forget();
        self.subscription.describe()
    }

    /// The subscription is gone, and with it its tags and what was not begun: it all comes again.
    fn forget(&mut self) {
        self.lanes.clear();
        self.tags.clear();
        self.held.clear();
    }

    /// Trouble that lasts while the rest is worked on.
    fn standing_problem(&self) -> Option<String> {
        self.held.problem().or_else(|| self.sweep_problem.clone())
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
            self.forget();
            report.problem = Some(problem);
        } else if report.problem.is_some() {
            // The loop pauses after a problem; nothing may be left half done meanwhile.
            let away = self.finish(&mut report).await;
            if let Err(problem) = self.acknowledge().await {
                report.problem = Some(problem);
            }
            if let Some(reason) = away {
                report.problem = Some(self.give_back(&reason).await);
            }
        }
        report.is_idle &= self.running.is_empty();
        if report.problem.is_none() {
            report.problem = self.standing_problem();
            // It has its own pace: the good events are not to wait for it.
            report.is_idle |= report.problem.is_some();
        }
        report
    }

    fn try_again(&mut self) {
        self.subscription.try_again();
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
        self.forget();
        self.subscription.close().await;
    }

    fn drain_limit(&self) -> Duration {
        self.work.settings.drain_limit.saturating_add(DRAIN_MARGIN)
    }
}

#[cfg(test)]
mod tests;
