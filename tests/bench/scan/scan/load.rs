//! The pipeline at work: every worker of the sandbox, and customers who place orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use color_eyre::eyre::{Result, ensure};
use redrive::assembly::{Options, Services};
use redrive::pipeline::Worker;
use redrive::sandbox::{self, OrderRequest, OrderSaga, Tempo};
use sqlx::MySqlConnection;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::told;

/// Between two orders.
const EVERY: Duration = Duration::from_millis(40);
/// A worker that had nothing to do looks again after so long.
const IDLE: Duration = Duration::from_millis(50);

pub struct Load {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    placed: Arc<AtomicU64>,
    services: Services,
}

impl Load {
    /// Starts workers and customers, on sessions of their own.
    pub async fn start(of: &Services) -> Result<Self> {
        let services = of.beside(Options {
            actor: "load@localhost".to_owned(),
            read_only: false,
        })?;
        sandbox::prepare_bare(&services.ports, false)
            .await
            .map_err(told)?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for worker in services.workers(&[], None)? {
            tasks.spawn(work(worker, stop.clone()));
        }
        let placed = Arc::new(AtomicU64::new(0));
        tasks.spawn(customers(
            Arc::clone(
                services
                    .ports
                    .store("orders")
                    .ok_or_else(|| told("no orders".into()))?,
            ),
            Arc::new(OrderSaga::new(&services.ports, Tempo::default())),
            (Arc::clone(&placed), stop.clone()),
        ));
        Ok(Self {
            tasks,
            stop,
            placed,
            services,
        })
    }

    /// Orders placed so far.
    pub fn placed(&self) -> u64 {
        self.placed.load(Ordering::Relaxed)
    }

    /// Waits until so many of them have gone the whole way: every consumer has done something that was sent long
    /// after what was seeded.
    pub async fn wait_for(&self, database: &mut MySqlConnection, orders: i64) -> Result<()> {
        let confirmed = "SELECT COUNT(*) FROM orders WHERE idempotency_key LIKE 'load-%' AND state = 'confirmed'";
        for _ in 0..2_400 {
            let count: i64 = sqlx::query_scalar(confirmed)
                .fetch_one(&mut *database)
                .await?;
            if count >= orders {
                return Ok(());
            }
            tokio::time::sleep(IDLE).await;
        }
        ensure!(
            false,
            "of {} orders not even {orders} were confirmed in two minutes",
            self.placed()
        );
        Ok(())
    }

    /// Stops everything.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.services.close().await;
    }
}

async fn work(mut worker: Box<dyn Worker>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let report = worker.run_once().await;
        if report.is_idle {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(IDLE) => {}
            }
        }
    }
    worker.drain().await;
}

async fn customers(
    orders: Arc<dyn redrive::store::Store>,
    saga: Arc<OrderSaga>,
    (placed, stop): (Arc<AtomicU64>, CancellationToken),
) {
    let mut number = 0_u64;
    while !stop.is_cancelled() {
        number += 1;
        let request = OrderRequest {
            idempotency_key: format!("load-{number}"),
            order_no: None,
            email: "c1@example.org".to_owned(),
            sku: Some("SKU-SOAK".to_owned()),
            quantity: 1,
            amount_cents: 990,
        };
        if sandbox::place_order(orders.as_ref(), &saga, &request)
            .await
            .is_ok()
        {
            placed.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(EVERY).await;
    }
}
