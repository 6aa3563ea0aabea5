//! Statements on a mapped outbox.

use crate::base::crash::ARMED;
use crate::mapping::{Identifier, OutboxIndexes, OutboxLayout};
use crate::model::outbox::OutboxState;

use super::parts::{Unlease, action, claim_mark, counts, grouped, insert, touch};
use super::walk::OutboxWalk;
use super::{Slots, UnknownSlot};

/// Columns of a listed row; `row_of` in `outbox.rs` reads them by position.
const ROW: &str = "{id} AS c0, {key} AS c1, {seq} AS c2, {type} AS c3, {status} AS c4,
  {attempts} AS c5, {us(due)} AS c6,
  {token} AS c7, {us(lease)} AS c8, {error} AS c9,
  {us(created)} AS c10,
  {us(sent)} AS c11";

/// What is needed to publish, after the row's columns.
const EVENT: &str = ",
  {schema_version} AS c12, {payload} AS c13, {headers} AS c14,
  {destination} AS c15, {routing_key} AS c16, {trace_id} AS c17, {causation_id} AS c18";

/// Guard: a completion names its claim's token.
const GUARD_TOKEN: &str = "guard.completion_token";
/// Guard: the reaper takes what is overdue by the database's clock.
const GUARD_REAP_TIME: &str = "guard.reap_time";

/// The statements of one outbox.
#[derive(Clone, Debug)]
pub struct OutboxStatements {
    /// Everything a refresh shows, one row. Each part reads the index entries of (status, due),
    /// (status, lease) or (status, created) twice, or once as far as the cap, or one entry; no locks.
    /// A capped count binds its condition, the cap, its condition.
    pub counts: String,
    /// Which optional parts `counts` has.
    pub count_parts: CountParts,
    /// Rows of the table by the server's statistics; O(1). Binds the table name. One row.
    pub estimate: Option<String>,
    /// What reconciliation reads.
    pub walk: OutboxWalk,
    /// A page of each state.
    pub pages: Vec<(OutboxState, Result<PageStatements, String>)>,
    /// One event. Primary key, at most one row. Binds the id.
    pub by_id: String,
    /// Events by the first characters of their id. Primary key range, at most 20 rows. Binds lower
    /// and upper bound.
    pub by_prefix: String,
    /// Events of an aggregate, newest first. (aggregate, …), at most the limit. Binds aggregate, limit.
    /// The error names the missing index.
    pub sequence: Result<String, String>,
    /// The same with what caused them.
    pub trail: Result<String, String>,
    /// Claimed rows by lease. (status, lease), at most the limit. Binds status, limit.
    pub leases: Result<String, String>,
    /// Due rows, locked. (status, due) in order, so nothing is sorted and only the rows returned are
    /// locked. Binds status, limit.
    pub claim_due: Result<String, String>,
    /// The nearest unsent row of an aggregate between two versions. (aggregate, version) backwards from the
    /// upper one: one entry where there is one, else as many as lie between; a consistent read, so it
    /// locks nothing. Bound values, not a correlated subquery: of that no server makes a range. Many are
    /// joined by UNION ALL; run after `claim_due`, it sees what was committed meanwhile. Binds a mark, aggregate, lower and upper version, sent. The error names what
    /// is missing.
    pub earlier: Result<String, String>,
    /// Marks locked rows claimed. Primary key, as many rows as ids. Binds sending, token (if any), lease (if any), ids,
    /// pending.
    pub claim_mark: String,
    /// State of rows. Primary key, no locks. Binds ids.
    pub states: String,
    /// Puts locked rows off. Primary key. Binds the instant, the reason (if kept), ids, pending.
    pub hold: String,
    /// Later rows of an aggregate that were put off. (aggregate, version) from the version on, at most
    /// the limit; no locks. Binds aggregate, version, pending, the reason, limit.
    pub held: Option<String>,
    /// Makes them due, guarded. Primary key. Binds ids, pending, the reason.
    pub wake: Option<String>,
    /// Rows whose lease has run out, locked. (status, lease) in order, at most the limit; locks only
    /// what it returns and waits for nobody. Binds status, limit.
    pub expired: Result<String, String>,
    /// Those rows back to pending, guarded by state and by the database's clock, so that it is right by
    /// itself. Primary key. Binds pending, the reasons that make it the second, the second and the first
    /// reason (if kept), ids, sending.
    pub reap: String,
    /// Sent mark, fenced by status and, where there is one, token. Primary key. Binds sent, ids, sending,
    /// token (if any).
    pub complete: String,
    /// Extends a claim. (status, lease) over all claimed rows. Binds microseconds, sending, token.
    pub renew: Option<String>,
    /// After failed attempts, fenced. Primary key. Binds status, microseconds, error (if kept), ids,
    /// sending, token (if any).
    pub fail: String,
    /// Untried rows back, fenced. Primary key. Binds pending, ids, sending, token (if any).
    pub give_back: String,
    /// A new event; unique on the id. Binds in the order of its columns.
    pub insert: String,
    /// A failed row back to pending, guarded. Primary key, one row. Binds the action's words, then id,
    /// failed, attempts.
    pub replay: Option<String>,
    /// An expired claim back to pending, guarded by token and by the database's clock. (status, lease).
    /// Binds the action's words, then sending, token.
    pub release: Option<String>,
    /// Failed rows by type and error. (status, due) from its end, at most the first limit, and the rows
    /// it points to. Binds status, limit, groups.
    pub failed_groups: Result<String, String>,
    /// Pending rows with an error by type and error. (status, due) from its start, else the same.
    pub retried_groups: Result<String, String>,
    /// Rows created in a window, newest first. (status, created), at most the limit, and the rows it
    /// points to. Binds status, minus the window, limit.
    pub sent_recently: Result<String, String>,
}

