//! The sagas' side of the port, and looking at them. Moving them is in `saga_move`.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::audit::AuditRecord;
use crate::model::ids::{ClaimToken, EventId, SagaId};
use crate::model::saga::{Saga, SagaClaim, SagaState, SagaStep, StepState};
use crate::store::{
    Begun, Guarded, NewOperation, SagaAction, SagaClaimRequest, SagaStore, StoreResult, Value,
};

use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::statement::{IDS_MAX, SagaStatements};
use super::{SqlStore, call, saga_move};

#[async_trait]
impl SagaStore for SqlStore {
    async fn sagas(&self, limit: u32) -> StoreResult<Vec<Saga>> {
        call!(self, "sagas", list, [], [limit])
    }

    async fn sagas_open(&self, limit: u32) -> StoreResult<Vec<Saga>> {
        call!(self, "open sagas", open, [], [limit])
    }

    async fn saga(&self, id: &SagaId) -> StoreResult<Option<Saga>> {
        call!(self, "saga", one, [id], [])
    }

    async fn sagas_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Saga>> {
        call!(self, "sagas by prefix", by_prefix, [prefix], [])
    }

    async fn claim_sagas(&self, request: &SagaClaimRequest) -> StoreResult<SagaClaim> {
        call!(self, "claim sagas", saga_move::claim, [request], [])
    }

    async fn postpone_saga(
        &self,
        token: &ClaimToken,
        id: &SagaId,
        error: &str,
        pause: Duration,
    ) -> StoreResult<Guarded> {
        call!(
            self,
            "postpone saga",
            saga_move::postpone,
            [token, id, error],
            [pause]
        )
    }

    async fn act_on_saga(
        &self,
        operation: &NewOperation,
        action: &SagaAction,
        audit: &AuditRecord,
    ) -> StoreResult<Begun> {
        call!(
            self,
            "act on saga",
            saga_move::act_on,
            [operation, action, audit],
            []
        )
    }
}

/// The statements, where a service has sagas.
pub fn statements(db: &Db) -> SqlResult<&SagaStatements> {
    db.sagas
        .as_ref()
        .map(|(_, statements)| statements)
        .ok_or_else(|| Fault::unsupported("has no sagas in the configuration"))
}

/// Sagas an operator has to look at, then the unfinished ones, stalest first, then some finished ones
/// while there is room.
pub async fn list(db: &Db, rows_max: u32) -> SqlResult<Vec<Saga>> {
    let statements = statements(db)?;
    let mut session = db.read().await?;
    let rows_max = within(rows_max);
    let mut values = unfinished(db, rows_max);
    for state in [SagaState::Compensated, SagaState::Completed] {
        values.extend([text(state.word()), limit(rows_max)]);
    }
    let mut sagas = fetch_ranked(&mut session, &statements.list, &values, rows_max).await?;
    add_steps(&mut session, statements, &mut sagas).await?;
    Ok(sagas)
}

/// As [`list`], without the finished ones and without steps: what a look once a second can afford.
pub async fn open(db: &Db, rows_max: u32) -> SqlResult<Vec<Saga>> {
    let rows_max = within(rows_max);
    let (statements, values) = (statements(db)?, unfinished(db, rows_max));
    fetch_ranked(&mut db.read().await?, &statements.open, &values, rows_max).await
}

/// Their steps are read by a list of ids.
fn within(rows_max: u32) -> u64 {
    u64::from(rows_max.max(1)).min(IDS_MAX as u64)
}

fn unfinished(db: &Db, rows_max: u64) -> Vec<Value> {
    let each = limit(rows_max);
    vec![each.clone(), each.clone(), limit(db.count_cap), each]
}

/// The rows of all lists in their order, no more than the limit.
async fn fetch_ranked(
    session: &mut Session,
    statement: &str,
    values: &[Value],
    rows_max: u64,
) -> SqlResult<Vec<Saga>> {
    let rows = session.fetch(statement, values).await?;
    let ranked = rows.iter().map(ranked_of).collect::<SqlResult<Vec<_>>>();
    // The parts of a union come in no promised order.
    let mut ranked = ranked?;
    ranked.sort_by_key(|(rank, _)| *rank);
    let first = ranked.into_iter().map(|(_, saga)| saga);
    Ok(first
        .take(usize::try_from(rows_max).unwrap_or(IDS_MAX))
        .collect())
}

