//! Publishes one service's outbox: claim, publish with confirms, complete by token.
//!
//! ```text
//! flow blocked? ─ yes ─▶ claim nothing
//!      │ no
//! claim ─▶ publish (renewing while it is slow) ─▶ confirmed: sent mark by token
//!                                               ─▶ the rest: verdict ─▶ pending later, or failed
//! ```
//!
//! A crash anywhere leaves rows under a lease; when it has run out the reaper sets them back, they are
//! sent again under the same id, and the inbox absorbs the duplicate. A completion that matches fewer
//! rows than it names has lost its fence: counted and shown, never ignored. Only where an answer was lost and
//! the statement was sent again, the rows are read first: those it had changed already are not lost.

mod batch;
mod pass;
mod verdict;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::{Report, Worker};
use crate::base::crash::CrashPoints;
use crate::broker::{Broker, Flow, Publisher};
use crate::config::{DispatcherSettings, OutboxPart};
use crate::store::Store;
pub use pass::{AFTER_CLAIM, AFTER_CONFIRM};
use pass::{Desk, Pass};

/// Registered name.
pub const NAME: &str = "dispatcher";

/// The dispatcher of one service.
pub struct Dispatcher {
    desk: Desk,
    publisher: Option<Box<dyn Publisher>>,
}

impl Dispatcher {
    /// A dispatcher; reaches nothing yet.
    ///
    /// # Errors
    /// A sentence with the arithmetic when a batch could outlive its lease: a second dispatcher would
    /// then send rows that this one is still sending.
    pub fn new(
        service: &str,
        part: OutboxPart,
        settings: DispatcherSettings,
        ports: (Arc<dyn Store>, Arc<dyn Broker>),
    ) -> Result<Self, String> {
        settings.check().map_err(|found| {
            format!(
                "{service}: dispatcher.{}: {}; {}",
                found.keys[0], found.problem, found.fix
            )
        })?;
        Ok(Self {
            desk: Desk {
                service: service.to_owned(),
                part,
                settings,
                is_fenced: ports.0.facts().is_fenced,
                store: ports.0,
                broker: ports.1,
                crash_points: CrashPoints::new(false),
                unmarked: Mutex::default(),
            },
            publisher: None,
        })
    }

    /// With crash points for drills.
    #[must_use]
    pub fn with_crash_points(mut self, crash_points: CrashPoints) -> Self {
        self.desk.crash_points = crash_points;
        self
    }

    /// A publisher, before anything is claimed: no broker, no claim.
    async fn publisher(&mut self) -> Result<&dyn Publisher, String> {
        let refuse = |why: String| format!("{why}; nothing is claimed");
        if let Some(blocked) = self.desk.blocked() {
            return Err(refuse(blocked));
        }
        let publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => self
                .desk
                .broker
                .publisher()
                .await
                .map_err(|e| refuse(e.to_string()))?,
        };
        let publisher = self.publisher.insert(publisher);
        match publisher.flow() {
            Flow::Blocked(reason) => Err(refuse(format!("broker blocked: {reason}"))),
            Flow::Open | Flow::Unknown => Ok(&**publisher),
        }
    }
}

#[async_trait]
impl Worker for Dispatcher {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.desk.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.desk.service);
        match self.publisher().await {
            Err(problem) => {
                report.problem = Some(problem);
                report
            }
            Ok(_) => match &self.publisher {
                Some(publisher) => Pass::new(&self.desk, &**publisher, report).run().await,
                None => report,
            },
        }
    }

    async fn drain(&mut self) {
        // Nothing is held between passes: every claim of a pass is completed or given back in it.
        self.publisher = None;
    }

    fn idle(&self) -> Duration {
        self.desk.settings.idle
    }
}

#[cfg(test)]
mod tests;
