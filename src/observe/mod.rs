//! Looking: stores and broker → snapshots, each at its own pace, with its age and with what could
//! not be read. Never writes. A snapshot is a plain serialisable value (design invariant 10).
//!
//! [`Observer`] reads once (the command line); [`Feeds`] read again and again (the console).

pub mod snapshot;

use std::sync::Arc;

use tokio::sync::watch;

use crate::base::tasks::Tasks;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::DeadLetterId;
use crate::model::outbox::OutboxState;
use crate::model::page::Cursor;
use crate::ports::Ports;
use snapshot::{
    AuditSnapshot, DeadLetterSnapshot, DeadLetterView, FlowSnapshot, HealthSnapshot, LeaseSnapshot,
    OperationSnapshot, OutboxSnapshot, QueueSnapshot, Reading, SagaSnapshot,
};

/// Which outbox rows to read.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxView {
    /// Page of this service only; `None`: the first page of every outbox.
    pub service: Option<String>,
    /// State of the page.
    pub state: OutboxState,
    /// Only this type.
    pub event_type: Option<String>,
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
    "outbox",
    "leases",
    "queues",
    "dead_letters",
    "dead_letter",
    "sagas",
    "operations",
    "audit",
];

/// Reads a context once.
pub struct Observer {
    ports: Ports,
}

#[expect(clippy::unused_async, reason = "signatures first")]
impl Observer {
    /// Observes these ports.
    pub fn new(ports: Ports) -> Self {
        Self { ports }
    }
    /// The ports it looks at.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }
    /// Health of every server.
    pub async fn health(&self) -> HealthSnapshot {
        todo_snapshot()
    }
    /// Numbers at every hop.
    pub async fn flow(&self) -> FlowSnapshot {
        todo_snapshot()
    }
    /// Outboxes.
    pub async fn outbox(&self, _view: &OutboxView) -> OutboxSnapshot {
        todo_snapshot()
    }
    /// Leases.
    pub async fn leases(&self) -> LeaseSnapshot {
        todo_snapshot()
    }
    /// Queues, a page from 1.
    pub async fn queues(&self, _page: u32) -> QueueSnapshot {
        todo_snapshot()
    }
    /// Dead letters.
    pub async fn dead_letters(&self, _view: &DeadLettersView) -> DeadLetterSnapshot {
        todo_snapshot()
    }
    /// Everything about one dead letter; `Ok(None)` when it is gone.
    pub async fn dead_letter(
        &self,
        _service: &str,
        _id: &DeadLetterId,
    ) -> Result<Option<DeadLetterView>, snapshot::Unread> {
        todo_snapshot()
    }
    /// Sagas.
    pub async fn sagas(&self) -> SagaSnapshot {
        todo_snapshot()
    }
    /// Operations, newest first.
    pub async fn operations(&self, _limit: u32) -> OperationSnapshot {
        todo_snapshot()
    }
    /// Audit entries, newest first.
    pub async fn audit(&self, _limit: u32) -> AuditSnapshot {
        todo_snapshot()
    }
}

fn todo_snapshot<T>() -> T {
    unreachable!("written by the observe branch")
}

/// Reads a context again and again, each feed at its own pace in its own task; latest wins.
pub struct Feeds {
    /// Told by the console.
    pub views: watch::Sender<Views>,
    /// Health of every server.
    pub health: watch::Receiver<Reading<HealthSnapshot>>,
    /// Numbers at every hop.
    pub flow: watch::Receiver<Reading<FlowSnapshot>>,
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
    /// Operations.
    pub operations: watch::Receiver<Reading<OperationSnapshot>>,
    /// Audit entries.
    pub audit: watch::Receiver<Reading<AuditSnapshot>>,
}

impl Feeds {
    /// Starts every feed in `tasks`.
    pub fn start(_observer: Arc<Observer>, _views: Views, _tasks: &Tasks) -> Self {
        todo_snapshot()
    }
}
