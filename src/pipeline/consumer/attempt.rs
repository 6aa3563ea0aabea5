//! One try of an event: a transaction with its inbox row, its place in the sequence and the handler's
//! effect, or none of them.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::time::sleep;

use super::blame::Step;
use super::event::{Outcome, Received};
use super::letter::{Arrived, Death};
use super::sequence::{Place, Sequence, sequence_of};
use super::work::Work;
use crate::base::deadline::within;
use crate::model::ids::AggregateId;
use crate::model::inbox::InboxInsert;
use crate::model::waiting::{NewWaiting, Parked};
use crate::pipeline::panic_text;
use crate::store::{BusinessTx, Guarded, StoreError};

/// Crash point: the handler's statements have run, nothing is committed.
pub const BEFORE_COMMIT: &str = "consumer.before_commit";
/// Crash point: effect and inbox row are committed, nothing is acknowledged.
pub const AFTER_COMMIT: &str = "consumer.after_commit";
/// Guard: a row that is in the inbox stops a second effect.
const GUARD_INBOX: &str = "guard.consumer_inbox";
/// Guard: a version is compared with the last one that was applied.
const GUARD_VERSION: &str = "guard.consumer_version";

/// What the tries of one event came to.
pub(super) enum Handled {
    /// Committed; the sequence it moved on, if it has one.
    Committed(&'static str, Option<AggregateId>),
    /// Parked until an earlier version has been applied.
    Parked,
    /// The inbox had it.
    Duplicate,
    /// To be tried again later.
    Later(String),
    /// To the dead-letter queue.
    Dead(Death),
    /// It can be neither done nor given up, and is not to blame: to be kept.
    Held(String),
    /// The database is away.
    Away(String),
}

/// What one try came to.
pub(super) enum Tried {
    Over(Handled),
    /// A lock was met: again at once.
    Again(String),
}

impl Work {
    /// Tries, again at once while only locks were met.
    pub(super) async fn try_now(&self, event: &Received, arrived: &Arrived) -> Handled {
        let mut tries = 1;
        loop {
            match self.attempt(event, arrived).await {
                Tried::Over(handled) => return handled,
                Tried::Again(error) if tries >= self.settings.lock_tries => {
                    return Handled::Later(error);
                }
                Tried::Again(_) => {
                    sleep(self.settings.backoff.delay(tries)).await;
                    tries += 1;
                }
            }
        }
    }

    async fn attempt(&self, event: &Received, arrived: &Arrived) -> Tried {
        let sequence = match sequence_of(self.handler.as_ref(), event) {
            Ok(sequence) => sequence,
            Err((class, error)) => return dead(event, class, error),
        };
        let mut tx = match self.store.begin().await {
            Ok(tx) => tx,
            Err(error) => return self.judge(error, Step::Begin, event).await,
        };
        let sha256 = event.message.payload.sha256();
        match tx.inbox_insert(&self.name, &event.event_id, &sha256).await {
            Ok(InboxInsert::First) => {}
            Ok(InboxInsert::Duplicate) if self.settings.crash_points.is_off(GUARD_INBOX) => {}
            Ok(InboxInsert::Duplicate) => {
                roll_back(tx).await;
                return Tried::Over(Handled::Duplicate);
            }
            Ok(InboxInsert::Conflict { stored_sha256 }) => {
                roll_back(tx).await;
                return conflict(event, "was processed", &stored_sha256);
            }
            Err(error) => {
                roll_back(tx).await;
                return self.judge(error, Step::Own, event).await;
            }
        }
        let place = match &sequence {
            None => Place::Next,
            Some(_) if self.settings.crash_points.is_off(GUARD_VERSION) => Place::Next,
            Some(sequence) => match self.take_place(sequence, event, tx.as_mut()).await {
                Ok(place) => place,
                Err(error) => {
                    roll_back(tx).await;
                    return self.judge(error, Step::Own, event).await;
                }
            },
        };
        match place {
            Place::Past => self.commit(tx, event, ("stale", None)).await,
            Place::Gap { .. } => {
                // No row may say "done" while it waits.
                roll_back(tx).await;
                match &sequence {
                    Some(sequence) => self.park(sequence, event, arrived).await,
                    None => Tried::Again("a gap without a sequence".to_owned()),
                }
            }
            Place::Next => {
                let outcome = self.call(event, tx.as_mut()).await;
                let moved = sequence
                    .filter(Sequence::has_successors)
                    .map(|sequence| sequence.aggregate_id);
                match outcome {
                    Outcome::Done => self.commit(tx, event, ("done", moved)).await,
                    Outcome::Rejected => self.commit(tx, event, ("rejected", moved)).await,
                    Outcome::Stale => self.commit(tx, event, ("stale", moved)).await,
                    failed => {
                        roll_back(tx).await;
                        self.failed(failed, event).await
                    }
                }
            }
        }
    }

