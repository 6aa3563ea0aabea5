//! Looking: stores and broker → snapshots, each at its own pace, with its age and with what could
//! not be read. Never writes. A snapshot is a plain serialisable value (design invariant 10).
//!
//! [`Observer`] reads once (the command line); [`Feeds`] read again and again (the console). One
//! file a snapshot; `reader` holds what all reads share: limits, names, and patience with a server
//! that is down.

mod causes;
mod check;
mod dead_letters;
mod feed;
mod feeds;
mod flow;
mod health;
pub mod history;
mod journal;
mod numbers;
mod outbox;
mod payloads;
mod queue_view;
mod queues;
mod reader;
mod scans;
mod shared;
pub mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use journal::shown as operation_shown;

use std::time::Duration;

use crate::broker::{Binding, BrokerOverview, QueuePage};
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetterGroups, DeadLetterStatus};
use crate::model::filter::Filter;
use crate::model::ids::{DeadLetterId, EventId};
use crate::model::outbox::{Leases, OutboxState};
use crate::model::page::Cursor;
use crate::ports::Ports;
use crate::store::StoreProbe;
use numbers::Counted;
use reader::Reader;
use shared::Shared;
use snapshot::{Asked, OpenSagas};

pub use crate::store::{CheckLevel, CheckLine};
pub use feeds::Feeds;

/// Which outbox rows to read.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxView {
    /// Page of this service only; `None`: the first page of every outbox.
    pub service: Option<String>,
    /// State of the page.
    pub state: OutboxState,
    /// Only this type.
    pub event_type: Option<String>,
    /// Only rows whose payload satisfies this ([`Filter::payload_terms`]). Each
    /// row of the page is looked up once to answer it.
    pub payload: Option<Filter>,
    /// Only this event, whatever its state: what another pane pointed at.
    pub event: Option<EventId>,
    /// Where the page starts (needs `service`).
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
}

/// Which dead letters to read.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLettersView {
    /// Page of this service only.
    pub service: Option<String>,
    /// Status of the page.
    pub status: DeadLetterStatus,
    /// Only this consumer.
    pub consumer: Option<String>,
    /// Only this type.
    pub event_type: Option<Option<String>>,
    /// Only this class.
    pub error_class: Option<String>,
    /// Only rows whose payload satisfies this ([`Filter::payload_terms`]). Each
    /// row of the page is looked up once to answer it.
    pub payload: Option<Filter>,
    /// Where the page starts (needs `service`).
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
}

/// What the console looks at now; feeds nobody looks at rest (flow and health never do).
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    /// Raised by the console with every change; answers carry it back.
    pub generation: u64,
    /// True: nothing is read.
    pub is_paused: bool,
    /// Names of the feeds that are on screen.
    pub active: Vec<&'static str>,
    /// Outbox pane.
    pub outbox: OutboxView,
    /// Dead letters pane.
    pub dead_letters: DeadLettersView,
    /// The dead letter whose detail is open.
    pub dead_letter: Option<(String, DeadLetterId)>,
    /// Queues page, from 1.
    pub queues_page: u32,
}

/// Names of all feeds, in the order of the panes.
pub const FEEDS: &[&str] = &[
    "health",
    "flow",
    "causes",
    "outbox",
    "leases",
    "queues",
    "dead_letters",
    "dead_letter",
    "sagas",
    "scans",
    "operations",
    "audit",
];

/// Reads a context once. Every part is read at the same time as the others and has its own limit, so
/// that a server that does not answer costs the others nothing but that limit. A server that was not
/// reachable is not asked again at once but after a growing pause, which all reads share.
pub struct Observer {
    ports: Ports,
    reader: Reader,
    counted: Shared<Counted>,
    leases: Shared<Leases>,
    letter_groups: Shared<DeadLetterGroups>,
    // The management API takes one request an address at a time.
    overviews: Shared<BrokerOverview>,
    queue_pages: Shared<QueuePage>,
    bindings: Shared<Option<Vec<Binding>>>,
    sagas_open: Shared<OpenSagas>,
    operations_unknown: Shared<(Count, Asked)>,
    open_findings: Shared<(Option<Count>, Asked)>,
    probes: Shared<(StoreProbe, Asked)>,
    broker_probe: Shared<Duration>,
    seen: causes::Seen,
    finished: journal::FinishedOperations,
    verdicts: payloads::Verdicts,
}

impl Observer {
    /// Observes these ports.
    pub fn new(ports: Ports) -> Self {
        let slow = flow::slow(ports.context.thresholds.refresh);
        Self {
            reader: Reader::new(ports.context.thresholds.statement_timeout),
            counted: Shared::new(ports.context.thresholds.refresh),
            leases: Shared::new(ports.context.thresholds.refresh),
            letter_groups: Shared::new(ports.context.thresholds.refresh),
            overviews: Shared::new(ports.context.thresholds.refresh),
            queue_pages: Shared::new(ports.context.thresholds.refresh),
            bindings: Shared::new(ports.context.thresholds.refresh),
            sagas_open: Shared::fresh_for(slow),
            operations_unknown: Shared::fresh_for(slow),
            open_findings: Shared::fresh_for(scans::COUNTED_EVERY),
            probes: Shared::fresh_for(slow),
            broker_probe: Shared::fresh_for(slow),
            seen: causes::Seen::default(),
            finished: journal::FinishedOperations::default(),
            verdicts: payloads::Verdicts::default(),
            ports,
        }
    }

    /// Everything is asked anew by who looks next, also what is asked at a slow pace: for one who looks a few
    /// times and then decides.
    pub(crate) fn ask_anew(&self) {
        self.sagas_open.forget_all();
        self.operations_unknown.forget_all();
        self.open_findings.forget_all();
        self.probes.forget_all();
        self.broker_probe.forget_all();
    }

    /// How everything is read that shares its patience with a server that is down.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The ports it looks at.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }
}
