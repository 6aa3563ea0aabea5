//! Reconciling: read-only scans that compare what should agree, and keep what differs as findings. A scan
//! starts from authoritative rows, not from counts; what it could not read is part of its result; it never
//! repairs anything by itself.
//!
//! [`check`] says what is compared, one file a check ([`check::CHECKS`]), `rule` runs the SQL rules of the
//! configuration, `backlog` tells waiting from lost, and the engine goes through pages, looks twice, and
//! records.

mod backlog;
pub mod check;
mod engine;
mod keeper;
mod patience;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::config::Context;
use crate::model::count::Count;
use crate::model::ids::ScanId;
use crate::model::page::Page;
use crate::model::scan::{Difference, Finding, FindingQuery, Scan};
use crate::ports::Ports;
use crate::store::{Guarded, Store, StoreError, StoreResult};
use check::{CHECKS, Check, Ground};

/// A rule that can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleFacts {
    /// Its name.
    pub name: String,
    /// What it compares, in one line.
    pub about: String,
    /// True for a check on the tables alone, false for SQL of the configuration.
    pub is_built_in: bool,
}

/// Why a scan could not be started or looked at.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReconcileError {
    /// There is no such rule.
    #[error("there is no rule {name:?}; {fix}")]
    NoRule {
        /// What was asked for.
        name: String,
        /// What to ask for instead.
        fix: String,
    },
    /// There is no such scan or finding, or more than one.
    #[error("{0}")]
    NotFound(String),
    /// Nothing is kept in a read-only context, so nothing can be resumed or stopped.
    #[error("{0}")]
    Refused(String),
    /// What the database said.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who watches a scan, and how it is told to stop.
#[derive(Clone)]
pub struct Watch {
    /// Told to stop: it ends as stopped after the page it is in.
    pub stop: CancellationToken,
    /// Called with every step.
    pub tell: Arc<dyn Fn(&Scan) + Send + Sync>,
}

impl Watch {
    /// Nobody watches.
    pub fn nobody() -> Self {
        Self {
            stop: CancellationToken::new(),
            tell: Arc::new(|_| {}),
        }
    }
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The scan.
    pub scan: Scan,
    /// What it found, in the order it was found.
    pub found: Vec<Difference>,
    /// Why nothing was recorded; `None` when it was.
    pub not_recorded: Option<String>,
}

/// Runs scans and reads what they left.
pub struct Reconciler {
    ports: Ports,
    actor: String,
    is_read_only: bool,
}

impl Reconciler {
    /// For a context; `actor` is `user@host`.
    pub fn new(ports: Ports, actor: String, is_read_only: bool) -> Self {
        Self {
            ports,
            actor,
            is_read_only,
        }
    }

    /// Every rule of the context.
    pub fn rules(&self) -> Vec<RuleFacts> {
        rules_of(&self.ports.context)
    }

    fn check(&self, name: &str) -> Result<Box<dyn Check>, ReconcileError> {
        if let Some(check) = CHECKS.iter().find(|check| check.name == name) {
            return Ok((check.build)());
        }
        let rules = &self.ports.context.scan.rules;
        if let Some(rule) = rules.iter().find(|rule| rule.name == name) {
            return Ok(Box::new(rule::RuleCheck::new(rule.clone())));
        }
        let known: Vec<String> = self.rules().into_iter().map(|rule| rule.name).collect();
        Err(ReconcileError::NoRule {
            name: name.to_owned(),
            fix: format!("`redrive scan list` shows them: {}", known.join(", ")),
        })
    }

    fn ground(&self) -> Ground {
        let settings = &self.ports.context.scan;
        Ground {
            ports: self.ports.clone(),
            grace: settings.grace,
            window: settings.window,
            away: Arc::default(),
        }
    }

    /// The service whose journal keeps the scans: the first one that has a journal.
    pub fn home(&self) -> Option<(&str, &Arc<dyn Store>)> {
        self.ports
            .iter()
            .find(|(service, _)| service.journal)
            .map(|(service, store)| (service.name.as_str(), store))
    }

    fn kept(&self) -> Result<&Arc<dyn Store>, ReconcileError> {
        self.home().map(|(_, store)| store).ok_or_else(|| {
            ReconcileError::Refused(
                "no service of the context has a journal, so no scan is kept: set `journal = true` for one \
                 and run `redrive migrate`"
                    .to_owned(),
            )
        })
    }

