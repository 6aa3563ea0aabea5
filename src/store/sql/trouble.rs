//! The diagnosing side of the port: bounded reads, no locks.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::ids::{ConsumerName, EventId};
use crate::model::trouble::{LockWaits, RowGroup, RowTroubles, SentEvent};
use crate::store::{StoreResult, TroubleStore, Value};

use super::claim::bind_ids;
use super::db::Db;
use super::dialect::Dialect;
use super::exec::{Session, limit, micros, text};
use super::fault::{Fault, SqlResult};
use super::statement::IDS_MAX;
use super::{SqlStore, call};

/// Groups told of each kind.
const GROUPS_MAX: u64 = 50;

/// Waits for row locks, waits for a table, and the oldest holder of row locks, of sessions whose
/// database this is. Catalogue views only: as many rows as there are transactions and sessions; no locks
/// on data. Their times are in the server's own zone, ours is UTC. Needs the PROCESS right, and is refused without it (never answered with less).
/// InnoDB tells its transactions from a copy that it renews only when nobody has read it for 100 ms: more than ten
/// looks a second, by whomever, see no change.
const LOCK_WAITS: &str = "SELECT
  COUNT(CASE WHEN t.trx_state = 'LOCK WAIT' THEN 1 END),
  MAX(CASE WHEN t.trx_state = 'LOCK WAIT' THEN TIMESTAMPDIFF(SECOND, t.trx_wait_started, CONVERT_TZ(SYSDATE(), @@session.time_zone, 'SYSTEM')) END),
  MAX(CASE WHEN t.trx_state <> 'LOCK WAIT' AND t.trx_rows_locked > 0
    THEN TIMESTAMPDIFF(SECOND, t.trx_started, CONVERT_TZ(SYSDATE(), @@session.time_zone, 'SYSTEM')) END)
FROM information_schema.INNODB_TRX t
JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE p.DB = DATABASE()";

/// The session of the oldest holder.
const LOCK_HOLDER: &str = "SELECT CAST(t.trx_mysql_thread_id AS SIGNED)
FROM information_schema.INNODB_TRX t
JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE p.DB = DATABASE() AND t.trx_state <> 'LOCK WAIT' AND t.trx_rows_locked > 0
ORDER BY t.trx_started LIMIT 1";

/// Statements that wait for a table somebody alters or has locked.
const TABLE_WAITS: &str = "SELECT COUNT(*), CAST(MAX(p.TIME) AS SIGNED)
FROM information_schema.PROCESSLIST p
WHERE p.DB = DATABASE() AND p.STATE LIKE 'Waiting for table%lock'";

#[async_trait]
impl TroubleStore for SqlStore {
    async fn row_troubles(&self, limit: u32) -> StoreResult<RowTroubles> {
        call!(self, "row troubles", row_troubles, [], [limit])
    }

    async fn lock_waits(&self) -> StoreResult<Option<LockWaits>> {
        call!(self, "lock waits", lock_waits, [], [])
    }

    async fn sent_recently(&self, window: Duration, limit: u32) -> StoreResult<Vec<SentEvent>> {
        call!(self, "sent recently", sent_recently, [], [window, limit])
    }

