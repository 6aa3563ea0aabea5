//! One queue as a worker reads it: opened when needed, opened again with backoff, and honest about
//! being cut off (B-07, B-08). One log line a change of state, none an attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::base::backoff::Backoff;
use crate::base::clock::{Clock, Timestamp};
use crate::broker::{Broker, BrokerError, BrokerResult, Consumer, Delivery};

/// How long a pass waits for a message when none is known to be there.
const PATIENCE: Duration = Duration::from_millis(10);
/// How long it waits for messages the queue said it holds.
const PATIENCE_FOR_KNOWN: Duration = Duration::from_secs(2);
/// Between tries to open a lost subscription.
const REOPEN: Backoff = Backoff {
    base: Duration::from_millis(250),
    cap: Duration::from_secs(30),
};

/// Why nothing can be read now.
#[derive(Clone, Debug, PartialEq)]
struct Trouble {
    since: Timestamp,
    reason: String,
}

/// A queue and the subscription to it, if there is one now.
pub(super) struct Subscription {
    queue: String,
    prefetch: u16,
    broker: Arc<dyn Broker>,
    clock: Clock,
    consumer: Option<Box<dyn Consumer>>,
    /// Messages the queue held when it was opened and that have not arrived yet.
    known: u64,
    failures: u32,
    retry_at: Option<Instant>,
    trouble: Option<Trouble>,
    last_at: Option<Timestamp>,
}

impl Subscription {
    /// A subscription to be opened by the first [`Subscription::open`].
    pub(super) fn new(queue: &str, prefetch: u16, broker: Arc<dyn Broker>, clock: Clock) -> Self {
        Self {
            queue: queue.to_owned(),
            prefetch,
            broker,
            clock,
            consumer: None,
            known: 0,
            failures: 0,
            retry_at: None,
            trouble: None,
            last_at: None,
        }
    }

    /// The queue.
    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// True when the next [`Subscription::open`] would try.
    pub(super) fn is_due(&self) -> bool {
        self.consumer.is_none() && self.retry_at.is_none_or(|at| Instant::now() >= at)
    }

    /// The next [`Subscription::open`] tries, however long the pause still was. If that fails, the next
    /// pause is longer none the less.
    pub(super) fn try_again(&mut self) {
        self.retry_at = None;
    }

    /// Opens it if it is not open and a try is due. `true` when it is freshly open.
    ///
    /// # Errors
    /// What is wrong, since when, for a person.
    pub(super) async fn open(&mut self) -> Result<bool, String> {
        if self.consumer.is_some() {
            return Ok(false);
        }
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(self.describe());
        }
        match self.try_open().await {
            Ok(consumer) => {
                self.consumer = Some(consumer);
                self.retry_at = None;
                Ok(true)
            }
            Err(error) => {
                self.lost(&error.to_string());
                Err(self.describe())
            }
        }
    }

    async fn try_open(&mut self) -> BrokerResult<Box<dyn Consumer>> {
        // Asked first: a missing queue then costs no channel.
        let depth = self.broker.depth(&self.queue).await?;
        let Some(depth) = depth else {
            return Err(BrokerError::NotFound(format!(
                "queue {:?} does not exist on {}; create it or correct the configuration",
                self.queue,
                self.broker.name()
            )));
        };
        self.known = depth.ready;
        self.broker.consumer(&self.queue, self.prefetch).await
    }

    /// The next message, or `None` when none came within the patience.
    pub(super) async fn next(&mut self) -> Result<Option<Delivery>, String> {
        let Some(consumer) = self.consumer.as_mut() else {
            return Err(self.describe());
        };
        let patience = if self.known > 0 {
            PATIENCE_FOR_KNOWN
        } else {
            PATIENCE
        };
        match timeout(patience, consumer.next()).await {
            Ok(Ok(delivery)) => {
                self.known = self.known.saturating_sub(1);
                Ok(Some(delivery))
            }
            Ok(Err(error)) => {
                self.lost(&error.to_string());
                Err(self.describe())
            }
            Err(_) => {
                self.known = 0;
                self.is_well();
                Ok(None)
            }
        }
    }

    /// The next message; waits for ever.
    ///
    /// # Cancel safety
    /// Cancel safe, as [`Consumer::next`] is.
    pub(super) async fn arrive(&mut self) -> Result<Delivery, String> {
        let Some(consumer) = self.consumer.as_mut() else {
            return Err(self.describe());
        };
        match consumer.next().await {
            Ok(delivery) => {
                self.known = self.known.saturating_sub(1);
                Ok(delivery)
            }
            Err(error) => {
                self.lost(&error.to_string());
                Err(self.describe())
            }
        }
    }

    /// Acknowledges one, or all up to it.
    pub(super) async fn ack(&mut self, tag: u64, up_to: bool) -> Result<(), String> {
        let Some(consumer) = self.consumer.as_mut() else {
            return Err(self.describe());
        };
        match consumer.ack(tag, up_to).await {
            Ok(()) => {
                self.is_well();
                self.last_at = Some(self.clock.now());
                Ok(())
            }
            Err(error) => {
                self.lost(&error.to_string());
                Err(self.describe())
            }
        }
    }

    /// Refuses one.
    pub(super) async fn reject(&mut self, tag: u64, requeue: bool) -> Result<(), String> {
        let Some(consumer) = self.consumer.as_mut() else {
            return Err(self.describe());
        };
        match consumer.reject(tag, requeue).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.lost(&error.to_string());
                Err(self.describe())
            }
        }
    }

    /// Gives every unacknowledged message back and tries again later, because of `reason`: holding
    /// them for a slow database would end in the broker's consumer timeout (B-09).
    pub(super) async fn give_back(&mut self, reason: &str) {
        if let Some(consumer) = self.consumer.take() {
            consumer.close().await;
        }
        self.lost(reason);
    }

    /// Closes it in peace.
    pub(super) async fn close(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            consumer.close().await;
        }
    }

    fn lost(&mut self, reason: &str) {
        self.consumer = None;
        self.known = 0;
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(Instant::now() + REOPEN.delay(self.failures));
        if self.trouble.as_ref().is_none_or(|t| t.reason != reason) {
            tracing::warn!(queue.name = self.queue, reason, "queue is not being read");
        }
        let since = self
            .trouble
            .as_ref()
            .map_or_else(|| self.clock.now(), |t| t.since);
        self.trouble = Some(Trouble {
            since,
            reason: reason.to_owned(),
        });
    }

    fn is_well(&mut self) {
        self.failures = 0;
        if self.trouble.take().is_some() {
            tracing::info!(queue.name = self.queue, "queue is being read again");
        }
    }

    /// What is wrong and since when, for a person.
    pub(super) fn describe(&self) -> String {
        let last = self.last_at.map_or_else(
            || "nothing read yet".to_owned(),
            |at| format!("last read {}", at.to_clock()),
        );
        match &self.trouble {
            Some(trouble) => format!(
                "{}: not read since {} ({last}): {}",
                self.queue,
                trouble.since.to_clock(),
                trouble.reason
            ),
            None => format!("{}: not open ({last})", self.queue),
        }
    }
}
