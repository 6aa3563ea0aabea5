//! What a saga's program says about its steps: limits, not state. The rows say the rest.

use std::time::Duration;

use crate::base::backoff::Backoff;

/// Limits of one side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidePolicy {
    /// How long an answer is waited for before the service is asked.
    pub timeout: Duration,
    /// Commands sent at most, under the same idempotency key.
    pub attempts_max: i64,
    /// Wait between them.
    pub backoff: Backoff,
    /// Done in the coordinator's own transaction: no command, no answer.
    pub is_local: bool,
}

impl SidePolicy {
    /// A side another service does.
    pub const fn remote(timeout: Duration, attempts_max: i64, backoff: Backoff) -> Self {
        Self {
            timeout,
            attempts_max,
            backoff,
            is_local: false,
        }
    }

    /// A side that is a change of this service's own rows.
    pub const fn local() -> Self {
        Self {
            timeout: Duration::ZERO,
            attempts_max: 1,
            backoff: Backoff {
                base: Duration::ZERO,
                cap: Duration::ZERO,
            },
            is_local: true,
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPolicy {
    /// Its name.
    pub name: &'static str,
    /// Doing it.
    pub forward: SidePolicy,
    /// Undoing it; `None` when there is nothing to undo.
    pub compensation: Option<SidePolicy>,
}

/// A saga's steps and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaPolicy {
    /// Steps in order; step 1 is the first.
    pub steps: Vec<StepPolicy>,
    /// From the start: when it should be over. Only shown.
    pub deadline: Duration,
    /// From the start: when it turns round by itself, if it is still running then.
    pub expires: Option<Duration>,
    /// Wait between two questions about one unknown outcome.
    pub query: Backoff,
    /// Questions without an answer before a person is told. It is asked on all the same.
    pub queries_max: i64,
}

impl SagaPolicy {
    /// The step with number `no`.
    pub fn step(&self, no: i64) -> Option<&StepPolicy> {
        let index = usize::try_from(no).ok()?.checked_sub(1)?;
        self.steps.get(index)
    }

    /// The limits of a side; `None` for a step it does not know, or that has nothing to undo.
    pub fn side(&self, no: i64, side: super::Side) -> Option<&SidePolicy> {
        let step = self.step(no)?;
        match side {
            super::Side::Forward => Some(&step.forward),
            super::Side::Compensation => step.compensation.as_ref(),
        }
    }
}
