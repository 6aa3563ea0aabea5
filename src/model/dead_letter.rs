//! Dead letters: events no machine will try again by itself.
//!
//! ```text
//!        reserve              proof: inbox row
//! open ──────────▶ replaying ─────────────────▶ replayed
//!  ▲ │                 │ unroutable, refused, nacked: back to open
//!  │ │                 └ next death: open again, deaths + 1
//!  │ ├─ resolved   (already processed; nothing to do)
//!  │ ├─ repaired   (a new, linked event was issued)
//!  │ └─ discarded  (given up, with a reason)
//!  └── the next death of the same event reopens any of them
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

use super::count::Count;
use super::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId};
use super::message::{BrokerDeath, Message};
use super::page::Cursor;

/// Where a dead letter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterStatus {
    /// Waits for a person.
    Open,
    /// Reserved by an operation that has not been proven yet.
    Replaying,
    /// Replayed and seen consumed.
    Replayed,
    /// Closed because the consumer had already processed it.
    Resolved,
    /// Closed by a repair.
    Repaired,
    /// Given up.
    Discarded,
}

impl DeadLetterStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Replaying,
        Self::Replayed,
        Self::Resolved,
        Self::Repaired,
        Self::Discarded,
    ];

    /// The word in columns, JSON, filters and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Replaying => "replaying",
            Self::Replayed => "replayed",
            Self::Resolved => "resolved",
            Self::Repaired => "repaired",
            Self::Discarded => "discarded",
        }
    }

    /// The status a column's word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

/// One dead letter as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetter {
    /// Its own identity: an event may lack one.
    pub dead_letter_id: DeadLetterId,
    /// Who failed on it.
    pub consumer: ConsumerName,
    /// The event, when the message carried an id.
    pub event_id: Option<EventId>,
    /// Its business key.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the sequence.
    pub aggregate_version: Option<i64>,
    /// e.g. `order.created`.
    pub event_type: Option<String>,
    /// When the message says it was made (seconds resolution).
    pub message_at: Option<Timestamp>,
    /// Queue it failed in: where a replay goes.
    pub failed_queue: Option<String>,
    /// Exchange it was first published to.
    pub source_exchange: Option<String>,
    /// Routing key it was first published with.
    pub source_routing_key: Option<String>,
    /// DLQ it was collected from.
    pub dead_letter_queue: String,
    /// `rejected`, `expired`, `delivery_limit`, …
    pub reason: Option<String>,
    /// Short class of the error, the grouping key with consumer and type: e.g. `decode: missing field sku`.
    pub error_class: String,
    /// One line of what went wrong.
    pub error_summary: Option<String>,
    /// SHA-256 of the stack or long error, when there was one.
    pub stack_digest: Option<String>,
    /// Deliveries the broker counted before it died.
    pub delivery_count: Option<i64>,
    /// Attempts the consumer reported.
    pub retry_count: Option<i64>,
    /// First death.
    pub first_died_at: Timestamp,
    /// Last death.
    pub last_died_at: Timestamp,
    /// How many times it died; 1 for a first death.
    pub deaths: i64,
    /// How often an operator replayed it.
    pub replays: i64,
    /// When it was last replayed.
    pub last_replayed_at: Option<Timestamp>,
    /// Producer's version header.
    pub producer_version: Option<String>,
    /// Consumer's version header.
    pub consumer_version: Option<String>,
    /// Trace id.
    pub trace_id: Option<String>,
    /// False when the producer or an operator forbade replays.
    pub replay_allowed: bool,
    /// Who takes care of it.
    pub owner: Option<String>,
    /// Where it stands.
    pub status: DeadLetterStatus,
    /// Free text.
    pub note: Option<String>,
    /// Row version: changed by every write; a plan freezes it.
    pub version: i64,
    /// Payload size.
    pub payload_bytes: i64,
    /// Payload digest.
    pub payload_sha256: String,
    /// The operation that holds or closed it.
    pub operation_id: Option<OperationId>,
}

