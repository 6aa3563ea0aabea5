//! Drills: what each injects, expects and verifies, and how it ended when it was run from here. Sandboxes
//! only; a drill runs as a program of its own, so that what it does cannot reach the console.

use serde_json::Value;

use super::browser::Facts;
use super::listing::{ListPane, Listing};
use super::{Ask, PaneId, PaneSpec};
use crate::drill::DRILLS;
use crate::model::filter::FilterKind;
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

mod row;

pub use row::{DrillRow, Ran, holds};

/// Registration. Nothing is read for it: the servers' health is on the top line.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Drills,
    number: '0',
    title: "Drills",
    short: "Drill",
    word: "drills",
    scope: Scope::Drills,
    feed: "health",
    make: || Box::new(ListPane::<Drills>::default()),
};

/// Every drill, none of which was run yet.
pub fn rows() -> Vec<DrillRow> {
    DRILLS.iter().map(DrillRow::of).collect()
}

/// The registered drills.
#[derive(Default)]
pub struct Drills;

impl Listing for Drills {
    type Row = DrillRow;
    const FEED: &'static str = "health";
    const TITLE: &'static str = "Drills";
    const DETAIL: &'static str = "Drill";
    const NOTHING: &'static str = "no drill fits the filter";
    const KIND: FilterKind = FilterKind::Drills;
    const COLUMNS: &'static [Column] = &[
        Column::number("#", 3, 0),
        Column::text("drill", 19, 19, 0, 0),
        Column::text("verdict", 8, 8, 0, 0),
        Column::number("lost", 5, 3),
        Column::number("recovered", 9, 2),
        Column::text("plays", 14, 14, 0, 4),
        Column::text("window", 20, 60, 3, 1),
    ];

    fn parts(world: &World) -> Vec<(&str, &[DrillRow])> {
        vec![("", world.drills.as_slice())]
    }

    fn id(_service: &str, row: &DrillRow) -> String {
        row.name.to_owned()
    }

    fn summary(&self, world: &World) -> Line {
        let count = |verdict: &str| {
            let rows = world.drills.iter();
            rows.filter(|row| row.verdict() == verdict).count()
        };
        let mut line = Line::new();
        for (word, role) in [
            ("passed", Role::Good),
            ("failed", Role::Bad),
            ("running", Role::Strong),
        ] {
            let n = count(word);
            if n > 0 {
                line.push(Span::new(format!("{n} {word}   "), role));
            }
        }
        line
    }

    fn cells(_service: &str, row: &DrillRow, _world: &World) -> Vec<Span> {
        let verdict = row.verdict();
        let role = match verdict {
            "passed" => Role::Good,
            "failed" => Role::Bad,
            "running" => Role::Strong,
            _ => Role::Dim,
        };
        let of_report = |show: fn(&Value) -> String| match &row.ran {
            // What was not tried has lost nothing and recovered from nothing.
            Ran::Report(report) if verdict != "not run" => show(report),
            Ran::Report(_) | Ran::Not | Ran::Now | Ran::Problem(_) => String::new(),
        };
        vec![
            Span::new(row.number.to_string(), Role::Dim),
            Span::new(row.name, Role::Strong),
            Span::new(verdict, role),
            Span::new(of_report(lost), Role::Text),
            Span::new(of_report(|report| seconds(report, "rto_s")), Role::Text),
            Span::new(row.places.join(", "), Role::Dim),
            Span::new(row.window, Role::Text),
        ]
    }

    fn detail(_service: &str, row: &DrillRow, _world: &World) -> Vec<Line> {
        let mut facts = Facts::new(9);
        facts.add_as(
            "drill",
            format!("{} {}", row.number, row.name),
            Role::Strong,
        );
        // How it ended stands first: the rest is as it always is.
        match &row.ran {
            Ran::Not => {
                facts.add_as("verdict", "not run from here yet: R runs it", Role::Dim);
            }
            Ran::Now => {
                facts.add_as("verdict", "running", Role::Strong);
            }
            Ran::Problem(problem) => {
                facts.add_as("verdict", row.verdict(), Role::Bad).add_as(
                    "problem",
                    problem.as_str(),
                    Role::Bad,
                );
            }
            Ran::Report(report) => ended(row, report, &mut facts),
        }
        facts
            .add("window", row.window)
            .add("inject", row.inject)
            .add("expect", row.expect)
            .add("verify", row.verify);
        if let Ran::Report(report) = &row.ran {
            for check in items(report, "checks").filter(|check| holds(check)) {
                facts.add("✓", claim(check));
            }
            for step in items(report, "steps") {
                let at = step.get("at_s").and_then(Value::as_f64).unwrap_or_default();
                facts.add_as("", format!("{at:7.2}s  {}", part(step, "what")), Role::Dim);
            }
        }
        facts.take()
    }

    fn subject(row: &DrillRow) -> Option<String> {
        Some(row.name.to_owned())
    }

    fn act(
        &mut self,
        action: Action,
        selected: Option<(&str, &DrillRow)>,
        world: &World,
    ) -> Option<Vec<Ask>> {
        if action != Action::RunDrill {
            return None;
        }
        let (_, row) = selected?;
        let explain = |why: String| Some(vec![Ask::Explain(why)]);
        if !world.is_writable() {
            return explain("read-only: a drill writes".to_owned());
        }
        match world.drills.iter().find(|row| row.ran == Ran::Now) {
            Some(busy) => explain(format!("{} is still running: one at a time", busy.name)),
            None => Some(vec![Ask::Drill(row.number)]),
        }
    }
}

/// How a drill ended, and what did not hold.
fn ended(row: &DrillRow, report: &Value, facts: &mut Facts) {
    let verdict = row.verdict();
    if verdict == "not run" {
        facts.add_as("verdict", verdict, Role::Warn);
    } else {
        let role = if verdict == "passed" {
            Role::Good
        } else {
            Role::Bad
        };
        let told = format!(
            "{verdict}   {} rows lost   recovered in {}   took {}",
            lost(report),
            seconds(report, "rto_s"),
            seconds(report, "took_s")
        );
        facts.add_as("verdict", told, role);
    }
    if let Some(reason) = report.get("reason").and_then(Value::as_str) {
        facts.add_as("reason", reason, Role::Bad);
    }
    for check in items(report, "checks").filter(|check| !holds(check)) {
        facts.add_as("✖", claim(check), Role::Bad);
    }
}

fn items<'a>(report: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = report.get(name).and_then(Value::as_array);
    items.into_iter().flatten()
}

fn part<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or("?")
}

fn claim(check: &Value) -> String {
    format!(
        "{}: expected {}, found {}",
        part(check, "claim"),
        part(check, "expected"),
        part(check, "found")
    )
}

fn lost(report: &Value) -> String {
    let rows = report.get("rpo_rows").and_then(Value::as_u64);
    rows.map_or_else(|| "?".to_owned(), |n| n.to_string())
}

fn seconds(report: &Value, field: &str) -> String {
    let seconds = report.get(field).and_then(Value::as_f64);
    seconds.map_or_else(|| "?".to_owned(), |s| format!("{s:.1}s"))
}

#[cfg(test)]
mod tests;
