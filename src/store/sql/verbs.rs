//! Verbs that are intent and outcome in one transaction: outbox replay, repair, discard, release, and
//! notes on a letter.

use crate::base::clock::Timestamp;
use crate::mapping::{ColumnAction, ColumnValue};
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::{ClaimToken, DeadLetterId, EventId};
use crate::model::operation::{ItemState, OperationState};
use crate::store::{Begun, Guarded, NewOperation, Repair, Reservation, Value};

use super::audit;
use super::business::insert_event;
use super::db::Db;
use super::exec::{text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::journal::{
    NewItem, begun_before, insert_item, insert_operation, lock_letter, take_letter,
};
use super::outbox::row_of;

fn words_of(action: &ColumnAction) -> Vec<Value> {
    action
        .set
        .iter()
        .filter_map(|(_, value)| match value {
            ColumnValue::Word(word) => Some(text(word)),
            ColumnValue::Int(_) | ColumnValue::Now | ColumnValue::Null => None,
        })
        .collect()
}

fn applied<'a>(token: &'a ClaimToken, evidence: &'a str) -> NewItem<'a> {
    NewItem {
        no: 1,
        event_id: None,
        consumer: None,
        letter: None,
        state: ItemState::Applied,
        token,
        lease_us: None,
        evidence: Some(evidence),
        deaths_before: 0,
        new_event_id: None,
    }
}

/// A failed outbox row back to pending.
pub async fn replay_outbox_row(
    db: &Db,
    operation: &NewOperation,
    event_id: &EventId,
    record: &AuditRecord,
    attempts_seen: i64,
) -> SqlResult<Begun> {
    let journal = db.journal()?;
    let (layout, statements) = db.outbox().await?;
    let Some(replay) = &statements.replay else {
        return Err(Fault::Unsupported(layout.replay.because.clone()));
    };
    let mut values = words_of(&layout.replay);
    values.extend([
        text(event_id.as_str()),
        text(&layout.words.failed),
        Value::Int(attempts_seen),
    ]);
    let mut session = db.transaction().await?;
    if let Some(begun) = begun_before(&mut session, journal, operation).await? {
        session.rollback().await?;
        return Ok(begun);
    }
    let moved = session.execute(replay, &values).await?;
    if moved != 1 {
        let row = session
            .fetch_optional(&statements.by_id, &[text(event_id.as_str())])
            .await?;
        let begun = match row {
            None => Begun::Missing,
            Some(row) => {
                let status = row.text(4)?;
                let row = row_of(layout, &row)?;
                if status == layout.words.failed {
                    Begun::Drifted {
                        what: format!(
                            "attempts are {} now, {attempts_seen} in the plan",
                            row.attempts.unwrap_or_default()
                        ),
                    }
                } else {
                    Begun::Closed {
                        status: row.state.word().to_owned(),
                        at: row
                            .sent_at
                            .or(row.next_attempt_at)
                            .unwrap_or(Timestamp::from_micros(0)),
                    }
                }
            }
        };
        session.rollback().await?;
        return Ok(begun);
    }
    insert_operation(&mut session, journal, operation, OperationState::Finished).await?;
    let token = ClaimToken::generate();
    let item = NewItem {
        event_id: Some(event_id),
        ..applied(&token, "back to pending: the dispatcher sends it")
    };
    insert_item(&mut session, journal, &operation.operation_id, &item).await?;
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Begun::Started)
}

/// New event, link, diff, audit entry, original to `repaired`.
pub async fn repair(db: &Db, operation: &NewOperation, repair: &Repair) -> SqlResult<Begun> {
    let (letters, journal) = (db.letters()?, db.journal()?);
    let (layout, outbox) = db.outbox().await?;
    let reservation = &repair.reservation;
    let mut session = db.transaction().await?;
    let letter = match lock_letter(&mut session, letters, journal, reservation).await? {
        Ok(letter) => letter,
        Err(begun) => {
            session.rollback().await?;
            return Ok(begun);
        }
    };
    if let Some(begun) = begun_before(&mut session, journal, operation).await? {
        session.rollback().await?;
        return Ok(begun);
    }
    insert_event(&mut session, layout, &outbox, &repair.new_event).await?;
    take_letter(
        &mut session,
        letters,
        reservation,
        DeadLetterStatus::Repaired,
        &operation.operation_id,
    )
    .await?;
    insert_operation(&mut session, journal, operation, OperationState::Finished).await?;
    let item = NewItem {
        event_id: letter.event_id.as_ref(),
        consumer: Some(&letter.consumer),
        letter: Some(&reservation.dead_letter_id),
        deaths_before: letter.deaths,
        new_event_id: Some(&repair.new_event.event_id),
        ..applied(&reservation.token, "the new event is in the outbox")
    };
    insert_item(&mut session, journal, &operation.operation_id, &item).await?;
    let values = [
        text(operation.operation_id.as_str()),
        text(operation.operation_id.as_str()),
        text_or_null(letter.event_id.as_ref().map(EventId::as_str)),
        text(reservation.dead_letter_id.as_str()),
        text(repair.new_event.event_id.as_str()),
        text(&repair.diff),
        text(&operation.reason),
        text(&operation.actor),
    ];
    session.execute(&journal.insert_repair, &values).await?;
    audit::append(&mut session, journal, &repair.audit).await?;
    session.commit().await?;
    Ok(Begun::Started)
}

