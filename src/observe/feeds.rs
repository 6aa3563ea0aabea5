//! The feeds of the console: which question each asks, how often, and of whom.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::base::tasks::Tasks;
use crate::model::ids::DeadLetterId;

use super::feed::Feed;
use super::flow::FactsByQueue;
use super::health::not_asked;
use super::history::History;
use super::reader::MANAGEMENT;
use super::snapshot::{
    Asked, AuditSnapshot, CauseSnapshot, DeadLetterSnapshot, DeadLetterView, FlowSnapshot,
    HealthSnapshot, LeaseSnapshot, OperationSnapshot, OutboxSnapshot, QueueSnapshot, Reading,
    SagaSnapshot, ScanSnapshot, ServerHealth,
};
use super::{Observer, Views};

/// RabbitMQ makes new statistics every five seconds: asking more often only costs it.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);

/// Queue facts older than this say nothing about a lag any more.
const FACTS_KEPT: Duration = Duration::from_secs(15);

/// Operations on the pane; older ones are looked up by the command line.
const OPERATIONS_SHOWN: u32 = 50;

/// Reads a context again and again, each feed at its own pace in its own task; latest wins.
pub struct Feeds {
    /// Told by the console. Dropping it ends every feed.
    pub views: watch::Sender<Views>,
    /// Health of every server.
    pub health: watch::Receiver<Reading<HealthSnapshot>>,
    /// Numbers at every hop.
    pub flow: watch::Receiver<Reading<FlowSnapshot>>,
    /// What explains them.
    pub causes: watch::Receiver<Reading<CauseSnapshot>>,
    /// The last numbers of `flow`, for sparklines.
    pub history: watch::Receiver<History>,
    /// Outboxes.
    pub outbox: watch::Receiver<Reading<OutboxSnapshot>>,
    /// Leases.
    pub leases: watch::Receiver<Reading<LeaseSnapshot>>,
    /// Queues.
    pub queues: watch::Receiver<Reading<QueueSnapshot>>,
    /// Dead letters.
    pub dead_letters: watch::Receiver<Reading<DeadLetterSnapshot>>,
    /// The open dead letter's detail.
    pub dead_letter: watch::Receiver<Reading<Option<DeadLetterView>>>,
    /// Sagas.
    pub sagas: watch::Receiver<Reading<SagaSnapshot>>,
    /// Scans and findings.
    pub scans: watch::Receiver<Reading<ScanSnapshot>>,
    /// Operations.
    pub operations: watch::Receiver<Reading<OperationSnapshot>>,
    /// Audit entries.
    pub audit: watch::Receiver<Reading<AuditSnapshot>>,
}

/// What the management API told last. Read on its own, so that health and flow never wait for it.
#[derive(Clone, Debug, PartialEq)]
struct Managed {
    health: ServerHealth,
    asked: Asked,
    facts: FactsByQueue,
}

impl Feeds {
    /// Starts every feed in `tasks`.
    pub fn start(observer: Arc<Observer>, views: Views, tasks: &Tasks) -> Self {
        let thresholds = &observer.ports().context.thresholds;
        let (refresh, page_rows) = (thresholds.refresh, thresholds.page_rows);
        let slow = refresh.max(STATISTICS_INTERVAL);
        let causes_every = observer.ports().context.verdicts.every.max(refresh);
        let is_embedded = observer
            .ports()
            .context
            .amqp
            .as_ref()
            .is_some_and(|url| url.scheme() == "embedded");
        let management = if is_embedded { refresh } else { slow };
        let (sender, receiver) = watch::channel(views);
        let start = Starter {
            observer,
            views: receiver,
            tasks,
        };
        let managed = start.feed(management, always, |o, ()| async move {
            let (health, (facts, _)) =
                tokio::join!(o.management_health(), o.consumer_queue_facts());
            Ok(Managed {
                health,
                asked: Asked::anew(),
                facts,
            })
        });
        let (history_sender, history) = watch::channel(History::new(refresh));
        Self {
            health: start.health(refresh, managed.clone()),
            flow: start.flow(refresh, managed, history_sender),
            history,
            // A part that could not be read is in the value, so that the others are judged.
            causes: start.feed(
                causes_every,
                always,
                |o, ()| async move { Ok(o.causes().await) },
            ),
            outbox: start.feed(
                refresh,
                |views| is_active(views, "outbox").then(|| views.outbox.clone()),
                |o, view| async move { good(o.outbox(&view).await, OutboxSnapshot::failure) },
            ),
            leases: start.feed(
                refresh,
                |views| is_active(views, "leases").then_some(()),
                |o, ()| async move { good(o.leases().await, LeaseSnapshot::failure) },
            ),
            queues: start.feed(
                management,
                |views| is_active(views, "queues").then_some(views.queues_page),
                |o, page| async move { good(o.queues(page).await, QueueSnapshot::failure) },
            ),
            dead_letters:
                start.feed(
                    refresh,
                    |views| is_active(views, "dead_letters").then(|| views.dead_letters.clone()),
                    |o, view| async move {
                        good(o.dead_letters(&view).await, DeadLetterSnapshot::failure)
                    },
                ),
            // Many small reads for something that rarely changes: half the pace.
            dead_letter: start.feed(refresh * 2, open_letter, |o, (service, id)| async move {
                o.dead_letter(&service, &id).await.map_err(|u| u.reason)
            }),
            sagas: start.feed(
                refresh,
                |views| is_active(views, "sagas").then_some(()),
                |o, ()| async move { good(o.sagas().await, SagaSnapshot::failure) },
            ),
            scans: start.feed(
                refresh,
                |views| is_active(views, "scans").then_some(()),
                |o, ()| async move { good(o.scans().await, ScanSnapshot::failure) },
            ),
            operations: start.feed(
                refresh,
                |views| is_active(views, "operations").then_some(()),
                |o, ()| async move {
                    let operations = o.operations(OPERATIONS_SHOWN).await;
                    good(operations, OperationSnapshot::failure)
                },
            ),
            audit: start.feed(
                slow,
                |views| is_active(views, "audit").then_some(()),
                move |o, ()| async move { good(o.audit(page_rows).await, AuditSnapshot::failure) },
            ),
            views: sender,
        }
    }
}

