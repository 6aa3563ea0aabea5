//! Claims in sequence: of each aggregate only rows with no earlier unsent row outside the claim.
//!
//! A claim locks one window of due rows, as many as a batch. Then it looks up the nearest earlier unsent
//! row of those that begin an aggregate in it or follow a gap in the versions, in a second statement of
//! the same transaction: under READ COMMITTED that one sees what was committed while the window was
//! walked, so a sequence that is committed meanwhile cannot show its second version without its first. A
//! row may go when it has no earlier one, or when that one goes in the same claim. The others are *held*:
//! their time is put off in the same transaction, so the next claim does not meet them again. So a
//! claim's cost does not depend on how many rows are held, and each held row costs one look in a while:
//!
//! - behind a failed row: once in [`HELD_BY_FAILED`], and at once when that one went out after all
//!   ([`wake`]);
//! - behind one that waits for a retry: when that one is due;
//! - behind one that is on its way: shortly, the later ones of one aggregate a little later each.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::mapping::OutboxLayout;
use crate::model::ids::AggregateId;
use crate::store::{Claim, ClaimRequest, Value};

use super::claim::{NOW, bind_ids, finish};
use super::db::Db;
use super::exec::{Row, Session, limit, text};
use super::fault::{Fault, SqlResult};
use super::statement::{IDS_MAX, OutboxStatements};

/// Look-ups of earlier rows in one statement; SQLite takes five hundred.
const LOOKUPS_MAX: usize = 64;
/// How long a row is put off behind a failed one.
const HELD_BY_FAILED: Duration = Duration::from_mins(5);
/// How long a row is put off behind one that is on its way.
const HELD_BY_SENDING: Duration = Duration::from_millis(500);
/// What each further row of the same aggregate waits more: about the time of one confirm.
const EACH: Duration = Duration::from_millis(1);
/// Times are put off in steps, so that rows held alike share a statement.
const STEP_US: i64 = 50_000;
/// Why a row was put off; also what tells it from one its producer wants to go out later.
const HELD: &str = "held: an earlier event of its aggregate is not sent";

/// What keeps a row back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Somebody is sending the earlier row, or is about to.
    Sending,
    /// The earlier row gave up.
    Failed,
    /// The earlier row is due then.
    Until(Timestamp),
}

/// A row of the window.
struct Candidate {
    row: Row,
    id: String,
    /// Aggregate and version. A row without has no place in any sequence: it holds nothing, and nothing
    /// holds it.
    place: Option<(String, i64)>,
}

impl Candidate {
    fn of(row: Row) -> SqlResult<Self> {
        Ok(Self {
            id: row.text(0)?,
            // One that cannot be read must not keep all others back; `finish` tells it.
            place: row.text(1).ok().zip(row.int(2).ok()),
            row,
        })
    }

    /// What to look for: the aggregate, and between which versions an earlier row outside the window may
    /// be. `None` when there is room for none, because the row before it in the window is its predecessor.
    fn look_up(&self, before: Option<&Self>) -> Option<(&str, i64, i64)> {
        let (key, seq) = self.place.as_ref()?;
        let before = before.and_then(|before| before.place.as_ref());
        match before.filter(|(of, _)| of == key) {
            None => Some((key, i64::MIN, *seq)),
            Some((_, before)) if seq.saturating_sub(*before) > 1 => Some((key, *before, *seq)),
            Some(_) => None,
        }
    }
}

/// Claims due rows that nothing holds.
pub async fn claim(db: &Db, request: &ClaimRequest) -> SqlResult<Claim> {
    let (layout, statements) = db.outbox().await?;
    let unsupported = |reason: &String| Fault::Unsupported(reason.clone());
    let earlier = statements.earlier.as_ref().map_err(unsupported)?;
    let window = statements.claim_due.as_ref().map_err(unsupported)?;
    let rows_max = u64::from(request.batch_rows.max(1));
    let mut session = db.transaction().await?;
    let found = session
        .fetch(window, &[text(&layout.words.pending), limit(rows_max)])
        .await?;
    let Some(now) = found.first().map(|row| row.time(NOW)).transpose()? else {
        session.rollback().await?;
        return Ok(Claim::empty());
    };
    let mut candidates = found
        .into_iter()
        .map(Candidate::of)
        .collect::<SqlResult<Vec<_>>>()?;
    candidates.sort_by(|a, b| (&a.place, &a.id).cmp(&(&b.place, &b.id)));
    let outside = holders(&mut session, layout, earlier, &candidates).await?;
    let (free, held) = split(candidates, &outside);
    let held_rows = hold(&mut session, layout, &statements, now, held).await?;
    let claim = finish(session, layout, &statements, request, free).await?;
    Ok(Claim {
        held: held_rows,
        ..claim
    })
}

