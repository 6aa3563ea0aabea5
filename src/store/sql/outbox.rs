//! Looking at an outbox: counts, pages, leases, sequences. Every read is bounded by a cap or a page.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::base::clock::Timestamp;
use crate::mapping::{Identifier, OutboxLayout};
use crate::model::count::Count;
use crate::model::ids::{AggregateId, ClaimToken, EventId};
use crate::model::message::{FieldTable, Payload};
use crate::model::outbox::{
    LeaseGroup, Leases, OutboxCounts, OutboxEvent, OutboxQuery, OutboxRow, OutboxState, Sequence,
};
use crate::model::page::{Cursor, Page};
use crate::store::Value;

use super::db::Db;
use super::exec::{Row, Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::page::{bind_after, one_more};
use super::statement::OutboxStatements;

/// A page filtered by type reads at most so many times its length.
const SCAN_FACTOR: u64 = 20;
/// Event ids shown for a claim.
const SAMPLE: usize = 5;
/// The server changes its estimate of a table when a tenth of it changed: it need not be asked each second.
const ROWS_TOLD_KEPT: Duration = Duration::from_secs(5);
/// Events of a sequence.
const SEQUENCE: usize = 50;

/// The server's own estimate of the table's rows.
async fn rows_told(
    db: &Db,
    session: &mut Session,
    statement: &str,
    table: &Identifier,
) -> SqlResult<Option<u64>> {
    let known = *db
        .outbox_rows
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some((asked_at, rows)) = known
        && asked_at.elapsed() < ROWS_TOLD_KEPT
    {
        return Ok(rows);
    }
    let row = session
        .fetch_optional(statement, &[text(table.as_str())])
        .await?;
    let rows = match row {
        Some(row) => row.int_or_null(0)?.and_then(|n| u64::try_from(n).ok()),
        None => None,
    };
    *db.outbox_rows
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), rows));
    Ok(rows)
}

/// Columns of the statement that counts.
pub const COUNTS: usize = 9;

/// Capped counts and ages, in one statement.
pub async fn counts(db: &Db) -> SqlResult<OutboxCounts> {
    let (layout, statements) = db.outbox().await?;
    let values = counts_values(db, layout, &statements);
    let mut session = db.read().await?;
    let row = session
        .fetch_optional(&statements.counts, &values)
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    counts_of(db, &mut session, (layout, &statements), (&row, 0)).await
}

/// What the statement that counts binds.
pub fn counts_values(db: &Db, layout: &OutboxLayout, statements: &OutboxStatements) -> Vec<Value> {
    let words = &layout.words;
    let cap = db.count_cap;
    let capped = |condition: &[Value]| [condition, &[limit(cap)], condition].concat();
    let pending = text(&words.pending);
    let mut values = Vec::new();
    for word in [
        &words.pending,
        &words.pending,
        &words.sending,
        &words.failed,
    ] {
        values.extend(capped(&[text(word)]));
    }
    values.push(pending.clone());
    if statements.count_parts.leases {
        values.extend(capped(&[text(&words.sending)]));
    }
    if statements.count_parts.created {
        values.push(pending);
        values.extend(capped(&[text(&words.sent), Value::Int(-60_000_000)]));
    }
    values
}

/// The counts in a row, whose columns begin at some place in it; and the server's estimate, when it is time
/// to ask for it.
pub async fn counts_of(
    db: &Db,
    session: &mut Session,
    (layout, statements): (&OutboxLayout, &OutboxStatements),
    (row, at): (&Row, usize),
) -> SqlResult<OutboxCounts> {
    let now = row.time(at)?;
    let capped = |index: usize| row.capped(at + index, db.count_cap);
    let optional = |index: usize| -> SqlResult<Option<Count>> {
        row.int_or_null(at + index)?
            .map(|_| capped(index))
            .transpose()
    };
    let (pending, sending, failed) = (capped(1)?, capped(3)?, capped(4)?);
    let sent = match &statements.estimate {
        None => None,
        Some(estimate) => rows_told(db, session, estimate, &layout.table)
            .await?
            .map(|rows| {
                let others = pending.floor() + sending.floor() + failed.floor();
                Count::About(rows.saturating_sub(others))
            }),
    };
    Ok(OutboxCounts {
        pending,
        due: capped(2)?,
        sending,
        failed,
        sent,
        expired_leases: optional(6)?,
        oldest_due_s: row
            .time_or_null(at + 5)?
            .filter(|due| *due <= now)
            .map(|due| now.seconds_since(due)),
        oldest_pending_s: row.time_or_null(at + 7)?.map(|at| now.seconds_since(at)),
        sent_last_minute: optional(8)?,
        database_now: now,
    })
}