    /// Runs a rule to its end, or until it is stopped.
    ///
    /// # Errors
    /// For a rule that does not exist, and when the scan cannot be recorded. What cannot be compared is part
    /// of the outcome instead.
    pub async fn run(&self, rule: &str, watch: &Watch) -> Result<Outcome, ReconcileError> {
        let check = self.check(rule)?;
        let keeper = keeper::Keeper::begin(self, rule).await?;
        Ok(engine::run(self, check.as_ref(), keeper, watch).await)
    }

    /// Goes on with a scan that was stopped, failed, or whose process died; by its id or the start of it.
    ///
    /// # Errors
    /// For a scan that does not exist, is over, or is still worked on.
    pub async fn resume(&self, id: &str, watch: &Watch) -> Result<Outcome, ReconcileError> {
        let scan = self.scan(id).await?;
        let check = self.check(&scan.rule)?;
        let keeper = keeper::Keeper::resume(self, scan).await?;
        Ok(engine::run(self, check.as_ref(), keeper, watch).await)
    }

    /// Stops a running scan, whoever runs it.
    ///
    /// # Errors
    /// For a scan that does not exist or does not run.
    pub async fn stop(&self, id: &str) -> Result<Scan, ReconcileError> {
        if self.is_read_only {
            return Err(ReconcileError::Refused(
                "the context is read-only: nothing is written".to_owned(),
            ));
        }
        let scan = self.scan(id).await?;
        match self.kept()?.stop_scan(&scan.scan_id).await? {
            Guarded::Done => self.scan(scan.scan_id.as_str()).await,
            Guarded::LostRace => Err(ReconcileError::Refused(format!(
                "scan {} is {}, not running",
                scan.scan_id,
                scan.state.word()
            ))),
        }
    }

    /// One scan by its id, or the start of one that is unique.
    ///
    /// # Errors
    /// For none, or several.
    pub async fn scan(&self, id: &str) -> Result<Scan, ReconcileError> {
        only(self.kept()?.scans_by_prefix(id).await?, "scan", id)
    }

    /// One finding by its id, or the start of one that is unique.
    ///
    /// # Errors
    /// For none, or several.
    pub async fn finding(&self, id: &str) -> Result<Finding, ReconcileError> {
        only(self.kept()?.findings_by_prefix(id).await?, "finding", id)
    }

    /// Scans, newest first.
    ///
    /// # Errors
    /// What the database said.
    pub async fn scans(&self, limit: u32) -> Result<Page<Scan>, ReconcileError> {
        Ok(self.kept()?.scans_page(None, limit).await?)
    }

    /// A page of findings.
    ///
    /// # Errors
    /// What the database said.
    pub async fn findings(&self, query: &FindingQuery) -> Result<Page<Finding>, ReconcileError> {
        Ok(self.kept()?.findings_page(query).await?)
    }

    /// Open findings, capped; `None` where nothing keeps them.
    ///
    /// # Errors
    /// What the database said.
    pub async fn open_findings(&self) -> StoreResult<Option<Count>> {
        match self.home() {
            None => Ok(None),
            Some((_, store)) => store.open_findings().await,
        }
    }
}

/// Every rule of a context: the checks, then those of the configuration.
pub fn rules_of(context: &Context) -> Vec<RuleFacts> {
    let built_in = CHECKS.iter().map(|check| RuleFacts {
        name: check.name.to_owned(),
        about: check.about.to_owned(),
        is_built_in: true,
    });
    let own = context.scan.rules.iter().map(|rule| RuleFacts {
        name: rule.name.clone(),
        about: rule.about.clone(),
        is_built_in: false,
    });
    built_in.chain(own).collect()
}

trait Named {
    fn id(&self) -> &str;
}

impl Named for Scan {
    fn id(&self) -> &str {
        self.scan_id.as_str()
    }
}

impl Named for Finding {
    fn id(&self) -> &str {
        self.finding_id.as_str()
    }
}

fn only<T: Named>(mut found: Vec<T>, what: &str, id: &str) -> Result<T, ReconcileError> {
    if let Some(at) = found.iter().position(|one| one.id() == id) {
        return Ok(found.swap_remove(at));
    }
    match (found.len(), found.pop()) {
        (1, Some(one)) => Ok(one),
        (0, _) => Err(ReconcileError::NotFound(format!("there is no {what} {id}"))),
        (n, _) => Err(ReconcileError::NotFound(format!(
            "{n} {what}s begin with {id}: write more of the id"
        ))),
    }
}

/// An id for a scan that is not recorded.
fn unrecorded_id() -> ScanId {
    ScanId::generate()
}
