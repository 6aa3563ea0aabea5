//! Statements on inboxes (mapped) and dead letters (our own columns).

use crate::mapping::{Identifier, InboxLayout};

use super::super::dialect::Dialect;
use super::{Slots, UnknownSlot};

/// Columns of a listed letter; `letter_of` in `dead_letter.rs` reads them by position.
macro_rules! letter {
    () => {
        "dead_letter_id, consumer_name, event_id, aggregate_id, aggregate_version, event_type, \
{us(message_at)}, failed_queue, source_exchange, source_routing_key, dead_letter_queue, reason, \
error_class, error_summary, stack_digest, delivery_count, retry_count, {us(first_died_at)}, \
{us(last_died_at)}, deaths, replays, {us(last_replayed_at)}, producer_version, consumer_version, \
trace_id, replay_allowed, owner, status, note, version, payload_bytes, payload_sha256, operation_id"
    };
}

/// One status in order of the last death, newest first, after a cursor or not.
macro_rules! newest {
    ($after:literal) => {
        concat!(
            " FROM {letters}{by_died} WHERE status = ?",
            $after,
            " ORDER BY last_died_at DESC, dead_letter_id DESC"
        )
    };
}

/// The rows of a bounded scan that match a filter. Binds (with the scan's): flag, consumer, flag, type,
/// flag, flag, class, limit.
macro_rules! filtered {
    ($after:literal) => {
        concat!(
            "SELECT ",
            letter!(),
            " FROM (SELECT k, died FROM (\
SELECT dead_letter_id AS k, last_died_at AS died, consumer_name AS c, event_type AS t, error_class AS e",
            newest!($after),
            " LIMIT ?) scan WHERE (? = 0 OR c = ?) AND (? = 0 OR t = ?) AND (? = 0 OR t IS NULL) \
AND (? = 0 OR e = ?) ORDER BY died DESC, k DESC LIMIT ?) page \
JOIN {letters} ON dead_letter_id = k ORDER BY died DESC, k DESC"
        )
    };
}

