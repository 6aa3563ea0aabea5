//! The machine: what to do next ([`decide`]), and what an answer or a timer changes ([`apply`]). Pure:
//! rows in, rows out. Who writes them fences the write by the saga's version, so that two answers at
//! the same instant are applied one after the other, whichever comes first.

mod change;
pub(super) mod settle;

use crate::base::clock::Timestamp;
use crate::model::ids::EventId;

use super::{Saga, SagaState, SagaStep, Side, StepState};

pub use change::{NEWER, apply};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing before then; `None`: nothing until an answer or a person comes.
    Wait(Option<Timestamp>),
    /// Send the command of a side (or do it, when it is local).
    Send {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
    },
    /// No answer came in time: the outcome is unknown now.
    TimeOut {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
    },
    /// Ask the service what became of a side.
    Ask {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
    },
    /// Its time is over: turn round.
    Expire,
}

/// What a service says about a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Succeeded,
    /// Refused, for good: why.
    Failed(String),
    /// Never heard of the key.
    NotFound,
    /// Knows of it or cannot have missed it, and has not done it yet.
    InFlight,
    /// Cannot be asked now: why.
    Away(String),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A command is in the outbox.
    Sent {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
        /// Its event.
        event_id: Option<EventId>,
    },
    /// A result event, or the answer to a question.
    Answered {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
        /// What it says.
        answer: Answer,
        /// The result event.
        event_id: Option<EventId>,
    },
    /// See [`Action::TimeOut`].
    TimedOut {
        /// Step number.
        step: i64,
        /// Which side.
        side: Side,
    },
    /// Undo everything: why.
    TurnBack(String),
}

/// What a signal came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It moved the saga.
    Moved,
    /// It said what was known already.
    Known,
    /// A success after the saga had turned round: it will be undone.
    Late,
    /// It contradicts what was decided and cannot be undone: a person is told.
    Conflict,
    /// It does not fit the saga's state: why.
    Refused(String),
}

/// A saga after a signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// The rows to write; the version is the writer's to raise.
    pub saga: Saga,
    /// What the signal came to.
    pub verdict: Verdict,
}

/// What to do next.
pub fn decide(saga: &Saga, now: Timestamp) -> Action {
    match saga.state {
        SagaState::Running => running(saga, now),
        SagaState::Compensating | SagaState::CompensationFailed => undoing(saga, now),
        SagaState::Completed | SagaState::Compensated | SagaState::Unreadable => Action::Wait(None),
    }
}

/// When [`decide`] has something to do; `None`: only an answer or a person moves the saga.
pub fn due(saga: &Saga, now: Timestamp) -> Option<Timestamp> {
    match decide(saga, now) {
        Action::Wait(until) => until,
        Action::Send { .. } | Action::TimeOut { .. } | Action::Ask { .. } | Action::Expire => {
            Some(now)
        }
    }
}

fn running(saga: &Saga, now: Timestamp) -> Action {
    if saga.expires_at.is_some_and(|at| at <= now) {
        return Action::Expire;
    }
    let open = saga
        .steps
        .iter()
        .find(|step| !matches!(step.forward, StepState::Succeeded | StepState::Skipped));
    let action = open.map_or(Action::Wait(None), |step| work_on(step, Side::Forward, now));
    match (action, saga.expires_at) {
        (Action::Wait(until), Some(expires)) => {
            Action::Wait(Some(until.map_or(expires, |until| until.min(expires))))
        }
        (action, _) => action,
    }
}

/// First what is still open is settled, since it may have to be undone; then the last step is undone
/// first. A step whose undoing failed holds up no other: stock is given back even while a refund is
/// a person's. Neither does a command that is known to be under way still: it may lie in a queue for
/// hours, and is undone when it was done.
fn undoing(saga: &Saga, now: Timestamp) -> Action {
    let mut earliest: Option<Timestamp> = None;
    let open = saga.steps.iter().filter(|step| step.forward.is_open());
    let undo = saga.steps.iter().rev().filter(|step| {
        step.forward == StepState::Succeeded
            && !matches!(
                step.compensation,
                StepState::Succeeded | StepState::Skipped | StepState::Failed
            )
    });
    let mut is_holding = false;
    for (step, side) in open
        .map(|step| (step, Side::Forward))
        .chain(undo.map(|step| (step, Side::Compensation)))
    {
        if is_holding && side == Side::Compensation {
            break;
        }
        match work_on(step, side, now) {
            Action::Wait(until) => {
                earliest = match (earliest, until) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                is_holding |= side == Side::Compensation || step.forward == StepState::Unknown;
            }
            action => return action,
        }
    }
    Action::Wait(earliest)
}

fn work_on(step: &SagaStep, side: Side, now: Timestamp) -> Action {
    let no = step.no;
    let is_over = step.timeout_at.is_none_or(|at| at <= now);
    match step.state(side) {
        StepState::Pending if is_over => Action::Send { step: no, side },
        // Without a timer an answer may never come: it is asked for at once.
        StepState::InFlight if is_over => Action::TimeOut { step: no, side },
        StepState::Unknown if is_over => Action::Ask { step: no, side },
        StepState::Pending | StepState::InFlight | StepState::Unknown => {
            Action::Wait(step.timeout_at)
        }
        StepState::Succeeded | StepState::Failed | StepState::Skipped => Action::Wait(None),
    }
}