struct Starter<'a> {
    observer: Arc<Observer>,
    views: watch::Receiver<Views>,
    tasks: &'a Tasks,
}

impl Starter<'_> {
    fn feed<K, T, F>(
        &self,
        every: Duration,
        question: fn(&Views) -> Option<K>,
        read: impl Fn(Arc<Observer>, K) -> F + Send + Sync + 'static,
    ) -> watch::Receiver<Reading<T>>
    where
        K: Clone + PartialEq + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        let observer = Arc::clone(&self.observer);
        let clock = observer.ports().clock.clone();
        let read = move |key| -> BoxFuture<'static, Result<T, String>> {
            read(Arc::clone(&observer), key).boxed()
        };
        Feed {
            every,
            question,
            read: Box::new(read),
        }
        .start(self.views.clone(), clock, self.tasks)
    }

    fn health(
        &self,
        every: Duration,
        managed: watch::Receiver<Reading<Managed>>,
    ) -> watch::Receiver<Reading<HealthSnapshot>> {
        self.feed(every, always, move |o, ()| {
            let managed = managed.clone();
            async move {
                let health = o.health_but_management().await;
                let known = managed.borrow().value.clone();
                Ok(HealthSnapshot {
                    management_asked: known.as_ref().map(|known| known.asked),
                    management: known.map_or_else(
                        || not_asked(MANAGEMENT, "not asked yet"),
                        |known| known.health.clone(),
                    ),
                    ..health
                })
            }
        })
    }

    fn flow(
        &self,
        every: Duration,
        managed: watch::Receiver<Reading<Managed>>,
        history: watch::Sender<History>,
    ) -> watch::Receiver<Reading<FlowSnapshot>> {
        let history = Arc::new(history);
        self.feed(every, always, move |o, ()| {
            let (managed, history) = (managed.clone(), Arc::clone(&history));
            async move {
                let clock = &o.ports().clock;
                let facts = fresh_facts(&managed, clock.now().minus(FACTS_KEPT));
                let flow = o.flow_with(&facts).await;
                let flow = good(flow, FlowSnapshot::failure)?;
                history.send_modify(|history| history.accept(clock.now(), &flow));
                Ok(flow)
            }
        })
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a question, as every feed has one"
)]
fn always(_: &Views) -> Option<()> {
    Some(())
}

fn is_active(views: &Views, feed: &str) -> bool {
    views.active.contains(&feed)
}

fn open_letter(views: &Views) -> Option<(String, DeadLetterId)> {
    views.dead_letter.clone()
}

/// A value that holds anything that could be read, else why nothing could.
fn good<T>(value: T, failure: impl Fn(&T) -> Option<String>) -> Result<T, String> {
    match failure(&value) {
        Some(problem) => Err(problem),
        None => Ok(value),
    }
}

fn fresh_facts(
    managed: &watch::Receiver<Reading<Managed>>,
    oldest: crate::base::clock::Timestamp,
) -> FactsByQueue {
    let reading = managed.borrow();
    match (&reading.value, reading.read_at) {
        (Some(known), Some(at)) if at >= oldest => known.facts.clone(),
        _ => FactsByQueue::default(),
    }
}
