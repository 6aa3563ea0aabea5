//! The pipeline itself. A worker is `run_once() -> Report` and a dumb loop; what it decides is in
//! pure functions; what it waits for has a limit.

mod copy;
pub mod dead_letter_collector;
pub mod death;
pub mod dispatcher;
pub mod headers;
pub mod message;
mod subscription;

use async_trait::async_trait;
use serde::Serialize;

/// What one pass of a worker did. The pane, the log and the tests read the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Registered name, e.g. `dispatcher`.
    pub worker: String,
    /// Service it works for.
    pub service: String,
    /// Counters of this pass, e.g. `("sent", 12)`; only those that are not zero.
    pub counts: Vec<(String, u64)>,
    /// Anything that went wrong, for a person.
    pub problem: Option<String>,
    /// True when there was nothing to do.
    pub is_idle: bool,
}

impl Report {
    /// An empty report.
    pub fn new(worker: &str, service: &str) -> Self {
        Self {
            worker: worker.to_owned(),
            service: service.to_owned(),
            ..Self::default()
        }
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: &str, n: u64) {
        if n == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(name, _)| name == counter) {
            Some((_, total)) => *total += n,
            None => self.counts.push((counter.to_owned(), n)),
        }
    }

    /// A counter's value; 0 when it was never counted.
    pub fn get(&self, counter: &str) -> u64 {
        self.counts
            .iter()
            .find(|(name, _)| name == counter)
            .map_or(0, |(_, n)| *n)
    }
}

/// A worker of the pipeline.
#[async_trait]
pub trait Worker: Send {
    /// Registered name.
    fn name(&self) -> &'static str;
    /// Service it works for.
    fn service(&self) -> &str;
    /// One pass. Never fails: a problem is in the report, and the loop backs off.
    ///
    /// # Cancel safety
    /// Not cancel safe; the loop stops between passes.
    async fn run_once(&mut self) -> Report;
    /// Gives back what is held (leases, unacknowledged messages) before stopping.
    async fn drain(&mut self);
}
