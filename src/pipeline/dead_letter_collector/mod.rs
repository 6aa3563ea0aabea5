//! Dead-letter queues into the dead-letter table: row committed, then acknowledged, never the other
//! way round (invariant 5).
//!
//! ```text
//! next ─▶ NewDeath ─▶ record_death ─▶ committed ────────────────▶ ack
//!                        │ the database is away: give all back, wait until it answers, begin again
//!                        │ the table takes no row: keep this one, try it again at a slower pace
//!                        └ this row cannot be stored: copy to <dlq>.parked, confirmed ─▶ ack
//!                                                      └ not confirmed: keep unacknowledged, shown
//! ```
//!
//! A second death of an event is a new death (R-13); the same delivery read twice is not (B-14).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

use super::alerter::Alerter;
use super::{Report, Worker};
use crate::alert::AlertHook;
use crate::base::clock::Clock;
use crate::broker::Broker;
use crate::config::{Context, Service};
use crate::model::alert::Alert;
use crate::store::Store;

mod feed;

use feed::Feed;

/// Registered name.
pub const NAME: &str = "collector";

/// How long a stop waits for alerts that were not told yet.
const LAST_ALERTS: Duration = Duration::from_secs(5);

/// The collector of one service.
pub struct Collector {
    service: String,
    feeds: Vec<Feed>,
    alerter: Option<Alerter>,
}

impl Collector {
    /// A collector of `service`'s dead-letter queues; reaches nothing yet.
    pub fn new(
        context: &Arc<Context>,
        service: &Service,
        ports: (Arc<dyn Store>, Arc<dyn Broker>),
        clock: &Clock,
    ) -> Self {
        let queues = service
            .dead_letters
            .as_ref()
            .map(|part| part.queues.clone())
            .unwrap_or_default();
        let (store, broker) = ports;
        let feeds = queues
            .iter()
            .map(|queue| {
                let ports = (Arc::clone(&store), Arc::clone(&broker));
                Feed::new((context, service), queue, ports, clock)
            })
            .collect();
        Self {
            service: service.name.clone(),
            feeds,
            alerter: None,
        }
    }

    /// The same with somebody who is told about deaths, at most once in `every` a cause.
    #[must_use]
    pub fn telling(self, hook: Arc<dyn AlertHook>, every: Duration) -> Self {
        Self {
            alerter: Some(Alerter::new(hook, every)),
            ..self
        }
    }
}

#[async_trait]
impl Worker for Collector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let reports = join_all(self.feeds.iter_mut().map(Feed::pass)).await;
        let died: Vec<Alert> = self.feeds.iter_mut().flat_map(Feed::take_alerts).collect();
        let mut total = Report::new(NAME, &self.service);
        total.is_idle = reports.iter().all(|report| report.is_idle);
        let mut problems = Vec::new();
        for report in reports {
            for (counter, n) in report.counts {
                total.add(&counter, n);
            }
            problems.extend(report.problem);
        }
        if let Some(alerter) = &mut self.alerter {
            for alert in died {
                alerter.died(alert);
            }
            let progress = alerter.go_on().await;
            total.add("alerts", progress.told);
            total.add("alerts_failed", progress.failed);
            problems.extend(alerter.problem().map(str::to_owned));
        }
        total.problem = (!problems.is_empty()).then(|| problems.join("; "));
        total
    }

    fn try_again(&mut self) {
        for feed in &mut self.feeds {
            feed.try_again();
        }
    }

    async fn drain(&mut self) {
        if let Some(alerter) = &mut self.alerter {
            alerter.finish(LAST_ALERTS).await;
        }
        for feed in &mut self.feeds {
            feed.close().await;
        }
    }
}

#[cfg(test)]
mod tests;
