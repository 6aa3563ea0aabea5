//! The numbers at each hop of the pipeline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::broker::{QueueDepth, QueueFacts};
use crate::config::{InboxPart, Service};
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterCounts;
use crate::model::operation::OperationState;
use crate::model::outbox::OutboxCounts;
use crate::store::{Store, StoreResult};

use super::Observer;
use super::numbers::{self, Counted, INBOX_WINDOW};
use super::operation_shown;
use super::queue_view::estimate_lag;
use super::reader::{MANAGEMENT, joined};
use super::snapshot::{Asked, ConsumerFlow, FlowSnapshot, OpenSagas, PerService, Unread};

/// Unfinished sagas looked at: those that need somebody come first.
const SAGAS_LOOKED_AT: u32 = 100;

/// Unfinished operations looked at: there are few, or something is very wrong.
const OPERATIONS_LOOKED_AT: u32 = 50;

/// What waits for a person, sagas and operations without an outcome, is asked at every so many refreshes:
/// it changes at a person's pace, and is most of what a look would cost.
const SLOW: u32 = 5;

/// How old an answer about what waits for a person may be: a little less than its pace, so that the
/// refresh that is due does ask.
pub(super) fn slow(refresh: Duration) -> Duration {
    refresh.saturating_mul(SLOW).saturating_sub(refresh / 2)
}

/// What the management API tells about the consumers' queues, by name.
pub(super) type FactsByQueue = HashMap<String, QueueFacts>;

impl Observer {
    /// Numbers at every hop.
    pub async fn flow(&self) -> FlowSnapshot {
        let (facts, unread) = self.consumer_queue_facts().await;
        let mut flow = self.flow_with(&facts).await;
        flow.unread.extend(unread);
        flow
    }

    /// What the management API tells about the queue of every consumer.
    pub(super) async fn consumer_queue_facts(&self) -> (FactsByQueue, Vec<Unread>) {
        let Some(broker) = &self.ports.broker else {
            return (FactsByQueue::default(), Vec::new());
        };
        let inboxes = self
            .ports
            .context
            .services
            .iter()
            .filter_map(|s| s.inbox.as_ref());
        let reads = join_all(inboxes.map(|inbox| {
            self.reader.broker(
                MANAGEMENT,
                format!("facts of {}", inbox.queue),
                "queue facts",
                broker.queue(&inbox.queue),
            )
        }))
        .await;
        let mut facts = FactsByQueue::default();
        let mut unread = Vec::new();
        for read in reads {
            match read {
                Ok(Some(queue)) => {
                    facts.insert(queue.name.clone(), queue);
                }
                Ok(None) => {}
                Err(reason) => unread.push(reason),
            }
        }
        // Not being told rates is no fault of a context that has no management API.
        if self.ports.context.management.is_none() {
            unread.clear();
        }
        (facts, unread)
    }

    /// As [`Observer::flow`], with queue facts read before: depth comes from the message port, and
    /// nothing waits for the management API (M-10).
    pub(super) async fn flow_with(&self, facts: &FactsByQueue) -> FlowSnapshot {
        let counted = join_all(self.ports.iter().map(|(service, store)| async move {
            (service.name.as_str(), self.counted(service, store).await)
        }));
        let depths = join_all(self.inboxes().map(|(_, inbox)| self.depth(&inbox.queue)));
        let sagas = self.of_services(
            |service| service.sagas.is_some(),
            |service, store| async move {
                let open = self.open_sagas(service, store).await?;
                let now = self.ports.clock.now();
                Ok(open.count(now, |saga| saga.needs_somebody(now)))
            },
        );
        let unknown = self.of_services(
            |service| service.journal,
            |service, store| {
                let read = async {
                    let read = operations_unknown(store);
                    let read = self.reader.store(&service.name, "operations", read);
                    Ok((read.await?, Asked::anew()))
                };
                self.operations_unknown.get(&service.name, read)
            },
        );
        let (counted, depths, sagas, unknown, findings) =
            tokio::join!(counted, depths, sagas, unknown, self.findings_open());
        let consumers = self.inboxes().zip(depths).map(|((service, inbox), depth)| {
            let mut counted = counted.iter();
            let counted = counted.find(|(name, _)| *name == service.name);
            consumer_flow((service, inbox), depth, counted.map(|(_, of)| of), facts)
        });
        let outboxes = numbers::parts(&counted, |counted| counted.outbox.clone());
        let dead = numbers::parts(&counted, |counted| counted.dead_letters.clone());
        let mut flow = Self::compose(outboxes, &dead, &sagas, consumers.collect());
        flow.unread
            .extend(unknown.iter().filter_map(|part| part.unread.clone()));
        flow.operations_unknown = sum(&unknown, |(count, _)| Some(*count));
        let asked = unknown.iter().filter_map(|part| Some(part.value?.1));
        flow.operations_asked = asked.collect();
        match findings {
            Ok((open, asked)) => {
                flow.findings_open = open;
                flow.findings_asked = Some(asked);
            }
            Err(reason) => flow.unread.push(reason),
        }
        flow
    }

