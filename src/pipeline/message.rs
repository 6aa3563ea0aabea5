//! An outbox row as the message it becomes. Used by the dispatcher to publish it, and by `operate`
//! to compare a dead letter with its original: both must see the same bytes and names.

use crate::broker::Outgoing;
use crate::config::OutboxPart;
use crate::model::message::{FieldValue, Message, Properties};
use crate::model::outbox::{OutboxEvent, OutboxRow};

/// `delivery_mode` of a message that survives a broker restart.
const PERSISTENT: u8 = 2;

/// Builds the message of an event. The same row always gives the same message.
pub fn message_of(event: &OutboxEvent, part: &OutboxPart) -> Outgoing {
    into_message(event.clone(), part).1
}

/// The row, and its message made of the rest without copying the payload.
pub fn into_message(event: OutboxEvent, part: &OutboxPart) -> (OutboxRow, Outgoing) {
    let row = event.row;
    let mut headers = event.headers;
    // The producer's headers, then what the columns say: a column wins over a header of its name,
    // since the console and the inbox go by columns.
    if let Some(id) = &row.aggregate_id {
        headers.set("aggregate_id", FieldValue::text(id.as_str()));
    }
    if let Some(version) = row.aggregate_version {
        headers.set("aggregate_version", FieldValue::I64(version));
    }
    if let Some(version) = event.schema_version {
        headers.set("schema_version", FieldValue::I64(version));
    }
    if let Some(trace) = event.trace_id {
        headers.set(trace_header(&trace), FieldValue::Text(trace));
    }
    if let Some(cause) = event.causation_id {
        headers.set("causation_id", FieldValue::Text(cause));
    }
    let out = Outgoing {
        exchange: event.exchange.unwrap_or_else(|| part.exchange.clone()),
        routing_key: event.routing_key.unwrap_or_else(|| row.event_type.clone()),
        message: Message {
            properties: Properties {
                content_type: Some("application/json".to_owned()),
                headers,
                delivery_mode: Some(PERSISTENT),
                message_id: Some(row.event_id.to_string()),
                timestamp: row
                    .created_at
                    .and_then(|at| u64::try_from(at.micros() / 1_000_000).ok()),
                kind: Some(row.event_type.clone()),
                ..Properties::default()
            },
            payload: event.payload,
        },
    };
    (row, out)
}

/// A W3C `traceparent` has dashes (`00-<trace>-<span>-01`); a bare trace id has none.
fn trace_header(value: &str) -> &'static str {
    if value.split('-').count() == 4 {
        "traceparent"
    } else {
        "trace_id"
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::model::ids::{AggregateId, EventId};
    use crate::model::message::Payload;
    use crate::model::outbox::OutboxState;

    pub(crate) fn event(id: &str) -> OutboxEvent {
        OutboxEvent {
            row: OutboxRow {
                event_id: EventId::new(id),
                aggregate_id: Some(AggregateId::new("8812")),
                aggregate_version: Some(3),
                event_type: "order.created".to_owned(),
                state: OutboxState::Sending,
                attempts: Some(1),
                next_attempt_at: None,
                claim_token: None,
                lease_until: None,
                last_error: None,
                created_at: Some(Timestamp::from_micros(1_767_323_045_678_901)),
                sent_at: None,
            },
            schema_version: Some(1),
            payload: Payload::new(br#"{"a":1.10}"#.to_vec()),
            headers: [("tenant".to_owned(), FieldValue::I16(7))]
                .into_iter()
                .collect(),
            exchange: None,
            routing_key: None,
            trace_id: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            causation_id: Some("c-1".to_owned()),
        }
    }

    pub(crate) fn part() -> OutboxPart {
        OutboxPart {
            layout: "native".to_owned(),
            table: None,
            exchange: "shop.events".to_owned(),
        }
    }

    #[test]
    fn a_row_becomes_a_persistent_message_under_its_own_id() {
        let out = message_of(&event("e-1"), &part());
        assert_eq!(
            (out.exchange.as_str(), out.routing_key.as_str()),
            ("shop.events", "order.created")
        );
        let properties = &out.message.properties;
        assert_eq!(properties.message_id.as_deref(), Some("e-1"));
        assert_eq!(properties.kind.as_deref(), Some("order.created"));
        assert_eq!(properties.delivery_mode, Some(2));
        assert_eq!(properties.timestamp, Some(1_767_323_045));
        assert_eq!(out.message.payload.bytes(), br#"{"a":1.10}"#);
        let names: Vec<_> = properties.headers.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "tenant",
                "aggregate_id",
                "aggregate_version",
                "schema_version",
                "traceparent",
                "causation_id"
            ]
        );
    }

    #[test]
    fn a_row_may_name_its_own_destination() {
        let mut event = event("e-1");
        event.exchange = Some(String::new());
        event.routing_key = Some("inventory.orders".to_owned());
        event.trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
        let out = message_of(&event, &part());
        assert_eq!(
            (out.exchange.as_str(), out.routing_key.as_str()),
            ("", "inventory.orders")
        );
        assert!(out.message.properties.headers.get("trace_id").is_some());
    }
}
