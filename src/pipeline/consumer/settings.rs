//! Limits of a consumer.

use std::time::Duration;

use crate::base::backoff::Backoff;
use crate::base::crash::CrashPoints;
use crate::config::{ConsumerLimits, Context, Service};

/// Limits of a consumer; all have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerSettings {
    /// Messages in flight.
    pub prefetch: u16,
    /// Events handled at the same time. Those of one aggregate are handled one after the other, as
    /// they came. SQLite has one writer, so there it is always 1.
    pub lanes: u16,
    /// Waits before each further try of a transient failure, in a queue of that time to live: one
    /// more try than waits.
    pub retry_delays: Vec<Duration>,
    /// Tries at once when a lock was met, before that counts as a transient failure.
    pub lock_tries: u32,
    /// Wait between those tries, between tries while a retry queue cannot be used, and between tries of
    /// an event that is kept. The first two hold a lane up, so keep it short.
    pub backoff: Backoff,
    /// Time limit of one try.
    pub time_limit: Duration,
    /// How long a stop waits for what is being handled; the rest is given back.
    pub drain_limit: Duration,
    /// Queue dead letters are published to. `None`: rejected, and the broker dead-letters them
    /// without a reason, at most once; only where its view says that it has a queue for them.
    pub dead_letter_queue: Option<String>,
    /// Where a drill may stop it; nowhere unless the context is a sandbox.
    pub crash_points: CrashPoints,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        let limits = ConsumerLimits::default();
        Self {
            prefetch: limits.prefetch,
            lanes: limits.lanes,
            retry_delays: limits.retry_delays,
            lock_tries: 3,
            backoff: Backoff {
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
            },
            time_limit: limits.time_limit,
            drain_limit: limits.drain_limit,
            dead_letter_queue: None,
            crash_points: CrashPoints::new(false),
        }
    }
}

impl ConsumerSettings {
    /// The defaults with the dead-letter queue `service` collects for its inbox's queue: the one
    /// named after it, else its first.
    pub fn of(service: &Service) -> Self {
        let queue = service.inbox.as_ref().map(|inbox| inbox.queue.as_str());
        let collected = service
            .dead_letters
            .as_ref()
            .map(|part| part.queues.as_slice())
            .unwrap_or_default();
        let own = collected
            .iter()
            .find(|name| queue.is_some_and(|queue| name.starts_with(queue)))
            .or_else(|| collected.first());
        Self {
            dead_letter_queue: own.cloned(),
            ..Self::default()
        }
    }

    /// The same with the limits of a context, and its crash points if it is a sandbox.
    #[must_use]
    pub fn in_context(self, context: &Context) -> Self {
        let limits = &context.consumer;
        Self {
            prefetch: limits.prefetch,
            lanes: limits.lanes,
            retry_delays: limits.retry_delays.clone(),
            time_limit: limits.time_limit,
            drain_limit: limits.drain_limit,
            crash_points: context.environment.crash_points(),
            ..self
        }
    }

    /// The longest time from an event's first try to the end of its last.
    pub(super) fn retry_span(&self) -> Duration {
        let waits = self
            .retry_delays
            .iter()
            .fold(Duration::ZERO, |sum, wait| sum.saturating_add(*wait));
        let tries = u32::try_from(self.retry_delays.len()).unwrap_or(u32::MAX);
        let tries = self.time_limit.saturating_mul(tries.saturating_add(1));
        waits.saturating_add(tries)
    }

    /// The wait after a failed try, or `None` when that was the last.
    pub(super) fn delay_after(&self, attempt: u32) -> Option<Duration> {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        self.retry_delays.get(index).copied()
    }
}
