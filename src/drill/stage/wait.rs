//! Waiting for facts: looked at again and again, never longer than a bound.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::drill::trouble::Trouble;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(25);

/// Waits until `fact` is true.
///
/// # Errors
/// What `fact` met, or [`Trouble::late`] naming `what`.
pub async fn until(
    what: &str,
    patience: Duration,
    fact: impl AsyncFn() -> Result<bool, Trouble>,
) -> Result<(), Trouble> {
    let end = Instant::now() + patience;
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if fact().await? {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Trouble::late(what, patience));
        }
    }
}
