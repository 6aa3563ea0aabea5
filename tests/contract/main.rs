//! Contract suites: what every adapter of a port must do, run against each of them.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod broker;
mod consumer;
mod kept;
mod store;
