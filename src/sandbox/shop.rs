//! Customers: a worker that places orders at a modest rate. Some send their request twice, because the
//! answer was slow; some change their mind.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::event::{Link, Order};
use super::fault::{Chance, Fault, order_rng};
use super::order_saga::OrderSaga;
use super::place::{OrderRequest, PlaceError, cancel_order, next_number, place_order};
use crate::pipeline::{Report, Worker};
use crate::store::{Store, StoreError};

/// Registered name.
const NAME: &str = "shop";
/// Milliseconds between two orders.
const EVERY_MS: u128 = 350;
/// Orders placed in one pass at most, so that a sleep of the machine is not caught up in a burst.
const BURST: u128 = 5;
/// One request of so many is sent twice.
const REPEAT_EVERY: i64 = 10;

/// Places orders.
pub(super) struct Shop {
    store: Arc<dyn Store>,
    saga: Arc<OrderSaga>,
    seed: u64,
    started: Instant,
    placed: u128,
    next: Option<i64>,
}

impl Shop {
    pub(super) fn new(store: Arc<dyn Store>, saga: Arc<OrderSaga>, seed: u64) -> Self {
        Self {
            store,
            saga,
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
                None => self.first_number().await.map_err(|e| e.to_string())?,
            };
            self.place(number).await.map_err(|e| e.to_string())?;
            self.next = Some(number + 1);
            report.add("orders", 1);
        }
        Ok(())
    }

    async fn place(&self, number: i64) -> Result<(), PlaceError> {
        let fault = Chance::of(self.seed).fault_of(number);
        let order = Order::draw(number, fault, &mut order_rng(self.seed, number));
        let request = OrderRequest {
            idempotency_key: format!("client-{number}"),
            order_no: Some(number),
            email: order.customer.email.clone(),
            sku: order.sku.clone(),
            quantity: order.quantity,
            amount_cents: order.amount_cents,
        };
        place_order(self.store.as_ref(), &self.saga, &request).await?;
        if number % REPEAT_EVERY == 0 {
            place_order(self.store.as_ref(), &self.saga, &request).await?;
        }
        match fault {
            Fault::Unaddressed => {
                let mut tx = self.store.begin().await?;
                if let Ok(event) = order.event("order.gifted", Link::default()) {
                    tx.append(&event).await?;
                }
                tx.commit().await?;
            }
            Fault::Cancelled => {
                let why = "the customer changed their mind";
                cancel_order(self.store.as_ref(), &self.saga, number, why).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn first_number(&self) -> Result<i64, StoreError> {
        let mut tx = self.store.begin().await?;
        let number = next_number(tx.as_mut()).await?;
        tx.rollback().await?;
        Ok(number)
    }
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
