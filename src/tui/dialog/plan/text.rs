//! What the dialog of an action says: the plan, then the progress and the proof.

use super::{PlanDialog, Stage};
use crate::model::operation::{ItemState, Operation};
use crate::operate::plan::{Applied, HeaderChange, Level, Plan, PreflightLine};
use crate::tui::pane::operations::item_glyph;
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, line};
use crate::tui::world::World;

/// Columns of the labels.
pub const LABEL: usize = 9;

fn label(word: &str, text: impl Into<String>, role: Role) -> Line {
    vec![
        Span::new(format!("{word:<LABEL$}"), Role::Dim),
        Span::new(text, role),
    ]
}

/// The text of the dialog at a width.
pub fn lines(dialog: &PlanDialog, width: usize, world: &World) -> Vec<Line> {
    match &dialog.stage {
        Stage::Planning => vec![line("making the plan: reading only …", Role::Dim)],
        Stage::NoPlan(why) => vec![
            vec![
                Span::new("✖ ", Role::Bad),
                Span::new(why.clone(), Role::Bad),
            ],
            line("nothing was done", Role::Dim),
        ],
        Stage::Ready(plan) => plan_lines(plan, width, world),
        Stage::Applying(plan) => {
            let mut out = short_plan(plan);
            out.push(line("▶ being applied …", Role::Accent));
            out
        }
        Stage::Done {
            plan,
            applied,
            operation,
        } => {
            let mut out = short_plan(plan);
            out.extend(progress(applied, operation.as_deref(), world));
            out
        }
        Stage::Refused { plan, problem } => {
            let mut out = short_plan(plan);
            out.push(Line::new());
            out.push(vec![
                Span::new("✖ ", Role::Bad),
                Span::new(problem.clone(), Role::Bad),
            ]);
            out.push(line("nothing was done", Role::Dim));
            out
        }
    }
}

fn short_plan(plan: &Plan) -> Vec<Line> {
    let mut out = vec![line(plan.headline.clone(), Role::Strong)];
    if let Some(destination) = &plan.destination {
        out.push(label("to", destination.text.clone(), Role::Text));
    }
    out
}

fn plan_lines(plan: &Plan, width: usize, world: &World) -> Vec<Line> {
    let mut out = short_plan(plan);
    if let Some(destination) = &plan.destination {
        if destination.queues.len() > 1 {
            out.push(label(
                "copies",
                format!(
                    "{} queues: {}",
                    destination.queues.len(),
                    destination.queues.join(", ")
                ),
                Role::Warn,
            ));
        }
        if destination.consumers == Some(0) {
            out.push(label("", "! nobody consumes there now", Role::Warn));
        }
    }
    if let Some(payload) = &plan.payload {
        out.push(label("payload", payload.clone(), Role::Text));
    }
    if plan.destination.is_some() {
        out.push(label("headers", headers(plan), Role::Text));
    }
    out.extend(preflight(&plan.preflight, width));
    if let Some(diff) = &plan.diff {
        out.push(label("diff", "", Role::Text));
        for text in diff.lines() {
            let role = match text.as_bytes().first() {
                Some(b'+') => Role::Added,
                Some(b'-') => Role::Removed,
                Some(b'@') => Role::Accent,
                _ => Role::Dim,
            };
            out.push(line(format!("  {text}"), role));
        }
    }
    out.push(label("same as", plan.command_line.clone(), Role::Dim));
    if let Some(left) = world.unlocked_for() {
        out.push(label(
            "",
            format!("unlocked for {}", crate::base::human::duration(left)),
            Role::Dim,
        ));
    }
    out
}

/// `keep 6; remove x-death, x-first-death-*; clear expiration 60000`
fn headers(plan: &Plan) -> String {
    let mut parts = vec![format!("keep {}", plan.headers_kept)];
    for action in ["remove", "clear", "set"] {
        let mut changes = plan
            .header_changes
            .iter()
            .filter(|change| change.action == action)
            .peekable();
        if changes.peek().is_some() {
            let fields = changes.map(change_text).collect::<Vec<_>>().join(", ");
            parts.push(format!("{action} {fields}"));
        }
    }
    for change in &plan.header_changes {
        if !["remove", "clear", "set"].contains(&change.action.as_str()) {
            parts.push(format!("{} {}", change.action, change_text(change)));
        }
    }
    parts.join("; ")
}

fn change_text(change: &HeaderChange) -> String {
    const VALUE_MAX: usize = 40;
    match (change.action.as_str(), &change.original, &change.becomes) {
        ("remove", ..) => change.field.clone(),
        ("clear", Some(original), _) => {
            format!(
                "{} {}",
                change.field,
                crate::base::text::cut(original, VALUE_MAX)
            )
        }
        (_, _, Some(becomes)) => {
            format!(
                "{} {}",
                change.field,
                crate::base::text::cut(becomes, VALUE_MAX)
            )
        }
        _ => change.field.clone(),
    }
}

const fn level_glyph(level: Level) -> (&'static str, Role) {
    match level {
        Level::Pass => ("✓", Role::Good),
        Level::Warning => ("!", Role::Warn),
        Level::Overridable | Level::Refusal => ("✖", Role::Bad),
    }
}