/// What holds candidates from outside the window, by their position. Candidates come by aggregate and
/// version.
async fn holders(
    session: &mut Session,
    layout: &OutboxLayout,
    earlier: &str,
    candidates: &[Candidate],
) -> SqlResult<HashMap<usize, Held>> {
    let words = &layout.words;
    let lookups: Vec<(usize, (&str, i64, i64))> = candidates
        .iter()
        .enumerate()
        .filter_map(|(position, candidate)| {
            let before = position.checked_sub(1).and_then(|at| candidates.get(at));
            Some((position, candidate.look_up(before)?))
        })
        .collect();
    let mut known = HashMap::new();
    for chunk in lookups.chunks(LOOKUPS_MAX) {
        // A few sizes only, so that sessions keep few statements; the last look-up is repeated.
        let size = if chunk.len() <= 8 { 8 } else { LOOKUPS_MAX };
        let last = chunk.last().into_iter().cycle();
        let padded = chunk.iter().chain(last).take(size);
        let mut values = Vec::with_capacity(size * 5);
        for (position, (key, after, seq)) in padded {
            values.extend([
                limit(*position as u64),
                text(*key),
                Value::Int(*after),
                Value::Int(*seq),
                text(&words.sent),
            ]);
        }
        let statement = vec![earlier; size].join("\nUNION ALL\n");
        for row in session.fetch(&statement, &values).await? {
            let word = row.text(2)?;
            let held = if word == words.failed {
                Held::Failed
            } else if word == words.pending {
                Held::Until(row.time(3)?)
            } else {
                Held::Sending
            };
            let position = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
            known.insert(position, held);
        }
    }
    Ok(known)
}

/// Which rows may go, and what keeps each of the others. Candidates come by aggregate and version; what
/// holds one holds those behind it.
fn split(
    candidates: Vec<Candidate>,
    outside: &HashMap<usize, Held>,
) -> (Vec<Row>, Vec<(Candidate, Held)>) {
    let mut free = Vec::with_capacity(candidates.len());
    let mut held = Vec::new();
    let mut aggregate: Option<(String, Option<Held>)> = None;
    for (position, candidate) in candidates.into_iter().enumerate() {
        let key = candidate.place.as_ref().map(|(key, _)| key);
        let inherited = aggregate
            .take()
            .filter(|(of, _)| Some(of) == key)
            .and_then(|(_, by)| by);
        let by = inherited.or_else(|| outside.get(&position).copied());
        aggregate = key.map(|key| (key.clone(), by));
        match by {
            None => free.push(candidate.row),
            Some(by) => held.push((candidate, by)),
        }
    }
    (free, held)
}

/// Puts rows off; the number.
async fn hold(
    session: &mut Session,
    layout: &OutboxLayout,
    statements: &OutboxStatements,
    now: Timestamp,
    held: Vec<(Candidate, Held)>,
) -> SqlResult<u64> {
    let mut ids_by_time: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let mut behind: HashMap<Option<String>, u32> = HashMap::new();
    for (candidate, by) in held {
        let key = candidate.place.map(|(key, _)| key);
        let before = behind.entry(key).or_default();
        let until = put_off(now, by, *before);
        *before += 1;
        ids_by_time.entry(until).or_default().push(candidate.id);
    }
    let mut rows = 0;
    for (until, mut ids) in ids_by_time {
        ids.sort();
        for chunk in ids.chunks(IDS_MAX) {
            let mut values = vec![Value::Int(until)];
            if layout.last_error.is_some() {
                values.push(text(HELD));
            }
            let statement = bind_ids(&statements.hold, chunk, &mut values);
            values.push(text(&layout.words.pending));
            rows += session.execute(&statement, &values).await?;
        }
    }
    Ok(rows)
}

