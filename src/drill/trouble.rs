//! Why a drill could not go on.

use std::time::Duration;

use crate::broker::{BrokerError, BrokerResult};
use crate::pipeline::saga_coordinator::SagaError;
use crate::sandbox::PlaceError;
use crate::store::{StoreError, StoreResult};

/// Why a drill could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Drills are not allowed here; nothing was done.
    #[error("{0}")]
    Refused(String),
    /// A server did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The context lacks what the drill needs; says what and how to give it.
    #[error("{0}")]
    NotConfigured(String),
    /// A fact that must come did not, or something answered what it must not.
    #[error("{0}")]
    Stuck(String),
}

impl Trouble {
    /// A fact did not come in time.
    pub fn late(what: &str, after: Duration) -> Self {
        Self::Stuck(format!("waited {after:?} in vain: {what}"))
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        if error.is_unreachable() {
            Self::Unreachable(error.to_string())
        } else {
            Self::Stuck(error.to_string())
        }
    }
}

impl From<BrokerError> for Trouble {
    fn from(error: BrokerError) -> Self {
        if error.is_retryable() {
            Self::Unreachable(error.to_string())
        } else {
            Self::Stuck(error.to_string())
        }
    }
}

impl From<SagaError> for Trouble {
    fn from(error: SagaError) -> Self {
        match error {
            SagaError::Store(error) => error.into(),
            other => Self::Stuck(other.to_string()),
        }
    }
}

impl From<PlaceError> for Trouble {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Saga(error) => error.into(),
            other @ PlaceError::OtherContent { .. } => Self::Stuck(other.to_string()),
        }
    }
}

/// Turns a port's error into [`Trouble`].
pub trait Told<T> {
    /// The value, or why the drill cannot go on.
    ///
    /// # Errors
    /// As the port said.
    fn told(self) -> Result<T, Trouble>;
}

impl<T> Told<T> for StoreResult<T> {
    fn told(self) -> Result<T, Trouble> {
        self.map_err(Into::into)
    }
}

impl<T> Told<T> for BrokerResult<T> {
    fn told(self) -> Result<T, Trouble> {
        self.map_err(Into::into)
    }
}
