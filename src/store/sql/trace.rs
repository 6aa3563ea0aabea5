//! Look-ups of journeys: by key, each with a limit.

use async_trait::async_trait;

use crate::model::audit::AuditEntry;
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::inbox::InboxRow;
use crate::model::operation::{Operation, OperationItem};
use crate::model::saga::Saga;
use crate::store::trace::{
    AUDIT_MAX, LINKS_MAX, RepairLink, TRAIL_MAX, TraceStore, Trail, TrailRow, WaitingNote,
};
use crate::store::{StoreResult, Value};

use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, limit, text};
use super::fault::{Fault, SqlResult};
use super::statement::IDS_MAX;
use super::{SqlStore, audit, business, call, operation, outbox, saga};

#[async_trait]
impl TraceStore for SqlStore {
    async fn trail(&self, aggregate_id: &AggregateId) -> StoreResult<Trail> {
        call!(self, "trail", trail, [aggregate_id], [])
    }

    async fn inbox_rows(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<InboxRow>> {
        call!(self, "inbox rows", inbox_rows, [consumer, event_ids], [])
    }

    async fn waiting_notes(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<WaitingNote>> {
        call!(
            self,
            "waiting notes",
            waiting_notes,
            [consumer, event_ids],
            []
        )
    }

    async fn items_of_letter(
        &self,
        id: &DeadLetterId,
    ) -> StoreResult<Vec<(OperationId, OperationItem)>> {
        call!(self, "items of letter", of_letter, [id], [])
    }

    async fn items_of_event(
        &self,
        event_id: &EventId,
    ) -> StoreResult<Vec<(OperationId, OperationItem)>> {
        call!(self, "items of event", of_event, [event_id], [])
    }

    async fn operation_heads(&self, ids: &[OperationId]) -> StoreResult<Vec<Operation>> {
        call!(self, "operation heads", heads, [ids], [])
    }

    async fn repairs_of(&self, event_id: &EventId) -> StoreResult<Vec<RepairLink>> {
        call!(self, "repairs of event", repairs_of, [event_id], [])
    }

    async fn audit_of(&self, operation_id: &OperationId) -> StoreResult<Vec<AuditEntry>> {
        call!(self, "audit of operation", audit_of, [operation_id], [])
    }

    async fn sagas_of_events(&self, event_ids: &[EventId]) -> StoreResult<Vec<Saga>> {
        call!(self, "sagas of events", sagas_of_events, [event_ids], [])
    }

    async fn sagas_of_key(&self, business_key: &str) -> StoreResult<Vec<Saga>> {
        call!(self, "sagas of key", sagas_of_key, [business_key], [])
    }
}

async fn trail(db: &Db, aggregate: &AggregateId) -> SqlResult<Trail> {
    let (layout, statements) = db.outbox().await?;
    let statement = match &statements.trail {
        Ok(statement) => statement,
        Err(reason) => {
            return Ok(Trail {
                not_answered: Some(reason.clone()),
                ..Trail::default()
            });
        }
    };
    let values = [text(aggregate.as_str()), limit(TRAIL_MAX as u64 + 1)];
    let found = db.read().await?.fetch(statement, &values).await?;
    let mut rows = found
        .iter()
        .take(TRAIL_MAX)
        .map(|row| {
            Ok(TrailRow {
                row: outbox::row_of(layout, row)?,
                causation_id: row.text_or_null(12)?,
                exchange: row.text_or_null(13)?,
                routing_key: row.text_or_null(14)?,
            })
        })
        .collect::<SqlResult<Vec<_>>>()?;
    rows.reverse();
    Ok(Trail {
        rows,
        truncated: found.len() > TRAIL_MAX,
        not_answered: None,
    })
}

fn texts(ids: &[EventId]) -> Vec<String> {
    ids.iter().take(IDS_MAX).map(ToString::to_string).collect()
}

async fn inbox_rows(db: &Db, consumer: &ConsumerName, ids: &[EventId]) -> SqlResult<Vec<InboxRow>> {
    let inbox = business::inbox_of(db, consumer)?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut values = Vec::new();
    if inbox.layout.consumer.is_some() {
        values.push(text(consumer.as_str()));
    }
    let statement = bind_ids(&inbox.statements.rows, &texts(ids), &mut values);
    let rows = db.read().await?.fetch(&statement, &values).await?;
    rows.iter()
        .map(|row| business::inbox_row_of(consumer, row))
        .collect()
}

async fn waiting_notes(
    db: &Db,
    consumer: &ConsumerName,
    ids: &[EventId],
) -> SqlResult<Vec<WaitingNote>> {
    let statements = db.waiting()?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut values = vec![text(consumer.as_str())];
    let statement = bind_ids(&statements.notes, &texts(ids), &mut values);
    let rows = match db.read().await?.fetch(&statement, &values).await {
        // Tables of an installation that was not migrated yet: nothing can wait in them.
        Err(fault) if fault.is_missing_table() => return Ok(Vec::new()),
        other => other?,
    };
    let note = |row: &Row| -> SqlResult<WaitingNote> {
        Ok(WaitingNote {
            event_id: EventId::new(row.text(0)?),
            consumer: consumer.clone(),
            version: row.int(1)?,
            missing_version: row.int(2)?,
            parked_at: row.time(3)?,
            attempted_at: row.time(4)?,
            attempts: row.int(5)?,
            deadline_at: row.time(6)?,
            payload_sha256: row.text(7)?,
        })
    };
    rows.iter()
        .map(|row| note(row).map_err(|fault| fault.in_table("waiting_events")))
        .collect()
}

async fn of_letter(db: &Db, id: &DeadLetterId) -> SqlResult<Vec<(OperationId, OperationItem)>> {
    let values = [text(id.as_str()), limit(LINKS_MAX as u64)];
    let statement = &db.journal()?.of_letter;
    items(&db.read().await?.fetch(statement, &values).await?)
}

async fn of_event(db: &Db, id: &EventId) -> SqlResult<Vec<(OperationId, OperationItem)>> {
    let values = [text(id.as_str()), limit(LINKS_MAX as u64)];
    let statement = &db.journal()?.of_event;
    match db.read().await?.fetch(statement, &values).await {
        Err(fault) if fault.is_missing_index() => Err(Fault::unsupported(
            "operation_items has no index on (event_id): run `redrive migrate`, or the answer would \
             read the whole table",
        )),
        other => items(&other?),
    }
}

fn items(rows: &[Row]) -> SqlResult<Vec<(OperationId, OperationItem)>> {
    rows.iter()
        .map(|row| Ok((OperationId::new(row.text(0)?), operation::item_of(row)?)))
        .collect()
}

async fn heads(db: &Db, ids: &[OperationId]) -> SqlResult<Vec<Operation>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<String> = ids.iter().take(IDS_MAX).map(ToString::to_string).collect();
    let mut values = Vec::new();
    let statement = bind_ids(&db.journal()?.heads, &ids, &mut values);
    let rows = db.read().await?.fetch(&statement, &values).await?;
    rows.iter().map(operation::operation_of).collect()
}

async fn repairs_of(db: &Db, id: &EventId) -> SqlResult<Vec<RepairLink>> {
    let statements = db.journal()?;
    let links = limit(LINKS_MAX as u64);
    let mut session = db.read().await?;
    let values = [text(id.as_str()), links.clone()];
    let mut rows = session.fetch(&statements.repairs_of, &values).await?;
    let made = [text(id.as_str())];
    rows.extend(session.fetch(&statements.repair_that_made, &made).await?);
    let link = |row: &Row| -> SqlResult<RepairLink> {
        Ok(RepairLink {
            operation_id: OperationId::new(row.text(0)?),
            original_event_id: row.text_or_null(1)?.map(EventId::new),
            dead_letter_id: DeadLetterId::new(row.text(2)?),
            new_event_id: EventId::new(row.text(3)?),
            reason: row.text(4)?,
            actor: row.text(5)?,
            created_at: row.time(6)?,
        })
    };
    rows.iter()
        .map(|row| link(row).map_err(|fault| fault.in_table("repairs")))
        .collect()
}

async fn audit_of(db: &Db, id: &OperationId) -> SqlResult<Vec<AuditEntry>> {
    let values = [text(id.as_str()), limit(AUDIT_MAX as u64)];
    let statement = &db.journal()?.audit_of;
    let rows = db.read().await?.fetch(statement, &values).await?;
    rows.iter().map(audit::entry_of).collect()
}

async fn sagas_of_events(db: &Db, ids: &[EventId]) -> SqlResult<Vec<Saga>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut values = Vec::new();
    let statement = bind_ids(&saga::statements(db)?.of_events, &texts(ids), &mut values);
    values.push(limit(LINKS_MAX as u64));
    sagas(db, &statement, &values).await
}

async fn sagas_of_key(db: &Db, key: &str) -> SqlResult<Vec<Saga>> {
    let values = [text(key), limit(LINKS_MAX as u64)];
    sagas(db, &saga::statements(db)?.of_any_type, &values).await
}

async fn sagas(db: &Db, statement: &str, values: &[Value]) -> SqlResult<Vec<Saga>> {
    let mut session = db.read().await?;
    let found = session.fetch(statement, values).await?;
    let mut sagas = found
        .iter()
        .map(saga::saga_of)
        .collect::<SqlResult<Vec<_>>>()?;
    saga::add_steps(&mut session, saga::statements(db)?, &mut sagas).await?;
    Ok(sagas)
}
