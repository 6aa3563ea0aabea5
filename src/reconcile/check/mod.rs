//! What is compared: one file a check, each read-only, a page at a time. A check says what differs, what
//! differs for a known reason, and what it could not read; the engine does the rest.

pub mod content;
pub mod gaps;
pub mod intents;
pub mod letters;
pub mod orphans;
pub mod sagas;
pub mod unconsumed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Timestamp;
use crate::config::Service;
use crate::model::page::Cursor;
use crate::model::scan::{Difference, NotCompared};
use crate::ports::Ports;
use crate::store::scan::{Walk, WalkFrom};
use crate::store::{Store, StoreError};

use super::patience::patiently;

/// Rows a page.
pub const PAGE: u32 = 500;
/// A service that did not answer is not asked again for so long.
const AWAY_FOR: Duration = Duration::from_secs(15);

/// What a check stands on.
#[derive(Clone)]
pub struct Ground {
    /// The context.
    pub ports: Ports,
    /// What changed less than so long ago is in flight.
    pub grace: Duration,
    /// How far back walks look.
    pub window: Duration,
    /// Services that did not answer, however often they were asked: when, and what was said instead.
    pub away: Arc<Mutex<BTreeMap<String, (Instant, StoreError)>>>,
}

impl Ground {
    /// True when the last transition is older than the grace time (C-01). What no table dates is judged by
    /// the second look alone.
    pub fn is_over(&self, since: Option<Timestamp>, now: Timestamp) -> bool {
        since.is_none_or(|since| since.plus(self.grace) <= now)
    }

    /// Asks a service's database again when it does not answer for now. One that never did is asked but now
    /// and then, and once, until it answers: a scan of many pages does not wait for it at each.
    ///
    /// # Errors
    /// The last one.
    pub async fn patiently<T, F>(
        &self,
        service: &str,
        mut call: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let known = self.away.lock().await.get(service).cloned();
        let answer = match known {
            Some((since, error)) if since.elapsed() < AWAY_FOR => return Err(error),
            Some(_) => call().await,
            None => patiently(&CancellationToken::new(), call).await,
        };
        let mut away = self.away.lock().await;
        match &answer {
            Err(error) if error.is_retryable() => {
                away.insert(service.to_owned(), (Instant::now(), error.clone()));
            }
            _ => {
                away.remove(service);
            }
        }
        drop(away);
        answer
    }

    /// The store of a service.
    ///
    /// # Errors
    /// For a service the context does not have.
    pub fn store(&self, service: &str) -> Result<&dyn Store, StoreError> {
        self.ports
            .store(service)
            .map(AsRef::as_ref)
            .ok_or_else(|| StoreError::Unsupported {
                service: service.to_owned(),
                reason: "the context has no such service".to_owned(),
            })
    }

    /// Services that have a part.
    pub fn services(&self, has: impl Fn(&Service) -> bool) -> Vec<String> {
        let services = self.ports.context.services.iter();
        services
            .filter(|service| has(service))
            .map(|service| service.name.clone())
            .collect()
    }

    /// Where a walk goes on.
    pub fn from(&self, after: Option<&str>, limit: u32) -> WalkFrom {
        WalkFrom {
            window: self.window,
            after: after.and_then(place::<Cursor>),
            limit,
        }
    }
}

/// What one look saw.
#[derive(Debug, Default)]
pub struct Look {
    /// What differs, older than the grace time.
    pub differences: Vec<Difference>,
    /// Differs, and changed within the grace time.
    pub in_flight: u64,
    /// Differs for a known reason, by reason.
    pub explained: BTreeMap<String, u64>,
    /// Rows, orders or sequences looked at.
    pub examined: u64,
    /// Rows the databases gave.
    pub rows_read: u64,
    /// What could not be read.
    pub not_compared: Vec<NotCompared>,
    /// Limits that hold for the answer.
    pub notes: Vec<String>,
    /// Where the next page starts; opaque to all but the check.
    pub next: Option<String>,
}

impl Look {
    /// A look at a page of rows: all of them, and where the next one starts.
    pub fn of_page<R>(walk: &Walk<R>) -> Self {
        Self {
            examined: walk.rows.len() as u64,
            rows_read: walk.rows.len() as u64,
            next: walk.next.as_ref().and_then(placed),
            ..Self::default()
        }
    }

    /// Counts one that differs for a known reason.
    pub fn explain(&mut self, why: impl Into<String>) {
        *self.explained.entry(why.into()).or_default() += 1;
    }

    /// Notes what could not be read.
    pub fn miss(&mut self, what: impl Into<String>, error: &StoreError) {
        self.not_compared.push(missed(what, error));
    }
}

/// What could not be read, and why.
pub fn missed(what: impl Into<String>, error: &StoreError) -> NotCompared {
    NotCompared {
        what: what.into(),
        reason: error.to_string(),
        is_unreachable: error.is_unreachable(),
    }
}

/// One check at work; it may remember what it has seen, for as long as one scan takes.
#[async_trait]
pub trait Check: Send + Sync {
    /// What is gone through one after the other, e.g. the services with an outbox.
    fn parts(&self, ground: &Ground) -> Vec<String>;
    /// True when pages look back as far as the window only.
    fn is_windowed(&self) -> bool {
        false
    }
    /// The next page of a part.
    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError>;
    /// Looks again at what a page of the part found.
    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError>;
}

/// A check that needs no configuration.
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it compares, in one line.
    pub about: &'static str,
    /// Makes one for a scan.
    pub build: fn() -> Box<dyn Check>,
}

/// Every check on the tables alone.
pub const CHECKS: &[BuiltIn] = &[
    unconsumed::CHECK,
    orphans::CHECK,
    content::CHECK,
    gaps::CHECK,
    letters::CHECK,
    intents::CHECK,
    sagas::CHECK,
];

/// A place as text.
pub fn placed(place: &impl Serialize) -> Option<String> {
    serde_json::to_string(place).ok()
}

/// A place from its text; one that cannot be read starts from the beginning.
pub fn place<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}
