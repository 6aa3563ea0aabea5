//! What a consumer has already done.

use serde::Serialize;

use crate::base::clock::Timestamp;

use super::ids::{ConsumerName, EventId};

/// The row a consumer writes in the same transaction as its effect: the proof of consumption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InboxRow {
    /// Which consumer.
    pub consumer: ConsumerName,
    /// Which event.
    pub event_id: EventId,
    /// When its transaction ran, on the database's clock.
    pub processed_at: Timestamp,
    /// SHA-256 of the payload it saw; `None` where the layout keeps none.
    pub payload_sha256: Option<String>,
}

/// What inserting into the inbox found.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxInsert {
    /// First time: go on with the effect.
    First,
    /// Already done: roll back and acknowledge.
    Duplicate,
    /// The id is there with another payload: never absorbed in silence.
    Conflict {
        /// The digest the first delivery had.
        stored_sha256: String,
    },
}
