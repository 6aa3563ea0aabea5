//! What the sandbox's services tell each other.

use rand::Rng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldTable, FieldValue, Payload};
use crate::model::outbox::NewEvent;
use crate::pipeline::headers;

use super::fault::Fault;

/// A sku with nothing on hand.
pub const SOLD_OUT: &str = "SKU-SOLD-OUT";
/// What consumer 4.2.1 takes when a payload has no sku.
pub const GIFT: &str = "SKU-GIFT";
/// A sku no catalogue has.
pub const UNKNOWN: &str = "SKU-404";
/// Skus with plenty on hand.
pub const SKUS: [&str; 4] = ["SKU-TEA", "SKU-CUP", "SKU-POT", "SKU-TRAY"];

/// An order, as every event about it tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number: the business key.
    pub order_no: i64,
    /// Who ordered.
    pub customer: Customer,
    /// What; absent on gift orders since 4.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// How many.
    pub quantity: i64,
    /// Price of all of it.
    pub amount_cents: i64,
    /// Why it was refused or cancelled, in events that say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Customer {
    /// Masked on screens.
    pub email: String,
}

/// What an event belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link<'a> {
    /// The event that caused it.
    pub cause: Option<&'a EventId>,
    /// The idempotency key of the command it is or answers.
    pub key: Option<&'a str>,
}

impl Order {
    /// Order `order_no` as chance and its fault make it.
    pub fn draw(order_no: i64, fault: Fault, rng: &mut StdRng) -> Self {
        let quantity = rng.random_range(1..=3);
        let any = SKUS
            .get(rng.random_range(0..SKUS.len()))
            .copied()
            .unwrap_or(GIFT);
        Self {
            order_no,
            customer: Customer {
                email: format!("c{}@example.org", rng.random_range(100..999)),
            },
            sku: match fault {
                Fault::NoSku => None,
                Fault::UnknownSku => Some(UNKNOWN.to_owned()),
                Fault::OutOfStock => Some(SOLD_OUT.to_owned()),
                _ => Some(any.to_owned()),
            },
            quantity,
            amount_cents: quantity * rng.random_range(350..4_500),
            reason: None,
        }
    }

    /// The same with a reason.
    pub fn because(&self, reason: &str) -> Self {
        Self {
            reason: Some(reason.to_owned()),
            ..self.clone()
        }
    }

    /// The event of type `event_type` about this order. Versions are fixed by type, so that a
    /// sequence reads the same whichever service wrote its events.
    ///
    /// # Errors
    /// Never for these fields; kept as a value because serialising may fail in general.
    pub fn event(&self, event_type: &str, link: Link<'_>) -> Result<NewEvent, String> {
        let mut table = FieldTable::new();
        table.set("x-producer-version", FieldValue::text("4.2.1"));
        if let Some(key) = link.key {
            table.set(headers::IDEMPOTENCY_KEY, FieldValue::text(key));
        }
        Ok(NewEvent {
            event_id: EventId::generate(),
            aggregate_id: AggregateId::new(self.order_no.to_string()),
            aggregate_version: version_of(event_type),
            event_type: event_type.to_owned(),
            schema_version: 1,
            payload: Payload::new(serde_json::to_vec(self).map_err(|e| e.to_string())?),
            headers: table,
            exchange: None,
            routing_key: None,
            trace_id: Some(uuid::Uuid::new_v4().simple().to_string()),
            causation_id: link.cause.map(ToString::to_string),
        })
    }
}

/// Each service's facts about an order are a sequence of their own, without gaps; commands, and what
/// nobody follows, are no part of one.
fn version_of(event_type: &str) -> i64 {
    match event_type {
        "order.created" | "inventory.reserved" | "inventory.rejected" | "payment.charged"
        | "payment.refused" | "notification.sent" => 1,
        "order.confirmed"
        | "order.cancelled"
        | "inventory.released"
        | "payment.refunded"
        | "payment.refund_refused" => 2,
        _ => 0,
    }
}
