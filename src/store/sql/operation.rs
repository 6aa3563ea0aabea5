//! Reading operations and their items.

use crate::model::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::operation::{ItemState, Operation, OperationItem, OperationState, Verb};
use crate::model::page::{Cursor, Page};

use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::page::{bind_after, one_more, page_of};
use super::statement::{IDS_MAX, JournalStatements};

/// Where a page of operations starts.
#[derive(Clone)]
pub struct PageStart {
    /// After this one; `None`: with the newest.
    pub after: Option<Cursor>,
}

/// Operations, newest first, without items.
pub async fn page(db: &Db, start: &PageStart, rows_max: u32) -> SqlResult<Page<Operation>> {
    let statements = db.journal()?;
    let statement = match &start.after {
        None => &statements.page_first,
        Some(_) => &statements.page_after,
    };
    let mut values = Vec::new();
    bind_after(start.after.as_ref(), &mut values);
    values.push(one_more(rows_max));
    let found = db.read().await?.fetch(statement, &values).await?;
    page_of(&found, rows_max, operation_of, |last| Cursor {
        at: last.created_at,
        id: last.operation_id.to_string(),
    })
}

/// One operation with its items.
pub async fn one(db: &Db, id: &OperationId) -> SqlResult<Option<Operation>> {
    let statements = db.journal()?;
    let mut session = db.read().await?;
    let Some(row) = session
        .fetch_optional(&statements.operation, &[text(id.as_str())])
        .await?
    else {
        return Ok(None);
    };
    let mut operations = vec![operation_of(&row)?];
    add_items(&mut session, statements, &mut operations).await?;
    Ok(operations.pop())
}

/// Operations with an item that is not final, oldest first, with items.
pub async fn unfinished(db: &Db, rows_max: u32) -> SqlResult<Vec<Operation>> {
    let statements = db.journal()?;
    let mut session = db.read().await?;
    let each = limit(u64::from(rows_max));
    let rows = session
        .fetch(&statements.unfinished, &[each.clone(), each])
        .await?;
    let mut operations = rows
        .iter()
        .map(operation_of)
        .collect::<SqlResult<Vec<_>>>()?;
    operations
        .sort_by(|a, b| (a.created_at, &a.operation_id).cmp(&(b.created_at, &b.operation_id)));
    operations.truncate(rows_max as usize);
    add_items(&mut session, statements, &mut operations).await?;
    Ok(operations)
}

async fn add_items(
    session: &mut Session,
    statements: &JournalStatements,
    operations: &mut [Operation],
) -> SqlResult<()> {
    for chunk in operations.chunks_mut(IDS_MAX) {
        let ids: Vec<String> = chunk.iter().map(|o| o.operation_id.to_string()).collect();
        let mut values = Vec::new();
        let statement = bind_ids(&statements.items, &ids, &mut values);
        for row in session.fetch(&statement, &values).await? {
            let (of, item) = (row.text(0)?, item_of(&row)?);
            if let Some(operation) = chunk.iter_mut().find(|o| o.operation_id.as_str() == of) {
                operation.items.push(item);
            }
        }
    }
    Ok(())
}

/// An operation, by the column positions of its statements.
pub fn operation_of(row: &Row) -> SqlResult<Operation> {
    let read = || -> SqlResult<Operation> {
        let (verb, state) = (row.text(1)?, row.text(2)?);
        Ok(Operation {
            operation_id: OperationId::new(row.text(0)?),
            verb: Verb::from_word(&verb)
                .ok_or_else(|| Fault::unreadable(format!("verb {verb:?} is not known")))?,
            state: OperationState::from_word(&state)
                .ok_or_else(|| Fault::unreadable(format!("state {state:?} is not known")))?,
            actor: row.text(3)?,
            reason: row.text(4)?,
            ticket: row.text_or_null(5)?,
            plan_digest: row.text(6)?,
            plan: row.text(7)?,
            created_at: row.time(8)?,
            finished_at: row.time_or_null(9)?,
            items: Vec::new(),
        })
    };
    read().map_err(|fault| fault.in_table("operations"))
}

/// An item, by the column positions of its statements.
pub fn item_of(row: &Row) -> SqlResult<OperationItem> {
    let read = || -> SqlResult<OperationItem> {
        let state = row.text(5)?;
        Ok(OperationItem {
            no: row.int(1)?,
            event_id: row.text_or_null(2)?.map(EventId::new),
            consumer: row.text_or_null(3)?.map(ConsumerName::new),
            dead_letter_id: row.text_or_null(4)?.map(DeadLetterId::new),
            state: ItemState::from_word(&state)
                .ok_or_else(|| Fault::unreadable(format!("state {state:?} is not known")))?,
            token: ClaimToken::new(row.text(6)?),
            lease_until: row.time_or_null(7)?,
            published_at: row.time_or_null(8)?,
            updated_at: row.time(9)?,
            evidence: row.text_or_null(10)?,
            deaths_before: row.int(11)?,
            new_event_id: row.text_or_null(12)?.map(EventId::new),
        })
    };
    read().map_err(|fault| fault.in_table("operation_items"))
}
