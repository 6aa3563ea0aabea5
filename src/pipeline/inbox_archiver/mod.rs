//! The inbox's retention: rows older than the policy leave the inbox a batch at a time, and the horizon
//! says how far the forgetting has come (I-01).
//!
//! ```text
//! keep = longest of: inbox_retention, replay_window, age of the oldest unresolved dead letter + margin
//!          │ one of them cannot be told: nothing is forgotten
//!          ▼
//! batch: lock the oldest rows ─▶ copy to the archive ─▶ delete ─▶ move the horizon   (one transaction)
//! ```
//!
//! Ages are judged by the database's clock. A row that is gone no longer stops a second effect; the
//! archive only answers people. So a dead letter that may be replayed must never be older than what the
//! inbox remembers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::Instant;

use super::{Report, Worker};
use crate::base::human;
use crate::config::{RetentionSettings, Service};
use crate::model::ids::ConsumerName;
use crate::ports::Ports;
use crate::store::Store;
use crate::store::inbox::ArchiveRequest;

/// Registered name.
pub const NAME: &str = "inbox-archiver";

/// An event is processed before it dies, by up to its retries and what the broker's clock is off by.
const MARGIN: Duration = Duration::from_hours(1);
/// Batches a pass; between two passes a stop is noticed.
const BATCHES: u32 = 10;

/// Forgets one consumer's old inbox rows.
pub struct Archiver {
    service: String,
    consumer: ConsumerName,
    store: Arc<dyn Store>,
    /// Every store of the context that keeps dead letters: any of them may hold this consumer's.
    letters: Vec<Arc<dyn Store>>,
    retention: Option<Duration>,
    retries: Duration,
    settings: RetentionSettings,
    next_at: Instant,
    /// What keeps rows longer than the policy, as it was logged last.
    told: Option<String>,
}

/// How long rows are kept, and what keeps them longest.
#[derive(Debug, PartialEq, Eq)]
struct Keep {
    age: Duration,
    because: Option<String>,
}

impl Archiver {
    /// An archiver of `service`'s inbox; `None` when it has none that may be forgotten, or when nobody
    /// asked for one and the context keeps its inboxes for ever.
    pub fn new(
        ports: &Ports,
        service: &Service,
        store: &Arc<dyn Store>,
        is_named: bool,
    ) -> Option<Self> {
        let context = &ports.context;
        let inbox = service.inbox.as_ref()?;
        let is_ours = inbox.layout == "native";
        let is_due = is_ours && context.inbox_retention.is_some();
        if !(is_named || is_due) {
            return None;
        }
        let letters = ports
            .iter()
            .filter(|(service, _)| service.dead_letters.is_some());
        Some(Self {
            service: service.name.clone(),
            consumer: inbox.consumer.clone(),
            store: Arc::clone(store),
            letters: letters.map(|(_, store)| Arc::clone(store)).collect(),
            retention: context.inbox_retention,
            retries: context.consumer.retry_delays.iter().sum(),
            settings: context.retention.clone(),
            next_at: Instant::now(),
            told: None,
        })
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), String> {
        if Instant::now() < self.next_at {
            return Ok(());
        }
        self.next_at = Instant::now() + self.settings.interval;
        let keep = self.keep().await?;
        if keep.because != self.told {
            if let Some(because) = &keep.because {
                tracing::info!(
                    worker.name = NAME,
                    service = self.service,
                    because,
                    "kept longer"
                );
            }
            self.told.clone_from(&keep.because);
        }
        let request = ArchiveRequest {
            consumer: self.consumer.clone(),
            keep: keep.age,
            rows_max: self.settings.batch_rows,
            archive: self.settings.archive,
        };
        let counter = if self.settings.archive {
            "archived"
        } else {
            "deleted"
        };
        for _ in 0..BATCHES {
            let batch = self
                .store
                .archive_inbox(&request)
                .await
                .map_err(|error| error.to_string())?;
            report.add(counter, batch.rows);
            report.is_idle &= batch.rows == 0;
            if !batch.is_full {
                return Ok(());
            }
        }
        // There is more: at once, after a look whether to stop.
        self.next_at = Instant::now();
        Ok(())
    }

    /// The longest of what asks for rows to be kept.
    async fn keep(&self) -> Result<Keep, String> {
        let Some(retention) = self.retention else {
            return Err(
                "inbox_retention is not set: the inbox keeps its rows for ever; set it, e.g. \
                 inbox_retention = \"30d\""
                    .to_owned(),
            );
        };
        let asked = join_all(self.letters.iter().map(|store| async {
            let found = store.oldest_unresolved().await;
            found.map_err(|error| {
                format!(
                    "nothing is forgotten while the age of open dead letters is not known: {error}"
                )
            })
        }))
        .await;
        let mut oldest_s = None::<f64>;
        for found in asked {
            let found = found?;
            oldest_s = oldest_s.into_iter().chain(found).reduce(f64::max);
        }
        Ok(longest(
            retention,
            self.settings.replay_window,
            oldest_s,
            self.retries,
        ))
    }
}

fn longest(
    retention: Duration,
    replay_window: Option<Duration>,
    oldest_letter_s: Option<f64>,
    retries: Duration,
) -> Keep {
    let mut keep = Keep {
        age: retention,
        because: None,
    };
    if let Some(window) = replay_window.filter(|window| *window > keep.age) {
        keep = Keep {
            age: window,
            because: Some(format!(
                "kept for replay_window {}",
                human::duration(window)
            )),
        };
    }
    let letter = oldest_letter_s
        .and_then(|age_s| Duration::try_from_secs_f64(age_s.max(0.0)).ok())
        .map(|age| age.saturating_add(MARGIN).saturating_add(retries));
    if let Some(age) = letter.filter(|age| *age > keep.age) {
        keep = Keep {
            age,
            because: Some(format!(
                "held back by a dead letter that is {} old: resolve it, and the inbox may forget",
                human::age(oldest_letter_s.unwrap_or_default())
            )),
        };
    }
    keep
}

#[async_trait]
impl Worker for Archiver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        report.is_idle = true;
        report.problem = self.pass(&mut report).await.err();
        report
    }

    async fn drain(&mut self) {}
}

#[cfg(test)]
mod tests;
