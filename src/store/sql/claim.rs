//! The dispatcher's transitions: claim, complete, renew, fail, give back; and the reaper's. Each is one
//! transaction and fenced by status and, where the layout has one, by the claim's token.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::base::text::{cut_bytes, safe};
use crate::mapping::OutboxLayout;
use crate::model::ids::{AggregateId, ClaimToken, EventId};
use crate::model::outbox::{OutboxEvent, OutboxState, REAPED, REAPED_AGAIN};
use crate::store::{Claim, ClaimRequest, FailedAttempt, Reaped, Unreadable, Value};

use super::db::Db;
use super::exec::{Row, Session, limit, micros, text};
use super::fault::{Fault, SqlResult};
use super::outbox::{event_of, state_of};
use super::statement::{IDS_MAX, OutboxStatements, with_ids};

/// Bytes of an error text kept with a row.
const ERROR_BYTES: usize = 1000;
/// Position of the database's clock in a claim's rows.
pub(super) const NOW: usize = 19;

/// Claims due rows, oldest first. Under READ COMMITTED with SKIP LOCKED, in index order: it waits for
/// nobody, blocks no producer's insert and touches only the rows it takes.
pub async fn claim_batch(db: &Db, request: &ClaimRequest) -> SqlResult<Claim> {
    let (layout, statements) = db.outbox().await?;
    let due = statements
        .claim_due
        .as_ref()
        .map_err(|reason| Fault::Unsupported(reason.clone()))?;
    let rows_max = u64::from(request.batch_rows.max(1));
    let mut session = db.transaction().await?;
    let taken = session
        .fetch(due, &[text(&layout.words.pending), limit(rows_max)])
        .await?;
    if taken.is_empty() {
        session.rollback().await?;
        return Ok(Claim::empty());
    }
    finish(session, layout, &statements, request, taken).await
}

impl Claim {
    /// Nothing was due.
    pub(super) fn empty() -> Self {
        Self {
            token: ClaimToken::generate(),
            events: Vec::new(),
            unreadable: Vec::new(),
            held: 0,
            claimed_at: Timestamp::from_micros(0),
        }
    }
}

/// Marks locked rows claimed, commits, and reads them. A row that cannot be read is told beside the
/// others: it must not keep them back.
pub(super) async fn finish(
    mut session: Session,
    layout: &OutboxLayout,
    statements: &OutboxStatements,
    request: &ClaimRequest,
    taken: Vec<Row>,
) -> SqlResult<Claim> {
    let Some(now) = taken.first().map(|row| row.time(NOW)).transpose()? else {
        session.commit().await?;
        return Ok(Claim::empty());
    };
    let token = ClaimToken::generate();
    let lease_until = now.plus(request.lease);
    let ids = taken
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    let marked = mark(&mut session, layout, statements, &token, lease_until, &ids).await?;
    if marked != ids.len() as u64 {
        session.rollback().await?;
        return Err(Fault::Raced(format!(
            "{marked} of {} locked rows could be claimed",
            ids.len()
        )));
    }
    session.commit().await?;
    let mut claim = Claim {
        token,
        events: Vec::with_capacity(taken.len()),
        unreadable: Vec::new(),
        held: 0,
        claimed_at: now,
    };
    for (row, id) in taken.into_iter().zip(ids) {
        // What can be read of its place in a sequence, for the case that nothing else can.
        let aggregate_id = row.text_or_null(1).ok().flatten().map(AggregateId::new);
        let aggregate_version = row.int_or_null(2).ok().flatten();
        match event_of(layout, row) {
            Ok(event) => claim
                .events
                .push(claimed(layout, event, &claim.token, lease_until)),
            Err(fault) => claim.unreadable.push(Unreadable {
                event_id: EventId::new(id),
                aggregate_id,
                aggregate_version,
                problem: fault.words(),
            }),
        }
    }
    claim.events.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok(claim)
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
        marked += session.execute(&statement, &values).await?;
    }
    Ok(marked)
}

