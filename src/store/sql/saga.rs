//! Looking at sagas.

use crate::model::ids::{EventId, SagaId};
use crate::model::saga::{Saga, SagaStep, StepState};

use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, limit, text};
use super::fault::{Fault, SqlResult};
use super::statement::IDS_MAX;

/// Sagas an operator has to look at, then the unfinished ones, stalest first, then some finished ones
/// while there is room.
pub async fn list(db: &Db, rows_max: u32) -> SqlResult<Vec<Saga>> {
    let statements = db
        .sagas
        .as_ref()
        .map(|(_, statements)| statements)
        .ok_or_else(|| Fault::unsupported("has no sagas in the configuration"))?;
    let mut session = db.read().await?;
    let wanted = (rows_max.max(1) as usize).min(IDS_MAX);
    let mut sagas = Vec::new();
    for row in session
        .fetch(&statements.attention, &[limit(wanted as u64)])
        .await?
    {
        sagas.push(saga_of(&row)?);
    }
    if sagas.len() < wanted {
        let left = limit((wanted - sagas.len()) as u64);
        for row in session
            .fetch(&statements.stalest, &[limit(db.count_cap), left])
            .await?
        {
            sagas.push(saga_of(&row)?);
        }
    }
    for state in ["compensated", "completed", "cancelled"] {
        if sagas.len() < wanted {
            let left = limit((wanted - sagas.len()) as u64);
            for row in session
                .fetch(&statements.finished, &[text(state), left])
                .await?
            {
                sagas.push(saga_of(&row)?);
            }
        }
    }
    if sagas.is_empty() {
        return Ok(sagas);
    }
    let ids: Vec<String> = sagas.iter().map(|saga| saga.saga_id.to_string()).collect();
    let mut values = Vec::new();
    let statement = bind_ids(&statements.steps, &ids, &mut values);
    for row in session.fetch(&statement, &values).await? {
        let (of, step) = (row.text(0)?, step_of(&row)?);
        if let Some(saga) = sagas.iter_mut().find(|saga| saga.saga_id.as_str() == of) {
            saga.steps.push(step);
        }
    }
    Ok(sagas)
}

fn saga_of(row: &Row) -> SqlResult<Saga> {
    let read = || -> SqlResult<Saga> {
        Ok(Saga {
            saga_id: SagaId::new(row.text(0)?),
            saga_type: row.text(1)?,
            business_key: row.text(2)?,
            state: row.text(3)?,
            version: row.int(4)?,
            deadline_at: row.time_or_null(5)?,
            updated_at: row.time(6)?,
            created_at: row.time(7)?,
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
        })
    };
    read().map_err(|fault| fault.in_table("saga_steps"))
}