/// Optional parts of the counting statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountParts {
    /// Expired leases.
    pub leases: bool,
    /// Oldest by creation, sent in the last minute.
    pub created: bool,
}

/// Statements of one state's pages. `limit` is bound last.
#[derive(Clone, Debug)]
pub struct PageStatements {
    /// First page. Binds status, limit.
    pub first: String,
    /// Page after a cursor. A range of the forced index: constant at any depth. Binds status, at, at, id, limit.
    pub after: String,
    /// First page of one type, from at most `bound` rows. Binds status, bound, type, limit.
    pub first_of_type: String,
    /// Same after a cursor. Binds status, at, at, id, bound, type, limit.
    pub after_of_type: String,
    /// Where the bounded scan of a first page ended. Binds status, offset.
    pub end_of_first: String,
    /// Same after a cursor. Binds status, at, at, id, offset.
    pub end_of_after: String,
    /// Position of the ordering time among the row's columns.
    pub at_column: usize,
}

/// A column, or NULL where a layout has none.
pub fn quoted_or_null(column: Option<&Identifier>) -> String {
    column.map_or_else(|| "NULL".to_owned(), Identifier::quoted)
}

fn slots_of(base: &Slots, layout: &OutboxLayout) -> Slots {
    let mut slots = base.clone();
    slots
        .set("t", layout.table.quoted())
        .set("id", layout.id.quoted())
        .set("key", layout.key.quoted())
        .set("seq", quoted_or_null(layout.seq.as_ref()))
        .set("type", layout.event_type.quoted())
        .set("status", layout.status.quoted())
        .set("attempts", layout.attempts.quoted())
        .set("due", layout.due_at.quoted())
        .set("token", quoted_or_null(layout.token.as_ref()))
        .set("lease", quoted_or_null(layout.lease_until.as_ref()))
        .set("error", quoted_or_null(layout.last_error.as_ref()))
        .set("created", layout.created_at.quoted())
        .set("sent", quoted_or_null(layout.sent_at.as_ref()))
        .set(
            "schema_version",
            quoted_or_null(layout.schema_version.as_ref()),
        )
        .set("payload", layout.payload.quoted())
        .set("headers", quoted_or_null(layout.headers.as_ref()))
        .set("destination", quoted_or_null(layout.destination.as_ref()))
        .set("routing_key", quoted_or_null(layout.routing_key.as_ref()))
        .set("trace_id", quoted_or_null(layout.trace_id.as_ref()))
        .set("causation_id", quoted_or_null(layout.causation_id.as_ref()));
    slots
}

