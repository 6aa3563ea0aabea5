//! The pipeline itself. A worker is `run_once() -> Report` and a dumb loop; what it decides is in
//! pure functions; what it waits for has a limit.

mod absent;
mod alerter;
pub mod consumer;
mod copy;
pub mod dead_letter_collector;
pub mod death;
pub mod dispatcher;
pub mod headers;
pub mod inbox_archiver;
pub mod message;
pub mod reaper;
pub mod saga_coordinator;
mod subscription;
pub mod supervisor;
#[cfg(test)]
pub(crate) mod test_support;

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::broker::Broker;
use crate::config::Service;
use crate::model::ids::ConsumerName;
use crate::ports::Ports;
use crate::store::Store;
use absent::Absent;
use consumer::{Consumer, ConsumerSettings, Handler};
use dead_letter_collector::Collector;
use dispatcher::Dispatcher;
use inbox_archiver::Archiver;
use reaper::Reaper;
use saga_coordinator::{Coordinator, CoordinatorSettings, Definitions};

/// What one pass of a worker did. The pane, the log and the tests read the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Registered name, e.g. `dispatcher`.
    pub worker: String,
    /// Service it works for.
    pub service: String,
    /// Counters of this pass, e.g. `("sent", 12)`; only those that are not zero.
    pub counts: Vec<(String, u64)>,
    /// Anything that went wrong, for a person.
    pub problem: Option<String>,
    /// True when there was nothing to do, or nothing to hurry for: with a problem, that the worker keeps
    /// its own pace and the loop need not back off.
    pub is_idle: bool,
}

impl Report {
    /// An empty report.
    pub fn new(worker: &str, service: &str) -> Self {
        Self {
            worker: worker.to_owned(),
            service: service.to_owned(),
            ..Self::default()
        }
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: &str, n: u64) {
        if n == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(name, _)| name == counter) {
            Some((_, total)) => *total += n,
            None => self.counts.push((counter.to_owned(), n)),
        }
    }

    /// A counter's value; 0 when it was never counted.
    pub fn get(&self, counter: &str) -> u64 {
        self.counts
            .iter()
            .find(|(name, _)| name == counter)
            .map_or(0, |(_, n)| *n)
    }
}

