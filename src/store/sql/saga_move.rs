//! Moving sagas: claim, move, postpone, start, and what an operator does. Whoever moves a saga locks its
//! row first; every write is guarded by its version, a coordinator's also by its token, so that two of
//! them, or a coordinator and an answer, never move it from the same place twice.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::base::text::{cut_bytes, safe};
use crate::model::audit::AuditRecord;
use crate::model::ids::{ClaimToken, SagaId};
use crate::model::operation::{ItemState, OperationState};
use crate::model::saga::machine::NEWER;
use crate::model::saga::manual::{Manual, act};
use crate::model::saga::{NewSaga, Saga, SagaClaim, SagaRef, SagaState, Work};
use crate::store::{Begun, Guarded, NewOperation, SagaAction, SagaClaimRequest, Value};

use super::audit;
use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, Session, limit, micros, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::journal::{NewItem, begun_before, insert_item, insert_operation};
use super::saga::{add_steps, saga_of, statements};
use super::statement::SagaStatements;

/// Bytes kept of an error.
const ERROR_BYTES: usize = 1000;

/// Position of the business input, and of the database's clock after it.
const DATA: usize = 17;

/// Takes due sagas, longest due first.
pub async fn claim(db: &Db, request: &SagaClaimRequest) -> SqlResult<SagaClaim> {
    let statements = statements(db)?;
    let token = ClaimToken::generate();
    let mut session = db.transaction().await?;
    let rows = session
        .fetch(
            &statements.claim_due,
            &[
                text(&request.saga_type),
                limit(u64::from(request.rows_max.max(1))),
            ],
        )
        .await?;
    let ids = rows
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    if ids.is_empty() {
        session.rollback().await?;
        return Ok(SagaClaim {
            token,
            sagas: Vec::new(),
        });
    }
    let lease = micros(request.lease);
    let mut values = vec![
        text(token.as_str()),
        lease.clone(),
        text(cut_bytes(&request.by, 255)),
        lease,
    ];
    let take = bind_ids(&statements.claim_take, &ids, &mut values);
    let taken = session.execute(&take, &values).await?;
    if taken != ids.len() as u64 {
        session.rollback().await?;
        return Err(Fault::Raced(format!(
            "{taken} of {} locked sagas could be claimed",
            ids.len()
        )));
    }
    let mut values = Vec::new();
    let claimed = bind_ids(&statements.claimed, &ids, &mut values);
    let rows = session.fetch(&claimed, &values).await?;
    let mut sagas = works_of(&mut session, statements, &rows).await?;
    session.commit().await?;
    let place = |work: &Work| ids.iter().position(|id| id == work.saga.saga_id.as_str());
    sagas.sort_by_key(place);
    Ok(SagaClaim { token, sagas })
}

async fn works_of(
    session: &mut Session,
    statements: &SagaStatements,
    rows: &[Row],
) -> SqlResult<Vec<Work>> {
    let mut sagas = rows.iter().map(saga_of).collect::<SqlResult<Vec<_>>>()?;
    add_steps(session, statements, &mut sagas).await?;
    sagas
        .into_iter()
        .zip(rows)
        .map(|(saga, row)| {
            Ok(Work {
                saga,
                data: row.text_or_null(DATA)?.unwrap_or_default(),
                now: row.time(DATA + 1)?,
            })
        })
        .collect()
}

/// Locks a saga and reads it, within the caller's transaction.
pub async fn lock(
    session: &mut Session,
    statements: &SagaStatements,
    of: &SagaRef,
) -> SqlResult<Option<Work>> {
    let id = match of {
        SagaRef::Id(id) => Some(id.to_string()),
        SagaRef::Key(key) => {
            let row = session
                .fetch_optional(&statements.of_key, &[text(key), text(key)])
                .await?;
            row.map(|row| row.text(0)).transpose()?
        }
        SagaRef::Business {
            saga_type,
            business_key,
        } => {
            let row = session
                .fetch_optional(
                    &statements.of_business,
                    &[text(saga_type), text(business_key)],
                )
                .await?;
            row.map(|row| row.text(0)).transpose()?
        }
    };
    let Some(id) = id else {
        return Ok(None);
    };
    let rows = session.fetch(&statements.lock, &[text(id)]).await?;
    Ok(works_of(session, statements, &rows).await?.pop())
}

/// Writes a saga after a move, within the caller's transaction: its row, and the steps that changed.
pub async fn write(
    session: &mut Session,
    statements: &SagaStatements,
    (before, after): (&Saga, &Saga),
    token: Option<&ClaimToken>,
) -> SqlResult<Guarded> {
    let instant = |at: Option<Timestamp>| at.map_or(Value::Null, |at| Value::Int(at.micros()));
    let flag = |is_set: bool| Value::Int(i64::from(is_set));
    let is_moved = !before.is_where(after);
    let mut values = vec![
        text(after.state.word()),
        flag(is_moved),
        instant(after.expires_at),
        instant(after.due_at),
        Value::Int(after.failures),
        text_or_null(after.last_error.as_deref()),
        text_or_null(after.attention.as_deref()),
        flag(after.needs_attention()),
        text_or_null(after.owner.as_deref()),
        text_or_null(after.evidence.as_deref()),
        flag(is_moved),
        text(before.saga_id.as_str()),
        Value::Int(before.version),
    ];
    let statement = if let Some(token) = token {
        values.push(text(token.as_str()));
        &statements.move_held
    } else {
        &statements.move_any
    };
    // The word that stands there is another version's, and is not to be lost.
    if after.state == SagaState::Unreadable {
        return Err(Fault::Invalid(NEWER.to_owned()));
    }
    if session.execute(statement, &values).await? != 1 {
        return Ok(Guarded::LostRace);
    }
    for step in &after.steps {
        let was = before.step(step.no);
        if was == Some(step) {
            continue;
        }
        let values = [
            text(step.forward.word()),
            text(step.compensation.word()),
            Value::Int(step.attempts),
            Value::Int(step.queries),
            instant(step.timeout_at),
            text_or_null(step.last_error.as_deref()),
            text_or_null(step.conflict.as_deref()),
            text_or_null(
                step.event_id
                    .as_ref()
                    .map(crate::model::ids::EventId::as_str),
            ),
            flag(was.is_none_or(|was| !was.is_where(step))),
            text(before.saga_id.as_str()),
            Value::Int(step.no),
        ];
        if session.execute(&statements.move_step, &values).await? != 1 {
            return Err(Fault::Invalid(format!(
                "saga {} has no step {}",
                before.saga_id, step.no
            )));
        }
    }
    Ok(Guarded::Done)
}

