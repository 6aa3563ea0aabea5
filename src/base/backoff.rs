//! Waiting between attempts: `min(cap, base * 2^n)` with full jitter.

use std::time::Duration;

use rand::Rng;

/// How long to wait before attempt `n + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the first wait.
    pub base: Duration,
    /// Upper bound of every wait.
    pub cap: Duration,
}

impl Backoff {
    /// The largest wait after `failures` failures in a row (0 counts as 1).
    pub fn ceiling(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1_u32 << doublings).min(self.cap)
    }

    /// A random wait in `[0, ceiling]` (full jitter), so that workers that failed together do not
    /// come back together.
    pub fn delay(self, failures: u32) -> Duration {
        let ceiling_us = u64::try_from(self.ceiling(failures).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(rand::rng().random_range(0..=ceiling_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_wait_never_leaves_its_bounds(base_ms in 1_u64..10_000, cap_ms in 1_u64..600_000, n in 0_u32..200) {
            let backoff = Backoff { base: Duration::from_millis(base_ms), cap: Duration::from_millis(cap_ms) };
            prop_assert!(backoff.delay(n) <= backoff.cap);
            prop_assert!(backoff.ceiling(n) <= backoff.ceiling(n + 1));
        }
    }
}
