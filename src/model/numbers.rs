//! How much of everything a service's tables hold, for a look once a second.

use super::count::Count;
use super::dead_letter::DeadLetterCounts;
use super::outbox::OutboxCounts;
use super::waiting::WaitingSummary;

/// The numbers of one service. `None`: it has no such part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// Its outbox.
    pub outbox: Option<OutboxCounts>,
    /// Rows its inbox got lately.
    pub inbox_recent: Option<Count>,
    /// Events its consumer parked; `None` also where nothing can be parked.
    pub waiting: Option<WaitingSummary>,
    /// Its dead letters.
    pub dead_letters: Option<DeadLetterCounts>,
}