/// Preflight lines, two abreast where both are short; what forbids stands alone.
fn preflight(lines: &[PreflightLine], width: usize) -> Vec<Line> {
    let half = width / 2;
    let mut out: Vec<Line> = Vec::new();
    let mut is_open = false;
    for check in lines {
        let (glyph, role) = level_glyph(check.level);
        let text = match check.level {
            Level::Overridable => format!("{}  (o: override {})", check.text, check.check),
            Level::Pass | Level::Warning | Level::Refusal => check.text.clone(),
        };
        let text_role = if check.level == Level::Pass {
            Role::Text
        } else {
            role
        };
        let span = [
            Span::new(format!("{glyph} "), role),
            Span::new(text, text_role),
        ];
        let is_short = paint::line_width(&span) + 2 <= half && check.level < Level::Overridable;
        if is_short
            && is_open
            && let Some(last) = out.last_mut()
        {
            let pad = half.saturating_sub(paint::line_width(last));
            last.push(Span::new(" ".repeat(pad), Role::Text));
            last.extend(span);
            is_open = false;
            continue;
        }
        out.push(span.to_vec());
        is_open = is_short;
    }
    out
}

/// What became of it so far, and what proves it.
fn progress(applied: &Applied, operation: Option<&Operation>, world: &World) -> Vec<Line> {
    let mut out = vec![Line::new()];
    let items: Vec<(ItemState, String, String)> = match operation {
        Some(operation) => operation
            .items
            .iter()
            .map(|item| {
                let new = item
                    .new_event_id
                    .as_ref()
                    .map_or_else(String::new, |id| format!("  new event {id}"));
                (
                    item.state,
                    item.event_id
                        .as_ref()
                        .map_or_else(String::new, ToString::to_string),
                    format!("{}{new}", item.evidence.clone().unwrap_or_default()),
                )
            })
            .collect(),
        None => applied
            .items
            .iter()
            .map(|item| {
                let new = item
                    .new_event_id
                    .as_ref()
                    .map_or_else(String::new, |id| format!("  new event {id}"));
                (
                    item.state,
                    item.event_id
                        .as_ref()
                        .map_or_else(String::new, ToString::to_string),
                    format!("{}{new}", item.evidence),
                )
            })
            .collect(),
    };
    for (state, event, evidence) in items {
        out.push(steps(state));
        if !event.is_empty() {
            out.push(label("event", event, Role::Text));
        }
        if !evidence.is_empty() {
            let (_, role) = item_glyph(state);
            out.push(label("evidence", evidence, role));
        }
        let word = match state {
            ItemState::Published => Some((
                "waits for its inbox row or its next death; it goes on without this dialog",
                Role::Dim,
            )),
            ItemState::Unknown => Some((
                "nobody can say yet. Sending it again is safe: the same id, the inbox absorbs it",
                Role::Unknown,
            )),
            ItemState::DiedAgain => Some((
                "it did not survive: the dead letter is open again",
                Role::Bad,
            )),
            ItemState::Unroutable | ItemState::Refused => Some((
                "nothing was sent; the dead letter is open again",
                Role::Warn,
            )),
            _ => None,
        };
        if let Some((text, role)) = word {
            out.push(label("", text, role));
        }
    }
    out.push(label(
        "record",
        format!(
            "operation {} in {} (8 Operations)",
            applied.operation_id, applied.service
        ),
        Role::Dim,
    ));
    if let Some(operation) = operation {
        let now = operation.finished_at.unwrap_or(world.now);
        let word = match operation.finished_at {
            Some(_) => "took",
            None => "for",
        };
        out.push(label(
            word,
            crate::base::human::age(now.seconds_since(operation.created_at).max(0.0)),
            Role::Dim,
        ));
    }
    out
}

/// `✓ reserved ──▶ ✓ published ──▶ ▶ proof`: how far it is.
fn steps(state: ItemState) -> Line {
    let (glyph, role) = item_glyph(state);
    let word = state.word().replace('_', " ");
    let done = |word: &str| Span::new(format!("✓ {word}"), Role::Good);
    let arrow = || Span::new("  ──▶  ", Role::Border);
    match state {
        ItemState::Applied => vec![Span::new("✓ applied, in one transaction", Role::Good)],
        ItemState::Published => vec![
            done("reserved"),
            arrow(),
            done("published"),
            arrow(),
            Span::new("▶ consumed?", Role::Accent),
        ],
        ItemState::Consumed | ItemState::DiedAgain => vec![
            done("reserved"),
            arrow(),
            done("published"),
            arrow(),
            Span::new(format!("{glyph} {word}"), role),
        ],
        ItemState::Reserved | ItemState::Publishing => {
            vec![Span::new(format!("{glyph} {word}"), role)]
        }
        ItemState::Unroutable | ItemState::Refused | ItemState::Unknown => vec![
            done("reserved"),
            arrow(),
            Span::new(format!("{glyph} {word}"), role),
        ],
    }
}
