//! Every figure with its target.

use crate::groups::Grouping;
use crate::report::Figure;

/// Figures measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Events a second, end to end.
    Throughput,
    /// Rows read and locked by one claim.
    Claim,
}

/// Rows a claim takes here.
pub const BATCH: u32 = 500;

const LOCKS_MAX: f64 = 2.0 * BATCH as f64 + 20.0;

/// The run's report.
pub type Figures = crate::groups::Figures<Group>;

impl Grouping for Group {
    const ALL: &[Self] = &[Self::Throughput, Self::Claim];

    const FIGURES: &[(Self, Figure)] = &[
        (
            Group::Throughput,
            Figure::at_least("dispatch_1_worker_over_bare", "ratio", 0.35),
        ),
        (
            Group::Throughput,
            Figure::at_least("dispatch_2_workers_over_bare", "ratio", 0.5),
        ),
        (
            Group::Throughput,
            Figure::at_least("dispatch_1_worker_over_python_per_row", "ratio", 12.0),
        ),
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
            Figure::at_most("claim_row_locks_1m_due", "rows", LOCKS_MAX),
        ),
        (
            Group::Claim,
            Figure::at_least("claim_second_while_first_open", "rows", BATCH as f64),
        ),
        (
            Group::Claim,
            Figure::at_most("sequence_claim_whole_rows_read_1m_due", "x_batch", 6.0),
        ),
        (
            Group::Claim,
            Figure::at_most("sequence_claim_row_locks_1m_due", "rows", LOCKS_MAX),
        ),
        (
            Group::Claim,
            Figure::at_most("sequence_claim_rows_read_behind_100k_held", "x_batch", 6.0),
        ),
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Claim => "claim",
        }
    }
}
