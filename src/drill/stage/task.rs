//! Workers inside this process, for the embedded pipeline. A worker is killed by dropping it where
//! it is: at a crash point (it unwinds from there) or wherever it waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Totals;
use super::wait::until;
use crate::base::crash::{ARMED, held};
use crate::base::tasks::Tasks;
use crate::drill::trouble::Trouble;
use crate::pipeline::Worker;

/// Pause after a pass with a problem.
const TROUBLE: Duration = Duration::from_millis(50);
/// How long a worker may take to stop.
const END: Duration = Duration::from_secs(20);

/// Some workers. Dropped, they are ended.
#[derive(Debug)]
pub struct Crew {
    name: String,
    handles: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    totals: Arc<Mutex<Totals>>,
    point: Option<&'static str>,
}

impl Crew {
    /// Starts them, for one pass each if `is_once`; they may come to `point`.
    pub fn start(
        name: String,
        workers: Vec<Box<dyn Worker>>,
        (point, is_once): (Option<&'static str>, bool),
        tasks: &Tasks,
    ) -> Self {
        let stop = tasks.stopping().child_token();
        let totals = Arc::new(Mutex::new(Totals::default()));
        let handles = workers
            .into_iter()
            .map(|worker| tasks.spawn(run(worker, (stop.clone(), is_once), Arc::clone(&totals))))
            .collect();
        Self {
            name,
            handles,
            stop,
            totals,
            point,
        }
    }

    fn point(&self) -> Result<&'static str, Trouble> {
        self.point
            .ok_or_else(|| Trouble::Stuck(format!("{} has no crash point", self.name)))
    }

    /// Waits until one of them stands at its crash point.
    ///
    /// # Errors
    /// When none does in time.
    pub async fn stands(&self, patience: Duration) -> Result<(), Trouble> {
        let point = self.point()?;
        let what = format!("{} comes to {point}", self.name);
        until(&what, patience, async || Ok(held::is_at(point))).await
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has no crash point.
    pub fn go_on(&self) -> Result<(), Trouble> {
        held::release(self.point()?);
        Ok(())
    }

    /// Waits until it stands at its crash point, and ends it there.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn dies(&mut self, patience: Duration) -> Result<(), Trouble> {
        self.stands(patience).await?;
        self.kill().await
    }

    /// Ends all of them where they are.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn kill(&mut self) -> Result<(), Trouble> {
        self.end();
        for handle in self.handles.drain(..) {
            // Aborted or unwound: that is what was wanted.
            match tokio::time::timeout(END, handle).await {
                Ok(Ok(()) | Err(_)) => {}
                Err(_) => return Err(Trouble::late(&format!("{} ends", self.name), END)),
            }
        }
        Ok(())
    }

    fn end(&self) {
        if let Some(point) = self.point {
            ARMED.arm(point, "off");
            held::end(point);
        }
        for handle in &self.handles {
            handle.abort();
        }
    }

    /// Tells them to stop, waits until they have drained; what they counted.
    ///
    /// # Errors
    /// When one does not stop in time.
    pub async fn stop(&mut self) -> Result<Totals, Trouble> {
        if let Some(point) = self.point {
            ARMED.arm(point, "off");
            held::release(point);
        }
        self.stop.cancel();
        self.report(END).await
    }

    /// Waits until they have ended by themselves; what they counted.
    ///
    /// # Errors
    /// When one does not in time.
    pub async fn report(&mut self, patience: Duration) -> Result<Totals, Trouble> {
        for handle in self.handles.drain(..) {
            match tokio::time::timeout(patience, handle).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    return Err(Trouble::Stuck(format!("{}: {error}", self.name)));
                }
                Err(_) => return Err(Trouble::late(&format!("{} ends", self.name), patience)),
            }
        }
        Ok(self
            .totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.cancel();
        self.end();
    }
}

async fn run(
    mut worker: Box<dyn Worker>,
    (stop, is_once): (CancellationToken, bool),
    totals: Arc<Mutex<Totals>>,
) {
    while !stop.is_cancelled() {
        let report = worker.run_once().await;
        totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&report);
        if is_once {
            break;
        }
        let pause = if report.problem.is_some() {
            TROUBLE
        } else if report.is_idle {
            worker.idle()
        } else {
            Duration::ZERO
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    worker.drain().await;
}
