//! Moving a saga within a transaction: what a service calls when it starts one, when a result event has
//! come, and when somebody cancels. The coordinator's own pass ends here as well.

use super::definition::{SagaDefinition, Task};
use crate::base::clock::Timestamp;
use crate::model::ids::{EventId, SagaId};
use crate::model::saga::machine::{Action, Answer, Signal, Verdict, apply, decide, due};
use crate::model::saga::{NewSaga, NewStep, Saga, SagaRef, SagaState, Side, Work};
use crate::store::{BusinessTx, Guarded, StoreError};

/// Steps of one move at most: sends, time-outs and local sides in a row. A saga that wants more is
/// broken.
const STEPS_MAX: usize = 100;

/// Why a saga was not moved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SagaError {
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program could not say what to send.
    #[error("saga {saga_id}: {problem}")]
    Program {
        /// Which.
        saga_id: SagaId,
        /// What it said.
        problem: String,
    },
    /// Somebody else moved it in between: nothing was written.
    #[error("saga {saga_id} was moved at the same moment")]
    LostRace {
        /// Which.
        saga_id: SagaId,
    },
}

/// A saga to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct NewInstance {
    /// Its identity.
    pub saga_id: SagaId,
    /// Unique within its type.
    pub business_key: String,
    /// Business input of its commands.
    pub data: String,
}

/// A result event, as far as a saga cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The idempotency key of the command it answers.
    pub key: String,
    /// What it says.
    pub answer: Answer,
    /// The result event.
    pub event_id: EventId,
}

/// What a reply came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The saga took it: how, and where it stands now.
    Taken(Verdict, SagaState),
    /// No saga has this key.
    NoSaga,
}

/// The idempotency key of a side: the same at every attempt, another one for undoing.
pub fn key_of(saga_type: &str, business_key: &str, step: &str, side: Side) -> String {
    match side {
        Side::Forward => format!("{saga_type}-{business_key}:{step}"),
        Side::Compensation => format!("{saga_type}-{business_key}:{step}:undo"),
    }
}

/// Writes a new saga and sends its first command. `false` when the business key has one already:
/// nothing is written then.
///
/// # Errors
/// The caller rolls back.
pub async fn start(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    new: &NewInstance,
) -> Result<bool, SagaError> {
    let policy = definition.policy();
    let (kind, key) = (definition.saga_type(), new.business_key.as_str());
    let steps = policy.steps.iter().map(|step| NewStep {
        name: step.name.to_owned(),
        forward_key: key_of(kind, key, step.name, Side::Forward),
        compensation_key: step
            .compensation
            .is_some()
            .then(|| key_of(kind, key, step.name, Side::Compensation)),
    });
    let saga = NewSaga {
        saga_id: new.saga_id.clone(),
        saga_type: kind.to_owned(),
        business_key: new.business_key.clone(),
        data: new.data.clone(),
        deadline: policy.deadline,
        expires: policy.expires,
        steps: steps.collect(),
    };
    if !tx.saga_start(&saga).await? {
        return Ok(false);
    }
    let Some(work) = tx.saga(&SagaRef::Id(new.saga_id.clone())).await? else {
        return Err(SagaError::Program {
            saga_id: new.saga_id.clone(),
            problem: "the saga just written is not there".to_owned(),
        });
    };
    let first = work.saga.clone();
    commit_move(tx, definition, &work, first).await?;
    Ok(true)
}

/// Takes a result event: the saga moves, and its next commands are in the outbox, in the transaction
/// that holds the inbox row. What the saga knew already changes nothing.
///
/// # Errors
/// The caller rolls back.
pub async fn record(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    reply: &Reply,
) -> Result<Recorded, SagaError> {
    let Some(work) = tx.saga(&SagaRef::Key(reply.key.clone())).await? else {
        return Ok(Recorded::NoSaga);
    };
    let Some((step, side)) = side_of(&work.saga, &reply.key) else {
        return Ok(Recorded::NoSaga);
    };
    let signal = Signal::Answered {
        step,
        side,
        answer: reply.answer.clone(),
        event_id: Some(reply.event_id.clone()),
    };
    take(tx, definition, &work, &signal).await
}

/// Turns a running saga round, e.g. because the customer cancelled. What is under way is asked about
/// first, and undone if it was done.
///
/// # Errors
/// The caller rolls back.
pub async fn cancel(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    business_key: &str,
    why: &str,
) -> Result<Recorded, SagaError> {
    let of = SagaRef::Business {
        saga_type: definition.saga_type().to_owned(),
        business_key: business_key.to_owned(),
    };
    let Some(work) = tx.saga(&of).await? else {
        return Ok(Recorded::NoSaga);
    };
    take(tx, definition, &work, &Signal::TurnBack(why.to_owned())).await
}

