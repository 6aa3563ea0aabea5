//! Publishes one service's outbox: claim, publish with confirms, complete by token.
//!
//! ```text
//! flow blocked? ─ yes ─▶ claim nothing
//!      │ no
//! claim ─▶ publish (renewing while it is slow) ─▶ confirmed: sent mark by token
//!                                               ─▶ the rest: verdict ─▶ pending later, or failed
//! ```
//!
//! A crash anywhere leaves rows under a lease; after it they are sent again under the same id, and
//! the inbox absorbs the duplicate. A completion that matches fewer rows than it names has lost its
//! fence: counted and shown, never ignored.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, sleep_until};

use super::message::message_of;
use super::{Report, Worker};
use crate::base::backoff::Backoff;
use crate::broker::wire::refusal;
use crate::broker::{Broker, Flow, Outgoing, PublishOutcome, Publisher};
use crate::config::{DispatcherSettings, OutboxPart};
use crate::model::ids::EventId;
use crate::model::outbox::OutboxEvent;
use crate::store::{Claim, ClaimRequest, FailedAttempt, Store, StoreResult};

/// Registered name.
pub const NAME: &str = "dispatcher";

/// Tries of a completion that met a lock or a short outage: cheaper than sending the batch twice.
const STORE_TRIES: u32 = 3;
const STORE_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(50),
    cap: Duration::from_millis(500),
};

/// How long a row waits for its next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Exponential, with jitter: the trouble may pass by itself.
    Backoff,
    /// The longest wait at once: somebody has to mend a binding or an exchange first.
    Slow,
}

/// What happens to a row after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Confirmed and routed: mark it.
    Sent,
    /// Back to pending.
    Retry {
        /// How long it waits.
        wait: Wait,
        /// Stored as the row's last error.
        error: String,
    },
    /// No further attempt by itself.
    Fail {
        /// Stored as the row's last error.
        error: String,
    },
}

/// Decides what an attempt's outcome means. `attempts` counts the attempt just made.
pub fn verdict(outcome: &PublishOutcome, attempts: u32, settings: &DispatcherSettings) -> Next {
    let (wait, error) = match outcome {
        PublishOutcome::Confirmed => return Next::Sent,
        PublishOutcome::Returned(detail) => (Wait::Slow, format!("unroutable: {detail}")),
        PublishOutcome::Refused(detail) => (Wait::Slow, format!("refused: {detail}")),
        PublishOutcome::Nacked => (
            Wait::Backoff,
            "refused by broker (nack): queue full or limit".to_owned(),
        ),
        PublishOutcome::Unknown(detail) => {
            (Wait::Backoff, format!("unknown whether sent: {detail}"))
        }
    };
    if attempts >= settings.attempts_max {
        return Next::Fail {
            error: format!("given up after {attempts} attempts: {error}"),
        };
    }
    Next::Retry { wait, error }
}

/// The dispatcher of one service.
pub struct Dispatcher {
    service: String,
    part: OutboxPart,
    settings: DispatcherSettings,
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    publisher: Option<Box<dyn Publisher>>,
}

impl Dispatcher {
    /// A dispatcher; reaches nothing yet.
    ///
    /// # Errors
    /// A sentence when a batch could outlive its lease: a second dispatcher would then send rows
    /// that this one is still sending.
    pub fn new(
        service: &str,
        part: OutboxPart,
        settings: DispatcherSettings,
        ports: (Arc<dyn Store>, Arc<dyn Broker>),
    ) -> Result<Self, String> {
        if settings.send_deadline >= settings.lease {
            return Err(format!(
                "{service}: the lease ({:?}) must be longer than a batch's send deadline ({:?}); \
                 raise dispatcher.lease above {:?} or lower dispatcher.send_deadline",
                settings.lease, settings.send_deadline, settings.send_deadline,
            ));
        }
        Ok(Self {
            service: service.to_owned(),
            part,
            settings,
            store: ports.0,
            broker: ports.1,
            publisher: None,
        })
    }

    /// A publisher, before anything is claimed: no broker, no claim.
    async fn publisher(&mut self) -> Result<&dyn Publisher, String> {
        if let Flow::Blocked(reason) = self.broker.flow() {
            return Err(format!("broker blocked: {reason}; nothing is claimed"));
        }
        if self.publisher.is_none() {
            let opened = self.broker.publisher().await;
            self.publisher = Some(opened.map_err(|e| format!("{e}; nothing is claimed"))?);
        }
        match self.publisher.as_deref() {
            Some(publisher) => match publisher.flow() {
                Flow::Blocked(reason) => {
                    Err(format!("broker blocked: {reason}; nothing is claimed"))
                }
                Flow::Open | Flow::Unknown => Ok(publisher),
            },
            None => Err("no publisher; nothing is claimed".to_owned()),
        }
    }

