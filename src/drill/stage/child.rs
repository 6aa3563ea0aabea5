//! Workers as processes of their own: this program again, killed and stopped by pid, their answers
//! and logs in files, so that nothing blocks when nobody reads.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::de::DeserializeOwned;
use tokio::process::Command;

use super::Totals;
use super::wait::until;
use crate::drill::trouble::Trouble;

/// Lines of a log that are told when a process did not do what it must.
const LINES_TOLD: usize = 3;
/// What a worker logs when it listens for signals.
const UP: &str = "starting";
/// How long a process may take to end after it was told or killed.
const END: Duration = Duration::from_secs(20);

/// How a process is started.
#[derive(Debug)]
pub struct Start<'a> {
    /// This program.
    pub program: &'a Path,
    /// Where its files go.
    pub folder: &'a Path,
    /// For messages and file names, e.g. `dispatcher-1`.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, besides `PATH` and `HOME`.
    pub env: Vec<(String, String)>,
}

/// One process. Dropped, it is killed.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    pid: Pid,
    name: String,
    answer: PathBuf,
    log: PathBuf,
}

impl Child {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(start: Start<'_>) -> Result<Self, Trouble> {
        let failed = |what: &str, error: std::io::Error| {
            Trouble::Stuck(format!("{}: {what}: {error}", start.name))
        };
        let answer = start.folder.join(format!("{}.json", start.name));
        let log = start.folder.join(format!("{}.log", start.name));
        let output = File::create(&answer).map_err(|e| failed("its answer's file", e))?;
        let errors = File::create(&log).map_err(|e| failed("its log", e))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let process = Command::new(start.program)
            .args(&start.arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOME", start.folder)
            .env("NO_COLOR", "1")
            .envs(start.env)
            .current_dir(start.folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| failed("not started", e))?;
        let pid = process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| Trouble::Stuck(format!("{} has no pid", start.name)))?;
        Ok(Self {
            process,
            pid,
            name: start.name,
            answer,
            log,
        })
    }

    fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        kill_process(self.pid, signal)
            .map_err(|e| Trouble::Stuck(format!("{}: signal: {e}; {}", self.name, self.told())))
    }

    /// The end of its log, for a person.
    fn told(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let from = lines.len().saturating_sub(LINES_TOLD);
        format!(
            "its log ends with: {}",
            lines.get(from..).unwrap_or_default().join(" | ")
        )
    }

    /// Waits until it stands still (`return(stop)`).
    ///
    /// # Errors
    /// When it does not in time, or ended instead.
    pub async fn stands(&self, patience: Duration) -> Result<(), Trouble> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let what = format!("{} stops", self.name);
        until(&what, patience, async || {
            Ok(matches!(
                waitid(WaitId::Pid(self.pid), options),
                Ok(Some(_))
            ))
        })
        .await
        .map_err(|trouble| self.explained(&trouble))
    }

    fn explained(&self, trouble: &Trouble) -> Trouble {
        Trouble::Stuck(format!("{trouble}; {}", self.told()))
    }

    /// Stops it where it is.
    ///
    /// # Errors
    /// When it is gone.
    pub fn freeze(&self) -> Result<(), Trouble> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn go_on(&self) -> Result<(), Trouble> {
        self.signal(Signal::CONT)
    }

    async fn ended(&mut self, patience: Duration) -> Result<ExitStatus, Trouble> {
        match tokio::time::timeout(patience, self.process.wait()).await {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(error)) => Err(Trouble::Stuck(format!("{}: {error}", self.name))),
            Err(_) => {
                let late = Trouble::late(&format!("{} ends", self.name), patience);
                Err(self.explained(&late))
            }
        }
    }

    /// Waits until it dies of a signal (`return(abort)`), with its number.
    ///
    /// # Errors
    /// When it does not in time, or ends in another way.
    pub async fn dies(&mut self, patience: Duration) -> Result<i32, Trouble> {
        let status = self.ended(patience).await?;
        status.signal().ok_or_else(|| {
            Trouble::Stuck(format!(
                "{} ended by itself ({status}) before its crash point; {}",
                self.name,
                self.told()
            ))
        })
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> Result<(), Trouble> {
        // A process that has ended already cannot be signalled, and need not be.
        if let Err(error) = self.process.start_kill() {
            tracing::debug!(%error, process = self.name, "kill");
        }
        self.ended(END).await.map(|_| ())
    }

    /// Waits until it ends well by itself; what it counted.
    ///
    /// # Errors
    /// When it does not in time, or its answer cannot be read.
    pub async fn report(&mut self, patience: Duration) -> Result<Totals, Trouble> {
        self.answer(patience).await.map(Totals::of)
    }

    /// Waits until it ends well by itself; its answer.
    ///
    /// # Errors
    /// When it does not in time, or its answer cannot be read.
    pub async fn answer<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, Trouble> {
        self.ended(patience).await?;
        let text = std::fs::read_to_string(&self.answer).unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| {
            Trouble::Stuck(format!(
                "{} gave no answer ({error}); {}",
                self.name,
                self.told()
            ))
        })
    }

    /// Waits until its log says something.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn says(&self, words: &str, patience: Duration) -> Result<(), Trouble> {
        let what = format!("{} says {words:?}", self.name);
        until(&what, patience, async || {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            Ok(log.contains(words))
        })
        .await
        .map_err(|trouble| self.explained(&trouble))
    }

    /// Tells it to stop, waits until it has drained; what it counted.
    ///
    /// # Errors
    /// When it does not stop in time.
    pub async fn stop(&mut self) -> Result<Totals, Trouble> {
        // Before it listens for the signal, it would die of it.
        self.says(UP, END).await?;
        self.signal(Signal::TERM)?;
        self.report(END).await
    }
}
