//! Scans and findings, as the journal that keeps them tells.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Service;
use crate::model::count::Count;
use crate::model::scan::{FindingQuery, FindingState};
use crate::store::Store;

use super::Observer;
use super::reader::joined;
use super::snapshot::{Asked, ScanSnapshot, Unread};

/// Runs on the pane; older ones are looked up by the command line.
const RUNS: u32 = 100;
/// Findings on the pane.
const FINDINGS: u32 = 500;
/// How old the Overview's count may be: findings change with scans, not by themselves.
pub(super) const COUNTED_EVERY: Duration = Duration::from_secs(10);

impl Observer {
    /// Where scans are kept: with the first journal.
    fn home(&self) -> Option<(&Service, &Arc<dyn Store>)> {
        self.ports.iter().find(|(service, _)| service.journal)
    }

    /// The last runs and the open findings.
    pub async fn scans(&self) -> ScanSnapshot {
        let Some((service, store)) = self.home() else {
            return ScanSnapshot {
                unread: vec![Unread {
                    what: "scans".to_owned(),
                    reason: "no service of the context has a journal: no scan is kept".to_owned(),
                    is_unreachable: false,
                }],
                ..ScanSnapshot::default()
            };
        };
        let query = FindingQuery {
            state: FindingState::Open,
            after: None,
            limit: FINDINGS,
        };
        let name = &service.name;
        let (scans, findings, open) = tokio::join!(
            self.reader
                .store(name, "scans", store.scans_page(None, RUNS)),
            self.reader
                .store(name, "findings", store.findings_page(&query)),
            self.reader
                .store(name, "count of findings", store.open_findings()),
        );
        let mut snapshot = ScanSnapshot::default();
        match scans {
            Ok(page) => snapshot.scans = page.rows,
            Err(reason) => snapshot.unread.push(reason),
        }
        match findings {
            Ok(page) => snapshot.findings = page.rows,
            Err(reason) => snapshot.unread.push(reason),
        }
        match open {
            Ok(open) => snapshot.open = open,
            Err(reason) => snapshot.unread.push(reason),
        }
        snapshot
    }

    /// Open findings, counted now and then.
    pub(super) async fn findings_open(&self) -> Result<(Option<Count>, Asked), Unread> {
        let Some((service, store)) = self.home() else {
            return Ok((None, Asked::anew()));
        };
        let name = &service.name;
        let read = async {
            let read = self.reader.store(name, "findings", store.open_findings());
            Ok((read.await?, Asked::anew()))
        };
        self.open_findings.get(name, read).await
    }
}

impl ScanSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        let is_known = self.open.is_some() || !self.scans.is_empty() || !self.findings.is_empty();
        let reasons: Vec<&str> = self.unread.iter().map(|u| u.reason.as_str()).collect();
        (!is_known && !reasons.is_empty()).then(|| joined(&reasons))
    }
}
