//! What becomes of one event: tries, the inbox, the sequence, and where it goes when it fails. Runs apart
//! from the subscription, so that a slow event holds nothing but its own lane.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::sleep;

use super::super::copy::Copier;
use super::attempt::Handled;
use super::event::{Handler, Received, validate};
use super::lanes::Job;
use super::letter::{Arrived, Death};
use super::retry::RetryQueues;
use super::settings::ConsumerSettings;
use crate::base::clock::Clock;
use crate::model::ids::{AggregateId, ConsumerName};
use crate::model::waiting::WaitingEvent;
use crate::pipeline::panic_text;
use crate::store::{Guarded, Store, StoreError};

/// Successors consumed after one event; the sweep goes on with the rest.
const SUCCESSORS_MAX: usize = 100;

/// What is done with one event, apart from where it came from.
pub(super) struct Work {
    pub name: ConsumerName,
    pub queue: String,
    pub store: Arc<dyn Store>,
    pub handler: Arc<dyn Handler>,
    pub settings: ConsumerSettings,
    pub copier: Copier,
    pub retries: RetryQueues,
    pub clock: Clock,
}

/// What a job came to.
pub(super) struct Ended {
    pub lane: Option<usize>,
    pub tag: Option<u64>,
    pub verdict: Verdict,
    pub tally: Tally,
    /// Parked events whose turn has come, found by a sweep.
    pub ready: Vec<WaitingEvent>,
}

/// What the subscription has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Committed, or a confirmed copy is where it belongs: acknowledge.
    Settled,
    /// The broker has to keep it: reject into the dead-letter exchange.
    Refused,
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
            match job {
                Job::Delivery { arrived, .. } => {
                    let end = self.one(&arrived, &mut tally).await;
                    if let Some(aggregate_id) = &end.moved {
                        self.successors(aggregate_id, &mut tally).await;
                    }
                    end.verdict
                }
                Job::Waiting(event) => {
                    let aggregate_id = event.aggregate_id.clone();
                    if self.waiting(&event, &mut tally).await {
                        self.successors(&aggregate_id, &mut tally).await;
                    }
                    Verdict::Settled
                }
            }
        };
        // The handler's panics are caught further in: this one would be ours, and must not cost a lane.
        let verdict = match AssertUnwindSafe(work).catch_unwind().await {
            Ok(verdict) => verdict,
            Err(panic) => Verdict::Away(format!("panicked: {}", panic_text(panic.as_ref()))),
        };
        Ended {
            lane: Some(lane),
            tag,
            verdict,
            tally,
            ready: Vec::new(),
        }
    }

    /// Parked events that became ready, left behind by a worker that died after a commit; and, with
    /// `may_give_up`, those whose deadline is over become dead letters.
    pub(super) async fn sweep(self: Arc<Self>, may_give_up: bool) -> Ended {
        let mut tally = Tally::default();
        let ready = match self.look_at_waiting(may_give_up, &mut tally).await {
            Ok(ready) => ready,
            Err(error) => {
                tally.problem = Some(format!("waiting events could not be looked at: {error}"));
                Vec::new()
            }
        };
        Ended {
            lane: None,
            tag: None,
            verdict: Verdict::Settled,
            tally,
            ready,
        }
    }

    async fn look_at_waiting(
        &self,
        may_give_up: bool,
        tally: &mut Tally,
    ) -> Result<Vec<WaitingEvent>, StoreError> {
        const BATCH: u32 = 16;
        const LEASE: Duration = Duration::from_mins(1);
        let summary = self.store.waiting_summary().await?;
        if summary.is_none_or(|waiting| waiting.count.is_zero()) {
            return Ok(Vec::new());
        }
        if may_give_up {
            for event in self.store.take_overdue(&self.name, BATCH, LEASE).await? {
                self.give_up(&event, tally).await?;
            }
        }
        self.store.ready_waiting(&self.name, BATCH).await
    }

    /// The dead letter of an event whose time is over; its row goes once the copy is confirmed.
    async fn give_up(&self, event: &WaitingEvent, tally: &mut Tally) -> Result<(), StoreError> {
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
        if end.verdict == Verdict::Settled {
            self.remove(event).await?;
        } else {
            tally.problem = Some(format!(
                "{}: it stays parked, since no dead letter could be published: {}",
                death.error,
                tally.problem.as_deref().unwrap_or("no dead-letter queue"),
            ));
        }
        Ok(())
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
                    "event {} stays parked: {}",
                    event.event_id,
                    tally.problem.as_deref().unwrap_or("no dead-letter queue")
                ));
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

    /// Publishes the dead letter with its reason; else leaves it to the broker.
    async fn bury(&self, arrived: &Arrived, death: &Death, tally: &mut Tally) -> End {
        tally.add("dead");
        let Some(queue) = &self.settings.dead_letter_queue else {
            return End::of(Verdict::Refused);
        };
        let died_at = u64::try_from(self.clock.now().micros() / 1_000_000).unwrap_or_default();
        let version = self.handler.version();
        let letter = arrived.dead_letter(&self.queue, death, version, died_at);
        match self.copier.send(queue, letter).await {
            Ok(()) => End::of(Verdict::Settled),
            Err(problem) => {
                tally.problem = Some(format!(
                    "a dead letter could not be published with its reason ({problem}); it was \
                     rejected instead"
                ));
                End::of(Verdict::Refused)
            }
        }
    }
}

fn arrived_of(event: &WaitingEvent) -> Arrived {
    Arrived {
        message: event.message.clone(),
        exchange: event.exchange.clone(),
        routing_key: event.routing_key.clone(),
    }
}
