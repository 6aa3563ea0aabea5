//! What becomes of one event: tries, the inbox, the sequence, and where it goes when it fails. Runs apart
//! from the subscription, so that a slow event holds nothing but its own lane.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::super::copy::Copier;
use super::attempt::Handled;
use super::blame::Refusals;
use super::event::{Handler, Received, validate};
use super::lanes::Job;
use super::letter::{Arrived, Death};
use super::retry::RetryQueues;
use super::settings::ConsumerSettings;
use crate::base::clock::Clock;
use crate::broker::{Broker, BrokerResult};
use crate::model::ids::{AggregateId, ConsumerName};
use crate::model::waiting::{WaitingEvent, WaitingFound};
use crate::pipeline::panic_text;
use crate::store::{Guarded, Store, StoreError};

/// Successors consumed after one event; the sweep goes on with the rest.
const SUCCESSORS_MAX: usize = 100;
/// Waiting events a sweep takes up of each kind.
const SWEEP_MAX: u32 = 16;

/// What is done with one event, apart from where it came from.
pub(super) struct Work {
    pub name: ConsumerName,
    pub queue: String,
    pub store: Arc<dyn Store>,
    pub handler: Arc<dyn Handler>,
    pub settings: ConsumerSettings,
    pub copier: Copier,
    pub retries: RetryQueues,
    pub broker: Arc<dyn Broker>,
    pub refusals: Refusals,
    pub clock: Clock,
}

/// What a job came to.
pub(super) struct Ended {
    pub lane: Option<usize>,
    pub tag: Option<u64>,
    pub verdict: Verdict,
    pub tally: Tally,
    /// The delivery that is kept.
    pub kept: Option<Box<Arrived>>,
    /// Parked events whose turn has come, found by a sweep.
    pub ready: Vec<AggregateId>,
}

/// What the subscription has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Committed, or a confirmed copy is where it belongs: acknowledge.
    Settled,
    /// The broker has to keep it: reject into the dead-letter exchange.
    Refused,
    /// It is safe nowhere else and not to blame: keep it unacknowledged, try it again.
    Held(String),
    /// The database is away: give everything back.
    Away(String),
}

/// Counters and trouble of one job.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub counts: Vec<(&'static str, u64)>,
    pub problem: Option<String>,
}

impl Tally {
    pub(super) fn add(&mut self, counter: &'static str) {
        self.counts.push((counter, 1));
    }

    /// Keeps the first trouble: what follows is often its consequence.
    fn tell(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// One event's end.
struct End {
    verdict: Verdict,
    /// A sequence that moved on.
    moved: Option<AggregateId>,
    /// True when a parked event's row is gone, or must stay.
    is_row_settled: bool,
}

impl End {
    fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            moved: None,
            is_row_settled: false,
        }
    }
}

impl Work {
    /// Does one job and, when it moved a sequence on, what waited behind it.
    pub(super) async fn run(self: Arc<Self>, lane: usize, job: Job) -> Ended {
        let mut tally = Tally::default();
        let tag = match &job {
            Job::Delivery { tag, .. } => Some(*tag),
            Job::Waiting(_) => None,
        };
        let work = async {
            match &job {
                Job::Delivery { arrived, .. } => {
                    let end = self.one(arrived, &mut tally).await;
                    if let Some(aggregate_id) = &end.moved {
                        self.successors(aggregate_id, &mut tally).await;
                    }
                    end.verdict
                }
                Job::Waiting(aggregate_id) => {
                    self.successors(aggregate_id, &mut tally).await;
                    Verdict::Settled
                }
            }
        };
        // The handler's panics are caught further in: this one would be ours, and must not cost a lane.
        let verdict = match AssertUnwindSafe(work).catch_unwind().await {
            Ok(verdict) => verdict,
            Err(panic) => Verdict::Held(format!("panicked: {}", panic_text(panic.as_ref()))),
        };
        let kept = match job {
            Job::Delivery { arrived, .. } if matches!(verdict, Verdict::Held(_)) => Some(arrived),
            Job::Delivery { .. } | Job::Waiting(_) => None,
        };
        Ended {
            lane: Some(lane),
            tag,
            verdict,
            tally,
            kept,
            ready: Vec::new(),
        }
    }

    /// Sequences with parked events that became ready, left behind by a worker that died after a commit, one
    /// entry for each event; and, with `may_give_up`, those whose deadline is over become dead letters.
    pub(super) async fn sweep(self: Arc<Self>, may_give_up: bool) -> Ended {
        let mut tally = Tally::default();
        let look = AssertUnwindSafe(self.look_at_waiting(may_give_up, &mut tally));
        let ready = match look.catch_unwind().await {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => {
                tally.tell(format!("waiting events could not be looked at: {error}"));
                Vec::new()
            }
            Err(panic) => {
                tally.tell(format!("panicked: {}", panic_text(panic.as_ref())));
                Vec::new()
            }
        };
        Ended {
            lane: None,
            tag: None,
            verdict: Verdict::Settled,
            tally,
            kept: None,
            ready,
        }
    }

