//! `redrive doctor`: what is wrong, in sentences, and who recovers it. Exit code 3 when something is
//! wrong, else 5 when something could not be looked at.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::base::human;
use crate::base::text::safe;
use crate::diagnose::rule::VERDICTS;
use crate::diagnose::{Severity, Verdict, examine};

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::{self, Format};
use super::session::{self, Session};
use super::table::{Cell, Column, Table, flexible, left};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Name the rules with their ids and what each looks for; reaches nothing
    #[arg(long)]
    pub list: bool,
}

const COLUMNS: &[Column] = &[
    left("severity"),
    left("verdict"),
    left("subject"),
    left("since"),
    flexible("sentence"),
    left("window"),
    left("recovers"),
    left("evidence"),
    left("next"),
];

const RULES: &[Column] = &[left("verdict"), left("window"), flexible("looks for")];

/// A verdict with where the runbook tells what to do.
#[derive(Serialize)]
struct Item<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    runbook: String,
}

/// Names the rules.
pub(super) fn list(format: Format) -> Outcome {
    let mut answer = Answer::new("verdict_rules", None, session::now());
    answer.table = Table::new(RULES);
    for rule in VERDICTS {
        answer.item(&json!({
            "id": rule.id,
            "summary": rule.summary,
            "window": rule.window,
            "recovers": rule.recovers,
            "explained_by": rule.explained_by,
        }))?;
        answer.table.push(vec![
            Cell::text(rule.id),
            Cell::text(rule.window.map_or("–", crate::diagnose::Window::words)),
            Cell::text(rule.summary),
        ]);
    }
    output::answer(format, &answer)
}

pub(super) async fn run(session: &Session) -> Outcome {
    let found = examine(&session.services.observer).await;
    let mut answer = session.answer("verdicts");
    answer.unread.clone_from(&found.unread);
    answer.looks = Some(found.looks);
    let is_blind = !found.unread.is_empty()
        || found
            .verdicts
            .iter()
            .any(|verdict| verdict.severity == Severity::Unseen);
    if found.is_anything_wrong() {
        answer.exit = Exit::Findings;
        answer.is_exit_fixed = true;
    } else if is_blind {
        answer.exit = Exit::Unreachable;
    }
    if session.format != Format::Table {
        answer.table = Table::new(COLUMNS);
    }
    for verdict in &found.verdicts {
        answer.item(&Item {
            verdict,
            runbook: verdict.runbook(),
        })?;
        if session.format == Format::Table {
            answer.head.extend(lines(session, verdict));
        } else {
            answer.table.push(row(verdict));
        }
    }
    if found.verdicts.is_empty() {
        answer.head.push(if is_blind {
            "? nothing is wrong that could be looked at".to_owned()
        } else {
            format!("✓ nothing is wrong, in {} looks", found.looks)
        });
    }
    session.write(&answer)
}

fn evidence(verdict: &Verdict) -> String {
    match &verdict.evidence.filter {
        Some(filter) => format!("{} {filter}", verdict.evidence.pane),
        None => verdict.evidence.pane.to_owned(),
    }
}

/// A verdict for people.
fn lines(session: &Session, verdict: &Verdict) -> Vec<String> {
    let age = session.now().seconds_since(verdict.since).max(0.0);
    let window = verdict.window.map_or_else(String::new, |window| {
        format!("window: {} · ", window.words())
    });
    let mut lines = vec![
        format!("{} {}", verdict.severity.sign(), safe(&verdict.sentence)),
        format!(
            "    {window}recovers: {} · evidence: {}",
            verdict.recovers,
            safe(&evidence(verdict))
        ),
        format!(
            "    since {} ({}) · next: {} · {}",
            verdict.since.to_clock(),
            human::age(age),
            safe(&verdict.next),
            verdict.runbook()
        ),
    ];
    if let Some(reason) = &verdict.unseen {
        lines.push(format!(
            "    could not be looked at again: {}",
            safe(reason)
        ));
    }
    if !verdict.explains.is_empty() {
        lines.push(format!(
            "    from it follow: {}",
            safe(&verdict.explains.join(", "))
        ));
    }
    lines
}

fn row(verdict: &Verdict) -> Vec<Cell> {
    vec![
        Cell::text(verdict.severity.word()),
        Cell::text(verdict.id),
        Cell::text(&verdict.subject),
        Cell::text(verdict.since.to_rfc3339()),
        Cell::text(&verdict.sentence),
        Cell::text(verdict.window.map_or("", crate::diagnose::Window::words)),
        Cell::text(verdict.recovers),
        Cell::text(evidence(verdict)),
        Cell::text(&verdict.next),
    ]
}
