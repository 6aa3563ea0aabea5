//! What reconciliation reads of a mapped outbox: it walks by key, a page at a time, and looks rows up
//! by id. Nothing here locks.

use crate::mapping::{OutboxIndexes, OutboxLayout};

use super::outbox::{missing, quoted_or_null};
use super::{Slots, UnknownSlot};

/// Columns of a sent event; `scan_read.rs` reads them by position.
const SENT: &str = "{id}, {key}, {type}, {destination}, {routing_key}, {us(created)}, {us(moved)}";

/// The statements of one outbox; an error names the missing index or column.
#[derive(Clone, Debug)]
pub struct OutboxWalk {
    /// Sent events of a window, oldest first. (status, created), at most the limit. Binds sent, minus the
    /// window, limit.
    pub sent_first: Result<String, String>,
    /// The same after a cursor; a range at any depth. Binds sent, at, at, id, limit.
    pub sent_after: Result<String, String>,
    /// Rows by id, without their payload. Primary key, one look-up an id. Binds ids.
    pub known: String,
    /// The same with their payload.
    pub known_whole: String,
    /// Every event by aggregate and version. (aggregate, version), at most the limit. Binds limit.
    pub places_first: Result<String, String>,
    /// The same after a place; a range at any depth. Binds aggregate, aggregate, version, version, id, limit.
    pub places_after: Result<String, String>,
}

impl OutboxWalk {
    /// Renders with an outbox's slots.
    pub fn render(
        slots: &Slots,
        layout: &OutboxLayout,
        indexes: &OutboxIndexes,
    ) -> Result<Self, UnknownSlot> {
        // A layout that keeps no time of sending may keep that of the last change: the grace time counts from
        // the last transition (C-01).
        let moved = layout.sent_at.as_ref().or(layout.updated_at.as_ref());
        let mut slots = slots.clone();
        slots.set("moved", quoted_or_null(moved));
        let sent = |condition: &str| match &indexes.created {
            None => Ok(Err(missing(layout, &[&layout.status, &layout.created_at]))),
            Some(_) => slots
                .render(&format!(
                    "SELECT {SENT} FROM {{t}}{{by_created}}\nWHERE {{status}} = ?{condition}\n\
                     ORDER BY {{created}}, {{id}} LIMIT ?"
                ))
                .map(Ok),
        };
        let known = |payload: &str| {
            slots.render(&format!(
                "SELECT {{id}}, {{type}}, {{status}}, {{us(created)}}, {{us(moved)}}{payload}\n\
                 FROM {{t}} WHERE {{id}} IN ({{ids}})"
            ))
        };
        let places = |condition: &str| {
            match (&layout.seq, &indexes.key) {
            (None, _) => Ok(Err(format!(
                "the {} layout has no version in the sequence",
                layout.layout
            ))),
            (Some(seq), None) => Ok(Err(missing(layout, &[&layout.key, seq]))),
            (Some(_), Some(_)) => slots
                .render(&format!(
                    "SELECT {{key}}, {{seq}}, {{id}}, {{us(created)}} FROM {{t}}{{by_key}}{condition}\n\
                     ORDER BY {{key}}, {{seq}}, {{id}} LIMIT ?"
                ))
                .map(Ok),
        }
        };
        Ok(Self {
            sent_first: sent(" AND {created} >= {now_plus}")?,
            // Expanded by hand: MariaDB makes no range of a row constructor.
            sent_after: sent("\n  AND {created} >= {at} AND ({created} > {at} OR {id} > ?)")?,
            known: known("")?,
            known_whole: known(", {payload}")?,
            places_first: places("")?,
            places_after: places(
                "\nWHERE {key} >= ? AND ({key} > ? OR {seq} > ? OR ({seq} = ? AND {id} > ?))",
            )?,
        })
    }

    /// Every statement with its name, for the snapshots.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(&'static str, &str)> {
        fn told(of: &Result<String, String>) -> &str {
            match of {
                Ok(text) | Err(text) => text,
            }
        }
        vec![
            ("sent first", told(&self.sent_first)),
            ("sent after", told(&self.sent_after)),
            ("known", &self.known),
            ("known whole", &self.known_whole),
            ("places first", told(&self.places_first)),
            ("places after", told(&self.places_after)),
        ]
    }
}
