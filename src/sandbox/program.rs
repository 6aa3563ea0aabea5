//! The sandbox's own code, as the pipeline takes it: a handler for each consumer, and the orders' saga.

use std::sync::Arc;

use super::fault::Chance;
use super::inventory::Inventory;
use super::notification::Notification;
use super::order_saga::{OrderSaga, Tempo};
use super::payment::Payment;
use super::results::Results;
use super::topology::SERVICES;
use crate::pipeline::Program;
use crate::pipeline::consumer::Handler;
use crate::ports::Ports;

/// Handlers and sagas; none unless the context is this very pipeline. A team's own sandbox may well
/// have an `inventory` too, and its messages are not ours to consume.
pub fn program(ports: &Ports, chance: Chance) -> Program {
    program_with(ports, chance, Tempo::default())
}

/// The same with another patience.
pub fn program_with(ports: &Ports, chance: Chance, tempo: Tempo) -> Program {
    let is_ours = SERVICES.iter().all(|(name, queue, _)| {
        let service = ports.context.service(name);
        service
            .and_then(|service| service.inbox.as_ref())
            .is_some_and(|inbox| inbox.queue == *queue)
    });
    if !is_ours {
        return Program::default();
    }
    let saga = Arc::new(OrderSaga::new(ports, tempo));
    let inventory: Arc<dyn Handler> = Arc::new(Inventory { chance });
    let payment: Arc<dyn Handler> = Arc::new(Payment { chance });
    let notification: Arc<dyn Handler> = Arc::new(Notification);
    let orders: Arc<dyn Handler> = Arc::new(Results {
        saga: Arc::clone(&saga),
    });
    Program {
        handlers: [
            ("inventory".into(), inventory),
            ("payment".into(), payment),
            ("notification".into(), notification),
            ("orders".into(), orders),
        ]
        .into(),
        sagas: vec![saga],
    }
}
