//! What the collector makes of one message in a dead-letter queue. Pure, and total: any bytes and
//! any header types give a row (P-01, P-04, H-08).

use std::collections::HashMap;

use super::headers;
use crate::base::clock::Timestamp;
use crate::base::{digest, text};
use crate::broker::Delivery;
use crate::broker::deaths::deaths;
use crate::config::{Context, OwnerRule, Service};
use crate::model::dead_letter::{NewDeath, Origin, origin};
use crate::model::ids::{AggregateId, ConsumerName, EventId, OperationId};
use crate::model::message::{FieldTable, FieldValue, Message};

/// Longest identity (event id, business key, queue) kept in a column; a longer one stays in the
/// stored message only, because half an identity is a wrong one.
const IDENTITY_BYTES_MAX: usize = 255;
/// Longest class: a group's name has to fit on a screen.
const CLASS_BYTES_MAX: usize = 160;
/// Longest one-line error.
const SUMMARY_BYTES_MAX: usize = 1000;

const EVENT_ID: [&str; 5] = [
    "event_id",
    "eventId",
    "x-event-id",
    "ce_id",
    "cloudEvents:id",
];
const EVENT_TYPE: [&str; 6] = [
    "event_type",
    "eventType",
    "x-event-type",
    "ce_type",
    "cloudEvents:type",
    "__TypeId__",
];
const AGGREGATE_ID: [&str; 5] = [
    "aggregate_id",
    "aggregateId",
    "x-aggregate-id",
    "business_key",
    "ce_subject",
];
const AGGREGATE_VERSION: [&str; 3] = [
    "aggregate_version",
    "aggregateVersion",
    "x-aggregate-version",
];
const TRACE: [&str; 4] = ["traceparent", "trace_id", "x-trace-id", "X-B3-TraceId"];
const PRODUCER_VERSION: [&str; 3] = [
    headers::PRODUCER_VERSION,
    "producer_version",
    "x-app-version",
];
const ERROR_CLASS: [&str; 5] = [
    headers::ERROR_CLASS,
    "error_class",
    "x-exception-type",
    "NServiceBus.ExceptionInfo.ExceptionType",
    "MT-Fault-ExceptionType",
];
const ERROR_SUMMARY: [&str; 10] = [
    headers::ERROR_SUMMARY,
    "x-error-message",
    "x-error",
    "x-exception-message",
    "x-last-error",
    "error_message",
    "NServiceBus.ExceptionInfo.Message",
    "MT-Fault-Message",
    "exception",
    "error",
];
const STACK: [&str; 6] = [
    "x-exception-stacktrace",
    "x-error-stack",
    "stacktrace",
    "stack",
    "NServiceBus.ExceptionInfo.StackTrace",
    "MT-Fault-StackTrace",
];
const FAILED_QUEUE: [&str; 2] = [headers::FAILED_QUEUE, "NServiceBus.FailedQ"];
const RETRY_COUNT: [&str; 4] = [
    headers::RETRY_COUNT,
    "x-retries",
    "retry_count",
    "MT-Fault-RetryCount",
];
const SOURCE_EXCHANGE: [&str; 2] = [headers::SOURCE_EXCHANGE, "x-original-exchange"];
const SOURCE_ROUTING_KEY: [&str; 2] = [headers::SOURCE_ROUTING_KEY, "x-original-routingKey"];

/// Where a message was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The context, for inboxes and owner rules.
    pub context: &'a Context,
    /// The service that collects.
    pub service: &'a Service,
    /// The dead-letter queue.
    pub queue: &'a str,
    /// The collector's time, for a message that does not tell when it died.
    pub now: Timestamp,
}

/// Numbers equal deaths of one event in one unacknowledged batch, so that two deaths that really are
/// two keep different fingerprints, and get the same ones again after a crash (B-14).
#[derive(Debug, Default)]
pub struct Occurrences(HashMap<String, u32>);

impl Occurrences {
    /// The fingerprint of this occurrence.
    pub fn fingerprint(&mut self, base: &str) -> String {
        let seen = self.0.entry(base.to_owned()).or_insert(0);
        let no = *seen;
        *seen = seen.saturating_add(1);
        digest::sha256_hex(format!("{base}#{no}").as_bytes())
    }

