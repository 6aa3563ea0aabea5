//! Statements on sagas and their steps (our own columns). Indexes as in `0004_sagas.sql` and
//! `0009_saga_coordinator.sql`.

use crate::mapping::Identifier;

use super::super::dialect::Dialect;
use super::{Slots, UnknownSlot};

/// Columns of a saga; `saga_of` in `saga.rs` reads them by position.
macro_rules! saga {
    () => {
        "saga_id, saga_type, business_key, state, version, {us(deadline_at)}, {us(updated_at)}, \
{us(created_at)}, {us(expires_at)}, {us(due_at)}, failures, last_error, leased_by, {us(lease_until)}, \
attention, owner, evidence"
    };
}

/// One list of several: its rows with the number of the list and their place in it, as `ranked_of` in
/// `saga.rs` reads them.
macro_rules! ranked {
    ($number:literal, $alias:literal, $rank:literal, $from:expr) => {
        concat!(
            "SELECT * FROM (SELECT ",
            saga!(),
            ", ",
            $number,
            " AS list_no, ",
            $rank,
            " AS list_rank ",
            $from,
            ") ",
            $alias
        )
    };
}

/// Sagas whose compensation failed, longest waiting first. (state, updated_at). Binds limit.
macro_rules! failed {
    () => {
        ranked!(
            "0",
            "a",
            "{us(updated_at)}",
            "FROM {sagas} WHERE state = 'compensation_failed' ORDER BY updated_at, saga_id LIMIT ?"
        )
    };
}

/// Other sagas a person has to look at, longest waiting first. (attention_at), a range of what is not
/// NULL. Binds limit.
macro_rules! attention {
    () => {
        ranked!(
            "1",
            "b",
            "{us(attention_at)}",
            "FROM {sagas}{by_attention}
WHERE attention_at > {epoch} AND state <> 'compensation_failed' ORDER BY attention_at, saga_id LIMIT ?"
        )
    };
}

/// Other unfinished sagas, stalest first, out of at most the cap. (state, updated_at). Binds cap, limit.
macro_rules! stalest {
    () => {
        ranked!(
            "2",
            "c",
            "{us(updated_at)}",
            "FROM (SELECT saga_id AS k FROM {sagas}
  WHERE state NOT IN ('compensation_failed', 'completed', 'compensated') LIMIT ?) x
JOIN {sagas} ON saga_id = k WHERE attention_at IS NULL ORDER BY updated_at, saga_id LIMIT ?"
        )
    };
}

/// Finished sagas of a state, latest first. (state, updated_at). Binds state, limit.
macro_rules! finished {
    ($number:literal, $alias:literal) => {
        ranked!(
            $number,
            $alias,
            "-{us(updated_at)}",
            "FROM {sagas} WHERE state = ? AND attention_at IS NULL
ORDER BY updated_at DESC, saga_id DESC LIMIT ?"
        )
    };
}

/// What a move writes; a move that only sets timers keeps version and time of the last change. Binds state,
/// 1 or 0, expiry, due, failures, error, attention, attention (flag), owner, evidence, 1 or 0.
macro_rules! moved {
    () => {
        "UPDATE {sagas} SET state = ?, version = version + ?, expires_at = {at}, due_at = {at}, failures = ?,
  last_error = ?, attention = ?, attention_at = CASE WHEN ? = 1 THEN COALESCE(attention_at, {now}) ELSE NULL END,
  owner = ?, evidence = ?, lease_token = NULL, lease_until = NULL, leased_by = NULL,
  updated_at = CASE WHEN ? = 1 THEN {now} ELSE updated_at END
WHERE saga_id = ? AND version = ?"
    };
}

