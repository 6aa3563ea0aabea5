//! Every wait on a network has a limit and a name, so that an error can say what timed out.

use std::future::Future;
use std::time::Duration;

/// A named operation did not answer in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} did not answer within {after:?}")]
pub struct TimedOut {
    /// What was waited for, e.g. `claim batch`.
    pub operation: &'static str,
    /// How long it was waited for.
    pub after: Duration,
}

/// Waits for `work` at most `after`.
///
/// # Errors
/// [`TimedOut`] names the operation. `work` is dropped then.
///
/// # Cancel safety
/// As cancel safe as `work`.
pub async fn within<T>(
    operation: &'static str,
    after: Duration,
    work: impl Future<Output = T>,
) -> Result<T, TimedOut> {
    tokio::time::timeout(after, work)
        .await
        .map_err(|_| TimedOut { operation, after })
}
