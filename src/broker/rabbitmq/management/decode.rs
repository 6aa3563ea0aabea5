//! What the management API's JSON says, taken leniently: a key may be missing, empty, of another type
//! or new (M-01, M-02, M-07, M-09). What is not told is `None`, never zero.

use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::broker::{Binding, NodeFacts, QueueFacts, QueuePage};

/// e.g. `RabbitMQ 3.10.8`.
pub(super) fn product(overview: &Value) -> String {
    let name = text(overview, "product_name").unwrap_or_else(|| "RabbitMQ".to_owned());
    let version = text(overview, "product_version").or_else(|| text(overview, "rabbitmq_version"));
    match version {
        Some(version) => format!("{name} {version}"),
        None => name,
    }
}

/// Nodes; `None` when the answer has another shape.
pub(super) fn nodes(answer: &Value) -> Option<Vec<NodeFacts>> {
    let nodes = items(answer)?.iter().filter_map(|node| {
        Some(NodeFacts {
            name: text(node, "name")?,
            is_running: flag(node, "running"),
            memory_alarm: flag(node, "mem_alarm"),
            disk_alarm: flag(node, "disk_free_alarm"),
        })
    });
    Some(nodes.collect())
}

/// Bindings; `None` when the answer has another shape.
pub(super) fn bindings(answer: &Value) -> Option<Vec<Binding>> {
    let bindings = items(answer)?.iter().filter_map(|binding| {
        Some(Binding {
            // The default exchange has the empty name, which `text` takes for untold.
            source: raw_text(binding, "source")?,
            destination: text(binding, "destination")?,
            is_to_queue: text(binding, "destination_type").is_none_or(|kind| kind == "queue"),
            routing_key: raw_text(binding, "routing_key").unwrap_or_default(),
        })
    });
    Some(bindings.collect())
}

/// A page of queues: an object with `items`, or the bare list an old node or a cache gives, which is
/// then cut here.
pub(super) fn queue_page(
    answer: &Value,
    page: u32,
    page_size: u32,
    now: Timestamp,
) -> Option<QueuePage> {
    let mut queues: Vec<QueueFacts> = items(answer)?
        .iter()
        .filter_map(|queue_json| queue(queue_json, now))
        .collect();
    let total = if answer.is_array() {
        let total = queues.len() as u64;
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let skipped = (page.saturating_sub(1) as usize).saturating_mul(page_size as usize);
        queues = queues
            .into_iter()
            .skip(skipped)
            .take(page_size as usize)
            .collect();
        Some(total)
    } else {
        number(answer, "total_count")
    };
    // A queue the statistics have not reached yet has no state either (M-01, M-03).
    let is_untold = |queue: &QueueFacts| {
        queue.ready.is_none() && queue.unacked.is_none() && queue.consumers.is_none()
    };
    let statistics_off =
        queues.iter().all(is_untold) && queues.iter().any(|queue| queue.state.is_some());
    Some(QueuePage {
        queues,
        total,
        statistics_off,
    })
}

/// One queue; `None` without a name.
pub(super) fn queue(json: &Value, now: Timestamp) -> Option<QueueFacts> {
    let stats = json.get("message_stats");
    let rate = |name: &str| {
        let details = stats?.get(format!("{name}_details"))?;
        details.get("rate")?.as_f64()
    };
    let arguments = json.get("arguments");
    let policy = json.get("effective_policy_definition");
    let by_either = |name: &str| {
        arguments
            .and_then(|arguments| raw_text(arguments, &format!("x-{name}")))
            .or_else(|| policy.and_then(|policy| raw_text(policy, name)))
    };
    let limits = [
        arguments.and_then(|arguments| arguments.get("x-delivery-limit")),
        policy.and_then(|policy| policy.get("delivery-limit")),
    ];
    Some(QueueFacts {
        name: raw_text(json, "name")?,
        kind: text(json, "type"),
        state: text(json, "state"),
        is_durable: flag(json, "durable"),
        ready: number(json, "messages_ready"),
        unacked: number(json, "messages_unacknowledged"),
        bytes: number(json, "message_bytes"),
        consumers: number(json, "consumers"),
        rate_in: rate("publish"),
        rate_out: rate("deliver_get"),
        rate_ack: rate("ack"),
        rate_redelivered: rate("redeliver"),
        head_age_s: number(json, "head_message_timestamp")
            .and_then(|seconds| i64::try_from(seconds).ok())
            .and_then(|seconds| seconds.checked_mul(1_000_000))
            .map(|micros| now.seconds_since(Timestamp::from_micros(micros))),
        members: names(json, "members"),
        members_online: names(json, "online"),
        dead_letter_exchange: by_either("dead-letter-exchange"),
        dead_letter_routing_key: by_either("dead-letter-routing-key"),
        policy: text(json, "policy"),
        // The broker takes the smaller one.
        delivery_limit: limits.into_iter().flatten().filter_map(Value::as_i64).min(),
    })
}

/// The list in an answer, bare or paged.
fn items(answer: &Value) -> Option<&Vec<Value>> {
    answer
        .as_array()
        .or_else(|| answer.get("items").and_then(Value::as_array))
}

/// A text; the empty one is how Erlang spells "none".
fn text(json: &Value, name: &str) -> Option<String> {
    raw_text(json, name).filter(|text| !text.is_empty())
}

fn raw_text(json: &Value, name: &str) -> Option<String> {
    json.get(name)?.as_str().map(str::to_owned)
}

fn flag(json: &Value, name: &str) -> Option<bool> {
    json.get(name)?.as_bool()
}

fn number(json: &Value, name: &str) -> Option<u64> {
    json.get(name)?.as_u64()
}

fn names(json: &Value, name: &str) -> Option<Vec<String>> {
    let names = json.get(name)?.as_array()?.iter();
    Some(
        names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect(),
    )
}
