//! The dispatcher's transitions: claim, complete, renew, fail, give back. Each is one transaction and
//! fenced by status and, where the layout has one, by the claim's token.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::base::text::{cut_bytes, safe};
use crate::mapping::OutboxLayout;
use crate::model::ids::{ClaimToken, EventId};
use crate::model::outbox::{OutboxEvent, OutboxState};
use crate::store::{Claim, ClaimRequest, FailedAttempt, Value};

use super::db::Db;
use super::exec::{Session, limit, micros, text};
use super::fault::{Fault, SqlResult};
use super::outbox::event_of;
use super::statement::{IDS_MAX, OutboxStatements, with_ids};

/// Bytes of an error text kept with a row.
const ERROR_BYTES: usize = 1000;

/// Claims expired rows, then due ones, oldest first. Under READ COMMITTED with SKIP LOCKED, in index
/// order: it waits for nobody, blocks no producer's insert and touches only the rows it takes.
pub async fn claim_batch(db: &Db, request: &ClaimRequest) -> SqlResult<Claim> {
    let (layout, statements) = db.outbox().await?;
    let token = ClaimToken::generate();
    let rows_max = u64::from(request.batch_rows.max(1));
    let mut session = db.transaction().await?;
    let mut taken = Vec::new();
    if let Some(expired) = &statements.claim_expired {
        taken.extend(lock(&mut session, expired, &layout.words.sending, rows_max).await?);
    }
    let due = statements
        .claim_due
        .as_ref()
        .map_err(|reason| Fault::Unsupported(reason.clone()))?;
    let left = rows_max.saturating_sub(taken.len() as u64);
    if left > 0 {
        taken.extend(lock(&mut session, due, &layout.words.pending, left).await?);
    }
    let Some(now) = taken.first().map(|row| row.time(19)).transpose()? else {
        session.rollback().await?;
        return Ok(Claim {
            token,
            events: Vec::new(),
        });
    };
    let lease_until = now.plus(request.lease);
    let ids = taken
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    let marked = mark(&mut session, layout, &statements, &token, lease_until, &ids).await?;
    if marked != ids.len() as u64 {
        session.rollback().await?;
        return Err(Fault::Raced(format!(
            "{marked} of {} locked rows could be claimed",
            ids.len()
        )));
    }
    session.commit().await?;
    let mut events = taken
        .iter()
        .map(|row| event_of(layout, row).map(|event| claimed(layout, event, &token, lease_until)))
        .collect::<SqlResult<Vec<_>>>()?;
    events.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok(Claim { token, events })
}

/// Oldest due first; then by id, which is in the order of creation for our own ids.
fn order(event: &OutboxEvent) -> (Option<Timestamp>, Option<Timestamp>, &str) {
    (
        event.row.next_attempt_at,
        event.row.created_at,
        event.row.event_id.as_str(),
    )
}

/// The row as the claim left it.
fn claimed(
    layout: &OutboxLayout,
    mut event: OutboxEvent,
    token: &ClaimToken,
    lease_until: Timestamp,
) -> OutboxEvent {
    event.row.state = OutboxState::Sending;
    event.row.attempts = event.row.attempts.map(|n| n + 1);
    event.row.claim_token = layout.token.as_ref().map(|_| token.clone());
    event.row.lease_until = layout.lease_until.as_ref().map(|_| lease_until);
    event
}

async fn lock(
    session: &mut Session,
    statement: &str,
    word: &str,
    rows_max: u64,
) -> SqlResult<Vec<super::exec::Row>> {
    session
        .fetch(statement, &[text(word), limit(rows_max)])
        .await
}

async fn mark(
    session: &mut Session,
    layout: &OutboxLayout,
    statements: &OutboxStatements,
    token: &ClaimToken,
    lease_until: Timestamp,
    ids: &[String],
) -> SqlResult<u64> {
    let mut marked = 0;
    for chunk in ids.chunks(IDS_MAX) {
        let mut values = vec![text(&layout.words.sending)];
        if layout.token.is_some() {
            values.push(text(token.as_str()));
        }
        if layout.lease_until.is_some() {
            values.push(Value::Int(lease_until.micros()));
        }
        let statement = bind_ids(&statements.claim_mark, chunk, &mut values);
        values.push(text(&layout.words.pending));
        if layout.lease_until.is_some() {
            values.push(text(&layout.words.sending));
        }
        marked += session.execute(&statement, &values).await?;
    }
    Ok(marked)
}

