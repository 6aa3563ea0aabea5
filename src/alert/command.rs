//! A program, started for each alert, with the alert as one line of JSON on its standard input.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::AlertHook;
use crate::base::deadline::within;
use crate::model::alert::Alert;

/// Starts a program. Its output is not read: it may hold anything.
pub struct CommandHook {
    program: String,
    arguments: Vec<String>,
    time_limit: Duration,
}

impl CommandHook {
    /// A hook for a program with its arguments; no shell is involved.
    pub fn new(program: &str, arguments: &[String], time_limit: Duration) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            time_limit,
        }
    }

    async fn run(&self, line: &[u8]) -> Result<(), String> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whatever ends the wait ends the program.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot be started: {}", error.kind()))?;
        if let Some(mut input) = child.stdin.take()
            && let Err(error) = input.write_all(line).await
        {
            // A program that does not read is judged by how it ends.
            tracing::debug!(%error, program = self.program, "the alert was not read");
        }
        let status = child
            .wait()
            .await
            .map_err(|error| format!("cannot be waited for: {}", error.kind()))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("ended with {status}"))
        }
    }
}

#[async_trait]
impl AlertHook for CommandHook {
    fn name(&self) -> String {
        self.program.clone()
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        let mut line = serde_json::to_vec(alert).map_err(|error| error.to_string())?;
        line.push(b'\n');
        match within("alert command", self.time_limit, self.run(&line)).await {
            Ok(told) => told,
            Err(late) => Err(late.to_string()),
        }
    }
}
