//! Where answers go: stdout has data and nothing else, stderr has the rest.

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::Outcome;

/// Form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    #[default]
    Table,
    /// One JSON object.
    Json,
    /// One JSON item a line.
    Ndjson,
    /// Comma-separated values with headings.
    Csv,
}

/// Writes an answer to stdout; what was unread also goes to stderr where the form has no place for it.
///
/// # Errors
/// A closed pipe ends quietly, anything else is an internal error.
pub fn answer(format: Format, answer: &Answer) -> Outcome {
    let stdout = std::io::stdout();
    let is_terminal = stdout.is_terminal();
    let text = match format {
        Format::Table => answer.text(terminal_columns()),
        Format::Json => answer.json(is_terminal)?,
        Format::Ndjson => answer.ndjson()?,
        Format::Csv => answer.table.csv(),
    };
    if matches!(format, Format::Ndjson | Format::Csv) {
        for line in answer.unread_lines() {
            say(&line)?;
        }
        if answer.more == Some(true)
            && let Some(note) = answer.notes.first()
        {
            say(note)?;
        }
    }
    raw(&text)?;
    Ok(answer.exit())
}

/// Writes text to stdout as it stands.
///
/// # Errors
/// As [`answer`].
pub fn raw(text: &str) -> Outcome<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes one line to stderr: problems, prompts, progress.
///
/// # Errors
/// When stderr cannot be written.
pub fn say(line: &str) -> Outcome<()> {
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(line.as_bytes())?;
    stderr.write_all(b"\n")?;
    Ok(())
}

/// Reports a failure on stderr; nothing more can be done if that fails too.
pub fn report(failure: &super::failure::Failure) -> Exit {
    if !failure.message.is_empty() {
        let text = crate::base::text::safe(&failure.message).replace('␊', "\n");
        if say(&format!("redrive: {text}")).is_err() {
            return failure.exit;
        }
    }
    failure.exit
}

/// Columns of the terminal stdout goes to; `None` when it goes elsewhere: nothing is cut then.
pub(super) fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(columns, _)| usize::from(columns.0))
}
