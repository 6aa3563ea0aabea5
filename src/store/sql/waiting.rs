//! The versions a consumer has applied, and the events that wait for an earlier one.

use std::time::Duration;

use crate::model::count::Count;
use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::message::{FieldTable, Message, Payload, Properties};
use crate::model::waiting::{NewWaiting, Parked, WaitingEvent, WaitingFound, WaitingSummary};
use crate::store::{Guarded, Value};

use super::db::{Db, Inbox};
use super::exec::{Row, Session, limit, micros, text};
use super::fault::{Fault, SqlResult};
use super::statement::WaitingStatements;

/// Rows a sweep looks at.
const SWEEP: u64 = 10_000;

/// The last applied version of a sequence, locked; a sequence nobody has seen begins at `base`.
pub async fn lock_version(
    session: &mut Session,
    statements: &WaitingStatements,
    consumer: &ConsumerName,
    aggregate_id: &AggregateId,
    base: i64,
) -> SqlResult<i64> {
    let key = [text(consumer.as_str()), text(aggregate_id.as_str())];
    let found = session
        .fetch_optional(&statements.lock_version, &key)
        .await?;
    if let Some(row) = found {
        return row.int(0);
    }
    let [consumer, aggregate_id] = key;
    let row = [consumer, aggregate_id, Value::Int(base)];
    match session.execute(&statements.insert_version, &row).await {
        Ok(_) => Ok(base),
        // Another transaction began the sequence meanwhile: this one decides anew.
        Err(fault) if fault.is_duplicate() => Err(Fault::Raced(
            "another transaction began this sequence".to_owned(),
        )),
        Err(fault) => Err(fault),
    }
}

/// Moves a locked sequence on.
pub async fn set_version(
    session: &mut Session,
    statements: &WaitingStatements,
    (consumer, aggregate_id): (&ConsumerName, &AggregateId),
    from: i64,
    to: i64,
) -> SqlResult<Guarded> {
    let values = [
        Value::Int(to),
        text(consumer.as_str()),
        text(aggregate_id.as_str()),
        Value::Int(from),
    ];
    let rows = session.execute(&statements.set_version, &values).await?;
    Ok(guarded(rows))
}

const fn guarded(rows: u64) -> Guarded {
    if rows == 1 {
        Guarded::Done
    } else {
        Guarded::LostRace
    }
}

/// Parks an event, or moves the deadline of one that waits already.
pub async fn park(
    session: &mut Session,
    statements: &WaitingStatements,
    waiting: &NewWaiting,
) -> SqlResult<Parked> {
    let mut properties: Properties = waiting.message.properties.clone();
    let headers = std::mem::take(&mut properties.headers);
    let sha256 = waiting.message.payload.sha256();
    let (consumer, event_id) = (
        text(waiting.consumer.as_str()),
        text(waiting.event_id.as_str()),
    );
    let values = [
        consumer.clone(),
        event_id.clone(),
        text(waiting.aggregate_id.as_str()),
        Value::Int(waiting.version),
        Value::Int(waiting.missing_version),
        text(&waiting.exchange),
        text(&waiting.routing_key),
        json(&properties)?,
        json(&headers)?,
        Value::Bytes(waiting.message.payload.bytes().to_vec()),
        text(&sha256),
        micros(waiting.patience),
    ];
    match session.execute(&statements.park, &values).await {
        Ok(_) => return Ok(Parked::Waiting),
        Err(fault) if fault.is_duplicate() => {}
        Err(fault) => return Err(fault),
    }
    let stored = session
        .fetch_optional(&statements.digest, &[consumer.clone(), event_id.clone()])
        .await?
        .map(|row| row.text(0))
        .transpose()?;
    match stored {
        Some(stored_sha256) if stored_sha256 != sha256 => Ok(Parked::Conflict { stored_sha256 }),
        Some(_) => {
            let values = [
                Value::Int(waiting.missing_version),
                micros(waiting.patience),
                consumer,
                event_id,
            ];
            session.execute(&statements.park_again, &values).await?;
            Ok(Parked::Again)
        }
        // It was consumed or given up between the two statements: decide anew.
        None => Err(Fault::Raced("the waiting event has just gone".to_owned())),
    }
}

fn json(value: &impl serde::Serialize) -> SqlResult<Value> {
    serde_json::to_string(value)
        .map(text)
        .map_err(|e| Fault::Invalid(format!("message cannot be written as JSON: {e}")))
}

/// Removes a waiting event within the transaction that consumes it.
pub async fn forget(
    session: &mut Session,
    statements: &WaitingStatements,
    consumer: &ConsumerName,
    event_id: &EventId,
) -> SqlResult<u64> {
    session
        .execute(
            &statements.forget,
            &[text(consumer.as_str()), text(event_id.as_str())],
        )
        .await
}

/// The next waiting event of a sequence whose turn it is.
pub async fn next(
    db: &Db,
    consumer: &ConsumerName,
    aggregate_id: &AggregateId,
) -> SqlResult<Option<WaitingEvent>> {
    let values = [text(consumer.as_str()), text(aggregate_id.as_str())];
    let row = db
        .read()
        .await?
        .fetch_optional(&db.waiting()?.next_of, &values)
        .await?;
    row.as_ref().map(event_of).transpose()
}

/// Waiting events of any sequence whose turn it is.
pub async fn ready(db: &Db, consumer: &ConsumerName, rows_max: u32) -> SqlResult<WaitingFound> {
    let consumer = text(consumer.as_str());
    let values = [
        consumer.clone(),
        limit(SWEEP),
        consumer,
        limit(u64::from(rows_max)),
    ];
    let rows = db
        .read()
        .await?
        .fetch(&db.waiting()?.ready, &values)
        .await?;
    found_in(&rows)
}

