//! The hash-chained audit log. Appending locks the one row of `audit_head`, so that two consoles cannot
//! fork the chain; the entry's time is the database's.

use crate::base::text::cut_bytes;
use crate::model::audit::{AuditEntry, AuditRecord, ChainCheck, ChainFault, entry_hash};
use crate::model::ids::OperationId;
use crate::store::Value;

use super::db::Db;
use super::exec::{Row, Session, limit, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::statement::JournalStatements;

/// Entries read at once while checking the chain.
const PAGE: u64 = 500;

/// Cuts what a column could not hold, before it is hashed.
fn fitting(record: &AuditRecord) -> AuditRecord {
    AuditRecord {
        actor: cut_bytes(&record.actor, 255).to_owned(),
        action: cut_bytes(&record.action, 64).to_owned(),
        phase: cut_bytes(&record.phase, 32).to_owned(),
        operation_id: record.operation_id.clone(),
        subject: cut_bytes(&record.subject, 512).to_owned(),
        reason: cut_bytes(&record.reason, 60_000).to_owned(),
        detail: record.detail.clone(),
    }
}

/// Appends an entry within a transaction; the last statement of it, so that the chain is locked shortly.
pub async fn append(
    session: &mut Session,
    statements: &JournalStatements,
    record: &AuditRecord,
) -> SqlResult<AuditEntry> {
    let head = session
        .fetch_optional(&statements.head, &[])
        .await?
        .ok_or_else(|| Fault::Mapping {
            table: "audit_head".to_owned(),
            problem: "its row is missing: run `redrive migrate`".to_owned(),
        })?;
    let (last, previous_hash, at) = (head.int(0)?, head.text(1)?, head.time(2)?);
    let record = fitting(record);
    let seq = last + 1;
    let hash = entry_hash(seq, at, &record, &previous_hash);
    session
        .execute(
            &statements.append,
            &[
                Value::Int(seq),
                Value::Int(at.micros()),
                text(&record.actor),
                text(&record.action),
                text(&record.phase),
                text_or_null(record.operation_id.as_ref().map(OperationId::as_str)),
                text(&record.subject),
                text(&record.reason),
                text(&record.detail),
                text(&previous_hash),
                text(&hash),
            ],
        )
        .await?;
    let moved = session
        .execute(
            &statements.move_head,
            &[Value::Int(seq), text(&hash), Value::Int(last)],
        )
        .await?;
    if moved != 1 {
        return Err(Fault::Raced("the audit chain moved on".to_owned()));
    }
    Ok(AuditEntry {
        seq,
        at,
        record,
        previous_hash,
        hash,
    })
}

/// Appends an entry on its own.
pub async fn append_alone(db: &Db, record: &AuditRecord) -> SqlResult<AuditEntry> {
    let statements = db.journal()?;
    let mut session = db.transaction().await?;
    let entry = append(&mut session, statements, record).await?;
    session.commit().await?;
    Ok(entry)
}

/// Entries, newest first.
pub async fn page(db: &Db, after_seq: Option<i64>, rows_max: u32) -> SqlResult<Vec<AuditEntry>> {
    let statements = db.journal()?;
    let before = after_seq.unwrap_or(i64::MAX);
    db.read()
        .await?
        .fetch(
            &statements.audit_page,
            &[Value::Int(before), limit(u64::from(rows_max))],
        )
        .await?
        .iter()
        .map(entry_of)
        .collect()
}

/// Checks the whole chain, a page at a time. The head is read first: entries appended meanwhile are
/// not looked at, an end that was cut off is.
pub async fn verify(db: &Db) -> SqlResult<Result<i64, ChainFault>> {
    let statements = db.journal()?;
    let mut session = db.read().await?;
    let head = session
        .fetch_optional(&statements.head_now, &[])
        .await?
        .ok_or_else(|| Fault::Mapping {
            table: "audit_head".to_owned(),
            problem: "its row is missing: run `redrive migrate`".to_owned(),
        })?;
    let (head_seq, head_hash) = (head.int(0)?, head.text(1)?);
    let mut check = ChainCheck::default();
    let mut last = 0;
    loop {
        let rows = session
            .fetch(&statements.audit_after, &[Value::Int(last), limit(PAGE)])
            .await?;
        let read = rows.len() as u64;
        for row in rows {
            let entry = entry_of(&row)?;
            if entry.seq > head_seq {
                return Ok(check.finish(head_seq, &head_hash));
            }
            last = entry.seq;
            if let Err(fault) = check.accept(&entry) {
                return Ok(Err(fault));
            }
        }
        if read < PAGE {
            return Ok(check.finish(head_seq, &head_hash));
        }
    }
}

/// An entry, by the column positions of its statements.
pub fn entry_of(row: &Row) -> SqlResult<AuditEntry> {
    let read = || -> SqlResult<AuditEntry> {
        Ok(AuditEntry {
            seq: row.int(0)?,
            at: row.time(1)?,
            record: AuditRecord {
                actor: row.text(2)?,
                action: row.text(3)?,
                phase: row.text(4)?,
                operation_id: row.text_or_null(5)?.map(OperationId::new),
                subject: row.text(6)?,
                reason: row.text(7)?,
                detail: row.text(8)?,
            },
            previous_hash: row.text(9)?,
            hash: row.text(10)?,
        })
    };
    read().map_err(|fault| fault.in_table("audit_log"))
}