/// A saga with the number of its list and its place in it.
fn ranked_of(row: &Row) -> SqlResult<((i64, i64), Saga)> {
    Ok(((row.int(17)?, row.int(18)?), saga_of(row)?))
}

/// Sagas whose id starts so, at most 20, with their steps.
pub async fn by_prefix(db: &Db, prefix: &str) -> SqlResult<Vec<Saga>> {
    let statements = statements(db)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if prefix.len() < 4 || !prefix.chars().all(is_plain) {
        return Ok(Vec::new());
    }
    let mut session = db.read().await?;
    let mut sagas = session
        .fetch(&statements.by_prefix, &[text(format!("{prefix}%"))])
        .await?
        .iter()
        .map(saga_of)
        .collect::<SqlResult<Vec<_>>>()?;
    add_steps(&mut session, statements, &mut sagas).await?;
    Ok(sagas)
}

/// One saga with its steps.
pub async fn one(db: &Db, id: &SagaId) -> SqlResult<Option<Saga>> {
    let statements = statements(db)?;
    let mut session = db.read().await?;
    let row = session
        .fetch_optional(&statements.one, &[text(id.as_str())])
        .await?;
    let mut sagas = row.iter().map(saga_of).collect::<SqlResult<Vec<_>>>()?;
    add_steps(&mut session, statements, &mut sagas).await?;
    Ok(sagas.pop())
}

/// Fills in the steps.
pub async fn add_steps(
    session: &mut Session,
    statements: &SagaStatements,
    sagas: &mut [Saga],
) -> SqlResult<()> {
    for chunk in sagas.chunks_mut(IDS_MAX) {
        let ids: Vec<String> = chunk.iter().map(|saga| saga.saga_id.to_string()).collect();
        let mut values = Vec::new();
        let statement = bind_ids(&statements.steps, &ids, &mut values);
        for row in session.fetch(&statement, &values).await? {
            let (of, step) = (row.text(0)?, step_of(&row)?);
            if let Some(saga) = chunk.iter_mut().find(|saga| saga.saga_id.as_str() == of) {
                saga.steps.push(step);
            }
        }
    }
    Ok(())
}

/// A saga without its steps.
pub fn saga_of(row: &Row) -> SqlResult<Saga> {
    let read = || -> SqlResult<Saga> {
        Ok(Saga {
            saga_id: SagaId::new(row.text(0)?),
            saga_type: row.text(1)?,
            business_key: row.text(2)?,
            state: SagaState::from_word(&row.text(3)?),
            version: row.int(4)?,
            deadline_at: row.time_or_null(5)?,
            updated_at: row.time(6)?,
            created_at: row.time(7)?,
            expires_at: row.time_or_null(8)?,
            due_at: row.time_or_null(9)?,
            failures: row.int(10)?,
            last_error: row.text_or_null(11)?,
            leased_by: row.text_or_null(12)?,
            lease_until: row.time_or_null(13)?,
            attention: row.text_or_null(14)?,
            owner: row.text_or_null(15)?,
            evidence: row.text_or_null(16)?,
            steps: Vec::new(),
        })
    };
    read().map_err(|fault| fault.in_table("sagas"))
}

fn step_of(row: &Row) -> SqlResult<SagaStep> {
    // A word of a newer version is not a healthy state: unknown is what we know.
    let state = |index: usize| -> SqlResult<StepState> {
        Ok(StepState::from_word(&row.text(index)?).unwrap_or(StepState::Unknown))
    };
    let read = || -> SqlResult<SagaStep> {
        Ok(SagaStep {
            no: row.int(1)?,
            name: row.text(2)?,
            forward: state(3)?,
            compensation: state(4)?,
            attempts: row.int(5)?,
            timeout_at: row.time_or_null(6)?,
            last_error: row.text_or_null(7)?,
            forward_key: row.text_or_null(8)?,
            compensation_key: row.text_or_null(9)?,
            event_id: row.text_or_null(10)?.map(EventId::new),
            queries: row.int(11)?,
            conflict: row.text_or_null(12)?,
            updated_at: row.time(13)?,
        })
    };
    read().map_err(|fault| fault.in_table("saga_steps"))
}
