//! Events that can be neither done nor buried now, and are not to blame: kept unacknowledged and tried
//! again, each at its own pace. Not given back: each return to a quorum queue counts against its
//! delivery limit, and beyond that the broker takes the event away without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep};

use super::lanes::Job;
use super::letter::Arrived;
use crate::base::backoff::Backoff;

/// How long an event is kept: well under the broker's consumer timeout of 30 minutes.
const HELD_MAX: Duration = Duration::from_mins(10);

/// One event's time here.
struct Hold {
    since: Instant,
    failures: u32,
}

/// What one subscription keeps.
pub(super) struct Held {
    backoff: Backoff,
    holds: BTreeMap<u64, Hold>,
    waits: FuturesUnordered<BoxFuture<'static, Job>>,
    why: String,
}

impl Held {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            holds: BTreeMap::new(),
            waits: FuturesUnordered::new(),
            why: String::new(),
        }
    }

    /// Keeps an event until its next try; `false` when it was kept for too long already.
    pub(super) fn keep(&mut self, tag: u64, arrived: Box<Arrived>, why: String) -> bool {
        let hold = self.holds.entry(tag).or_insert_with(|| Hold {
            since: Instant::now(),
            failures: 0,
        });
        if hold.since.elapsed() >= HELD_MAX {
            return false;
        }
        hold.failures = hold.failures.saturating_add(1);
        let wait = self.backoff.delay(hold.failures);
        self.why = why;
        self.waits.push(
            async move {
                sleep(wait).await;
                Job::Delivery { tag, arrived }
            }
            .boxed(),
        );
        true
    }

    /// True when this one was tried before.
    pub(super) fn has(&self, tag: u64) -> bool {
        self.holds.contains_key(&tag)
    }

    /// The next event whose wait is over; `None` at once when none waits.
    ///
    /// # Cancel safety
    /// Cancel safe: an event whose wait is not over stays.
    pub(super) async fn due(&mut self) -> Option<Job> {
        self.waits.next().await
    }

    /// It was settled after all.
    pub(super) fn over(&mut self, tag: u64) {
        self.holds.remove(&tag);
    }

    /// The subscription is gone: they come again.
    pub(super) fn clear(&mut self) {
        self.holds.clear();
        self.waits.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// How many are kept and why, for a person.
    pub(super) fn problem(&self) -> Option<String> {
        match self.holds.len() {
            0 => None,
            n => Some(format!(
                "{n} in the queue kept unacknowledged and tried again: {}",
                self.why
            )),
        }
    }
}
