//! The sandbox's services: what each does with an event. Everything goes through the transaction
//! that holds the inbox row, so that each effect happens once.

use std::sync::Arc;

use async_trait::async_trait;

use super::event::{GIFT, Order, UNKNOWN};
use super::fault::{Fault, fault_of};
use super::saga::{self, Step};
use super::topology::SERVICES;
use crate::pipeline::consumer::{Handler, Outcome, Received};
use crate::pipeline::{Handlers, Program};
use crate::ports::Ports;
use crate::store::{BusinessTx, Value};

/// Version of the services: 4.2.1 has just been rolled out, and takes orders without a sku.
pub const VERSION: &str = "4.2.1";

/// A handler for each of the sandbox's consumers; none unless the context is this very pipeline. A
/// team's own sandbox may well have an `inventory` too, and its messages are not ours to consume.
pub fn program(ports: &Ports, seed: u64) -> Program {
    handlers(ports, seed).into()
}

fn handlers(ports: &Ports, seed: u64) -> Handlers {
    let is_ours = SERVICES.iter().all(|(name, queue, _)| {
        let service = ports.context.service(name);
        service
            .and_then(|service| service.inbox.as_ref())
            .is_some_and(|inbox| inbox.queue == *queue)
    });
    if !is_ours {
        return Handlers::new();
    }
    let product = ports
        .store("orders")
        .map_or_else(|| "sqlite".to_owned(), |store| store.facts().product);
    let inventory: Arc<dyn Handler> = Arc::new(Inventory { seed });
    let payment: Arc<dyn Handler> = Arc::new(Payment { seed });
    let notification: Arc<dyn Handler> = Arc::new(Notification);
    let orders: Arc<dyn Handler> = Arc::new(Orders {
        product,
        clock: ports.clock.clone(),
    });
    [
        ("inventory".into(), inventory),
        ("payment".into(), payment),
        ("notification".into(), notification),
        ("orders".into(), orders),
    ]
    .into()
}

/// The inventory service without any chance in it, for what has happened before.
pub(super) fn inventory() -> impl Handler {
    Inventory { seed: 0 }
}

/// A step of a handler: `Err` ends it with that outcome.
type Handled = Result<Outcome, Outcome>;

fn over(handled: Handled) -> Outcome {
    handled.unwrap_or_else(|outcome| outcome)
}

fn permanent(class: &str, error: String) -> Outcome {
    Outcome::Permanent {
        class: class.to_owned(),
        error,
    }
}

fn decode(event: &Received) -> Result<Order, Outcome> {
    serde_json::from_slice(event.message.payload.bytes()).map_err(|e| {
        let error = e.to_string();
        let class = error.split(" at line ").next().unwrap_or_default();
        permanent(&format!("decode: {class}"), error)
    })
}

fn unknown_type(event: &Received) -> Outcome {
    let kind = event.event_type.as_deref().unwrap_or("without a type");
    permanent("unknown event type", format!("no handler for {kind}"))
}

/// Appends the event `event_type` about `order`, caused by `event`.
async fn emit(
    tx: &mut dyn BusinessTx,
    order: &Order,
    event_type: &str,
    event: &Received,
) -> Result<(), Outcome> {
    let new = order
        .event(event_type, Some(&event.event_id))
        .map_err(|error| permanent("encode", error))?;
    Ok(tx.append(&new).await?)
}

/// Reserves stock, and releases it when an order is cancelled.
struct Inventory {
    seed: u64,
}

const RESERVE: &str =
    "UPDATE stock SET reserved = reserved + ? WHERE sku = ? AND on_hand - reserved >= ?";
const RESERVATION: &str =
    "INSERT INTO reservations (order_no, sku, quantity, state) VALUES (?, ?, ?, 'reserved')";
const RELEASE: &str =
    "UPDATE reservations SET state = 'released' WHERE order_no = ? AND state = 'reserved'";
const GIVE_BACK: &str = "UPDATE stock SET reserved = reserved - ? WHERE sku = ?";

