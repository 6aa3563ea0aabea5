//! Recording a death: one transaction, whose commit is what lets the collector acknowledge.
//!
//! Which letter a death belongs to:
//! 1. With an event id: the consumer's letter of that event, else a new one.
//! 2. Without: a new letter, except when the message carries the mark of our own replay of a letter
//!    without id.
//!
//! When the broker had delivered the message before (`redelivered`) and this very death is recorded
//! (equal fingerprint), the acknowledgement was lost: nothing changes. Without the flag an equal
//! fingerprint is another death, or another message (B-14).
//!
//! Without an id, the row of an equal death may belong to a twin that is long acknowledged. So each
//! row says which subscription holds its message, until the acknowledgement is out (`settle`), and a
//! redelivered message is looked for only among those that another subscription left behind.

use crate::base::clock::Timestamp;
use crate::base::text::{cut_bytes, safe};
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::{DeathRecorded, NewDeath, SUBSCRIPTION_MARK};
use crate::model::ids::{AggregateId, DeadLetterId, EventId, OperationId};
use crate::model::message::Properties;
use crate::store::Value;

use super::audit;
use super::db::Db;
use super::exec::{Row, Session, int_or_null, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::journal::settle_operation;
use super::statement::{IDS_MAX, JournalStatements, LetterStatements, with_ids};

/// Microseconds of 9999-12-31, the last day a DATETIME holds.
const LAST_MICROS: i64 = 253_402_214_400_000_000;
/// Characters of a name column; a name has at most 255 bytes anyway.
const NAME: usize = 255;
/// Characters of an error column.
const ERROR: usize = 2000;

/// Records a death.
pub async fn record(db: &Db, death: &NewDeath) -> SqlResult<DeathRecorded> {
    let statements = db.letters()?;
    let mut session = db.transaction().await?;
    let letter = find(db, &mut session, statements, death).await?;
    let recorded = match letter {
        // Written at most: who holds it now.
        Found::Same(id) => DeathRecorded::SameDelivery(id),
        Found::New => {
            let id = DeadLetterId::generate();
            match insert(&mut session, statements, &id, death).await {
                // Another collector stored the first death of this event just now: decide anew.
                Err(fault) if fault.is_duplicate() => {
                    session.rollback().await?;
                    return Err(Fault::Raced("another collector was faster".to_owned()));
                }
                other => other?,
            }
            insert_death(&mut session, statements, &id, 1, death).await?;
            DeathRecorded::New(id)
        }
        Found::Again { id, deaths } => {
            again(&mut session, statements, &id, death).await?;
            insert_death(&mut session, statements, &id, deaths + 1, death).await?;
            if let Some(journal) = &db.journal {
                end_replays(&mut session, journal, &id, death).await?;
            }
            DeathRecorded::Again {
                dead_letter_id: id,
                deaths: deaths + 1,
            }
        }
    };
    session.commit().await?;
    Ok(recorded)
}

enum Found {
    New,
    Again { id: DeadLetterId, deaths: i64 },
    Same(DeadLetterId),
}

async fn find(
    db: &Db,
    session: &mut Session,
    statements: &LetterStatements,
    death: &NewDeath,
) -> SqlResult<Found> {
    let consumer = text(death.consumer.as_str());
    let row = match (&death.event_id, &death.operation_id) {
        (Some(event_id), _) => {
            session
                .fetch_optional(
                    &statements.lock_of_event,
                    &[consumer, text(cut(event_id.as_str(), NAME))],
                )
                .await?
        }
        (None, _) if death.redelivered => {
            return left_behind(&mut *session, statements, death, consumer).await;
        }
        (None, Some(operation_id)) if db.journal.is_some() => {
            session
                .fetch_optional(
                    &statements.lock_of_operation,
                    &[text(operation_id.as_str()), consumer],
                )
                .await?
        }
        (None, _) => None,
    };
    let Some(row) = row else {
        return Ok(Found::New);
    };
    let (id, deaths) = letter(&row)?;
    if death.redelivered {
        let same = session
            .fetch_optional(
                &statements.has_death,
                &[text(id.as_str()), text(self::fingerprint(death))],
            )
            .await?;
        if same.is_some() {
            return Ok(Found::Same(id));
        }
    }
    Ok(Found::Again { id, deaths })
}

/// The row of a redelivered message without an id, taken over from the subscription that stored it.
async fn left_behind(
    session: &mut Session,
    statements: &LetterStatements,
    death: &NewDeath,
    consumer: Value,
) -> SqlResult<Found> {
    let own = fingerprint(death);
    let digest = own.split(SUBSCRIPTION_MARK).next().unwrap_or(own);
    let next = char::from_u32(u32::from(SUBSCRIPTION_MARK) + 1).unwrap_or(char::MAX);
    let values = [
        text(format!("{digest}{SUBSCRIPTION_MARK}")),
        text(format!("{digest}{next}")),
        text(own),
        consumer,
    ];
    let Some(row) = session
        .fetch_optional(&statements.same_without_id, &values)
        .await?
    else {
        return Ok(Found::New);
    };
    let id = DeadLetterId::new(row.text(0)?);
    let values = [text(own), text(id.as_str()), Value::Int(row.int(1)?)];
    session.execute(&statements.hold_death, &values).await?;
    Ok(Found::Same(id))
}

/// Takes the subscription's mark off deaths whose messages are acknowledged. One statement for at
/// most [`IDS_MAX`] of them; rows only of this list are locked.
pub async fn settle(db: &Db, fingerprints: &[String]) -> SqlResult<u64> {
    let statements = db.letters()?;
    let mut session = db.transaction().await?;
    let mut settled = 0;
    for chunk in fingerprints.chunks(IDS_MAX) {
        let (statement, padded) = with_ids(&statements.settle_deaths, chunk.len());
        let mut values: Vec<Value> = chunk.iter().map(text).collect();
        if let Some(last) = values.last().cloned() {
            values.resize(padded, last);
        }
        settled += session.execute(&statement, &values).await?;
    }
    session.commit().await?;
    Ok(settled)
}

fn letter(row: &Row) -> SqlResult<(DeadLetterId, i64)> {
    Ok((DeadLetterId::new(row.text(0)?), row.int(1)?))
}

async fn insert(
    session: &mut Session,
    statements: &LetterStatements,
    id: &DeadLetterId,
    death: &NewDeath,
) -> SqlResult<()> {
    let died_at = Value::Int(died_micros(death));
    let (properties, headers) = message_texts(death)?;
    let values = [
        text(id.as_str()),
        text(death.consumer.as_str()),
        name(death.event_id.as_ref().map(EventId::as_str)),
        name(death.aggregate_id.as_ref().map(AggregateId::as_str)),
        int_or_null(death.aggregate_version),
        name(death.event_type.as_deref()),
        instant(death.message_at),
        name(death.failed_queue.as_deref()),
        name(death.source_exchange.as_deref()),
        name(death.source_routing_key.as_deref()),
        text(cut(&death.dead_letter_queue, NAME)),
        name(death.reason.as_deref()),
        text(cut(&death.error_class, NAME)),
        error(death.error_summary.as_deref()),
        text_or_null(death.stack_digest.as_deref().map(|d| cut(d, 64))),
        int_or_null(death.delivery_count),
        int_or_null(death.retry_count),
        died_at.clone(),
        died_at,
        name(death.producer_version.as_deref()),
        name(death.consumer_version.as_deref()),
        name(death.trace_id.as_deref()),
        Value::Int(i64::from(death.replay_allowed)),
        text_or_null(death.owner.as_deref().map(|o| cut(o, 191))),
        name(death.message.properties.content_type.as_deref()),
        name(death.message.properties.content_encoding.as_deref()),
        text(properties),
        text(headers),
        Value::Bytes(death.message.payload.bytes().to_vec()),
        size(death),
        text(death.message.payload.sha256()),
    ];
    session.execute(&statements.insert, &values).await?;
    Ok(())
}

async fn again(
    session: &mut Session,
    statements: &LetterStatements,
    id: &DeadLetterId,
    death: &NewDeath,
) -> SqlResult<()> {
    let (properties, headers) = message_texts(death)?;
    let values = [
        Value::Int(died_micros(death)),
        instant(death.message_at),
        name(death.failed_queue.as_deref()),
        name(death.source_exchange.as_deref()),
        name(death.source_routing_key.as_deref()),
        text(cut(&death.dead_letter_queue, NAME)),
        name(death.reason.as_deref()),
        text(cut(&death.error_class, NAME)),
        error(death.error_summary.as_deref()),
        text_or_null(death.stack_digest.as_deref().map(|d| cut(d, 64))),
        int_or_null(death.delivery_count),
        int_or_null(death.retry_count),
        name(death.producer_version.as_deref()),
        name(death.consumer_version.as_deref()),
        name(death.trace_id.as_deref()),
        Value::Int(i64::from(death.replay_allowed)),
        name(death.message.properties.content_type.as_deref()),
        name(death.message.properties.content_encoding.as_deref()),
        text(properties),
        text(headers),
        Value::Bytes(death.message.payload.bytes().to_vec()),
        size(death),
        text(death.message.payload.sha256()),
        text(id.as_str()),
    ];
    session.execute(&statements.again, &values).await?;
    Ok(())
}

async fn insert_death(
    session: &mut Session,
    statements: &LetterStatements,
    id: &DeadLetterId,
    no: i64,
    death: &NewDeath,
) -> SqlResult<()> {
    let values = [
        text(id.as_str()),
        Value::Int(no),
        Value::Int(died_micros(death)),
        name(death.failed_queue.as_deref()),
        name(death.reason.as_deref()),
        error(death.error_summary.as_deref()),
        text(fingerprint(death)),
        operation_mark(death),
    ];
    session.execute(&statements.insert_death, &values).await?;
    Ok(())
}

/// The replay that ended in this death, with its operation and its audit entry.
async fn end_replays(
    session: &mut Session,
    journal: &JournalStatements,
    id: &DeadLetterId,
    death: &NewDeath,
) -> SqlResult<()> {
    let items = session
        .fetch(&journal.sent_items, &[text(id.as_str())])
        .await?;
    for item in items {
        let (operation, no) = (item.text(0)?, item.int(1)?);
        // A death marked by another operation is not this one's answer.
        if death
            .operation_id
            .as_ref()
            .is_some_and(|marked| marked.as_str() != operation)
        {
            continue;
        }
        let evidence = format!(
            "died again: {}",
            death
                .error_summary
                .as_deref()
                .or(death.reason.as_deref())
                .unwrap_or("no reason given")
        );
        let moved = session
            .execute(
                &journal.died_again,
                &[
                    text(cut(&safe(&evidence), ERROR)),
                    text(&operation),
                    Value::Int(no),
                ],
            )
            .await?;
        if moved == 0 {
            continue;
        }
        let operation = OperationId::new(operation);
        settle_operation(session, journal, &operation).await?;
        let started = session
            .fetch_optional(&journal.actor, &[text(operation.as_str())])
            .await?;
        if let Some(started) = started {
            let record = AuditRecord {
                actor: started.text(0)?,
                action: started.text(1)?,
                phase: "outcome".to_owned(),
                operation_id: Some(operation),
                subject: death
                    .event_id
                    .as_ref()
                    .map_or_else(|| id.to_string(), ToString::to_string),
                reason: started.text(2)?,
                detail: serde_json::json!({
                    "outcome": "died_again",
                    "item": no,
                    "evidence": safe(&evidence),
                })
                .to_string(),
            };
            audit::append(session, journal, &record).await?;
        }
    }
    Ok(())
}

fn message_texts(death: &NewDeath) -> SqlResult<(String, String)> {
    let mut properties: Properties = death.message.properties.clone();
    let headers = std::mem::take(&mut properties.headers);
    let json = |result: Result<String, serde_json::Error>| {
        result.map_err(|e| Fault::Invalid(format!("message cannot be written as JSON: {e}")))
    };
    Ok((
        json(serde_json::to_string(&properties))?,
        json(serde_json::to_string(&headers))?,
    ))
}

fn size(death: &NewDeath) -> Value {
    Value::Int(i64::try_from(death.message.payload.bytes().len()).unwrap_or(i64::MAX))
}

fn fingerprint(death: &NewDeath) -> &str {
    cut(&death.fingerprint, 128)
}

fn operation_mark(death: &NewDeath) -> Value {
    // The mark is a header anybody can write: only what fits is kept.
    text_or_null(
        death
            .operation_id
            .as_ref()
            .map(OperationId::as_str)
            .filter(|id| id.is_ascii() && id.len() <= 36),
    )
}

/// Times the broker or a client made up (year 30 000) are not stored as times.
fn storable(at: Timestamp) -> Option<Timestamp> {
    (0..LAST_MICROS).contains(&at.micros()).then_some(at)
}

/// When it died, moved into what a column holds.
fn died_micros(death: &NewDeath) -> i64 {
    death.died_at.micros().clamp(0, LAST_MICROS)
}

fn instant(at: Option<Timestamp>) -> Value {
    int_or_null(at.and_then(storable).map(Timestamp::micros))
}

fn name(text: Option<&str>) -> Value {
    text_or_null(text.map(|text| cut(text, NAME)))
}

fn error(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| self::text_value(&safe(text)))
}

fn text_value(shown: &str) -> Value {
    text(cut(shown, ERROR))
}

fn cut(text: &str, limit: usize) -> &str {
    cut_bytes(text, limit)
}
