//! Word that a server answers again: the worker that finds out first tells the others, which then look
//! at once. Otherwise each stage of the pipeline would wait out a pause of its own after an outage, and
//! an event meets one stage after the other.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Between two words a worker listens to: one that is well and ill in turns hurries nobody into a loop.
const EVERY: Duration = Duration::from_secs(1);

/// What one worker hears of the others, and they of it.
pub(super) struct News {
    sender: watch::Sender<()>,
    heard: watch::Receiver<()>,
    last: Option<Instant>,
}

impl News {
    /// For the first worker; the others get a clone.
    pub(super) fn new() -> Self {
        let (sender, heard) = watch::channel(());
        Self {
            sender,
            heard,
            last: None,
        }
    }

    /// Tells everybody.
    pub(super) fn tell(&self) {
        self.sender.send_replace(());
    }

    /// Waits for word, at most one in [`EVERY`]; what comes earlier is heard then.
    ///
    /// # Cancel safety
    /// Cancel safe: word that came is not lost.
    pub(super) async fn next(&mut self) {
        if let Some(last) = self.last {
            sleep_until(last + EVERY).await;
        }
        if self.heard.changed().await.is_err() {
            // Cannot be: this has a sender of its own.
            std::future::pending::<()>().await;
        }
        self.last = Some(Instant::now());
    }

    /// True when there is word now.
    pub(super) fn has_come(&mut self) -> bool {
        self.next().now_or_never().is_some()
    }
}

impl Clone for News {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            heard: self.sender.subscribe(),
            last: None,
        }
    }
}
