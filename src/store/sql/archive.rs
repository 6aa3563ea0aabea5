//! The inbox's retention: old rows move to the archive, or go, and the horizon moves on with them.

use crate::base::clock::Timestamp;
use crate::model::ids::{ConsumerName, EventId};
use crate::model::inbox::InboxRow;
use crate::store::Value;
use crate::store::inbox::{ArchiveRequest, Archived};

use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::statement::{ArchiveStatements, IDS_MAX};

fn statements(db: &Db) -> SqlResult<&ArchiveStatements> {
    db.inbox()?.archive.as_ref().ok_or_else(|| {
        Fault::unsupported(
            "this layout's inbox is the service's own table of effects: only the service may delete \
             from it",
        )
    })
}

/// Forgets one batch of old rows: copy, delete and horizon in one transaction.
pub async fn batch(db: &Db, request: &ArchiveRequest) -> SqlResult<Archived> {
    let statements = statements(db)?;
    let consumer = text(request.consumer.as_str());
    let keep_us = i64::try_from(request.keep.as_micros())
        .map_err(|_| Fault::Invalid("the age to keep is beyond any clock".to_owned()))?;
    let rows_max = request
        .rows_max
        .clamp(1, u32::try_from(IDS_MAX).unwrap_or(500));
    let mut session = db.transaction().await?;
    let rows = session
        .fetch(
            &statements.oldest,
            &[
                consumer.clone(),
                Value::Int(-keep_us),
                limit(u64::from(rows_max)),
            ],
        )
        .await?;
    let ids: Vec<String> = rows
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<_>>()?;
    // Rows come by age: the last is the youngest.
    let Some(youngest) = rows.last().map(|row| row.time(1)).transpose()? else {
        session.rollback().await?;
        return Ok(Archived::default());
    };
    let bound = |statement: &str| {
        let mut values = vec![consumer.clone()];
        let statement = bind_ids(statement, &ids, &mut values);
        (statement, values)
    };
    if request.archive {
        for statement in [&statements.replace, &statements.copy] {
            let (statement, values) = bound(statement);
            session.execute(&statement, &values).await?;
        }
    }
    let (statement, values) = bound(&statements.remove);
    let removed = session.execute(&statement, &values).await?;
    let horizon = advance(&mut session, statements, &request.consumer, youngest).await?;
    session.commit().await?;
    Ok(Archived {
        rows: removed,
        is_full: rows.len() >= rows_max as usize,
        horizon: Some(horizon),
    })
}

async fn advance(
    session: &mut Session,
    statements: &ArchiveStatements,
    consumer: &ConsumerName,
    to: Timestamp,
) -> SqlResult<Timestamp> {
    let (name, at) = (text(consumer.as_str()), Value::Int(to.micros()));
    let moved = session
        .execute(&statements.advance, &[at.clone(), name.clone(), at.clone()])
        .await?;
    if moved > 0 {
        return Ok(to);
    }
    let stands = session
        .fetch_optional(&statements.horizon, std::slice::from_ref(&name))
        .await?;
    match stands {
        Some(row) => row.time(0),
        None => match session.execute(&statements.begin, &[name, at]).await {
            Ok(_) => Ok(to),
            Err(fault) if fault.is_duplicate() => Err(Fault::Raced(
                "another archiver began this horizon".to_owned(),
            )),
            Err(fault) => Err(fault),
        },
    }
}

/// How far a consumer's inbox has forgotten; `None` when it never did.
pub async fn horizon(db: &Db, consumer: &ConsumerName) -> SqlResult<Option<Timestamp>> {
    let Some(statements) = &db.inbox()?.archive else {
        return Ok(None);
    };
    let found = db
        .read()
        .await?
        .fetch_optional(&statements.horizon, &[text(consumer.as_str())])
        .await;
    match found {
        // Tables of an installation that was not migrated yet: nothing was forgotten by us.
        Err(fault) if fault.is_missing_table() => Ok(None),
        other => other?.map(|row| row.time(0)).transpose(),
    }
}

/// A row the inbox has forgotten and the archive keeps.
pub async fn archived_row(
    db: &Db,
    consumer: &ConsumerName,
    event_id: &EventId,
) -> SqlResult<Option<InboxRow>> {
    let Some(statements) = &db.inbox()?.archive else {
        return Ok(None);
    };
    let found = db
        .read()
        .await?
        .fetch_optional(
            &statements.archived,
            &[text(consumer.as_str()), text(event_id.as_str())],
        )
        .await;
    let row = match found {
        Err(fault) if fault.is_missing_table() => return Ok(None),
        other => other?,
    };
    row.map(|row| {
        Ok(InboxRow {
            consumer: consumer.clone(),
            event_id: EventId::new(row.text(0)?),
            processed_at: row.time(1)?,
            payload_sha256: row.text_or_null(2)?,
        })
    })
    .transpose()
    .map_err(|fault: Fault| fault.in_table("consumer_inbox_archive"))
}

/// Seconds since the oldest dead letter that still waits for somebody died first; `None` without one.
pub async fn oldest_unresolved(db: &Db) -> SqlResult<Option<f64>> {
    let Ok(letters) = db.letters() else {
        return Ok(None);
    };
    let row = db
        .read()
        .await?
        .fetch_optional(&letters.oldest_unresolved, &[])
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to an age".to_owned()))?;
    let now = row.time(0)?;
    let oldest = [row.time_or_null(1)?, row.time_or_null(2)?];
    let oldest = oldest.into_iter().flatten().min();
    Ok(oldest.map(|at| now.seconds_since(at)))
}
