//! Sagas: a process over several services, its durable steps, and what may happen to it.
//!
//! ```text
//!            every step done
//! running ───────────────────▶ completed
//!    │ refused, expired, cancelled, by an operator          (never back: a saga turns round once)
//!    ▼
//! compensating ──────────────▶ compensated     every effect is undone
//!    │    ▲                        │
//!    │    │ retried or handled     │ a late success: its effect has to be undone as well
//!    ▼    │                        ▼
//! compensation_failed          compensating
//! ```
//!
//! A side of a step: `pending ─▶ in_flight ─▶ succeeded | failed`, and `in_flight ─▶ unknown` when no
//! answer came in time. Unknown is never decided on: the service is asked first ([`machine`]).

pub mod machine;
pub mod manual;
mod policy;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

use super::ids::{ClaimToken, EventId, SagaId};

pub use policy::{SagaPolicy, SidePolicy, StepPolicy};

/// Where a saga stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaState {
    /// Its steps are being done.
    Running,
    /// It has turned round: what was done is being undone.
    Compensating,
    /// Undoing a step was tried as often as allowed: a person has to look.
    CompensationFailed,
    /// Every step is done.
    Completed,
    /// Everything that was done is undone.
    Compensated,
    /// A word of a newer version.
    Unreadable,
}

impl SagaState {
    /// Every state a row can have.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Compensating,
        Self::CompensationFailed,
        Self::Completed,
        Self::Compensated,
    ];

    /// The word in columns, JSON and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::CompensationFailed => "compensation_failed",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Unreadable => "unreadable",
        }
    }

    /// The state of a column's word; a word of a newer version is not a healthy state.
    pub fn from_word(word: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|state| state.word() == word)
            .unwrap_or(Self::Unreadable)
    }

    /// True once nothing will change by itself any more.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Compensated)
    }
}

/// A side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Doing it.
    Forward,
    /// Undoing it.
    Compensation,
}

impl Side {
    /// The word in columns, headers and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Compensation => "compensation",
        }
    }

    /// The side of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Forward, Self::Compensation]
            .into_iter()
            .find(|side| side.word() == word)
    }
}

/// Where one side (forward or compensating) of a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not started.
    Pending,
    /// Asked for, no answer yet.
    InFlight,
    /// Done.
    Succeeded,
    /// Refused or given up.
    Failed,
    /// Timed out; must be queried before anything is decided.
    Unknown,
    /// Not needed.
    Skipped,
}

impl StepState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::InFlight,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
        Self::Skipped,
    ];

    /// The word in columns, JSON and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InFlight => "in_flight",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }

    /// The state a column's word means; `None` for a word of a newer version.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// True while an answer is waited for.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InFlight | Self::Unknown)
    }
}

/// One step of a saga.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SagaStep {
    /// Position, from 1.
    pub no: i64,
    /// e.g. `reserve_stock`.
    pub name: String,
    /// Forward side.
    pub forward: StepState,
    /// Compensating side.
    pub compensation: StepState,
    /// Commands sent for the side that is being worked on.
    pub attempts: i64,
    /// Times the service was asked what became of it, since the last command.
    pub queries: i64,
    /// When the waiting side gives up, is asked again or is sent again.
    pub timeout_at: Option<Timestamp>,
    /// Why it failed or is not known.
    pub last_error: Option<String>,
    /// An answer that contradicts what had been decided.
    pub conflict: Option<String>,
    /// Idempotency key of the forward side.
    pub forward_key: Option<String>,
    /// Idempotency key of the compensating side.
    pub compensation_key: Option<String>,
    /// The event it waits for or last sent.
    pub event_id: Option<EventId>,
    /// Last change.
    pub updated_at: Timestamp,
}

impl SagaStep {
    /// A side's state.
    pub const fn state(&self, side: Side) -> StepState {
        match side {
            Side::Forward => self.forward,
            Side::Compensation => self.compensation,
        }
    }

    /// A side's idempotency key.
    pub fn key(&self, side: Side) -> Option<&str> {
        match side {
            Side::Forward => self.forward_key.as_deref(),
            Side::Compensation => self.compensation_key.as_deref(),
        }
    }

    /// True when neither side stands elsewhere.
    pub fn is_where(&self, other: &Self) -> bool {
        (self.forward, self.compensation, self.attempts)
            == (other.forward, other.compensation, other.attempts)
            && self.event_id == other.event_id
            && self.conflict == other.conflict
    }

    /// The side that is worked on: the compensating one once it is needed.
    pub const fn side(&self) -> Side {
        let is_undoing = matches!(self.forward, StepState::Succeeded)
            && !matches!(self.compensation, StepState::Skipped | StepState::Pending);
        if is_undoing {
            Side::Compensation
        } else {
            Side::Forward
        }
    }
}

