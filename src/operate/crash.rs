//! Named crash points: a drill makes the process die exactly there, to show what is left behind and
//! who recovers it (case R-05).
//!
//! They exist only with the `drill` feature and act only where the context is a sandbox:
//! `FAILPOINTS="replay.after_confirm=return(abort)"` ends the process as `kill -9` would, without
//! a destructor. Any other action of the `fail` crate (`pause`, `sleep(ms)`) works too.

use crate::config::Environment;

/// Between the publishing step and the publish: certainly not sent, but nobody can know.
pub(super) const BEFORE_PUBLISH: &str = "replay.before_publish";
/// Between the confirm and its record: sent, and nobody wrote it down.
pub(super) const AFTER_CONFIRM: &str = "replay.after_confirm";

/// Reads `FAILPOINTS` when the context is a sandbox.
#[cfg(feature = "drill")]
pub(super) fn arm(environment: Environment) {
    if environment != Environment::Sandbox {
        return;
    }
    let Ok(points) = std::env::var("FAILPOINTS") else {
        return;
    };
    for (name, action) in points.split(';').filter_map(|point| point.split_once('=')) {
        if let Err(problem) = fail::cfg(name.trim(), action.trim()) {
            tracing::warn!(name, problem, "FAILPOINTS: this crash point is not armed");
        }
    }
}

/// Stops here when the point is armed.
#[cfg(feature = "drill")]
pub(super) fn point(environment: Environment, name: &'static str) {
    if environment != Environment::Sandbox {
        return;
    }
    // `return(abort)`: die like a killed process. The value of other returns means nothing here.
    let asked = fail::eval(name, |argument| argument);
    if asked.flatten().as_deref() == Some("abort") {
        std::process::abort();
    }
}

/// Without the `drill` feature nothing is armed.
#[cfg(not(feature = "drill"))]
pub(super) fn arm(_environment: Environment) {}

/// Without the `drill` feature nothing stops.
#[cfg(not(feature = "drill"))]
pub(super) fn point(_environment: Environment, _name: &'static str) {}
