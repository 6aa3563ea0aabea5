//! Asking again what a server did not answer for now. Every call that is made with it may be made twice:
//! reads, and writes that leave the same rows the second time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::backoff::Backoff;
use crate::store::StoreResult;

/// Tries of one call. With the pauses between them some seconds: a failover or a restart, not an outage.
const TRIES: u32 = 6;
/// Pause between them.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(200),
    cap: Duration::from_secs(3),
};

/// Calls until there is an answer, until it is an error that stays, or until the tries are used up. When
/// told to stop it does not begin another try.
///
/// # Errors
/// The last one.
pub(super) async fn patiently<T, F>(
    stop: &CancellationToken,
    mut call: impl FnMut() -> F,
) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut tried = 1;
    loop {
        let error = match call().await {
            Err(error) if error.is_retryable() && tried < TRIES => error,
            answer => return answer,
        };
        tokio::select! {
            () = stop.cancelled() => return Err(error),
            () = tokio::time::sleep(PAUSE.delay(tried)) => {}
        }
        tried += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    fn away() -> StoreError {
        StoreError::Unavailable {
            service: "orders".to_owned(),
            detail: "connection refused".to_owned(),
        }
    }

    /// The answer after so many errors, and how often was asked.
    async fn after(errors: u32, error: StoreError, stop: &CancellationToken) -> (bool, u32) {
        let mut asked = 0;
        let answer = patiently(stop, || {
            asked += 1;
            let is_there = asked > errors;
            std::future::ready(is_there.then_some(()).ok_or_else(|| error.clone()))
        });
        let is_answered = answer.await.is_ok();
        (is_answered, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_asked_again_and_what_stays_is_not() {
        let stop = CancellationToken::new();
        assert_eq!(after(0, away(), &stop).await, (true, 1));
        assert_eq!(after(TRIES - 1, away(), &stop).await, (true, TRIES));
        assert_eq!(after(TRIES, away(), &stop).await, (false, TRIES));
        let denied = StoreError::Denied {
            service: "orders".to_owned(),
            operation: "scans page",
            detail: "no".to_owned(),
        };
        assert_eq!(after(1, denied, &stop).await, (false, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_to_stop_does_not_try_again() {
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(after(0, away(), &stop).await, (true, 1));
        assert_eq!(after(1, away(), &stop).await, (false, 1));
    }
}
