//! What a drill found out: claims with what was expected and what was found, and the verdict.

use serde::Serialize;

use super::record::Record;

/// One thing that must hold when everything has recovered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The claim, for a person.
    pub claim: String,
    /// What must be found.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// True when both are the same.
    pub holds: bool,
}

impl Check {
    /// Compares two values.
    pub fn equal<T: PartialEq + std::fmt::Display>(
        claim: impl Into<String>,
        expected: &T,
        found: &T,
    ) -> Self {
        Self {
            claim: claim.into(),
            expected: expected.to_string(),
            found: found.to_string(),
            holds: expected == found,
        }
    }

    /// Holds a number against its upper bound.
    pub fn at_most(claim: impl Into<String>, bound: u64, found: u64) -> Self {
        Self {
            claim: claim.into(),
            expected: format!("at most {bound}"),
            found: found.to_string(),
            holds: found <= bound,
        }
    }

    /// Holds a number against its lower bound.
    pub fn at_least(claim: impl Into<String>, bound: u64, found: u64) -> Self {
        Self {
            claim: claim.into(),
            expected: format!("at least {bound}"),
            found: found.to_string(),
            holds: found >= bound,
        }
    }

    /// A claim that is true or not.
    pub fn is(claim: impl Into<String>, holds: bool) -> Self {
        Self::equal(claim, &"yes", &if holds { "yes" } else { "no" })
    }

    /// One line, e.g. `stock is reserved once: expected 3, found 6`.
    pub fn line(&self) -> String {
        format!(
            "{}: expected {}, found {}",
            self.claim, self.expected, self.found
        )
    }
}

/// How a drill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every claim held.
    Passed,
    /// A claim did not hold, or a fact that must come did not.
    Failed,
    /// Not tried: something is missing here. Never counted as passed.
    NotRun,
}

impl Verdict {
    /// The word on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        }
    }
}

/// Everything one drill did and found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrillReport {
    /// Its number in the table of windows.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// The window.
    pub window: &'static str,
    /// `real` or `embedded`.
    pub place: &'static str,
    /// The fault.
    pub inject: &'static str,
    /// What must come of it.
    pub expect: &'static str,
    /// How that is verified.
    pub verify: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it was not run, or which fact did not come.
    pub reason: Option<String>,
    /// True when `reason` is a server that did not answer or a program that is not configured.
    pub is_dependency: bool,
    /// The claims.
    pub checks: Vec<Check>,
    /// What the drill did, in order, with the seconds since its start.
    pub steps: Vec<Step>,
    /// The business and the pipeline after the orders were placed, before the fault was over.
    pub before: Option<Record>,
    /// The same after recovery.
    pub after: Option<Record>,
    /// Deliveries of the drill's events by consumer, repeated ones too.
    pub deliveries: Vec<(String, u64)>,
    /// Rows lost: committed orders without an order, an event or an effect at the end.
    pub rpo_rows: Option<u64>,
    /// Seconds from the end of the fault to recovery; `None` when it did not recover in time.
    pub rto_s: Option<f64>,
    /// Seconds it took in all.
    pub took_s: f64,
}

/// One step of a drill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Seconds since the drill began.
    pub at_s: f64,
    /// What was done or seen.
    pub what: String,
}

impl DrillReport {
    /// Claims that did not hold.
    pub fn damage(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.holds)
    }
}
