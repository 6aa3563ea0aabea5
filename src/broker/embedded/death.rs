//! What a broker writes into a message it dead-letters: the typed `x-death` history, newest first,
//! as RabbitMQ 3.10 does (one entry per queue and reason, counted).

use crate::base::clock::Timestamp;
use crate::model::message::{FieldTable, FieldValue, Message};

/// One death about to be recorded.
pub(super) struct DeathNote<'a> {
    pub queue: &'a str,
    pub reason: &'a str,
    pub exchange: &'a str,
    pub routing_keys: Vec<String>,
    pub at: Timestamp,
}

/// Writes the death into the message's headers and takes its expiration away: a message must not
/// expire again in the queue it is kept in.
pub(super) fn record(message: &mut Message, note: &DeathNote<'_>) {
    let headers = &mut message.properties.headers;
    let mut history = match headers.get("x-death") {
        Some(FieldValue::Array(entries)) => entries.clone(),
        _ => Vec::new(),
    };
    let earlier = history
        .iter()
        .position(|entry| is_about(entry, note.queue, note.reason));
    let count = earlier.map_or(0, |index| count_of(&history.remove(index))) + 1;
    let mut entry = FieldTable::new();
    entry.set("count", FieldValue::I64(count));
    entry.set("reason", FieldValue::text(note.reason));
    entry.set("queue", FieldValue::text(note.queue));
    entry.set(
        "time",
        FieldValue::Time(u64::try_from(note.at.micros() / 1_000_000).unwrap_or(0)),
    );
    entry.set("exchange", FieldValue::text(note.exchange));
    entry.set(
        "routing-keys",
        FieldValue::Array(note.routing_keys.iter().map(FieldValue::text).collect()),
    );
    if let Some(expiration) = message.properties.expiration.take() {
        entry.set("original-expiration", FieldValue::Text(expiration));
    }
    history.insert(0, FieldValue::Table(entry));
    headers.set("x-death", FieldValue::Array(history));
    if headers.get("x-first-death-reason").is_none() {
        headers.set("x-first-death-reason", FieldValue::text(note.reason));
        headers.set("x-first-death-queue", FieldValue::text(note.queue));
        headers.set("x-first-death-exchange", FieldValue::text(note.exchange));
    }
}

/// True when the message has come back to `queue` by machines alone (it died there before and was
/// never rejected by a consumer): such a message is dropped, or it would circle for ever.
pub(super) fn is_cycle(message: &Message, queue: &str) -> bool {
    let Some(FieldValue::Array(history)) = message.properties.headers.get("x-death") else {
        return false;
    };
    let died_here = history
        .iter()
        .any(|entry| text_of(entry, "queue") == Some(queue));
    let was_rejected = history
        .iter()
        .any(|entry| text_of(entry, "reason") == Some("rejected"));
    died_here && !was_rejected
}

fn is_about(entry: &FieldValue, queue: &str, reason: &str) -> bool {
    text_of(entry, "queue") == Some(queue) && text_of(entry, "reason") == Some(reason)
}

fn text_of<'a>(entry: &'a FieldValue, field: &str) -> Option<&'a str> {
    match entry {
        FieldValue::Table(table) => table.get(field).and_then(FieldValue::as_text),
        _ => None,
    }
}

fn count_of(entry: &FieldValue) -> i64 {
    match entry {
        FieldValue::Table(table) => table.get("count").and_then(FieldValue::as_i64).unwrap_or(0),
        _ => 0,
    }
}
