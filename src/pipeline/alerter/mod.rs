//! Tells the alert hook about deaths: at most one alert a cause and while, with how many were left out.
//! Never in the way of collecting: it works in a task of its own, on a short queue, and its failures are
//! lines in the collector's report.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::alert::AlertHook;
use crate::base::tasks::Tasks;
use crate::model::alert::{Alert, Cause};

/// Alerts that wait to be told; more are counted with their cause.
const QUEUE_MAX: usize = 100;
/// Causes that are remembered; beyond, all others count as one.
const CAUSES_MAX: usize = 1000;

/// When a cause was told last, and what was not told since.
#[derive(Debug)]
struct Told {
    at: Instant,
    left_out: u64,
    latest: Option<Alert>,
}

/// The collector's side of a hook.
pub(super) struct Alerter {
    hook: Arc<dyn AlertHook>,
    every: Duration,
    tasks: Tasks,
    causes: HashMap<Cause, Told>,
    queue: VecDeque<Alert>,
    running: Option<(Alert, JoinHandle<Result<(), String>>)>,
    problem: Option<String>,
}

/// What became of alerts since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub told: u64,
    pub failed: u64,
}

impl Alerter {
    pub(super) fn new(hook: Arc<dyn AlertHook>, every: Duration) -> Self {
        Self {
            hook,
            every,
            tasks: Tasks::new(),
            causes: HashMap::new(),
            queue: VecDeque::new(),
            running: None,
            problem: None,
        }
    }

    /// A death was recorded.
    pub(super) fn died(&mut self, alert: Alert) {
        let cause = self.remembered(alert.cause());
        let now = Instant::now();
        match self.causes.get_mut(&cause) {
            Some(told) if now < told.at + self.every => {
                told.left_out = told.left_out.saturating_add(1);
                told.latest = Some(alert);
            }
            _ => self.enqueue(cause, alert, now),
        }
    }

    /// The cause itself, or the one that stands for all others once there are too many.
    fn remembered(&self, cause: Cause) -> Cause {
        if self.causes.contains_key(&cause) || self.causes.len() < CAUSES_MAX {
            cause
        } else {
            (String::new(), None, "other causes".to_owned())
        }
    }

    fn enqueue(&mut self, cause: Cause, mut alert: Alert, now: Instant) {
        let told = self.causes.entry(cause).or_insert(Told {
            at: now,
            left_out: 0,
            latest: None,
        });
        told.at = now;
        if self.queue.len() >= QUEUE_MAX {
            told.left_out = told.left_out.saturating_add(1);
            told.latest = Some(alert);
            return;
        }
        alert.left_out = std::mem::take(&mut told.left_out);
        told.latest = None;
        self.queue.push_back(alert);
    }

    /// Takes note of an alert that ended, starts the next, and tells what was left out once its while is
    /// over. Never waits.
    pub(super) async fn go_on(&mut self) -> Progress {
        let mut progress = Progress::default();
        if let Some((alert, task)) = self.running.take() {
            if task.is_finished() {
                self.ended(alert, task, &mut progress).await;
            } else {
                self.running = Some((alert, task));
            }
        }
        self.tell_what_was_left_out();
        if self.running.is_none()
            && let Some(alert) = self.queue.pop_front()
        {
            let (hook, told) = (Arc::clone(&self.hook), alert.clone());
            let task = self.tasks.spawn(async move { hook.tell(&told).await });
            self.running = Some((alert, task));
        }
        progress
    }

    async fn ended(
        &mut self,
        alert: Alert,
        task: JoinHandle<Result<(), String>>,
        progress: &mut Progress,
    ) {
        let ended = task.await.unwrap_or_else(|_| Err("was stopped".to_owned()));
        match ended {
            Ok(()) => {
                progress.told += 1;
                self.problem = None;
            }
            Err(why) => {
                progress.failed += 1;
                self.problem = Some(format!(
                    "alert hook: {} did not take an alert: {why}; the letter is collected, the alert is \
                     tried again with the next one of its cause",
                    self.hook.name()
                ));
                let cause = self.remembered(alert.cause());
                if let Some(told) = self.causes.get_mut(&cause) {
                    told.left_out = told.left_out.saturating_add(alert.left_out + 1);
                    told.latest.get_or_insert(alert);
                }
            }
        }
    }

    /// A cause that went quiet: its last death is told with the number of those before it.
    fn tell_what_was_left_out(&mut self) {
        let now = Instant::now();
        let due: Vec<Cause> = self
            .causes
            .iter()
            .filter(|(_, told)| told.latest.is_some() && now >= told.at + self.every)
            .map(|(cause, _)| cause.clone())
            .collect();
        for cause in due {
            let latest = self.causes.get_mut(&cause).and_then(|told| {
                // The one that is told is not left out.
                told.left_out = told.left_out.saturating_sub(1);
                told.latest.take()
            });
            if let Some(alert) = latest {
                self.enqueue(cause, alert, now);
            }
        }
        let every = self.every;
        self.causes
            .retain(|_, told| told.latest.is_some() || now < told.at + every);
    }

    /// What went wrong last; `None` while alerts arrive.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Tells what waits, at most for `limit`: a single pass would else tell only one.
    pub(super) async fn finish(&mut self, limit: Duration) {
        let last = async {
            if let Some((_, task)) = self.running.take()
                && !matches!(task.await, Ok(Ok(())))
            {
                tracing::warn!(hook = self.hook.name(), "the last alert was not taken");
            }
            while let Some(alert) = self.queue.front() {
                if let Err(why) = self.hook.tell(alert).await {
                    tracing::warn!(hook = self.hook.name(), why, "an alert was not taken");
                    return;
                }
                self.queue.pop_front();
            }
        };
        if timeout(limit, last).await.is_err() {
            tracing::warn!(hook = self.hook.name(), "no answer while stopping");
        }
        if !self.queue.is_empty() {
            tracing::warn!(
                left = self.queue.len(),
                "alerts were not told: stopped before their turn; their letters are collected"
            );
        }
    }
}

#[cfg(test)]
mod tests;
