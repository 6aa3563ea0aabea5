//! What a measurement prints, one line a figure, and what it says beside them:
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```

use std::process::ExitCode;

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<={bound}"),
            Self::AtLeast(bound) => write!(f, ">={bound}"),
        }
    }
}

/// A promise.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    unit: &'static str,
    bound: Bound,
}

impl Figure {
    /// A figure that may be so much.
    pub const fn at_most(name: &'static str, unit: &'static str, bound: f64) -> Self {
        Self {
            name,
            unit,
            bound: Bound::AtMost(bound),
        }
    }

    /// A figure that must be so much.
    pub const fn at_least(name: &'static str, unit: &'static str, bound: f64) -> Self {
        Self {
            name,
            unit,
            bound: Bound::AtLeast(bound),
        }
    }
}

/// Prints figures, and keeps whether every one of them holds.
#[derive(Default)]
pub struct Report {
    is_short: bool,
}

impl Report {
    /// A figure and its value; `None`: it could not be measured, and is never taken for a good one.
    pub fn figure(&mut self, figure: &Figure, value: Option<f64>) {
        let Figure { name, unit, bound } = figure;
        let word = match value {
            None => "missing",
            Some(value) if bound.holds(value) => "ok",
            Some(_) => "short",
        };
        self.is_short |= word != "ok";
        let value = value.map_or_else(|| "?".to_owned(), rounded);
        line(&format!(
            "figure {name} {value} {unit} target {bound} {word}"
        ));
    }

    /// 1 when a figure is short of its target or missing.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.is_short))
    }
}

/// At most three decimals, none where there are none.
fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(clippy::print_stdout, reason = "the report is this program's output")]
fn line(text: &str) {
    println!("{text}");
}

/// Progress and details, beside the report.
#[expect(clippy::print_stderr, reason = "for whoever waits or wonders")]
pub fn note(text: &str) {
    eprintln!("# {text}");
}

/// A count as a figure's value.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub const fn float(count: u64) -> f64 {
    count as f64
}