/// A page of rows in one state, by key.
pub async fn page(db: &Db, query: &OutboxQuery) -> SqlResult<Page<OutboxRow>> {
    let (layout, statements) = db.outbox().await?;
    let page = match statements.page(query.state) {
        Some(Ok(page)) => page,
        Some(Err(reason)) => return Err(Fault::Unsupported(reason.clone())),
        None => {
            return Err(Fault::unsupported(format!(
                "rows in state {} cannot be listed",
                query.state.word()
            )));
        }
    };
    let wanted = u64::from(query.limit.max(1));
    let mut values = vec![text(word_of(layout, query.state))];
    bind_after(query.after.as_ref(), &mut values);
    let scan = values.clone();
    let bound = wanted * SCAN_FACTOR;
    if let Some(event_type) = &query.event_type {
        values.extend([limit(bound), text(event_type)]);
    }
    values.push(one_more(query.limit));
    let statement = match (&query.after, &query.event_type) {
        (None, None) => &page.first,
        (Some(_), None) => &page.after,
        (None, Some(_)) => &page.first_of_type,
        (Some(_), Some(_)) => &page.after_of_type,
    };
    let mut session = db.read().await?;
    let rows = session.fetch(statement, &values).await?;
    let mut out = Page {
        rows: rows
            .iter()
            .take(query.limit.max(1) as usize)
            .map(|row| row_of(layout, row))
            .collect::<SqlResult<Vec<_>>>()?,
        next: None,
    };
    if rows.len() > out.rows.len() {
        out.next = rows
            .get(out.rows.len() - 1)
            .map(|row| cursor(row, page.at_column, 0))
            .transpose()?;
    } else if query.event_type.is_some() {
        // Fewer matches than a page: go on where the bounded scan ended, if it was cut off.
        let end = if query.after.is_some() {
            &page.end_of_after
        } else {
            &page.end_of_first
        };
        let mut values = scan;
        values.push(limit(bound - 1));
        out.next = session
            .fetch_optional(end, &values)
            .await?
            .map(|row| cursor(&row, 0, 1))
            .transpose()?;
    }
    Ok(out)
}

/// One event with its payload.
pub async fn event(db: &Db, id: &EventId) -> SqlResult<Option<OutboxEvent>> {
    let (layout, statements) = db.outbox().await?;
    let mut session = db.read().await?;
    session
        .fetch_optional(&statements.by_id, &[text(id.as_str())])
        .await?
        .map(|row| event_of(layout, row))
        .transpose()
}

/// Events by the first characters of their id.
pub async fn by_prefix(db: &Db, prefix: &str) -> SqlResult<Vec<OutboxRow>> {
    let (layout, statements) = db.outbox().await?;
    if prefix.chars().count() < 4 {
        return Err(Fault::unsupported(
            "an event id is looked up by at least its first 4 characters",
        ));
    }
    let mut session = db.read().await?;
    // Ids are ASCII: DEL sorts after every character of one.
    session
        .fetch(
            &statements.by_prefix,
            &[text(prefix), text(format!("{prefix}\u{7f}"))],
        )
        .await?
        .iter()
        .map(|row| row_of(layout, row))
        .collect()
}

/// Events of one aggregate, the newest so many, oldest first.
pub async fn sequence(db: &Db, aggregate: &AggregateId) -> SqlResult<Sequence> {
    let (layout, statements) = db.outbox().await?;
    let statement = match &statements.sequence {
        Ok(statement) => statement,
        Err(reason) => {
            return Ok(Sequence {
                not_answered: Some(reason.clone()),
                ..Sequence::default()
            });
        }
    };
    let mut session = db.read().await?;
    let found = session
        .fetch(
            statement,
            &[text(aggregate.as_str()), limit(SEQUENCE as u64 + 1)],
        )
        .await?;
    let mut rows = found
        .iter()
        .take(SEQUENCE)
        .map(|row| row_of(layout, row))
        .collect::<SqlResult<Vec<_>>>()?;
    rows.reverse();
    Ok(Sequence {
        rows,
        truncated: found.len() > SEQUENCE,
        not_answered: None,
    })
}

/// Claims with their leases.
pub async fn leases(db: &Db, rows_max: u32) -> SqlResult<Leases> {
    let (layout, statements) = db.outbox().await?;
    let statement = match &statements.leases {
        Ok(statement) => statement,
        Err(reason) => {
            return Ok(Leases {
                not_answered: Some(reason.clone()),
                ..Leases::default()
            });
        }
    };
    let values = [text(&layout.words.sending), limit(u64::from(rows_max) + 1)];
    let found = db.read().await?.fetch(statement, &values).await?;
    let groups = group_leases(found.iter().take(rows_max as usize));
    Ok(Leases {
        groups: groups.map_err(|fault| fault.in_table(layout.table.as_str()))?,
        truncated: found.len() > rows_max as usize,
        not_answered: None,
    })
}

