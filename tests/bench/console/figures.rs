//! Every figure with its target, and the lines that say what became of it.

use std::collections::BTreeSet;
use std::process::ExitCode;

/// Figures measured together, in the order they are measured: what is timed runs before the large
/// tables are filled, so that the database's own housekeeping does not disturb it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Process start to first frame.
    FirstFrame,
    /// Key press to frame.
    Keys,
    /// Rows read by one refresh.
    Refresh,
    /// Rows read by one page.
    Pages,
    /// What a console costs that nobody touches.
    Idle,
    /// The dispatcher's claim.
    Claim,
}

impl Group {
    pub const ALL: [Self; 6] = [
        Self::FirstFrame,
        Self::Keys,
        Self::Refresh,
        Self::Pages,
        Self::Idle,
        Self::Claim,
    ];

    /// How it is chosen on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::FirstFrame => "first-frame",
            Self::Keys => "keys",
            Self::Refresh => "refresh",
            Self::Pages => "pages",
            Self::Idle => "idle",
            Self::Claim => "claim",
        }
    }
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
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

const fn at_most(group: Group, name: &'static str, unit: &'static str, bound: f64) -> Figure {
    Figure {
        group,
        name,
        unit,
        bound: Bound::AtMost(bound),
    }
}

const fn at_least(group: Group, name: &'static str, unit: &'static str, bound: f64) -> Figure {
    Figure {
        group,
        name,
        unit,
        bound: Bound::AtLeast(bound),
    }
}

/// Rows a claim takes here.
pub const CLAIM_BATCH: u32 = 200;

const FIGURES: &[Figure] = &[
    at_most(Group::FirstFrame, "first_frame_median", "ms", 50.0),
    at_most(Group::FirstFrame, "first_frame_worst", "ms", 50.0),
    at_most(Group::Keys, "key_to_frame_p99_unreached", "ms", 16.0),
    at_most(Group::Keys, "key_to_frame_p99_hanging", "ms", 16.0),
    at_most(
        Group::Refresh,
        "refresh_rows_read_1m_over_10k",
        "ratio",
        1.2,
    ),
    at_most(Group::Refresh, "refresh_rows_read_1m_due", "rows", 50_000.0),
    at_most(Group::Pages, "page_rows_read_worst", "x_page", 2.0),
    at_most(Group::Idle, "idle_useless_writes", "writes", 0.0),
    at_most(Group::Idle, "idle_terminal", "bytes/s", 1000.0),
    at_most(Group::Idle, "idle_cpu", "%", 1.0),
    at_most(Group::Idle, "memory_peak_1m", "MiB", 32.0),
    at_most(
        Group::Claim,
        "claim_select_rows_read_1m_due",
        "x_batch",
        1.1,
    ),
    at_most(Group::Claim, "claim_whole_rows_read_1m_due", "x_batch", 2.2),
    at_most(
        Group::Claim,
        "claim_row_locks_1m_due",
        "rows",
        2.0 * CLAIM_BATCH as f64 + 20.0,
    ),
    at_least(
        Group::Claim,
        "claim_second_while_first_open",
        "rows",
        CLAIM_BATCH as f64,
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
        let named: Vec<Group> = Group::ALL
            .into_iter()
            .filter(|group| arguments.iter().any(|argument| argument == group.word()))
            .collect();
        let groups = if named.is_empty() {
            Group::ALL.to_vec()
        } else {
            named
        };
        Self {
            groups,
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
