//! Pages by key: a cursor is the last row's key, never an offset, so that a page at any depth costs
//! the same (perf.md section 3).

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

/// Where a page starts: just after the row with this time and id in the page's own order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The ordering time of the last row already shown.
    pub at: Timestamp,
    /// Its id, which breaks ties.
    pub id: String,
}

/// Some rows in order, and where the next ones start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page<T> {
    /// The rows, in the order the query states.
    pub rows: Vec<T>,
    /// Where the next page starts; `None` when this was the last one.
    pub next: Option<Cursor>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            next: None,
        }
    }
}
