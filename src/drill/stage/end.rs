//! The end of a drill: recovery, measured and bounded, and what was found.

use std::time::Duration;

use tokio::time::Instant;

use super::{Role, Stage, Totals, until};
use crate::base::crash::ARMED;
use crate::drill::order::Placed;
use crate::drill::record::{self, Record};
use crate::drill::trouble::Trouble;
use crate::drill::verdict::{Check, Step};
use crate::sandbox;

/// Rounds of the whole pipeline that consume what a stop gives back.
const ROUNDS: usize = 4;

impl Stage<'_> {
    /// The fault is over: recovery is measured from here.
    pub fn fault_is_over(&mut self) {
        self.step("the fault is over");
        self.fault_over = Some(Instant::now());
    }

    /// Waits until nothing of the drill is on its way any more. In vain is no error: what is missing
    /// is told by the claims.
    ///
    /// # Errors
    /// When a server did not answer.
    pub async fn recovers(&mut self) -> Result<(), Trouble> {
        let (ports, numbers) = (self.ports, self.numbers.clone());
        let waited = until("recovery", self.recovery(), async || {
            if record::open(ports, &numbers).await? != (0, 0) {
                return Ok(false);
            }
            let facts = self.facts().await?;
            Ok(facts.record.inbox.iter().all(|inbox| inbox.missing == 0))
        })
        .await;
        match waited {
            Ok(()) => {
                self.recovered();
                Ok(())
            }
            Err(Trouble::Stuck(_)) => {
                self.step(format!("not recovered within {:?}", self.recovery()));
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// It has recovered: the time since the fault's end is the time to recover.
    pub fn recovered(&mut self) {
        self.rto = self.fault_over.map(|at| at.elapsed());
        self.step("recovered");
    }

    /// Runs the whole pipeline until nothing is on its way and every copy is consumed; what it
    /// counted.
    ///
    /// # Errors
    /// When it cannot be started, or a server did not answer.
    pub async fn recovers_with_everything(&mut self) -> Result<Totals, Trouble> {
        let mut totals = Totals::default();
        // Stopping gives unhandled copies back: a second round consumes them.
        for _ in 0..ROUNDS {
            let rest = self.start(Role::ALL, None)?;
            if self.rto.is_none() {
                self.recovers().await?;
            }
            let is_over = self.is_consumed().await?;
            totals.merge(&self.stop(rest).await?);
            if self.rto.is_none() || (is_over && self.is_given_back_nothing().await?) {
                break;
            }
        }
        Ok(totals)
    }

    /// Waits until nothing is ready in any work queue; `false` when that is not in time.
    async fn is_consumed(&self) -> Result<bool, Trouble> {
        let waited = until("quiet queues", self.patience(), async || {
            self.is_quiet().await
        })
        .await;
        match waited {
            Ok(()) => Ok(true),
            Err(Trouble::Stuck(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// True when nothing is ready, now that nobody consumes any more.
    async fn is_given_back_nothing(&self) -> Result<bool, Trouble> {
        for (_, queue, _) in sandbox::SERVICES {
            self.consumers(queue, 0).await?;
        }
        self.is_quiet().await
    }

    /// True when nothing is ready in any work queue.
    ///
    /// # Errors
    /// When the broker did not answer.
    pub async fn is_quiet(&self) -> Result<bool, Trouble> {
        for (_, queue, _) in sandbox::SERVICES {
            if self.ready(queue).await? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the drill found, and how long it took.
    pub fn close(self) -> Findings {
        self.tasks.cancel();
        ARMED.disarm();
        Findings {
            placed: self.placed,
            deliveries: self.deliveries.into_iter().collect(),
            rto: self.rto,
            steps: self.steps,
            checks: self.checks,
            before: self.before,
            dead_letters: self.dead_letters,
            took: self.began.elapsed(),
        }
    }
}

/// What is left of a stage.
pub struct Findings {
    /// Committed orders.
    pub placed: Vec<Placed>,
    /// By consumer.
    pub deliveries: Vec<(String, u64)>,
    /// From the fault's end.
    pub rto: Option<Duration>,
    /// In order.
    pub steps: Vec<Step>,
    /// Claims of the drill.
    pub checks: Vec<Check>,
    /// Before the fault was over.
    pub before: Option<Record>,
    /// Dead letters that had to come.
    pub dead_letters: u64,
    /// In all.
    pub took: Duration,
}
