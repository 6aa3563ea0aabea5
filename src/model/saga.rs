//! Sagas as their tables show them.

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

use super::ids::{EventId, SagaId};

/// One side (forward or compensating) of a step.
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
        [
            Self::Pending,
            Self::InFlight,
            Self::Succeeded,
            Self::Failed,
            Self::Unknown,
            Self::Skipped,
        ]
        .into_iter()
        .find(|state| state.word() == word)
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
    /// Attempts of the side that is being worked on.
    pub attempts: i64,
    /// When the waiting side gives up.
    pub timeout_at: Option<Timestamp>,
    /// Why it failed.
    pub last_error: Option<String>,
    /// Idempotency key of the forward side.
    pub forward_key: Option<String>,
    /// Idempotency key of the compensating side.
    pub compensation_key: Option<String>,
    /// The event it waits for or last sent.
    pub event_id: Option<EventId>,
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
    /// As stored: `running`, `compensating`, `compensation_failed`, `completed`, `compensated`, …
    pub state: String,
    /// Optimistic version.
    pub version: i64,
    /// When it should be over.
    pub deadline_at: Option<Timestamp>,
    /// Last change.
    pub updated_at: Timestamp,
    /// When it started.
    pub created_at: Timestamp,
    /// Steps by number.
    pub steps: Vec<SagaStep>,
}

impl Saga {
    /// True once nothing will change by itself any more.
    pub fn is_finished(&self) -> bool {
        matches!(
            self.state.as_str(),
            "completed" | "compensated" | "cancelled"
        )
    }

    /// True when an operator has to look.
    pub fn needs_attention(&self) -> bool {
        self.state == "compensation_failed"
    }
}
