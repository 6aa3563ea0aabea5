//! The text of the metrics: names and help in one table, values only where they are known.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::base::text::{cut_bytes, safe};

/// Bytes of a label at most.
const LABEL_BYTES: usize = 200;

/// Every metric with its help.
pub const METRICS: &[(&str, &str)] = &[
    (
        "redrive_look_age_seconds",
        "Age of the look these values are from",
    ),
    ("redrive_look_duration_seconds", "How long that look took"),
    (
        "redrive_up",
        "1: the server answers, 0: it does not; absent when it is not configured",
    ),
    ("redrive_server_latency_seconds", "Round trip to a server"),
    (
        "redrive_clock_skew_seconds",
        "The database clock that is farthest from ours, minus ours",
    ),
    (
        "redrive_unread",
        "1 for each part that could not be read: its values are absent",
    ),
    (
        "redrive_outbox_rows",
        "Rows by state; a lower bound where redrive_outbox_rows_capped is 1",
    ),
    (
        "redrive_outbox_rows_capped",
        "1: counting stopped at the limit, there are at least that many",
    ),
    (
        "redrive_outbox_sent_rows_estimate",
        "Sent rows by the database's statistics",
    ),
    (
        "redrive_outbox_oldest_due_seconds",
        "How long the oldest due row has been due; 0 when none is due",
    ),
    (
        "redrive_outbox_oldest_pending_seconds",
        "Age of the oldest pending row; 0 when none is pending",
    ),
    (
        "redrive_outbox_expired_leases",
        "Claimed rows whose lease has run out; a lower bound at the limit",
    ),
    (
        "redrive_outbox_published_per_second",
        "Rows created and sent in the last minute, a second; absent while an older backlog is worked off",
    ),
    (
        "redrive_queue_ready",
        "Messages ready in a configured queue",
    ),
    (
        "redrive_queue_unacked",
        "Messages delivered and not acknowledged",
    ),
    ("redrive_queue_bytes", "Bytes of both"),
    ("redrive_queue_consumers", "Consumers attached"),
    ("redrive_queue_members", "Members of a quorum queue"),
    (
        "redrive_queue_members_missing",
        "Members that are not online",
    ),
    (
        "redrive_queue_in_per_second",
        "Messages published to the queue a second",
    ),
    (
        "redrive_queue_out_per_second",
        "Messages delivered a second",
    ),
    (
        "redrive_queue_acked_per_second",
        "Messages acknowledged a second",
    ),
    (
        "redrive_queue_redelivered_per_second",
        "Messages delivered again a second",
    ),
    (
        "redrive_queue_head_age_seconds",
        "Age of the head message, where the broker tells it",
    ),
    (
        "redrive_queue_warnings",
        "Things to warn about, as the Queues pane lists them",
    ),
    (
        "redrive_broker_alarm",
        "1: the node has this alarm or is down; absent when nodes may not be seen",
    ),
    (
        "redrive_broker_blocked",
        "1: the broker does not take messages from us now",
    ),
    (
        "redrive_consumer_lag_messages",
        "Messages ready for a consumer",
    ),
    (
        "redrive_consumer_lag_seconds",
        "Estimated time a consumer is behind",
    ),
    (
        "redrive_consumer_processed_per_second",
        "Inbox rows written a second",
    ),
    (
        "redrive_consumer_waiting_events",
        "Events that wait for an earlier version",
    ),
    (
        "redrive_consumer_waiting_oldest_seconds",
        "How long the oldest of them has waited",
    ),
    (
        "redrive_dead_letters",
        "Dead letters by status; a lower bound where redrive_dead_letters_capped is 1",
    ),
    (
        "redrive_dead_letters_capped",
        "1: counting stopped at the limit",
    ),
    (
        "redrive_dead_letters_oldest_seconds",
        "Age of the oldest open dead letter; 0 when none is open",
    ),
    (
        "redrive_dead_letters_per_minute",
        "Deaths recorded in the last minute",
    ),
    ("redrive_dead_letter_causes", "Causes of open dead letters"),
    (
        "redrive_replay_items",
        "Items of replays among the 50 newest operations of a service, by outcome",
    ),
    (
        "redrive_operations_unknown",
        "Operations whose outcome nobody knows",
    ),
    (
        "redrive_sagas_open",
        "Sagas that are not over; a lower bound where redrive_sagas_capped is 1",
    ),
    (
        "redrive_sagas_capped",
        "1: the list of sagas was full, there are at least that many",
    ),
    ("redrive_sagas_overdue", "Open sagas past their deadline"),
    ("redrive_sagas_attention", "Sagas a person has to look at"),
    (
        "redrive_sagas_compensation_failed",
        "Sagas that could not be undone",
    ),
    (
        "redrive_verdicts",
        "Verdicts said now, by severity; absent until the rules have looked often enough",
    ),
    (
        "redrive_verdicts_blind",
        "Reasons for which a rule could not see something: its verdict may be missing",
    ),
    (
        "redrive_verdict_age_seconds",
        "How long a verdict is said; absent when it is not",
    ),
    (
        "redrive_findings_open",
        "Open findings of scans; a lower bound where redrive_findings_open_capped is 1",
    ),
    (
        "redrive_findings_open_capped",
        "1: counting stopped at the limit",
    ),
    (
        "redrive_scan_age_seconds",
        "Time since a rule was last run to its end; absent when it never was",
    ),
    (
        "redrive_scan_not_compared",
        "Parts that this run could not compare",
    ),
];

type Labels = Vec<(&'static str, String)>;
type Values = Family<Labels, Gauge<f64, AtomicU64>>;

/// A page being filled.
#[derive(Default)]
pub struct Page {
    registry: Registry,
    families: BTreeMap<&'static str, Values>,
}

impl Page {
    /// Sets a value. One that is not known is left out, and a metric without any value as well.
    pub fn set(&mut self, name: &str, labels: &[(&'static str, &str)], value: Option<f64>) {
        let Some(value) = value else { return };
        let Some((name, help)) = METRICS.iter().find(|(known, _)| *known == name) else {
            debug_assert!(false, "{name} is not in METRICS");
            return;
        };
        let registry = &mut self.registry;
        let family = self.families.entry(name).or_insert_with(|| {
            let family = Values::default();
            registry.register(*name, *help, family.clone());
            family
        });
        let labels: Labels = labels
            .iter()
            .map(|(key, value)| (*key, safe(cut_bytes(value, LABEL_BYTES))))
            .collect();
        family.get_or_create(&labels).set(value);
    }

    /// The page in the text format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if encode(&mut out, &self.registry).is_err() {
            // Writing to a string cannot fail; a page without its end is refused by who reads it.
            out.clear();
        }
        in_order(&out)
    }
}

/// The values of each metric in the order of their labels. A family is a map without order: two pages
/// of one look would differ, and a person who compares them would see nothing.
fn in_order(page: &str) -> String {
    let mut lines: Vec<&str> = page.lines().collect();
    let is_help = |line: &&str| line.starts_with('#');
    for values in lines.split_mut(is_help) {
        values.sort_unstable();
    }
    let mut out = String::with_capacity(page.len());
    for line in lines {
        out.push_str(line);
        out.push('\n');
    }
    out
}
