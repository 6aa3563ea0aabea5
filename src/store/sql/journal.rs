//! Operator actions as they are written: one transaction each, guarded, with the audit entry in it.
//! Locks are taken in one order (outbox row or letter, item, operation, audit head), so that two
//! actions wait for each other and never deadlock.

use crate::base::text::{cut_bytes, safe};
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::operation::{ItemState, OperationState};
use crate::store::{Begun, Guarded, ItemStep, NewOperation, Reservation, Value};

use super::audit;
use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, Session, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::statement::{JournalStatements, LetterStatements};

/// Characters kept of a line of evidence.
const EVIDENCE: usize = 2000;

/// A letter locked for an operation.
pub struct LockedLetter {
    /// The event, if it has an id.
    pub event_id: Option<EventId>,
    /// Who failed on it.
    pub consumer: ConsumerName,
    /// Deaths so far.
    pub deaths: i64,
}

/// Locks a letter and compares it with what the plan froze; the other side is the answer to give.
pub async fn lock_letter(
    session: &mut Session,
    letters: &LetterStatements,
    journal: &JournalStatements,
    reservation: &Reservation,
) -> SqlResult<Result<LockedLetter, Begun>> {
    let id = reservation.dead_letter_id.as_str();
    let Some(row) = session.fetch_optional(&letters.lock, &[text(id)]).await? else {
        return Ok(Err(Begun::Missing));
    };
    if let Some(holder) = session.fetch_optional(&journal.holder, &[text(id)]).await? {
        return Ok(Err(Begun::Held {
            operation_id: OperationId::new(holder.text(0)?),
            actor: holder.text(1)?,
            since: holder.time(2)?,
        }));
    }
    let status = row.text(0)?;
    if !matches!(
        DeadLetterStatus::from_word(&status),
        Some(DeadLetterStatus::Open | DeadLetterStatus::Replaying)
    ) {
        return Ok(Err(Begun::Closed {
            status,
            at: row.time(6)?,
        }));
    }
    if let Some(what) = drift(&row, reservation)? {
        return Ok(Err(Begun::Drifted { what }));
    }
    Ok(Ok(LockedLetter {
        event_id: row.text_or_null(3)?.map(EventId::new),
        consumer: ConsumerName::new(row.text(4)?),
        deaths: row.int(5)?,
    }))
}

fn drift(row: &Row, reservation: &Reservation) -> SqlResult<Option<String>> {
    let (version, sha256) = (row.int(1)?, row.text(2)?);
    Ok(if sha256 != reservation.payload_sha256 {
        Some(format!(
            "the payload changed: sha256 {sha256:.12} now, {:.12} in the plan",
            reservation.payload_sha256
        ))
    } else if version != reservation.version {
        Some(format!(
            "the row changed: version {version} now, {} in the plan",
            reservation.version
        ))
    } else {
        None
    })
}

/// What an item is written with.
pub struct NewItem<'a> {
    /// From 1.
    pub no: i64,
    /// The event.
    pub event_id: Option<&'a EventId>,
    /// The consumer.
    pub consumer: Option<&'a ConsumerName>,
    /// The letter.
    pub letter: Option<&'a DeadLetterId>,
    /// Where it starts.
    pub state: ItemState,
    /// Fences it.
    pub token: &'a ClaimToken,
    /// Lease in microseconds; `None`: nobody holds it.
    pub lease_us: Option<i64>,
    /// One line.
    pub evidence: Option<&'a str>,
    /// Deaths at the start.
    pub deaths_before: i64,
    /// The event of a repair.
    pub new_event_id: Option<&'a EventId>,
}

/// Writes an item; one that is not final holds its letter.
pub async fn insert_item(
    session: &mut Session,
    journal: &JournalStatements,
    operation_id: &OperationId,
    item: &NewItem<'_>,
) -> SqlResult<()> {
    let letter = item.letter.map(DeadLetterId::as_str);
    let values = [
        text(operation_id.as_str()),
        Value::Int(item.no),
        text_or_null(item.event_id.map(EventId::as_str)),
        text_or_null(item.consumer.map(ConsumerName::as_str)),
        text_or_null(letter),
        text_or_null(letter.filter(|_| !item.state.is_final())),
        text(item.state.word()),
        text(item.token.as_str()),
        item.lease_us.map_or(Value::Null, Value::Int),
        text_or_null(item.evidence.map(|line| cut_bytes(line, EVIDENCE))),
        Value::Int(item.deaths_before),
        text_or_null(item.new_event_id.map(EventId::as_str)),
    ];
    match session.execute(&journal.insert_item, &values).await {
        Ok(_) => Ok(()),
        // The letter is locked, so a holder would have been seen: only a repeated transaction gets here.
        Err(fault) if fault.is_duplicate() => Err(Fault::Raced(
            "another operation holds the letter".to_owned(),
        )),
        Err(fault) => Err(fault),
    }
}

