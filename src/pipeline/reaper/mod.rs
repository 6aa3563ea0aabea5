//! Takes back what dead dispatchers hold: rows whose lease has run out go back to pending, guarded by
//! state *and* time on the database's clock, some hundred at a time so that locks stay short.
//!
//! A layout without a lease cannot say when a row is overdue. Nothing is taken back there; a row that
//! stays claimed under the same attempt for longer than a lease would last is told in every report.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Report, Worker};
use crate::base::human;
use crate::config::DispatcherSettings;
use crate::model::ids::EventId;
use crate::model::outbox::{OutboxQuery, OutboxState};
use crate::store::{Store, StoreError};

/// Registered name.
pub const NAME: &str = "reaper";

/// Claimed rows looked at where nothing can be taken back.
const LOOKED_AT: u32 = 100;

/// The reaper of one service's outbox.
pub struct Reaper {
    service: String,
    settings: DispatcherSettings,
    store: Arc<dyn Store>,
    /// Claimed rows of a layout without a lease, each with its attempt, and since when they are seen.
    seen: HashMap<(EventId, Option<i64>), Instant>,
}

impl Reaper {
    /// A reaper; reaches nothing yet.
    pub fn new(service: &str, settings: DispatcherSettings, store: Arc<dyn Store>) -> Self {
        Self {
            service: service.to_owned(),
            settings,
            store,
            seen: HashMap::new(),
        }
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), StoreError> {
        if !self.store.facts().is_fenced {
            return self.watch(report).await;
        }
        let reaped = self.store.reap(self.settings.reap_rows).await?;
        report.is_idle = reaped.rows < u64::from(self.settings.reap_rows);
        report.add("reaped", reaped.rows);
        for (token, rows) in &reaped.claims {
            report.add("claims", 1);
            tracing::warn!(
                service = self.service,
                claim = token.as_ref().map_or("?", |token| token.as_str()),
                rows,
                "a lease ran out: its rows are pending again and may be sent twice under the same id"
            );
        }
        Ok(())
    }

    /// What stays claimed where there is no lease.
    async fn watch(&mut self, report: &mut Report) -> Result<(), StoreError> {
        report.is_idle = true;
        let query = OutboxQuery {
            state: OutboxState::Sending,
            after: None,
            limit: LOOKED_AT,
            event_type: None,
        };
        let page = self.store.outbox_page(&query).await?;
        let now = Instant::now();
        self.seen = page
            .rows
            .into_iter()
            .map(|row| {
                let claim = (row.event_id, row.attempts);
                let since = self.seen.get(&claim).copied().unwrap_or(now);
                (claim, since)
            })
            .collect();
        let mut stuck: Vec<(&EventId, Duration)> = self
            .seen
            .iter()
            .map(|((event_id, _), since)| (event_id, now.duration_since(*since)))
            .filter(|(_, held)| *held >= self.settings.lease)
            .collect();
        stuck.sort_by_key(|(event_id, held)| (std::cmp::Reverse(*held), *event_id));
        report.add("stuck", u64::try_from(stuck.len()).unwrap_or(u64::MAX));
        if let Some((event_id, held)) = stuck.first() {
            report.problem = Some(format!(
                "{}{} claimed rows did not move for {}, e.g. {event_id}: this layout has no lease, so \
                 nothing tells a dead dispatcher from a slow one and nothing takes them back; when none \
                 works on them, set them back to pending (they may be sent twice under the same id)",
                stuck.len(),
                if page.next.is_some() { " or more" } else { "" },
                human::duration(*held)
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Reaper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        if let Err(error) = self.pass(&mut report).await {
            report.is_idle = false;
            report.problem = Some(error.to_string());
        }
        report
    }

    async fn drain(&mut self) {
        // It holds nothing.
    }

    fn idle(&self) -> Duration {
        let DispatcherSettings { reap_every, .. } = self.settings;
        reap_every
    }
}

#[cfg(test)]
mod tests;
