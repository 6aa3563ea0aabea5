//! `redrive check`: what works, with which rights, and what is missing.

use serde_json::json;

use crate::assembly::CheckLevel;
use crate::observe::snapshot::Unread;

use super::exit::Exit;
use super::failure::Outcome;
use super::session::Session;
use super::table::{Cell, Column, Table, left};

const COLUMNS: &[Column] = &[left("of"), left(""), left("subject"), left("finding")];

pub(super) async fn run(session: &Session) -> Outcome {
    let groups = session.services.check().await;
    let mut answer = session.answer("check");
    answer.table = Table::new(COLUMNS);
    let (mut problems, mut warnings) = (0_usize, 0_usize);
    for (group, lines) in &groups {
        for line in lines {
            let (word, sign) = match line.level {
                CheckLevel::Ok => ("ok", "✓"),
                CheckLevel::Warning => ("warning", "!"),
                CheckLevel::Problem => ("problem", "✖"),
                CheckLevel::Unreachable => ("unreachable", "?"),
            };
            warnings += usize::from(line.level == CheckLevel::Warning);
            problems += usize::from(line.level == CheckLevel::Problem);
            if line.level == CheckLevel::Unreachable {
                answer.unread.push(Unread {
                    what: format!("{} of {group}", line.subject),
                    reason: line.finding.clone(),
                    is_unreachable: true,
                });
            }
            answer.item(&json!({
                "of": group, "subject": line.subject, "level": word, "finding": line.finding,
            }))?;
            answer.table.push(vec![
                Cell::text(group),
                Cell::text(sign),
                Cell::text(&line.subject),
                Cell::text(&line.finding),
            ]);
        }
    }
    if problems > 0 {
        answer.exit = Exit::Findings;
    }
    answer
        .notes
        .push(format!("{problems} problems, {warnings} warnings"));
    session.write(&answer)
}