/// Writes a new saga and its steps, within the caller's transaction; `false` when its business key has one.
pub async fn start(
    session: &mut Session,
    statements: &SagaStatements,
    saga: &NewSaga,
) -> SqlResult<bool> {
    let values = [
        text(saga.saga_id.as_str()),
        text(&saga.saga_type),
        text(&saga.business_key),
        micros(saga.deadline),
        saga.expires.map_or(Value::Null, micros),
        text(&saga.data),
    ];
    match session.execute(&statements.insert, &values).await {
        Ok(_) => {}
        Err(fault) if fault.is_duplicate() => return Ok(false),
        Err(fault) => return Err(fault),
    }
    for (no, step) in (1_i64..).zip(&saga.steps) {
        let compensation = if step.compensation_key.is_some() {
            "pending"
        } else {
            "skipped"
        };
        let values = [
            text(saga.saga_id.as_str()),
            Value::Int(no),
            text(&step.name),
            text(compensation),
            text(&step.forward_key),
            text_or_null(step.compensation_key.as_deref()),
        ];
        session.execute(&statements.insert_step, &values).await?;
    }
    Ok(true)
}

/// Puts a saga that could not be moved off.
pub async fn postpone(
    db: &Db,
    token: &ClaimToken,
    id: &SagaId,
    error: &str,
    pause: Duration,
) -> SqlResult<Guarded> {
    let statements = statements(db)?;
    let values = [
        text(cut_bytes(&safe(error), ERROR_BYTES)),
        micros(pause),
        text(id.as_str()),
        text(token.as_str()),
    ];
    let mut session = db.write().await?;
    Ok(
        match session.execute(&statements.postpone, &values).await? {
            1 => Guarded::Done,
            _ => Guarded::LostRace,
        },
    )
}

/// What an operator does to a saga: one transaction with its operation and audit entry.
pub async fn act_on(
    db: &Db,
    operation: &NewOperation,
    action: &SagaAction,
    record: &AuditRecord,
) -> SqlResult<Begun> {
    let (statements, journal) = (statements(db)?, db.journal()?);
    let mut session = db.transaction().await?;
    let found = lock(
        &mut session,
        statements,
        &SagaRef::Id(action.saga_id.clone()),
    )
    .await?;
    let begun = match found {
        None => Some(Begun::Missing),
        Some(work) => match begun_before(&mut session, journal, operation).await? {
            Some(begun) => Some(begun),
            None => moved_by_hand(&mut session, statements, &work, action).await?,
        },
    };
    if let Some(begun) = begun {
        session.rollback().await?;
        return Ok(begun);
    }
    insert_operation(&mut session, journal, operation, OperationState::Finished).await?;
    let token = ClaimToken::generate();
    let item = NewItem {
        no: 1,
        event_id: None,
        consumer: None,
        letter: None,
        state: ItemState::Applied,
        token: &token,
        lease_us: None,
        evidence: Some(&action.told),
        deaths_before: 0,
        new_event_id: None,
    };
    insert_item(&mut session, journal, &operation.operation_id, &item).await?;
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Begun::Started)
}

/// Writes the move; a value when the saga is not what the plan saw any more.
async fn moved_by_hand(
    session: &mut Session,
    statements: &SagaStatements,
    work: &Work,
    action: &SagaAction,
) -> SqlResult<Option<Begun>> {
    let saga = &work.saga;
    // Who looks after it is no question of where it stands.
    if saga.version != action.version && !matches!(action.manual, Manual::Assign(_)) {
        return Ok(Some(Begun::Drifted {
            what: format!(
                "version {} and {} now, version {} in the plan",
                saga.version,
                saga.state.word(),
                action.version
            ),
        }));
    }
    let after = match act(saga, action.step, &action.manual, work.now) {
        Ok(after) => after,
        Err(what) => return Ok(Some(Begun::Drifted { what })),
    };
    let guarded = if let Manual::Assign(owner) = &action.manual {
        let values = [
            text_or_null(owner.as_deref().map(|owner| cut_bytes(owner, 191))),
            text(saga.saga_id.as_str()),
            Value::Int(saga.version),
        ];
        match session.execute(&statements.assign, &values).await? {
            1 => Guarded::Done,
            _ => Guarded::LostRace,
        }
    } else {
        write(session, statements, (saga, &after), None).await?
    };
    Ok((guarded == Guarded::LostRace).then(|| Begun::Drifted {
        what: "it was moved at the same moment".to_owned(),
    }))
}
