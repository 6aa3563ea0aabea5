//! The inventory service: reserves stock for an order, and gives it back. A command repeated under its
//! key is answered again and has no second effect; an order cancelled before it came leaves a tombstone.

use async_trait::async_trait;

use super::event::{GIFT, Order, UNKNOWN};
use super::fault::{Chance, Fault};
use super::handlers::{Handled, VERSION, decode, emit, key, over, permanent, unknown_type};
use super::order_saga::RESERVE_STOCK;
use crate::model::saga::Side;
use crate::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
use crate::store::{BusinessTx, StoreResult, Value};

/// Reserves stock, and releases it when an order is cancelled.
pub(super) struct Inventory {
    pub(super) chance: Chance,
}

const RESERVE: &str =
    "UPDATE stock SET reserved = reserved + ? WHERE sku = ? AND on_hand - reserved >= ?";
const GIVE_BACK: &str = "UPDATE stock SET reserved = reserved - ? WHERE sku = ? AND reserved >= ?";
const RESERVATION: &str = "INSERT INTO reservations (order_no, idempotency_key, sku, quantity, state) VALUES (?, ?, ?, ?, ?)";
const RELEASE: &str =
    "UPDATE reservations SET state = 'released' WHERE order_no = ? AND state = 'reserved'";
const FIND: &str = "SELECT state, sku, quantity FROM reservations WHERE order_no = ?";

/// A reservation as it is stored.
pub(super) struct Reservation {
    /// `reserved`, `released`, `rejected` or `cancelled`.
    pub state: String,
    sku: String,
    quantity: i64,
}

/// The reservation of an order.
pub(super) async fn reservation(
    tx: &mut dyn BusinessTx,
    order_no: i64,
) -> StoreResult<Option<Reservation>> {
    let row = tx.fetch_one(FIND, &[Value::Int(order_no)]).await?;
    Ok(match row.as_deref() {
        Some([Value::Text(state), Value::Text(sku), Value::Int(quantity)]) => Some(Reservation {
            state: state.clone(),
            sku: sku.clone(),
            quantity: *quantity,
        }),
        _ => None,
    })
}

/// Writes a reservation row.
async fn keep(
    tx: &mut dyn BusinessTx,
    order: &Order,
    key: &str,
    (sku, state): (&str, &str),
) -> StoreResult<()> {
    let row = [
        Value::Int(order.order_no),
        Value::Text(key.to_owned()),
        Value::Text(sku.to_owned()),
        Value::Int(order.quantity),
        Value::Text(state.to_owned()),
    ];
    tx.execute(RESERVATION, &row).await?;
    Ok(())
}

/// Takes stock and writes the reservation; `false` when there is too little.
pub(super) async fn reserve(
    tx: &mut dyn BusinessTx,
    order: &Order,
    key: &str,
) -> StoreResult<bool> {
    let sku = order.sku.clone().unwrap_or_else(|| GIFT.to_owned());
    let quantity = Value::Int(order.quantity);
    let wanted = [quantity.clone(), Value::Text(sku.clone()), quantity];
    let is_reserved = tx.execute(RESERVE, &wanted).await? == 1;
    let state = if is_reserved { "reserved" } else { "rejected" };
    keep(tx, order, key, (&sku, state)).await?;
    Ok(is_reserved)
}

impl Inventory {
    async fn wanted(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let key = key(event, &order, RESERVE_STOCK, Side::Forward);
        let answers = (event, Some(key.as_str()));
        if self.chance.fault_of(order.order_no) == Fault::FlakyOnce && event.attempt == 1 {
            return Err(Outcome::Transient("lock wait timeout on stock".to_owned()));
        }
        if let Some(found) = reservation(tx, order.order_no).await? {
            if found.state == "reserved" {
                emit(tx, &order, "inventory.reserved", answers).await?;
                return Ok(Outcome::Done);
            }
            let refused = order.because(&format!("the reservation was {}", found.state));
            emit(tx, &refused, "inventory.rejected", answers).await?;
            return Ok(Outcome::Rejected);
        }
        if order.sku.as_deref() == Some(UNKNOWN) {
            return Err(permanent(
                "unknown sku",
                format!(
                    "sku {UNKNOWN} of order {} is not in the catalogue",
                    order.order_no
                ),
            ));
        }
        if !reserve(tx, &order, &key).await? {
            let refused = order.because("too little stock");
            emit(tx, &refused, "inventory.rejected", answers).await?;
            return Ok(Outcome::Rejected);
        }
        emit(tx, &order, "inventory.reserved", answers).await?;
        Ok(Outcome::Done)
    }

    /// Gives the stock back, or leaves a tombstone so that a later order does not come to life.
    async fn release(event: &Received, tx: &mut dyn BusinessTx, order: &Order) -> StoreResult<()> {
        match reservation(tx, order.order_no).await? {
            None => {
                let key = key(event, order, RESERVE_STOCK, Side::Compensation);
                keep(tx, order, &key, ("", "cancelled")).await
            }
            Some(found) => {
                let released = tx.execute(RELEASE, &[Value::Int(order.order_no)]).await?;
                if released == 1 {
                    let quantity = Value::Int(found.quantity);
                    let row = [quantity.clone(), Value::Text(found.sku), quantity];
                    tx.execute(GIVE_BACK, &row).await?;
                }
                Ok(())
            }
        }
    }

    async fn cancelled(event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        Self::release(event, tx, &order).await?;
        Ok(Outcome::Done)
    }

    async fn released(event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        Self::release(event, tx, &order).await?;
        let key = key(event, &order, RESERVE_STOCK, Side::Compensation);
        emit(tx, &order, "inventory.released", (event, Some(&key))).await?;
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Inventory {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("order.created" | "inventory.reserve") => self.wanted(event, tx).await,
            Some("order.cancelled") => Self::cancelled(event, tx).await,
            Some("inventory.release") => Self::released(event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    /// A reservation's state guards itself: reserved once, released once, and a tombstone for what was
    /// cancelled before it came.
    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::Transition
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}