/// Expired rows back to pending. The rows are locked first, in the order of their leases and without
/// waiting: a holder that is completing one at this moment is faster, and two reapers share the work.
/// Attempts stay, so a row whose dispatcher dies each time is given up in the end.
pub async fn reap(db: &Db, rows_max: u32) -> SqlResult<Reaped> {
    let (layout, statements) = db.outbox().await?;
    let expired = statements
        .expired
        .as_ref()
        .map_err(|reason| Fault::Unsupported(reason.clone()))?;
    let mut session = db.transaction().await?;
    let found = session
        .fetch(
            expired,
            &[
                text(&layout.words.sending),
                limit(u64::from(rows_max.max(1))),
            ],
        )
        .await?;
    let mut reaped = Reaped::default();
    let mut ids = Vec::with_capacity(found.len());
    for row in &found {
        ids.push(row.text(0)?);
        let token = row.text_or_null(1)?.map(ClaimToken::new);
        let overdue_s = row.time(3)?.seconds_since(row.time(2)?);
        reaped.overdue_s = reaped.overdue_s.max(overdue_s);
        match reaped.claims.iter_mut().find(|(of, _)| *of == token) {
            Some((_, rows)) => *rows += 1,
            None => reaped.claims.push((token, 1)),
        }
    }
    for chunk in ids.chunks(IDS_MAX) {
        let mut values = vec![text(&layout.words.pending)];
        if layout.last_error.is_some() {
            values.extend([REAPED, REAPED_AGAIN, REAPED_AGAIN, REAPED].map(text));
        }
        let statement = bind_ids(&statements.reap, chunk, &mut values);
        values.push(text(&layout.words.sending));
        reaped.rows += session.execute(&statement, &values).await?;
    }
    session.commit().await?;
    Ok(reaped)
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

/// Where rows stand. By primary key, no locks; what was committed before the call is seen.
pub async fn states(db: &Db, event_ids: &[EventId]) -> SqlResult<Vec<(EventId, OutboxState)>> {
    let (layout, statements) = db.outbox().await?;
    let ids: Vec<String> = event_ids.iter().map(|id| id.as_str().to_owned()).collect();
    let mut session = db.read().await?;
    let mut states = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(IDS_MAX) {
        let mut values = Vec::new();
        let statement = bind_ids(&statements.states, chunk, &mut values);
        for row in session.fetch(&statement, &values).await? {
            states.push((EventId::new(row.text(0)?), state_of(layout, &row.text(1)?)));
        }
    }
    Ok(states)
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
    // One statement is a transaction by itself: no further round trips.
    let is_one = ids.len() <= IDS_MAX;
    let mut session = if is_one {
        db.write().await?
    } else {
        db.transaction().await?
    };
    let mut matched = 0;
    for chunk in ids.chunks(IDS_MAX) {
        let mut values = vec![text(word)];
        let statement = bind_ids(statement, chunk, &mut values);
        fence(layout, token, &mut values);
        matched += session.execute(&statement, &values).await?;
    }
    if !is_one {
        session.commit().await?;
    }
    Ok(matched)
}

/// Extends a claim.
pub async fn renew(db: &Db, token: &ClaimToken, lease: Duration) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    let Some(renew) = &statements.renew else {
        return Err(Fault::unsupported("this layout has no lease"));
    };
    let mut session = db.write().await?;
    session
        .execute(
            renew,
            &[
                micros(lease),
                text(&layout.words.sending),
                text(token.as_str()),
            ],
        )
        .await
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
    // Rows that failed alike and wait equally long share a statement.
    let mut alike: BTreeMap<(Option<Duration>, &str), Vec<String>> = BTreeMap::new();
    for attempt in attempts {
        alike
            .entry((attempt.retry_after, &attempt.error))
            .or_default()
            .push(attempt.event_id.as_str().to_owned());
    }
    let mut session = db.transaction().await?;
    let mut matched = 0;
    for ((retry_after, error), mut ids) in alike {
        ids.sort();
        ids.dedup();
        let (word, wait) = match retry_after {
            Some(wait) => (&layout.words.pending, wait),
            None => (&layout.words.failed, Duration::ZERO),
        };
        for chunk in ids.chunks(IDS_MAX) {
            let mut values = vec![text(word), micros(wait)];
            if layout.last_error.is_some() {
                values.push(text(error_text(error, layout.layout == "native")));
            }
            let statement = bind_ids(&statements.fail, chunk, &mut values);
            fence(layout, token, &mut values);
            matched += session.execute(&statement, &values).await?;
        }
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