/// Writes an operation, running or done at once. False: an operation of this id exists already, e.g.
/// the same plan was applied twice.
pub async fn insert_operation(
    session: &mut Session,
    journal: &JournalStatements,
    operation: &NewOperation,
    state: OperationState,
) -> SqlResult<()> {
    let statement = match state {
        OperationState::Finished => &journal.insert_finished,
        OperationState::Running | OperationState::Unknown => &journal.insert_operation,
    };
    let values = [
        text(operation.operation_id.as_str()),
        text(operation.verb.word()),
        text(state.word()),
        text(cut_bytes(&operation.actor, 255)),
        text(cut_bytes(&operation.reason, 60_000)),
        text_or_null(operation.ticket.as_deref().map(|t| cut_bytes(t, 255))),
        text(cut_bytes(&operation.plan_digest, 64)),
        text(&operation.plan),
    ];
    session.execute(statement, &values).await?;
    Ok(())
}

/// If this very operation was begun before (the plan was applied twice), says who holds it.
pub async fn begun_before(
    session: &mut Session,
    journal: &JournalStatements,
    operation: &NewOperation,
) -> SqlResult<Option<Begun>> {
    session
        .fetch_optional(&journal.operation, &[text(operation.operation_id.as_str())])
        .await?
        .map(|row| {
            Ok(Begun::Held {
                operation_id: operation.operation_id.clone(),
                actor: row.text(3)?,
                since: row.time(8)?,
            })
        })
        .transpose()
}

/// Commits the intent of a replay: reservations, items, audit entry.
pub async fn begin_replay(
    db: &Db,
    operation: &NewOperation,
    reservations: &[Reservation],
    record: &AuditRecord,
) -> SqlResult<Begun> {
    let (letters, journal) = (db.letters()?, db.journal()?);
    if reservations.is_empty() {
        return Err(Fault::Invalid(
            "an operation has at least one item".to_owned(),
        ));
    }
    let mut session = db.transaction().await?;
    if let Some(begun) = begun_before(&mut session, journal, operation).await? {
        session.rollback().await?;
        return Ok(begun);
    }
    // Locked by key, numbered as planned.
    let mut order: Vec<(i64, &Reservation)> = (1..).zip(reservations).collect();
    order.sort_by(|a, b| a.1.dead_letter_id.cmp(&b.1.dead_letter_id));
    let mut locked = Vec::with_capacity(order.len());
    for (no, reservation) in order {
        match lock_letter(&mut session, letters, journal, reservation).await? {
            Ok(letter) => locked.push((no, reservation, letter)),
            Err(begun) => {
                session.rollback().await?;
                return Ok(begun);
            }
        }
    }
    insert_operation(&mut session, journal, operation, OperationState::Running).await?;
    for (no, reservation, letter) in &locked {
        take_letter(
            &mut session,
            letters,
            reservation,
            DeadLetterStatus::Replaying,
            &operation.operation_id,
        )
        .await?;
        let lease_us = i64::try_from(reservation.lease.as_micros()).unwrap_or(i64::MAX);
        let item = NewItem {
            no: *no,
            event_id: letter.event_id.as_ref(),
            consumer: Some(&letter.consumer),
            letter: Some(&reservation.dead_letter_id),
            state: ItemState::Reserved,
            token: &reservation.token,
            lease_us: Some(lease_us),
            evidence: None,
            deaths_before: letter.deaths,
            new_event_id: None,
        };
        insert_item(&mut session, journal, &operation.operation_id, &item).await?;
    }
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Begun::Started)
}