super::statements! {
    /// Statements on dead letters. Indexes as in `0003_dead_letters.sql`.
    LetterStatements {
        /// Ages and the rate of one table, one row, and the time of the last letter of either status that
        /// is still counted: NULL when there are no more than the cap. (status, last_died_at), at most
        /// cap + 1 entries each; (status, first_died_at), one; (recorded_at), at most twice the cap.
        /// Binds cap, cap, -60 s, cap, -60 s.
        summary: "SELECT {now_us},
  (SELECT {us(last_died_at)} FROM {letters}{by_died} WHERE status = 'open' ORDER BY last_died_at DESC LIMIT 1 OFFSET ?),
  (SELECT {us(last_died_at)} FROM {letters}{by_died} WHERE status = 'replaying' ORDER BY last_died_at DESC LIMIT 1 OFFSET ?),
  (SELECT {us(first_died_at)} FROM {letters}{by_first} WHERE status = 'open' ORDER BY first_died_at LIMIT 1),
  COALESCE((SELECT -1 FROM dead_letter_deaths WHERE recorded_at >= {now_plus} LIMIT 1 OFFSET ?),
    (SELECT COUNT(*) FROM dead_letter_deaths WHERE recorded_at >= {now_plus}))",
        /// Open letters and the deaths of the last minute of one table, one row. (status, last_died_at), at
        /// most twice the cap; (recorded_at), the same. Binds cap, cap, -60 s, -60 s.
        counts: "SELECT COALESCE((SELECT -1 FROM {letters}{by_died} WHERE status = 'open' LIMIT 1 OFFSET ?),
    (SELECT COUNT(*) FROM {letters}{by_died} WHERE status = 'open')),
  COALESCE((SELECT -1 FROM dead_letter_deaths WHERE recorded_at >= {now_plus} LIMIT 1 OFFSET ?),
    (SELECT COUNT(*) FROM dead_letter_deaths WHERE recorded_at >= {now_plus}))",
        /// Letters of a status by cause, largest first. (status, last_died_at), and the rows it points
        /// to. Binds status, the earliest death that counts, limit.
        groups: "SELECT consumer_name, event_type, error_class, COUNT(*), {us(MIN(first_died_at))},
  {us(MAX(last_died_at))}, MIN(owner), MAX(owner), COUNT(owner), MIN(note), MAX(note), COUNT(note)
FROM {letters}{by_died} WHERE status = ? AND last_died_at >= {at}
GROUP BY consumer_name, event_type, error_class ORDER BY COUNT(*) DESC, 1, 3 LIMIT ?",
        /// When the oldest letter that waits for somebody died first, by status. (status, first_died_at), one
        /// entry each.
        oldest_unresolved: "SELECT {now_us},
  (SELECT {us(first_died_at)} FROM {letters}{by_first} WHERE status = 'open' ORDER BY first_died_at LIMIT 1),
  (SELECT {us(first_died_at)} FROM {letters}{by_first} WHERE status = 'replaying' ORDER BY first_died_at LIMIT 1)",
        /// First page of a status. (status, last_died_at). Binds status, limit.
        page_first: concat!("SELECT ", letter!(), newest!(""), " LIMIT ?"),
        /// Page after a cursor; a range at any depth. Binds status, at, at, id, limit.
        page_after: concat!("SELECT ", letter!(),
            newest!(" AND last_died_at <= {at} AND (last_died_at < {at} OR dead_letter_id < ?)"), " LIMIT ?"),
        /// First filtered page. Binds status, bound, the filter's, limit.
        filtered_first: filtered!(""),
        /// Filtered page after a cursor. Binds status, at, at, id, bound, the filter's, limit.
        filtered_after: filtered!(" AND last_died_at <= {at} AND (last_died_at < {at} OR dead_letter_id < ?)"),
        /// Where a first filtered page's scan ended. Binds status, offset.
        end_of_first: concat!("SELECT {us(last_died_at)}, dead_letter_id", newest!(""), " LIMIT 1 OFFSET ?"),
        /// Same after a cursor. Binds status, at, at, id, offset.
        end_of_after: concat!("SELECT {us(last_died_at)}, dead_letter_id",
            newest!(" AND last_died_at <= {at} AND (last_died_at < {at} OR dead_letter_id < ?)"), " LIMIT 1 OFFSET ?"),
        /// One letter with its message. Primary key. Binds id.
        detail: concat!("SELECT ", letter!(), ", properties, headers, payload FROM {letters} WHERE dead_letter_id = ?"),
        /// Letters of an event. (event_id), at most 20. Binds event id.
        of_event: concat!("SELECT ", letter!(), " FROM {letters} WHERE event_id = ? LIMIT 20"),
        /// Letters of a consumer's events. Unique key (consumer, event), one look-up an id. Binds consumer, ids.
        found: "SELECT event_id, dead_letter_id, status, {us(updated_at)} FROM {letters}
WHERE consumer_name = ? AND event_id IN ({ids})",
        /// Letters of an aggregate. (aggregate_id, aggregate_version), at most 50. Binds aggregate.
        of_aggregate: concat!("SELECT ", letter!(),
            " FROM {letters} WHERE aggregate_id = ? ORDER BY aggregate_version LIMIT 50"),
        /// Which of these events have a letter of a consumer. Unique key. Binds consumer, ids.
        seen: "SELECT event_id FROM {letters} WHERE consumer_name = ? AND event_id IN ({ids})",
        /// Deaths of a letter, newest first. Primary key, at most 50. Binds letter.
        deaths: "SELECT death_no, {us(died_at)}, queue_name, reason, error, operation_id
FROM dead_letter_deaths WHERE dead_letter_id = ? ORDER BY death_no DESC LIMIT 50",

        /// The letter of a consumer's event, locked. Unique key, at most one row. Binds consumer, event.
        lock_of_event: "SELECT dead_letter_id, deaths FROM {letters} WHERE consumer_name = ? AND event_id = ?{for_update}",
        /// The letter without event id that an operation sent again, locked. Item's primary key, letter's
        /// primary key. Binds operation, consumer.
        lock_of_operation: "SELECT l.dead_letter_id, l.deaths FROM operation_items i
JOIN {letters} l ON l.dead_letter_id = i.dead_letter_id
WHERE i.operation_id = ? AND l.event_id IS NULL AND l.consumer_name = ? LIMIT 1{for_update}",
        /// Whether this very death is recorded. (dead_letter_id, fingerprint). Binds letter, fingerprint.
        has_death: "SELECT 1 FROM dead_letter_deaths WHERE dead_letter_id = ? AND fingerprint = ? LIMIT 1",
        /// A letter without event id that has this death and was not acknowledged by the subscription that
        /// stored it, locked. Range of deaths_fingerprint: the rows of one death under way. Binds first and
        /// last fingerprint, own fingerprint, consumer.
        same_without_id: "SELECT d.dead_letter_id, d.death_no FROM dead_letter_deaths d
JOIN {letters} l ON l.dead_letter_id = d.dead_letter_id
WHERE d.fingerprint > ? AND d.fingerprint < ? AND d.fingerprint <> ? AND l.event_id IS NULL
  AND l.consumer_name = ? LIMIT 1{for_update}",
        /// The death is held by another subscription now. Primary key, one row. Binds fingerprint, letter,
        /// number.
        hold_death: "UPDATE dead_letter_deaths SET fingerprint = ? WHERE dead_letter_id = ? AND death_no = ?",
        /// Acknowledged: the digest stays, the subscription goes. deaths_fingerprint, the rows themselves.
        /// Binds fingerprints.
        settle_deaths: "UPDATE dead_letter_deaths SET fingerprint = SUBSTR(fingerprint, 1, 64)
WHERE fingerprint IN ({ids})",
        /// A new letter; unique on (consumer, event). Binds see `death.rs`.
        insert: "INSERT INTO {letters} (dead_letter_id, consumer_name, event_id, aggregate_id, aggregate_version,
  event_type, message_at, failed_queue, source_exchange, source_routing_key, dead_letter_queue, reason,
  error_class, error_summary, stack_digest, delivery_count, retry_count, first_died_at, last_died_at,
  producer_version, consumer_version, trace_id, replay_allowed, owner, content_type, content_encoding,
  properties, headers, payload, payload_bytes, payload_sha256,
  status, deaths, replays, version, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, {at}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {at}, {at}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  'open', 1, 0, 1, {now}, {now})",
        /// Another death of a letter: open again, with the message as it died last. Owner, note and replays
        /// stay. Primary key, one row. Binds see `death.rs`.
        again: "UPDATE {letters} SET status = 'open', deaths = deaths + 1, version = version + 1,
  operation_id = NULL, updated_at = {now}, last_died_at = {at}, message_at = {at}, failed_queue = ?,
  source_exchange = ?, source_routing_key = ?, dead_letter_queue = ?, reason = ?, error_class = ?,
  error_summary = ?, stack_digest = ?, delivery_count = ?, retry_count = ?, producer_version = ?,
  consumer_version = ?, trace_id = ?, replay_allowed = ?, content_type = ?, content_encoding = ?,
  properties = ?, headers = ?, payload = ?, payload_bytes = ?, payload_sha256 = ?
