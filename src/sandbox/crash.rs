//! A second dispatcher of the orders service that dies now and then between claim and publish: its
//! rows stay under a lease that runs out, as after a killed process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::pipeline::{Report, Worker};
use crate::store::{ClaimRequest, Store, StoreError};

/// Registered name.
const NAME: &str = "crash";
/// Between two crashes.
const EVERY: Duration = Duration::from_secs(40);
/// Lease of the doomed claim.
const LEASE: Duration = Duration::from_secs(3);
/// Rows it takes with it.
const ROWS: u32 = 2;
/// No further crash while so many leases lie around: somebody has to release them.
const LEFT_MAX: usize = 3;

/// Claims and dies.
pub(super) struct Crash {
    store: Arc<dyn Store>,
    next: Instant,
}

impl Crash {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            next: Instant::now() + EVERY,
        }
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), StoreError> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let leases = self.store.leases(100).await?;
        if leases.groups.len() >= LEFT_MAX {
            self.next = Instant::now() + EVERY;
            return Ok(());
        }
        let claim = self
            .store
            .claim_batch(&ClaimRequest {
                batch_rows: ROWS,
                lease: LEASE,
            })
            .await?;
        // With nothing due it tries again at the next pass.
        if !claim.events.is_empty() {
            self.next = Instant::now() + EVERY;
            report.add("crashes", 1);
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Crash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &'static str {
        "orders"
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, self.service());
        report.is_idle = true;
        report.problem = self.pass(&mut report).await.err().map(|e| e.to_string());
        report
    }

    async fn drain(&mut self) {}
}
