//! Events that arrived before the one they build on: kept in the consumer's database until the missing
//! version has been applied, or until their time is over and a person has to look.
//!
//! ```text
//!            gap                  the missing version committed
//! delivered ─────▶ waiting ───────────────────────────────────▶ consumed, under its own inbox row
//!                   │  ▲ tried or sent again: the deadline is counted from then, not from the first time
//!                   │  └──
//!                   └ deadline over ─▶ dead letter "version gap"
//! ```

use std::time::Duration;

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::base::human;

use super::count::Count;
use super::ids::{AggregateId, ConsumerName, EventId};
use super::message::Message;

/// An event about to be parked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWaiting {
    /// Who waits.
    pub consumer: ConsumerName,
    /// The event.
    pub event_id: EventId,
    /// Whose sequence.
    pub aggregate_id: AggregateId,
    /// Its version.
    pub version: i64,
    /// The version that must come first.
    pub missing_version: i64,
    /// Exchange it came through.
    pub exchange: String,
    /// Routing key it came with.
    pub routing_key: String,
    /// The message as it came.
    pub message: Message,
    /// How long it may wait, counted from now.
    pub patience: Duration,
}

/// What parking found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parked {
    /// It waits now.
    Waiting,
    /// It waited already (delivered or replayed again): its deadline was moved on.
    Again,
    /// The id waits already with another payload: never absorbed in silence.
    Conflict {
        /// The digest of the payload that waits.
        stored_sha256: String,
    },
}

/// A parked event.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingEvent {
    /// The event.
    pub event_id: EventId,
    /// Whose sequence.
    pub aggregate_id: AggregateId,
    /// Its version.
    pub version: i64,
    /// The version it waited for when it was last tried.
    pub missing_version: i64,
    /// Exchange it came through.
    pub exchange: String,
    /// Routing key it came with.
    pub routing_key: String,
    /// When it was parked first.
    pub parked_at: Timestamp,
    /// When it was tried last: staleness is counted from here (I-03).
    pub attempted_at: Timestamp,
    /// Times it was tried.
    pub attempts: i64,
    /// When it becomes a dead letter.
    pub deadline_at: Timestamp,
    /// The message as it came.
    pub message: Message,
}

/// Waiting events that were looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingFound {
    /// Those that can be read, in the order that was asked for.
    pub events: Vec<WaitingEvent>,
    /// Those that cannot, and why: they must not hide the others.
    pub unreadable: Vec<(EventId, String)>,
}

impl WaitingFound {
    /// True when there was no row at all.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.unreadable.is_empty()
    }
}

impl WaitingSummary {
    /// `3 wait for an earlier version, the oldest 4m, last tried 2m ago`; `None` when nothing waits.
    pub fn told(&self) -> Option<String> {
        let verb = match self.count {
            count if count.is_zero() => return None,
            Count::Exact(1) => "waits",
            _ => "wait",
        };
        let age = |seconds: Option<f64>| {
            seconds.map_or_else(|| "?".to_owned(), |s| human::age(s.max(0.0)))
        };
        let end = match self.next_deadline_s {
            Some(left) if left > 0.0 => format!(", the next dead letter in {}", human::age(left)),
            Some(_) => ", overdue".to_owned(),
            None => String::new(),
        };
        Some(format!(
            "{} {verb} for an earlier version, the oldest {}, last tried {} ago{end}",
            self.count,
            age(self.oldest_s),
            age(self.untried_s)
        ))
    }
}

/// What waits in one consumer's database.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingSummary {
    /// Waiting events, capped.
    pub count: Count,
    /// Seconds since the oldest was parked first.
    pub oldest_s: Option<f64>,
    /// Seconds since the one that was left alone longest was last tried (I-03).
    pub untried_s: Option<f64>,
    /// Seconds until the next becomes a dead letter; negative when it is overdue.
    pub next_deadline_s: Option<f64>,
}