impl Inventory {
    async fn created(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let fault = fault_of(self.seed, order.order_no);
        if fault == Fault::FlakyOnce && event.attempt == 1 {
            return Err(Outcome::Transient("lock wait timeout on stock".to_owned()));
        }
        let sku = order.sku.clone().unwrap_or_else(|| GIFT.to_owned());
        if sku == UNKNOWN {
            return Err(permanent(
                "unknown sku",
                format!(
                    "sku {sku} of order {} is not in the catalogue",
                    order.order_no
                ),
            ));
        }
        let quantity = Value::Int(order.quantity);
        let taken = tx
            .execute(
                RESERVE,
                &[quantity.clone(), Value::Text(sku.clone()), quantity.clone()],
            )
            .await?;
        if taken == 0 {
            emit(tx, &order, "inventory.rejected", event).await?;
            return Ok(Outcome::Rejected);
        }
        let row = [Value::Int(order.order_no), Value::Text(sku), quantity];
        tx.execute(RESERVATION, &row).await?;
        emit(tx, &order, "inventory.reserved", event).await?;
        Ok(Outcome::Done)
    }

    async fn cancelled(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let released = tx.execute(RELEASE, &[Value::Int(order.order_no)]).await?;
        if released == 1 {
            let sku = order.sku.clone().unwrap_or_else(|| GIFT.to_owned());
            let row = [Value::Int(order.quantity), Value::Text(sku)];
            tx.execute(GIVE_BACK, &row).await?;
        }
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Inventory {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("order.created") => self.created(event, tx).await,
            Some("order.cancelled") => self.cancelled(event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}

/// Charges cards through a processor that is sometimes away.
struct Payment {
    seed: u64,
}

const CHARGE: &str = "INSERT INTO payments (order_no, amount_cents, state) VALUES (?, ?, ?)";

impl Payment {
    async fn reserved(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let fault = fault_of(self.seed, order.order_no);
        if fault == Fault::ProcessorDown && event.replays == 0 {
            return Err(Outcome::Transient("card processor answered 502".to_owned()));
        }
        let is_refused = fault == Fault::CardRefused;
        let state = if is_refused { "refused" } else { "charged" };
        let row = [
            Value::Int(order.order_no),
            Value::Int(order.amount_cents),
            Value::Text(state.to_owned()),
        ];
        tx.execute(CHARGE, &row).await?;
        if is_refused {
            emit(tx, &order, "payment.refused", event).await?;
            return Ok(Outcome::Rejected);
        }
        emit(tx, &order, "payment.charged", event).await?;
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Payment {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("inventory.reserved") => self.reserved(event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}

/// Writes mails: a second consumer of the same events, under its own inbox name.
struct Notification;

const MAIL: &str = "INSERT INTO mails (order_no, state) VALUES (?, 'sent')";
/// One mail of so many asks for a receipt, which is an event of its own.
const RECEIPT_EVERY: i64 = 6;

impl Notification {
    async fn created(event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        tx.execute(MAIL, &[Value::Int(order.order_no)]).await?;
        if order.order_no % RECEIPT_EVERY == 0 {
            emit(tx, &order, "notification.sent", event).await?;
        }
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Notification {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("order.created") => Self::created(event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}

/// Moves orders and their sagas on by the results of the others.
struct Orders {
    product: String,
    clock: crate::base::clock::Clock,
}

const MOVE_ORDER: &str =
    "UPDATE orders SET state = ? WHERE order_no = ? AND state NOT IN ('confirmed', 'cancelled')";
const SAGA_OF_ORDER: &str = "SELECT saga_id FROM orders WHERE order_no = ?";

impl Orders {
    async fn result(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let (order_state, step, saga_state) = match event.event_type.as_deref() {
            Some("inventory.reserved") => ("reserved", Step::Reserved, "running"),
            Some("inventory.rejected") => ("cancelled", Step::NotReserved, "compensated"),
            Some("payment.charged") => ("confirmed", Step::Charged, "completed"),
            // A receipt is only taken note of, by its inbox row.
            Some("notification.sent") => return Ok(Outcome::Done),
            Some("payment.refused") => ("cancelled", Step::NotCharged, "compensated"),
            _ => return Err(unknown_type(event)),
        };
        let number = Value::Int(order.order_no);
        let moved = tx
            .execute(
                MOVE_ORDER,
                &[Value::Text(order_state.to_owned()), number.clone()],
            )
            .await?;
        if moved == 0 {
            // Confirmed or cancelled already: a late result changes nothing.
            return Ok(Outcome::Done);
        }
        let found = tx.fetch_one(SAGA_OF_ORDER, &[number]).await?;
        if let Some([Value::Text(saga_id)]) = found.as_deref() {
            let now = super::tables::time(&self.product, self.clock.now());
            saga::advance(tx, saga_id, (step, saga_state), (now, &event.event_id)).await?;
        }
        if step == Step::NotCharged {
            emit(tx, &order, "order.cancelled", event).await?;
        }
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Orders {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(self.result(event, tx).await)
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}
