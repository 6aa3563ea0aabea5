//! One dead-letter queue: read, stored or put aside, acknowledged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::copy::Copier;
use super::super::death::{Found, Occurrences, new_death};
use super::super::subscription::Subscription;
use super::super::{Report, headers};
use super::NAME;
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::text;
use crate::broker::{Broker, Delivery, NewQueue, Topology};
use crate::config::{Context, Service};
use crate::model::alert::Alert;
use crate::model::dead_letter::{DeathRecorded, NewDeath, fingerprint_without_id};
use crate::model::message::FieldValue;
use crate::store::{Store, StoreError, StoreResult};

/// Crash point after the commit of a row and before its acknowledgement, once a message (B-14).
const AFTER_COMMIT: &str = "collector.after_commit";
/// Messages in flight a queue, and rows a pass.
const PREFETCH: u16 = 100;
/// Messages that can be neither stored nor parked before the queue is left alone.
const HELD_MAX: usize = 50;
/// Rows in a row that cannot be stored before it is the table, not the rows, that is at fault.
const PARKED_IN_A_ROW_MAX: u32 = 10;
/// Between tries of a row its table does not take.
const STUCK_RETRY: Backoff = Backoff {
    base: Duration::from_millis(500),
    cap: Duration::from_secs(30),
};
/// How long such a message is kept: well under the broker's consumer timeout of 30 minutes.
const STUCK_MAX: Duration = Duration::from_mins(10);

/// One dead-letter queue.
pub(super) struct Feed {
    context: Arc<Context>,
    service: Service,
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    clock: Clock,
    subscription: Subscription,
    copier: Copier,
    occurrences: Occurrences,
    /// Names the present subscription in the rows of messages without an id.
    epoch: String,
    /// Stored messages without an id, by fingerprint: not acknowledged yet.
    unacknowledged: Vec<String>,
    /// The same, acknowledged, and their rows do not say so yet.
    unsettled: Vec<String>,
    /// Tags that could be neither stored nor parked, with the last reason.
    held: Vec<u64>,
    parked_in_a_row: u32,
    has_parking: bool,
    /// The message at which the table stopped taking rows.
    stuck: Option<Stuck>,
    /// Deaths of this pass somebody may want to hear of.
    alerts: Vec<Alert>,
}

/// A message that waits for its table. It is kept, not given back: each return to a quorum queue
/// counts against its delivery limit, and beyond that the broker would drop it.
struct Stuck {
    delivery: Delivery,
    death: NewDeath,
    since: Instant,
    retry_at: Instant,
    failures: u32,
    reason: String,
}

/// What became of one message.
enum Kept {
    /// Its row is committed, or a confirmed copy is parked.
    Safe,
    /// Neither; it stays unacknowledged.
    Held,
}

impl Feed {
    /// Reaches nothing yet.
    pub(super) fn new(
        (context, service): (&Arc<Context>, &Service),
        queue: &str,
        (store, broker): (Arc<dyn Store>, Arc<dyn Broker>),
        clock: &Clock,
    ) -> Self {
        let subscription = Subscription::new(queue, PREFETCH, Arc::clone(&broker), clock.clone());
        Self {
            context: Arc::clone(context),
            service: service.clone(),
            store,
            copier: Copier::new(Arc::clone(&broker)),
            broker,
            clock: clock.clone(),
            subscription,
            occurrences: Occurrences::default(),
            epoch: new_epoch(),
            unacknowledged: Vec::new(),
            unsettled: Vec::new(),
            held: Vec::new(),
            parked_in_a_row: 0,
            has_parking: false,
            stuck: None,
            alerts: Vec::new(),
        }
    }

    /// What somebody may want to hear of since the last time.
    pub(super) fn take_alerts(&mut self) -> Vec<Alert> {
        std::mem::take(&mut self.alerts)
    }

    /// Tries in the next pass what waits for a later one.
    pub(super) fn try_again(&mut self) {
        self.subscription.try_again();
        if let Some(stuck) = &mut self.stuck {
            stuck.retry_at = Instant::now();
        }
    }

    /// Gives back what is not acknowledged.
    pub(super) async fn close(&mut self) {
        self.subscription.close().await;
        self.start_again();
    }

    /// One pass over this queue. The others go on whatever happens here (B-08).
    pub(super) async fn pass(&mut self) -> Report {
        let mut report = Report::new(NAME, &self.service.name);
        report.is_idle = true;
        if let Err(problem) = self.collect(&mut report).await {
            report.problem = Some(problem);
        }
        report
    }