/// The reason shown when an index is missing.
pub fn missing(layout: &OutboxLayout, columns: &[&Identifier]) -> String {
    let columns = columns
        .iter()
        .map(|c| c.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "{} has no index on ({columns}): create one, or the answer would read the whole table",
        layout.table
    )
}

impl OutboxStatements {
    /// Renders the statements for a layout whose server has these indexes.
    pub fn render(
        base: &Slots,
        layout: &OutboxLayout,
        indexes: &OutboxIndexes,
    ) -> Result<Self, UnknownSlot> {
        let mut slots = slots_of(base, layout);
        let dialect = slots.dialect();
        slots
            .set("by_due", dialect.force(indexes.due.as_ref()))
            .set("by_lease", dialect.force(indexes.lease.as_ref()))
            .set("by_created", dialect.force(indexes.created.as_ref()))
            .set("by_key", dialect.force(indexes.key.as_ref()));
        let has_lease = layout.lease_until.is_some() && indexes.lease.is_some();
        let count_parts = CountParts {
            leases: has_lease,
            created: indexes.created.is_some(),
        };
        let render = |template: &str| slots.render(template);
        let row = |tail: &str| render(&format!("SELECT {ROW}\nFROM {{t}}{tail}"));
        let event = |tail: &str| render(&format!("SELECT {ROW}{EVENT}{tail}"));
        // Guard: a lease that still runs is nobody else's.
        let overdue = if ARMED.is_off(GUARD_REAP_TIME) {
            "{lease} IS NOT NULL"
        } else {
            "{lease} <= {now}"
        };
        // Guard: only the claim that holds a row completes it.
        let fence = if ARMED.is_off(GUARD_TOKEN) && layout.token.is_some() {
            " AND ({token} = ? OR 1 = 1)"
        } else if layout.token.is_some() {
            " AND {token} = ?"
        } else {
            ""
        };
        let error = if layout.last_error.is_some() {
            ", {error} = ?"
        } else {
            ""
        };
        // Only a row's reason tells one that was put off from one its producer wants to go out later.
        let wakes = layout.seq.is_some() && layout.last_error.is_some() && indexes.key.is_some();
        let groups = |order: &str, filter: &str| match &indexes.due {
            None => Ok(Err(missing(layout, &[&layout.status, &layout.due_at]))),
            Some(_) => render(&grouped(order, filter)).map(Ok),
        };
        let unlease = Unlease::of(layout);
        let of_key = match (&indexes.key, &layout.seq) {
            (Some(_), Some(_)) => Ok("{by_key} WHERE {key} = ? ORDER BY {seq} DESC LIMIT ?"),
            (Some(_), None) => Ok("{by_key} WHERE {key} = ? ORDER BY {created} DESC LIMIT ?"),
            (None, seq) => Err(missing(
                layout,
                &[&layout.key, seq.as_ref().unwrap_or(&layout.created_at)],
            )),
        };
        let is_mysql = dialect == super::Dialect::MySql;
        Ok(Self {
            counts: render(&counts(count_parts))?,
            count_parts,
            estimate: is_mysql.then(|| {
                "SELECT TABLE_ROWS FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
                    .to_owned()
            }),
            walk: OutboxWalk::render(&slots, layout, indexes)?,
            pages: OutboxState::ALL
                .into_iter()
                .map(|state| Ok((state, page_of(&slots, layout, indexes, state)?)))
                .collect::<Result<Vec<_>, UnknownSlot>>()?,
            by_id: event("\nFROM {t} WHERE {id} = ?")?,
            by_prefix: row(" WHERE {id} >= ? AND {id} < ? ORDER BY {id} LIMIT 20")?,
            sequence: of_key
                .clone()
                .map(row)
                .map_or_else(|reason| Ok(Err(reason)), |done| done.map(Ok))?,
            trail: of_key
                .map(|tail| {
                    render(&format!(
                        "SELECT {ROW}, {{causation_id}} AS c12, {{destination}} AS c13,\n  {{routing_key}} AS c14\nFROM {{t}}{tail}"
                    ))
                })
                .map_or_else(|reason| Ok(Err(reason)), |done| done.map(Ok))?,
            leases: match (&layout.lease_until, &indexes.lease) {
                (None, _) => Err("this layout has no lease".to_owned()),
                (Some(lease), None) => Err(missing(layout, &[&layout.status, lease])),
                (Some(_), Some(_)) => Ok(render(
                    "SELECT {id}, {token}, {us(lease)}, {us(created)}, {attempts}, {now_us}\n\
                     FROM {t}{by_lease} WHERE {status} = ? ORDER BY {lease}, {id} LIMIT ?",
                )?),
            },
            claim_due: match &indexes.due {
                Some(_) => Ok(event(
                    ",\n  {now_us} AS c19\nFROM {t}{by_due} WHERE {status} = ? AND {due} <= {now} \
                     ORDER BY {due} LIMIT ?{skip_locked}",
                )?),
                None => Err(missing(layout, &[&layout.status, &layout.due_at])),
            },
            earlier: match (&layout.seq, &indexes.key) {
                (None, _) => Err(format!(
                    "the {} layout has no version in the sequence, which order = \"sequence\" needs; use \"due\"",
                    layout.layout
                )),
                (Some(seq), None) => Err(missing(layout, &[&layout.key, seq])),
                (Some(_), Some(_)) => Ok(render(
                    "SELECT * FROM (SELECT ? AS c0, {id} AS c1, {status} AS c2, {us(due)} AS c3 \
                     FROM {t}{by_key} WHERE {key} = ? AND {seq} > ? AND {seq} < ? AND {status} <> ? \
                     ORDER BY {seq} DESC LIMIT 1) earlier",
                )?),
            },
            claim_mark: render(&claim_mark(layout))?,
            states: render("SELECT {id}, {status} FROM {t} WHERE {id} IN ({ids})")?,
            hold: render(&format!(
                "UPDATE {{t}} SET {{due}} = {{at}}{error}{} WHERE {{id}} IN ({{ids}}) AND {{status}} = ?",
                touch(layout),
            ))?,
            held: wakes
                .then(|| {
                    render(
                        "SELECT {id} FROM {t}{by_key} WHERE {key} = ? AND {seq} > ? AND {status} = ? \
                         AND {error} = ? AND {due} > {now} ORDER BY {seq} LIMIT ?",
                    )
                })
                .transpose()?,
            wake: wakes
                .then(|| {
                    render(&format!(
                        "UPDATE {{t}} SET {{due}} = {{now}}{} WHERE {{id}} IN ({{ids}}) AND {{status}} = ? \
                         AND {{error}} = ?",
                        touch(layout),
                    ))
                })
                .transpose()?,
            expired: match (&layout.lease_until, &indexes.lease) {
                (None, _) => Err("this layout has no lease".to_owned()),
                (Some(lease), None) => Err(missing(layout, &[&layout.status, lease])),
                (Some(_), Some(_)) => Ok(render(&format!(
                    "SELECT {{id}}, {{token}}, {{us(lease)}}, {{now_us}} FROM {{t}}{{by_lease}} \
                     WHERE {{status}} = ? AND {overdue} ORDER BY {{lease}} LIMIT ?{{skip_locked}}",
                ))?),
            },
            reap: render(&format!(
                "UPDATE {{t}} SET {{status}} = ?{}{} WHERE {{id}} IN ({{ids}}) AND {{status}} = ? \
                 AND {overdue}",
                if layout.last_error.is_some() {
                    ", {error} = CASE WHEN {error} IN (?, ?) THEN ? ELSE ? END"
                } else {
                    ""
                },
                unlease.set,
            ))?,
            complete: render(&format!(
                "UPDATE {{t}} SET {{status}} = ?{}{} WHERE {{id}} IN ({{ids}}) AND {{status}} = ?{fence}",
                if layout.sent_at.is_some() { ", {sent} = {now}" } else { "" },
                unlease.set,
            ))?,
            renew: (layout.token.is_some() && has_lease)
                .then(|| {
                    render(&format!(
                        "UPDATE {{t}}{} SET {{lease}} = {{now_plus}} WHERE {{status}} = ? AND {{token}} = ?",
                        if is_mysql { "{by_lease}" } else { "" },
                    ))
                })
                .transpose()?,
            fail: render(&format!(
                "UPDATE {{t}} SET {{status}} = ?, {{due}} = {{now_plus}}{error}{} \
                 WHERE {{id}} IN ({{ids}}) AND {{status}} = ?{fence}",
                unlease.set,
            ))?,
            give_back: render(&format!(
                "UPDATE {{t}} SET {{status}} = ?, \
                 {{attempts}} = CASE WHEN {{attempts}} > 0 THEN {{attempts}} - 1 ELSE 0 END{} \
                 WHERE {{id}} IN ({{ids}}) AND {{status}} = ?{fence}",
                unlease.set,
            ))?,
            insert: render(&insert(layout))?,
            replay: action(&slots, &layout.replay)
                .map(|set| {
                    render(&format!(
                        "UPDATE {{t}} SET {set} WHERE {{id}} = ? AND {{status}} = ? AND {{attempts}} = ?"
                    ))
                })
                .transpose()?,
            release: match (action(&slots, &layout.release), has_lease && layout.token.is_some()) {
                (Some(set), true) => Some(render(&format!(
                    "UPDATE {{t}} SET {set} WHERE {{status}} = ? AND {{token}} = ? AND {{lease}} <= {{now}}"
                ))?),
                _ => None,
            },
            failed_groups: groups(" DESC", "")?,
            retried_groups: groups("", " WHERE c1 IS NOT NULL")?,
            sent_recently: match &indexes.created {
                None => Err(missing(layout, &[&layout.status, &layout.created_at])),
                Some(_) => Ok(render(
                    "SELECT {id}, {type}, {destination}, {routing_key}, {us(sent)}, {us(created)}, {now_us}\n\
                     FROM {t}{by_created} WHERE {status} = ? AND {created} >= {now_plus}\n\
                     ORDER BY {created} DESC LIMIT ?",
                )?),
            },
        })
    }

