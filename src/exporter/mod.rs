//! Metrics along the whole chain, for Prometheus.
//!
//! One look at its own pace, whoever asks and however often: a scrape is given the last look with its
//! age, so that ten scrapers cost the databases what one does. A value that is not known is left out
//! and never 0; `redrive_up` and `redrive_unread` say why it is missing.
//!
//! `look` reads, `parts` turns a look into gauges (one function a part of the chain: a new part is one
//! more in `PARTS`), `page` is the text, `serve` the little HTTP around it.

mod look;
mod page;
mod parts;
mod serve;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::base::clock::{Clock, Timestamp};
use crate::base::tasks::Tasks;
use crate::observe::Observer;

pub use look::{Diagnosis, Look};
pub use page::METRICS;

/// The last look, for whoever asks.
#[derive(Clone)]
struct Latest {
    look: watch::Receiver<Option<Arc<Look>>>,
    clock: Clock,
}

impl Latest {
    /// The metrics page; `None` before the first look has ended.
    fn page(&self) -> Option<String> {
        let look = self.look.borrow().clone()?;
        Some(rendered(&look, self.clock.now()))
    }
}

/// The page of a look, read at `now`.
pub fn rendered(look: &Look, now: Timestamp) -> String {
    let mut page = page::Page::default();
    for part in parts::PARTS {
        part(look, &mut page);
    }
    page.set(
        "redrive_look_age_seconds",
        &[],
        Some(now.seconds_since(look.at).max(0.0)),
    );
    page.set("redrive_look_duration_seconds", &[], Some(look.took_s));
    page.text()
}

/// Looks every so often and answers scrapes, in `tasks`, until they are stopped.
pub fn start(observer: Arc<Observer>, listener: TcpListener, every: Duration, tasks: &Tasks) {
    let clock = observer.ports().clock.clone();
    let (sender, look) = watch::channel(None);
    tasks.spawn_until_stopped(async move {
        let mut looker = look::Looker::new(observer);
        loop {
            let look = looker.look().await;
            sender.send_replace(Some(Arc::new(look)));
            tokio::time::sleep(every).await;
        }
    });
    let latest = Latest { look, clock };
    let for_connections = tasks.clone();
    tasks.spawn_until_stopped(async move {
        serve::serve(listener, latest, &for_connections).await;
    });
}