/// A dead letter with its message and history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterDetail {
    /// The row.
    pub letter: DeadLetter,
    /// The message as it lay in the DLQ: all properties, typed headers, exact bytes.
    pub message: Message,
    /// Its deaths, newest first, at most 50.
    pub deaths: Vec<Death>,
}

/// One recorded death.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Death {
    /// 1 for the first.
    pub no: i64,
    /// When.
    pub died_at: Timestamp,
    /// Queue it died in.
    pub queue: Option<String>,
    /// `rejected`, `expired`, …
    pub reason: Option<String>,
    /// One line.
    pub error: Option<String>,
    /// The replay it died after, when the message carried our mark.
    pub operation_id: Option<OperationId>,
}

/// What the collector makes of one message in a DLQ: everything a row needs.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDeath {
    /// Who failed on it.
    pub consumer: ConsumerName,
    /// From `message_id`, or a header of the mapping.
    pub event_id: Option<EventId>,
    /// Business key, if a header tells it.
    pub aggregate_id: Option<AggregateId>,
    /// Version in its sequence.
    pub aggregate_version: Option<i64>,
    /// Event type.
    pub event_type: Option<String>,
    /// The message's own time.
    pub message_at: Option<Timestamp>,
    /// Queue it failed in (H-12 rule).
    pub failed_queue: Option<String>,
    /// Original exchange.
    pub source_exchange: Option<String>,
    /// Original routing key.
    pub source_routing_key: Option<String>,
    /// DLQ it was taken from.
    pub dead_letter_queue: String,
    /// Why.
    pub reason: Option<String>,
    /// Grouping class.
    pub error_class: String,
    /// One line.
    pub error_summary: Option<String>,
    /// Digest of the long error.
    pub stack_digest: Option<String>,
    /// Broker's delivery count.
    pub delivery_count: Option<i64>,
    /// Consumer's attempts.
    pub retry_count: Option<i64>,
    /// When, by the broker's record; else the collector's time.
    pub died_at: Timestamp,
    /// Producer's version.
    pub producer_version: Option<String>,
    /// Consumer's version.
    pub consumer_version: Option<String>,
    /// Trace id.
    pub trace_id: Option<String>,
    /// From the `x-redrive-replay` header, absent = allowed.
    pub replay_allowed: bool,
    /// Owner by the configuration's rules.
    pub owner: Option<String>,
    /// The operation whose replay ended here, by our own header.
    pub operation_id: Option<OperationId>,
    /// Identity of this very death: digest of the broker's death record and our replay mark. Two
    /// deaths of an event differ in it, a redelivery of one death does not (R-13, B-14). Of a message
    /// without an id it ends in the subscription that stored it: see [`fingerprint_without_id`].
    pub fingerprint: String,
    /// The broker had delivered this message before. Only then may an equal fingerprint mean "the
    /// same delivery again"; without it an equal fingerprint is another death (B-14).
    pub redelivered: bool,
    /// The message as it is.
    pub message: Message,
}

/// Between the digest of a death and the subscription that stored it.
pub const SUBSCRIPTION_MARK: char = ':';

/// The fingerprint of a message without an id while it is not acknowledged. Nothing but its bytes and
/// its death tells such a message from its twin, so the row also says which subscription holds it; the
/// mark goes once the message is acknowledged. Redelivered to another subscription, a message is
/// the one of a row that still has its mark, or else a twin nobody has stored (B-14).
pub fn fingerprint_without_id(digest: &str, subscription: &str) -> String {
    format!("{digest}{SUBSCRIPTION_MARK}{subscription}")
}

/// What recording a death did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeathRecorded {
    /// A new dead letter.
    New(DeadLetterId),
    /// A dead letter that was there died again and is open.
    Again {
        /// The row.
        dead_letter_id: DeadLetterId,
        /// Deaths now.
        deaths: i64,
    },
    /// The same delivery came twice (the acknowledgement had been lost): nothing changed.
    SameDelivery(DeadLetterId),
}