    /// The page statements of a state, or why there are none.
    pub fn page(&self, state: OutboxState) -> Option<&Result<PageStatements, String>> {
        self.pages
            .iter()
            .find(|(of, _)| *of == state)
            .map(|(_, page)| page)
    }
}

fn page_of(
    slots: &Slots,
    layout: &OutboxLayout,
    indexes: &OutboxIndexes,
    state: OutboxState,
) -> Result<Result<PageStatements, String>, UnknownSlot> {
    let (column, index, at_column, is_ascending) = match (state, &layout.lease_until) {
        (OutboxState::Sent | OutboxState::Unknown, _) => {
            (&layout.created_at, &indexes.created, 10, false)
        }
        (OutboxState::Sending, Some(lease)) => (lease, &indexes.lease, 8, true),
        _ => (&layout.due_at, &indexes.due, 6, true),
    };
    let Some(index) = index else {
        return Ok(Err(missing(layout, &[&layout.status, column])));
    };
    let mut slots = slots.clone();
    let force = slots.dialect().force(Some(index));
    let (than, order) = if is_ascending {
        (">", "ASC")
    } else {
        ("<", "DESC")
    };
    slots
        .set("p", column.quoted())
        .set("by", force)
        .set("than", than)
        .set("order", order)
        .set("c", format!("c{at_column}"));
    // Expanded by hand: MariaDB makes no range of a row constructor, and walks from the start.
    let from = |is_after: bool| {
        format!(
            "FROM {{t}}{{by}}\nWHERE {{status}} = ?{}\nORDER BY {{p}} {{order}}, {{id}} {{order}}",
            if is_after {
                "\n  AND {p} {than}= {at}\n  AND ({p} {than} {at} OR {id} {than} ?)"
            } else {
                ""
            }
        )
    };
    let page = |is_after| slots.render(&format!("SELECT {ROW}\n{} LIMIT ?", from(is_after)));
    let of_type = |is_after| {
        slots.render(&format!(
            "SELECT * FROM (SELECT {ROW}\n{} LIMIT ?) page\nWHERE c3 = ? \
             ORDER BY {{c}} {{order}}, c0 {{order}} LIMIT ?",
            from(is_after)
        ))
    };
    let end = |is_after| {
        slots.render(&format!(
            "SELECT {{us(p)}}, {{id}}\n{} LIMIT 1 OFFSET ?",
            from(is_after)
        ))
    };
    Ok(Ok(PageStatements {
        first: page(false)?,
        after: page(true)?,
        first_of_type: of_type(false)?,
        after_of_type: of_type(true)?,
        end_of_first: end(false)?,
        end_of_after: end(true)?,
        at_column,
    }))
}

