//! What explains a stuck outbox beyond its counts: rows by what went wrong with them, waits on locks, and
//! what was sent a while ago. Each is read from a bounded number of rows.

use serde::Serialize;

use super::ids::EventId;

/// Characters of an error that tell causes apart; what follows is numbers and names.
pub const CAUSE_CHARS: u32 = 120;

/// Rows of one type with one error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowGroup {
    /// e.g. `order.created`.
    pub event_type: String,
    /// The beginning of the last error; `None` where none is kept.
    pub error: Option<String>,
    /// How many, of those that were read.
    pub rows: u64,
    /// One of them.
    pub sample: EventId,
}

/// Rows that failed or were tried in vain, from a bounded number of rows of each kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RowTroubles {
    /// Rows no dispatcher tries again, largest group first.
    pub failed: Vec<RowGroup>,
    /// Pending rows that carry an error, largest group first.
    pub retried: Vec<RowGroup>,
    /// True when there are more failed rows than were read: counts are lower bounds.
    pub is_cut: bool,
}

/// Who waits for a lock in one database, and who has held some for long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LockWaits {
    /// Transactions that wait for a row lock now, and statements that wait for a table.
    pub waiting: u64,
    /// Seconds the longest of them has waited.
    pub longest_s: Option<f64>,
    /// Seconds the oldest transaction that holds row locks has been open.
    pub oldest_holder_s: Option<f64>,
    /// Its session, for the server's own tools.
    pub holder: Option<u64>,
}

/// A row that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentEvent {
    /// Its identity.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Exchange, when the row overrides the service's.
    pub exchange: Option<String>,
    /// Routing key, when the row overrides the event type.
    pub routing_key: Option<String>,
    /// Seconds since the sent mark, by the database's clock; where none is kept, since it was created.
    pub age_s: f64,
}
