//! Outbox rows and their states.
//!
//! ```text
//!            claim                 complete (by token)
//! pending ─────────▶ sending ────────────────────────▶ sent
//!    ▲                 │  │
//!    │ reap, retry     │  └──────────▶ failed   attempts used up, or an error no retry can cure
//!    └─────────────────┘                 │
//!    ▲                    replay         │
//!    └───────────────────────────────────┘
//! ```

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

use super::count::Count;
use super::ids::{AggregateId, ClaimToken, EventId};
use super::message::{FieldTable, Payload};
use super::page::Cursor;

/// How the error of a row begins that is pending again after somebody had claimed it.
pub const LEASE_OVER: &str = "the lease ran out";
/// The same, in full.
pub const REAPED: &str =
    "the lease ran out: its dispatcher died or was too slow; it may have been sent";
/// The same, of a row whose attempt before ended like that too.
pub const REAPED_AGAIN: &str = "the lease ran out twice in a row: its dispatchers died or were too slow; it may have been sent";

/// Where an outbox row stands. The words are those of the native layout; a mapping translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxState {
    /// Waits for a dispatcher (or for its next attempt's time).
    Pending,
    /// Claimed by a dispatcher.
    Sending,
    /// Confirmed by the broker, routed, and marked.
    Sent,
    /// A dead letter on the outbox side: no dispatcher will try again by itself.
    Failed,
    /// The layout cannot tell.
    Unknown,
}

impl OutboxState {
    /// Every state a row can be asked for.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Sending, Self::Failed, Self::Sent];

    /// The word on screens, in filters and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// One row as a list shows it: without its payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxRow {
    /// Its identity.
    pub event_id: EventId,
    /// Whose event it is.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the aggregate's sequence.
    pub aggregate_version: Option<i64>,
    /// e.g. `order.created`.
    pub event_type: String,
    /// Where it stands.
    pub state: OutboxState,
    /// Attempts so far, the running one included.
    pub attempts: Option<i64>,
    /// When it may be claimed next.
    pub next_attempt_at: Option<Timestamp>,
    /// Who holds it.
    pub claim_token: Option<ClaimToken>,
    /// Until when, on the database's clock.
    pub lease_until: Option<Timestamp>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When its business transaction wrote it.
    pub created_at: Option<Timestamp>,
    /// When the sent mark was set.
    pub sent_at: Option<Timestamp>,
}

/// A row with everything needed to publish it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxEvent {
    /// The row.
    pub row: OutboxRow,
    /// Version of the payload's shape.
    pub schema_version: Option<i64>,
    /// The bytes a dispatcher publishes.
    pub payload: Payload,
    /// Extra headers, with types.
    pub headers: FieldTable,
    /// Exchange, when the row overrides the service's.
    pub exchange: Option<String>,
    /// Routing key, when the row overrides the event type.
    pub routing_key: Option<String>,
    /// W3C trace id or traceparent, as the producer wrote it.
    pub trace_id: Option<String>,
    /// The event this one was caused by.
    pub causation_id: Option<String>,
}

/// An event to be written to the outbox by a business transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Made once, by the caller.
    pub event_id: EventId,
    /// Whose event it is.
    pub aggregate_id: AggregateId,
    /// Its place in the sequence. A repair keeps its original's.
    pub aggregate_version: i64,
    /// e.g. `order.created`; also the routing key unless `routing_key` is set.
    pub event_type: String,
    /// Version of the payload's shape.
    pub schema_version: i64,
    /// JSON text.
    pub payload: Payload,
    /// Extra headers.
    pub headers: FieldTable,
    /// `Some("")` is the default exchange: routing key = queue name.
    pub exchange: Option<String>,
    /// Overrides the event type as routing key.
    pub routing_key: Option<String>,
    /// Trace id to carry.
    pub trace_id: Option<String>,
    /// The event this one was caused by.
    pub causation_id: Option<String>,
}

/// Capped counts and ages of one outbox, read in O(cap) (perf.md section 3).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxCounts {
    /// Pending rows, due or not.
    pub pending: Count,
    /// Pending rows whose next attempt is due.
    pub due: Count,
    /// Claimed rows.
    pub sending: Count,
    /// Rows that gave up.
    pub failed: Count,
    /// Estimate from the database's statistics; `None` where it has none.
    pub sent: Option<Count>,
    /// Claimed rows whose lease has run out; `None` where the layout has no lease.
    pub expired_leases: Option<Count>,
    /// Seconds the oldest due row has been due.
    pub oldest_due_s: Option<f64>,
    /// Seconds since the oldest pending row was created; `None` without the index that answers it,
    /// or with nothing pending (`pending` tells which).
    pub oldest_pending_s: Option<f64>,
    /// Rows created in the last minute and already sent; `None` without the index.
    pub sent_last_minute: Option<Count>,
    /// The database's clock at the read.
    pub database_now: Timestamp,
}

impl OutboxCounts {
    /// Rows sent in the last minute. They are found by when they were created: while a backlog is
    /// worked off, what is sent now was created before, and how much that is, is not known.
    #[must_use]
    pub fn published_last_minute(&self) -> Option<Count> {
        const MINUTE_S: f64 = 60.0;
        self.sent_last_minute
            .filter(|_| self.oldest_due_s.is_none_or(|due| due < MINUTE_S))
    }
}

/// Which rows a page shows.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxQuery {
    /// One state a page: keyset pages need one index range.
    pub state: OutboxState,
    /// Pending and failed: by next attempt, oldest due first. Sent: newest created first. Sending: by lease.
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
    /// Only this type, matched in the page's scan (bounded by `limit * 20` rows read).
    pub event_type: Option<String>,
}

/// Rows of one claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeaseGroup {
    /// The claim; `None` where the layout has no token.
    pub claim_token: Option<ClaimToken>,
    /// Rows under it.
    pub rows: u64,
    /// Until when; the earliest of the group.
    pub lease_until: Option<Timestamp>,
    /// Seconds left on the database's clock; negative when overdue.
    pub left_s: Option<f64>,
    /// When the oldest row of the claim was created.
    pub oldest_created_at: Option<Timestamp>,
    /// Largest number of attempts in the group.
    pub attempts_max: Option<i64>,
    /// Some of its event ids, at most 5, for the eye.
    pub sample: Vec<EventId>,
}

/// Leases of one outbox, from at most `limit` claimed rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Leases {
    /// Groups, the most overdue first.
    pub groups: Vec<LeaseGroup>,
    /// True when there were more claimed rows than were read.
    pub truncated: bool,
    /// Why there is nothing to show, e.g. "this layout has no lease".
    pub not_answered: Option<String>,
}

/// Events of one aggregate around a version.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sequence {
    /// Rows by version, oldest first.
    pub rows: Vec<OutboxRow>,
    /// True when more exist than were read.
    pub truncated: bool,
    /// Why it could not be read, e.g. which index is missing.
    pub not_answered: Option<String>,
}
