//! Performs what `update` asks for, each in a task of its own, and reports back. The loop never waits
//! for any of it.

use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::assembly::Services;
use crate::base::tasks::Tasks;
use crate::diagnose::journey;
use crate::model::message::Payload;
use crate::observe::{Observer, Views};
use crate::operate::Operator;
use crate::reconcile::{Reconciler, Watch};

use super::event::{Effect, Outcome};

/// Outcomes that may wait for the loop: more than a person can set off between two frames.
pub const OUTCOMES_MAX: usize = 64;

/// How often proof is looked for while something was applied lately.
const PROVE_BUSY: Duration = Duration::from_millis(500);
/// How often otherwise: operations of others, and those a crash left behind.
const PROVE_IDLE: Duration = Duration::from_secs(5);
/// How many looks after something was applied count as lately.
const BUSY_LOOKS: u32 = 150;

/// Performs effects.
pub struct Performer {
    operator: Arc<Operator>,
    observer: Arc<Observer>,
    outcomes: Sender<Outcome>,
    /// Reads, which may be dropped when we leave.
    reads: Tasks,
    /// Writes, which must finish.
    writes: Tasks,
    views: Option<watch::Sender<Views>>,
    prove: Arc<Notify>,
    drill: Option<Vec<OsString>>,
    reconciler: Option<Arc<Reconciler>>,
    /// Stops the scan that runs.
    scanning: Mutex<Option<CancellationToken>>,
}

impl Performer {
    /// Performs with these services; `reads` are dropped and `writes` waited for when we leave.
    pub fn new(
        services: &Services,
        outcomes: Sender<Outcome>,
        reads: Tasks,
        writes: Tasks,
    ) -> Self {
        Self {
            operator: services.operator.clone(),
            observer: services.observer.clone(),
            outcomes,
            reads,
            writes,
            views: None,
            prove: Arc::new(Notify::new()),
            drill: None,
            reconciler: None,
            scanning: Mutex::new(None),
        }
    }

    /// Runs drills with this program and these arguments.
    pub fn with_drills(mut self, drill: Option<Vec<OsString>>) -> Self {
        self.drill = drill;
        self
    }

    /// Runs scans with this.
    pub fn with_scans(mut self, reconciler: Arc<Reconciler>) -> Self {
        self.reconciler = Some(reconciler);
        self
    }

    /// Learns where the feeds listen.
    pub fn connect(&mut self, views: watch::Sender<Views>) {
        self.views = Some(views);
    }

    /// Starts looking for proof again and again.
    pub fn start_proving(&self) {
        let operator = self.operator.clone();
        let outcomes = self.outcomes.clone();
        let wake = self.prove.clone();
        let stop = self.reads.stopping();
        self.writes
            .spawn(prove_loop(operator, outcomes, wake, stop));
    }

    /// Performs one effect; returns at once.
    pub fn perform(&self, effect: Effect) {
        let operator = self.operator.clone();
        match effect {
            Effect::Watch(views) => {
                if let Some(sender) = &self.views {
                    sender.send_replace(*views);
                }
            }
            Effect::Lock => operator.lock(),
            Effect::Prove => self.prove.notify_one(),
            Effect::Plan(job, request) => self.read(async move {
                Outcome::Planned(job, operator.plan(&request).await.map(Box::new))
            }),
            Effect::Resolve(job, event_id) => {
                self.read(async move {
                    Outcome::Resolved(job, operator.resolve(&event_id, None).await)
                });
            }
            Effect::Trace(job, id) => {
                let observer = self.observer.clone();
                self.read(async move {
                    let told = journey::trace(&observer, &id).await;
                    Outcome::Traced(job, told.map(Box::new))
                });
            }
            Effect::ReadPayload(target) => self.read(async move {
                let payload = operator.payload(&target).await;
                Outcome::PayloadRead(target, payload)
            }),
            Effect::VerifyAudit => self.read(async move {
                let chains = operator.verify_audit().await;
                Outcome::Verified(
                    chains
                        .into_iter()
                        .map(|(service, result)| {
                            let result = match result {
                                Ok(Ok(entries)) => Ok(entries),
                                Ok(Err(fault)) => Err(fault.to_string()),
                                Err(error) => Err(error.to_string()),
                            };
                            (service, result)
                        })
                        .collect(),
                )
            }),
            Effect::Apply(job, plan, confirmation) => self.write(async move {
                Outcome::Applied(job, operator.apply(&plan, &confirmation).await)
            }),
            Effect::Unlock {
                context_name,
                reason,
            } => self.write(async move {
                Outcome::Unlocked(operator.unlock(&context_name, &reason).await)
            }),
            Effect::Annotate {
                service,
                id,
                owner,
                note,
            } => self.write(async move {
                Outcome::Annotated(
                    operator
                        .annotate(&service, &id, owner.as_deref(), note.as_deref())
                        .await,
                )
            }),
            Effect::Scan(rule) => self.scan(rule),
            Effect::StopScan => {
                let running = self.scanning.lock();
                if let Some(stop) = &*running.unwrap_or_else(PoisonError::into_inner) {
                    stop.cancel();
                }
            }
            Effect::Drill(number) => {
                let words = self.drill.clone();
                // Dropped when we leave, and the program with it, which kills what it started.
                self.read(async move { Outcome::Drilled(number, drill(words, number).await) });
            }
            Effect::Export { name, body } => {
                self.write(async move { Outcome::Exported(export(&name, body).await) });
            }
            // The owner of the terminal does these itself.
            Effect::Terminal(_) => {}
        }
    }