    /// Decides where an event stands in its sequence, under the sequence's lock, and takes its place.
    async fn take_place(
        &self,
        sequence: &Sequence,
        event: &Received,
        tx: &mut dyn BusinessTx,
    ) -> Result<Place, StoreError> {
        let aggregate_id = &sequence.aggregate_id;
        let last = tx
            .lock_version(&self.name, aggregate_id, sequence.base())
            .await?;
        let place = sequence.place_after(last);
        if place == Place::Next {
            let moved = tx
                .set_version(&self.name, aggregate_id, last, sequence.version)
                .await?;
            if moved == Guarded::LostRace {
                return Err(StoreError::Contended {
                    service: self.name.to_string(),
                    operation: "set version",
                    detail: "the sequence moved under its lock".to_owned(),
                });
            }
        }
        if sequence.has_successors() && !matches!(place, Place::Gap { .. }) {
            // It may have been parked before it came again.
            tx.forget_waiting(&self.name, &event.event_id).await?;
        }
        Ok(place)
    }

    /// Parks an event, under the lock under which its predecessor will be applied: the gap cannot
    /// close unseen between the two.
    async fn park(&self, sequence: &Sequence, event: &Received, arrived: &Arrived) -> Tried {
        let mut tx = match self.store.begin().await {
            Ok(tx) => tx,
            Err(error) => return self.judge(error, Step::Begin, event).await,
        };
        let parked = async {
            let last = tx
                .lock_version(&self.name, &sequence.aggregate_id, sequence.base())
                .await?;
            let Place::Gap { missing, patience } = sequence.place_after(last) else {
                return Ok(None);
            };
            let waiting = NewWaiting {
                consumer: self.name.clone(),
                event_id: event.event_id.clone(),
                aggregate_id: sequence.aggregate_id.clone(),
                version: sequence.version,
                missing_version: missing,
                exchange: arrived.exchange.clone(),
                routing_key: arrived.routing_key.clone(),
                message: event.message.clone(),
                // The missing one may come, fail, and be tried again: it is waited for so long.
                patience: patience.saturating_add(self.settings.retry_span()),
            };
            tx.park(&waiting).await.map(Some)
        }
        .await;
        match parked {
            Ok(Some(Parked::Waiting | Parked::Again)) => match tx.commit().await {
                Ok(()) => Tried::Over(Handled::Parked),
                Err(error) => self.judge(error, Step::Own, event).await,
            },
            Ok(Some(Parked::Conflict { stored_sha256 })) => {
                roll_back(tx).await;
                conflict(event, "waits already", &stored_sha256)
            }
            Ok(None) => {
                roll_back(tx).await;
                Tried::Again("the gap has just closed".to_owned())
            }
            Err(error) => {
                roll_back(tx).await;
                self.judge(error, Step::Own, event).await
            }
        }
    }

    /// A commit without an answer may have happened: the message comes again and the inbox tells.
    async fn commit(
        &self,
        tx: Box<dyn BusinessTx>,
        event: &Received,
        (counter, moved): (&'static str, Option<AggregateId>),
    ) -> Tried {
        self.settings.crash_points.reach(BEFORE_COMMIT);
        match tx.commit().await {
            Ok(()) => {
                self.settings.crash_points.reach(AFTER_COMMIT);
                Tried::Over(Handled::Committed(counter, moved))
            }
            Err(error) => self.judge(error, Step::Own, event).await,
        }
    }

    /// What an outcome without a commit means for an event.
    async fn failed(&self, outcome: Outcome, event: &Received) -> Tried {
        match outcome {
            Outcome::Database(error) => self.judge(error, Step::Handler, event).await,
            Outcome::Away(reason) => self.nothing_works(reason).await,
            Outcome::Contended(error) => Tried::Again(error),
            Outcome::Transient(error) => Tried::Over(Handled::Later(error)),
            Outcome::Permanent { class, error } => dead(event, class, error),
            Outcome::Done | Outcome::Rejected | Outcome::Stale => {
                Tried::Again("a good outcome was not committed".to_owned())
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
                error: panic_text(panic.as_ref()),
            },
            Err(late) => Outcome::Transient(late.to_string()),
        }
    }
}

pub(super) fn dead(event: &Received, class: String, error: String) -> Tried {
    Tried::Over(Handled::Dead(Death {
        class,
        error,
        attempts: event.attempt,
    }))
}

fn conflict(event: &Received, what: &str, stored_sha256: &str) -> Tried {
    dead(
        event,
        "conflict: same id, other content".to_owned(),
        format!(
            "event {} {what} with payload sha256 {stored_sha256}, this one has {}",
            event.event_id,
            event.message.payload.sha256()
        ),
    )
}

/// A failed rollback needs no answer: a session that is dropped rolls back as well.
async fn roll_back(tx: Box<dyn BusinessTx>) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!(%error, "rollback was left to the database");
    }
}
