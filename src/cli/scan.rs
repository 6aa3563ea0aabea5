//! `redrive scan …`: compare what should agree, and look at what differs. A scan reads; what it keeps are our
//! own scans and findings. Nothing is repaired from here.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::base::human::grouped;
use crate::model::scan::{Difference, NotCompared, Scan, ScanState};
use crate::observe::snapshot::Unread;
use crate::reconcile::{Outcome as Ended, ReconcileError, Watch};

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::findings::{self, AssignArgs, FindingsArgs, NoteArgs};
use super::output;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Verbs of `scan`.
#[derive(Debug, Subcommand)]
pub enum ScanCommand {
    /// Rules that can be run: checks on the tables alone, and SQL of the configuration
    List,
    /// Run rules and keep what differs as findings
    Run(RunArgs),
    /// One run with its progress and what it could not compare; the last runs without one
    Show(ShowArgs),
    /// Stop a running scan, whoever runs it; it can be resumed
    Stop(StopArgs),
    /// Findings that are open, last seen first; or one with its evidence
    Findings(FindingsArgs),
    /// Say who looks after a finding; dry unless --apply
    Assign(AssignArgs),
    /// Write a note on a finding; dry unless --apply
    Note(NoteArgs),
}

/// Arguments of `scan run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Rules by name, or `all`
    #[arg(
        value_name = "RULE",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    pub rules: Vec<String>,
    /// Go on with a scan that was stopped or whose process died: its id, or the start of it
    #[arg(long, value_name = "SCAN")]
    pub resume: Option<String>,
}

/// Arguments of `scan show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Scan by its id, or the start of one that is unique
    #[arg(value_name = "SCAN")]
    pub scan: Option<String>,
    /// Runs to print at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

/// Arguments of `scan stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Scan by its id, or the start of one that is unique
    #[arg(value_name = "SCAN")]
    pub scan: String,
}

pub(super) async fn run(session: &Session, command: &ScanCommand) -> Outcome {
    match command {
        ScanCommand::List => list(session),
        ScanCommand::Run(args) => scan(session, args).await,
        ScanCommand::Show(args) => show(session, args).await,
        ScanCommand::Stop(args) => stop(session, args).await,
        ScanCommand::Findings(args) => match &args.finding {
            Some(id) => findings::show(session, id).await,
            None => findings::list(session, args).await,
        },
        ScanCommand::Assign(args) => {
            let owner = findings::cleared(&args.owner);
            findings::annotate(session, &args.finding, (Some(owner), None), args.apply).await
        }
        ScanCommand::Note(args) => {
            let note = findings::cleared(&args.note);
            findings::annotate(session, &args.finding, (None, Some(note)), args.apply).await
        }
    }
}

impl From<ReconcileError> for Failure {
    fn from(error: ReconcileError) -> Self {
        match error {
            ReconcileError::NoRule { .. } | ReconcileError::NotFound(_) => {
                Self::usage(error.to_string())
            }
            ReconcileError::Refused(why) => Self::new(Exit::Refused, why),
            ReconcileError::Store(error) => error.into(),
        }
    }
}

// ---- list --------------------------------------------------------------------------------------

const RULES: &[Column] = &[left("rule"), left("from"), flexible("compares")];

fn list(session: &Session) -> Outcome {
    let mut answer = session.answer("scan_rules");
    answer.table = Table::new(RULES);
    for rule in session.services.reconciler.rules() {
        let from = if rule.is_built_in {
            "built in"
        } else {
            "configuration"
        };
        answer.item(&rule)?;
        answer.table.push(vec![
            Cell::text(&rule.name),
            Cell::text(from),
            Cell::text(&rule.about),
        ]);
    }
    session.write(&answer)
}

// ---- run ---------------------------------------------------------------------------------------

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Ran<'a> {
    #[serde(flatten)]
    scan: &'a Scan,
    recorded: bool,
    found: &'a [Difference],
}

async fn scan(session: &Session, args: &RunArgs) -> Outcome {
    let reconciler = &session.services.reconciler;
    let watch = Watch {
        tell: Arc::new(progress()),
        ..Watch::nobody()
    };
    let interrupted = watch.stop.clone();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let names: Vec<String> = if args.rules.iter().any(|rule| rule == "all") {
        let rules = reconciler.rules();
        rules.into_iter().map(|rule| rule.name).collect()
    } else {
        args.rules.clone()
    };
    let work = async {
        let mut ended = Vec::new();
        if let Some(id) = &args.resume {
            ended.push(reconciler.resume(id, &watch).await?);
        }
        for name in &names {
            if watch.stop.is_cancelled() {
                break;
            }
            ended.push(reconciler.run(name, &watch).await?);
        }
        Ok::<_, ReconcileError>(ended)
    };
    let mut work = Box::pin(work);
    // The page at work is finished and its progress written; the signal only asks.
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended?,
            _ = interrupt.recv() => interrupted.cancel(),
            _ = terminate.recv() => interrupted.cancel(),
        }
    };
    ran(session, &ended)
}