    /// Starts a scan. It is stopped when we leave, writes how far it came, and can be resumed.
    fn scan(&self, rule: String) {
        let Some(reconciler) = self.reconciler.clone() else {
            return;
        };
        let stop = self.reads.stopping();
        let outcomes = self.outcomes.clone();
        let watch = Watch {
            stop: stop.child_token(),
            // A step nobody has room for is followed by another one.
            tell: Arc::new(move |scan| {
                if let Err(lost) = outcomes.try_send(Outcome::Scanning(Box::new(scan.clone()))) {
                    tracing::trace!(%lost, "a step of a scan was not shown");
                }
            }),
        };
        *self.scanning.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch.stop.clone());
        self.write(async move {
            let ended = reconciler.run(&rule, &watch).await;
            Outcome::Scanned(ended.map(Box::new).map_err(|error| error.to_string()))
        });
    }

    fn read(&self, work: impl Future<Output = Outcome> + Send + 'static) {
        let outcomes = self.outcomes.clone();
        self.reads.spawn_until_stopped(async move {
            report(&outcomes, work.await).await;
        });
    }

    fn write(&self, work: impl Future<Output = Outcome> + Send + 'static) {
        let outcomes = self.outcomes.clone();
        self.writes.spawn(async move {
            report(&outcomes, work.await).await;
        });
    }
}

/// An outcome nobody takes any more belongs to a console that has left.
async fn report(outcomes: &Sender<Outcome>, outcome: Outcome) {
    if outcomes.send(outcome).await.is_err() {
        tracing::debug!("an outcome came after the console had left");
    }
}

async fn prove_loop(
    operator: Arc<Operator>,
    outcomes: Sender<Outcome>,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut busy_looks = 0_u32;
    let mut failures = 0_u32;
    loop {
        let wait = if failures > 0 {
            PROVE_BUSY.saturating_mul(1 << failures.min(6))
        } else if busy_looks > 0 {
            PROVE_BUSY
        } else {
            PROVE_IDLE
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = wake.notified() => busy_looks = BUSY_LOOKS,
            () = tokio::time::sleep(wait) => {}
        }
        // A look that has begun is finished: it may be writing a proof down.
        match operator.prove_once().await {
            Ok(operations) => {
                failures = 0;
                busy_looks = busy_looks.saturating_sub(1);
                if !operations.is_empty() {
                    busy_looks = BUSY_LOOKS;
                    report(&outcomes, Outcome::Proven(operations)).await;
                }
            }
            Err(error) => {
                if failures == 0 {
                    report(&outcomes, Outcome::ProofProblem(error.to_string())).await;
                }
                failures = failures.saturating_add(1);
            }
        }
    }
}

/// Runs one drill as a program of its own; its report.
async fn drill(words: Option<Vec<OsString>>, number: u8) -> Result<Value, String> {
    let words = words.unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err("drills cannot be run from here; use `redrive drill run`".to_owned());
    };
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .arg(number.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let report = answer.and_then(|answer| answer.get("items")?.get(0).cloned());
    report.ok_or_else(|| {
        let told = String::from_utf8_lossy(&output.stderr);
        let last = told.lines().last().unwrap_or("no answer");
        last.trim_start_matches("redrive: ").to_owned()
    })
}

/// Writes a file where one works, or where programs keep such things; returns its path.
async fn export(name: &str, body: String) -> Result<PathBuf, String> {
    let mut folders = Vec::new();
    if let Ok(here) = std::env::current_dir() {
        folders.push(here);
    }
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    if let Some(state) = state {
        folders.push(state.join("redrive"));
    }
    let name = name.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let mut last = "no folder to write to".to_owned();
        for folder in folders {
            match write_new(&folder, &name, body.as_bytes()) {
                Ok(path) => return Ok(path),
                Err(error) => last = format!("{}: {error}", folder.display()),
            }
        }
        Err(last)
    });
    written.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Creates a file that was not there, readable by its owner only: rows may hold personal data.
fn write_new(folder: &std::path::Path, name: &str, body: &[u8]) -> std::io::Result<PathBuf> {
    use std::io::Write as _;
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(body)?;
    file.flush()?;
    Ok(path)
}

/// Runs the operator's editor on some bytes, in a file only they can read. `None`: nothing changed.
///
/// # Errors
/// Why it did not work, for a person.
pub async fn edit(payload: &Payload) -> Result<Option<Vec<u8>>, String> {
    // tempfile creates with mode 0600 and removes the file when it goes out of scope.
    let mut file = tempfile::Builder::new()
        .prefix("redrive-")
        .suffix(".json")
        .tempfile()
        .map_err(|error| format!("no temporary file: {error}"))?;
    std::io::Write::write_all(&mut file, payload.bytes()).map_err(|error| error.to_string())?;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.trim().is_empty())
        .unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = tokio::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .status()
        .await
        .map_err(|error| format!("{program}: {error}; set EDITOR"))?;
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let mut bytes = std::fs::read(file.path()).map_err(|error| error.to_string())?;
    // Editors end a file with a line feed; the payload had none, so it gets none.
    if bytes.last() == Some(&b'\n') && payload.bytes().last() != Some(&b'\n') {
        bytes.pop();
    }
    Ok((bytes != payload.bytes()).then_some(bytes))
}