    async fn pass(&mut self, report: &mut Report) -> Result<(), String> {
        self.publisher().await?;
        let request = ClaimRequest {
            batch_rows: self.settings.batch_rows,
            lease: self.settings.lease,
        };
        let claimed_at = Instant::now();
        let claim = self
            .store
            .claim_batch(&request)
            .await
            .map_err(|e| e.to_string())?;
        if claim.events.is_empty() {
            report.is_idle = true;
            return Ok(());
        }
        report.add("claimed", len(claim.events.len()));
        if let Flow::Blocked(reason) = self.broker.flow() {
            self.give_back(&claim, &ids(&claim.events), report).await?;
            return Err(format!(
                "broker blocked: {reason}; the claim was given back"
            ));
        }
        let (messages, faults) = self.prepare(&claim);
        let outcomes = self.send(&claim, messages, claimed_at, report).await?;
        let sorted = self.sort(&claim, faults, outcomes, report);
        self.settle(&claim, sorted, report).await
    }

    /// The batch's messages, and for each row why it can never be sent (H-10), if so.
    fn prepare(&self, claim: &Claim) -> (Vec<Outgoing>, Vec<Option<String>>) {
        let (user, frame_max) = (self.broker.user(), self.broker.frame_max());
        let mut messages = Vec::with_capacity(claim.events.len());
        let mut faults = Vec::with_capacity(claim.events.len());
        for event in &claim.events {
            let out = message_of(event, &self.part);
            let fault = refusal(&out, user.as_deref(), frame_max);
            if fault.is_none() {
                messages.push(out);
            }
            faults.push(fault);
        }
        (messages, faults)
    }

    /// Publishes the batch. Extends the lease each time a third of it is gone.
    async fn send(
        &self,
        claim: &Claim,
        messages: Vec<Outgoing>,
        claimed_at: Instant,
        report: &mut Report,
    ) -> Result<Vec<PublishOutcome>, String> {
        let publisher = self.publisher.as_deref().ok_or("no publisher")?;
        let publish = publisher.publish(messages, self.settings.send_deadline);
        tokio::pin!(publish);
        let is_fenced = self.store.facts().is_fenced;
        let third = self.settings.lease / 3;
        let mut renew_at = claimed_at + third;
        loop {
            tokio::select! {
                biased;
                outcomes = &mut publish => return Ok(outcomes),
                () = sleep_until(renew_at), if is_fenced => {
                    renew_at = Instant::now() + third;
                    self.renew(claim, report).await;
                }
            }
        }
    }

    /// A failed renewal is no reason to stop: the completion will tell who owns the rows.
    async fn renew(&self, claim: &Claim, report: &mut Report) {
        match self.store.renew(&claim.token, self.settings.lease).await {
            Ok(rows) => {
                report.add("renewed", rows);
                report.add(
                    "renewed_short",
                    len(claim.events.len()).saturating_sub(rows),
                );
            }
            Err(error) => report.problem = Some(format!("the lease was not renewed: {error}")),
        }
    }

    async fn settle(
        &self,
        claim: &Claim,
        sorted: Sorted,
        report: &mut Report,
    ) -> Result<(), String> {
        let mut lost = 0;
        if !sorted.sent.is_empty() {
            let named = len(sorted.sent.len());
            let done = retrying(|| self.store.complete(&claim.token, &sorted.sent))
                .await
                .map_err(|e| {
                    format!("{named} confirmed events were not marked and will be sent again: {e}")
                })?;
            report.add("sent", done);
            lost += named.saturating_sub(done);
        }
        if !sorted.failed.is_empty() {
            let named = len(sorted.failed.len());
            let done = retrying(|| self.store.fail_attempts(&claim.token, &sorted.failed))
                .await
                .map_err(|e| format!("{named} failed attempts were not recorded: {e}"))?;
            lost += named.saturating_sub(done);
        }
        let refused_untried = self.broker_is_gone(&sorted.refused).await;
        if !sorted.refused.is_empty() {
            if refused_untried {
                let ids: Vec<_> = sorted.refused.iter().map(|a| a.event_id.clone()).collect();
                self.give_back(claim, &ids, report).await?;
                report.problem =
                    Some("the broker went away; unsent rows were given back".to_owned());
            } else {
                let named = len(sorted.refused.len());
                let done = retrying(|| self.store.fail_attempts(&claim.token, &sorted.refused))
                    .await
                    .map_err(|e| format!("{named} refused events were not recorded: {e}"))?;
                lost += named.saturating_sub(done);
            }
        }
        report.add("lost_fence", lost);
        if lost > 0 {
            report.problem = Some(format!(
                "{lost} rows belonged to somebody else when they were to be completed: the lease \
                 ran out; they may be sent twice under the same id"
            ));
        }
        Ok(())
    }