WHERE dead_letter_id = ?",
        /// One death. Binds letter, number, died, queue, reason, error, fingerprint, operation.
        insert_death: "INSERT INTO dead_letter_deaths
  (dead_letter_id, death_no, died_at, queue_name, reason, error, fingerprint, operation_id, recorded_at)
VALUES (?, ?, {at}, ?, ?, ?, ?, ?, {now})",

        /// A letter an operation is about to take, locked. Primary key, at most one row. Binds letter.
        lock: "SELECT status, version, payload_sha256, event_id, consumer_name, deaths, {us(updated_at)}
FROM {letters} WHERE dead_letter_id = ?{for_update}",
        /// A letter taken or closed by an operation, guarded. Primary key, one row. Binds status, operation,
        /// letter, version.
        take: "UPDATE {letters} SET status = ?, operation_id = ?, version = version + 1, updated_at = {now}
WHERE dead_letter_id = ? AND version = ? AND status IN ('open', 'replaying')",
        /// Given back by the operation that held it. Primary key, one row or none. Binds letter, operation.
        give_back: "UPDATE {letters} SET status = 'open', operation_id = NULL, version = version + 1, updated_at = {now}
WHERE dead_letter_id = ? AND operation_id = ? AND status = 'replaying'",
        /// Proven. Primary key, one row or none. Binds operation, letter.
        replayed: "UPDATE {letters} SET status = 'replayed', operation_id = ?, version = version + 1, updated_at = {now}
WHERE dead_letter_id = ? AND status IN ('open', 'replaying')",
        /// Counts a publish. Primary key, one row. Binds letter.
        count_replay: "UPDATE {letters} SET replays = replays + 1, last_replayed_at = {now}, version = version + 1,
  updated_at = {now} WHERE dead_letter_id = ?",
        /// Owner and note; a flag of 0 keeps what is there. Primary key, one row. Binds flag, owner, flag, note,
        /// letter.
        annotate: "UPDATE {letters} SET owner = CASE WHEN ? = 1 THEN ? ELSE owner END,
  note = CASE WHEN ? = 1 THEN ? ELSE note END, version = version + 1, updated_at = {now}
WHERE dead_letter_id = ?",
    }
}

