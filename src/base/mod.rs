//! What every other module may use and nothing here knows about pipelines: clock, backoff, named
//! deadlines, tracked tasks, crash points, secrets, digests, and text made safe for a terminal.

pub mod backoff;
pub mod clock;
pub mod crash;
pub mod deadline;
pub mod digest;
pub mod human;
pub mod mask;
pub mod secret;
pub mod tasks;
pub mod text;
pub mod tls;
