//! A plan as lines: the same facts as the console's dialog.

use crate::base::text::safe;
use crate::operate::plan::{ConfirmRules, HeaderChange, Level, Plan};

/// Every line of a plan, without what the confirmation needs.
pub(super) fn lines(plan: &Plan) -> Vec<String> {
    let mut out = vec![
        format!(
            "{} {}  in {} ({})",
            plan.verb.command(),
            plan.event_id.as_ref().map_or("", |id| id.as_str()),
            safe(&plan.context),
            plan.environment.word()
        ),
        safe(&plan.headline),
    ];
    if let Some(destination) = &plan.destination {
        out.push(format!("to       {}", safe(&destination.text)));
    }
    if let Some(payload) = &plan.payload {
        out.push(format!("payload  {}", safe(payload)));
    }
    if plan.destination.is_some() || !plan.header_changes.is_empty() {
        out.push(format!("headers  keep {}", plan.headers_kept));
    }
    out.extend(plan.header_changes.iter().map(header));
    for line in &plan.preflight {
        let sign = match line.level {
            Level::Pass => "✓",
            Level::Warning => "!",
            Level::Overridable | Level::Refusal => "✖",
        };
        let remedy = if line.level == Level::Overridable {
            format!("  (--override {})", line.check)
        } else {
            String::new()
        };
        out.push(format!("{sign} {}{remedy}", safe(&line.text)));
    }
    if let Some(diff) = &plan.diff {
        out.extend(diff.lines().map(|line| format!("    {}", safe(line))));
    }
    out.push(format!("same as  {}", safe(&plan.command_line)));
    out
}

fn header(change: &HeaderChange) -> String {
    let was = change.original.as_deref().map(safe);
    let becomes = change.becomes.as_deref().map(safe);
    let detail = match (was, becomes) {
        (Some(was), Some(becomes)) => format!(" {was} → {becomes}"),
        (Some(was), None) => format!(" (was {was})"),
        (None, Some(becomes)) => format!(" {becomes}"),
        (None, None) => String::new(),
    };
    format!("         {} {}{detail}", change.action, safe(&change.field))
}

/// What must be given with `--apply --yes`, besides the reason.
pub(super) fn flags(rules: &ConfirmRules) -> Vec<String> {
    let mut out = vec!["--reason TEXT".to_owned()];
    if let Some(pattern) = &rules.ticket_pattern {
        out.push(format!("--ticket {pattern}"));
    }
    if let Some(name) = &rules.context_name {
        out.push(format!("--context-name {name}"));
    }
    if let Some(count) = rules.count {
        out.push(format!("--count {count}"));
    }
    if let Some(word) = &rules.word {
        out.push(format!("--word {word}"));
    }
    out
}