    fn compose(
        outboxes: Vec<PerService<OutboxCounts>>,
        dead: &[PerService<DeadLetterCounts>],
        sagas: &[PerService<Count>],
        consumers: Vec<(ConsumerFlow, Vec<Unread>)>,
    ) -> FlowSnapshot {
        let mut unread: Vec<Unread> = Vec::new();
        unread.extend(outboxes.iter().filter_map(|part| part.unread.clone()));
        unread.extend(dead.iter().filter_map(|part| part.unread.clone()));
        unread.extend(sagas.iter().filter_map(|part| part.unread.clone()));
        let consumers = consumers
            .into_iter()
            .map(|(mut flow, missing)| {
                unread.extend(missing);
                flow.dead_open = dead
                    .iter()
                    .find(|part| part.service == flow.service)
                    .and_then(|part| Some(part.value?.open));
                flow
            })
            .collect();
        FlowSnapshot {
            published_per_s: published_per_s(&outboxes),
            dead_open: sum(dead, |counts| Some(counts.open)),
            deaths_per_min: sum(dead, |counts| Some(counts.deaths_last_minute)).map(to_rate),
            sagas_attention: sum(sagas, |count| Some(*count)),
            operations_unknown: None,
            operations_asked: Vec::new(),
            findings_open: None,
            findings_asked: None,
            outboxes,
            consumers,
            unread,
        }
    }

    /// Sagas that are not over, read once for the flow and for the causes.
    pub(super) async fn open_sagas(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
    ) -> Result<OpenSagas, Unread> {
        let read = async {
            let read = store.sagas_open(SAGAS_LOOKED_AT);
            let sagas = self.reader.store(&service.name, "sagas", read).await?;
            Ok(OpenSagas {
                is_cut: sagas.len() >= SAGAS_LOOKED_AT as usize,
                sagas: sagas.into(),
                asked: Asked::anew(),
            })
        };
        self.sagas_open.get(&service.name, read).await
    }

    /// Every consumer's inbox.
    fn inboxes(&self) -> impl Iterator<Item = (&Service, &InboxPart)> {
        let services = self.ports.iter();
        services.filter_map(|(service, _)| Some((service, service.inbox.as_ref()?)))
    }
}

/// One consumer's hop.
fn consumer_flow(
    (service, inbox): (&Service, &InboxPart),
    depth: Result<Option<QueueDepth>, Unread>,
    counted: Option<&Counted>,
    facts: &FactsByQueue,
) -> (ConsumerFlow, Vec<Unread>) {
    let mut unread = Vec::new();
    let waiting = counted.and_then(|counted| counted.waiting.clone());
    let waiting = waiting
        .and_then(|read| read.map_err(|reason| unread.push(reason)).ok())
        .flatten();
    let depth = match depth {
        Ok(Some(depth)) => Some(depth),
        Ok(None) => {
            unread.push(Unread {
                what: format!("depth of {}", inbox.queue),
                reason: format!("queue {} does not exist", inbox.queue),
                is_unreachable: false,
            });
            None
        }
        Err(reason) => {
            unread.push(reason);
            None
        }
    };
    let recent = counted.and_then(|counted| counted.inbox_recent.clone());
    let rows = recent.and_then(|read| read.map_err(|reason| unread.push(reason)).ok());
    let told = facts.get(&inbox.queue);
    let ready = depth.map_or_else(|| told?.ready, |depth| Some(depth.ready));
    let consumers = depth.map_or_else(|| told?.consumers, |depth| Some(depth.consumers));
    let lag_s = estimate_lag(&QueueFacts {
        ready,
        consumers,
        ..told.cloned().unwrap_or_default()
    })
    .map(|(seconds, _)| seconds);
    let flow = ConsumerFlow {
        service: service.name.clone(),
        consumer: inbox.consumer.to_string(),
        queue: inbox.queue.clone(),
        ready,
        consumers,
        inbox_per_s: rows.map(|rows| to_rate(rows) / INBOX_WINDOW.as_secs_f64()),
        lag_s,
        dead_open: None,
        waiting,
    };
    (flow, unread)
}

impl FlowSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        let is_known = self.outboxes.iter().any(|part| part.value.is_some())
            || self.dead_open.is_some()
            || self.sagas_attention.is_some()
            || self
                .consumers
                .iter()
                .any(|c| c.ready.is_some() || c.inbox_per_s.is_some());
        let reasons: Vec<&str> = self.unread.iter().map(|u| u.reason.as_str()).collect();
        (!is_known && !reasons.is_empty()).then(|| joined(&reasons))
    }
}

/// Operations with an unknown outcome. A database without our journal has none.
async fn operations_unknown(store: &Arc<dyn Store>) -> StoreResult<Count> {
    if !store.facts().has_journal {
        return Ok(Count::Exact(0));
    }
    let unfinished = store.unfinished_operations(OPERATIONS_LOOKED_AT).await?;
    let is_cut = unfinished.len() >= usize::try_from(OPERATIONS_LOOKED_AT).unwrap_or(usize::MAX);
    let mut unknown = 0;
    for operation in unfinished {
        let operation = operation_shown(store, operation).await?;
        unknown += u64::from(operation.state == OperationState::Unknown);
    }
    Ok(if is_cut {
        Count::AtLeast(unknown)
    } else {
        Count::Exact(unknown)
    })
}

/// Publishes a second of all outboxes; one that cannot tell makes the sum unknown.
fn published_per_s(outboxes: &[PerService<OutboxCounts>]) -> Option<f64> {
    sum(outboxes, OutboxCounts::published_last_minute).map(|sent| to_rate(sent) / 60.0)
}

/// Sum over services; `None` when there are none, or when one is not known.
fn sum<T>(parts: &[PerService<T>], of: impl Fn(&T) -> Option<Count>) -> Option<Count> {
    let mut total = None;
    for part in parts {
        let count = of(part.value.as_ref()?)?;
        total = Some(total.map_or(count, |before: Count| before.plus(count)));
    }
    total
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts are capped far below 2^53"
)]
fn to_rate(count: Count) -> f64 {
    count.floor() as f64
}
