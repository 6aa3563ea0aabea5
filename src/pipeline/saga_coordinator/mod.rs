//! The saga coordinator: moves sagas on by their timers, asks about unknown outcomes, and goes on from
//! the rows after a restart.
//!
//! ```text
//! claim due sagas ─▶ time-outs, questions (no transaction open) ─▶ lock, commands, own rows, move ─▶ commit
//!  token and lease     a hanging service holds up its saga only       guarded by version and token
//! ```
//!
//! Each saga is committed when its own questions are answered, and its place is given to the next one
//! that is due.
//!
//! Result events do not come through here: a consumer records them in the transaction of its inbox row
//! ([`record`]), which also sends the next command. So a saga that runs well meets the coordinator
//! never; the coordinator is for what did not come.
//!
//! A saga that cannot be moved is put off with growing pauses and listed for a person, and holds up no
//! other: the claim takes the longest due first.

mod definition;
mod moving;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::{Report, Worker, panic_text};
use crate::base::backoff::Backoff;
use crate::base::crash::CrashPoints;
use crate::base::deadline::within;
use crate::model::ids::ClaimToken;
use crate::model::saga::machine::{Action, Answer, NEWER, Signal, decide};
use crate::model::saga::{Saga, SagaClaim, SagaRef, SagaState, Side, Work};
use crate::store::{Guarded, SagaClaimRequest, Store, StoreError};

pub use definition::{SagaDefinition, Task};
pub use moving::{NewInstance, Recorded, Reply, SagaError, cancel, key_of, record, start};

/// Registered name.
pub const NAME: &str = "saga";

/// Crash point: timers and answers are known, nothing of them is written.
const BEFORE_TRANSITION: &str = "saga.before_transition";
/// Crash point: the command is in the transaction, the transition is not.
const AFTER_COMMAND: &str = "saga.after_command";
/// Guard: the transition is fenced by version and token.
const GUARD_FENCE: &str = "guard.saga_fence";

/// Guard: nothing is decided about a step before its service was asked.
const GUARD_QUERY: &str = "guard.saga_query";

/// The kinds of saga a program runs.
pub type Definitions = Vec<Arc<dyn SagaDefinition>>;

/// Tries of a transaction that meets locks.
const TRIES: u32 = 3;

/// Limits of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// Sagas of one claim, and sagas worked on at once.
    pub batch_rows: u32,
    /// Claims of one pass at most.
    pub batches_max: u32,
    /// How long a claim holds. Must be longer than a question and the transactions of a batch.
    pub lease: Duration,
    /// How long a question may take.
    pub query_limit: Duration,
    /// Pause of a saga that could not be moved.
    pub backoff: Backoff,
    /// Pause after a pass that found nothing due.
    pub idle: Duration,
    /// Where a drill may stop it; nowhere unless the context is a sandbox.
    pub crash_points: CrashPoints,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            batch_rows: 10,
            batches_max: 50,
            lease: Duration::from_secs(30),
            query_limit: Duration::from_secs(5),
            backoff: Backoff {
                base: Duration::from_secs(1),
                cap: Duration::from_mins(2),
            },
            idle: Duration::from_millis(200),
            crash_points: CrashPoints::new(false),
        }
    }
}

/// Moves the sagas of one service.
pub struct Coordinator {
    service: String,
    store: Arc<dyn Store>,
    definitions: Definitions,
    settings: CoordinatorSettings,
    by: String,
}

/// A claimed saga after its timers and questions.
struct Prepared {
    work: Work,
    saga: Saga,
}

/// A claimed saga whose questions are answered, and how many there were.
struct Asked {
    token: ClaimToken,
    claimed_at: Instant,
    questions: u64,
    prepared: Result<Prepared, (Work, String)>,
}

/// What became of one claimed saga.
enum Moved {
    /// Committed: where it stands now.
    Done(SagaState),
    /// An answer, a person or another coordinator was faster.
    LostRace,
}

impl Coordinator {
    /// A coordinator of `service`'s sagas.
    ///
    /// # Errors
    /// A sentence: limits that contradict each other.
    pub fn new(
        service: &str,
        store: Arc<dyn Store>,
        definitions: Definitions,
        settings: CoordinatorSettings,
    ) -> Result<Self, String> {
        if settings.lease <= settings.query_limit {
            return Err(format!(
                "saga coordinator of {service}: a lease of {:?} ends before a question of {:?} may: \
                 every answer would come too late",
                settings.lease, settings.query_limit
            ));
        }
        Ok(Self {
            service: service.to_owned(),
            store,
            definitions,
            settings,
            by: format!("{NAME} {}", std::process::id()),
        })
    }

