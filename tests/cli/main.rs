//! The binary from outside: arguments in; stdout, stderr and exit code out.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "helpers of tests fail like tests"
)]

mod config;
mod drill;
mod help;
mod output;
mod prompt;
mod saga;
mod sandbox;
mod secrets;
mod stage;
mod steady;
mod story;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A temporary home with a configuration, in which the binary is run with a clean environment.
pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    /// An empty home.
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("temporary directory"),
        }
    }

    /// A home whose configuration is `text`; `{dir}` in it is the home's own path.
    pub fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write("redrive.toml", &text.replace("{dir}", &home.shown()));
        home
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The home's path as text.
    pub fn shown(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// Writes a file inside.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// The binary with this home and nothing else of the environment.
    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(binary());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("USER", "mia")
            .env("TZ", "UTC")
            .env("COLUMNS", "100")
            .env("REDRIVE_CONFIG", self.path("redrive.toml"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().expect("runs"))
    }
}

/// What a run left behind.
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// From a finished process.
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// The one JSON document on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Fails unless the exit code is `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }
}

/// The binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_redrive"))
}
