//! The program that controls the broker's nodes, as the context names it.

use std::process::Stdio;
use std::time::Duration;

use super::trouble::Trouble;
use crate::base::text;
use crate::config::Context;

/// Starting a node may take minutes on a small machine.
const LIMIT: Duration = Duration::from_mins(2);
/// Bytes of an answer that are told.
const TOLD: usize = 300;

/// The control program of a context.
#[derive(Clone, Debug)]
pub struct Control(Vec<String>);

impl Control {
    /// The context's.
    ///
    /// # Errors
    /// When it names none; says what to write.
    pub fn of(context: &Context) -> Result<Self, Trouble> {
        let missing = || {
            Trouble::NotConfigured(format!(
                "this drill controls the broker's nodes: set [contexts.{}.drill] control = [\"program\"] \
                 (docs/drills.md says what it must understand)",
                context.name
            ))
        };
        context.drill.control.clone().map(Self).ok_or_else(missing)
    }

    /// Runs it; what it printed.
    ///
    /// # Errors
    /// When it cannot be started, does not end in time, or ends badly.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, Trouble> {
        let Some((program, first)) = self.0.split_first() else {
            return Err(Trouble::NotConfigured(
                "the control program has no name".to_owned(),
            ));
        };
        let verb = arguments.join(" ");
        let failed = |why: String| {
            let why = text::safe(text::cut_bytes(&why, TOLD));
            Trouble::NotConfigured(format!("{program} {verb}: {why}"))
        };
        let output = tokio::process::Command::new(program)
            .args(first)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(LIMIT, output)
            .await
            .map_err(|_| failed(format!("not done within {LIMIT:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(failed(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}