    async fn collect(&mut self, report: &mut Report) -> Result<(), String> {
        self.open().await?;
        if self.held.len() >= HELD_MAX {
            let reason = format!("{HELD_MAX} messages can be neither stored nor parked");
            self.subscription.give_back(&reason).await;
            return Err(format!("{}: {reason}", self.subscription.queue()));
        }
        let mut safe: Vec<u64> = Vec::new();
        let stopped = self.read(report, &mut safe).await;
        let acked = self.acknowledge(&safe).await;
        if acked.is_ok() {
            self.unsettled.append(&mut self.unacknowledged);
            // If this fails, it is done before the next subscription: until then nobody needs it.
            if let Err(error) = self.settle().await {
                tracing::warn!(%error, "acknowledged messages without an id are not marked yet");
            }
        }
        if stopped.is_ok() && acked.is_ok() && self.held.is_empty() {
            self.occurrences.clear();
        }
        match stopped {
            Err(Stop::Lost(problem)) => Err(problem),
            Err(Stop::Away(reason)) => {
                self.subscription.give_back(&reason).await;
                Err(format!(
                    "{}: given back: {reason}",
                    self.subscription.queue()
                ))
            }
            Err(Stop::Table(stuck)) => self.wait_for_table(*stuck).await,
            Ok(()) => acked,
        }
    }

    /// Opens the subscription when a try is due, and only while the database answers: what is taken
    /// from the queue has to be storable. What was acknowledged is marked before: else its row could
    /// be taken for that of a twin that comes again.
    async fn open(&mut self) -> Result<(), String> {
        if self.subscription.is_due() {
            let ready = match self.store.probe().await {
                Ok(_) => self.settle().await,
                Err(error) => Err(error),
            };
            if let Err(error) = ready {
                self.subscription.give_back(&error.to_string()).await;
                return Err(self.subscription.describe());
            }
        }
        if self.subscription.open().await? {
            self.start_again();
        }
        Ok(())
    }

    /// Stores what is there, at most a prefetch of it.
    async fn read(&mut self, report: &mut Report, safe: &mut Vec<u64>) -> Result<(), Stop> {
        if let Some(mut stuck) = self.stuck.take() {
            if Instant::now() < stuck.retry_at {
                return Err(Stop::Table(Box::new(stuck)));
            }
            // The first try may have been committed and its answer lost: it is looked for, as after a redelivery.
            // Twins without an id on one subscription look alike: of those it could find the other's row.
            stuck.death.redelivered |= stuck.death.event_id.is_some();
            match self.store.record_death(&stuck.death).await {
                Ok(recorded) => {
                    self.stored(&stuck.death, &recorded, report);
                    safe.push(stuck.delivery.tag);
                }
                Err(error) => {
                    return Err(Stop::Table(Box::new(Stuck {
                        failures: stuck.failures.saturating_add(1),
                        retry_at: Instant::now() + STUCK_RETRY.ceiling(stuck.failures),
                        reason: error.to_string(),
                        ..stuck
                    })));
                }
            }
        }
        let room = usize::from(PREFETCH).saturating_sub(self.held.len());
        for _ in 0..room {
            let Some(delivery) = self.subscription.next().await.map_err(Stop::Lost)? else {
                return Ok(());
            };
            report.is_idle = false;
            let tag = delivery.tag;
            match self.keep(delivery, report).await? {
                Kept::Safe => safe.push(tag),
                Kept::Held => self.held.push(tag),
            }
        }
        Ok(())
    }

    async fn keep(&mut self, delivery: Delivery, report: &mut Report) -> Result<Kept, Stop> {
        let mut death = new_death(
            &delivery,
            Found {
                context: &self.context,
                service: &self.service,
                queue: self.subscription.queue(),
                now: self.clock.now(),
            },
        );
        death.fingerprint = if death.event_id.is_some() {
            self.occurrences.fingerprint(&death.fingerprint)
        } else {
            fingerprint_without_id(&death.fingerprint, &self.epoch)
        };
        match self.store.record_death(&death).await {
            Ok(recorded) => {
                self.stored(&death, &recorded, report);
                Ok(Kept::Safe)
            }
            Err(error) if is_away(&error, self.store.as_ref()).await => {
                Err(Stop::Away(error.to_string()))
            }
            Err(error)
                if is_about_one_row(&error) && self.parked_in_a_row < PARKED_IN_A_ROW_MAX =>
            {
                self.parked_in_a_row += 1;
                Ok(self.park(&delivery, &error, report).await)
            }
            Err(error) => Err(Stop::Table(Box::new(Stuck {
                delivery,
                death,
                since: Instant::now(),
                retry_at: Instant::now() + STUCK_RETRY.base,
                failures: 1,
                reason: error.to_string(),
            }))),
        }
    }

    fn stored(&mut self, death: &NewDeath, recorded: &DeathRecorded, report: &mut Report) {
        self.context.environment.crash_points().reach(AFTER_COMMIT);
        if death.event_id.is_none() {
            self.unacknowledged.push(death.fingerprint.clone());
        }
        self.parked_in_a_row = 0;
        report.is_idle = false;
        let counter = match recorded {
            DeathRecorded::New(_) => "new",
            DeathRecorded::Again { .. } => "died_again",
            DeathRecorded::SameDelivery(_) => "same_delivery",
        };
        report.add(counter, 1);
        self.alerts
            .extend(Alert::of(&self.context.name, recorded, death));
    }

