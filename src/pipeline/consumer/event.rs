//! What a handler gets, what it may answer, and what it declares about the order of its events.

use std::time::Duration;

use async_trait::async_trait;

use super::super::death::{aggregate_id_of, aggregate_version_of, event_id_of, replays_of};
use super::super::headers;
use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldValue, Message};
use crate::store::{BusinessTx, StoreError};

/// A valid event on its way to a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Its identity: the inbox key.
    pub event_id: EventId,
    /// e.g. `order.created`.
    pub event_type: Option<String>,
    /// Whose event it is.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the aggregate's sequence.
    pub aggregate_version: Option<i64>,
    /// Times an operator has replayed it; 0 for a first delivery.
    pub replays: i64,
    /// 1 for the first try; one more after each wait in a retry queue.
    pub attempt: u32,
    /// The message as it came.
    pub message: Message,
}

/// What a handler made of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The effect is in the transaction: commit it.
    Done,
    /// Business said no, and the result event that says so is in the transaction: commit it.
    Rejected,
    /// What the event says has been overtaken, e.g. the guard of a state transition matched no row:
    /// commit the inbox row and whatever was written, count it as stale.
    Stale,
    /// A lock was met: roll back, try again at once, a few times.
    Contended(String),
    /// May work if tried again later: roll back, wait in a retry queue, a bounded number of times.
    Transient(String),
    /// Will never work as it is: roll back, dead letter.
    Permanent {
        /// Short and the same for equal causes: dead letters are grouped by it.
        class: String,
        /// One line about this event.
        error: String,
    },
    /// A statement failed: roll back. The runtime asks the database who is to blame. One that does not
    /// answer is waited for. One that answers has met a lock, needs time, or refuses this event, which
    /// then ends as the ones above do; when it refuses every event, they are kept and tried again.
    Database(StoreError),
    /// Nothing can be handled now, whatever the event: roll back, keep it, try it again until it works.
    Away(String),
}

impl Outcome {
    /// Of a guarded statement, e.g. `UPDATE … WHERE order_no = ? AND state = 'reserved'`: done when it
    /// matched a row, stale when the state had moved on.
    pub const fn of_transition(rows_matched: u64) -> Self {
        if rows_matched == 0 {
            Self::Stale
        } else {
            Self::Done
        }
    }
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        Self::Database(error)
    }
}

/// How the events of one aggregate have to follow each other. The version is the event's
/// `aggregate_version`; what was applied last is kept beside the inbox, under the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPolicy {
    /// Any order will do.
    Any,
    /// Each event carries the whole state: the newer wins. An older or equal version is absorbed: its
    /// inbox row is committed, the handler is not called.
    Snapshot,
    /// Each event builds on the one before. A later one than the next is parked until the missing
    /// version has been applied; an older or equal one is absorbed.
    Increment {
        /// The version a sequence begins with.
        first: i64,
        /// How long an event may wait for an earlier one, from its last attempt, beside the time that
        /// one may be in retry queues; then it becomes a dead letter.
        patience: Duration,
    },
    /// A change of state that the handler guards itself (`UPDATE … WHERE state = …`), answering
    /// [`Outcome::of_transition`]. The runtime compares no versions.
    Transition,
}

impl VersionPolicy {
    /// Sequences that begin with version 1 and wait ten minutes.
    pub const fn increment() -> Self {
        Self::Increment {
            first: 1,
            patience: Duration::from_mins(10),
        }
    }
}

/// A service's reaction to one event. Everything it does goes through `tx`, or it may happen twice.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Reacts. A panic is caught and counts as permanent.
    ///
    /// # Cancel safety
    /// Dropped at the time limit; the transaction is rolled back then.
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome;

    /// How events like this one have to follow each other.
    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::Any
    }

    /// The service's version, told with every dead letter.
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// What every event must have before a transaction is opened for it.
pub(super) fn validate(message: &Message) -> Result<Received, &'static str> {
    let event_id = event_id_of(message).ok_or("no message id")?;
    Ok(Received {
        event_id: EventId::new(event_id),
        event_type: message
            .properties
            .kind
            .clone()
            .filter(|kind| !kind.is_empty()),
        aggregate_id: aggregate_id_of(message),
        aggregate_version: aggregate_version_of(message),
        replays: replays_of(message),
        attempt: attempts_of(message).saturating_add(1),
        message: message.clone(),
    })
}

/// Tries made so far, as the retry queues carry them.
pub(super) fn attempts_of(message: &Message) -> u32 {
    message
        .properties
        .headers
        .get(headers::ATTEMPT)
        .and_then(FieldValue::as_i64)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0)
}
