//! All numbers of a service in one statement, made of those that read each alone: a look once a second is
//! one round trip to a database. What each part reads, and by which index, stands with it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::model::numbers::Numbers;
use crate::store::Value;

use super::db::Db;
use super::fault::{Fault, SqlResult};
use super::{business, dead_letter, outbox, waiting};

/// Where the tables of waiting events were missing, they are looked for again after so long.
const MIGRATED_BY: Duration = Duration::from_secs(10);

/// One row made of several statements that give one row each.
#[derive(Default)]
struct Question {
    columns: Vec<String>,
    values: Vec<Value>,
    width: usize,
}

impl Question {
    /// Adds the columns of a statement; where they begin.
    fn add(&mut self, statement: &str, values: Vec<Value>, width: usize) -> usize {
        let columns = match statement.strip_prefix("SELECT ") {
            Some(columns) if width > 1 => columns.to_owned(),
            // What reads from a table by itself is one column.
            _ => format!("({statement})"),
        };
        self.columns.push(columns);
        self.values.extend(values);
        let at = self.width;
        self.width += width;
        at
    }
}

/// Everything the service has, each bounded as it is alone.
pub async fn read(db: &Db, window: Duration) -> SqlResult<Numbers> {
    let missing_until = *db
        .no_waiting_until
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let with_waiting = missing_until.is_none_or(|until| Instant::now() >= until);
    match ask(db, window, with_waiting).await {
        // An installation that was not migrated yet, or inboxes that are not ours: nothing can wait there.
        Err(fault) if with_waiting && fault.is_missing_table() => {
            let numbers = ask(db, window, false).await?;
            *db.no_waiting_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + MIGRATED_BY);
            Ok(numbers)
        }
        other => other,
    }
}

async fn ask(db: &Db, window: Duration, with_waiting: bool) -> SqlResult<Numbers> {
    let mut question = Question::default();
    let mut outbox = None;
    if db.outbox.is_some() {
        let (layout, statements) = db.outbox().await?;
        let values = outbox::counts_values(db, layout, &statements);
        let at = question.add(&statements.counts, values, outbox::COUNTS);
        outbox = Some((layout, statements, at));
    }
    let mut inbox = None;
    let mut parked = None;
    if let Some(part) = &db.inbox {
        let values = business::recent_values(db, part, window)?;
        inbox = Some(question.add(&part.statements.recent, values, 1));
        if with_waiting {
            let values = waiting::summary_values(db, part);
            let at = question.add(&part.waiting.summary, values, waiting::SUMMARY);
            parked = Some(at);
        }
    }
    let letters = db.letters.as_ref().map(|(_, statements)| {
        let values = dead_letter::counts_values(db);
        question.add(&statements.counts, values, dead_letter::COUNTS)
    });
    if question.width == 0 {
        return Ok(Numbers::default());
    }
    let statement = format!("SELECT {}", question.columns.join(",\n  "));
    let mut session = db.read().await?;
    let row = session
        .fetch_optional(&statement, &question.values)
        .await?
        .ok_or_else(|| Fault::unreadable("no answer to a count".to_owned()))?;
    Ok(Numbers {
        outbox: match outbox {
            None => None,
            Some((layout, statements, at)) => {
                let read = (&row, at);
                Some(outbox::counts_of(db, &mut session, (layout, &statements), read).await?)
            }
        },
        inbox_recent: inbox
            .map(|at| business::recent_of(db, &row, at))
            .transpose()?,
        waiting: parked
            .map(|at| waiting::summary_of(db, &row, at))
            .transpose()?,
        dead_letters: letters
            .map(|at| dead_letter::counts_of(db, &row, at))
            .transpose()?,
    })
}