async fn take(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    work: &Work,
    signal: &Signal,
) -> Result<Recorded, SagaError> {
    let moved = apply(&work.saga, definition.policy(), signal, work.now);
    match moved.verdict {
        // To take it as read would be to lose it: the version that knows the state has to have it.
        Verdict::Refused(problem) if work.saga.state == SagaState::Unreadable => {
            Err(SagaError::Program {
                saga_id: work.saga.saga_id.clone(),
                problem,
            })
        }
        Verdict::Known | Verdict::Refused(_) => Ok(Recorded::Taken(moved.verdict, work.saga.state)),
        Verdict::Moved | Verdict::Late | Verdict::Conflict => {
            let after = commit_move(tx, definition, work, moved.saga).await?;
            Ok(Recorded::Taken(moved.verdict, after.state))
        }
    }
}

async fn commit_move(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    work: &Work,
    saga: Saga,
) -> Result<Saga, SagaError> {
    let after = advance(tx, definition, work, saga).await?;
    match tx.saga_move(&work.saga, &after, None).await? {
        Guarded::Done => Ok(after),
        Guarded::LostRace => Err(SagaError::LostRace {
            saga_id: work.saga.saga_id.clone(),
        }),
    }
}

/// The step and side of a key.
fn side_of(saga: &Saga, key: &str) -> Option<(i64, Side)> {
    saga.steps.iter().find_map(|step| {
        [Side::Forward, Side::Compensation]
            .into_iter()
            .find(|side| step.key(*side) == Some(key))
            .map(|side| (step.no, side))
    })
}

/// Does what the machine asks for until it waits or wants an answer: commands into the outbox, local
/// sides, time-outs; then lets the program change its own rows. The caller writes the result.
pub(super) async fn advance(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    work: &Work,
    saga: Saga,
) -> Result<Saga, SagaError> {
    let mut saga = saga;
    for _ in 0..STEPS_MAX {
        let signal = match decide(&saga, work.now) {
            // A question is asked outside of the transaction: the coordinator's next pass does.
            Action::Wait(_) | Action::Ask { .. } => {
                definition.moved(tx, &work.data, &work.saga, &saga).await?;
                saga.failures = 0;
                saga.last_error = None;
                // A claim puts the next look off until its lease ends; here it is over.
                saga.due_at = due(&saga, work.now);
                return Ok(saga);
            }
            Action::Send { step, side } => send(tx, definition, work, (&saga, step, side)).await?,
            other => timer_of(other).ok_or_else(|| stuck(&saga))?,
        };
        saga = next(&saga, definition, &signal, work.now)?;
    }
    Err(stuck(&saga))
}

/// The signal of an action that needs nobody.
pub(super) fn timer_of(action: Action) -> Option<Signal> {
    match action {
        Action::TimeOut { step, side } => Some(Signal::TimedOut { step, side }),
        Action::Expire => Some(Signal::TurnBack("its time is over".to_owned())),
        Action::Wait(_) | Action::Ask { .. } | Action::Send { .. } => None,
    }
}

/// Applies a signal that must move the saga.
pub(super) fn next(
    saga: &Saga,
    definition: &dyn SagaDefinition,
    signal: &Signal,
    now: Timestamp,
) -> Result<Saga, SagaError> {
    let moved = apply(saga, definition.policy(), signal, now);
    match moved.verdict {
        Verdict::Moved | Verdict::Late | Verdict::Conflict => Ok(moved.saga),
        Verdict::Known => Err(stuck(saga)),
        Verdict::Refused(problem) => Err(SagaError::Program {
            saga_id: saga.saga_id.clone(),
            problem,
        }),
    }
}

fn stuck(saga: &Saga) -> SagaError {
    SagaError::Program {
        saga_id: saga.saga_id.clone(),
        problem: format!(
            "does not come to rest ({}, version {}): its steps and its policy do not fit each other",
            saga.state.word(),
            saga.version
        ),
    }
}

/// Appends the commands of a side; a local side is done with the transaction.
async fn send(
    tx: &mut dyn BusinessTx,
    definition: &dyn SagaDefinition,
    work: &Work,
    (saga, no, side): (&Saga, i64, Side),
) -> Result<Signal, SagaError> {
    let program = |problem: String| SagaError::Program {
        saga_id: saga.saga_id.clone(),
        problem,
    };
    let limits = definition.policy().side(no, side).ok_or_else(|| {
        program(format!(
            "the program has no {} side of step {no}",
            side.word()
        ))
    })?;
    if limits.is_local {
        return Ok(Signal::Answered {
            step: no,
            side,
            answer: Answer::Succeeded,
            event_id: None,
        });
    }
    let (step, key) = saga
        .step(no)
        .and_then(|step| Some((step, step.key(side)?)))
        .ok_or_else(|| program(format!("step {no} has no {} key", side.word())))?;
    let events = definition
        .command(&Task {
            saga,
            data: &work.data,
            step,
            side,
            key,
        })
        .map_err(program)?;
    for event in &events {
        tx.append(event).await?;
    }
    Ok(Signal::Sent {
        step: no,
        side,
        event_id: events.into_iter().next().map(|event| event.event_id),
    })
}
