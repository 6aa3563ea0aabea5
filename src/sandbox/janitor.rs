//! Keeps the demo's tables small: what was processed longer ago than [`super::topology::KEPT`] is
//! deleted. Event and saga ids are UUIDv7, so age is a range of the primary key. A saga that is not
//! over, or that a person has not seen, stays however old it is.

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
/// Sagas of one transaction.
const SAGAS: usize = 100;
/// Transactions of one pass.
const BATCHES: usize = 50;
/// The next old saga that is over. Primary key range, ends at the first. Binds after, before.
const OVER: &str = "SELECT saga_id FROM sagas WHERE saga_id > ? AND saga_id < ? \
     AND state IN ('completed', 'compensated') AND attention_at IS NULL ORDER BY saga_id LIMIT 1";
/// Primary key, one row; guarded, since a late answer may have moved it meanwhile. The saga before its
/// steps: the lock order of whoever moves one.
const SAGA: &str = "DELETE FROM sagas WHERE saga_id = ? \
     AND state IN ('completed', 'compensated') AND attention_at IS NULL";
/// Primary key, the rows of one saga, which is locked.
const STEPS: &str = "DELETE FROM saga_steps WHERE saga_id = ?";

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
        self.clean(report).await
    }

    async fn clean(&self, report: &mut Report) -> StoreResult<()> {
        let oldest = first_id_at(self.clock.now().minus(KEPT + MARGIN));
        if self.service == "orders" {
            self.clean_sagas(&oldest, report).await?;
        }
        let mut tx = self.store.begin().await?;
        for statement in OF_EVERY_SERVICE {
            let rows = tx
                .execute(statement, &[Value::Text(oldest.clone())])
                .await?;
            report.add("deleted", rows);
        }
        tx.commit().await
    }

    async fn clean_sagas(&self, oldest: &str, report: &mut Report) -> StoreResult<()> {
        let mut after = String::new();
        for _ in 0..BATCHES {
            let mut tx = self.store.begin().await?;
            for _ in 0..SAGAS {
                let range = [Value::Text(after.clone()), Value::Text(oldest.to_owned())];
                let found = tx.fetch_one(OVER, &range).await?;
                let Some([Value::Text(saga_id)]) = found.as_deref() else {
                    return tx.commit().await;
                };
                after.clone_from(saga_id);
                let id = [Value::Text(after.clone())];
                let rows = tx.execute(SAGA, &id).await?;
                if rows == 1 {
                    report.add("deleted", rows + tx.execute(STEPS, &id).await?);
                }
            }
            tx.commit().await?;
        }
        Ok(())
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
    use crate::pipeline::test_support::Bench;

    #[tokio::test]
    async fn only_sagas_that_are_over_and_seen_are_deleted_with_their_steps() {
        let bench = Bench::new().await;
        for saga in [
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('0-done', 'order', '1', 'completed')",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('0-back', 'order', '2', 'compensated')",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('0-runs', 'order', '3', 'running')",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('0-fails', 'order', '4', 'compensation_failed')",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('0-newer', 'order', '5', 'paused')",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, attention_at) VALUES ('0-late', 'order', '6', 'compensated', 1)",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('f-young', 'order', '7', 'completed')",
            "INSERT INTO saga_steps (saga_id, step_no, name) SELECT saga_id, 1, 'charge' FROM sagas",
        ] {
            bench.execute("orders", saga).await;
        }
        let janitor = Janitor::new("orders", bench.store("orders"), Clock::System);
        let mut report = Report::new(NAME, "orders");
        janitor.clean(&mut report).await.expect("cleans");
        assert_eq!(report.get("deleted"), 4);
        for left in [
            "SELECT COUNT(*) FROM sagas",
            "SELECT COUNT(*) FROM saga_steps",
        ] {
            assert_eq!(bench.number("orders", left).await, 5, "{left}");
        }
        let over = "SELECT COUNT(*) FROM sagas WHERE saga_id IN ('0-done', '0-back')";
        assert_eq!(bench.number("orders", over).await, 0);
    }

    #[test]
    fn an_id_made_now_is_not_older_than_now() {
        let now = Clock::System.now();
        let id = EventId::generate();
        assert!(id.as_str() >= first_id_at(now).as_str());
        assert!(id.as_str() < first_id_at(now.plus(Duration::from_mins(1))).as_str());
    }
}
