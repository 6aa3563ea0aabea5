//! Parts of outbox statements that depend on what columns and indexes a table has.

use crate::mapping::{ColumnAction, ColumnValue, OutboxLayout};
use crate::model::trouble::CAUSE_CHARS;

use super::Slots;
use super::outbox::CountParts;

/// What every way out of a claim clears.
pub struct Unlease {
    /// Further assignments, each with a comma before it.
    pub set: String,
}

impl Unlease {
    /// For a layout.
    pub fn of(layout: &OutboxLayout) -> Self {
        let mut set = String::new();
        if layout.token.is_some() {
            set.push_str(", {token} = NULL");
        }
        if layout.lease_until.is_some() {
            set.push_str(", {lease} = NULL");
        }
        set.push_str(&touch(layout));
        Self { set }
    }
}

/// The part of a SET that keeps the time of the last change, where the table wants it kept.
pub fn touch(layout: &OutboxLayout) -> String {
    layout
        .updated_at
        .as_ref()
        .map_or_else(String::new, |column| {
            format!(", {} = {{now}}", column.quoted())
        })
}

/// The counting statement with the parts a table can answer.
pub fn counts(parts: CountParts) -> String {
    // -1 is "more than the cap": then nothing is counted. A count over a derived table would read
    // every row twice.
    let capped = |from: &str| {
        format!(
            "COALESCE((SELECT -1 FROM {{t}}{from} LIMIT 1 OFFSET ?), (SELECT COUNT(*) FROM {{t}}{from}))"
        )
    };
    let mut columns = vec![
        "{now_us}".to_owned(),
        capped("{by_due} WHERE {status} = ?"),
        capped("{by_due} WHERE {status} = ? AND {due} <= {now}"),
        capped("{by_due} WHERE {status} = ?"),
        capped("{by_due} WHERE {status} = ?"),
        "(SELECT {us(due)} FROM {t}{by_due} WHERE {status} = ? ORDER BY {due} LIMIT 1)".to_owned(),
    ];
    columns.push(if parts.leases {
        capped("{by_lease} WHERE {status} = ? AND {lease} <= {now}")
    } else {
        "NULL".to_owned()
    });
    if parts.created {
        columns.push(
            "(SELECT {us(created)} FROM {t}{by_created} WHERE {status} = ? ORDER BY {created} LIMIT 1)"
                .to_owned(),
        );
        columns.push(capped(
            "{by_created} WHERE {status} = ? AND {created} >= {now_plus}",
        ));
    } else {
        columns.push("NULL".to_owned());
        columns.push("NULL".to_owned());
    }
    format!("SELECT {}", columns.join(",\n  "))
}

/// Rows of a bounded scan by type and error.
pub fn grouped(order: &str, filter: &str) -> String {
    format!(
        "SELECT c0, c1, COUNT(*) AS c3, MIN(c2) FROM (\
         SELECT {{type}} AS c0, SUBSTR({{error}}, 1, {CAUSE_CHARS}) AS c1, {{id}} AS c2\n\
         FROM {{t}}{{by_due}} WHERE {{status}} = ? ORDER BY {{due}}{order} LIMIT ?) scan\n\
         {filter}GROUP BY c0, c1 ORDER BY c3 DESC, c0, c1 LIMIT ?",
        filter = if filter.is_empty() {
            String::new()
        } else {
            format!("{} ", filter.trim_start())
        },
    )
}

/// Marks locked rows claimed.
pub fn claim_mark(layout: &OutboxLayout) -> String {
    let mut set = "{status} = ?, {attempts} = {attempts} + 1".to_owned();
    if layout.token.is_some() {
        set.push_str(", {token} = ?");
    }
    if layout.lease_until.is_some() {
        set.push_str(", {lease} = {at}");
    }
    set.push_str(&touch(layout));
    // The rows are locked; the guard is kept so that the statement is right by itself.
    format!("UPDATE {{t}} SET {set} WHERE {{id}} IN ({{ids}}) AND {{status}} = ?")
}

/// A new event, in the columns the table has.
pub fn insert(layout: &OutboxLayout) -> String {
    let mut columns = Vec::new();
    let mut values = Vec::new();
    let bound = [
        Some(&layout.id),
        layout.source.as_ref(),
        Some(&layout.key),
        layout.seq.as_ref(),
        Some(&layout.event_type),
        layout.schema_version.as_ref(),
        Some(&layout.payload),
        layout.headers.as_ref(),
        layout.destination.as_ref(),
        layout.routing_key.as_ref(),
        layout.trace_id.as_ref(),
        layout.causation_id.as_ref(),
        Some(&layout.status),
    ];
    for column in bound.into_iter().flatten() {
        columns.push(column.quoted());
        values.push("?");
    }
    columns.push(layout.attempts.quoted());
    values.push("0");
    // Due at once, and in the order of creation (perf.md section 3).
    let times = [
        Some(&layout.due_at),
        Some(&layout.created_at),
        layout.updated_at.as_ref(),
    ];
    for column in times.into_iter().flatten() {
        columns.push(column.quoted());
        values.push("{now}");
    }
    format!(
        "INSERT INTO {{t}} ({}) VALUES ({})",
        columns.join(", "),
        values.join(", ")
    )
}

/// The SET of an operator's action; `None` when the layout does not allow it.
pub fn action(slots: &Slots, action: &ColumnAction) -> Option<String> {
    action.is_possible.then(|| {
        action
            .set
            .iter()
            .map(|(column, value)| {
                let value = match value {
                    ColumnValue::Int(n) => n.to_string(),
                    ColumnValue::Word(_) => "?".to_owned(),
                    ColumnValue::Now => slots.dialect().now().to_owned(),
                    ColumnValue::Null => "NULL".to_owned(),
                };
                format!("{} = {value}", column.quoted())
            })
            .collect::<Vec<_>>()
            .join(", ")
    })
}