/// Gives a locked letter its new status.
pub async fn take_letter(
    session: &mut Session,
    letters: &LetterStatements,
    reservation: &Reservation,
    status: DeadLetterStatus,
    operation_id: &OperationId,
) -> SqlResult<()> {
    let taken = session
        .execute(
            &letters.take,
            &[
                text(status.word()),
                text(operation_id.as_str()),
                text(reservation.dead_letter_id.as_str()),
                Value::Int(reservation.version),
            ],
        )
        .await?;
    if taken == 1 {
        Ok(())
    } else {
        Err(Fault::Raced(
            "the letter changed while it was locked".to_owned(),
        ))
    }
}

/// Moves an item on, with what that means for its letter, its operation and the audit log.
pub async fn step_item(db: &Db, step: &ItemStep) -> SqlResult<Guarded> {
    let (letters, journal) = (db.letters()?, db.journal()?);
    if let Some(bad) = step.from.iter().find(|from| !from.may_become(step.to)) {
        return Err(Fault::Invalid(format!(
            "an item that is {} cannot become {}",
            bad.word(),
            step.to.word()
        )));
    }
    let mut session = db.transaction().await?;
    let item_key = [text(step.operation_id.as_str()), Value::Int(step.no)];
    let letter = session
        .fetch_optional(&journal.letter_of_item, &item_key)
        .await?
        .map(|row| row.text_or_null(0))
        .transpose()?
        .flatten();
    if let Some(letter) = &letter {
        session.fetch(&letters.lock, &[text(letter)]).await?;
    }
    let moved = move_item(&mut session, journal, step).await?;
    if moved != 1 {
        session.rollback().await?;
        return Ok(Guarded::LostRace);
    }
    if let Some(letter) = &letter {
        follow_item(&mut session, letters, step, letter).await?;
    }
    settle_operation(&mut session, journal, &step.operation_id).await?;
    if let Some(record) = &step.audit {
        audit::append(&mut session, journal, record).await?;
    }
    session.commit().await?;
    Ok(Guarded::Done)
}

async fn move_item(
    session: &mut Session,
    journal: &JournalStatements,
    step: &ItemStep,
) -> SqlResult<u64> {
    let flag = |is_set: bool| Value::Int(i64::from(is_set));
    let mut values = vec![
        text(step.to.word()),
        text(cut_bytes(&safe(&step.evidence), EVIDENCE)),
        flag(step.to.is_final()),
        flag(step.to == ItemState::Published),
        text(step.operation_id.as_str()),
        Value::Int(step.no),
        text(step.token.as_str()),
    ];
    let states: Vec<String> = step.from.iter().map(|s| s.word().to_owned()).collect();
    let statement = bind_ids(&journal.step, &states, &mut values);
    session.execute(&statement, &values).await
}

/// What an item's new state means for its letter.
async fn follow_item(
    session: &mut Session,
    letters: &LetterStatements,
    step: &ItemStep,
    letter: &str,
) -> SqlResult<()> {
    let operation = text(step.operation_id.as_str());
    match step.to {
        ItemState::Published => {
            session
                .execute(&letters.count_replay, &[text(letter)])
                .await?;
        }
        ItemState::Consumed => {
            session
                .execute(&letters.replayed, &[operation, text(letter)])
                .await?;
        }
        ItemState::Unroutable | ItemState::Refused | ItemState::DiedAgain => {
            session
                .execute(&letters.give_back, &[text(letter), operation])
                .await?;
        }
        ItemState::Reserved | ItemState::Publishing | ItemState::Unknown | ItemState::Applied => {}
    }
    Ok(())
}

/// Gives an operation the state its items mean: finished with the last one, unknown while one is.
pub async fn settle_operation(
    session: &mut Session,
    journal: &JournalStatements,
    operation_id: &OperationId,
) -> SqlResult<()> {
    let row = session
        .fetch_optional(&journal.open_items, &[text(operation_id.as_str())])
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    let (open, unknown) = (row.count(0)?, row.count(1)?);
    let state = if open == 0 {
        OperationState::Finished
    } else if unknown > 0 {
        OperationState::Unknown
    } else {
        OperationState::Running
    };
    session
        .execute(
            &journal.set_state,
            &[
                text(state.word()),
                Value::Int(i64::from(state == OperationState::Finished)),
                text(operation_id.as_str()),
            ],
        )
        .await?;
    Ok(())
}
