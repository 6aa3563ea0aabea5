//! The dispatcher of the notification service, as a standby: it starts only when the dead one's
//! lease has been released by a person, works for a while, and dies between claim and publish. So
//! there is always a lease that has run out, and releasing it can be seen to help.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::pipeline::dispatcher::{self, Dispatcher};
use crate::pipeline::{Report, Worker};
use crate::ports::Ports;
use crate::store::{ClaimRequest, Store, StoreError};

/// The service it works for.
pub(super) const SERVICE: &str = "notification";

/// How long it lives.
const LIFE: Duration = Duration::from_secs(45);
/// Lease of its last claim.
const LEASE: Duration = Duration::from_secs(3);
/// Rows of its last claim at most.
const ROWS: u32 = 3;

/// A dispatcher that dies now and then.
pub(super) struct Standby {
    store: Arc<dyn Store>,
    dispatcher: Dispatcher,
    /// When it dies; `None` while it waits for the release.
    dies_at: Option<Instant>,
}

impl Standby {
    /// `None` when the context has no notification service with an outbox.
    pub(super) fn new(ports: &Ports) -> Result<Option<Self>, String> {
        let (Some(store), Some(broker)) = (ports.store(SERVICE), &ports.broker) else {
            return Ok(None);
        };
        let service = ports.context.service(SERVICE);
        let Some(outbox) = service.and_then(|service| service.outbox.clone()) else {
            return Ok(None);
        };
        let connected = (Arc::clone(store), Arc::clone(broker));
        let dispatcher = Dispatcher::new(SERVICE, outbox, ports.context.dispatcher, connected)?;
        Ok(Some(Self {
            store: Arc::clone(store),
            dispatcher,
            dies_at: None,
        }))
    }

    /// True when a claim's time is up and nobody has released it.
    async fn somebody_is_dead(&self) -> Result<bool, StoreError> {
        let leases = self.store.leases(20).await?;
        Ok(leases
            .groups
            .iter()
            .any(|group| group.left_s.is_some_and(|left| left < 0.0)))
    }

    /// Claims and forgets; `true` when there was something to claim.
    async fn die(&mut self) -> Result<bool, StoreError> {
        let request = ClaimRequest {
            batch_rows: ROWS,
            lease: LEASE,
        };
        let claim = self.store.claim_batch(&request).await?;
        Ok(!claim.events.is_empty())
    }

    async fn pass(&mut self) -> Result<Report, StoreError> {
        let mut report = Report::new(dispatcher::NAME, SERVICE);
        report.is_idle = true;
        let Some(dies_at) = self.dies_at else {
            // Claims that have not run out yet are waited for as well: they may be a dead one's.
            if self.store.leases(1).await?.groups.is_empty() {
                self.dies_at = Some(Instant::now() + LIFE);
            }
            return Ok(report);
        };
        if self.somebody_is_dead().await? {
            self.dies_at = None;
            return Ok(report);
        }
        if Instant::now() >= dies_at && self.die().await? {
            self.dies_at = None;
            report.add("died", 1);
            return Ok(report);
        }
        Ok(self.dispatcher.run_once().await)
    }
}

#[async_trait]
impl Worker for Standby {
    fn name(&self) -> &'static str {
        dispatcher::NAME
    }

    fn service(&self) -> &'static str {
        SERVICE
    }

    async fn run_once(&mut self) -> Report {
        match self.pass().await {
            Ok(report) => report,
            Err(error) => {
                let mut report = Report::new(dispatcher::NAME, SERVICE);
                report.problem = Some(error.to_string());
                report
            }
        }
    }

    async fn drain(&mut self) {
        self.dispatcher.drain().await;
    }
}
