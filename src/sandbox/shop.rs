//! Customers: a worker that places orders at a modest rate. Order, saga and event commit together.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::event::Order;
use super::fault::{Fault, fault_of, order_rng};
use super::saga;
use super::tables::time;
use crate::base::clock::Clock;
use crate::model::ids::SagaId;
use crate::pipeline::{Report, Worker};
use crate::store::{Store, StoreError, StoreResult, Value};

/// Registered name.
const NAME: &str = "shop";
/// The first order's number.
pub(super) const FIRST_ORDER: i64 = 8_800;
/// Milliseconds between two orders.
const EVERY_MS: u128 = 350;
/// Orders placed in one pass at most, so that a sleep of the machine is not caught up in a burst.
const BURST: u128 = 5;

const LAST_ORDER: &str = "SELECT COALESCE(MAX(order_no), 0) FROM orders";
pub(super) const INSERT_ORDER: &str = "INSERT INTO orders \
     (order_no, idempotency_key, saga_id, state, amount_cents) \
     VALUES (?, ?, ?, 'pending_inventory', ?)";

/// Places orders.
pub(super) struct Shop {
    store: Arc<dyn Store>,
    clock: Clock,
    seed: u64,
    started: Instant,
    placed: u128,
    next: Option<i64>,
}

impl Shop {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, seed: u64) -> Self {
        Self {
            store,
            clock,
            seed,
            started: Instant::now(),
            placed: 0,
            next: None,
        }
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), String> {
        let due = self.started.elapsed().as_millis() / EVERY_MS + 1;
        let count = due.saturating_sub(self.placed).min(BURST);
        self.placed = due;
        for _ in 0..count {
            let number = match self.next {
                Some(number) => number,
                None => next_number(self.store.as_ref())
                    .await
                    .map_err(|e| e.to_string())?,
            };
            self.place(number).await?;
            self.next = Some(number + 1);
            report.add("orders", 1);
        }
        Ok(())
    }

    async fn place(&self, number: i64) -> Result<(), String> {
        let fault = fault_of(self.seed, number);
        let order = Order::draw(number, fault, &mut order_rng(self.seed, number));
        let mut events = vec![order.event("order.created", None)?];
        if fault == Fault::Unaddressed {
            events.push(order.event("order.gifted", None)?);
        }
        let now = self.clock.now();
        let product = self.store.facts().product;
        let saga_id = SagaId::generate();
        let placed: StoreResult<()> = async {
            let mut tx = self.store.begin().await?;
            tx.execute(INSERT_ORDER, &row(&order, &saga_id)).await?;
            let times = saga::Times {
                now: time(&product, now),
                deadline: time(&product, now.plus(saga::DEADLINE)),
                event_id: events.first().map(|event| event.event_id.clone()),
            };
            saga::start(tx.as_mut(), &saga_id, number, &times).await?;
            for event in &events {
                tx.append(event).await?;
            }
            tx.commit().await
        }
        .await;
        placed.map_err(|e| e.to_string())
    }
}

/// The values of [`INSERT_ORDER`].
pub(super) fn row(order: &Order, saga_id: &SagaId) -> [Value; 4] {
    [
        Value::Int(order.order_no),
        Value::Text(format!("client-{}", order.order_no)),
        Value::Text(saga_id.to_string()),
        Value::Int(order.amount_cents),
    ]
}

/// The number after the highest one in the table.
async fn next_number(store: &dyn Store) -> Result<i64, StoreError> {
    let mut tx = store.begin().await?;
    let found = tx.fetch_one(LAST_ORDER, &[]).await?;
    tx.rollback().await?;
    Ok(match found.as_deref() {
        Some([Value::Int(last)]) => FIRST_ORDER.max(last + 1),
        _ => FIRST_ORDER,
    })
}

#[async_trait]
impl Worker for Shop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &'static str {
        "orders"
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, self.service());
        report.is_idle = true;
        report.problem = self.pass(&mut report).await.err();
        report
    }

    async fn drain(&mut self) {}
}
