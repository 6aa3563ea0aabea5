//! Changes of whole sagas: turning round, and ending.

use crate::base::backoff::Backoff;
use crate::base::clock::Timestamp;
use crate::base::text::cut_bytes;
use crate::model::saga::{Saga, SagaState, SagaStep, Side, StepState};

/// Bytes kept of an error or conflict.
const TEXT_BYTES: usize = 1000;

/// The saga goes the other way from here on: what was never sent is skipped, what was asked for is
/// asked about at once, what was done waits to be undone. A side that waits to be sent *again* was
/// asked for as well: an earlier command may have been done.
pub(in crate::model::saga) fn turn_round(saga: &mut Saga, now: Timestamp) {
    saga.state = SagaState::Compensating;
    saga.expires_at = None;
    calm(saga);
    for step in &mut saga.steps {
        match step.forward {
            StepState::Pending if step.event_id.is_none() && step.attempts == 0 => {
                set(step, Side::Forward, StepState::Skipped, now);
                step.compensation = StepState::Skipped;
                step.timeout_at = None;
            }
            StepState::Pending | StepState::InFlight | StepState::Unknown => {
                set(step, Side::Forward, StepState::Unknown, now);
                step.queries = 0;
                step.timeout_at = Some(now);
            }
            StepState::Succeeded => reset(step),
            StepState::Failed | StepState::Skipped => step.compensation = StepState::Skipped,
        }
    }
}

/// Nobody has to look any more, except at what contradicted a decision: only a person ends that.
pub(in crate::model::saga) fn calm(saga: &mut Saga) {
    let conflict = saga.steps.iter().find_map(|step| {
        let conflict = step.conflict.as_deref()?;
        Some(cut(&format!("{} {conflict}", step.name)))
    });
    saga.attention = saga.attention.take().and(conflict);
}

/// Ends a saga with nothing left to do: exactly one of completed, compensated, or a person's.
pub(in crate::model::saga) fn settle(saga: &mut Saga) {
    let steps = saga.steps.as_slice();
    match saga.state {
        SagaState::Running => {
            let is_done = steps
                .iter()
                .all(|step| matches!(step.forward, StepState::Succeeded | StepState::Skipped));
            if is_done {
                saga.state = SagaState::Completed;
                calm(saga);
                saga.expires_at = None;
                for step in &mut saga.steps {
                    step.compensation = StepState::Skipped;
                    step.timeout_at = None;
                }
            }
        }
        SagaState::Compensating | SagaState::CompensationFailed => {
            let is_at_work = |step: &SagaStep| {
                step.forward == StepState::Unknown
                    || (step.forward == StepState::Succeeded
                        && (step.compensation.is_open() || step.compensation == StepState::Pending))
            };
            if steps.iter().any(is_at_work) {
                saga.state = SagaState::Compensating;
                return;
            }
            let failed = steps.iter().find(|step| {
                step.forward == StepState::Succeeded && step.compensation == StepState::Failed
            });
            // A command that is still under way may take hours: what could not be undone is told before.
            if let Some(step) = failed {
                saga.attention = Some(cut(&format!(
                    "{} could not be undone in {} tries: {}",
                    step.name,
                    step.attempts,
                    step.last_error.as_deref().unwrap_or("no reason was given")
                )));
                saga.state = SagaState::CompensationFailed;
            } else if steps.iter().any(|step| step.forward.is_open()) {
                saga.state = SagaState::Compensating;
            } else {
                saga.state = SagaState::Compensated;
                calm(saga);
            }
        }
        SagaState::Completed | SagaState::Compensated | SagaState::Unreadable => {}
    }
}

pub(in crate::model::saga) fn set(
    step: &mut SagaStep,
    side: Side,
    state: StepState,
    now: Timestamp,
) {
    match side {
        Side::Forward => step.forward = state,
        Side::Compensation => step.compensation = state,
    }
    step.updated_at = now;
}

/// Fresh counters for the next side.
pub(in crate::model::saga) fn reset(step: &mut SagaStep) {
    step.attempts = 0;
    step.queries = 0;
    step.timeout_at = None;
    step.last_error = None;
}

/// The side is sent again after its pause, under the same key.
pub(in crate::model::saga) fn again(
    step: &mut SagaStep,
    side: Side,
    backoff: Backoff,
    now: Timestamp,
) {
    set(step, side, StepState::Pending, now);
    step.queries = 0;
    step.timeout_at = Some(now.plus(backoff.ceiling(as_count(step.attempts))));
}

pub(in crate::model::saga) fn cut(text: &str) -> String {
    cut_bytes(text, TEXT_BYTES).to_owned()
}

pub(in crate::model::saga) fn as_count(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}
