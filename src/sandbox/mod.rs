//! The reference pipeline that the demo and the drills run on: orders, inventory and payment with
//! faults on purpose. It writes business tables and injects faults, so it runs only in a context
//! marked as a sandbox.

mod event;
mod fault;
mod handlers;
mod history;
mod janitor;
mod saga;
mod shop;
mod standby;
pub(crate) mod tables;
mod topology;

use crate::config::Environment;
use crate::pipeline::{Worker, dispatcher};
use crate::ports::Ports;

pub use handlers::program;
pub use topology::{demo_context, topology};

/// Makes tables, queues and a past, each unless it is there.
///
/// # Errors
/// A sentence: the context is no sandbox, or what could not be made.
pub async fn prepare(ports: &Ports) -> Result<(), String> {
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
        .declare(&topology())
        .await
        .map_err(|e| format!("sandbox queues: {e}"))?;
    history::write(ports).await
}

/// The pipeline's workers with the sandbox's handlers, and what makes life hard for them.
///
/// # Errors
/// A sentence: the context is no sandbox, or a worker that cannot be built.
pub fn workers(ports: &Ports, seed: u64) -> Result<Vec<Box<dyn Worker>>, String> {
    refuse_unless_sandbox(ports)?;
    let mut workers = crate::pipeline::build(ports, &[], &program(ports, seed))?;
    if let Some(standby) = standby::Standby::new(ports)? {
        workers.retain(|worker| {
            (worker.name(), worker.service()) != (dispatcher::NAME, standby::SERVICE)
        });
        workers.push(Box::new(standby));
    }
    if let Some(orders) = ports.store("orders") {
        workers.push(Box::new(shop::Shop::new(
            orders.clone(),
            ports.clock.clone(),
            seed,
        )));
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
