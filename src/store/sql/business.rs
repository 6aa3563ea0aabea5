//! A consumer's or producer's own transaction, and the two statements of ours that belong into it: the
//! inbox row and the outbox event.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::crash::ARMED;
use crate::base::deadline::within;
use crate::mapping::OutboxLayout;
use crate::model::count::Count;
use crate::model::ids::{AggregateId, ClaimToken, ConsumerName, EventId};
use crate::model::inbox::{InboxInsert, InboxRow};
use crate::model::outbox::NewEvent;
use crate::model::saga::{NewSaga, Saga, SagaRef, Work};
use crate::model::waiting::{NewWaiting, Parked};
use crate::store::{BusinessTx, Guarded, StoreError, StoreResult, Value};

use super::db::{Db, Inbox};
use super::exec::{Row, Session, limit, micros, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::saga::statements as saga_statements;
use super::saga_move;
use super::statement::OutboxStatements;
use super::waiting;

/// Guard: the inbox row is in the effect's transaction.
const GUARD_INBOX_TX: &str = "guard.inbox_transaction";

/// A business transaction on one session. Dropped without commit, the session is closed and the server
/// rolls back.
pub struct SqlBusinessTx {
    db: Arc<Db>,
    session: Session,
    outbox: Option<Arc<OutboxStatements>>,
    /// Why the server has taken it back, or may have.
    lost: Option<StoreError>,
}

impl SqlBusinessTx {
    /// Begins.
    pub async fn begin(db: Arc<Db>) -> SqlResult<Self> {
        let outbox = match db.outbox {
            Some(_) => Some(db.outbox().await?.1),
            None => None,
        };
        let session = db.transaction().await?;
        Ok(Self {
            db,
            session,
            outbox,
            lost: None,
        })
    }
}

/// Gives a step of a transaction its time limit and its error.
///
/// Guard: what ended the transaction ends it here as well, for whoever passes over the error. After a deadlock
/// the server has rolled back and is between transactions: the next statement would be committed by itself, and
/// a commit would succeed that commits nothing of what came before.
async fn limited<T>(
    lost: &mut Option<StoreError>,
    service: &str,
    operation: &'static str,
    after: Duration,
    step: impl Future<Output = SqlResult<T>> + Send,
) -> StoreResult<T> {
    if let Some(error) = lost {
        return Err(error.clone());
    }
    let (error, is_lost) = match within(operation, after, step).await {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(fault)) => {
            let is_lost = fault.ends_transaction();
            (fault.into_store_error(service, operation, after), is_lost)
        }
        Err(late) => {
            let error = StoreError::TimedOut {
                service: service.to_owned(),
                operation: late.operation,
                after: late.after,
            };
            (error, true)
        }
    };
    if is_lost {
        *lost = Some(error.clone());
    }
    Err(error)
}

