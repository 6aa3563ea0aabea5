//! Orders of a drill: their numbers, sku and keys are the drill's own.

use super::trouble::{Told as _, Trouble};
use crate::model::ids::EventId;
use crate::ports::Ports;
use crate::sandbox::{self, OrderRequest, OrderSaga, PlaceError, Tempo};
use crate::store::{StoreError, Value};

/// Orders from here on belong to drills.
const FIRST: i64 = 1_000_000_000;
/// Orders whose numbers a drill may use.
const NUMBERS: i64 = 100_000;

const STOCK: &str = "INSERT INTO stock (sku, on_hand, reserved) VALUES (?, ?, 0)";
/// By `outbox_aggregate`.
const CREATED: &str = "SELECT event_id FROM outbox_events WHERE aggregate_id = ? \
     AND event_type = 'order.created' ORDER BY event_id LIMIT 1";

/// The numbers of a drill that starts now: no two drills share one, and all have the same length, so
/// that aggregate ids sort as numbers.
pub fn numbers(ports: &Ports) -> std::ops::Range<i64> {
    let millis = ports.clock.now().micros() / 1_000;
    let first = FIRST.max(millis.saturating_mul(NUMBERS));
    first..first + NUMBERS
}

/// Order `number`: one to three pieces at 7.00 each, under the client's key.
pub fn order(number: i64, sku: &str) -> OrderRequest {
    let quantity = 1 + number % 3;
    OrderRequest {
        idempotency_key: format!("drill-{number}"),
        order_no: Some(number),
        email: "drill@example.org".to_owned(),
        sku: Some(sku.to_owned()),
        quantity,
        amount_cents: quantity * 700,
    }
}

/// A committed order.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Its number.
    pub order_no: i64,
    /// Pieces.
    pub quantity: i64,
    /// Cents.
    pub amount_cents: i64,
    /// Its `order.created`.
    pub event_id: EventId,
    /// False when the request was repeated and found its order.
    pub is_new: bool,
}

/// Makes the drill's sku.
///
/// # Errors
/// When the database did not take it.
pub async fn stock(ports: &Ports, sku: &str, on_hand: i64) -> Result<(), Trouble> {
    let Some(store) = ports.store("inventory") else {
        return Err(absent("inventory"));
    };
    let mut tx = store.begin().await.told()?;
    tx.execute(STOCK, &[Value::Text(sku.to_owned()), Value::Int(on_hand)])
        .await
        .told()?;
    tx.commit().await.told()
}

/// A service that every drill needs is missing.
pub fn absent(service: &str) -> Trouble {
    Trouble::NotConfigured(format!("the context has no service {service}"))
}

/// Places an order under the client's idempotency key: asked again, it is the same order.
///
/// # Errors
/// When the database did not take it; then neither order nor event exist, or the commit's answer
/// was lost and asking again tells.
pub async fn place(ports: &Ports, request: &OrderRequest) -> Result<Placed, PlaceError> {
    let missing = |reason: &str| StoreError::Unsupported {
        service: "orders".to_owned(),
        reason: reason.to_owned(),
    };
    let store = ports
        .store("orders")
        .ok_or_else(|| missing("the context has no such service"))?;
    let saga = OrderSaga::new(ports, Tempo::default());
    let accepted = sandbox::place_order(store.as_ref(), &saga, request).await?;
    let mut tx = store.begin().await?;
    let key = [Value::Text(accepted.order_no.to_string())];
    let row = tx.fetch_one(CREATED, &key).await?;
    tx.rollback().await?;
    let Some([Value::Text(event_id)]) = row.as_deref() else {
        return Err(missing("the order was committed without its event").into());
    };
    Ok(Placed {
        order_no: accepted.order_no,
        quantity: request.quantity,
        amount_cents: request.amount_cents,
        event_id: EventId::new(event_id.as_str()),
        is_new: accepted.is_new,
    })
}