/// Lines on a terminal's stderr while a scan runs.
fn progress() -> impl Fn(&Scan) + Send + Sync {
    let is_watched = std::io::stderr().is_terminal();
    let last = Mutex::new(Instant::now());
    move |scan| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_watched || last.elapsed() < TELL_EVERY {
            return;
        }
        *last = Instant::now();
        let progress = &scan.progress;
        let line = format!(
            "{}: {}, part {} of {}, {} looked at, {} found",
            scan.rule,
            progress.part.as_deref().unwrap_or("done"),
            (progress.parts_done + 1).min(progress.parts),
            progress.parts,
            grouped(progress.examined),
            grouped(progress.found)
        );
        if let Err(failure) = output::say(&line) {
            tracing::debug!(?failure, "progress");
        }
    }
}

const RUNS: &[Column] = &[
    left("rule"),
    left("scan"),
    left("state"),
    right("looked at"),
    right("found"),
    right("in flight"),
    right("gone"),
    flexible("else"),
];

fn unread(missing: &NotCompared) -> Unread {
    Unread {
        what: missing.what.clone(),
        reason: missing.reason.clone(),
        is_unreachable: missing.is_unreachable,
    }
}

fn ran(session: &Session, ended: &[Ended]) -> Outcome {
    let mut answer = session.answer("scan_runs");
    answer.table = Table::new(RUNS);
    let mut found = 0;
    for one in ended {
        let scan = &one.scan;
        answer.item(&Ran {
            scan,
            recorded: one.not_recorded.is_none(),
            found: &one.found,
        })?;
        runs_row(&mut answer, scan);
        found += one.found.len();
        for missing in &scan.not_compared {
            let unread = unread(missing);
            if !answer.unread.contains(&unread) {
                answer.unread.push(unread);
            }
        }
        if scan.state != ScanState::Finished {
            let how = if one.not_recorded.is_none() {
                format!("`redrive scan run --resume {}` goes on", scan.scan_id)
            } else {
                "run it anew".to_owned()
            };
            answer.unread.push(Unread {
                what: format!("the rest of {}", scan.rule),
                reason: format!("{} before its end; {how}", scan.state.word()),
                is_unreachable: false,
            });
        }
        for difference in &one.found {
            answer.notes.push(format!(
                "{}: {}: {}: {}",
                scan.rule, difference.class, difference.subject, difference.summary
            ));
        }
        notes_of(&mut answer, scan);
        if let Some(why) = &one.not_recorded
            && !answer.notes.contains(why)
        {
            answer.notes.push(why.clone());
        }
    }
    if found > 0 {
        answer.exit = Exit::Findings;
    }
    session.write(&answer)
}

fn runs_row(answer: &mut Answer, scan: &Scan) {
    let progress = &scan.progress;
    let explained: u64 = progress.explained.values().sum();
    let mut parts = Vec::new();
    if explained > 0 {
        parts.push(format!("{} explained", grouped(explained)));
    }
    if !scan.not_compared.is_empty() {
        parts.push(format!("{} parts not compared", scan.not_compared.len()));
    }
    answer.table.push(vec![
        Cell::text(&scan.rule),
        Cell::text(scan.scan_id.as_str()),
        Cell::text(scan.state.word()),
        Cell::text(grouped(progress.examined)),
        Cell::text(grouped(progress.found)),
        Cell::text(grouped(progress.in_flight)),
        Cell::text(grouped(progress.cleared)),
        Cell::text(parts.join(", ")),
    ]);
}

fn notes_of(answer: &mut Answer, scan: &Scan) {
    let reasons = scan.progress.explained.iter();
    let explained = reasons.map(|(why, count)| format!("{}: {} {why}", scan.rule, grouped(*count)));
    let notes = scan.progress.notes.iter();
    let notes = notes.map(|note| format!("{}: {note}", scan.rule));
    answer.notes.extend(explained.chain(notes));
}

// ---- show, stop --------------------------------------------------------------------------------

async fn show(session: &Session, args: &ShowArgs) -> Outcome {
    let reconciler = &session.services.reconciler;
    let mut answer = session.answer("scans");
    answer.table = Table::new(RUNS);
    let Some(id) = &args.scan else {
        let page = reconciler.scans(args.limit).await?;
        for scan in &page.rows {
            answer.item(scan)?;
            runs_row(&mut answer, scan);
        }
        answer.more = Some(page.next.is_some());
        answer.note_if_empty("no scan was run yet: `redrive scan run all`");
        return session.write(&answer);
    };
    let scan = reconciler.scan(id).await?;
    answer.item(&scan)?;
    runs_row(&mut answer, &scan);
    notes_of(&mut answer, &scan);
    // What that scan could not compare; this answer is whole.
    for missing in &scan.not_compared {
        let line = format!("not compared: {}: {}", missing.what, missing.reason);
        answer.notes.push(line);
    }
    if scan.state == ScanState::Running {
        answer.notes.push(alive(&scan, answer.as_of));
    }
    session.write(&answer)
}

fn alive(scan: &Scan, now: crate::base::clock::Timestamp) -> String {
    match scan.lease_until {
        Some(until) if until > now => format!("{} works on it", scan.actor),
        _ => format!(
            "{} gave no sign for a while; `redrive scan run --resume {}` takes it over",
            scan.actor, scan.scan_id
        ),
    }
}

async fn stop(session: &Session, args: &StopArgs) -> Outcome {
    let scan = session.services.reconciler.stop(&args.scan).await?;
    let mut answer = session.answer("scans");
    answer.table = Table::new(RUNS);
    answer.item(&scan)?;
    runs_row(&mut answer, &scan);
    answer.notes.push(format!(
        "stopped; `redrive scan run --resume {}` goes on",
        scan.scan_id
    ));
    session.write(&answer)
}