    async fn pass(&self, report: &mut Report) -> Result<(), StoreError> {
        for definition in &self.definitions {
            self.of_kind(definition.as_ref(), report).await?;
        }
        Ok(())
    }

    /// Moves what is due of one kind. While a question hangs, the other places go on: a service that
    /// does not answer stalls no timer but its own sagas' (S-04).
    async fn of_kind(
        &self,
        definition: &dyn SagaDefinition,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let mut asking = FuturesUnordered::new();
        let mut claims_left = self.settings.batches_max;
        // Once less was due than there were places, only time makes more due.
        let mut is_more = true;
        loop {
            let at_work = u32::try_from(asking.len()).unwrap_or(u32::MAX);
            let places = self.settings.batch_rows.max(1).saturating_sub(at_work);
            if is_more && places > 0 && claims_left > 0 {
                claims_left -= 1;
                let claimed_at = Instant::now();
                let claim = self.claim(definition, places, report).await?;
                is_more = claim.sagas.len() >= places as usize;
                for work in claim.sagas {
                    let held = (claim.token.clone(), claimed_at);
                    asking.push(self.asked(definition, held, work));
                }
            }
            if asking.is_empty() && (!is_more || claims_left == 0) {
                return Ok(());
            }
            match within("saga questions", self.settings.idle, asking.next()).await {
                Ok(mut ready) => {
                    while let Some(asked) = ready {
                        self.finish_in_time(definition, asked, report).await?;
                        ready = asking.next().now_or_never().flatten();
                    }
                }
                // Every question hangs: what fell due meanwhile is looked for.
                Err(_) => is_more = true,
            }
        }
    }

    async fn claim(
        &self,
        definition: &dyn SagaDefinition,
        rows_max: u32,
        report: &mut Report,
    ) -> Result<SagaClaim, StoreError> {
        let claim = self
            .store
            .claim_sagas(&SagaClaimRequest {
                saga_type: definition.saga_type().to_owned(),
                rows_max,
                lease: self.settings.lease,
                by: self.by.clone(),
            })
            .await?;
        if !claim.sagas.is_empty() {
            report.is_idle = false;
            report.add("claimed", claim.sagas.len() as u64);
        }
        Ok(claim)
    }

    async fn asked(
        &self,
        definition: &dyn SagaDefinition,
        (token, claimed_at): (ClaimToken, Instant),
        work: Work,
    ) -> Asked {
        let (questions, prepared) = self.prepare(definition, work).await;
        Asked {
            token,
            claimed_at,
            questions,
            prepared,
        }
    }

    async fn finish_in_time(
        &self,
        definition: &dyn SagaDefinition,
        asked: Asked,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        report.add("asked", asked.questions);
        if asked.claimed_at.elapsed() >= self.settings.lease {
            // Somebody else may hold it: its rows say when it is due again.
            report.add("lease_over", 1);
            return Ok(());
        }
        self.finish(definition, &asked.token, asked.prepared, report)
            .await
    }

    /// Timers and questions, with no transaction open; and how many questions were asked.
    async fn prepare(
        &self,
        definition: &dyn SagaDefinition,
        work: Work,
    ) -> (u64, Result<Prepared, (Work, String)>) {
        if work.saga.state == SagaState::Unreadable {
            return (0, Err((work, NEWER.to_owned())));
        }
        let mut saga = work.saga.clone();
        let mut asked: Vec<(i64, Side)> = Vec::new();
        loop {
            let signal = match decide(&saga, work.now) {
                Action::Ask { step, side } if !asked.contains(&(step, side)) => {
                    asked.push((step, side));
                    let answer = self.ask(definition, (&saga, &work.data), step, side).await;
                    Signal::Answered {
                        step,
                        side,
                        answer,
                        event_id: None,
                    }
                }
                Action::Send { .. } | Action::Wait(_) | Action::Ask { .. } => break,
                timer => match moving::timer_of(timer) {
                    Some(signal) => signal,
                    None => break,
                },
            };
            match moving::next(&saga, definition, &signal, work.now) {
                Ok(next) => saga = next,
                Err(error) => return (asked.len() as u64, Err((work, error.to_string()))),
            }
        }
        (asked.len() as u64, Ok(Prepared { work, saga }))
    }

