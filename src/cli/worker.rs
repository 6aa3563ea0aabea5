//! `redrive worker [NAME…]`: the pipeline itself, until stopped.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::signal::unix::{SignalKind, signal};

use crate::base::tasks::Tasks;
use crate::observe::snapshot::Unread;
use crate::pipeline::supervisor::{Supervisor, WorkerStatus};
use crate::pipeline::{Report, WORKERS, Worker};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left};

/// How long a stop waits for a batch in flight, before what is held is given back.
const LAST_PASS: Duration = Duration::from_secs(20);

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Workers to run [default: all that this context has]
    #[arg(value_name = "WORKER", value_parser = PossibleValuesParser::new(WORKERS.map(|kind| kind.name)))]
    pub workers: Vec<String>,
    /// Only this service's workers [default: every service of the context]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Make one pass each, print what it did, and leave
    #[arg(long)]
    pub once: bool,
}

const REPORTS: &[Column] = &[
    left("worker"),
    left("service"),
    left("did"),
    flexible("problem"),
];

pub(super) async fn run(session: &Session, args: &WorkerArgs) -> Outcome {
    if session.read_only {
        return Err(Failure::new(
            Exit::Refused,
            format!(
                "{} is read-only and a worker writes; nothing was started",
                session.context().name
            ),
        ));
    }
    only_what_we_can_run(session, args)?;
    let service = args.service.as_deref();
    if let Some(unknown) = service.filter(|name| session.context().service(name).is_none()) {
        return Err(Failure::usage(format!(
            "{} has no service {unknown:?}",
            session.context().name
        )));
    }
    let workers = session.services.workers(&args.workers, service)?;
    if workers.is_empty() {
        return Err(Failure::usage(format!(
            "no worker has anything to do in {}: it needs an outbox, dead letters, or an inbox whose handler is known",
            session.context().name
        )));
    }
    if args.once {
        once(session, workers).await
    } else {
        until_stopped(session, workers).await
    }
}

/// Next to other workers a consumer without a handler is told in its reports; alone it would be a
/// process that does nothing for ever.
fn only_what_we_can_run(session: &Session, args: &WorkerArgs) -> Outcome<()> {
    let context = session.context();
    let only_consumers = !args.workers.is_empty() && args.workers.iter().all(|w| w == "consumer");
    if !only_consumers || session.services.can_consume() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} has no consumer this program could run: a consumer's effect is its service's own code, which \
         calls pipeline::consumer with a handler; run dispatcher or collector here",
        context.name
    )))
}

async fn once(session: &Session, workers: Vec<Box<dyn Worker>>) -> Outcome {
    let mut reports = Vec::new();
    for mut worker in workers {
        reports.push(worker.run_once().await);
        worker.drain().await;
    }
    answer(session, &reports)
}

/// What each worker did: in one pass, or from its start to its stop.
fn answer(session: &Session, reports: &[Report]) -> Outcome {
    let mut answer = session.answer("worker_reports");
    answer.table = Table::new(REPORTS);
    for report in reports {
        if let Some(problem) = &report.problem {
            answer.unread.push(Unread {
                what: format!("{} of {}", report.worker, report.service),
                reason: problem.clone(),
                is_unreachable: false,
            });
        }
        let did: Vec<_> = report
            .counts
            .iter()
            .map(|(name, n)| format!("{n} {name}"))
            .collect();
        answer.item(report)?;
        answer.table.push(vec![
            Cell::text(&report.worker),
            Cell::text(&report.service),
            if did.is_empty() {
                Cell::text("nothing to do")
            } else {
                Cell::text(did.join(", "))
            },
            Cell::optional(report.problem.as_ref()),
        ]);
    }
    session.write(&answer)
}

/// Everything a worker did since its start.
fn totals(status: &WorkerStatus) -> Report {
    Report {
        counts: status.totals.clone(),
        ..Report::new(&status.worker, &status.service)
    }
}

async fn until_stopped(session: &Session, workers: Vec<Box<dyn Worker>>) -> Outcome {
    let internal = |error: std::io::Error| Failure::internal(format!("signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(internal)?;
    let tasks = Tasks::new();
    for worker in &workers {
        tracing::info!(
            worker.name = worker.name(),
            service = worker.service(),
            "starting"
        );
    }
    let drain = workers.iter().map(|worker| worker.drain_limit()).max();
    let status = Supervisor::start(workers, &tasks);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    tracing::info!("stopping: finishing the batch in hand and giving the rest back");
    let is_drained = tasks.stop(LAST_PASS + drain.unwrap_or_default()).await;
    let reports: Vec<Report> = status.borrow().iter().map(totals).collect();
    for worker in status.borrow().iter() {
        tracing::info!(
            worker.name = worker.worker,
            service = worker.service,
            passes = worker.passes,
            "stopped"
        );
    }
    let written = answer(session, &reports)?;
    if is_drained {
        Ok(written)
    } else {
        Err(Failure::new(
            Exit::Unknown,
            "workers did not stop in time; what they held comes back when its lease ends",
        ))
    }
}