#[async_trait]
impl BusinessTx for SqlBusinessTx {
    async fn inbox_insert(
        &mut self,
        consumer: &ConsumerName,
        event_id: &EventId,
        payload_sha256: &str,
    ) -> StoreResult<InboxInsert> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "inbox insert", db.timeout, async {
            // Guard: the inbox row commits or rolls back with the effect.
            if ARMED.is_off(GUARD_INBOX_TX) {
                let mut apart = db.write().await?;
                return insert_inbox(&mut apart, db.inbox()?, consumer, event_id, payload_sha256)
                    .await;
            }
            insert_inbox(session, db.inbox()?, consumer, event_id, payload_sha256).await
        })
        .await
    }

    async fn lock_version(
        &mut self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
        base: i64,
    ) -> StoreResult<i64> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "lock version", db.timeout, async {
            waiting::lock_version(session, db.waiting()?, consumer, aggregate_id, base).await
        })
        .await
    }

    async fn set_version(
        &mut self,
        consumer: &ConsumerName,
        aggregate_id: &AggregateId,
        from: i64,
        to: i64,
    ) -> StoreResult<Guarded> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "set version", db.timeout, async {
            waiting::set_version(session, db.waiting()?, (consumer, aggregate_id), from, to).await
        })
        .await
    }

    async fn park(&mut self, waiting: &NewWaiting) -> StoreResult<Parked> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "park event", db.timeout, async {
            waiting::park(session, db.waiting()?, waiting).await
        })
        .await
    }

    async fn forget_waiting(
        &mut self,
        consumer: &ConsumerName,
        event_id: &EventId,
    ) -> StoreResult<u64> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "forget waiting", db.timeout, async {
            waiting::forget(session, db.waiting()?, consumer, event_id).await
        })
        .await
    }

    async fn append(&mut self, event: &NewEvent) -> StoreResult<()> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        let outbox = self.outbox.as_deref();
        limited(lost, &db.service, "append event", db.timeout, async {
            let layout = db.outbox_layout()?;
            let statements =
                outbox.ok_or_else(|| Fault::unsupported("has no outbox in the configuration"))?;
            insert_event(session, layout, statements, event).await
        })
        .await
    }

    async fn saga_start(&mut self, saga: &NewSaga) -> StoreResult<bool> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "start saga", db.timeout, async {
            saga_move::start(session, saga_statements(db)?, saga).await
        })
        .await
    }

    async fn saga(&mut self, of: &SagaRef) -> StoreResult<Option<Work>> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "lock saga", db.timeout, async {
            saga_move::lock(session, saga_statements(db)?, of).await
        })
        .await
    }

    async fn saga_move(
        &mut self,
        before: &Saga,
        after: &Saga,
        token: Option<&ClaimToken>,
    ) -> StoreResult<Guarded> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "move saga", db.timeout, async {
            saga_move::write(session, saga_statements(db)?, (before, after), token).await
        })
        .await
    }

    async fn execute(&mut self, statement: &'static str, values: &[Value]) -> StoreResult<u64> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "business statement", db.timeout, async {
            match session.execute(statement, values).await {
                // What was looked for and not found was written by another transaction meanwhile: the
                // next try finds it. A key that is there for good ends with the bounded tries.
                Err(fault) if fault.is_duplicate() => Err(Fault::Raced(fault.words())),
                done => done,
            }
        })
        .await
    }

    async fn fetch_one(
        &mut self,
        statement: &'static str,
        values: &[Value],
    ) -> StoreResult<Option<Vec<Value>>> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "business query", db.timeout, async {
            Ok(session
                .fetch_optional(statement, values)
                .await?
                .map(|row| row.0.into_iter().map(readable).collect()))
        })
        .await
    }

    async fn commit(mut self: Box<Self>) -> StoreResult<()> {
        let (db, session, lost) = (&self.db, &mut self.session, &mut self.lost);
        limited(lost, &db.service, "commit", db.timeout, session.commit()).await
    }

    async fn rollback(mut self: Box<Self>) -> StoreResult<()> {
        let (db, session) = (&self.db, &mut self.session);
        limited(
            &mut None,
            &db.service,
            "rollback",
            db.timeout,
            session.rollback(),
        )
        .await
    }
}

/// MySQL sends texts and bytes alike; what is UTF-8 is a text to a handler.
fn readable(value: Value) -> Value {
    match value {
        Value::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Value::Text(text),
            Err(error) => Value::Bytes(error.into_bytes()),
        },
        other => other,
    }
}

/// Inserts plainly and lets the unique key speak: `INSERT IGNORE` would hide other errors.
async fn insert_inbox(
    session: &mut Session,
    inbox: &Inbox,
    consumer: &ConsumerName,
    event_id: &EventId,
    payload_sha256: &str,
) -> SqlResult<InboxInsert> {
    let mut values = Vec::new();
    if inbox.layout.consumer.is_some() {
        values.push(text(consumer.as_str()));
    }
    values.push(text(event_id.as_str()));
    if inbox.layout.payload_sha256.is_some() {
        values.push(text(payload_sha256));
    }
    match session.execute(&inbox.statements.insert, &values).await {
        Ok(_) => Ok(InboxInsert::First),
        Err(fault) if fault.is_duplicate() => {
            let stored = fetch_inbox(session, inbox, consumer, event_id)
                .await?
                .and_then(|row| row.payload_sha256);
            Ok(match stored {
                Some(stored_sha256) if stored_sha256 != payload_sha256 => {
                    InboxInsert::Conflict { stored_sha256 }
                }
                _ => InboxInsert::Duplicate,
            })
        }
        Err(fault) => Err(fault),
    }
}