    async fn look_at_waiting(
        &self,
        may_give_up: bool,
        tally: &mut Tally,
    ) -> Result<Vec<AggregateId>, StoreError> {
        let summary = self.store.waiting_summary().await?;
        if summary.is_none_or(|waiting| waiting.count.is_zero()) {
            return Ok(Vec::new());
        }
        if may_give_up && let Err(error) = self.give_up_overdue(tally).await {
            // Those whose turn has come have nothing to do with it.
            tally.tell(format!("overdue events could not be given up: {error}"));
        }
        let found = self.store.ready_waiting(&self.name, SWEEP_MAX).await?;
        let events = readable(found, tally).into_iter();
        Ok(events.map(|event| event.aggregate_id).collect())
    }

    /// Gives up one after the other: each is taken, under a lease that outlives its publish, only when
    /// the one before is gone. The first that cannot be published ends it, and so does time: a stop
    /// waits for this.
    async fn give_up_overdue(&self, tally: &mut Tally) -> Result<(), StoreError> {
        const LEASE: Duration = Duration::from_mins(1);
        const AT_MOST: Duration = Duration::from_secs(3);
        let until = Instant::now() + AT_MOST;
        for _ in 0..SWEEP_MAX {
            let found = self.store.take_overdue(&self.name, 1, LEASE).await?;
            if found.is_empty() {
                break;
            }
            for event in readable(found, tally) {
                if !self.give_up(&event, tally).await? {
                    return Ok(());
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// The dead letter of an event whose time is over; its row goes once the copy is confirmed.
    /// `false` when none could be published.
    async fn give_up(&self, event: &WaitingEvent, tally: &mut Tally) -> Result<bool, StoreError> {
        let missing = event.missing_version;
        let death = Death {
            class: format!("version gap: waiting for v{missing}"),
            error: format!(
                "version gap: v{} of {} is waiting for v{missing} since {}, last tried {}",
                event.version,
                event.aggregate_id,
                event.parked_at.to_rfc3339(),
                event.attempted_at.to_rfc3339(),
            ),
            attempts: u32::try_from(event.attempts).unwrap_or(u32::MAX),
        };
        let end = self.bury(&arrived_of(event), &death, tally).await;
        let why = match end.verdict {
            Verdict::Settled => {
                self.remove(event).await?;
                return Ok(true);
            }
            Verdict::Refused => "the service has no dead-letter queue".to_owned(),
            Verdict::Held(why) | Verdict::Away(why) => why,
        };
        tally.tell(format!("{}: it stays parked: {why}", death.error));
        Ok(false)
    }

    /// Consumes what waited behind `aggregate_id`'s last version, in order.
    async fn successors(&self, aggregate_id: &AggregateId, tally: &mut Tally) {
        for _ in 0..SUCCESSORS_MAX {
            match self.store.next_waiting(&self.name, aggregate_id).await {
                Ok(Some(event)) => {
                    if !self.waiting(&event, tally).await {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // Nothing is lost: the sweep finds them.
                    tally.problem = Some(format!("successors could not be read: {error}"));
                    return;
                }
            }
        }
    }

    /// Consumes one parked event; `true` when the next may follow.
    async fn waiting(&self, event: &WaitingEvent, tally: &mut Tally) -> bool {
        let end = self.one(&arrived_of(event), tally).await;
        match &end.verdict {
            Verdict::Settled => {}
            Verdict::Refused => {
                tally.problem = Some(format!(
                    "event {} stays parked: the service has no dead-letter queue",
                    event.event_id
                ));
                return false;
            }
            Verdict::Held(why) => {
                tally.problem = Some(format!("event {} stays parked: {why}", event.event_id));
                return false;
            }
            Verdict::Away(reason) => {
                tally.problem = Some(reason.clone());
                return false;
            }
        }
        if !end.is_row_settled
            && let Err(error) = self.remove(event).await
        {
            // Its copy went on, or the inbox has it: tried again, it is a duplicate.
            tally.problem = Some(error.to_string());
            return false;
        }
        end.moved.is_some()
    }

    async fn remove(&self, event: &WaitingEvent) -> Result<(), StoreError> {
        let removed = self
            .store
            .remove_waiting(&self.name, &event.event_id, event.attempts)
            .await?;
        if removed == Guarded::LostRace {
            tracing::debug!(event.id = %event.event_id, "the waiting event had moved on already");
        }
        Ok(())
    }

    /// Tries an event, and sends it where it has to go.
    async fn one(&self, arrived: &Arrived, tally: &mut Tally) -> End {
        let mut event = match validate(&arrived.message) {
            Ok(event) => event,
            Err(error) => {
                let death = Death {
                    class: format!("invalid: {error}"),
                    error: error.to_owned(),
                    attempts: 1,
                };
                return self.bury(arrived, &death, tally).await;
            }
        };
        loop {
            match self.try_now(&event, arrived).await {
                Handled::Committed(counter, moved) => {
                    self.refusals.clear();
                    tally.add(counter);
                    return End {
                        verdict: Verdict::Settled,
                        moved,
                        is_row_settled: true,
                    };
                }
                Handled::Parked => {
                    tally.add("parked");
                    return End {
                        is_row_settled: true,
                        ..End::of(Verdict::Settled)
                    };
                }
                Handled::Duplicate => {
                    tally.add("duplicates");
                    return End::of(Verdict::Settled);
                }
                Handled::Dead(death) => return self.bury(arrived, &death, tally).await,
                Handled::Held(why) => return End::of(Verdict::Held(why)),
                Handled::Away(reason) => return End::of(Verdict::Away(reason)),
                Handled::Later(error) => {
                    if let Some(end) = self.later(&event, arrived, error, tally).await {
                        return end;
                    }
                    event.attempt += 1;
                }
            }
        }
    }

    /// The next try, later: in a retry queue; `None` when that cannot be used and the event has to be
    /// tried again here.
    async fn later(
        &self,
        event: &Received,
        arrived: &Arrived,
        error: String,
        tally: &mut Tally,
    ) -> Option<End> {
        let Some(delay) = self.settings.delay_after(event.attempt) else {
            // A dead database must not turn a whole queue into dead letters.
            if let Err(away) = self.store.probe().await {
                return Some(End::of(Verdict::Away(away.to_string())));
            }
            let death = Death {
                class: format!("gave up: {error}"),
                error,
                attempts: event.attempt,
            };
            return Some(self.bury(arrived, &death, tally).await);
        };
        tally.add("retried");
        let copy = arrived.retry(event.attempt, &error);
        match self.retries.send(&self.copier, delay, copy).await {
            Ok(()) => Some(End::of(Verdict::Settled)),
            Err(problem) => {
                tally.problem = Some(format!(
                    "event {} is tried again here instead of in a retry queue: {problem}",
                    event.event_id
                ));
                sleep(self.settings.backoff.delay(event.attempt).min(delay)).await;
                None
            }
        }
    }

    /// Publishes the dead letter with its reason. While that is not certain the event is kept: the
    /// broker's own dead-lettering is at most once, and into the same full or missing queue.
    async fn bury(&self, arrived: &Arrived, death: &Death, tally: &mut Tally) -> End {
        let Some(queue) = &self.settings.dead_letter_queue else {
            return End::of(self.leave_to_broker().await);
        };
        let died_at = u64::try_from(self.clock.now().micros() / 1_000_000).unwrap_or_default();
        let version = self.handler.version();
        let letter = arrived.dead_letter(&self.queue, death, version, died_at);
        match self.copier.send(queue, letter).await {
            Ok(()) => {
                tally.add("dead");
                End::of(Verdict::Settled)
            }
            Err(fault) => End::of(Verdict::Held(format!(
                "a dead letter cannot be published ({fault}): create {queue} or make room in it"
            ))),
        }
    }

    /// Without a dead-letter queue of ours an event may be rejected only where the broker has one.
    async fn leave_to_broker(&self) -> Verdict {
        let problem = match self.has_dead_letter_target().await {
            Ok(true) => return Verdict::Refused,
            Ok(false) => "it has nowhere to dead-letter to".to_owned(),
            Err(error) => format!("it is not known whether it dead-letters ({error})"),
        };
        Verdict::Held(format!(
            "a failed event of {} would be lost, since {problem}: set dead_letters for the service",
            self.queue
        ))
    }

    async fn has_dead_letter_target(&self) -> BrokerResult<bool> {
        let facts = self.broker.queue(&self.queue).await?;
        let Some((facts, exchange)) = facts.and_then(|facts| {
            let exchange = facts.dead_letter_exchange.clone()?;
            Some((facts, exchange))
        }) else {
            return Ok(false);
        };
        if !exchange.is_empty() {
            return Ok(!self.broker.bindings(&exchange).await?.is_empty());
        }
        match facts.dead_letter_routing_key {
            Some(queue) => Ok(self.broker.depth(&queue).await?.is_some()),
            None => Ok(false),
        }
    }
}

/// What can be read of waiting events; the rest is told and stays where it is.
fn readable(found: WaitingFound, tally: &mut Tally) -> Vec<WaitingEvent> {
    if let Some((event_id, problem)) = found.unreadable.first() {
        tally.tell(format!(
            "{} rows of waiting_events cannot be read and stay; the first is {event_id}: {problem}: \
             correct or delete it",
            found.unreadable.len()
        ));
    }
    found.events
}

fn arrived_of(event: &WaitingEvent) -> Arrived {
    Arrived {
        message: event.message.clone(),
        exchange: event.exchange.clone(),
        routing_key: event.routing_key.clone(),
    }
}