/// Dead letters with one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterGroup {
    /// Who failed.
    pub consumer: ConsumerName,
    /// On what.
    pub event_type: Option<String>,
    /// Why.
    pub error_class: String,
    /// How many are open (or replaying).
    pub count: u64,
    /// First death in the group.
    pub first_died_at: Timestamp,
    /// Last death in the group.
    pub last_died_at: Timestamp,
    /// The owner, when all rows agree.
    pub owner: Option<String>,
    /// The note, when all rows agree.
    pub note: Option<String>,
}

/// What one dead-letter table holds, without its causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterCounts {
    /// Open rows, capped.
    pub open: Count,
    /// Deaths recorded in the last minute, capped.
    pub deaths_last_minute: Count,
}

/// Groups of one dead-letter table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadLetterGroups {
    /// Largest first, at most 200 groups.
    pub groups: Vec<DeadLetterGroup>,
    /// Open rows, capped.
    pub open: Option<Count>,
    /// Rows being replayed, capped.
    pub replaying: Option<Count>,
    /// Seconds since the oldest open one died.
    pub oldest_open_s: Option<f64>,
    /// Deaths recorded in the last minute, capped.
    pub deaths_last_minute: Option<Count>,
    /// True when grouping stopped at its row limit: counts are lower bounds.
    pub truncated: bool,
}

/// Which dead letters a page shows; newest death first.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetterQuery {
    /// Statuses to show, one page a status; several are merged by the reader.
    pub status: DeadLetterStatus,
    /// Only this group.
    pub consumer: Option<ConsumerName>,
    /// Only this type (`Some(None)` = rows without one).
    pub event_type: Option<Option<String>>,
    /// Only this class.
    pub error_class: Option<String>,
    /// Where to start.
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
}

/// Where a dead letter lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// In the table; the DLQ holds no copy (the normal case after collecting).
    Table,
    /// In the DLQ, not collected yet.
    Queue,
    /// In both.
    Both,
    /// In both, with different bytes.
    Differ,
    /// The DLQ was not looked at.
    Unknown,
}

/// The failed queue and origin of a dead message, and how they were found (H-12).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// The queue whose consumer failed.
    pub failed_queue: Option<String>,
    /// Why it died there.
    pub reason: Option<String>,
    /// How often.
    pub count: Option<u64>,
    /// Exchange of the first publish.
    pub exchange: Option<String>,
    /// Routing key of the first publish.
    pub routing_key: Option<String>,
    /// When, in seconds since the epoch.
    pub time: Option<u64>,
    /// One sentence on the choice.
    pub because: String,
}

/// The queue in which messages of `queue` wait for `delay` before they are tried again.
pub fn retry_queue(queue: &str, delay: Duration) -> String {
    format!("{queue}.retry.{}", delay.as_millis())
}

/// The work queue behind a name that [`retry_queue`] made.
pub fn work_queue_of(retry_queue: &str) -> Option<&str> {
    let (queue, delay) = retry_queue.rsplit_once(".retry.")?;
    let is_delay = !delay.is_empty() && delay.bytes().all(|b| b.is_ascii_digit());
    (is_delay && !queue.is_empty()).then_some(queue)
}

