//! `redrive trace ID`: the story of one event, aggregate, saga or operation.

use clap::Args;

use crate::base::text::cut;
use crate::diagnose::journey::lanes::{Chart, chart};
use crate::diagnose::journey::{self, Story, TraceError};

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::{self, Format};
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left};

/// Columns the picture is laid out for where stdout is no terminal; nothing is cut there.
const COLUMNS: usize = 120;

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Event id, aggregate id (the key), saga id or operation id; of event and saga ids the first
    /// characters do, at least 4
    #[arg(value_name = "ID")]
    pub id: String,
}

const MOMENTS: &[Column] = &[
    left("at"),
    left("recorded_at"),
    left("what"),
    left("lane"),
    left("to"),
    left("event"),
    flexible("text"),
];

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let exit = match &error {
            TraceError::NotFound { .. } | TraceError::Ambiguous { .. } => Exit::Usage,
            TraceError::Unread { .. } => Exit::Unreachable,
        };
        Self::new(exit, error.to_string())
    }
}

pub(super) async fn run(session: &Session, args: &TraceArgs) -> Outcome {
    let story = journey::trace(&session.services.observer, &args.id).await?;
    let mut answer = session.answer("journey");
    answer.unread.clone_from(&story.unread);
    answer.item(&story)?;
    if session.format == Format::Table {
        let columns = output::terminal_columns();
        let picture = chart(&story, columns.unwrap_or(COLUMNS));
        answer.head = lines(&picture, columns);
    } else {
        table(&mut answer, &story)?;
    }
    session.write(&answer)
}

/// The picture as lines; cut where there is a terminal.
fn lines(picture: &Chart, columns: Option<usize>) -> Vec<String> {
    let head = picture.head.iter().map(|(_, line)| line.clone());
    let rows = picture
        .rows
        .iter()
        .map(|row| format!("{}{}{}", row.times, row.art, row.text));
    let foot = picture.foot.iter().map(|(_, line)| line.clone());
    let lines = head
        .chain(picture.names.iter().cloned())
        .chain(rows)
        .chain(foot);
    lines
        .map(|line| match columns {
            Some(columns) => cut(&line, columns),
            None => line,
        })
        .collect()
}

fn table(answer: &mut Answer, story: &Story) -> Outcome<()> {
    answer.table = Table::new(MOMENTS);
    for moment in &story.moments {
        let what = serde_json::to_value(moment.what)?;
        answer.table.push(vec![
            Cell::time(moment.at),
            Cell::time(moment.recorded_at),
            Cell::text(what.as_str().unwrap_or_default()),
            Cell::text(&moment.lane),
            Cell::optional(moment.to.as_ref()),
            Cell::optional(moment.event_id.as_ref().map(ToString::to_string)),
            Cell::text(&moment.text),
        ]);
    }
    Ok(())
}
