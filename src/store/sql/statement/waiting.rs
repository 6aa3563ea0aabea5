//! Statements on what a consumer has applied of each sequence, and on events that wait for an earlier one.

/// Columns of a waiting event; `waiting.rs` reads them by position.
macro_rules! waiting {
    () => {
        "w.event_id, w.aggregate_id, w.version, w.missing_version, w.exchange_name, w.routing_key, \
{us(w.parked_at)}, {us(w.attempted_at)}, w.attempts, {us(w.deadline_at)}, w.properties, w.headers, w.payload"
    };
}

super::statements! {
    /// Statements of `0007_waiting.sql`.
    WaitingStatements {
        /// The last applied version of a sequence, locked. Primary key, one row or none. Binds consumer,
        /// aggregate.
        lock_version: "SELECT version FROM applied_versions WHERE consumer_name = ? AND aggregate_id = ?{for_update}",
        /// The same for a look. Primary key. Binds consumer, aggregate.
        applied: "SELECT version FROM applied_versions WHERE consumer_name = ? AND aggregate_id = ?",
        /// The first look at a sequence; unique on the primary key. Binds consumer, aggregate, version.
        insert_version: "INSERT INTO applied_versions (consumer_name, aggregate_id, version, updated_at)
VALUES (?, ?, ?, {now})",
        /// A sequence moves on, guarded by what was read under the lock. Primary key, one row or none. Binds
        /// version, consumer, aggregate, version before.
        set_version: "UPDATE applied_versions SET version = ?, updated_at = {now}
WHERE consumer_name = ? AND aggregate_id = ? AND version = ?",

        /// Parks an event; unique on the primary key. Binds see `waiting.rs`.
        park: "INSERT INTO waiting_events (consumer_name, event_id, aggregate_id, version, missing_version,
  exchange_name, routing_key, properties, headers, payload, payload_sha256, parked_at, attempted_at,
  attempts, deadline_at, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now}, {now}, 1, {now_plus}, NULL)",
        /// The digest of an event that waits. Primary key. Binds consumer, event.
        digest: "SELECT payload_sha256 FROM waiting_events WHERE consumer_name = ? AND event_id = ?",
        /// Some events that wait, without their messages. Primary key. Binds consumer, ids.
        notes: "SELECT event_id, version, missing_version, {us(parked_at)}, {us(attempted_at)}, attempts,
  {us(deadline_at)}, payload_sha256 FROM waiting_events WHERE consumer_name = ? AND event_id IN ({ids})",
        /// Which of these events wait. Primary key. Binds consumer, ids.
        seen: "SELECT event_id FROM waiting_events WHERE consumer_name = ? AND event_id IN ({ids})",
        /// It was tried again: its deadline counts from now, and who was giving it up lost it. Primary key,
        /// one row. Binds missing version, patience, consumer, event.
        park_again: "UPDATE waiting_events SET missing_version = ?, attempted_at = {now}, attempts = attempts + 1,
  deadline_at = {now_plus}, lease_until = NULL WHERE consumer_name = ? AND event_id = ?",
        /// It was consumed. Primary key, one row or none. Binds consumer, event.
        forget: "DELETE FROM waiting_events WHERE consumer_name = ? AND event_id = ?",
        /// It went on as a copy; not when it was tried again meanwhile. Primary key, one row or none. Binds
        /// consumer, event, attempts.
        remove: "DELETE FROM waiting_events WHERE consumer_name = ? AND event_id = ? AND attempts = ?",

        /// The next event of one sequence whose turn it is. (consumer, aggregate, version), one row. Binds
        /// consumer, aggregate.
        next_of: concat!("SELECT ", waiting!(), " FROM waiting_events w
JOIN applied_versions a ON a.consumer_name = w.consumer_name AND a.aggregate_id = w.aggregate_id
WHERE w.consumer_name = ? AND w.aggregate_id = ? AND w.version <= a.version + 1 ORDER BY w.version LIMIT 1"),
        /// Which of some events wait. Primary key, one look-up an id. Binds consumer, ids.
        found: "SELECT event_id FROM waiting_events WHERE consumer_name = ? AND event_id IN ({ids})",
        /// Events of any sequence whose turn it is, out of the first ones to be given up: what a worker that
        /// died between a commit and the successor left behind. (consumer, deadline), at most the cap, and a
        /// primary key look-up each. Binds consumer, cap, consumer, limit.
        ready: concat!("SELECT ", waiting!(), " FROM (
  SELECT event_id AS k FROM waiting_events WHERE consumer_name = ? ORDER BY deadline_at LIMIT ?) s
JOIN waiting_events w ON w.consumer_name = ? AND w.event_id = s.k
JOIN applied_versions a ON a.consumer_name = w.consumer_name AND a.aggregate_id = w.aggregate_id
WHERE w.version <= a.version + 1 ORDER BY w.aggregate_id, w.version LIMIT ?"),
        /// Overdue events nobody is giving up now, locked; not those whose turn has come. (consumer, deadline),
        /// and a primary key look-up each, until the limit. Binds consumer, limit.
        overdue: concat!("SELECT ", waiting!(), " FROM waiting_events w
WHERE w.consumer_name = ? AND w.deadline_at <= {now} AND (w.lease_until IS NULL OR w.lease_until <= {now})
  AND NOT EXISTS (SELECT 1 FROM applied_versions a WHERE a.consumer_name = w.consumer_name
    AND a.aggregate_id = w.aggregate_id AND w.version <= a.version + 1)
ORDER BY w.deadline_at LIMIT ?{skip_locked}"),
        /// One of them taken, for a while. Primary key, one row. Binds lease, consumer, event.
        take_overdue: "UPDATE waiting_events SET lease_until = {now_plus} WHERE consumer_name = ? AND event_id = ?",

        /// How many wait, capped, and the ages. (consumer, deadline) for the count and the next deadline,
        /// (consumer, parked) for the oldest; the last attempt is read from at most the cap of rows. Binds
        /// consumer, cap + 1, consumer, consumer, consumer, cap.
        summary: "SELECT {now_us},
  (SELECT COUNT(*) FROM (SELECT 1 FROM waiting_events WHERE consumer_name = ? LIMIT ?) n),
  (SELECT {us(MIN(parked_at))} FROM waiting_events WHERE consumer_name = ?),
  (SELECT {us(MIN(deadline_at))} FROM waiting_events WHERE consumer_name = ?),
  (SELECT {us(MIN(t))} FROM (SELECT attempted_at AS t FROM waiting_events WHERE consumer_name = ?
    ORDER BY deadline_at LIMIT ?) x)",
    }
}
