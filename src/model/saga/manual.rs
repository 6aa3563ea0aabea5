//! What a person may do to a saga. No policy is needed: an operator's console does not know the
//! program behind a saga, and its rows say enough. Nothing here sends anything: the coordinator does,
//! under the same idempotency key as before.

use crate::base::clock::Timestamp;

use super::machine::NEWER;
use super::machine::settle::{calm, cut, reset, set, settle, turn_round};
use super::{Saga, SagaState, Side, StepState};

/// What a person wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manual {
    /// Send the command of the step that holds it up again, now.
    Retry,
    /// Ask what became of it, now.
    Query,
    /// Turn round.
    Compensate,
    /// A person saw to the step that holds it up.
    Handled {
        /// Whether the step is done (or undone); `false`: a person made sure that it is not done.
        is_done: bool,
        /// What shows it.
        evidence: String,
    },
    /// Somebody looks after it; `None`: nobody any more.
    Assign(Option<String>),
}

/// The step and side an operator means: the one named, else what holds the saga up.
pub fn target(saga: &Saga, step: Option<i64>) -> Option<(i64, Side)> {
    let Some(no) = step else {
        return saga.current().map(|(step, side)| (step.no, side));
    };
    let step = saga.step(no)?;
    let is_undone_now = !matches!(saga.state, SagaState::Running)
        && step.forward == StepState::Succeeded
        && step.compensation != StepState::Skipped;
    let side = if is_undone_now {
        Side::Compensation
    } else {
        Side::Forward
    };
    Some((no, side))
}

/// The saga after it, or why that cannot be done.
///
/// # Errors
/// One sentence for a person.
pub fn act(
    saga: &Saga,
    step: Option<i64>,
    manual: &Manual,
    now: Timestamp,
) -> Result<Saga, String> {
    let mut after = saga.clone();
    let aim = target(saga, step);
    match manual {
        Manual::Assign(owner) => {
            after.owner.clone_from(owner);
            return Ok(after);
        }
        _ if saga.state == SagaState::Unreadable => return Err(NEWER.to_owned()),
        Manual::Retry => retry(&mut after, aim, now)?,
        Manual::Query => query(&mut after, aim, now)?,
        Manual::Compensate => compensate(&mut after, now)?,
        Manual::Handled { is_done, evidence } => {
            handled(&mut after, aim, (*is_done, evidence), now)?;
        }
    }
    after.failures = 0;
    after.last_error = None;
    settle(&mut after);
    // Also when nothing is left to do: what belongs to the saga, e.g. its order, moves with the
    // coordinator's next pass, and only there.
    after.due_at = Some(now);
    Ok(after)
}

fn nothing(saga: &Saga) -> String {
    format!("the saga is {}: no step waits", saga.state.word())
}

fn retry(saga: &mut Saga, aim: Option<(i64, Side)>, now: Timestamp) -> Result<(), String> {
    let (no, side) = aim.ok_or_else(|| nothing(saga))?;
    let is_running = saga.state == SagaState::Running;
    let step = saga.step_mut(no).ok_or("the saga has no such step")?;
    if side == Side::Forward && !is_running {
        return Err(format!(
            "{} is not done again once the saga has turned round: query what became of it",
            step.name
        ));
    }
    let state = step.state(side);
    let may = matches!(
        state,
        StepState::Pending | StepState::InFlight | StepState::Unknown
    ) || (side == Side::Compensation && state == StepState::Failed);
    if !may {
        return Err(format!(
            "{} is {} on its {} side: there is nothing to send again",
            step.name,
            state.word(),
            side.word()
        ));
    }
    set(step, side, StepState::Pending, now);
    reset(step);
    calm(saga);
    Ok(())
}

fn query(saga: &mut Saga, aim: Option<(i64, Side)>, now: Timestamp) -> Result<(), String> {
    let (no, side) = aim.ok_or_else(|| nothing(saga))?;
    let step = saga.step_mut(no).ok_or("the saga has no such step")?;
    if !step.state(side).is_open() {
        return Err(format!(
            "{} is {} on its {} side: its outcome is no question",
            step.name,
            step.state(side).word(),
            side.word()
        ));
    }
    set(step, side, StepState::Unknown, now);
    step.timeout_at = Some(now);
    Ok(())
}

fn compensate(saga: &mut Saga, now: Timestamp) -> Result<(), String> {
    match saga.state {
        SagaState::Running => {
            turn_round(saga, now);
            Ok(())
        }
        SagaState::CompensationFailed => {
            Err("the saga has turned round already: retry the step that failed".to_owned())
        }
        SagaState::Compensating
        | SagaState::Completed
        | SagaState::Compensated
        | SagaState::Unreadable => Err(format!(
            "the saga is {}: it turns round only while it is running",
            saga.state.word()
        )),
    }
}

fn handled(
    saga: &mut Saga,
    aim: Option<(i64, Side)>,
    (is_done, evidence): (bool, &str),
    now: Timestamp,
) -> Result<(), String> {
    let was_told = saga.attention.take().is_some();
    let mut turns_round = false;
    match aim.and_then(|(no, side)| saga.step_mut(no).map(|step| (step, side))) {
        Some((step, Side::Compensation)) if !is_done => {
            return Err(format!(
                "{} still has to be undone: retry it, or undo it and say so",
                step.name
            ));
        }
        Some((step, Side::Compensation)) => {
            set(step, Side::Compensation, StepState::Succeeded, now);
            step.timeout_at = None;
        }
        Some((step, Side::Forward))
            if matches!(step.forward, StepState::InFlight | StepState::Unknown) =>
        {
            let state = if is_done {
                StepState::Succeeded
            } else {
                StepState::Failed
            };
            set(step, Side::Forward, state, now);
            reset(step);
            if !is_done {
                step.last_error = Some("a person made sure that it is not done".to_owned());
                turns_round = saga.state == SagaState::Running;
            }
        }
        Some((step, Side::Forward)) if !was_told => {
            return Err(format!(
                "{} is {}: nothing about it is open",
                step.name,
                step.forward.word()
            ));
        }
        None if !was_told => return Err(nothing(saga)),
        _ => {}
    }
    if turns_round {
        turn_round(saga, now);
    }
    for step in &mut saga.steps {
        // What nothing undoes was undone by the person, or is accepted: the evidence says which.
        if step.conflict.is_some()
            && step.forward == StepState::Succeeded
            && step.compensation == StepState::Skipped
            && saga.state != SagaState::Completed
        {
            set(step, Side::Compensation, StepState::Succeeded, now);
        }
    }
    saga.evidence = Some(cut(evidence));
    Ok(())
}
