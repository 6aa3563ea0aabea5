//! Statements on our own journal: operations, their items, repairs, the audit log. Indexes as in
//! `0005_journal.sql`.

use crate::mapping::Identifier;

use super::{Slots, UnknownSlot};

/// The oldest operations of a state. Binds limit.
macro_rules! unfinished {
    ($state:literal, $alias:literal) => {
        concat!(
            "SELECT * FROM (SELECT operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text,
  {us(created_at)}, {us(finished_at)} FROM operations WHERE state = '",
            $state,
            "' ORDER BY created_at, operation_id LIMIT ?) ",
            $alias
        )
    };
}

super::statements! {
    /// The journal's statements.
    JournalStatements {
        /// Newest operations. (created_at, operation_id). Binds limit.
        page_first: "SELECT operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, {us(created_at)},
  {us(finished_at)} FROM operations ORDER BY created_at DESC, operation_id DESC LIMIT ?",
        /// Operations before a cursor. Binds at, at, id, limit.
        page_after: "SELECT operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, {us(created_at)},
  {us(finished_at)} FROM operations WHERE created_at <= {at} AND (created_at < {at} OR operation_id < ?)
ORDER BY created_at DESC, operation_id DESC LIMIT ?",
        /// One operation. Primary key. Binds id.
        operation: "SELECT operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, {us(created_at)},
  {us(finished_at)} FROM operations WHERE operation_id = ?",
        /// Unfinished operations, the oldest of each state, in one statement: one that becomes unknown meanwhile is in
        /// one of the parts. (state, created_at). Binds limit, limit.
        unfinished: concat!(unfinished!("running", "a"), " UNION ALL ", unfinished!("unknown", "b")),
        /// Items of some operations by number. Primary key. Binds ids.
        items: "SELECT operation_id, item_no, event_id, consumer_name, dead_letter_id, state, token, {us(lease_until)},
  {us(published_at)}, {us(updated_at)}, evidence, deaths_before, new_event_id
FROM operation_items WHERE operation_id IN ({ids}) ORDER BY operation_id, item_no",
        /// Some operations. Primary key. Binds ids.
        heads: "SELECT operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, {us(created_at)},
  {us(finished_at)} FROM operations WHERE operation_id IN ({ids})",
        /// Items of a letter, newest first (ids are UUIDv7). (dead_letter_id, state), a few rows. Binds
        /// letter, limit.
        of_letter: "SELECT operation_id, item_no, event_id, consumer_name, dead_letter_id, state, token, {us(lease_until)},
  {us(published_at)}, {us(updated_at)}, evidence, deaths_before, new_event_id
FROM operation_items WHERE dead_letter_id = ?
ORDER BY operation_id DESC LIMIT ?",
        /// Items of an event, newest first. (event_id) of `0011_trace.sql`, a few rows; fails without it
        /// rather than read the table. Binds event, limit.
        of_event: "SELECT operation_id, item_no, event_id, consumer_name, dead_letter_id, state, token, {us(lease_until)},
  {us(published_at)}, {us(updated_at)}, evidence, deaths_before, new_event_id
FROM operation_items{by_event} WHERE event_id = ?
ORDER BY operation_id DESC LIMIT ?",
        /// A new operation. Binds id, verb, state, actor, reason, ticket, digest, plan.
        insert_operation: "INSERT INTO operations
  (operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, created_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now}, NULL)",
        /// A new operation that is done in the same transaction. Binds the same.
        insert_finished: "INSERT INTO operations
  (operation_id, verb, state, actor, reason, ticket, plan_digest, plan_text, created_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now}, {now})",
        /// A new item; unique on the active key, so that a letter has one holder. Binds operation, number, event,
        /// consumer, letter, active key, state, token, lease, evidence, deaths before, new event.
        insert_item: "INSERT INTO operation_items
  (operation_id, item_no, event_id, consumer_name, dead_letter_id, active_key, state, token, lease_until,
   evidence, deaths_before, new_event_id, published_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now_plus}, ?, ?, ?, NULL, {now})",
        /// Who holds a letter. Unique key, at most one row. Binds active key.
        holder: "SELECT i.operation_id, o.actor, {us(o.created_at)} FROM operation_items i
JOIN operations o ON o.operation_id = i.operation_id WHERE i.active_key = ?",
        /// The letter of an item. Primary key. Binds operation, number.
        letter_of_item: "SELECT dead_letter_id FROM operation_items WHERE operation_id = ? AND item_no = ?",
        /// Moves an item on, fenced by state and token. Primary key, one row.
        /// Binds state, evidence, flag of a final state, flag of published, operation, number, token, states.
        step: "UPDATE operation_items SET state = ?, evidence = ?, updated_at = {now},
  active_key = CASE WHEN ? = 1 THEN NULL ELSE active_key END,
  published_at = CASE WHEN ? = 1 THEN {now} ELSE published_at END
