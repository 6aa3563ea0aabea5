//! Saying why: verdicts on a pipeline that is stuck, and the story of one event, one aggregate, one
//! saga or one operation. Reads through `observe`, decides in pure functions, writes nothing.
//!
//! A rule says what it found, and what it could not see; [`Watch`] decides what is said, and since when.

mod examine;
pub mod journey;
pub mod rule;
mod sight;
mod verdict;
mod watch;

#[cfg(test)]
mod tests;

pub use examine::{Examination, examine, glance};
pub use sight::{Backlog, Before, Look, Sight};
pub use verdict::{About, Blind, Evidence, Found, Severity, Verdict, Window};
pub use watch::{Pace, Patience, Watch};
