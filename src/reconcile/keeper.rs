//! Where a scan's progress and findings go: the journal's database, fenced by a token; or nowhere, in a
//! context that is read-only or keeps no journal, and then the outcome says so.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::patience::patiently;
use super::{ReconcileError, Reconciler, unrecorded_id};
use crate::base::clock::Timestamp;
use crate::model::ids::ClaimToken;
use crate::model::scan::{Difference, Progress, Scan, ScanState};
use crate::store::scan::{NewFindings, NewScan, ScanStep};
use crate::store::{Guarded, Store, StoreResult};

/// How long a scan is believed alive without a sign. A page takes at most some statement time limits.
const LEASE: Duration = Duration::from_mins(2);
/// Differences written in one transaction.
const BATCH: usize = 100;

/// Keeps one scan.
pub(super) struct Keeper {
    /// The scan as it stands.
    pub scan: Scan,
    /// Why nothing is recorded.
    pub not_recorded: Option<String>,
    kept: Option<(Arc<dyn Store>, ClaimToken)>,
}

impl Keeper {
    /// Records a scan that starts.
    pub async fn begin(of: &Reconciler, rule: &str) -> Result<Self, ReconcileError> {
        let mut keeper = Self {
            scan: Scan {
                scan_id: unrecorded_id(),
                rule: rule.to_owned(),
                state: ScanState::Running,
                actor: of.actor.clone(),
                started_at: of.ports.clock.now(),
                finished_at: None,
                lease_until: None,
                rows_read: 0,
                not_compared: Vec::new(),
                progress: Progress::default(),
            },
            not_recorded: None,
            kept: None,
        };
        let Some((_, store)) = of.home() else {
            keeper.not_recorded =
                Some("not recorded: no service of the context has a journal".to_owned());
            return Ok(keeper);
        };
        if of.is_read_only {
            keeper.not_recorded = Some("not recorded: the context is read-only".to_owned());
            return Ok(keeper);
        }
        let token = ClaimToken::generate();
        let new = NewScan {
            scan_id: keeper.scan.scan_id.clone(),
            rule: rule.to_owned(),
            actor: of.actor.clone(),
            token: token.clone(),
            lease: LEASE,
            progress: Progress::default(),
        };
        store.begin_scan(&new).await?;
        keeper.scan = of.scan(new.scan_id.as_str()).await?;
        keeper.kept = Some((Arc::clone(store), token));
        Ok(keeper)
    }

    /// Takes over a scan that nobody works on.
    pub async fn resume(of: &Reconciler, scan: Scan) -> Result<Self, ReconcileError> {
        if of.is_read_only {
            return Err(ReconcileError::Refused(
                "the context is read-only: a scan cannot be taken over; run the rule anew"
                    .to_owned(),
            ));
        }
        let store = of.kept()?;
        let token = ClaimToken::generate();
        match store.resume_scan(&scan.scan_id, &token, LEASE).await? {
            Guarded::Done => {}
            Guarded::LostRace => {
                let why = match scan.state {
                    ScanState::Running => format!(
                        "scan {} is still worked on by {}; stop it first, or wait until its lease is over",
                        scan.scan_id, scan.actor
                    ),
                    _ => format!("scan {} is {}", scan.scan_id, scan.state.word()),
                };
                return Err(ReconcileError::Refused(why));
            }
        }
        let mut scan = of.scan(scan.scan_id.as_str()).await?;
        // Parts that could not be read before are not read again; they stay in the result.
        scan.finished_at = None;
        Ok(Self {
            scan,
            not_recorded: None,
            kept: Some((Arc::clone(store), token)),
        })
    }

    fn next(&self, state: ScanState, progress: &Progress, token: &ClaimToken) -> ScanStep {
        ScanStep {
            scan_id: self.scan.scan_id.clone(),
            token: token.clone(),
            lease: LEASE,
            state,
            rows_read: self.scan.rows_read,
            not_compared: self.scan.not_compared.clone(),
            progress: progress.clone(),
        }
    }

    /// Writes how far it is; `progress` may be behind what has been counted. `Ok(false)`: it was stopped
    /// or taken over.
    pub async fn step(&self, progress: &Progress, stop: &CancellationToken) -> StoreResult<bool> {
        let Some((store, token)) = &self.kept else {
            return Ok(true);
        };
        let step = self.next(ScanState::Running, progress, token);
        let stepped = patiently(stop, || store.step_scan(&step)).await?;
        Ok(stepped == Guarded::Done)
    }

    /// Writes that it is over. `Ok(false)`: it was stopped or taken over.
    pub async fn end(&mut self, state: ScanState, progress: &Progress) -> StoreResult<bool> {
        self.scan.state = state;
        let Some((store, token)) = &self.kept else {
            return Ok(true);
        };
        let step = self.next(state, progress, token);
        // Who stops a scan wants its end written: nothing cuts these tries short.
        let whatever = CancellationToken::new();
        let mut tries = 0;
        let ended = patiently(&whatever, || {
            tries += 1;
            store.step_scan(&step)
        })
        .await?;
        if ended == Guarded::Done || tries == 1 {
            return Ok(ended == Guarded::Done);
        }
        // An earlier try may have been committed without an answer; then this one finds it over.
        let kept = store.scans_by_prefix(self.scan.scan_id.as_str()).await?;
        Ok(kept.iter().any(|scan| scan.state == state))
    }

    /// Writes what was found. `Ok(false)`: it was stopped or taken over.
    pub async fn record(
        &self,
        differences: &[Difference],
        stop: &CancellationToken,
    ) -> StoreResult<bool> {
        let Some((store, token)) = &self.kept else {
            return Ok(true);
        };
        for batch in differences.chunks(BATCH) {
            let found = NewFindings {
                scan_id: self.scan.scan_id.clone(),
                rule: self.scan.rule.clone(),
                differences: batch.to_vec(),
            };
            let recorded = patiently(stop, || store.record_findings(token, &found));
            if recorded.await? == Guarded::LostRace {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Findings that are no longer there; the number.
    pub async fn clear(
        &self,
        since: Option<Timestamp>,
        stop: &CancellationToken,
    ) -> StoreResult<u64> {
        let Some((store, token)) = &self.kept else {
            return Ok(0);
        };
        let (rule, id) = (&self.scan.rule, &self.scan.scan_id);
        let mut cleared = 0;
        loop {
            let some = patiently(stop, || store.clear_findings(token, rule, id, since));
            let now = some.await?;
            cleared += now;
            if now == 0 {
                return Ok(cleared);
            }
        }
    }
}