/// One saga instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saga {
    /// Its identity.
    pub saga_id: SagaId,
    /// e.g. `order`.
    pub saga_type: String,
    /// e.g. the order id.
    pub business_key: String,
    /// Where it stands.
    pub state: SagaState,
    /// Optimistic version.
    pub version: i64,
    /// When it should be over.
    pub deadline_at: Option<Timestamp>,
    /// When it turns round by itself, if it is still running then.
    pub expires_at: Option<Timestamp>,
    /// When the coordinator has to look next; `None` when nothing but an answer or a person moves it.
    pub due_at: Option<Timestamp>,
    /// Passes in a row in which the coordinator could not move it.
    pub failures: i64,
    /// Why it could not.
    pub last_error: Option<String>,
    /// Who moves it now, on the database's clock until then.
    pub leased_by: Option<String>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// Why a person has to look; `None` when nobody has to.
    pub attention: Option<String>,
    /// The person who looks after it.
    pub owner: Option<String>,
    /// What shows that a person handled it.
    pub evidence: Option<String>,
    /// Last change.
    pub updated_at: Timestamp,
    /// When it started.
    pub created_at: Timestamp,
    /// Steps by number.
    pub steps: Vec<SagaStep>,
}

impl Saga {
    /// True once nothing will change by itself any more.
    pub const fn is_finished(&self) -> bool {
        self.state.is_finished()
    }

    /// True when an operator has to look.
    pub const fn needs_attention(&self) -> bool {
        self.attention.is_some()
            || self.failures > 0
            || matches!(self.state, SagaState::CompensationFailed)
    }

    /// True when an operator has to look, or the deadline is over.
    pub fn needs_somebody(&self, at: Timestamp) -> bool {
        self.needs_attention() || self.late_s(at).is_some()
    }

    /// Seconds an unfinished saga is past its deadline.
    pub fn late_s(&self, at: Timestamp) -> Option<f64> {
        let deadline = self.deadline_at.filter(|_| !self.is_finished())?;
        Some(at.seconds_since(deadline)).filter(|late| *late > 0.0)
    }

    /// True when only timers and counters of questions differ: nothing that a person or a coordinator
    /// decided on has moved, so the version stays.
    pub fn is_where(&self, other: &Self) -> bool {
        let place = |saga: &Self| {
            (
                saga.state,
                saga.expires_at,
                saga.attention.clone(),
                saga.owner.clone(),
                saga.evidence.clone(),
            )
        };
        place(self) == place(other)
            && self.steps.len() == other.steps.len()
            && self
                .steps
                .iter()
                .zip(&other.steps)
                .all(|(step, other)| step.is_where(other))
    }

    /// The step with this number.
    pub fn step(&self, no: i64) -> Option<&SagaStep> {
        self.steps.iter().find(|step| step.no == no)
    }

    fn step_mut(&mut self, no: i64) -> Option<&mut SagaStep> {
        self.steps.iter_mut().find(|step| step.no == no)
    }

    /// The step and side that hold it up: what failed to be undone, else what waits for an answer or
    /// its turn, in the direction the saga goes. `None` when it is finished.
    pub fn current(&self) -> Option<(&SagaStep, Side)> {
        let forward = |wanted: fn(StepState) -> bool| {
            self.steps
                .iter()
                .find(|step| wanted(step.forward))
                .map(|step| (step, Side::Forward))
        };
        let undo = |wanted: fn(StepState) -> bool| {
            self.steps
                .iter()
                .rev()
                .find(|step| step.forward == StepState::Succeeded && wanted(step.compensation))
                .map(|step| (step, Side::Compensation))
        };
        match self.state {
            SagaState::Running => {
                forward(|state| !matches!(state, StepState::Succeeded | StepState::Skipped))
            }
            SagaState::Compensating | SagaState::CompensationFailed => {
                undo(|state| state == StepState::Failed)
                    .or_else(|| forward(StepState::is_open))
                    .or_else(|| {
                        undo(|state| !matches!(state, StepState::Succeeded | StepState::Skipped))
                    })
            }
            SagaState::Completed | SagaState::Compensated | SagaState::Unreadable => None,
        }
    }
}

/// A saga as a coordinator works on it: with its business input, at an instant of the database's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The rows.
    pub saga: Saga,
    /// Business input of the commands, as it was written at the start.
    pub data: String,
    /// The database's clock when it was read.
    pub now: Timestamp,
}

/// Sagas taken by one claim.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaClaim {
    /// Fences them.
    pub token: ClaimToken,
    /// Longest due first.
    pub sagas: Vec<Work>,
}

/// A saga about to start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSaga {
    /// Its identity.
    pub saga_id: SagaId,
    /// What it does.
    pub saga_type: String,
    /// Unique within the type.
    pub business_key: String,
    /// Business input of its commands.
    pub data: String,
    /// From now: when it should be over.
    pub deadline: std::time::Duration,
    /// From now: when it turns round by itself.
    pub expires: Option<std::time::Duration>,
    /// Its steps, by number from 1.
    pub steps: Vec<NewStep>,
}

/// A step as it is first written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewStep {
    /// Its name.
    pub name: String,
    /// Idempotency key of the forward side.
    pub forward_key: String,
    /// Idempotency key of the compensating side; `None` when there is nothing to undo.
    pub compensation_key: Option<String>,
}

/// How a saga is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaRef {
    /// By its identity.
    Id(SagaId),
    /// By the idempotency key of a side.
    Key(String),
    /// By type and business key.
    Business {
        /// Its type.
        saga_type: String,
        /// Its business key.
        business_key: String,
    },
}
