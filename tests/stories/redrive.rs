//! The binary, as an operator runs it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use tokio::process::{Child, Command};

use crate::pty;

/// One console: the binary with a configuration file.
pub struct Console {
    config: PathBuf,
    home: PathBuf,
    environment: Vec<(String, String)>,
}

/// Where the workers of a story log.
const WORKER_LOG: &str = "worker.log";

/// What a run answered.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub json: Value,
    pub stderr: String,
}

impl Console {
    pub fn new(config: PathBuf, home: &Path) -> Self {
        let home = home.to_owned();
        Self {
            config,
            home,
            environment: Vec::new(),
        }
    }

    /// With one more environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("USER", "mia")
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .envs(self.environment.iter().cloned())
            .arg("--config")
            .arg(&self.config)
            .args(["--output", "json"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs to the end, whatever the exit code is.
    pub async fn try_run(&self, arguments: &[&str]) -> Answer {
        let out = self
            .command(arguments)
            .output()
            .await
            .expect("the binary runs");
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
        Answer {
            code: out.status.code().unwrap_or(-1),
            json,
            stderr,
        }
    }

    /// Runs and expects success.
    pub async fn run(&self, arguments: &[&str]) -> Value {
        let answer = self.try_run(arguments).await;
        assert_eq!(answer.code, 0, "redrive {arguments:?}: {answer:#?}");
        assert_eq!(
            answer.json["complete"], true,
            "redrive {arguments:?}: {:#}",
            answer.json
        );
        answer.json
    }

    /// The text of its configuration.
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(&self.config).expect("readable")
    }

    /// Opens the full-screen console on a context.
    pub fn open(
        &self,
        size: pty::Size,
        context: &str,
        environment: &[(&str, &str)],
    ) -> pty::Console {
        let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (config, home) = (path(&self.config), path(&self.home));
        let environment = [&[("HOME", home.as_str())], environment].concat();
        let arguments = ["--config", &config, "--context", context];
        pty::Console::start(size, &arguments, &environment)
    }

    /// Starts a run that stops for ever at a crash point.
    pub fn start_until(&self, point: &str, arguments: &[&str]) -> Child {
        self.command(arguments)
            .env("FAILPOINTS", format!("{point}=pause"))
            .spawn()
            .expect("the binary starts")
    }

    /// Starts workers that run until they are stopped or killed; what they log is kept.
    pub fn start_worker(&self, workers: &[&str], failpoints: &str) -> Child {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.join(WORKER_LOG))
            .expect("a log file");
        self.command(&[&["worker"], workers].concat())
            .env("FAILPOINTS", failpoints)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary starts")
    }

    /// What all workers of this story have logged.
    pub fn worker_log(&self) -> String {
        std::fs::read_to_string(self.home.join(WORKER_LOG)).unwrap_or_default()
    }

    /// The whole chain of every journal, checked; the number of entries in all.
    pub async fn verify_audit(&self) -> u64 {
        let verified = self.run(&["audit", "verify"]).await;
        let journals = verified["items"].as_array().expect("items");
        assert!(
            journals.iter().all(|journal| journal["is_whole"] == true),
            "{verified:#}"
        );
        journals
            .iter()
            .filter_map(|journal| journal["entries"].as_u64())
            .sum()
    }
}

/// The flags that answer a confirmation.
pub const APPLY: [&str; 4] = ["--apply", "--yes", "--reason", "sku made optional in 4.2.1"];

/// `redrive replay EVENT`, confirmed, with more flags.
pub fn replay<'a>(event: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &["replay", event, "--consumer", "inventory"],
        APPLY.as_slice(),
        more,
    ]
    .concat()
}

/// State and evidence of the only item of an operation.
pub fn only_item(operation: &Value) -> (String, String) {
    let items = operation["items"][0]["items"].as_array().expect("items");
    assert_eq!(items.len(), 1, "{operation:#}");
    let text = |name: &str| items[0][name].as_str().unwrap_or_default().to_owned();
    (text("state"), text("evidence"))
}
