//! Dumb loops: one pass after the other, a wait when idle, backoff when something is wrong, a stop
//! between passes. What a worker decides is the worker's. The first that is well again tells the others.

mod news;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Report, Worker, panic_text};
use crate::base::backoff::Backoff;
use crate::base::clock::{Clock, Timestamp};
use crate::base::deadline::within;
use crate::base::tasks::Tasks;
use news::News;

/// Pause after a pass that could not do its work. A worker that reports a problem and is idle paces
/// itself, e.g. a collector with one missing queue among good ones.
const TROUBLE: Backoff = Backoff {
    base: Duration::from_millis(200),
    cap: Duration::from_secs(10),
};
/// Trouble that lasted so long is worth telling that it is over: others may wait for the same server.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// How a worker's loop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopState {
    /// Started, no pass finished yet.
    Starting,
    /// Making passes.
    Running,
    /// Stopped, everything given back.
    Stopped,
    /// Stopped without an answer from its drain within the limit.
    Abandoned,
}

/// One worker as the screen and `redrive worker` show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// Registered name.
    pub worker: String,
    /// Service it works for.
    pub service: String,
    /// How its loop stands.
    pub state: LoopState,
    /// The last pass.
    pub last: Option<Report>,
    /// When the last pass ended.
    pub last_at: Option<Timestamp>,
    /// Counters since the start.
    pub totals: Vec<(String, u64)>,
    /// Passes since the start.
    pub passes: u64,
    /// Since when every pass had a problem; `None` while well.
    pub problem_since: Option<Timestamp>,
}

/// Runs workers until told to stop.
pub struct Supervisor;

impl Supervisor {
    /// Starts one loop a worker in `tasks`; they end when `tasks` stops. The receiver sees every
    /// worker's status, in the order given.
    pub fn start(
        workers: Vec<Box<dyn Worker>>,
        tasks: &Tasks,
    ) -> watch::Receiver<Vec<WorkerStatus>> {
        let statuses = workers
            .iter()
            .map(|worker| WorkerStatus {
                worker: worker.name().to_owned(),
                service: worker.service().to_owned(),
                state: LoopState::Starting,
                last: None,
                last_at: None,
                totals: Vec::new(),
                passes: 0,
                problem_since: None,
            })
            .collect();
        let (sender, receiver) = watch::channel(statuses);
        let news = News::new();
        for (position, worker) in workers.into_iter().enumerate() {
            let board = Board {
                sender: sender.clone(),
                position,
                clock: Clock::System,
            };
            let stop = tasks.stopping();
            tasks.spawn(run(worker, board, news.clone(), stop));
        }
        receiver
    }
}

/// Where a loop writes its status.
struct Board {
    sender: watch::Sender<Vec<WorkerStatus>>,
    position: usize,
    clock: Clock,
}

impl Board {
    fn change(&self, change: impl FnOnce(&mut WorkerStatus)) {
        self.sender.send_modify(|all| {
            if let Some(status) = all.get_mut(self.position) {
                change(status);
            }
        });
    }

    fn pass(&self, report: &Report) {
        let now = self.clock.now();
        self.change(|status| {
            status.state = LoopState::Running;
            status.passes = status.passes.saturating_add(1);
            for (counter, n) in &report.counts {
                match status.totals.iter_mut().find(|(name, _)| name == counter) {
                    Some((_, total)) => *total = total.saturating_add(*n),
                    None => status.totals.push((counter.clone(), *n)),
                }
            }
            status.problem_since = report
                .problem
                .is_some()
                .then(|| status.problem_since.unwrap_or(now));
            status.last = Some(report.clone());
            status.last_at = Some(now);
        });
    }
}

async fn run(mut worker: Box<dyn Worker>, board: Board, mut news: News, stop: CancellationToken) {
    let mut failures = 0_u32;
    let mut last_problem = None;
    let mut ill_since: Option<Instant> = None;
    while !stop.is_cancelled() {
        let report = guarded_pass(worker.as_mut()).await;
        log_change(&report, &mut last_problem);
        board.pass(&report);
        if report.problem.is_some() {
            ill_since.get_or_insert_with(Instant::now);
        } else if ill_since
            .take()
            .is_some_and(|since| since.elapsed() >= WORTH_TELLING)
        {
            news.tell();
        }
        let is_stuck = report.problem.is_some() && !report.is_idle;
        failures = if is_stuck {
            failures.saturating_add(1)
        } else {
            0
        };
        let pause = if is_stuck {
            TROUBLE.delay(failures)
        } else if report.is_idle {
            worker.idle()
        } else {
            // There may be more: look again at once.
            Duration::ZERO
        };
        let has_news = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = news.next(), if is_stuck => true,
            () = sleep(pause) => news.has_come(),
        };
        if has_news {
            worker.try_again();
        }
    }
    let drained = within(
        "drain",
        worker.drain_limit(),
        AssertUnwindSafe(worker.drain()).catch_unwind(),
    )
    .await;
    let state = if matches!(drained, Ok(Ok(()))) {
        LoopState::Stopped
    } else {
        LoopState::Abandoned
    };
    board.change(|status| status.state = state);
}

/// A worker that panics is in trouble, not gone.
async fn guarded_pass(worker: &mut dyn Worker) -> Report {
    let (name, service) = (worker.name(), worker.service().to_owned());
    match AssertUnwindSafe(worker.run_once()).catch_unwind().await {
        Ok(report) => report,
        Err(panic) => {
            let mut report = Report::new(name, &service);
            report.problem = Some(format!("panicked: {}", panic_text(panic.as_ref())));
            report
        }
    }
}

/// One line when trouble begins, changes or ends; none while it lasts.
fn log_change(report: &Report, last: &mut Option<String>) {
    if report.problem == *last {
        return;
    }
    let (worker, service) = (&report.worker, &report.service);
    if let Some(problem) = &report.problem {
        tracing::warn!(
            worker.name = worker,
            service,
            problem,
            "worker has a problem"
        );
    } else {
        tracing::info!(worker.name = worker, service, "worker is well again");
    }
    last.clone_from(&report.problem);
}

#[cfg(test)]
mod tests;