    /// `Refused` also stands for "never left, there was no connection". Whether the message or the
    /// broker is at fault shows when the broker is asked; neither an outage nor an alarm (B-06) must
    /// use up attempts.
    async fn broker_is_gone(&self, refused: &[FailedAttempt]) -> bool {
        let is_blocked = || matches!(self.broker.flow(), Flow::Blocked(_));
        !refused.is_empty() && (is_blocked() || self.broker.probe().await.is_err())
    }

    fn sort(
        &self,
        claim: &Claim,
        faults: Vec<Option<String>>,
        outcomes: Vec<PublishOutcome>,
        report: &mut Report,
    ) -> Sorted {
        let mut outcomes = outcomes.into_iter();
        let mut sorted = Sorted::default();
        for (event, fault) in claim.events.iter().zip(faults) {
            let event_id = event.row.event_id.clone();
            if let Some(error) = fault {
                report.add("failed", 1);
                sorted.failed.push(FailedAttempt {
                    event_id,
                    error,
                    retry_after: None,
                });
                continue;
            }
            // A publisher owes one outcome a message; a missing one is not known, never guessed.
            let outcome = outcomes
                .next()
                .unwrap_or_else(|| PublishOutcome::Unknown("no outcome".to_owned()));
            report.add(counter(&outcome), 1);
            let attempts = event
                .row
                .attempts
                .map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX));
            let attempt = match verdict(&outcome, attempts, &self.settings) {
                Next::Sent => {
                    sorted.sent.push(event_id);
                    continue;
                }
                Next::Retry { wait, error } => {
                    report.add("retried", 1);
                    FailedAttempt {
                        event_id,
                        error,
                        retry_after: Some(match wait {
                            Wait::Backoff => self.settings.backoff.delay(attempts),
                            Wait::Slow => self.settings.backoff.cap,
                        }),
                    }
                }
                Next::Fail { error } => {
                    report.add("failed", 1);
                    FailedAttempt {
                        event_id,
                        error,
                        retry_after: None,
                    }
                }
            };
            if matches!(outcome, PublishOutcome::Refused(_)) {
                sorted.refused.push(attempt);
            } else {
                sorted.failed.push(attempt);
            }
        }
        sorted
    }

    async fn give_back(
        &self,
        claim: &Claim,
        event_ids: &[EventId],
        report: &mut Report,
    ) -> Result<(), String> {
        let rows = retrying(|| self.store.give_back(&claim.token, event_ids))
            .await
            .map_err(|e| format!("the claim was not given back and waits for its lease: {e}"))?;
        report.add("given_back", rows);
        Ok(())
    }
}

/// Rows of a batch by what happens to them.
#[derive(Default)]
struct Sorted {
    sent: Vec<EventId>,
    failed: Vec<FailedAttempt>,
    refused: Vec<FailedAttempt>,
}

fn counter(outcome: &PublishOutcome) -> &'static str {
    match outcome {
        PublishOutcome::Confirmed => "confirmed",
        PublishOutcome::Returned(_) => "unroutable",
        PublishOutcome::Nacked => "nacked",
        PublishOutcome::Refused(_) => "refused",
        PublishOutcome::Unknown(_) => "unknown",
    }
}

fn ids(events: &[OutboxEvent]) -> Vec<EventId> {
    events
        .iter()
        .map(|event| event.row.event_id.clone())
        .collect()
}

fn len(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Repeats a guarded statement that met a lock or a short outage; harmless, since it is fenced.
async fn retrying<T, F>(mut call: impl FnMut() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if error.is_retryable() && tries < STORE_TRIES => {
                sleep(STORE_BACKOFF.delay(tries)).await;
                tries += 1;
            }
            answer => return answer,
        }
    }
}

#[async_trait]
impl Worker for Dispatcher {
    fn name(&self) -> &'static str {
        NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service);
        if let Err(problem) = self.pass(&mut report).await {
            report.problem = Some(problem);
        }
        report
    }

    async fn drain(&mut self) {
        // Nothing is held between passes: every claim of a pass is completed or given back in it.
        self.publisher = None;
    }

    fn idle(&self) -> Duration {
        self.settings.idle
    }
}

#[cfg(test)]
mod tests;
