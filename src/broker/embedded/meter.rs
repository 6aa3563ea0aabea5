//! A rate over the last five full seconds, without a timer.

use std::collections::VecDeque;

use tokio::time::Instant;

const WINDOW_S: u64 = 5;

/// Counts events by second.
#[derive(Debug, Default)]
pub(super) struct Meter {
    seconds: VecDeque<(u64, u64)>,
}

impl Meter {
    /// Counts `n` events at `now`; `start` is the broker's birth.
    pub(super) fn add(&mut self, start: Instant, now: Instant, n: u64) {
        let second = now.duration_since(start).as_secs();
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += n,
            _ => self.seconds.push_back((second, n)),
        }
        while self
            .seconds
            .front()
            .is_some_and(|(first, _)| first + WINDOW_S < second)
        {
            self.seconds.pop_front();
        }
    }

    /// Events a second over the window that ended with the last full second.
    pub(super) fn rate(&self, start: Instant, now: Instant) -> f64 {
        let second = now.duration_since(start).as_secs();
        let counted: u64 = self
            .seconds
            .iter()
            .filter(|(at, _)| *at < second && at + WINDOW_S >= second)
            .map(|(_, n)| *n)
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of five seconds")]
        let rate = counted as f64 / WINDOW_S as f64;
        rate
    }
}
