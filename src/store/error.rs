//! Why a database did not do what was asked, by what the caller can do about it.

use std::time::Duration;

/// Why a database did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Not reachable, or the connection broke.
    #[error("database of {service} is not reachable: {detail}")]
    Unavailable {
        /// Which service's.
        service: String,
        /// The driver's words, without secrets.
        detail: String,
    },
    /// No answer in time.
    #[error("{operation} on {service} did not answer within {after:?}")]
    TimedOut {
        /// Which service's.
        service: String,
        /// What was asked.
        operation: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// Deadlock or lock wait: harmless to repeat.
    #[error("{operation} on {service} met a lock: {detail}")]
    Contended {
        /// Which service's.
        service: String,
        /// What was asked.
        operation: &'static str,
        /// The driver's words.
        detail: String,
    },
    /// The account may not do that.
    #[error("{operation} on {service} is not permitted: {detail}")]
    Denied {
        /// Which service's.
        service: String,
        /// What was asked.
        operation: &'static str,
        /// The driver's words.
        detail: String,
    },
    /// A table or column is missing, or a row cannot be read.
    #[error("{service}: {table}: {problem}")]
    Mapping {
        /// Which service's.
        service: String,
        /// Table as mapped.
        table: String,
        /// What is missing or wrong.
        problem: String,
    },
    /// The layout or configuration cannot answer this; the text is a reason for a person.
    #[error("{service}: {reason}")]
    Unsupported {
        /// Which service's.
        service: String,
        /// Why, e.g. `this layout has no lease`.
        reason: String,
    },
    /// Anything else the database said.
    #[error("{operation} on {service} failed: {detail}")]
    Failed {
        /// Which service's.
        service: String,
        /// What was asked.
        operation: &'static str,
        /// The driver's words.
        detail: String,
    },
}

impl StoreError {
    /// True when the same call may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::TimedOut { .. } | Self::Contended { .. }
        )
    }

    /// True when the server could not be asked at all (exit code 5).
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TimedOut { .. })
    }
}

/// Result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;
