//! Tracked tasks: nothing is spawned that nobody waits for. The only caller of `tokio::spawn`.

use std::future::Future;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A family of tasks that stop together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// A new, empty family.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts `work`, which must watch [`Tasks::stopping`] if it loops. The handle may be dropped:
    /// the task goes on and is still waited for by [`Tasks::stop`]. Boxed, so that the machinery of a task is there
    /// once for each kind of answer and not for each kind of work.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(work.boxed())
    }

    /// Starts `work` and drops it when the family stops: for reads, which lose nothing.
    pub fn spawn_until_stopped<F>(&self, work: F) -> JoinHandle<()>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let stop = self.stop.clone();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                _ = work => {}
            }
        })
    }

    /// Fires when the family has been told to stop.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Tells every task to stop without waiting.
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// Tells every task to stop and waits at most `patience`; `false` when some were still running.
    pub async fn stop(&self, patience: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(patience, self.tracker.wait())
            .await
            .is_ok()
    }
}