/// When a held row is looked at again, in microseconds: never at once, however late it is.
fn put_off(now: Timestamp, by: Held, rows_before: u32) -> i64 {
    let soon = now.plus(HELD_BY_SENDING);
    let until = match by {
        Held::Sending => soon,
        Held::Failed => now.plus(HELD_BY_FAILED),
        Held::Until(due) => soon.max(due),
    };
    let until = until.plus(EACH.saturating_mul(rows_before)).micros();
    until - until.rem_euclid(STEP_US) + STEP_US
}

/// Later rows of these aggregates are due at once, if it was us who put them off: the next few hundred of
/// each. When those go out they wake the next, so a hundred thousand are never changed in one call.
pub async fn wake(db: &Db, sent: &[(AggregateId, i64)]) -> SqlResult<u64> {
    let (layout, statements) = db.outbox().await?;
    let (Some(find), Some(wake)) = (&statements.held, &statements.wake) else {
        return Ok(0);
    };
    let pending = || text(&layout.words.pending);
    let mut session = db.write().await?;
    let mut rows = 0;
    for (key, seq) in sent {
        let ids = session
            .fetch(
                find,
                &[
                    text(key.as_str()),
                    Value::Int(*seq),
                    pending(),
                    text(HELD),
                    limit(IDS_MAX as u64),
                ],
            )
            .await?
            .iter()
            .map(|row| row.text(0))
            .collect::<SqlResult<Vec<_>>>()?;
        if ids.is_empty() {
            continue;
        }
        let mut values = Vec::new();
        let statement = bind_ids(wake, &ids, &mut values);
        values.extend([pending(), text(HELD)]);
        rows += session.execute(&statement, &values).await?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(key: &str, seq: i64) -> Candidate {
        Candidate {
            row: Row(vec![Value::Int(seq)]),
            id: format!("{key}-{seq}"),
            place: Some((key.to_owned(), seq)),
        }
    }

    #[test]
    fn a_row_goes_when_its_earlier_ones_go_with_it_and_one_cause_holds_all_behind_it() {
        let candidates = vec![
            candidate("a", 1),
            candidate("a", 2),
            candidate("a", 5),
            candidate("a", 6),
            candidate("b", 2),
            candidate("b", 3),
            candidate("c", 9),
        ];
        let looked: Vec<_> = (0..candidates.len())
            .map(|n| {
                let before = n.checked_sub(1).map(|at| &candidates[at]);
                candidates[n].look_up(before)
            })
            .collect();
        let start = |key, seq| Some((key, i64::MIN, seq));
        let gap = Some(("a", 2, 5));
        let expected = [
            start("a", 1),
            None,
            gap,
            None,
            start("b", 2),
            None,
            start("c", 9),
        ];
        assert_eq!(looked, expected);
        let later = Held::Until(Timestamp::from_micros(7));
        let outside = HashMap::from([(2, later), (4, Held::Failed)]);
        let (free, held) = split(candidates, &outside);
        assert_eq!(free.len(), 3);
        let held: Vec<_> = held.iter().map(|(c, by)| (c.id.as_str(), *by)).collect();
        let expected = [
            ("a-5", later),
            ("a-6", later),
            ("b-2", Held::Failed),
            ("b-3", Held::Failed),
        ];
        assert_eq!(held, expected);
    }

    #[test]
    fn a_held_row_is_never_due_at_once_again() {
        let now = Timestamp::from_micros(1_000_000_000_000);
        let long_ago = Held::Until(Timestamp::from_micros(0));
        for by in [Held::Sending, Held::Failed, long_ago] {
            assert!(put_off(now, by, 0) >= now.plus(HELD_BY_SENDING).micros());
            assert!(put_off(now, by, 499) > put_off(now, by, 0));
        }
    }
}