/// Groups rows of the leases' statement, ordered by lease, by their claim.
fn group_leases<'a>(rows: impl Iterator<Item = &'a Row>) -> SqlResult<Vec<LeaseGroup>> {
    let mut groups: Vec<LeaseGroup> = Vec::new();
    let mut positions = HashMap::new();
    for row in rows {
        let token = row.text_or_null(1)?;
        let position = if let Some(position) = positions.get(&token) {
            *position
        } else {
            let (lease_until, now) = (row.time_or_null(2)?, row.time(5)?);
            groups.push(LeaseGroup {
                claim_token: token.clone().map(ClaimToken::new),
                rows: 0,
                lease_until,
                left_s: lease_until.map(|until| until.seconds_since(now)),
                oldest_created_at: None,
                attempts_max: None,
                sample: Vec::new(),
            });
            positions.insert(token, groups.len() - 1);
            groups.len() - 1
        };
        let Some(group) = groups.get_mut(position) else {
            continue;
        };
        group.rows += 1;
        let created_at = row.time_or_null(3)?;
        group.oldest_created_at = match (group.oldest_created_at, created_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        group.attempts_max = group.attempts_max.max(row.int_or_null(4)?);
        if group.sample.len() < SAMPLE {
            group.sample.push(EventId::new(row.text(0)?));
        }
    }
    Ok(groups)
}

/// The database's clock.
pub async fn now(db: &Db, session: &mut super::exec::Session) -> SqlResult<Timestamp> {
    let statement = db
        .slots
        .render("SELECT {now_us}")
        .map_err(|e| Fault::Invalid(e.to_string()))?;
    session
        .fetch_optional(&statement, &[])
        .await?
        .ok_or_else(|| Fault::unreadable("the clock did not answer".to_owned()))?
        .time(0)
}

fn cursor(row: &Row, at: usize, id: usize) -> SqlResult<Cursor> {
    Ok(Cursor {
        at: row.time_or_null(at)?.unwrap_or(Timestamp::from_micros(0)),
        id: row.text(id)?,
    })
}

/// The layout's word for a state.
pub fn word_of(layout: &OutboxLayout, state: OutboxState) -> &str {
    match state {
        OutboxState::Pending => &layout.words.pending,
        OutboxState::Sending => &layout.words.sending,
        OutboxState::Sent => &layout.words.sent,
        OutboxState::Failed => &layout.words.failed,
        OutboxState::Unknown => "",
    }
}

/// The state a word means.
pub fn state_of(layout: &OutboxLayout, word: &str) -> OutboxState {
    OutboxState::ALL
        .into_iter()
        .find(|state| word_of(layout, *state) == word)
        .unwrap_or(OutboxState::Unknown)
}

/// A listed row, by the column positions of its statement.
pub fn row_of(layout: &OutboxLayout, row: &Row) -> SqlResult<OutboxRow> {
    let read = || -> SqlResult<OutboxRow> {
        Ok(OutboxRow {
            event_id: EventId::new(row.text(0)?),
            aggregate_id: row.text_or_null(1)?.map(AggregateId::new),
            aggregate_version: row.int_or_null(2)?,
            event_type: row.text(3)?,
            state: state_of(layout, &row.text(4)?),
            attempts: row.int_or_null(5)?,
            next_attempt_at: row.time_or_null(6)?,
            claim_token: row.text_or_null(7)?.map(ClaimToken::new),
            lease_until: row.time_or_null(8)?,
            last_error: row.text_or_null(9)?,
            created_at: row.time_or_null(10)?,
            sent_at: row.time_or_null(11)?,
        })
    };
    read().map_err(|fault| fault.in_table(layout.table.as_str()))
}

/// A row with what is needed to publish it.
pub fn event_of(layout: &OutboxLayout, mut row: Row) -> SqlResult<OutboxEvent> {
    let headers = match row.text_or_null(14)? {
        None => FieldTable::new(),
        Some(json) if json.is_empty() => FieldTable::new(),
        Some(json) => headers_of(&json).map_err(|problem| Fault::Mapping {
            table: layout.table.to_string(),
            problem: format!("headers of {}: {problem}", row.text(0).unwrap_or_default()),
        })?,
    };
    Ok(OutboxEvent {
        row: row_of(layout, &row)?,
        schema_version: row.int_or_null(12)?,
        payload: Payload::new(row.take_bytes(13)?),
        headers,
        exchange: row.text_or_null(15)?,
        routing_key: row.text_or_null(16)?,
        trace_id: row.text_or_null(17)?,
        causation_id: row.text_or_null(18)?,
    })
}

/// Headers as the outbox keeps them: typed fields, or a plain JSON object of a producer that knows no
/// AMQP types (its texts, whole numbers and booleans get the obvious one).
fn headers_of(json: &str) -> Result<FieldTable, String> {
    use crate::model::message::FieldValue;
    if let Ok(table) = serde_json::from_str::<FieldTable>(json) {
        return Ok(table);
    }
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|e| e.to_string())?;
    object
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                serde_json::Value::Null => FieldValue::Void,
                serde_json::Value::Bool(b) => FieldValue::Bool(b),
                serde_json::Value::Number(n) => match n.as_i64() {
                    Some(n) => FieldValue::I64(n),
                    None => FieldValue::Text(n.to_string()),
                },
                serde_json::Value::String(text) => FieldValue::Text(text),
                nested => FieldValue::Text(nested.to_string()),
            };
            Ok((name, value))
        })
        .collect()
}