impl LetterStatements {
    /// Renders for a table.
    pub fn of_table(base: &Slots, table: &Identifier) -> Result<Self, UnknownSlot> {
        let mut slots = base.clone();
        // SQLite's index names are one per database, so a table of another name has its own.
        let is_renamed = base.dialect() == Dialect::Sqlite && table.as_str() != "dead_letters";
        let force = |name: &str| {
            let suffix = if is_renamed {
                format!("_{table}")
            } else {
                String::new()
            };
            Identifier::new(format!("{name}{suffix}"))
                .map(|index| base.dialect().force(Some(&index)))
                .unwrap_or_default()
        };
        slots
            .set("letters", table.quoted())
            .set("by_died", force("dead_letters_died"))
            .set("by_first", force("dead_letters_first"));
        Self::render(&slots)
    }
}

super::statements! {
    /// Statements on a mapped inbox.
    InboxStatements {
        /// The proof: first statement of a consumer's transaction; unique on the event (and consumer).
        /// Binds consumer (if any), event, digest (if any).
        insert: "INSERT INTO {t} ({columns}) VALUES ({values})",
        /// One row. Primary key. Binds event, consumer (if any).
        row: "SELECT {id}, {us(processed)}, {digest} FROM {t} WHERE {id} = ?{and_consumer}",
        /// Some rows. Primary key. Binds consumer (if any), ids.
        rows: "SELECT {id}, {us(processed)}, {digest} FROM {t} WHERE {consumer_and}{id} IN ({ids})",
        /// Which of these events have a row. Primary key. Binds consumer (if any), ids.
        seen: "SELECT {id} FROM {t} WHERE {consumer_and}{id} IN ({ids})",
        /// Rows of a window. (consumer, processed) or (processed), at most the limit. Binds consumer (if any),
        /// minus the window, limit.
        recent: "SELECT COUNT(*) FROM (SELECT 1 FROM {t} WHERE {consumer_and}{processed} >= {now_plus} LIMIT ?) n",
        /// Rows by id. Primary key, one look-up an id. Binds consumer (if any), ids.
        found: "SELECT {id}, {us(processed)}, {digest} FROM {t} WHERE {consumer_and}{id} IN ({ids})",
        /// Rows of a window, oldest first. (consumer, processed) or (processed), at most the limit. Binds
        /// consumer (if any), minus the window, limit.
        walk_first: "SELECT {id}, {us(processed)}, {digest} FROM {t}{by_done}
WHERE {consumer_and}{processed} >= {now_plus} ORDER BY {processed}, {id} LIMIT ?",
        /// The same after a cursor; a range at any depth. Binds consumer (if any), at, at, id, limit.
        walk_after: "SELECT {id}, {us(processed)}, {digest} FROM {t}{by_done}
WHERE {consumer_and}{processed} >= {at} AND ({processed} > {at} OR {id} > ?) ORDER BY {processed}, {id} LIMIT ?",
        /// The newest rows. The same index backwards. Binds consumer (if any), limit.
        newest: "SELECT {id}, {us(processed)}, {digest} FROM {t}{by_done}
WHERE {consumer_and}1 = 1 ORDER BY {processed} DESC LIMIT ?",
    }
}

impl InboxStatements {
    /// Renders for a layout.
    pub fn of_layout(base: &Slots, layout: &InboxLayout) -> Result<Self, UnknownSlot> {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        let bound = [
            layout.consumer.as_ref(),
            Some(&layout.id),
            layout.payload_sha256.as_ref(),
        ];
        for column in bound.into_iter().flatten() {
            columns.push(column.quoted());
            values.push("?");
        }
        columns.push(layout.processed_at.quoted());
        let mut slots = base.clone();
        values.push(base.dialect().now());
        let consumer = layout.consumer.as_ref().map(Identifier::quoted);
        // A renamed table has renamed indexes on SQLite only; there the planner needs no help.
        let by_done = match base.dialect() {
            Dialect::MySql => base.dialect().force(layout.done_index.as_ref()),
            Dialect::Sqlite => String::new(),
        };
        slots
            .set("t", layout.table.quoted())
            .set("id", layout.id.quoted())
            .set("processed", layout.processed_at.quoted())
            .set("by_done", by_done)
            .set(
                "digest",
                layout
                    .payload_sha256
                    .as_ref()
                    .map_or_else(|| "NULL".to_owned(), Identifier::quoted),
            )
            .set("columns", columns.join(", "))
            .set("values", values.join(", "))
            .set(
                "and_consumer",
                consumer
                    .as_ref()
                    .map(|c| format!(" AND {c} = ?"))
                    .unwrap_or_default(),
            )
            .set(
                "consumer_and",
                consumer
                    .as_ref()
                    .map(|c| format!("{c} = ? AND "))
                    .unwrap_or_default(),
            );
        Self::render(&slots)
    }
}
