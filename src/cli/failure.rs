//! Why a command could not answer: one sentence for a person, and the exit code for a script.

use crate::assembly::StoreError;
use crate::config::ConfigError;
use crate::model::filter::FilterError;
use crate::observe::snapshot::Unread;
use crate::operate::plan::OperateError;

use super::exit::Exit;

/// The end of a command without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// One sentence; empty when nobody is there to read it (a closed pipe).
    pub message: String,
}

/// Result of a command.
pub type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// A failure with its message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// Wrong usage: says what to write instead.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A fault of our own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<FilterError> for Failure {
    fn from(error: FilterError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = if error.is_retryable() {
            Exit::Unreachable
        } else {
            Exit::Internal
        };
        Self::new(exit, error.to_string())
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Refused { .. } => Self::new(Exit::Refused, error.to_string()),
            OperateError::NotFound(_) | OperateError::Ambiguous(_) => {
                Self::usage(error.to_string())
            }
            OperateError::Store(error) => error.into(),
            OperateError::Broker(error) => Self::new(Exit::Unreachable, error.to_string()),
        }
    }
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        Self::new(
            Exit::Unreachable,
            format!("{} could not be read: {}", unread.what, unread.reason),
        )
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(format!("the answer cannot be written as JSON: {error}"))
    }
}

/// A reader that went away (`| head`) is no error; a full disk is.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::new(Exit::Fine, "")
        } else {
            Self::internal(format!("the answer cannot be written: {error}"))
        }
    }
}
