//! Looking at dead letters.

use crate::mapping::Identifier;
use crate::model::count::Count;
use crate::model::dead_letter::{
    DeadLetter, DeadLetterCounts, DeadLetterDetail, DeadLetterGroup, DeadLetterGroups,
    DeadLetterQuery, DeadLetterStatus, Death,
};
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::message::{FieldTable, Message, Payload, Properties};
use crate::model::page::{Cursor, Page};
use crate::store::Value;

use super::db::Db;
use super::exec::{Row, limit, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::page::{bind_after, one_more, page_of};

/// A filtered page reads at most so many times its length.
const SCAN_FACTOR: u64 = 20;

/// Causes that are listed; a cause with fewer letters than these is left out.
const GROUPS: usize = 200;

/// Open and replaying letters by cause.
pub async fn groups(db: &Db) -> SqlResult<DeadLetterGroups> {
    let statements = db.letters()?;
    let cap = db.count_cap;
    let minute = Value::Int(-60_000_000);
    let mut session = db.read().await?;
    let summary = session
        .fetch_optional(
            &statements.summary,
            &[limit(cap), limit(cap), minute.clone(), limit(cap), minute],
        )
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    let now = summary.time(0)?;
    let mut all = Vec::new();
    let mut counts = Vec::new();
    for (status, last_counted) in [
        (DeadLetterStatus::Open, summary.int_or_null(1)?),
        (DeadLetterStatus::Replaying, summary.int_or_null(2)?),
    ] {
        let since = Value::Int(last_counted.unwrap_or(0));
        let found = session
            .fetch(
                &statements.groups,
                &[text(status.word()), since, limit(GROUPS as u64)],
            )
            .await?
            .iter()
            .map(group_of)
            .collect::<SqlResult<Vec<_>>>()?;
        let listed = found.iter().map(|group| group.count).sum();
        counts.push(match last_counted {
            Some(_) => Count::AtLeast(cap),
            None if found.len() < GROUPS => Count::Exact(listed),
            None => Count::AtLeast(listed),
        });
        for group in found {
            merge(&mut all, group);
        }
    }
    all.sort_by(|a, b| {
        let key = |group: &DeadLetterGroup| (group.consumer.clone(), group.error_class.clone());
        b.count.cmp(&a.count).then_with(|| key(a).cmp(&key(b)))
    });
    let is_cut = all.len() > GROUPS;
    all.truncate(GROUPS);
    Ok(DeadLetterGroups {
        groups: all,
        open: counts.first().copied(),
        replaying: counts.get(1).copied(),
        oldest_open_s: summary.time_or_null(3)?.map(|at| now.seconds_since(at)),
        deaths_last_minute: Some(summary.capped(4, cap)?),
        truncated: is_cut || counts.iter().any(|count| !matches!(count, Count::Exact(_))),
    })
}

/// Columns of the statement that counts.
pub const COUNTS: usize = 2;

/// Open letters and recent deaths.
pub async fn counts(db: &Db) -> SqlResult<DeadLetterCounts> {
    let row = db
        .read()
        .await?
        .fetch_optional(&db.letters()?.counts, &counts_values(db))
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    counts_of(db, &row, 0)
}

/// What the statement that counts binds.
pub fn counts_values(db: &Db) -> Vec<Value> {
    let cap = limit(db.count_cap);
    let minute = Value::Int(-60_000_000);
    vec![cap.clone(), minute.clone(), cap, minute]
}

/// The counts in a row, whose columns begin at some place in it.
pub fn counts_of(db: &Db, row: &Row, at: usize) -> SqlResult<DeadLetterCounts> {
    Ok(DeadLetterCounts {
        open: row.capped(at, db.count_cap)?,
        deaths_last_minute: row.capped(at + 1, db.count_cap)?,
    })
}

/// Adds a group to those of another status.
fn merge(all: &mut Vec<DeadLetterGroup>, group: DeadLetterGroup) {
    let same = all.iter_mut().find(|known| {
        known.consumer == group.consumer
            && known.event_type == group.event_type
            && known.error_class == group.error_class
    });
    let Some(known) = same else {
        all.push(group);
        return;
    };
    known.count += group.count;
    known.first_died_at = known.first_died_at.min(group.first_died_at);
    known.last_died_at = known.last_died_at.max(group.last_died_at);
    // One value for a group only when every letter has it.
    if known.owner != group.owner {
        known.owner = None;
    }
    if known.note != group.note {
        known.note = None;
    }
}

fn group_of(row: &Row) -> SqlResult<DeadLetterGroup> {
    let count = row.count(3)?;
    // One value for a group only when every row has it.
    let agreed =
        |first: usize| -> SqlResult<Option<String>> {
            let (low, high) = (row.text_or_null(first)?, row.text_or_null(first + 1)?);
            Ok(low.filter(|low| {
                Some(low) == high.as_ref() && row.count(first + 2).ok() == Some(count)
            }))
        };
    Ok(DeadLetterGroup {
        consumer: ConsumerName::new(row.text(0)?),
        event_type: row.text_or_null(1)?,
        error_class: row.text(2)?,
        count,
        first_died_at: row.time(4)?,
        last_died_at: row.time(5)?,
        owner: agreed(6)?,
        note: agreed(9)?,
    })
}

/// A page of one status, newest death first.
pub async fn page(db: &Db, query: &DeadLetterQuery) -> SqlResult<Page<DeadLetter>> {
    let statements = db.letters()?;
    let wanted = u64::from(query.limit.max(1));
    let is_filtered =
        query.consumer.is_some() || query.event_type.is_some() || query.error_class.is_some();
    let mut values = vec![text(query.status.word())];
    bind_after(query.after.as_ref(), &mut values);
    let scan = values.clone();
    let bound = wanted * SCAN_FACTOR;
    if is_filtered {
        values.push(limit(bound));
        values.extend(filter_values(query));
    }
    values.push(one_more(query.limit));
    let statement = match (query.after.is_some(), is_filtered) {
        (false, false) => &statements.page_first,
        (true, false) => &statements.page_after,
        (false, true) => &statements.filtered_first,
        (true, true) => &statements.filtered_after,
    };
    let mut session = db.read().await?;
    let found = session.fetch(statement, &values).await?;
    let read = |row: &Row| letter_of(table(db), row);
    let mut page = page_of(&found, query.limit, read, |last| Cursor {
        at: last.last_died_at,
        id: last.dead_letter_id.to_string(),
    })?;
    if page.next.is_none() && is_filtered {
        // Fewer matches than a page: go on where the bounded scan ended, if it was cut off.
        let end = if query.after.is_some() {
            &statements.end_of_after
        } else {
            &statements.end_of_first
        };
        let mut values = scan;
        values.push(limit(bound - 1));
        if let Some(row) = session.fetch_optional(end, &values).await? {
            page.next = Some(Cursor {
                at: row.time(0)?,
                id: row.text(1)?,
            });
        }
    }
    Ok(page)
}

fn filter_values(query: &DeadLetterQuery) -> Vec<Value> {
    let flag = |is_set: bool| Value::Int(i64::from(is_set));
    let event_type = query.event_type.as_ref();
    let wanted_type = event_type.and_then(|t| t.as_deref());
    vec![
        flag(query.consumer.is_some()),
        text_or_null(query.consumer.as_ref().map(ConsumerName::as_str)),
        flag(wanted_type.is_some()),
        text_or_null(wanted_type),
        flag(event_type.is_some() && wanted_type.is_none()),
        flag(query.error_class.is_some()),
        text_or_null(query.error_class.as_deref()),
    ]
}

/// One letter with its message and deaths.
pub async fn detail(db: &Db, id: &DeadLetterId) -> SqlResult<Option<DeadLetterDetail>> {
    let statements = db.letters()?;
    let mut session = db.read().await?;
    let Some(row) = session
        .fetch_optional(&statements.detail, &[text(id.as_str())])
        .await?
    else {
        return Ok(None);
    };
    let deaths = session
        .fetch(&statements.deaths, &[text(id.as_str())])
        .await?
        .iter()
        .map(death_of)
        .collect::<SqlResult<Vec<_>>>()?;
    Ok(Some(DeadLetterDetail {
        letter: letter_of(table(db), &row)?,
        message: message_of(&row).map_err(|fault| fault.in_table("dead_letters"))?,
        deaths,
    }))
}

/// Letters of one event, one a consumer.
pub async fn of_event(db: &Db, event_id: &EventId) -> SqlResult<Vec<DeadLetter>> {
    list(db, &db.letters()?.of_event, event_id.as_str()).await
}

/// Letters of one aggregate by version.
pub async fn of_aggregate(db: &Db, aggregate_id: &AggregateId) -> SqlResult<Vec<DeadLetter>> {
    list(db, &db.letters()?.of_aggregate, aggregate_id.as_str()).await
}

async fn list(db: &Db, statement: &str, key: &str) -> SqlResult<Vec<DeadLetter>> {
    db.read()
        .await?
        .fetch(statement, &[text(key)])
        .await?
        .iter()
        .map(|row| letter_of(table(db), row))
        .collect()
}

fn table(db: &Db) -> &str {
    db.letters
        .as_ref()
        .map_or("dead_letters", |(table, _)| Identifier::as_str(table))
}

fn letter_of(table: &str, row: &Row) -> SqlResult<DeadLetter> {
    read_letter(row).map_err(|fault| fault.in_table(table))
}

fn read_letter(row: &Row) -> SqlResult<DeadLetter> {
    let status = row.text(27)?;
    Ok(DeadLetter {
        dead_letter_id: DeadLetterId::new(row.text(0)?),
        consumer: ConsumerName::new(row.text(1)?),
        event_id: row.text_or_null(2)?.map(EventId::new),
        aggregate_id: row.text_or_null(3)?.map(AggregateId::new),
        aggregate_version: row.int_or_null(4)?,
        event_type: row.text_or_null(5)?,
        message_at: row.time_or_null(6)?,
        failed_queue: row.text_or_null(7)?,
        source_exchange: row.text_or_null(8)?,
        source_routing_key: row.text_or_null(9)?,
        dead_letter_queue: row.text(10)?,
        reason: row.text_or_null(11)?,
        error_class: row.text(12)?,
        error_summary: row.text_or_null(13)?,
        stack_digest: row.text_or_null(14)?,
        delivery_count: row.int_or_null(15)?,
        retry_count: row.int_or_null(16)?,
        first_died_at: row.time(17)?,
        last_died_at: row.time(18)?,
        deaths: row.int(19)?,
        replays: row.int(20)?,
        last_replayed_at: row.time_or_null(21)?,
        producer_version: row.text_or_null(22)?,
        consumer_version: row.text_or_null(23)?,
        trace_id: row.text_or_null(24)?,
        replay_allowed: row.int(25)? != 0,
        owner: row.text_or_null(26)?,
        status: DeadLetterStatus::from_word(&status)
            .ok_or_else(|| Fault::unreadable(format!("status {status:?} is not known")))?,
        note: row.text_or_null(28)?,
        version: row.int(29)?,
        payload_bytes: row.int(30)?,
        payload_sha256: row.text(31)?,
        operation_id: row.text_or_null(32)?.map(OperationId::new),
    })
}

fn message_of(row: &Row) -> SqlResult<Message> {
    let unreadable = |part: &str, e: &serde_json::Error| {
        Fault::unreadable(format!("{part} cannot be read: {e}"))
    };
    let mut properties: Properties =
        serde_json::from_str(&row.text(33)?).map_err(|e| unreadable("properties", &e))?;
    let headers: FieldTable =
        serde_json::from_str(&row.text(34)?).map_err(|e| unreadable("headers", &e))?;
    properties.headers = headers;
    Ok(Message {
        properties,
        payload: Payload::new(row.bytes(35)?),
    })
}

fn death_of(row: &Row) -> SqlResult<Death> {
    Ok(Death {
        no: row.int(0)?,
        died_at: row.time(1)?,
        queue: row.text_or_null(2)?,
        reason: row.text_or_null(3)?,
        error: row.text_or_null(4)?,
        operation_id: row.text_or_null(5)?.map(OperationId::new),
    })
}