async fn fetch_inbox(
    session: &mut Session,
    inbox: &Inbox,
    consumer: &ConsumerName,
    event_id: &EventId,
) -> SqlResult<Option<InboxRow>> {
    let mut values = vec![text(event_id.as_str())];
    if inbox.layout.consumer.is_some() {
        values.push(text(consumer.as_str()));
    }
    session
        .fetch_optional(&inbox.statements.row, &values)
        .await?
        .map(|row| inbox_row_of(consumer, &row))
        .transpose()
        .map_err(|fault| fault.in_table(inbox.layout.table.as_str()))
}

/// A row, by the column positions of its statements.
pub fn inbox_row_of(consumer: &ConsumerName, row: &Row) -> SqlResult<InboxRow> {
    Ok(InboxRow {
        consumer: consumer.clone(),
        event_id: EventId::new(row.text(0)?),
        processed_at: row.time(1)?,
        payload_sha256: row
            .text_or_null(2)?
            .map(|digest| digest.trim_end().to_owned()),
    })
}

/// The inbox, if rows of this consumer can be in it.
pub fn inbox_of<'a>(db: &'a Db, consumer: &ConsumerName) -> SqlResult<&'a Inbox> {
    let inbox = db.inbox()?;
    if inbox.layout.consumer.is_none() && *consumer != inbox.consumer {
        return Err(Fault::unsupported(format!(
            "this inbox belongs to {}, not to {consumer}",
            inbox.consumer
        )));
    }
    Ok(inbox)
}

/// One inbox row.
pub async fn inbox_row(
    db: &Db,
    consumer: &ConsumerName,
    event_id: &EventId,
) -> SqlResult<Option<InboxRow>> {
    let inbox = inbox_of(db, consumer)?;
    fetch_inbox(&mut db.read().await?, inbox, consumer, event_id).await
}

/// Inbox rows of a window, capped.
pub async fn inbox_recent(db: &Db, window: Duration) -> SqlResult<Count> {
    let inbox = db.inbox()?;
    let values = recent_values(db, inbox, window)?;
    let row = db
        .read()
        .await?
        .fetch_optional(&inbox.statements.recent, &values)
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    recent_of(db, &row, 0)
}

/// What the count of a window binds.
pub fn recent_values(db: &Db, inbox: &Inbox, window: Duration) -> SqlResult<Vec<Value>> {
    let mut values = Vec::new();
    if inbox.layout.consumer.is_some() {
        values.push(text(inbox.consumer.as_str()));
    }
    let Value::Int(window) = micros(window) else {
        return Err(Fault::Invalid("a window is a number".to_owned()));
    };
    values.push(Value::Int(-window));
    values.push(limit(db.count_cap.saturating_add(1)));
    Ok(values)
}

/// The count in a row.
pub fn recent_of(db: &Db, row: &Row, at: usize) -> SqlResult<Count> {
    Ok(Count::capped(row.count(at)?, db.count_cap))
}

/// Writes an event to the outbox, within the caller's transaction.
pub async fn insert_event(
    session: &mut Session,
    layout: &OutboxLayout,
    statements: &OutboxStatements,
    event: &NewEvent,
) -> SqlResult<()> {
    let Some(payload) = event.payload.text() else {
        return Err(Fault::unsupported(format!(
            "the payload of {} is not text: an outbox keeps JSON",
            event.event_id
        )));
    };
    let mut values = vec![text(event.event_id.as_str())];
    if layout.source.is_some() {
        let kind = event.event_type.split('.').next().unwrap_or_default();
        values.push(text(kind));
    }
    values.push(text(event.aggregate_id.as_str()));
    if layout.seq.is_some() {
        values.push(Value::Int(event.aggregate_version));
    }
    values.push(text(&event.event_type));
    if layout.schema_version.is_some() {
        values.push(Value::Int(event.schema_version));
    }
    values.push(text(payload));
    if layout.headers.is_some() {
        values.push(if event.headers.is_empty() {
            Value::Null
        } else {
            text(
                serde_json::to_string(&event.headers)
                    .map_err(|e| Fault::Invalid(format!("headers: {e}")))?,
            )
        });
    }
    for (column, value) in [
        (&layout.destination, &event.exchange),
        (&layout.routing_key, &event.routing_key),
        (&layout.trace_id, &event.trace_id),
        (&layout.causation_id, &event.causation_id),
    ] {
        if column.is_some() {
            values.push(text_or_null(value.as_deref()));
        }
    }
    values.push(text(&layout.words.pending));
    session.execute(&statements.insert, &values).await?;
    Ok(())
}