#[cfg(test)]
impl OutboxStatements {
    /// Every statement with its name, for the snapshots.
    pub fn all(&self) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        let mut push = |name: &str, statement: Option<&str>| {
            out.push((name.to_owned(), statement.unwrap_or("(none)").to_owned()));
        };
        push("counts", Some(&self.counts));
        push("estimate", self.estimate.as_deref());
        push("by_id", Some(&self.by_id));
        push("by_prefix", Some(&self.by_prefix));
        push("sequence", self.sequence.as_ref().map(String::as_str).ok());
        push("trail", self.trail.as_ref().map(String::as_str).ok());
        push("leases", self.leases.as_ref().map(String::as_str).ok());
        push(
            "claim_due",
            self.claim_due.as_ref().map(String::as_str).ok(),
        );
        push("earlier", self.earlier.as_ref().map(String::as_str).ok());
        push("claim_mark", Some(&self.claim_mark));
        push("states", Some(&self.states));
        push("hold", Some(&self.hold));
        push("held", self.held.as_deref());
        push("wake", self.wake.as_deref());
        push("expired", self.expired.as_ref().map(String::as_str).ok());
        push("reap", Some(&self.reap));
        push("complete", Some(&self.complete));
        push("renew", self.renew.as_deref());
        push("fail", Some(&self.fail));
        push("give_back", Some(&self.give_back));
        push("insert", Some(&self.insert));
        push("replay", self.replay.as_deref());
        push("release", self.release.as_deref());
        for (name, statement) in [
            ("failed_groups", &self.failed_groups),
            ("retried_groups", &self.retried_groups),
            ("sent_recently", &self.sent_recently),
        ] {
            push(name, statement.as_ref().map(String::as_str).ok());
        }
        for (name, statement) in self.walk.all() {
            push(&format!("walk {name}"), Some(statement));
        }
        for (state, page) in &self.pages {
            match page {
                Err(reason) => push(&format!("page {}", state.word()), Some(reason)),
                Ok(page) => {
                    push(&format!("page {} first", state.word()), Some(&page.first));
                    push(&format!("page {} after", state.word()), Some(&page.after));
                    push(
                        &format!("page {} after, of type", state.word()),
                        Some(&page.after_of_type),
                    );
                    push(
                        &format!("page {} end of after", state.word()),
                        Some(&page.end_of_after),
                    );
                }
            }
        }
        out
    }
}
