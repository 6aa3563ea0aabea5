//! The inbox's retention: rows older than the policy leave the inbox a batch at a time, and the horizon
//! says how far the forgetting has come (I-01).
//!
//! ```text
//! keep = longest of: inbox_retention, replay_window, the retries, and the age of the oldest dead letter or
//!                    unsent event that may still come (again) + margin
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
/// Claimed rows looked at for the oldest unsent event.
const CLAIMED_MAX: u32 = 2_000;

/// Forgets one consumer's old inbox rows.
pub struct Archiver {
    service: String,
    consumer: ConsumerName,
    store: Arc<dyn Store>,
    /// Every store of the context that keeps dead letters: any of them may hold this consumer's.
    letters: Vec<Arc<dyn Store>>,
    /// Every store of the context with an outbox: a dispatcher may send its rows again.
    outboxes: Vec<Arc<dyn Store>>,
    retention: Option<Duration>,
    retries: Duration,
    settings: RetentionSettings,
    next_at: Instant,
    /// What keeps rows longer than the policy, as it was logged last.
    told: Option<String>,
    /// What was wrong at the last look; it stands until the next one.
    problem: Option<String>,
}

/// The oldest of what may still reach the consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Oldest {
    age_s: f64,
    what: &'static str,
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
        let stores_with = |has: fn(&Service) -> bool| {
            let fits = ports.iter().filter(|(service, _)| has(service));
            fits.map(|(_, store)| Arc::clone(store)).collect()
        };
        Some(Self {
            service: service.name.clone(),
            consumer: inbox.consumer.clone(),
            store: Arc::clone(store),
            letters: stores_with(|service| service.dead_letters.is_some()),
            outboxes: stores_with(|service| service.outbox.is_some()),
            retention: context.inbox_retention,
            retries: context.consumer.retry_delays.iter().sum(),
            settings: context.retention.clone(),
            next_at: Instant::now(),
            told: None,
            problem: None,
        })
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), String> {
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
        let letters = join_all(self.letters.iter().map(|store| async {
            let found = store.oldest_unresolved().await;
            found.map_err(|error| {
                format!(
                    "nothing is forgotten while the age of open dead letters is not known: {error}"
                )
            })
        }));
        let unsent = join_all(
            self.outboxes
                .iter()
                .map(|store| oldest_unsent(store.as_ref())),
        );
        let (letters, unsent) = tokio::join!(letters, unsent);
        let mut oldest: Option<Oldest> = None;
        let named = letters
            .into_iter()
            .map(|found| (found, "a dead letter"))
            .chain(
                unsent
                    .into_iter()
                    .map(|found| (found, "an event that is not marked sent")),
            );
        for (found, what) in named {
            if let Some(age_s) = found?
                && oldest.is_none_or(|known| known.age_s < age_s)
            {
                oldest = Some(Oldest { age_s, what });
            }
        }
        Ok(longest(
            retention,
            self.settings.replay_window,
            oldest,
            self.retries,
        ))
    }
}

/// Age of the oldest row that a dispatcher may send (again): pending, or claimed by one that may be dead.
/// A row that gave up is sent again by a person only, who is told how far the inbox has forgotten.
async fn oldest_unsent(store: &dyn Store) -> Result<Option<f64>, String> {
    let unknown = |why: &dyn std::fmt::Display| {
        format!(
            "nothing is forgotten while the age of unsent events of {} is not known: {why}",
            store.facts().service
        )
    };
    let counts = store.outbox_counts().await.map_err(|e| unknown(&e))?;
    if counts.oldest_pending_s.is_none() && !counts.pending.is_zero() {
        return Err(unknown(&"its outbox has no index on status and creation"));
    }
    let leases = store.leases(CLAIMED_MAX).await.map_err(|e| unknown(&e))?;
    if let Some(why) = leases.not_answered.filter(|_| !counts.sending.is_zero()) {
        return Err(unknown(&why));
    }
    let claimed = leases.groups.iter().filter_map(|group| {
        let made_at = group.oldest_created_at?;
        Some(counts.database_now.seconds_since(made_at))
    });
    Ok(claimed.chain(counts.oldest_pending_s).reduce(f64::max))
}

fn longest(
    retention: Duration,
    replay_window: Option<Duration>,
    oldest: Option<Oldest>,
    retries: Duration,
) -> Keep {
    let mut keep = Keep {
        age: retention,
        because: None,
    };
    let mut wish = |age: Duration, because: String| {
        if age > keep.age {
            keep = Keep {
                age,
                because: Some(because),
            };
        }
    };
    // A copy in a retry queue whose confirm was lost comes back after all of its delays.
    let retries = retries.saturating_add(MARGIN);
    wish(
        retries,
        format!("kept for the retry queues, {}", human::duration(retries)),
    );
    if let Some(window) = replay_window {
        wish(
            window,
            format!("kept for replay_window {}", human::duration(window)),
        );
    }
    let held = oldest.and_then(|oldest| {
        let age = Duration::try_from_secs_f64(oldest.age_s.max(0.0)).ok()?;
        Some((oldest, age.saturating_add(retries)))
    });
    if let Some((oldest, age)) = held {
        wish(
            age,
            format!(
                "held back by {} that is {} old: resolve it, and the inbox may forget",
                oldest.what,
                human::age(oldest.age_s)
            ),
        );
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
        if Instant::now() >= self.next_at {
            self.problem = self.pass(&mut report).await.err();
        }
        report.problem.clone_from(&self.problem);
        report
    }

    async fn drain(&mut self) {}
}

#[cfg(test)]
mod tests;