/// Binds ids into a statement, padding with the last one: a repeated id matches nothing more.
pub fn bind_ids(statement: &str, ids: &[String], values: &mut Vec<Value>) -> String {
    let (statement, padded) = with_ids(statement, ids.len());
    values.extend(ids.iter().map(text));
    if let Some(last) = ids.last() {
        values.extend((ids.len()..padded).map(|_| text(last)));
    } else {
        values.extend((0..padded).map(|_| Value::Null));
    }
    statement
}

/// Binds what fences a row of a claim: it is being sent, by this token.
fn fence(layout: &OutboxLayout, token: &ClaimToken, values: &mut Vec<Value>) {
    values.push(text(&layout.words.sending));
    if layout.token.is_some() {
        values.push(text(token.as_str()));
    }
}

/// Marks rows sent.
pub async fn complete(db: &Db, token: &ClaimToken, event_ids: &[EventId]) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    by_ids(
        db,
        layout,
        &statements.complete,
        &layout.words.sent,
        token,
        event_ids,
    )
    .await
}

/// Gives rows back untried.
pub async fn give_back(db: &Db, token: &ClaimToken, event_ids: &[EventId]) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    by_ids(
        db,
        layout,
        &statements.give_back,
        &layout.words.pending,
        token,
        event_ids,
    )
    .await
}

async fn by_ids(
    db: &Db,
    layout: &OutboxLayout,
    statement: &str,
    word: &str,
    token: &ClaimToken,
    event_ids: &[EventId],
) -> SqlResult<u64> {
    // In key order, so that two writers of one batch cannot deadlock.
    let mut ids: Vec<String> = event_ids.iter().map(|id| id.as_str().to_owned()).collect();
    ids.sort();
    ids.dedup();
    if ids.is_empty() {
        return Ok(0);
    }
    let mut session = db.transaction().await?;
    let mut matched = 0;
    for chunk in ids.chunks(IDS_MAX) {
        let mut values = vec![text(word)];
        let statement = bind_ids(statement, chunk, &mut values);
        fence(layout, token, &mut values);
        matched += session.execute(&statement, &values).await?;
    }
    session.commit().await?;
    Ok(matched)
}

/// Extends a claim.
pub async fn renew(db: &Db, token: &ClaimToken, lease: Duration) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    let Some(renew) = &statements.renew else {
        return Err(Fault::unsupported("this layout has no lease"));
    };
    let mut session = db.transaction().await?;
    let matched = session
        .execute(
            renew,
            &[
                micros(lease),
                text(&layout.words.sending),
                text(token.as_str()),
            ],
        )
        .await?;
    session.commit().await?;
    Ok(matched)
}

/// Gives rows back after failed attempts, or fails them for good.
pub async fn fail_attempts(
    db: &Db,
    token: &ClaimToken,
    attempts: &[FailedAttempt],
) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    if attempts.is_empty() {
        return Ok(0);
    }
    let mut session = db.transaction().await?;
    let mut matched = 0;
    for attempt in attempts {
        let (word, wait) = match attempt.retry_after {
            Some(wait) => (&layout.words.pending, wait),
            None => (&layout.words.failed, Duration::ZERO),
        };
        let mut values = vec![text(word), micros(wait)];
        if layout.last_error.is_some() {
            values.push(text(error_text(&attempt.error, layout.layout == "native")));
        }
        values.push(text(attempt.event_id.as_str()));
        fence(layout, token, &mut values);
        matched += session.execute(&statements.fail, &values).await?;
    }
    session.commit().await?;
    Ok(matched)
}

/// An error text its column takes: control characters written out, cut between characters (P-13). A
/// table that is not ours may have any character set, so there everything is ASCII.
pub fn error_text(error: &str, is_ours: bool) -> String {
    let shown = safe(error);
    if is_ours {
        return cut_bytes(&shown, ERROR_BYTES).to_owned();
    }
    let mut out = String::with_capacity(shown.len());
    for c in shown.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    cut_bytes(&out, ERROR_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::error_text;

    #[test]
    fn p_13_an_error_text_fits_its_column() {
        let long = format!("{}こんにちは👩‍💻", "x".repeat(996));
        assert_eq!(error_text(&long, true), format!("{}こ", "x".repeat(996)));
        let stored = error_text(&long, false);
        assert!(
            stored.is_ascii() && stored.len() <= 1000,
            "{}",
            stored.len()
        );
        assert!(error_text("a\0b", false).is_ascii());
    }
}
