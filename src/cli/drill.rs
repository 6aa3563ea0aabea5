//! `redrive drill`: faults injected on purpose in a sandbox, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::assembly::{Options, Services};
use crate::config::{AlertSettings, AlertTarget};
use crate::drill::order;
use crate::drill::trouble::Trouble;
use crate::drill::{DRILLS, Drill, DrillReport, Verdict, Where};
use crate::sandbox;

use super::Global;
use super::envelope::Answer;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::{self, Format};
use super::session::{Session, actor, now};
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `drill`.
#[derive(Debug, Args)]
pub struct DrillArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: DrillVerb,
}

/// Verbs of `drill`.
#[derive(Debug, Subcommand)]
pub enum DrillVerb {
    /// Every drill: its window, and what it injects, expects and verifies
    List,
    /// Run drills and record before, after, deliveries, rows lost and time to recover; sandboxes only
    Run(RunArgs),
    /// Place orders as a drill's producer does (drills start it as a process they can kill)
    #[command(hide = true)]
    Place(PlaceArgs),
}

/// Arguments of `drill run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Numbers or names of drills, or `all`
    #[arg(required = true, value_name = "DRILL")]
    pub drills: Vec<String>,
    /// On a pipeline inside this process (SQLite, in-process broker): needs no configuration and no server
    #[arg(long)]
    pub embedded: bool,
}

/// Arguments of `drill place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Number of the first order
    #[arg(long)]
    pub first: i64,
    /// How many
    #[arg(long, default_value_t = 1)]
    pub count: i64,
    /// What is ordered
    #[arg(long)]
    pub sku: String,
    /// Repeat a request that was not answered, for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub patience: u64,
}

pub(super) async fn run(global: &Global, args: &DrillArgs) -> Outcome {
    match &args.verb {
        DrillVerb::List => list(global.output),
        DrillVerb::Run(args) => run_drills(global, args).await,
        DrillVerb::Place(args) => {
            let session = Session::open(global)?;
            let outcome = place(&session, args).await;
            session.close().await;
            outcome
        }
    }
}

// ---- list --------------------------------------------------------------------------------------

#[derive(Serialize)]
struct Listed {
    number: u8,
    name: &'static str,
    window: &'static str,
    inject: &'static str,
    expect: &'static str,
    verify: &'static str,
    places: &'static [Where],
}

const LISTED: &[Column] = &[
    right("no"),
    left("drill"),
    left("plays"),
    flexible("window"),
];

fn list(format: Format) -> Outcome {
    let mut answer = Answer::new("drills", None, now());
    answer.table = Table::new(LISTED);
    for drill in DRILLS {
        answer.item(&Listed {
            number: drill.number,
            name: drill.name,
            window: drill.window,
            inject: drill.inject,
            expect: drill.expect,
            verify: drill.verify,
            places: drill.places,
        })?;
        let places: Vec<_> = drill.places.iter().map(|place| place.word()).collect();
        answer.table.push(vec![
            Cell::text(drill.number.to_string()),
            Cell::text(drill.name),
            Cell::text(places.join(", ")),
            Cell::text(drill.window),
        ]);
    }
    output::answer(format, &answer)
}

// ---- run ---------------------------------------------------------------------------------------

const RUN: &[Column] = &[
    right("no"),
    left("drill"),
    left("verdict"),
    right("lost"),
    right("recovered"),
    left("deliveries"),
    right("took"),
    flexible("why"),
];

fn chosen(words: &[String]) -> Outcome<Vec<&'static Drill>> {
    if words.iter().any(|word| word == "all") {
        return Ok(DRILLS.iter().collect());
    }
    words
        .iter()
        .map(|word| {
            Drill::find(word).ok_or_else(|| {
                Failure::usage(format!(
                    "there is no drill {word:?}; `redrive drill list` shows them"
                ))
            })
        })
        .collect()
}

async fn run_drills(global: &Global, args: &RunArgs) -> Outcome {
    let drills = chosen(&args.drills)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Dropping the run kills every process it started.
    tokio::select! {
        outcome = Box::pin(run_chosen(global, args, &drills)) => outcome,
        _ = interrupt.recv() => Err(stopped()),
        _ = terminate.recv() => Err(stopped()),
    }
}

fn stopped() -> Failure {
    Failure::new(
        Exit::Unknown,
        "stopped: the drill's processes were killed; what it left is consumed before the next drill",
    )
}

async fn run_chosen(global: &Global, args: &RunArgs, drills: &[&'static Drill]) -> Outcome {
    let (session, folder) = open(global, args.embedded)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::internal(format!("this program's own path: {error}")))?;
    let options = Options {
        actor: actor(),
        read_only: session.read_only,
    };
    let mut bench = session.services.bench(program, options)?;
    bench.alerts = folder.as_ref().map(|folder| folder.path().join(ALERTS));
    let is_all = args.drills.iter().any(|word| word == "all");
    let told = |report: &DrillReport| {
        // Progress for whoever waits; the answer has it all.
        if let Err(failure) = output::say(&progress(report)) {
            tracing::debug!(?failure, "progress");
        }
    };
    let ran = crate::drill::run(&bench, drills, told).await;
    let outcome = match ran {
        Ok(reports) => answer(&session, &reports, is_all),
        Err(trouble) => Err(failure(&trouble)),
    };
    session.close().await;
    outcome
}

