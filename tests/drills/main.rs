//! Every drill as a test: on real servers, and on the embedded pipeline; and each guard taken away
//! once, to see that a drill turns red without it.

mod arena;
mod embedded;
mod guards;
#[path = "../support/node.rs"]
mod node;
mod soak;
mod windows;
