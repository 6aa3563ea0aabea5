//! Scans on the embedded pipeline.

mod checks;
mod engine;
mod orders;

use std::time::Duration;

use super::*;
use crate::base::clock::{Clock, Timestamp};
use crate::base::digest::sha256_hex;
use crate::config::Context;
use crate::pipeline::test_support::Bench;
use crate::store::Value;

/// What changed less than so long ago is in flight.
const GRACE: Duration = Duration::from_mins(2);

/// A pipeline whose scans look again at once.
async fn bench_with(change: impl FnOnce(&mut Context)) -> Bench {
    Bench::with(|context| {
        context.scan.second_look = Duration::ZERO;
        context.scan.grace = GRACE;
        change(context);
    })
    .await
}

async fn bench() -> Bench {
    bench_with(|_| {}).await
}

fn reconciler(bench: &Bench) -> Reconciler {
    Reconciler::new(bench.ports.clone(), "mia@desk".to_owned(), false)
}

async fn scan(bench: &Bench, rule: &str) -> Outcome {
    let outcome = reconciler(bench).run(rule, &Watch::nobody()).await;
    outcome.expect("runs")
}

fn ago(seconds: u64) -> Value {
    let at: Timestamp = Clock::System.now().minus(Duration::from_secs(seconds));
    Value::Int(at.micros())
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

async fn execute(bench: &Bench, service: &str, statement: &'static str, values: &[Value]) {
    let mut tx = bench.store(service).begin().await.expect("begins");
    tx.execute(statement, values).await.expect("runs");
    tx.commit().await.expect("commits");
}

/// An outbox row as a test wants it.
struct Sent<'a> {
    service: &'a str,
    id: &'a str,
    kind: &'a str,
    key: &'a str,
    version: i64,
    status: &'a str,
    created_s: u64,
    sent_s: u64,
}

impl Default for Sent<'_> {
    fn default() -> Self {
        Self {
            service: "orders",
            id: "e-1",
            kind: "order.created",
            key: "1",
            version: 1,
            status: "sent",
            created_s: 3_600,
            sent_s: 3_600,
        }
    }
}

fn payload_of(id: &str) -> String {
    format!("{{\"of\":\"{id}\"}}")
}

impl Sent<'_> {
    async fn write(self, bench: &Bench) {
        let sent = match self.status {
            "sent" => ago(self.sent_s),
            _ => Value::Null,
        };
        let values = [
            text(self.id),
            text(self.key),
            Value::Int(self.version),
            text(self.kind),
            text(payload_of(self.id)),
            text(self.status),
            ago(self.created_s),
            ago(self.created_s),
            sent,
        ];
        execute(
            bench,
            self.service,
            "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, \
             status, next_attempt_at, created_at, sent_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &values,
        )
        .await;
    }
}

/// An inbox row with the payload of some event.
async fn consumed(bench: &Bench, (service, id): (&str, &str), content: &str, age_s: u64) {
    let values = [
        text(service),
        text(id),
        text(sha256_hex(content.as_bytes())),
        ago(age_s),
    ];
    execute(
        bench,
        service,
        "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at) \
         VALUES (?, ?, ?, ?)",
        &values,
    )
    .await;
}

/// A dead letter.
async fn dead(bench: &Bench, (service, id): (&str, &str), status: &str, owner: Option<&str>) {
    let values = [
        text(format!("letter-{id}")),
        text(service),
        text(id),
        text(status),
        owner.map_or(Value::Null, text),
        ago(1_200),
        ago(1_200),
        ago(1_200),
        ago(1_200),
    ];
    execute(
        bench,
        service,
        "INSERT INTO dead_letters (dead_letter_id, consumer_name, event_id, status, owner, first_died_at, \
         last_died_at, created_at, updated_at, dead_letter_queue, error_class, properties, headers, payload, \
         payload_bytes, payload_sha256) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'dlq', 'decode', '{}', '[]', '', 0, '')",
        &values,
    )
    .await;
}

fn subjects(outcome: &Outcome, class: &str) -> Vec<String> {
    let mut subjects: Vec<String> = outcome
        .found
        .iter()
        .filter(|difference| difference.class == class)
        .map(|difference| difference.subject.clone())
        .collect();
    subjects.sort();
    subjects
}
