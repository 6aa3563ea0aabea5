//! Every drill as a test: on real servers, and on the embedded pipeline; and each guard taken away
//! once, to see that a drill turns red without it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod arena;
mod embedded;
mod guards;
mod killing;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "shared with tests that kill servers themselves")]
mod node;
mod windows;
