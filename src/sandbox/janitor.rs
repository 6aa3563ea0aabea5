//! Keeps the demo's tables small: what was processed longer ago than [`super::topology::KEPT`] is
//! deleted. Event and saga ids are UUIDv7, so age is a range of the primary key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::topology::KEPT;
use crate::base::clock::{Clock, Timestamp};
use crate::pipeline::{Report, Worker};
use crate::store::{Store, StoreResult, Value};

/// Registered name.
const NAME: &str = "janitor";
/// Between two passes.
const EVERY: Duration = Duration::from_mins(5);
/// Kept beyond the inbox retention the context promises, so that the promise holds at its edge.
const MARGIN: Duration = Duration::from_mins(10);

const OF_EVERY_SERVICE: [&str; 2] = [
    "DELETE FROM outbox_events WHERE status = 'sent' AND event_id < ?",
    "DELETE FROM consumer_inbox WHERE event_id < ?",
];
const OF_ORDERS: [&str; 2] = [
    "DELETE FROM saga_steps WHERE saga_id < ?",
    "DELETE FROM sagas WHERE saga_id < ?",
];

/// Deletes old rows of one service.
pub(super) struct Janitor {
    service: String,
    store: Arc<dyn Store>,
    clock: Clock,
    next: Instant,
}

impl Janitor {
    pub(super) fn new(service: &str, store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            service: service.to_owned(),
            store,
            clock,
            next: Instant::now() + EVERY,
        }
    }

    async fn pass(&mut self, report: &mut Report) -> StoreResult<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + EVERY;
        let oldest = first_id_at(self.clock.now().minus(KEPT + MARGIN));
        let mut tx = self.store.begin().await?;
        let own: &[&'static str] = if self.service == "orders" {
            &OF_ORDERS
        } else {
            &[]
        };
        for statement in OF_EVERY_SERVICE.iter().chain(own) {
            let rows = tx
                .execute(statement, &[Value::Text(oldest.clone())])
                .await?;
            report.add("deleted", rows);
        }
        tx.commit().await
    }
}

/// The smallest UUIDv7 of an instant.
fn first_id_at(at: Timestamp) -> String {
    let millis = u64::try_from(at.micros() / 1000).unwrap_or_default() & 0xffff_ffff_ffff;
    format!(
        "{:08x}-{:04x}-7000-8000-000000000000",
        millis >> 16,
        millis & 0xffff
    )
}

#[async_trait]
impl Worker for Janitor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        report.is_idle = true;
        report.problem = self.pass(&mut report).await.err().map(|e| e.to_string());
        report
    }

    async fn drain(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::EventId;

    #[test]
    fn an_id_made_now_is_not_older_than_now() {
        let now = Clock::System.now();
        let id = EventId::generate();
        assert!(id.as_str() >= first_id_at(now).as_str());
        assert!(id.as_str() < first_id_at(now.plus(Duration::from_mins(1))).as_str());
    }
}