/// A letter to `discarded` or `resolved`.
pub async fn close_dead_letter(
    db: &Db,
    operation: &NewOperation,
    reservation: &Reservation,
    record: &AuditRecord,
    is_resolved: bool,
) -> SqlResult<Begun> {
    let (letters, journal) = (db.letters()?, db.journal()?);
    let mut session = db.transaction().await?;
    let letter = match lock_letter(&mut session, letters, journal, reservation).await? {
        Ok(letter) => letter,
        Err(begun) => {
            session.rollback().await?;
            return Ok(begun);
        }
    };
    if let Some(begun) = begun_before(&mut session, journal, operation).await? {
        session.rollback().await?;
        return Ok(begun);
    }
    let status = if is_resolved {
        DeadLetterStatus::Resolved
    } else {
        DeadLetterStatus::Discarded
    };
    take_letter(
        &mut session,
        letters,
        reservation,
        status,
        &operation.operation_id,
    )
    .await?;
    insert_operation(&mut session, journal, operation, OperationState::Finished).await?;
    let item = NewItem {
        event_id: letter.event_id.as_ref(),
        consumer: Some(&letter.consumer),
        letter: Some(&reservation.dead_letter_id),
        deaths_before: letter.deaths,
        ..applied(&reservation.token, status.word())
    };
    insert_item(&mut session, journal, &operation.operation_id, &item).await?;
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Begun::Started)
}

/// An expired claim back to pending.
pub async fn release_lease(
    db: &Db,
    operation: &NewOperation,
    token: &ClaimToken,
    record: &AuditRecord,
) -> SqlResult<u64> {
    let journal = db.journal()?;
    let (layout, statements) = db.outbox().await?;
    let Some(release) = &statements.release else {
        return Err(Fault::Unsupported(if layout.release.is_possible {
            format!("{} has no index on its lease", layout.table)
        } else {
            layout.release.because.clone()
        }));
    };
    let mut values = words_of(&layout.release);
    values.extend([text(&layout.words.sending), text(token.as_str())]);
    let mut session = db.transaction().await?;
    let released = session.execute(release, &values).await?;
    if released == 0 {
        session.rollback().await?;
        return Ok(0);
    }
    insert_operation(&mut session, journal, operation, OperationState::Finished).await?;
    let evidence = format!("{released} rows of claim {token} back to pending");
    let item_token = ClaimToken::generate();
    insert_item(
        &mut session,
        journal,
        &operation.operation_id,
        &applied(&item_token, &evidence),
    )
    .await?;
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(released)
}

/// What a letter's owner and note become; `None` keeps, empty clears.
#[derive(Clone)]
pub struct Annotation {
    /// Owner.
    pub owner: Option<String>,
    /// Note.
    pub note: Option<String>,
}

/// Sets owner or note of a letter.
pub async fn annotate(
    db: &Db,
    id: &DeadLetterId,
    annotation: &Annotation,
    record: &AuditRecord,
) -> SqlResult<Guarded> {
    use crate::base::text::cut_bytes;
    let (letters, journal) = (db.letters()?, db.journal()?);
    let part = |value: &Option<String>, limit: usize| {
        let kept = value.as_deref().filter(|v| !v.is_empty());
        [
            Value::Int(i64::from(value.is_some())),
            text_or_null(kept.map(|v| cut_bytes(v, limit))),
        ]
    };
    let [has_owner, owner] = part(&annotation.owner, 191);
    let [has_note, note] = part(&annotation.note, 2000);
    let mut session = db.transaction().await?;
    let changed = session
        .execute(
            &letters.annotate,
            &[has_owner, owner, has_note, note, text(id.as_str())],
        )
        .await?;
    if changed != 1 {
        session.rollback().await?;
        return Ok(Guarded::LostRace);
    }
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Guarded::Done)
}