/// A worker of the pipeline.
#[async_trait]
pub trait Worker: Send {
    /// Registered name.
    fn name(&self) -> &'static str;
    /// Service it works for.
    fn service(&self) -> &str;
    /// One pass. Never fails: a problem is in the report, and the loop backs off.
    ///
    /// # Cancel safety
    /// Not cancel safe; the loop stops between passes.
    async fn run_once(&mut self) -> Report;
    /// A server that was away answers somebody again: what the worker waits with until a later pass, it
    /// tries in the next one. Called between passes, at most once a second.
    fn try_again(&mut self) {}
    /// Gives back what is held (leases, unacknowledged messages) before stopping.
    async fn drain(&mut self);
    /// How long [`Worker::drain`] may take: a loop that is stopped waits that long for it.
    fn drain_limit(&self) -> Duration {
        Duration::from_secs(10)
    }
    /// Pause after a pass that found nothing to do.
    fn idle(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// Handlers by consumer name. A program without business code has none.
pub type Handlers = HashMap<ConsumerName, Arc<dyn Handler>>;

/// What a program brings to its workers: its own code. `redrive` itself has some only in a sandbox.
#[derive(Clone, Default)]
pub struct Program {
    /// Handlers by consumer name.
    pub handlers: Handlers,
    /// Kinds of saga.
    pub sagas: Definitions,
}

impl From<Handlers> for Program {
    fn from(handlers: Handlers) -> Self {
        Self {
            handlers,
            sagas: Definitions::new(),
        }
    }
}

/// A worker, or none where a service has no such part.
type Made = Result<Option<Box<dyn Worker>>, String>;

/// A kind of worker that `redrive worker` can run.
pub struct WorkerKind {
    /// Registered name.
    pub name: &'static str,
    /// What it does, for help and docs.
    pub about: &'static str,
    make: fn(&Part<'_>) -> Made,
}

/// What a worker of one service is made of.
struct Part<'a> {
    ports: &'a Ports,
    service: &'a Service,
    store: &'a Arc<dyn Store>,
    broker: &'a Arc<dyn Broker>,
    program: &'a Program,
    /// Asked for by name, not only because it fits.
    is_named: bool,
}

impl Part<'_> {
    fn connected(&self) -> (Arc<dyn Store>, Arc<dyn Broker>) {
        (Arc::clone(self.store), Arc::clone(self.broker))
    }
}

/// Every kind of worker, in the order an event meets them.
pub const WORKERS: [WorkerKind; 6] = [
    WorkerKind {
        name: dispatcher::NAME,
        about: "publishes an outbox: claim, publish with confirms, sent mark by token",
        make: make_dispatcher,
    },
    WorkerKind {
        name: reaper::NAME,
        about: "sets an outbox's rows back whose lease has run out",
        make: make_reaper,
    },
    WorkerKind {
        name: consumer::NAME,
        about: "consumes a queue: inbox row, effect and outgoing events in one transaction",
        make: make_consumer,
    },
    WorkerKind {
        name: dead_letter_collector::NAME,
        about: "collects dead-letter queues into the dead-letter table",
        make: make_collector,
    },
    WorkerKind {
        name: saga_coordinator::NAME,
        about: "moves sagas on by their timers: time-outs, questions, commands, compensation",
        make: make_saga_coordinator,
    },
    WorkerKind {
        name: inbox_archiver::NAME,
        about: "moves inbox rows that are older than inbox_retention out of the inbox, a batch at a time",
        make: make_archiver,
    },
];

/// The named workers (all when `names` is empty) for every service that has their part.
///
/// # Errors
/// A sentence for an unknown name, a context without a broker, limits that contradict each other,
/// or a kind that was named and fits no service.
pub fn build(
    ports: &Ports,
    names: &[String],
    program: &Program,
) -> Result<Vec<Box<dyn Worker>>, String> {
    if let Some(unknown) = names
        .iter()
        .find(|name| WORKERS.iter().all(|kind| kind.name != name.as_str()))
    {
        let known = WORKERS.map(|kind| kind.name).join(", ");
        return Err(format!(
            "there is no worker {unknown:?}; there are: {known}"
        ));
    }
    let Some(broker) = &ports.broker else {
        return Err(format!(
            "context {} names no broker, and every worker needs one; set amqp",
            ports.context.name
        ));
    };
    let mut workers = Vec::new();
    for kind in WORKERS
        .iter()
        .filter(|kind| names.is_empty() || names.iter().any(|name| name == kind.name))
    {
        let before = workers.len();
        for (service, store) in ports.iter() {
            let part = Part {
                ports,
                service,
                store,
                broker,
                program,
                is_named: !names.is_empty(),
            };
            workers.extend((kind.make)(&part)?);
        }
        if workers.len() == before && !names.is_empty() {
            return Err(format!(
                "no service of context {} has what a {} works on",
                ports.context.name, kind.name
            ));
        }
    }
    Ok(workers)
}

/// The workers of one service; all of them when none is named.
pub fn only(mut workers: Vec<Box<dyn Worker>>, service: Option<&str>) -> Vec<Box<dyn Worker>> {
    workers.retain(|worker| service.is_none_or(|service| worker.service() == service));
    workers
}

fn make_dispatcher(part: &Part<'_>) -> Made {
    let Some(outbox) = &part.service.outbox else {
        return Ok(None);
    };
    Dispatcher::new(
        &part.service.name,
        outbox.clone(),
        part.ports.context.dispatcher,
        part.connected(),
    )
    .map(|worker| {
        let crash_points = part.ports.context.environment.crash_points();
        Some(Box::new(worker.with_crash_points(crash_points)) as Box<dyn Worker>)
    })
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is made the same way")]
fn make_reaper(part: &Part<'_>) -> Made {
    Ok(part.service.outbox.as_ref().map(|_| {
        Box::new(Reaper::new(
            &part.service.name,
            part.ports.context.dispatcher,
            Arc::clone(part.store),
        )) as Box<dyn Worker>
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is made the same way")]
fn make_collector(part: &Part<'_>) -> Made {
    if part.service.dead_letters.is_none() {
        return Ok(None);
    }
    let context = &part.ports.context;
    let mut collector = Collector::new(context, part.service, part.connected(), &part.ports.clock);
    if let (Some(hook), Some(settings)) = (&part.ports.alerts, &context.on_death) {
        collector = collector.telling(Arc::clone(hook), settings.every);
    }
    Ok(Some(Box::new(collector)))
}

fn make_saga_coordinator(part: &Part<'_>) -> Made {
    if part.service.sagas.is_none() {
        return Ok(None);
    }
    if part.program.sagas.is_empty() {
        // Next to other workers it is only not there; asked for by name it would do nothing for ever.
        return if part.is_named {
            Err(format!(
                "this program knows no kind of saga: what the sagas of {} send is its service's own code, \
                 which calls pipeline::saga_coordinator with a definition",
                part.service.name
            ))
        } else {
            Ok(None)
        };
    }
    Coordinator::new(
        &part.service.name,
        Arc::clone(part.store),
        part.program.sagas.clone(),
        CoordinatorSettings {
            crash_points: part.ports.context.environment.crash_points(),
            ..CoordinatorSettings::default()
        },
    )
    .map(|worker| Some(Box::new(worker) as Box<dyn Worker>))
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is made the same way")]
fn make_consumer(part: &Part<'_>) -> Made {
    let Some(inbox) = &part.service.inbox else {
        return Ok(None);
    };
    let (name, service) = (&part.service.name, part.service);
    Ok(match part.program.handlers.get(&inbox.consumer) {
        Some(handler) => {
            let work = (
                Arc::clone(handler),
                ConsumerSettings::of(service).in_context(&part.ports.context),
            );
            Consumer::with_settings(service, part.connected(), &part.ports.clock, work)
                .map(|worker| Box::new(worker) as Box<dyn Worker>)
        }
        None if part.is_named => Some(Box::new(Absent::new(name, inbox.consumer.as_str()))),
        None => None,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is made the same way")]
fn make_archiver(part: &Part<'_>) -> Made {
    Ok(
        Archiver::new(part.ports, part.service, part.store, part.is_named)
            .map(|worker| Box::new(worker) as Box<dyn Worker>),
    )
}

/// What a panic said, if it said it in text.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a text".to_owned())
}
