//! `redrive scan findings|assign|note`: what scans found, who looks after it, and what is noted on it.

use clap::Args;

use crate::base::human::grouped;
use crate::model::count::Count;
use crate::model::page::Cursor;
use crate::model::scan::{Finding, FindingQuery, FindingState};

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left};

/// Arguments of `scan findings`.
#[derive(Debug, Args)]
pub struct FindingsArgs {
    /// One finding with its evidence: its id, or the start of one that is unique
    #[arg(value_name = "FINDING")]
    pub finding: Option<String>,
    /// Those that are gone instead of those that are open
    #[arg(long)]
    pub gone: bool,
    /// Only of this rule
    #[arg(long, value_name = "NAME")]
    pub rule: Option<String>,
    /// Only of this class
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Findings to print at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print every finding, page by page
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `scan assign`.
#[derive(Debug, Args)]
pub struct AssignArgs {
    /// Finding by its id, or the start of one that is unique
    #[arg(value_name = "FINDING")]
    pub finding: String,
    /// Who looks after it; - for nobody
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub owner: String,
    /// Do it
    #[arg(long)]
    pub apply: bool,
}

/// Arguments of `scan note`.
#[derive(Debug, Args)]
pub struct NoteArgs {
    /// Finding by its id, or the start of one that is unique
    #[arg(value_name = "FINDING")]
    pub finding: String,
    /// The note; - for none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: String,
    /// Do it
    #[arg(long)]
    pub apply: bool,
}

const FOUND: &[Column] = &[
    left("finding"),
    left("rule"),
    left("class"),
    left("subject"),
    left("first"),
    left("last"),
    left("owner"),
    flexible("what"),
];

/// Findings read at once.
const PAGE: u32 = 200;

pub(super) async fn list(session: &Session, args: &FindingsArgs) -> Outcome {
    let reconciler = &session.services.reconciler;
    let mut answer = session.answer("findings");
    answer.table = Table::new(FOUND);
    let wanted = if args.all {
        usize::MAX
    } else {
        usize::try_from(args.limit).unwrap_or(usize::MAX)
    };
    let matches = |finding: &Finding| {
        args.rule.as_ref().is_none_or(|rule| *rule == finding.rule)
            && args
                .class
                .as_ref()
                .is_none_or(|class| *class == finding.difference.class)
    };
    let mut after: Option<Cursor> = None;
    let mut more = false;
    'pages: loop {
        let query = FindingQuery {
            state: if args.gone {
                FindingState::Gone
            } else {
                FindingState::Open
            },
            after: after.take(),
            limit: PAGE,
        };
        let page = reconciler.findings(&query).await?;
        for finding in page.rows.iter().filter(|finding| matches(finding)) {
            if answer.items.len() == wanted {
                more = true;
                break 'pages;
            }
            answer.item(finding)?;
            finding_row(&mut answer, finding);
        }
        match page.next {
            None => break,
            next => after = next,
        }
    }
    let is_whole = args.rule.is_none() && args.class.is_none() && !args.gone;
    if is_whole {
        answer.total = reconciler.open_findings().await?;
    }
    answer.more = Some(more);
    if more {
        let total = answer
            .total
            .as_ref()
            .map_or("more".to_owned(), Count::to_string);
        answer.notes.push(format!(
            "{} of {total} shown; --limit N or --all prints more",
            grouped(answer.items.len() as u64)
        ));
    }
    if answer.items.is_empty() {
        // No finding because nobody looked is not the same as none.
        let last = reconciler.scans(1).await?;
        let told = if last.rows.is_empty() {
            "none, and no scan was run yet: `redrive scan run all`"
        } else {
            "none"
        };
        answer.notes.push(told.to_owned());
    } else if !args.gone {
        answer.exit = Exit::Findings;
    }
    session.write(&answer)
}

fn finding_row(answer: &mut Answer, finding: &Finding) {
    let difference = &finding.difference;
    answer.table.push(vec![
        Cell::text(finding.finding_id.as_str()),
        Cell::text(&finding.rule),
        Cell::text(&difference.class),
        Cell::text(&difference.subject),
        Cell::ago(Some(finding.first_seen_at), answer.as_of),
        Cell::ago(Some(finding.last_seen_at), answer.as_of),
        Cell::optional(finding.owner.as_ref()),
        Cell::text(&difference.summary),
    ]);
}

pub(super) async fn show(session: &Session, id: &str) -> Outcome {
    let finding = session.services.reconciler.finding(id).await?;
    let mut answer = session.answer("findings");
    answer.table = Table::new(FOUND);
    answer.item(&finding)?;
    finding_row(&mut answer, &finding);
    for fact in &finding.difference.facts {
        let value = fact.value.as_deref().unwrap_or("(not there)");
        answer.notes.push(format!("{}  {value}", fact.name));
    }
    if let Some(note) = &finding.note {
        answer.notes.push(format!("note: {note}"));
    }
    if let Some(suggestion) = &finding.difference.suggestion {
        answer.notes.push(format!("next: {}", suggestion.command));
    }
    if finding.state == FindingState::Open {
        answer.exit = Exit::Findings;
    }
    session.write(&answer)
}

/// `-` clears.
pub(super) fn cleared(text: &str) -> &str {
    match text.trim() {
        "-" => "",
        text => text,
    }
}

pub(super) async fn annotate(
    session: &Session,
    id: &str,
    (owner, note): (Option<&str>, Option<&str>),
    apply: bool,
) -> Outcome {
    let reconciler = &session.services.reconciler;
    let finding = reconciler.finding(id).await?;
    let mut answer = session.answer("findings");
    answer.table = Table::new(FOUND);
    let became = |text: &str| {
        if text.is_empty() {
            "nobody and nothing".to_owned()
        } else {
            format!("{text:?}")
        }
    };
    let what = match (owner, note) {
        (Some(owner), _) => format!("owner becomes {}", became(owner)),
        (None, note) => format!("note becomes {}", became(note.unwrap_or_default())),
    };
    if !apply {
        answer.item(&finding)?;
        finding_row(&mut answer, &finding);
        answer
            .notes
            .push(format!("{what}; nothing was done: --apply does it"));
        return session.write(&answer);
    }
    let Some((service, _)) = reconciler.home() else {
        return Err(Failure::internal("a finding without a journal"));
    };
    session
        .services
        .operator
        .annotate_finding(service, &finding.finding_id, owner, note)
        .await?;
    let finding = reconciler.finding(finding.finding_id.as_str()).await?;
    answer.item(&finding)?;
    finding_row(&mut answer, &finding);
    answer.notes.push(what);
    session.write(&answer)
}
