//! Every figure with its target.

use crate::groups::Grouping;
use crate::report::Figure;

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

/// Rows a claim takes here.
pub const CLAIM_BATCH: u32 = 200;

/// The run's report.
pub type Figures = crate::groups::Figures<Group>;

impl Grouping for Group {
    const ALL: &[Self] = &[
        Self::FirstFrame,
        Self::Keys,
        Self::Refresh,
        Self::Pages,
        Self::Idle,
        Self::Claim,
    ];

    const FIGURES: &[(Self, Figure)] = &[
        (
            Group::FirstFrame,
            Figure::at_most("first_frame_median", "ms", 50.0),
        ),
        (
            Group::FirstFrame,
            Figure::at_most("first_frame_worst", "ms", 50.0),
        ),
        (
            Group::Keys,
            Figure::at_most("key_to_frame_p99_unreached", "ms", 16.0),
        ),
        (
            Group::Keys,
            Figure::at_most("key_to_frame_p99_hanging", "ms", 16.0),
        ),
        (
            Group::Refresh,
            Figure::at_most("refresh_rows_read_1m_over_10k", "ratio", 1.2),
        ),
        (
            Group::Refresh,
            Figure::at_most("refresh_rows_read_1m_due", "rows", 50_000.0),
        ),
        (
            Group::Pages,
            Figure::at_most("page_rows_read_worst", "x_page", 2.0),
        ),
        (
            Group::Idle,
            Figure::at_most("idle_useless_writes", "writes", 0.0),
        ),
        (
            Group::Idle,
            Figure::at_most("idle_terminal", "bytes/s", 1000.0),
        ),
        (Group::Idle, Figure::at_most("idle_cpu", "%", 1.0)),
        (Group::Idle, Figure::at_most("memory_peak_1m", "MiB", 32.0)),
        (
            Group::Claim,
            Figure::at_most("claim_select_rows_read_1m_due", "x_batch", 1.1),
        ),
        (
            Group::Claim,
            Figure::at_most("claim_whole_rows_read_1m_due", "x_batch", 2.2),
        ),
        (
            Group::Claim,
            Figure::at_most(
                "claim_row_locks_1m_due",
                "rows",
                2.0 * CLAIM_BATCH as f64 + 20.0,
            ),
        ),
        (
            Group::Claim,
            Figure::at_least("claim_second_while_first_open", "rows", CLAIM_BATCH as f64),
        ),
    ];

    fn word(self) -> &'static str {
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
