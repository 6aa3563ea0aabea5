//! Acting on one event, on real servers: a replay from a DLQ that another client filled, two consoles
//! at once, a console that is killed at the worst moment. Servers come from `tests/run`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod arena;
mod stories;