    async fn ask(
        &self,
        definition: &dyn SagaDefinition,
        (saga, data): (&Saga, &str),
        no: i64,
        side: Side,
    ) -> Answer {
        // Guard: an outcome that is not known is asked for.
        if self.settings.crash_points.is_off(GUARD_QUERY) {
            return Answer::Failed("no answer in time".to_owned());
        }
        let Some((step, key)) = saga.step(no).and_then(|step| Some((step, step.key(side)?))) else {
            return Answer::Away(format!("step {no} has no {} key", side.word()));
        };
        let task = Task {
            saga,
            data,
            step,
            side,
            key,
        };
        let query = AssertUnwindSafe(definition.query(&task)).catch_unwind();
        match within("saga query", self.settings.query_limit, query).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => Answer::Away(format!("panicked: {}", panic_text(panic.as_ref()))),
            Err(late) => Answer::Away(late.to_string()),
        }
    }

    /// Commits one saga's move, or puts it off.
    async fn finish(
        &self,
        definition: &dyn SagaDefinition,
        token: &ClaimToken,
        prepared: Result<Prepared, (Work, String)>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let (work, problem) = match prepared {
            Ok(prepared) => match self.commit(definition, token, &prepared).await {
                Ok(Moved::Done(state)) => {
                    report.add("moved", 1);
                    report.add(state.word(), u64::from(state.is_finished()));
                    return Ok(());
                }
                Ok(Moved::LostRace) => {
                    report.add("lost_races", 1);
                    return Ok(());
                }
                Err(SagaError::Store(error)) if error.is_unreachable() => return Err(error),
                Err(error) => (prepared.work, error.to_string()),
            },
            Err(failed) => failed,
        };
        let failures = u32::try_from(work.saga.failures).unwrap_or(0) + 1;
        let pause = self.settings.backoff.ceiling(failures);
        let put_off = self
            .store
            .postpone_saga(token, &work.saga.saga_id, &problem, pause)
            .await?;
        if put_off == Guarded::Done {
            report.add("postponed", 1);
        }
        tracing::warn!(saga.id = %work.saga.saga_id, problem, "saga could not be moved");
        Ok(())
    }

    async fn commit(
        &self,
        definition: &dyn SagaDefinition,
        token: &ClaimToken,
        prepared: &Prepared,
    ) -> Result<Moved, SagaError> {
        let mut tried = 1;
        loop {
            let once = AssertUnwindSafe(self.commit_once(definition, token, prepared));
            match once.catch_unwind().await {
                Ok(Err(SagaError::Store(StoreError::Contended { .. }))) if tried < TRIES => {
                    tried += 1;
                }
                Ok(done) => return done,
                Err(panic) => {
                    return Err(SagaError::Program {
                        saga_id: prepared.work.saga.saga_id.clone(),
                        problem: format!("panicked: {}", panic_text(panic.as_ref())),
                    });
                }
            }
        }
    }

    async fn commit_once(
        &self,
        definition: &dyn SagaDefinition,
        token: &ClaimToken,
        prepared: &Prepared,
    ) -> Result<Moved, SagaError> {
        let claimed = &prepared.work.saga;
        let points = self.settings.crash_points;
        points.reach(BEFORE_TRANSITION);
        let mut tx = self.store.begin().await?;
        let of = SagaRef::Id(claimed.saga_id.clone());
        let Some(locked) = tx.saga(&of).await? else {
            tx.rollback().await?;
            return Ok(Moved::LostRace);
        };
        let is_fenced = !points.is_off(GUARD_FENCE);
        if is_fenced && locked.saga.version != claimed.version {
            tx.rollback().await?;
            return Ok(Moved::LostRace);
        }
        let after = moving::advance(tx.as_mut(), definition, &locked, prepared.saga.clone());
        let after = match after.await {
            Ok(after) => after,
            Err(error) => {
                tx.rollback().await?;
                return Err(error);
            }
        };
        points.reach(AFTER_COMMAND);
        let token = is_fenced.then_some(token);
        match tx.saga_move(&locked.saga, &after, token).await? {
            Guarded::Done => {
                tx.commit().await?;
                Ok(Moved::Done(after.state))
            }
            Guarded::LostRace => {
                tx.rollback().await?;
                Ok(Moved::LostRace)
            }
        }
    }
}

#[async_trait]
impl Worker for Coordinator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        report.is_idle = true;
        report.problem = self.pass(&mut report).await.err().map(|e| e.to_string());
        if report.problem.is_some() {
            // The loop backs off while the database is away.
            report.is_idle = false;
        }
        report
    }

    /// Nothing is held between two passes; a claim that was cut off is due again when its lease ends.
    async fn drain(&mut self) {}

    fn idle(&self) -> Duration {
        self.settings.idle
    }
}