WHERE operation_id = ? AND item_no = ? AND token = ? AND state IN ({ids})",
        /// Items of a letter that was sent and died again. (dead_letter_id, state), a few rows. Binds letter.
        sent_items: "SELECT operation_id, item_no FROM operation_items
WHERE dead_letter_id = ? AND state IN ('publishing', 'published', 'unknown')",
        /// An item died again. Primary key, one row. Binds evidence, operation, number.
        died_again: "UPDATE operation_items SET state = 'died_again', evidence = ?, active_key = NULL, updated_at = {now}
WHERE operation_id = ? AND item_no = ? AND state IN ('publishing', 'published', 'unknown')",
        /// How many items are not final, and how many of those are unknown. Primary key range. Binds operation.
        open_items: "SELECT COUNT(*), COALESCE(SUM(CASE WHEN state = 'unknown' THEN 1 ELSE 0 END), 0)
FROM operation_items WHERE operation_id = ? AND state IN ('reserved', 'publishing', 'published', 'unknown')",
        /// An operation's state. Primary key, one row. Binds state, flag of the end, operation.
        set_state: "UPDATE operations SET state = ?,
  finished_at = CASE WHEN ? = 1 THEN COALESCE(finished_at, {now}) ELSE NULL END WHERE operation_id = ?",
        /// Who started an operation. Primary key. Binds operation.
        actor: "SELECT actor, verb, reason FROM operations WHERE operation_id = ?",
        /// A repair. Binds repair, operation, original event, letter, new event, diff, reason, actor.
        insert_repair: "INSERT INTO repairs
  (repair_id, operation_id, original_event_id, dead_letter_id, new_event_id, diff, reason, actor, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now})",
        /// Repairs of an event, oldest first. (original_event_id), a few rows. Binds event, limit.
        repairs_of: "SELECT operation_id, original_event_id, dead_letter_id, new_event_id, reason, actor,
  {us(created_at)} FROM repairs WHERE original_event_id = ? ORDER BY created_at LIMIT ?",
        /// The repair that made an event. Unique key, at most one row. Binds new event.
        repair_that_made: "SELECT operation_id, original_event_id, dead_letter_id, new_event_id, reason, actor,
  {us(created_at)} FROM repairs WHERE new_event_id = ?",

        /// The end of the chain, locked: appending is one at a time. Primary key, one row.
        head: "SELECT seq, hash, {now_us} FROM audit_head WHERE head_id = 1{for_update}",
        /// The end of the chain, not locked.
        head_now: "SELECT seq, hash FROM audit_head WHERE head_id = 1",
        /// Moves the end. Primary key, one row. Binds number, hash, number before.
        move_head: "UPDATE audit_head SET seq = ?, hash = ? WHERE head_id = 1 AND seq = ?",
        /// An entry. Binds number, at, actor, action, phase, operation, subject, reason, detail, hash before, hash.
        append: "INSERT INTO audit_log
  (seq, recorded_at, actor, action_word, phase, operation_id, subject, reason, detail, previous_hash, hash)
VALUES (?, {at}, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        /// Entries of an operation, oldest first. (operation_id), a few rows. Binds operation, limit.
        audit_of: "SELECT seq, {us(recorded_at)}, actor, action_word, phase, operation_id, subject, reason, detail,
  previous_hash, hash FROM audit_log WHERE operation_id = ? ORDER BY seq LIMIT ?",
        /// Entries before a number, newest first. Primary key range. Binds number, limit.
        audit_page: "SELECT seq, {us(recorded_at)}, actor, action_word, phase, operation_id, subject, reason, detail,
  previous_hash, hash FROM audit_log WHERE seq < ? ORDER BY seq DESC LIMIT ?",
        /// Entries after a number, oldest first. Primary key range. Binds number, limit.
        audit_after: "SELECT seq, {us(recorded_at)}, actor, action_word, phase, operation_id, subject, reason, detail,
  previous_hash, hash FROM audit_log WHERE seq > ? ORDER BY seq LIMIT ?",
    }
}

impl JournalStatements {
    /// Renders for a dialect.
    pub fn of_dialect(base: &Slots) -> Result<Self, UnknownSlot> {
        let mut slots = base.clone();
        let force = Identifier::new("operation_items_event")
            .map(|index| base.dialect().force(Some(&index)))
            .unwrap_or_default();
        slots.set("by_event", force);
        Self::render(&slots)
    }
}