    /// Starts again, once everything seen has been acknowledged or given back.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Reads a dead message. Its fingerprint is `base_fingerprint` until `Occurrences` numbers it.
pub fn new_death(delivery: &Delivery, found: Found<'_>) -> NewDeath {
    let message = &delivery.message;
    let table = &message.properties.headers;
    let origin = origin_of(delivery, found.service);
    let consumer = consumer_of(origin.failed_queue.as_deref(), found);
    let event_type = message
        .properties
        .kind
        .clone()
        .filter(|kind| !kind.is_empty())
        .or_else(|| first_text(table, &EVENT_TYPE))
        .map(|kind| cut(&kind, IDENTITY_BYTES_MAX));
    let summary = first_text(table, &ERROR_SUMMARY);
    let error_class = class_of(table, summary.as_deref(), origin.reason.as_deref());
    NewDeath {
        owner: owner_of(
            &found.context.owners,
            consumer.as_str(),
            event_type.as_deref(),
        ),
        consumer,
        event_id: event_id_of(message).map(EventId::new),
        aggregate_id: first_text(table, &AGGREGATE_ID)
            .and_then(identity)
            .map(AggregateId::new),
        aggregate_version: first_number(table, &AGGREGATE_VERSION),
        event_type,
        message_at: message.properties.timestamp.and_then(from_seconds),
        source_exchange: first_text(table, &SOURCE_EXCHANGE).or_else(|| origin.exchange.clone()),
        source_routing_key: first_text(table, &SOURCE_ROUTING_KEY)
            .or_else(|| origin.routing_key.clone()),
        dead_letter_queue: found.queue.to_owned(),
        error_class,
        error_summary: summary.as_deref().map(one_line),
        stack_digest: stack_digest(table, summary.as_deref()),
        delivery_count: first_number(table, &["x-delivery-count"])
            .or_else(|| origin.count.and_then(|n| i64::try_from(n).ok())),
        retry_count: first_number(table, &RETRY_COUNT),
        died_at: origin.time.and_then(from_seconds).unwrap_or(found.now),
        producer_version: first_text(table, &PRODUCER_VERSION).map(|v| cut(&v, 64)),
        consumer_version: first_text(table, &[headers::CONSUMER_VERSION]).map(|v| cut(&v, 64)),
        trace_id: first_text(table, &TRACE).map(|v| cut(&v, 128)),
        replay_allowed: replay_allowed(table),
        operation_id: first_text(table, &[headers::OPERATION])
            .and_then(identity)
            .map(OperationId::new),
        fingerprint: base_fingerprint(message),
        redelivered: delivery.is_redelivered,
        failed_queue: origin.failed_queue,
        reason: origin.reason.map(|reason| cut(&reason, 64)),
        message: message.clone(),
    }
}

/// The id a message carries: `message_id`, else a well-known header.
pub fn event_id_of(message: &Message) -> Option<String> {
    message
        .properties
        .message_id
        .clone()
        .and_then(identity)
        .or_else(|| first_text(&message.properties.headers, &EVENT_ID).and_then(identity))
}

/// The business key a message carries.
pub fn aggregate_id_of(message: &Message) -> Option<AggregateId> {
    first_text(&message.properties.headers, &AGGREGATE_ID)
        .and_then(identity)
        .map(AggregateId::new)
}

/// The version a message carries.
pub fn aggregate_version_of(message: &Message) -> Option<i64> {
    first_number(&message.properties.headers, &AGGREGATE_VERSION)
}

/// Times an operator has replayed this message.
pub fn replays_of(message: &Message) -> i64 {
    first_number(&message.properties.headers, &[headers::REPLAYS]).unwrap_or(0)
}

/// Our own note first: it names the queue for certain. Then the broker's record (H-12), then the
/// queue this service consumes, since its own DLQ has no other source.
fn origin_of(delivery: &Delivery, service: &Service) -> Origin {
    let table = &delivery.message.properties.headers;
    let mut found = origin(&deaths(table));
    if let Some(queue) = first_text(table, &FAILED_QUEUE).and_then(identity) {
        found.failed_queue = Some(queue);
        "the consumer wrote where it failed".clone_into(&mut found.because);
        found.reason = first_text(table, &[headers::REASON]).or(found.reason);
        found.time = table.get(headers::DIED_AT).and_then(seconds).or(found.time);
    } else if found.failed_queue.is_none() {
        found.failed_queue = service.inbox.as_ref().map(|inbox| inbox.queue.clone());
    }
    found
}

/// The inbox that consumes the failed queue; else the queue itself names the consumer. Only a
/// message without any record is taken to be this service's own.
fn consumer_of(failed_queue: Option<&str>, found: Found<'_>) -> ConsumerName {
    let inboxes = || {
        std::iter::once(found.service)
            .chain(&found.context.services)
            .filter_map(|service| service.inbox.as_ref())
    };
    match failed_queue {
        Some(queue) => inboxes().find(|inbox| inbox.queue == queue).map_or_else(
            || ConsumerName::new(cut(queue, IDENTITY_BYTES_MAX)),
            |inbox| inbox.consumer.clone(),
        ),
        None => ConsumerName::new(found.queue),
    }
}

fn class_of(table: &FieldTable, summary: Option<&str>, reason: Option<&str>) -> String {
    let told = first_text(table, &ERROR_CLASS);
    let class = match (told, summary) {
        (Some(class), _) => class,
        (None, Some(summary)) => summary.to_owned(),
        (None, None) => format!("no error told: {}", reason.unwrap_or("unknown reason")),
    };
    normalise(&class)
}

/// A class without what differs from event to event: numbers and ids.
pub fn normalise(class: &str) -> String {
    let line = one_line(class);
    let mut out = String::with_capacity(line.len());
    let mut word = String::new();
    for c in line.chars() {
        if c.is_alphanumeric() || c == '-' {
            word.push(c);
        } else {
            push_word(&mut out, &word);
            word.clear();
            out.push(c);
        }
    }
    push_word(&mut out, &word);
    let out = out.trim();
    cut(
        if out.is_empty() { "empty error" } else { out },
        CLASS_BYTES_MAX,
    )
}

fn push_word(out: &mut String, word: &str) {
    let is_hex = word.len() >= 8
        && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
        && word.chars().any(|c| c.is_ascii_digit());
    if is_hex {
        out.push('#');
        return;
    }
    let mut in_number = false;
    for c in word.chars() {
        let is_digit = c.is_ascii_digit();
        if !is_digit {
            out.push(c);
        } else if !in_number {
            out.push('#');
        }
        in_number = is_digit;
    }
}

/// Digest of the stack, or of an error too long for its line.
fn stack_digest(table: &FieldTable, summary: Option<&str>) -> Option<String> {
    first_text(table, &STACK)
        .or_else(|| {
            summary
                .filter(|s| s.len() > SUMMARY_BYTES_MAX || s.contains('\n'))
                .map(str::to_owned)
        })
        .map(|stack| digest::sha256_hex(stack.as_bytes()))
}

fn replay_allowed(table: &FieldTable) -> bool {
    match table.get(headers::REPLAY) {
        Some(FieldValue::Bool(allowed)) => *allowed,
        Some(value) => !matches!(
            value.as_text().map(str::to_ascii_lowercase).as_deref(),
            Some("never" | "no" | "false" | "forbidden" | "deny")
        ),
        None => true,
    }
}

fn owner_of(rules: &[OwnerRule], consumer: &str, event_type: Option<&str>) -> Option<String> {
    rules
        .iter()
        .find(|rule| {
            rule.consumer
                .as_deref()
                .is_none_or(|pattern| matches(pattern, consumer))
                && rule
                    .event_type
                    .as_deref()
                    .is_none_or(|pattern| event_type.is_some_and(|kind| matches(pattern, kind)))
        })
        .map(|rule| rule.owner.clone())
}

/// `order.*` matches what starts with `order.`; anything else matches itself.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Identity of a death: the broker's record, our own notes, the id and the bytes.
fn base_fingerprint(message: &Message) -> String {
    let table = &message.properties.headers;
    let mut told = String::new();
    for (name, value) in table.iter() {
        if name == "x-death" || name == "x-opt-deaths" || name.starts_with("x-redrive-") {
            told.push_str(name);
            told.push('=');
            told.push_str(&value.display());
            told.push('\n');
        }
    }
    let id = event_id_of(message).unwrap_or_default();
    digest::sha256_hex(format!("{id}\n{}\n{told}", message.payload.sha256()).as_bytes())
}

/// The first of `names` that is there, as text without anything a column could refuse: bytes that
/// are not UTF-8 and control characters come out as visible tokens (P-04, P-13).
fn first_text(table: &FieldTable, names: &[&str]) -> Option<String> {
    names
        .iter()
        .find_map(|name| match table.get(name)? {
            FieldValue::Text(text) => Some(text.clone()),
            FieldValue::TextBytes(bytes) | FieldValue::Bytes(bytes) => {
                Some(text::safe_bytes(bytes))
            }
            FieldValue::Void | FieldValue::Array(_) | FieldValue::Table(_) => None,
            other => Some(other.display()),
        })
        .filter(|value| !value.trim().is_empty())
        .map(|value| value.replace('\0', "\u{2400}"))
}

fn first_number(table: &FieldTable, names: &[&str]) -> Option<i64> {
    names.iter().find_map(|name| {
        let value = table.get(name)?;
        value
            .as_i64()
            .or_else(|| value.as_text().and_then(|text| text.trim().parse().ok()))
    })
}

fn seconds(value: &FieldValue) -> Option<u64> {
    match value {
        FieldValue::Time(at) => Some(*at),
        other => other.as_i64().and_then(|n| u64::try_from(n).ok()),
    }
}

/// `None` for a time no database can hold (after the year 9999).
fn from_seconds(at: u64) -> Option<Timestamp> {
    const LAST: i64 = 253_402_300_799;
    i64::try_from(at)
        .ok()
        .filter(|at| *at > 0 && *at <= LAST)
        .map(|at| Timestamp::from_micros(at.saturating_mul(1_000_000)))
}

fn identity(value: String) -> Option<String> {
    (!value.trim().is_empty() && value.len() <= IDENTITY_BYTES_MAX && !value.contains('\0'))
        .then_some(value)
}

fn one_line(value: &str) -> String {
    let line = value.trim().lines().next().unwrap_or_default().trim_end();
    cut(&text::safe(line), SUMMARY_BYTES_MAX)
}

fn cut(value: &str, bytes: usize) -> String {
    text::cut_bytes(value, bytes).replace('\0', "\u{2400}")
}

#[cfg(test)]
mod tests;
