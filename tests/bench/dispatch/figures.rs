//! Every figure with its target, and the lines that say what became of it.

use std::collections::BTreeSet;
use std::process::ExitCode;

/// Figures measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Events a second, end to end.
    Throughput,
    /// Rows read and locked by one claim.
    Claim,
}

impl Group {
    pub const ALL: [Self; 2] = [Self::Throughput, Self::Claim];

    /// How it is chosen on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Claim => "claim",
        }
    }
}

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
struct Figure {
    group: Group,
    name: &'static str,
    unit: &'static str,
    bound: Bound,
}

const fn figure(group: Group, name: &'static str, unit: &'static str, bound: Bound) -> Figure {
    Figure {
        group,
        name,
        unit,
        bound,
    }
}

/// Rows a claim takes here.
pub const BATCH: u32 = 500;

const LOCKS_MAX: Bound = Bound::AtMost(2.0 * BATCH as f64 + 20.0);

const FIGURES: &[Figure] = &[
    figure(
        Group::Throughput,
        "dispatch_1_worker_over_bare",
        "ratio",
        Bound::AtLeast(0.35),
    ),
    figure(
        Group::Throughput,
        "dispatch_2_workers_over_bare",
        "ratio",
        Bound::AtLeast(0.5),
    ),
    figure(
        Group::Throughput,
        "dispatch_1_worker_over_python_per_row",
        "ratio",
        Bound::AtLeast(12.0),
    ),
    figure(
        Group::Claim,
        "claim_select_rows_read_1m_due",
        "x_batch",
        Bound::AtMost(1.1),
    ),
    figure(
        Group::Claim,
        "claim_whole_rows_read_1m_due",
        "x_batch",
        Bound::AtMost(2.2),
    ),
    figure(Group::Claim, "claim_row_locks_1m_due", "rows", LOCKS_MAX),
    figure(
        Group::Claim,
        "claim_second_while_first_open",
        "rows",
        Bound::AtLeast(BATCH as f64),
    ),
    figure(
        Group::Claim,
        "sequence_claim_whole_rows_read_1m_due",
        "x_batch",
        Bound::AtMost(6.0),
    ),
    figure(
        Group::Claim,
        "sequence_claim_row_locks_1m_due",
        "rows",
        LOCKS_MAX,
    ),
    figure(
        Group::Claim,
        "sequence_claim_rows_read_behind_100k_held",
        "x_batch",
        Bound::AtMost(6.0),
    ),
];

/// The run's report.
pub struct Figures {
    groups: Vec<Group>,
    measured: BTreeSet<&'static str>,
    is_short: bool,
}

impl Figures {
    /// Measures the groups named in `arguments`, or all.
    pub fn new(arguments: &[String]) -> Self {
        let is_named = |group: &Group| arguments.iter().any(|argument| argument == group.word());
        let named: Vec<Group> = Group::ALL.into_iter().filter(is_named).collect();
        Self {
            groups: if named.is_empty() {
                Group::ALL.to_vec()
            } else {
                named
            },
            measured: BTreeSet::new(),
            is_short: false,
        }
    }

    /// Whether the group was asked for.
    pub fn wants(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    /// Reports a value.
    pub fn set(&mut self, name: &str, value: f64) {
        let Some(figure) = FIGURES.iter().find(|figure| figure.name == name) else {
            note(&format!("{name} is no figure"));
            self.is_short = true;
            return;
        };
        let is_ok = figure.bound.holds(value);
        self.is_short |= !is_ok;
        self.measured.insert(figure.name);
        line(figure, &rounded(value), if is_ok { "ok" } else { "short" });
    }

    /// Reports what has no value; a figure nobody measured is never taken for a good one.
    pub fn finish(mut self) -> ExitCode {
        for figure in FIGURES
            .iter()
            .filter(|figure| self.groups.contains(&figure.group))
        {
            if !self.measured.contains(figure.name) {
                self.is_short = true;
                line(figure, "?", "missing");
            }
        }
        ExitCode::from(u8::from(self.is_short))
    }
}

/// At most three decimals, none where there are none.
fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(clippy::print_stdout, reason = "the report is this program's output")]
fn line(figure: &Figure, value: &str, verdict: &str) {
    let Figure {
        name, unit, bound, ..
    } = figure;
    println!("figure {name} {value} {unit} target {bound} {verdict}");
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