    /// Keeps the message for the next pass; gives it back before the broker takes the channel away.
    async fn wait_for_table(&mut self, stuck: Stuck) -> Result<(), String> {
        let problem = format!(
            "{}: the dead-letter table takes no row: {}",
            self.subscription.queue(),
            stuck.reason
        );
        if stuck.since.elapsed() >= STUCK_MAX {
            self.subscription.give_back(&stuck.reason).await;
        } else {
            self.stuck = Some(stuck);
        }
        Err(problem)
    }

    /// Puts a message aside whose row the database refuses, so that it does not block the queue.
    async fn park(&mut self, delivery: &Delivery, error: &StoreError, report: &mut Report) -> Kept {
        let queue = format!("{}.parked", self.subscription.queue());
        let reason = text::safe(text::cut_bytes(&error.to_string(), 1000));
        let mut message = delivery.message.clone();
        message
            .properties
            .headers
            .set(headers::PARKED, FieldValue::Text(reason.clone()));
        let sent = match self.declare_parking(&queue).await {
            Ok(()) => self
                .copier
                .send(&queue, message)
                .await
                .map_err(|fault| fault.to_string()),
            Err(problem) => Err(problem),
        };
        let id = delivery
            .message
            .properties
            .message_id
            .as_deref()
            .unwrap_or("without an id");
        match sent {
            Ok(()) => {
                report.add("parked", 1);
                report.problem = Some(format!("message {id} is parked in {queue}: {reason}"));
                tracing::error!(
                    message.id = id,
                    queue.name = queue,
                    reason,
                    "message parked"
                );
                Kept::Safe
            }
            Err(problem) => {
                report.add("held", 1);
                report.problem = Some(format!(
                    "message {id} is held unacknowledged, neither stored ({reason}) nor parked \
                     ({problem})"
                ));
                tracing::error!(message.id = id, reason, problem, "message held");
                Kept::Held
            }
        }
    }

    async fn declare_parking(&mut self, queue: &str) -> Result<(), String> {
        if self.has_parking {
            return Ok(());
        }
        // An existing queue is taken as it is: declaring it differently would be refused.
        if self
            .broker
            .depth(queue)
            .await
            .map_err(|e| e.to_string())?
            .is_none()
        {
            let topology = Topology {
                exchanges: Vec::new(),
                queues: vec![NewQueue {
                    name: queue.to_owned(),
                    ..NewQueue::default()
                }],
            };
            self.broker
                .declare(&topology)
                .await
                .map_err(|e| e.to_string())?;
        }
        self.has_parking = true;
        Ok(())
    }

    /// One acknowledgement for all while nothing is held; else one each.
    async fn acknowledge(&mut self, safe: &[u64]) -> Result<(), String> {
        let Some(last) = safe.last() else {
            return Ok(());
        };
        if self.held.is_empty() {
            return self.subscription.ack(*last, true).await;
        }
        for tag in safe {
            self.subscription.ack(*tag, false).await?;
        }
        Ok(())
    }

    /// Takes the subscription's mark off the rows of acknowledged messages without an id.
    async fn settle(&mut self) -> StoreResult<()> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        self.store.settle_deaths(&self.unsettled).await?;
        self.unsettled.clear();
        Ok(())
    }

    /// Tags and numbers of a lost subscription are worthless: its messages come again (B-14).
    fn start_again(&mut self) {
        self.held.clear();
        self.occurrences.clear();
        self.unacknowledged.clear();
        self.epoch = new_epoch();
        self.stuck = None;
    }
}

fn new_epoch() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Why a pass over a queue ended early.
enum Stop {
    /// The subscription was lost.
    Lost(String),
    /// The database is away.
    Away(String),
    /// It answers, but its table does not take rows: missing, denied, full.
    Table(Box<Stuck>),
}

/// A server that answers and has no room (its disk or its table is full) is not away: messages given back
/// would come again at once, and a queue with a delivery limit would lose them.
async fn is_away(error: &StoreError, store: &dyn Store) -> bool {
    let may_answer = matches!(error, StoreError::Unavailable { .. });
    error.is_retryable() && !(may_answer && store.probe().await.is_ok())
}

/// Only a statement that failed on its values speaks of one row; everything else would hit every row.
fn is_about_one_row(error: &StoreError) -> bool {
    match error {
        StoreError::Failed { .. } => true,
        StoreError::Unavailable { .. }
        | StoreError::TimedOut { .. }
        | StoreError::Contended { .. }
        | StoreError::Denied { .. }
        | StoreError::Mapping { .. }
        | StoreError::Unsupported { .. } => false,
    }
}
