//! The reference pipeline that the demo and the drills run on: orders, inventory and payment with
//! faults on purpose. It writes business tables and injects faults, so it runs only in a context
//! marked as a sandbox.

mod event;
mod fault;
mod handlers;
mod history;
mod inventory;
mod janitor;
mod notification;
mod order_saga;
mod payment;
mod place;
mod processor;
mod program;
mod results;
mod shop;
mod standby;
pub(crate) mod tables;
mod topology;

use std::sync::Arc;

use crate::config::Environment;
use crate::pipeline::{Worker, dispatcher, reaper};
use crate::ports::Ports;

pub use event::{Customer, GIFT, Order, SKUS, SOLD_OUT};
pub use fault::Chance;
pub use order_saga::{OrderSaga, Tempo};
pub use place::{AFTER_INSERT, Accepted, OrderRequest, PlaceError, cancel_order, place_order};
pub use processor::{ProcessorFault, set_fault};
pub use program::{program, program_with};
pub use topology::{EXCHANGE, SERVICES, demo_context, scan_rules, topology, topology_with};

/// Makes tables, queues and a past, each unless it is there.
///
/// # Errors
/// A sentence: the context is no sandbox, or what could not be made.
pub async fn prepare(ports: &Ports) -> Result<(), String> {
    create(ports, false).await?;
    history::write(ports).await
}

/// Makes tables, queues and full shelves, and no past: for drills and benches. With `is_quorum` the
/// queues survive a broker's node.
///
/// # Errors
/// As [`prepare`].
pub async fn prepare_bare(ports: &Ports, is_quorum: bool) -> Result<(), String> {
    create(ports, is_quorum).await?;
    history::fill_stock(ports).await.map(|_| ())
}

async fn create(ports: &Ports, is_quorum: bool) -> Result<(), String> {
    refuse_unless_sandbox(ports)?;
    for (service, store) in ports.iter() {
        store
            .migrate(true)
            .await
            .map_err(|e| format!("sandbox tables of {}: {e}", service.name))?;
        store
            .create_business_tables(tables::of(&service.name))
            .await
            .map_err(|e| format!("sandbox business tables of {}: {e}", service.name))?;
    }
    let broker = ports
        .broker
        .as_ref()
        .ok_or("the sandbox needs a broker; set amqp")?;
    broker
        .declare(&topology_with(is_quorum))
        .await
        .map_err(|e| format!("sandbox queues: {e}"))
}

/// The pipeline's workers with the sandbox's handlers, and what makes life hard for them.
///
/// # Errors
/// A sentence: the context is no sandbox, or a worker that cannot be built.
pub fn workers(ports: &Ports, seed: u64) -> Result<Vec<Box<dyn Worker>>, String> {
    refuse_unless_sandbox(ports)?;
    let program = program(ports, Chance::of(seed));
    let mut workers = crate::pipeline::build(ports, &[], &program)?;
    if let Some(standby) = standby::Standby::new(ports)? {
        // Its dead predecessor's lease waits for a person: no reaper there.
        workers.retain(|worker| {
            worker.service() != standby::SERVICE
                || ![dispatcher::NAME, reaper::NAME].contains(&worker.name())
        });
        workers.push(Box::new(standby));
    }
    if let Some(orders) = ports.store("orders") {
        let saga = Arc::new(OrderSaga::new(ports, Tempo::default()));
        workers.push(Box::new(shop::Shop::new(orders.clone(), saga, seed)));
    }
    for (service, store) in ports.iter() {
        workers.push(Box::new(janitor::Janitor::new(
            &service.name,
            store.clone(),
            ports.clock.clone(),
        )));
    }
    Ok(workers)
}

fn refuse_unless_sandbox(ports: &Ports) -> Result<(), String> {
    if ports.context.environment == Environment::Sandbox {
        return Ok(());
    }
    Err(format!(
        "context {} is marked {}: the sandbox injects faults and runs only where environment = \
         \"sandbox\"",
        ports.context.name,
        ports.context.environment.word()
    ))
}

#[cfg(test)]
mod tests;
