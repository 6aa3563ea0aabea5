//! Statements of the inbox's retention, for the native inbox.

use crate::mapping::InboxLayout;

use super::{Slots, UnknownSlot};

super::statements! {
    /// Statements of `0008_inbox_archive.sql` and on the inbox they keep small.
    ArchiveStatements {
        /// The oldest rows of a consumer that are older than the policy, locked; a row somebody is just
        /// looking at is left for the next time. (consumer, processed), at most the limit, under READ
        /// COMMITTED: rows that are younger are not touched, inserts are not blocked. Binds consumer, minus the
        /// age, limit.
        oldest: "SELECT {id}, {us(processed)} FROM {t}{by_done}
WHERE {consumer} = ? AND {processed} < {now_plus} ORDER BY {processed} LIMIT ?{skip_locked}",
        /// An id that was archived before and processed again since: the later row counts. Primary key. Binds
        /// consumer, ids.
        replace: "DELETE FROM consumer_inbox_archive WHERE consumer_name = ? AND event_id IN ({ids})",
        /// Copies them. Primary keys on both sides. Binds consumer, ids.
        copy: "INSERT INTO consumer_inbox_archive (consumer_name, event_id, payload_sha256, processed_at, archived_at)
SELECT {consumer}, {id}, {digest}, {processed}, {now} FROM {t} WHERE {consumer} = ? AND {id} IN ({ids})",
        /// Removes them. Primary key, the locked rows. Binds consumer, ids.
        remove: "DELETE FROM {t} WHERE {consumer} = ? AND {id} IN ({ids})",
        /// The horizon moves on, never back. Primary key, one row or none. Binds instant, consumer, instant.
        advance: "UPDATE inbox_horizons SET horizon_at = {at}, updated_at = {now}
WHERE consumer_name = ? AND horizon_at < {at}",
        /// How far it has come. Primary key. Binds consumer.
        horizon: "SELECT {us(horizon_at)} FROM inbox_horizons WHERE consumer_name = ?",
        /// The first horizon; unique on the consumer. Binds consumer, instant.
        begin: "INSERT INTO inbox_horizons (consumer_name, horizon_at, updated_at) VALUES (?, {at}, {now})",
        /// Archived rows by id. Primary key, one look-up an id. Binds consumer, ids.
        found: "SELECT event_id, {us(processed_at)}, payload_sha256 FROM consumer_inbox_archive
WHERE consumer_name = ? AND event_id IN ({ids})",
        /// One archived row. Primary key. Binds consumer, event.
        archived: "SELECT event_id, {us(processed_at)}, payload_sha256 FROM consumer_inbox_archive
WHERE consumer_name = ? AND event_id = ?",
    }
}

impl ArchiveStatements {
    /// Renders for a layout; `None` for one whose rows are the service's own business data.
    pub fn of_layout(base: &Slots, layout: &InboxLayout) -> Result<Option<Self>, UnknownSlot> {
        let (Some(consumer), Some(digest)) = (&layout.consumer, &layout.payload_sha256) else {
            return Ok(None);
        };
        let mut slots = base.clone();
        let index = layout.done_index.as_ref();
        // A renamed table has renamed indexes on SQLite only; there the planner needs no help.
        let by_done = match base.dialect() {
            super::Dialect::MySql => base.dialect().force(index),
            super::Dialect::Sqlite => String::new(),
        };
        slots
            .set("t", layout.table.quoted())
            .set("id", layout.id.quoted())
            .set("consumer", consumer.quoted())
            .set("processed", layout.processed_at.quoted())
            .set("digest", digest.quoted())
            .set("by_done", by_done);
        Self::render(&slots).map(Some)
    }
}