    async fn seen_by(
        &self,
        consumer: &ConsumerName,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<EventId>> {
        call!(self, "seen by", seen_by, [consumer, event_ids], [])
    }
}

async fn row_troubles(db: &Db, rows_max: u32) -> SqlResult<RowTroubles> {
    let (layout, statements) = db.outbox().await?;
    let statement = |found: &Result<String, String>| {
        found
            .clone()
            .map_err(|reason| Fault::Unsupported(reason.clone()))
    };
    let (failed, retried) = (
        statement(&statements.failed_groups)?,
        statement(&statements.retried_groups)?,
    );
    let mut session = db.read().await?;
    let mut groups = async |statement: &str, word: &str| -> SqlResult<Vec<RowGroup>> {
        let values = [text(word), limit(u64::from(rows_max)), limit(GROUPS_MAX)];
        let rows = session.fetch(statement, &values).await?;
        rows.iter()
            .map(|row| {
                Ok(RowGroup {
                    event_type: row.text(0)?,
                    error: row.text_or_null(1)?,
                    rows: row.count(2)?,
                    sample: EventId::new(row.text(3)?),
                })
            })
            .collect::<SqlResult<Vec<_>>>()
            .map_err(|fault| fault.in_table(layout.table.as_str()))
    };
    let failed = groups(&failed, &layout.words.failed).await?;
    let retried = groups(&retried, &layout.words.pending).await?;
    let read: u64 = failed.iter().map(|group| group.rows).sum();
    Ok(RowTroubles {
        is_cut: read >= u64::from(rows_max) || failed.len() as u64 >= GROUPS_MAX,
        failed,
        retried,
    })
}

async fn lock_waits(db: &Db) -> SqlResult<Option<LockWaits>> {
    if db.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    let mut session = db.read().await?;
    let missing = || Fault::unreadable("no answer to a look at locks".to_owned());
    let row = session.fetch_optional(LOCK_WAITS, &[]).await?;
    let row = row.ok_or_else(missing)?;
    let (waiting, longest) = (row.count(0)?, row.int_or_null(1)?);
    let oldest_holder_s = row.int_or_null(2)?.map(seconds);
    let row = session.fetch_optional(TABLE_WAITS, &[]).await?;
    let row = row.ok_or_else(missing)?;
    let (tables, tables_longest) = (row.count(0)?, row.int_or_null(1)?);
    let holder = match oldest_holder_s {
        Some(_) => holder(&mut session).await?,
        None => None,
    };
    Ok(Some(LockWaits {
        waiting: waiting + tables,
        longest_s: longest.max(tables_longest).map(seconds),
        oldest_holder_s,
        holder,
    }))
}

async fn holder(session: &mut Session) -> SqlResult<Option<u64>> {
    let row = session.fetch_optional(LOCK_HOLDER, &[]).await?;
    let id = row.map(|row| row.int_or_null(0)).transpose()?.flatten();
    Ok(id.and_then(|id| u64::try_from(id).ok()))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of a transaction are far below 2^53"
)]
fn seconds(of: i64) -> f64 {
    of.max(0) as f64
}

async fn sent_recently(db: &Db, window: Duration, rows_max: u32) -> SqlResult<Vec<SentEvent>> {
    let (layout, statements) = db.outbox().await?;
    let statement = match &statements.sent_recently {
        Ok(statement) => statement,
        Err(reason) => return Err(Fault::Unsupported(reason.clone())),
    };
    let Value::Int(window) = micros(window) else {
        return Err(Fault::Invalid("a window is a number".to_owned()));
    };
    let values = [
        text(&layout.words.sent),
        Value::Int(-window),
        limit(u64::from(rows_max)),
    ];
    let mut session = db.read().await?;
    let rows = session.fetch(statement, &values).await?;
    rows.iter()
        .map(|row| {
            let sent_at = match row.time_or_null(4)? {
                Some(at) => at,
                None => row.time(5)?,
            };
            Ok(SentEvent {
                event_id: EventId::new(row.text(0)?),
                event_type: row.text(1)?,
                exchange: row.text_or_null(2)?,
                routing_key: row.text_or_null(3)?,
                age_s: row.time(6)?.seconds_since(sent_at),
            })
        })
        .collect::<SqlResult<Vec<_>>>()
        .map_err(|fault| fault.in_table(layout.table.as_str()))
}

/// By primary or unique keys, at most three entries an id; no locks.
async fn seen_by(
    db: &Db,
    consumer: &ConsumerName,
    event_ids: &[EventId],
) -> SqlResult<Vec<EventId>> {
    let inbox = db.inbox()?;
    let ids: Vec<String> = event_ids.iter().map(|id| id.as_str().to_owned()).collect();
    let has_consumer = inbox.layout.consumer.is_some();
    // Statement, whether it binds the consumer, and whether its table may be missing.
    let mut looks = vec![
        (inbox.statements.seen.as_str(), has_consumer, false),
        (inbox.waiting.seen.as_str(), true, true),
    ];
    if let Ok(letters) = db.letters() {
        looks.push((letters.seen.as_str(), true, false));
    }
    let mut session = db.read().await?;
    let mut seen = Vec::new();
    for chunk in ids.chunks(IDS_MAX) {
        for (statement, binds_consumer, is_optional) in &looks {
            let mut values = Vec::new();
            if *binds_consumer {
                values.push(text(consumer.as_str()));
            }
            let statement = bind_ids(statement, chunk, &mut values);
            let rows = match session.fetch(&statement, &values).await {
                // Tables of an installation that was not migrated yet: nothing can wait in them.
                Err(fault) if *is_optional && fault.is_missing_table() => Vec::new(),
                other => other?,
            };
            for row in &rows {
                seen.push(EventId::new(row.text(0)?));
            }
        }
    }
    Ok(seen)
}
