//! What every service of the sandbox does with an event. Everything goes through the transaction that
//! holds the inbox row, so that each effect happens once.

use super::event::{Link, Order};
use crate::model::message::FieldValue;
use crate::model::saga::Side;
use crate::pipeline::consumer::{Outcome, Received};
use crate::pipeline::headers;
use crate::pipeline::saga_coordinator::key_of;
use crate::store::BusinessTx;

use super::order_saga::TYPE;

/// Version of the services: 4.2.1 has just been rolled out, and takes orders without a sku.
pub const VERSION: &str = "4.2.1";

/// A step of a handler: `Err` ends it with that outcome.
pub(super) type Handled = Result<Outcome, Outcome>;

pub(super) fn over(handled: Handled) -> Outcome {
    handled.unwrap_or_else(|outcome| outcome)
}

pub(super) fn permanent(class: &str, error: String) -> Outcome {
    Outcome::Permanent {
        class: class.to_owned(),
        error,
    }
}

pub(super) fn decode(event: &Received) -> Result<Order, Outcome> {
    serde_json::from_slice(event.message.payload.bytes()).map_err(|e| {
        let error = e.to_string();
        let class = error.split(" at line ").next().unwrap_or_default();
        permanent(&format!("decode: {class}"), error)
    })
}

pub(super) fn unknown_type(event: &Received) -> Outcome {
    let kind = event.event_type.as_deref().unwrap_or("without a type");
    permanent("unknown event type", format!("no handler for {kind}"))
}

/// The idempotency key an event carries; one that carries none is about the step it names by its type.
pub(super) fn key(event: &Received, order: &Order, step: &str, side: Side) -> String {
    match event
        .message
        .properties
        .headers
        .get(headers::IDEMPOTENCY_KEY)
    {
        Some(FieldValue::Text(key)) => key.clone(),
        _ => key_of(TYPE, &order.order_no.to_string(), step, side),
    }
}

/// Appends the event `event_type` about `order`, caused by `event`, answering `key`.
pub(super) async fn emit(
    tx: &mut dyn BusinessTx,
    order: &Order,
    event_type: &str,
    (event, key): (&Received, Option<&str>),
) -> Result<(), Outcome> {
    let link = Link {
        cause: Some(&event.event_id),
        key,
    };
    let new = order
        .event(event_type, link)
        .map_err(|error| permanent("encode", error))?;
    Ok(tx.append(&new).await?)
}