super::statements! {
    /// Statements on sagas.
    SagaStatements {
        /// The unfinished ones, in one statement: a saga that moves from one list to the next meanwhile is
        /// in one of them. Binds limit, limit, cap, limit.
        open: concat!(failed!(), " UNION ALL ", attention!(), " UNION ALL ", stalest!()),
        /// The same and finished ones. Binds as `open`, then state and limit twice.
        list: concat!(failed!(), " UNION ALL ", attention!(), " UNION ALL ", stalest!(),
            " UNION ALL ", finished!("3", "d"), " UNION ALL ", finished!("4", "e")),
        /// Steps of some sagas by number. Primary key. Binds ids.
        steps: "SELECT saga_id, step_no, name, forward_state, compensation_state, attempts, {us(timeout_at)},
  last_error, forward_key, compensation_key, event_id, queries, conflict_text, {us(updated_at)}
FROM saga_steps WHERE saga_id IN ({ids}) ORDER BY saga_id, step_no",
        /// Sagas of a state past their deadline, longest first. (state, deadline_at), at most the limit. Binds
        /// state, limit.
        overdue_first: "SELECT saga_id, saga_type, business_key, {us(deadline_at)}, {us(updated_at)}, owner FROM {sagas}
WHERE state = ? AND deadline_at <= {now} ORDER BY deadline_at, saga_id LIMIT ?",
        /// The same after a cursor; a range at any depth. Binds state, at, at, id, limit.
        overdue_after: "SELECT saga_id, saga_type, business_key, {us(deadline_at)}, {us(updated_at)}, owner FROM {sagas}
WHERE state = ? AND deadline_at <= {now} AND deadline_at >= {at} AND (deadline_at > {at} OR saga_id > ?)
ORDER BY deadline_at, saga_id LIMIT ?",
        /// One saga. Primary key. Binds id.
        one: concat!("SELECT ", saga!(), " FROM {sagas} WHERE saga_id = ?"),
        /// Sagas by the start of their id. Primary key range, at most 20. Binds pattern.
        by_prefix: concat!("SELECT ", saga!(), " FROM {sagas} WHERE saga_id LIKE ? ORDER BY saga_id LIMIT 20"),

        /// The saga of a side's idempotency key. Two unique keys, at most one row. Binds key, key.
        of_key: "SELECT saga_id FROM saga_steps WHERE forward_key = ?
UNION ALL SELECT saga_id FROM saga_steps WHERE compensation_key = ? LIMIT 1",
        /// The saga of a business key. Unique key. Binds type, business key.
        of_business: "SELECT saga_id FROM {sagas} WHERE saga_type = ? AND business_key = ?",
        /// Sagas with a step that waits for some events or last sent them. (event_id), and a primary key look-up
        /// each. Binds ids, limit.
        of_events: concat!("SELECT ", saga!(), " FROM {sagas} WHERE saga_id IN (
  SELECT saga_id FROM saga_steps WHERE event_id IN ({ids})) ORDER BY saga_id LIMIT ?"),
        /// Sagas of a business key whatever their type. (saga_type, business_key): one jump a type to list
        /// the types, one look-up each. Binds business key, limit.
        of_any_type: concat!("SELECT ", saga!(), " FROM {sagas}{by_business} WHERE business_key = ? AND saga_type IN (
  SELECT saga_type FROM (SELECT DISTINCT saga_type FROM {sagas}{by_business}) t) ORDER BY saga_id LIMIT ?"),
        /// A saga about to be moved, locked: the first lock of whoever moves it, before its steps and what
        /// belongs to it. Primary key, one row. Binds id.
        lock: concat!("SELECT ", saga!(), ", saga_data, {now_us} FROM {sagas} WHERE saga_id = ?{for_update}"),

        /// Due sagas of a type, longest due first, locked and passing by what others hold. (saga_type, due_at),
        /// only the rows it takes. Binds type, limit.
        claim_due: "SELECT saga_id FROM {sagas}{by_due} WHERE saga_type = ? AND due_at <= {now}
ORDER BY due_at LIMIT ?{skip_locked}",
        /// Takes them until the lease ends. Primary key. Binds token, lease, who, lease, ids.
        claim_take: "UPDATE {sagas} SET lease_token = ?, lease_until = {now_plus}, leased_by = ?, due_at = {now_plus}
WHERE saga_id IN ({ids})",
        /// What was claimed. Primary key. Binds ids.
        claimed: concat!("SELECT ", saga!(), ", saga_data, {now_us} FROM {sagas} WHERE saga_id IN ({ids})"),
        /// Moves a saga, guarded by its version. Primary key, one row. Binds the move's, id, version.
        move_any: moved!(),
        /// The same by the holder of the lease. Binds the move's, id, version, token.
        move_held: concat!(moved!(), " AND lease_token = ?"),
        /// A step after a move; its saga is locked. Primary key, one row. Binds forward, compensation, attempts,
        /// queries, timeout, error, conflict, event, 1 or 0, id, number.
        move_step: "UPDATE saga_steps SET forward_state = ?, compensation_state = ?, attempts = ?, queries = ?,
  timeout_at = {at}, last_error = ?, conflict_text = ?, event_id = ?,
  updated_at = CASE WHEN ? = 1 THEN {now} ELSE updated_at END
WHERE saga_id = ? AND step_no = ?",
        /// A saga that could not be moved, back for later. Primary key, one row. Binds error, pause, id, token.
        postpone: "UPDATE {sagas} SET failures = failures + 1, last_error = ?,
  attention_at = COALESCE(attention_at, {now}), due_at = {now_plus},
  lease_token = NULL, lease_until = NULL, leased_by = NULL
WHERE saga_id = ? AND lease_token = ?",
        /// Another owner; nothing else changes. Primary key, one row. Binds owner, id, version.
        assign: "UPDATE {sagas} SET owner = ?, version = version + 1 WHERE saga_id = ? AND version = ?",

        /// A new saga, due at once; unique on (type, business key). Binds id, type, business key, deadline,
        /// expiry, data.
        insert: "INSERT INTO {sagas} (saga_id, saga_type, business_key, state, version, deadline_at, expires_at,
  due_at, saga_data, created_at, updated_at)
VALUES (?, ?, ?, 'running', 1, {now_plus}, {now_plus}, {now}, ?, {now}, {now})",
        /// A new step; unique on each key. Binds id, number, name, compensation, forward key, compensation key.
        insert_step: "INSERT INTO saga_steps (saga_id, step_no, name, forward_state, compensation_state, attempts,
  forward_key, compensation_key, updated_at) VALUES (?, ?, ?, 'pending', ?, 0, ?, ?, {now})",
    }
}

impl SagaStatements {
    /// Renders for a table.
    pub fn of_table(base: &Slots, table: &Identifier) -> Result<Self, UnknownSlot> {
        let mut slots = base.clone();
        // SQLite's index names are one per database, so a table of another name has its own.
        let is_renamed = base.dialect() == Dialect::Sqlite && table.as_str() != "sagas";
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
            .set("sagas", table.quoted())
            .set("by_due", force("sagas_due"))
            .set("by_attention", force("sagas_attention"))
            .set("by_business", force("sagas_business"))
            .set(
                "epoch",
                match base.dialect() {
                    Dialect::MySql => "TIMESTAMP'1970-01-02 00:00:00'",
                    Dialect::Sqlite => "0",
                },
            );
        Self::render(&slots)
    }
}
