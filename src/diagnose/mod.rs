//! Saying why a pipeline is stuck: rules over snapshots, pure and synchronous. A rule says what it found,
//! and what it could not see; [`Watch`] decides what is said, and since when.

mod examine;
pub mod rule;
mod sight;
mod verdict;
mod watch;

#[cfg(test)]
mod tests;

pub use examine::{Examination, examine};
pub use sight::{Before, Look, Sight};
pub use verdict::{About, Blind, Evidence, Found, Severity, Verdict, Window};
pub use watch::{Pace, Patience, Watch};
