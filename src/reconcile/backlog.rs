//! Whether a queue may still hold what was sent: backlog is not loss (C-03). Looked at before anything is
//! called missing.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::broker::{Broker, BrokerError};
use crate::config::Service;
use crate::model::dead_letter::retry_queue;
use crate::model::scan::NotCompared;

use super::check::{Ground, missed};

/// Rows of the inbox that tell how far a consumer has come.
const NEWEST: u32 = 20;

/// What lies between a queue's producers and its consumer's inbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backlog {
    /// The queue.
    pub queue: String,
    /// Ready, and delivered but not acknowledged.
    pub messages: u64,
    /// In its retry queues.
    pub retrying: u64,
    /// Dead, and nobody collects them now.
    pub uncollected: u64,
    /// Age of its head message, where the broker tells it.
    pub oldest_s: Option<f64>,
    /// The latest time of sending among what its consumer has done last.
    pub done_up_to: Option<Timestamp>,
}

fn unread(what: String, error: &BrokerError) -> NotCompared {
    NotCompared {
        what,
        reason: format!("{error}: backlog cannot be told from loss"),
        is_unreachable: !matches!(error, BrokerError::NotConfigured(_)),
    }
}

/// Looks at a queue, its retry queues, its dead-letter queues and its consumer's newest rows.
///
/// # Errors
/// Names what could not be read.
pub async fn look(ground: &Ground, queue: &str) -> Result<Backlog, NotCompared> {
    let what = format!("queue {queue}");
    let context = &ground.ports.context;
    let broker = ground.ports.broker.as_ref().ok_or_else(|| NotCompared {
        what: what.clone(),
        reason: "no broker is configured: backlog cannot be told from loss".to_owned(),
        is_unreachable: false,
    })?;
    let told = |error: BrokerError| unread(what.clone(), &error);
    let depth = broker.depth(queue).await.map_err(told)?;
    let facts = match broker.queue(queue).await {
        Ok(facts) => facts,
        Err(BrokerError::NotFound(_)) => None,
        Err(error) => return Err(told(error)),
    };
    let unacked = facts.as_ref().and_then(|facts| facts.unacked).unwrap_or(0);
    let mut backlog = Backlog {
        queue: queue.to_owned(),
        messages: depth.map_or(0, |depth| depth.ready) + unacked,
        oldest_s: facts.and_then(|facts| facts.head_age_s),
        ..Backlog::default()
    };
    for delay in &context.consumer.retry_delays {
        let name = retry_queue(queue, *delay);
        backlog.retrying += ready(broker.as_ref(), &name).await?.0;
    }
    let Some(service) = service_of(ground, queue) else {
        return Ok(backlog);
    };
    let dead = service.dead_letters.as_ref();
    for name in dead.into_iter().flat_map(|part| &part.queues) {
        // With a collector at work a letter is in the table within the grace time.
        let (ready, collectors) = ready(broker.as_ref(), name).await?;
        if collectors == 0 {
            backlog.uncollected += ready;
        }
    }
    backlog.done_up_to = done_up_to(ground, service).await?;
    Ok(backlog)
}

async fn ready(broker: &dyn Broker, queue: &str) -> Result<(u64, u64), NotCompared> {
    let depth = broker.depth(queue).await;
    let depth = depth.map_err(|error| unread(format!("queue {queue}"), &error))?;
    Ok(depth.map_or((0, 0), |depth| (depth.ready, depth.consumers)))
}

fn service_of<'a>(ground: &'a Ground, queue: &str) -> Option<&'a Service> {
    let services = &ground.ports.context.services;
    services
        .iter()
        .find(|service| service.inbox.as_ref().is_some_and(|i| i.queue == queue))
}

/// When the newest of what a consumer has done was sent.
async fn done_up_to(ground: &Ground, service: &Service) -> Result<Option<Timestamp>, NotCompared> {
    let told = |error| missed(format!("inbox of {}", service.name), &error);
    let store = ground.store(&service.name).map_err(told)?;
    let rows = store.newest_consumed(NEWEST).await.map_err(told)?;
    let ids: Vec<_> = rows.into_iter().map(|row| row.event_id).collect();
    let mut latest = None;
    for name in ground.services(|service| service.outbox.is_some()) {
        let told = |error| missed(format!("outbox of {name}"), &error);
        let store = ground.store(&name).map_err(told)?;
        for event in store.find_events(&ids, false).await.map_err(told)? {
            latest = latest.max(event.sent_at.or(event.created_at));
        }
    }
    Ok(latest)
}

impl Backlog {
    /// Why a message sent then may still be on its way; `None`: it is nowhere.
    ///
    /// A consumer takes its queue in order: when it has done what was sent clearly later, nothing earlier is
    /// left in it. Under load a queue is never empty, so without this a loss would never be seen.
    pub fn may_hold(&self, sent_at: Timestamp, patience: Duration) -> Option<String> {
        let is_overtaken = self
            .done_up_to
            .is_some_and(|done| sent_at.plus(patience) < done);
        let oldest = |age: f64| format!(" (oldest {})", human::age(age));
        if self.uncollected > 0 {
            Some(format!(
                "may be one of {} dead messages that nobody collects",
                self.uncollected
            ))
        } else if is_overtaken {
            None
        } else if self.messages > 0 {
            let oldest = self.oldest_s.map(oldest).unwrap_or_default();
            Some(format!("waits in queue {}{oldest}", self.queue))
        } else if self.retrying > 0 {
            Some(format!("waits for its next try at {}", self.queue))
        } else {
            None
        }
    }
}

/// How much later something must have been sent to show that a message is no longer in its queue: the grace
/// time, or longer where retries take longer.
pub fn patience(ground: &Ground) -> Duration {
    let retries: Duration = ground.ports.context.consumer.retry_delays.iter().sum();
    ground.grace.max(retries.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);
    const GRACE: Duration = Duration::from_mins(2);

    fn backlog() -> Backlog {
        Backlog {
            queue: "billing.orders".to_owned(),
            messages: 4_990,
            oldest_s: Some(1_200.0),
            ..Backlog::default()
        }
    }

    #[test]
    fn c_03_what_waits_in_a_queue_is_not_lost() {
        let why = backlog().may_hold(AT, GRACE).expect("waits");
        assert_eq!(why, "waits in queue billing.orders (oldest 20m)");
        let empty = Backlog::default();
        assert_eq!(empty.may_hold(AT, GRACE), None);
        let retried = Backlog {
            retrying: 1,
            ..Backlog::default()
        };
        assert!(retried.may_hold(AT, GRACE).is_some());
    }

    #[test]
    fn a_message_that_was_overtaken_is_not_in_a_queue_that_is_never_empty() {
        let done = |seconds| Backlog {
            done_up_to: Some(AT.plus(Duration::from_secs(seconds))),
            ..backlog()
        };
        assert_eq!(done(121).may_hold(AT, GRACE), None);
        assert!(done(119).may_hold(AT, GRACE).is_some());
        let dead = Backlog {
            uncollected: 3,
            ..done(121)
        };
        let why = dead.may_hold(AT, GRACE).expect("may be one of them");
        assert_eq!(why, "may be one of 3 dead messages that nobody collects");
    }
}