fn open(global: &Global, is_embedded: bool) -> Outcome<(Session, Option<tempfile::TempDir>)> {
    if !is_embedded {
        return Session::open(global).map(|session| (session, None));
    }
    let folder = tempfile::Builder::new()
        .prefix("redrive-drill-")
        .tempdir()
        .map_err(|error| Failure::internal(format!("no temporary directory: {error}")))?;
    let mut context = sandbox::demo_context(folder.path());
    "embedded".clone_into(&mut context.name);
    // A dead worker's rows come back soon: nothing here is slow enough to need longer.
    context.dispatcher.lease = Duration::from_secs(4);
    context.dispatcher.send_deadline = Duration::from_secs(1);
    context.dispatcher.statement_timeout = Duration::from_secs(1);
    context.thresholds.statement_timeout = Duration::from_secs(1);
    context.dispatcher.reap_every = Duration::from_millis(200);
    context.consumer.retry_delays = vec![Duration::from_millis(500), Duration::from_secs(1)];
    context.dispatcher.attempts_max = 50;
    let alerts = folder.path().join(ALERTS).display().to_string();
    context.on_death = Some(AlertSettings {
        target: AlertTarget::Command(["tee", "-a", &alerts].map(str::to_owned).to_vec()),
        every: Duration::from_mins(1),
        time_limit: Duration::from_secs(5),
    });
    let context = Arc::new(context);
    let options = Options {
        actor: actor(),
        read_only: global.read_only,
    };
    let services = Services::open(context, options)?;
    Ok((Session::of(services, global.output), Some(folder)))
}

fn failure(trouble: &Trouble) -> Failure {
    let exit = match trouble {
        Trouble::Refused(_) => Exit::Refused,
        Trouble::Unreachable(_) | Trouble::NotConfigured(_) => Exit::Unreachable,
        Trouble::Stuck(_) => Exit::Internal,
    };
    Failure::new(exit, trouble.to_string())
}

fn progress(report: &DrillReport) -> String {
    format!(
        "{:>2} {:<20} {:<8} {}",
        report.number,
        report.name,
        report.verdict.word(),
        seconds(report.took_s)
    )
}

/// What went wrong, in one line.
fn why(report: &DrillReport) -> Option<String> {
    let damage: Vec<String> = report
        .damage()
        .map(crate::drill::verdict::Check::line)
        .collect();
    let parts: Vec<String> = report.reason.clone().into_iter().chain(damage).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn answer(session: &Session, reports: &[DrillReport], is_all: bool) -> Outcome {
    let mut answer = session.answer("drills");
    answer.table = Table::new(RUN);
    for report in reports {
        answer.item(report)?;
        let deliveries: Vec<_> = report
            .deliveries
            .iter()
            .map(|(consumer, n)| format!("{consumer} {n}"))
            .collect();
        answer.table.push(vec![
            Cell::text(report.number.to_string()),
            Cell::text(report.name),
            Cell::text(report.verdict.word()),
            Cell::optional(report.rpo_rows.map(|n| n.to_string()).as_ref()),
            Cell::optional(report.rto_s.map(seconds).as_ref()),
            Cell::text(deliveries.join(", ")),
            Cell::text(seconds(report.took_s)),
            Cell::optional(why(report).as_ref()),
        ]);
    }
    let count = |verdict| {
        reports
            .iter()
            .filter(|report| report.verdict == verdict)
            .count()
    };
    let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
    let not_run = count(Verdict::NotRun);
    answer.notes.push(format!(
        "{passed} passed, {failed} failed, {not_run} not run"
    ));
    answer.exit = if failed > 0 {
        Exit::Findings
    } else if not_run > 0 && (!is_all || reports.iter().any(|report| report.is_dependency)) {
        Exit::Unreachable
    } else {
        Exit::Fine
    };
    session.write(&answer)
}

/// Where workers inside this process write alerts.
const ALERTS: &str = "alerts.log";
/// Pause of a client before it repeats a request.
const ASK_AGAIN: Duration = Duration::from_millis(200);

// ---- place -------------------------------------------------------------------------------------

#[derive(Serialize)]
struct PlacedOrder {
    order_no: i64,
    event_id: String,
    is_new: bool,
}

async fn place(session: &Session, args: &PlaceArgs) -> Outcome {
    let ports = &session.services.ports;
    if ports.context.environment != crate::config::Environment::Sandbox {
        return Err(Failure::new(
            Exit::Refused,
            format!(
                "context {} is not a sandbox; nothing was placed",
                ports.context.name
            ),
        ));
    }
    if session.read_only {
        return Err(Failure::new(
            Exit::Refused,
            format!(
                "context {} is read-only; nothing was placed",
                ports.context.name
            ),
        ));
    }
    let mut answer = session.answer("orders");
    let began = Instant::now();
    for number in args.first..args.first.saturating_add(args.count) {
        let request = order::order(number, &args.sku);
        let placed = loop {
            match order::place(ports, &request).await.map_err(Trouble::from) {
                Ok(placed) => break placed,
                // The key makes asking again harmless.
                Err(Trouble::Unreachable(_)) if began.elapsed().as_secs() < args.patience => {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                Err(trouble) => return Err(failure(&trouble)),
            }
        };
        answer.item(&PlacedOrder {
            order_no: number,
            event_id: placed.event_id.to_string(),
            is_new: placed.is_new,
        })?;
    }
    session.write(&answer)
}

fn seconds(of: f64) -> String {
    format!("{of:.1}s")
}