/// Reads rows one by one: one that cannot be read is told beside the others.
fn found_in(rows: &[Row]) -> SqlResult<WaitingFound> {
    let mut found = WaitingFound::default();
    for row in rows {
        match event_of(row) {
            Ok(event) => found.events.push(event),
            Err(fault) => {
                let event_id = EventId::new(row.text(0)?);
                found.unreadable.push((event_id, fault.words()));
            }
        }
    }
    Ok(found)
}

/// Takes overdue events for a while: one locking scan and one update by key each, in one transaction. A
/// row that cannot be read is taken as well, or it would be found first for ever.
pub async fn take_overdue(
    db: &Db,
    consumer: &ConsumerName,
    rows_max: u32,
    lease: Duration,
) -> SqlResult<WaitingFound> {
    let statements = db.waiting()?;
    let name = text(consumer.as_str());
    let mut session = db.transaction().await?;
    let rows = session
        .fetch(
            &statements.overdue,
            &[name.clone(), limit(u64::from(rows_max))],
        )
        .await?;
    let found = found_in(&rows)?;
    let readable = found.events.iter().map(|event| &event.event_id);
    let unreadable = found.unreadable.iter().map(|(event_id, _)| event_id);
    for event_id in readable.chain(unreadable) {
        let values = [micros(lease), name.clone(), text(event_id.as_str())];
        session.execute(&statements.take_overdue, &values).await?;
    }
    if found.is_empty() {
        session.rollback().await?;
    } else {
        session.commit().await?;
    }
    Ok(found)
}

/// Removes an event of which a copy went on.
pub async fn remove(
    db: &Db,
    consumer: &ConsumerName,
    event_id: &EventId,
    attempts: i64,
) -> SqlResult<Guarded> {
    let values = [
        text(consumer.as_str()),
        text(event_id.as_str()),
        Value::Int(attempts),
    ];
    let statement = &db.waiting()?.remove;
    let rows = db.write().await?.execute(statement, &values).await?;
    Ok(guarded(rows))
}

/// Columns of the summary.
pub const SUMMARY: usize = 5;

/// How many wait, and how long; `None` where nothing can.
pub async fn summary(db: &Db) -> SqlResult<Option<WaitingSummary>> {
    let Ok(inbox) = db.inbox() else {
        return Ok(None);
    };
    let found = db
        .read()
        .await?
        .fetch_optional(&inbox.waiting.summary, &summary_values(db, inbox))
        .await;
    let row = match found {
        // Tables of an installation that was not migrated yet: nothing can wait in them.
        Err(fault) if fault.is_missing_table() => return Ok(None),
        other => {
            other?.ok_or_else(|| Fault::unreadable("no answer to a count of waiting".to_owned()))?
        }
    };
    summary_of(db, &row, 0).map(Some)
}

/// What the summary binds.
pub fn summary_values(db: &Db, inbox: &Inbox) -> Vec<Value> {
    let consumer = text(inbox.consumer.as_str());
    vec![
        consumer.clone(),
        limit(db.count_cap.saturating_add(1)),
        consumer.clone(),
        consumer.clone(),
        consumer,
        limit(db.count_cap),
    ]
}

/// The summary in a row, whose columns begin at some place in it.
pub fn summary_of(db: &Db, row: &Row, at: usize) -> SqlResult<WaitingSummary> {
    let now = row.time(at)?;
    let time = |index: usize| row.time_or_null(at + index);
    Ok(WaitingSummary {
        count: Count::capped(row.count(at + 1)?, db.count_cap),
        oldest_s: time(2)?.map(|at| now.seconds_since(at)),
        next_deadline_s: time(3)?.map(|at| at.seconds_since(now)),
        untried_s: time(4)?.map(|at| now.seconds_since(at)),
    })
}

/// The last version of a sequence a consumer has applied.
pub async fn applied(
    db: &Db,
    consumer: &ConsumerName,
    aggregate_id: &AggregateId,
) -> SqlResult<Option<i64>> {
    let found = db
        .read()
        .await?
        .fetch_optional(
            &db.waiting()?.applied,
            &[text(consumer.as_str()), text(aggregate_id.as_str())],
        )
        .await;
    match found {
        Err(fault) if fault.is_missing_table() => Ok(None),
        other => other?.map(|row| row.int(0)).transpose(),
    }
}

fn event_of(row: &Row) -> SqlResult<WaitingEvent> {
    read_event(row).map_err(|fault| fault.in_table("waiting_events"))
}

fn read_event(row: &Row) -> SqlResult<WaitingEvent> {
    let unreadable = |part: &str, e: &serde_json::Error| {
        Fault::unreadable(format!("{part} cannot be read: {e}"))
    };
    let mut properties: Properties =
        serde_json::from_str(&row.text(10)?).map_err(|e| unreadable("properties", &e))?;
    let headers: FieldTable =
        serde_json::from_str(&row.text(11)?).map_err(|e| unreadable("headers", &e))?;
    properties.headers = headers;
    Ok(WaitingEvent {
        event_id: EventId::new(row.text(0)?),
        aggregate_id: AggregateId::new(row.text(1)?),
        version: row.int(2)?,
        missing_version: row.int(3)?,
        exchange: row.text(4)?,
        routing_key: row.text(5)?,
        parked_at: row.time(6)?,
        attempted_at: row.time(7)?,
        attempts: row.int(8)?,
        deadline_at: row.time(9)?,
        message: Message {
            properties,
            payload: Payload::new(row.bytes(12)?),
        },
    })
}
