//! One drill on screen.

use serde::Serialize;
use serde_json::Value;

use crate::drill::Drill;
use crate::model::filter::{FieldText, Fields, FilterKind};

/// How a drill ended that was run from the console.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// It was not.
    #[default]
    Not,
    /// It is running.
    Now,
    /// It could not be run.
    Problem(String),
    /// Its report.
    Report(Value),
}

/// A registered drill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrillRow {
    /// Its number.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// The window.
    pub window: &'static str,
    /// The fault.
    pub inject: &'static str,
    /// What must come of it.
    pub expect: &'static str,
    /// How that is verified.
    pub verify: &'static str,
    /// Where it plays.
    pub places: Vec<&'static str>,
    /// How it ended.
    pub ran: Ran,
}

impl DrillRow {
    /// A drill that was not run yet.
    pub fn of(drill: &Drill) -> Self {
        Self {
            number: drill.number,
            name: drill.name,
            window: drill.window,
            inject: drill.inject,
            expect: drill.expect,
            verify: drill.verify,
            places: drill.places.iter().map(|place| place.word()).collect(),
            ran: Ran::Not,
        }
    }

    /// `passed`, `failed`, `not run`, `running`, or nothing yet.
    pub fn verdict(&self) -> &str {
        match &self.ran {
            Ran::Not => "",
            Ran::Now => "running",
            Ran::Problem(_) => "not run",
            Ran::Report(report) => match report.get("verdict").and_then(Value::as_str) {
                Some("not_run") => "not run",
                Some(verdict) => verdict,
                None => "?",
            },
        }
    }

    /// What went wrong, in a few words.
    pub fn why(&self) -> Option<String> {
        match &self.ran {
            Ran::Not | Ran::Now => None,
            Ran::Problem(problem) => Some(problem.clone()),
            Ran::Report(report) => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let reason = report.get("reason").and_then(text);
                let claim = || {
                    let checks = report.get("checks").and_then(Value::as_array)?;
                    let broken = checks.iter().find(|check| !holds(check))?;
                    broken.get("claim").and_then(text)
                };
                reason.or_else(claim)
            }
        }
    }
}

/// True when a claim of a report is known to hold.
pub fn holds(check: &Value) -> bool {
    check.get("holds").and_then(Value::as_bool) == Some(true)
}

impl Fields for DrillRow {
    fn kind(&self) -> FilterKind {
        FilterKind::Drills
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        let text = |text: &'static str| Some(FieldText::Text(text.into()));
        match name {
            "drill" => text(self.name),
            "window" => text(self.window),
            "verdict" => Some(FieldText::Text(self.verdict().into())),
            _ => None,
        }
    }
}
