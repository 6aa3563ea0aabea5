//! Copies a consumer sends on: to a retry queue with the number of tries, to the dead-letter queue with
//! the reason. Both keep where the message first came from.

use super::super::headers;
use crate::base::text;
use crate::broker::deaths::is_broker_owned;
use crate::model::ids::EventId;
use crate::model::message::{FieldValue, Message};

/// Why an event dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    pub class: String,
    pub error: String,
    pub attempts: u32,
}

/// A message and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub message: Message,
    pub exchange: String,
    pub routing_key: String,
}

impl Arrived {
    /// Where it was first published to: a copy comes through the default exchange, and its headers
    /// say where it came from before.
    fn source(&self) -> (String, String) {
        let table = &self.message.properties.headers;
        let kept = |name| table.get(name).and_then(FieldValue::as_text);
        match (
            table.get(headers::ATTEMPT),
            kept(headers::SOURCE_EXCHANGE),
            kept(headers::SOURCE_ROUTING_KEY),
        ) {
            (Some(_), Some(exchange), Some(key)) => (exchange.to_owned(), key.to_owned()),
            _ => (self.exchange.clone(), self.routing_key.clone()),
        }
    }

    /// The copy that waits in a retry queue. The broker's death history is kept: it counts the waits.
    pub(super) fn retry(&self, attempts: u32, error: &str) -> Message {
        let (exchange, routing_key) = self.source();
        let mut message = self.message.clone();
        let table = &mut message.properties.headers;
        // The counts of the queue it leaves; the next queue counts anew.
        table.take_where(|name| is_broker_owned(name) && name.ends_with("-count"));
        table.set(headers::ATTEMPT, FieldValue::I64(i64::from(attempts)));
        table.set(headers::SOURCE_EXCHANGE, FieldValue::Text(exchange));
        table.set(headers::SOURCE_ROUTING_KEY, FieldValue::Text(routing_key));
        let reason = text::safe(text::cut_bytes(error, 500));
        table.set(headers::RETRY_REASON, FieldValue::Text(reason));
        message
    }

    /// The copy for the dead-letter queue.
    pub(super) fn dead_letter(
        &self,
        queue: &str,
        death: &Death,
        version: &str,
        died_at_s: u64,
    ) -> Message {
        let (exchange, routing_key) = self.source();
        let mut message = self.message.clone();
        let table = &mut message.properties.headers;
        // Told by the retry count from here on; left in, it would shorten a replay by hand.
        table.take_where(|name| matches!(name, headers::ATTEMPT | headers::RETRY_REASON));
        let texts = [
            (headers::FAILED_QUEUE, queue),
            (headers::REASON, "rejected"),
            (headers::DEATH_ID, EventId::generate().as_str()),
            (headers::SOURCE_EXCHANGE, &exchange),
            (headers::SOURCE_ROUTING_KEY, &routing_key),
            (headers::ERROR_CLASS, text::cut_bytes(&death.class, 200)),
            (headers::ERROR_SUMMARY, text::cut_bytes(&death.error, 2000)),
            (headers::CONSUMER_VERSION, version),
        ]
        .map(|(name, value)| (name, FieldValue::text(value)));
        for (name, value) in texts {
            table.set(name, value);
        }
        table.set(headers::DIED_AT, FieldValue::Time(died_at_s));
        table.set(
            headers::RETRY_COUNT,
            FieldValue::I64(i64::from(death.attempts)),
        );
        message
    }
}