/// Picks the queue that failed out of a chain of deaths: the newest death that was a rejection or a
/// delivery limit, and not an expiry in a retry queue; only when all expired, the newest outside a
/// retry queue of ours, else the queue that was retried (H-12).
pub fn origin(deaths: &[BrokerDeath]) -> Origin {
    let chosen = deaths
        .iter()
        .find(|death| death.reason != "expired")
        .map(|death| {
            (
                death,
                format!(
                    "newest death that is not an expiry: {} in {}",
                    death.reason, death.queue
                ),
            )
        })
        .or_else(|| {
            let newest = deaths
                .iter()
                .find(|death| work_queue_of(&death.queue).is_none());
            newest.or(deaths.first()).map(|death| {
                (
                    death,
                    format!(
                        "every death is an expiry; the newest was in {}",
                        death.queue
                    ),
                )
            })
        });
    match chosen {
        Some((death, _)) if work_queue_of(&death.queue).is_some() => Origin {
            failed_queue: work_queue_of(&death.queue).map(str::to_owned),
            reason: Some(death.reason.clone()),
            count: Some(death.count),
            // A retry queue is reached through the default exchange: where it came from is not told.
            exchange: None,
            routing_key: None,
            time: death.time,
            because: format!("it waited in {} and was not rejected since", death.queue),
        },
        Some((death, because)) => Origin {
            failed_queue: Some(death.queue.clone()),
            reason: Some(death.reason.clone()),
            count: Some(death.count),
            exchange: Some(death.exchange.clone()),
            routing_key: death.routing_keys.first().cloned(),
            time: death.time,
            because,
        },
        None => Origin {
            failed_queue: None,
            reason: None,
            count: None,
            exchange: None,
            routing_key: None,
            time: None,
            because: "the message has no death record".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_12_the_failed_queue_is_not_the_retry_queue() {
        let deaths = [
            BrokerDeath {
                queue: "billing.orders.retry".into(),
                reason: "expired".into(),
                count: 3,
                exchange: "retry".into(),
                routing_keys: vec!["billing.orders".into()],
                time: Some(1_767_323_145),
            },
            BrokerDeath {
                queue: "billing.orders".into(),
                reason: "rejected".into(),
                count: 4,
                exchange: "orders".into(),
                routing_keys: vec!["order.placed".into(), "audit.orders".into()],
                time: Some(1_767_323_140),
            },
        ];
        let origin = origin(&deaths);
        assert_eq!(origin.failed_queue.as_deref(), Some("billing.orders"));
        assert_eq!(origin.count, Some(4));
        assert_eq!(origin.exchange.as_deref(), Some("orders"));
        assert_eq!(origin.routing_key.as_deref(), Some("order.placed"));
        assert!(origin.because.contains("rejected in billing.orders"));
    }

    fn death(queue: &str, reason: &str) -> BrokerDeath {
        BrokerDeath {
            queue: queue.into(),
            reason: reason.into(),
            count: 1,
            exchange: String::new(),
            routing_keys: vec![queue.into()],
            time: None,
        }
    }

    #[test]
    fn h_12_a_retry_queue_of_ours_names_the_queue_that_failed() {
        let waits = [
            death("orders.retry.5000", "expired"),
            death("orders.retry.1000", "expired"),
        ];
        let only_waits = origin(&waits);
        assert_eq!(only_waits.failed_queue.as_deref(), Some("orders"));
        assert_eq!(only_waits.exchange, None);
        let mut then_expired = vec![death("orders.retry.5000", "expired")];
        then_expired.push(death("orders.with.ttl", "expired"));
        let found = origin(&then_expired).failed_queue;
        assert_eq!(found.as_deref(), Some("orders.with.ttl"));
        let mut then_rejected = waits.to_vec();
        then_rejected.push(death("orders", "rejected"));
        let found = origin(&then_rejected).failed_queue;
        assert_eq!(found.as_deref(), Some("orders"));
    }

    #[test]
    fn a_retry_queue_is_known_by_its_name() {
        let name = retry_queue("a.retry.b", Duration::from_secs(5));
        assert_eq!(name, "a.retry.b.retry.5000");
        assert_eq!(work_queue_of(&name), Some("a.retry.b"));
        for other in [
            "orders",
            "orders.retry",
            "orders.retry.",
            "orders.retry.5s",
            ".retry.5",
        ] {
            assert_eq!(work_queue_of(other), None, "{other}");
        }
    }
}
