//! Reconciliation's side of the port, and what it reads: walks by key, look-ups by id, and the queries
//! of rules. Everything runs in read-only sessions.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::Timestamp;
use crate::base::digest::sha256_hex;
use crate::model::audit::AuditRecord;
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::{
    AggregateId, ClaimToken, ConsumerName, DeadLetterId, EventId, FindingId, SagaId, ScanId,
};
use crate::model::inbox::InboxRow;
use crate::model::page::{Cursor, Page};
use crate::model::saga::SagaState;
use crate::model::scan::{Finding, FindingQuery, Scan};
use crate::store::scan::{
    KnownEvent, LetterMark, NewFindings, NewScan, OverdueSaga, Place, PlaceCursor, Places,
    RuleQuery, RuleRows, ScanStep, ScanStore, SentEvent, Walk, WalkFrom,
};
use crate::store::{Guarded, StoreResult, Value};

use super::claim::bind_ids;
use super::db::{Db, Inbox};
use super::exec::{Row, Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::outbox::{now, state_of};
use super::page::{bind_after, one_more, page_of};
use super::statement::IDS_MAX;
use super::verbs::Annotation;
use super::{SqlStore, call, scan};

#[async_trait]
impl ScanStore for SqlStore {
    async fn walk_sent(&self, from: &WalkFrom) -> StoreResult<Walk<SentEvent>> {
        call!(self, "walk sent", walk_sent, [from], [])
    }

    async fn walk_inbox(&self, from: &WalkFrom) -> StoreResult<Walk<InboxRow>> {
        call!(self, "walk inbox", walk_inbox, [from], [])
    }

    async fn newest_consumed(&self, limit: u32) -> StoreResult<Vec<InboxRow>> {
        call!(self, "newest consumed", newest, [], [limit])
    }

    async fn find_events(&self, ids: &[EventId], digests: bool) -> StoreResult<Vec<KnownEvent>> {
        call!(self, "find events", find_events, [ids], [digests])
    }

    async fn find_consumed(&self, ids: &[EventId]) -> StoreResult<Vec<InboxRow>> {
        call!(self, "find consumed", find_consumed, [ids], [])
    }

    async fn find_letters(
        &self,
        consumer: &ConsumerName,
        ids: &[EventId],
    ) -> StoreResult<Vec<LetterMark>> {
        call!(self, "find letters", find_letters, [consumer, ids], [])
    }

    async fn find_waiting(&self, ids: &[EventId]) -> StoreResult<Vec<EventId>> {
        call!(self, "find waiting", find_waiting, [ids], [])
    }

    async fn walk_places(&self, after: Option<&PlaceCursor>, limit: u32) -> StoreResult<Places> {
        let start = PlaceStart {
            after: after.cloned(),
        };
        call!(self, "walk places", walk_places, [start], [limit])
    }

    async fn overdue_sagas(
        &self,
        state: SagaState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> StoreResult<Walk<OverdueSaga>> {
        let start = scan::PageStart {
            after: after.cloned(),
        };
        call!(self, "overdue sagas", overdue, [start], [state, limit])
    }

    async fn rule_rows(&self, query: &RuleQuery) -> StoreResult<RuleRows> {
        call!(self, "rule query", rule_rows, [query], [])
    }

    async fn begin_scan(&self, new: &NewScan) -> StoreResult<()> {
        call!(self, "begin scan", scan::begin, [new], [])
    }

    async fn resume_scan(
        &self,
        id: &ScanId,
        token: &ClaimToken,
        lease: Duration,
    ) -> StoreResult<Guarded> {
        call!(self, "resume scan", scan::resume, [id, token], [lease])
    }

    async fn step_scan(&self, step: &ScanStep) -> StoreResult<Guarded> {
        call!(self, "step scan", scan::step, [step], [])
    }

    async fn stop_scan(&self, id: &ScanId) -> StoreResult<Guarded> {
        call!(self, "stop scan", scan::stop, [id], [])
    }

    async fn record_findings(
        &self,
        token: &ClaimToken,
        found: &NewFindings,
    ) -> StoreResult<Guarded> {
        call!(self, "record findings", scan::record, [token, found], [])
    }

    async fn clear_findings(
        &self,
        token: &ClaimToken,
        rule: &str,
        scan: &ScanId,
        since: Option<Timestamp>,
    ) -> StoreResult<u64> {
        call!(
            self,
            "clear findings",
            scan::clear,
            [token, rule, scan],
            [since]
        )
    }

    async fn scans_page(&self, after: Option<&Cursor>, limit: u32) -> StoreResult<Page<Scan>> {
        let start = scan::PageStart {
            after: after.cloned(),
        };
        call!(self, "scans page", scan::page, [start], [limit])
    }

    async fn scans_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Scan>> {
        call!(self, "scans by prefix", scan::by_prefix, [prefix], [])
    }

    async fn findings_page(&self, query: &FindingQuery) -> StoreResult<Page<Finding>> {
        call!(self, "findings page", scan::findings, [query], [])
    }

    async fn findings_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Finding>> {
        call!(
            self,
            "findings by prefix",
            scan::findings_by_prefix,
            [prefix],
            []
        )
    }

    async fn open_findings(&self) -> StoreResult<Option<Count>> {
        call!(self, "open findings", scan::open, [], [])
    }

    async fn annotate_finding(
        &self,
        id: &FindingId,
        owner: Option<&str>,
        note: Option<&str>,
        audit: &AuditRecord,
    ) -> StoreResult<Guarded> {
        let annotation = Annotation {
            owner: owner.map(ToOwned::to_owned),
            note: note.map(ToOwned::to_owned),
        };
        call!(
            self,
            "annotate finding",
            scan::annotate,
            [id, annotation, audit],
            []
        )
    }
}

/// A page of rows, and where the next one starts.
async fn walked<T>(
    db: &Db,
    (statement, mut values): (&str, Vec<Value>),
    rows_max: u32,
    (read, key): (impl Fn(&Row) -> SqlResult<T>, impl Fn(&T) -> Cursor),
) -> SqlResult<Walk<T>> {
    values.push(one_more(rows_max));
    let mut session = db.read().await?;
    // Before the rows: what is younger than the clock says has not been missed.
    let now = now(db, &mut session).await?;
    let found = session.fetch(statement, &values).await?;
    let Page { rows, next } = page_of(&found, rows_max, read, key)?;
    Ok(Walk { rows, next, now })
}

/// Binds where a walk starts: back from now, or after a cursor.
fn start(from: &WalkFrom, values: &mut Vec<Value>) {
    match &from.after {
        None => values.push(Value::Int(
            i64::try_from(from.window.as_micros()).map_or(i64::MIN / 2, |us| -us),
        )),
        after => bind_after(after.as_ref(), values),
    }
}

async fn walk_sent(db: &Db, from: &WalkFrom) -> SqlResult<Walk<SentEvent>> {
    let (layout, statements) = db.outbox().await?;
    let statement = match &from.after {
        None => &statements.walk.sent_first,
        Some(_) => &statements.walk.sent_after,
    };
    let statement = statement
        .as_ref()
        .map_err(|reason| Fault::Unsupported(reason.clone()))?;
    let mut values = vec![text(&layout.words.sent)];
    start(from, &mut values);
    let read = |row: &Row| -> SqlResult<SentEvent> {
        let read = || -> SqlResult<SentEvent> {
            Ok(SentEvent {
                event_id: EventId::new(row.text(0)?),
                aggregate_id: row.text_or_null(1)?.map(AggregateId::new),
                event_type: row.text(2)?,
                exchange: row.text_or_null(3)?,
                routing_key: row.text_or_null(4)?,
                created_at: row.time(5)?,
                sent_at: row.time_or_null(6)?,
            })
        };
        read().map_err(|fault| fault.in_table(layout.table.as_str()))
    };
    let key = |row: &SentEvent| Cursor {
        at: row.created_at,
        id: row.event_id.to_string(),
    };
    walked(db, (statement, values), from.limit, (read, key)).await
}

/// Binds the consumer, where the table has one.
fn consumer_of(inbox: &Inbox) -> Vec<Value> {
    let consumer = inbox.layout.consumer.as_ref();
    consumer
        .map(|_| text(inbox.consumer.as_str()))
        .into_iter()
        .collect()
}

fn consumed_of(inbox: &Inbox, row: &Row) -> SqlResult<InboxRow> {
    let read = || -> SqlResult<InboxRow> {
        Ok(InboxRow {
            consumer: inbox.consumer.clone(),
            event_id: EventId::new(row.text(0)?),
            processed_at: row.time(1)?,
            payload_sha256: row.text_or_null(2)?,
        })
    };
    read().map_err(|fault| fault.in_table(inbox.layout.table.as_str()))
}

async fn walk_inbox(db: &Db, from: &WalkFrom) -> SqlResult<Walk<InboxRow>> {
    let inbox = db.inbox()?;
    let statement = match &from.after {
        None => &inbox.statements.walk_first,
        Some(_) => &inbox.statements.walk_after,
    };
    let mut values = consumer_of(inbox);
    start(from, &mut values);
    let read = |row: &Row| consumed_of(inbox, row);
    let key = |row: &InboxRow| Cursor {
        at: row.processed_at,
        id: row.event_id.to_string(),
    };
    walked(db, (statement, values), from.limit, (read, key)).await
}

async fn newest(db: &Db, rows_max: u32) -> SqlResult<Vec<InboxRow>> {
    let inbox = db.inbox()?;
    let mut values = consumer_of(inbox);
    values.push(limit(u64::from(rows_max.max(1))));
    let mut session = db.read().await?;
    let found = session.fetch(&inbox.statements.newest, &values).await?;
    found.iter().map(|row| consumed_of(inbox, row)).collect()
}

/// Runs a statement by ids, some hundred at a time.
async fn by_ids(
    session: &mut Session,
    (statement, before): (&str, &[Value]),
    ids: &[EventId],
) -> SqlResult<Vec<Row>> {
    let mut rows = Vec::new();
    for chunk in ids.chunks(IDS_MAX) {
        let ids: Vec<String> = chunk.iter().map(ToString::to_string).collect();
        let mut values = before.to_vec();
        let statement = bind_ids(statement, &ids, &mut values);
        rows.extend(session.fetch(&statement, &values).await?);
    }
    Ok(rows)
}

async fn find_events(db: &Db, ids: &[EventId], digests: bool) -> SqlResult<Vec<KnownEvent>> {
    let (layout, statements) = db.outbox().await?;
    let statement = if digests {
        &statements.walk.known_whole
    } else {
        &statements.walk.known
    };
    let mut session = db.read().await?;
    let found = by_ids(&mut session, (statement, &[]), ids).await?;
    let read = |row: &Row| -> SqlResult<KnownEvent> {
        Ok(KnownEvent {
            event_id: EventId::new(row.text(0)?),
            event_type: row.text(1)?,
            state: state_of(layout, &row.text(2)?),
            created_at: row.time_or_null(3)?,
            sent_at: row.time_or_null(4)?,
            payload_sha256: digests
                .then(|| Ok::<_, Fault>(sha256_hex(&row.bytes(5)?)))
                .transpose()?,
        })
    };
    found
        .iter()
        .map(|row| read(row).map_err(|fault| fault.in_table(layout.table.as_str())))
        .collect()
}

async fn find_consumed(db: &Db, ids: &[EventId]) -> SqlResult<Vec<InboxRow>> {
    let inbox = db.inbox()?;
    let mut session = db.read().await?;
    let before = consumer_of(inbox);
    let statement = (inbox.statements.found.as_str(), before.as_slice());
    let found = by_ids(&mut session, statement, ids).await?;
    let mut rows = found
        .iter()
        .map(|row| consumed_of(inbox, row))
        .collect::<SqlResult<Vec<_>>>()?;
    let Some(archive) = &inbox.archive else {
        return Ok(rows);
    };
    let known: std::collections::HashSet<EventId> =
        rows.iter().map(|row| row.event_id.clone()).collect();
    let left: Vec<EventId> = ids
        .iter()
        .filter(|id| !known.contains(id))
        .cloned()
        .collect();
    if left.is_empty() {
        return Ok(rows);
    }
    let before = [text(inbox.consumer.as_str())];
    match by_ids(&mut session, (&archive.found, &before), &left).await {
        // Tables older than the archive: nothing was moved there.
        Err(fault) if fault.is_missing_table() => {}
        Err(fault) => return Err(fault),
        Ok(found) => {
            for row in &found {
                rows.push(consumed_of(inbox, row)?);
            }
        }
    }
    Ok(rows)
}

async fn find_letters(
    db: &Db,
    consumer: &ConsumerName,
    ids: &[EventId],
) -> SqlResult<Vec<LetterMark>> {
    let letters = db.letters()?;
    let mut session = db.read().await?;
    let before = [text(consumer.as_str())];
    let found = by_ids(&mut session, (&letters.found, &before), ids).await?;
    let read = |row: &Row| -> SqlResult<LetterMark> {
        Ok(LetterMark {
            event_id: EventId::new(row.text(0)?),
            dead_letter_id: DeadLetterId::new(row.text(1)?),
            status: DeadLetterStatus::from_word(&row.text(2)?),
            updated_at: row.time(3)?,
        })
    };
    found
        .iter()
        .map(|row| read(row).map_err(|fault| fault.in_table("dead_letters")))
        .collect()
}

async fn find_waiting(db: &Db, ids: &[EventId]) -> SqlResult<Vec<EventId>> {
    let inbox = db.inbox()?;
    let mut session = db.read().await?;
    let before = [text(inbox.consumer.as_str())];
    match by_ids(&mut session, (&inbox.waiting.found, &before), ids).await {
        // Tables older than waiting events: nothing can wait.
        Err(fault) if fault.is_missing_table() => Ok(Vec::new()),
        Err(fault) => Err(fault),
        Ok(found) => found
            .iter()
            .map(|row| Ok(EventId::new(row.text(0)?)))
            .collect(),
    }
}

/// Where a page of places starts.
#[derive(Clone)]
struct PlaceStart {
    after: Option<PlaceCursor>,
}

async fn walk_places(db: &Db, start: &PlaceStart, rows_max: u32) -> SqlResult<Places> {
    let (layout, statements) = db.outbox().await?;
    let mut values = Vec::new();
    let statement = match &start.after {
        None => &statements.walk.places_first,
        Some(after) => {
            let (key, version) = (text(&after.aggregate_id), Value::Int(after.version));
            values.extend([key.clone(), key, version.clone(), version]);
            values.push(text(&after.event_id));
            &statements.walk.places_after
        }
    };
    let statement = statement
        .as_ref()
        .map_err(|reason| Fault::Unsupported(reason.clone()))?;
    values.push(one_more(rows_max));
    let mut session = db.read().await?;
    let now = now(db, &mut session).await?;
    let found = session.fetch(statement, &values).await?;
    let read = |row: &Row| -> SqlResult<Place> {
        Ok(Place {
            aggregate_id: AggregateId::new(row.text(0)?),
            version: row.int(1)?,
            event_id: EventId::new(row.text(2)?),
            created_at: row.time(3)?,
        })
    };
    let rows = found
        .iter()
        .take(rows_max.max(1) as usize)
        .map(|row| read(row).map_err(|fault| fault.in_table(layout.table.as_str())))
        .collect::<SqlResult<Vec<_>>>()?;
    Ok(Places {
        is_full: found.len() > rows.len(),
        rows,
        now,
    })
}

async fn overdue(
    db: &Db,
    start: &scan::PageStart,
    state: SagaState,
    rows_max: u32,
) -> SqlResult<Walk<OverdueSaga>> {
    let statements = super::saga::statements(db)?;
    let statement = match &start.after {
        None => &statements.overdue_first,
        Some(_) => &statements.overdue_after,
    };
    let mut values = vec![text(state.word())];
    bind_after(start.after.as_ref(), &mut values);
    let read = |row: &Row| -> SqlResult<OverdueSaga> {
        let read = || -> SqlResult<OverdueSaga> {
            Ok(OverdueSaga {
                saga_id: SagaId::new(row.text(0)?),
                saga_type: row.text(1)?,
                business_key: row.text(2)?,
                deadline_at: row.time(3)?,
                updated_at: row.time(4)?,
                owner: row.text_or_null(5)?,
            })
        };
        read().map_err(|fault| fault.in_table("sagas"))
    };
    let key = |row: &OverdueSaga| Cursor {
        at: row.deadline_at,
        id: row.saga_id.to_string(),
    };
    walked(db, (statement, values), rows_max, (read, key)).await
}

/// Runs a rule's query; more rows than it may return end it.
async fn rule_rows(db: &Db, query: &RuleQuery) -> SqlResult<RuleRows> {
    let mut session = db.read().await?;
    let now = now(db, &mut session).await?;
    let (columns, rows) = session
        .fetch_named(&query.statement, &query.values, query.rows_max as usize)
        .await?;
    Ok(RuleRows { columns, rows, now })
}
