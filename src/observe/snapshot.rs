//! The values every pane, JSON answer and test reads. What could not be read is in them, with its
//! reason: unknown is not zero, unreadable is not clean (design invariant 11).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::base::clock::Timestamp;
pub use crate::broker::{BrokerOverview, Flow, QueueFacts};
use crate::model::audit::AuditEntry;
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail, DeadLetterGroups, Whereabouts};
use crate::model::ids::EventId;
use crate::model::inbox::InboxRow;
use crate::model::operation::Operation;
use crate::model::outbox::{Leases, OutboxCounts, OutboxRow, OutboxState, Sequence};
use crate::model::page::Page;
use crate::model::saga::Saga;
use crate::model::scan::{Finding, Scan};
use crate::model::trouble::{LockWaits, RowTroubles};
use crate::model::waiting::WaitingSummary;
pub use crate::store::StoreFacts;

/// A part that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// What, e.g. `outbox of orders`.
    pub what: String,
    /// Why, without secrets.
    pub reason: String,
    /// True when the server could not be reached or did not answer in time (exit code 5).
    pub is_unreachable: bool,
}

/// A feed's latest state: the last good value stays, with its age, next to what is wrong now.
#[derive(Clone, Debug)]
pub struct Reading<T> {
    /// The last value, if there ever was one.
    pub value: Option<Arc<T>>,
    /// When it was read, on our clock.
    pub read_at: Option<Timestamp>,
    /// How long the read took, in microseconds.
    pub took_us: u64,
    /// What is wrong since the last value; `None` when the value is current.
    pub problem: Option<String>,
    /// The query's generation this value answers (invariant 10).
    pub generation: u64,
    /// True while a read is running.
    pub is_loading: bool,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self {
            value: None,
            read_at: None,
            took_us: 0,
            problem: None,
            generation: 0,
            is_loading: true,
        }
    }
}

/// One service's part of a snapshot, or why it is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerService<T> {
    /// Service name.
    pub service: String,
    /// Its part; `None` when unread.
    pub value: Option<T>,
    /// Why it is missing.
    pub unread: Option<Unread>,
}

/// One question put to a server. What is asked at a slow pace stands in several snapshots: a verdict must
/// not rest on one answer seen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked(u64);

impl Asked {
    /// Another question than all before it in this process.
    pub fn anew() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Sagas that are not over, at most as many as are looked at; those that need somebody come first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenSagas {
    /// Read once, shared by those who look.
    pub sagas: Arc<[Saga]>,
    /// True when there may be more.
    pub is_cut: bool,
    /// By which question.
    #[serde(skip)]
    pub asked: Asked,
}

impl OpenSagas {
    /// How many of those that need somebody are meant. When not all sagas were read the number is exact
    /// only if the last one read needs nobody: those after it do not either.
    pub fn count(&self, at: Timestamp, is_meant: impl Fn(&Saga) -> bool) -> Count {
        let meant = self.sagas.iter().filter(|saga| is_meant(saga)).count() as u64;
        let goes_on = self
            .sagas
            .last()
            .is_some_and(|last| last.needs_somebody(at));
        if self.is_cut && goes_on {
            Count::AtLeast(meant)
        } else {
            Count::Exact(meant)
        }
    }
}

/// State of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerHealth {
    /// `db orders`, `amqp`, `mgmt`.
    pub name: String,
    /// `None`: not asked yet or not configured.
    pub is_up: Option<bool>,
    /// Round trip in microseconds.
    pub latency_us: Option<u64>,
    /// Product and version, or the error.
    pub detail: String,
}

/// Health of everything a context reaches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthSnapshot {
    /// One a service.
    pub databases: Vec<ServerHealth>,
    /// Database clock minus ours in microseconds: the largest, by absolute value.
    pub skew_us: Option<i64>,
    /// The questions it is the answer to.
    #[serde(skip)]
    pub clocks_asked: Vec<Asked>,
    /// Message port.
    pub broker: ServerHealth,
    /// Management API.
    pub management: ServerHealth,
    /// The question it is the answer to; `None`: not asked.
    #[serde(skip)]
    pub management_asked: Option<Asked>,
    /// Whether the broker takes messages.
    pub flow: Flow,
}

/// One outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxFacts {
    /// What the layout can answer.
    pub facts: StoreFacts,
    /// Counts and ages.
    pub counts: OutboxCounts,
    /// The page asked for; empty when the query is for another service.
    pub page: Page<OutboxRow>,
    /// The page's state.
    pub state: OutboxState,
}

/// All outboxes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutboxSnapshot {
    /// One a service with an outbox.
    pub services: Vec<PerService<OutboxFacts>>,
}

/// All leases.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LeaseSnapshot {
    /// One a service with an outbox.
    pub services: Vec<PerService<Leases>>,
}

/// One queue as the console shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueView {
    /// Facts of the management API, completed by passive declares where it told nothing.
    pub facts: QueueFacts,
    /// Consumer whose inbox reads it, by the configuration.
    pub consumer: Option<String>,
    /// `work`, `dlq` (by the configuration) or `other`.
    pub role: String,
    /// Estimated lag in seconds: head age if told, else ready / rate out; `None` = not known.
    pub lag_s: Option<f64>,
    /// How the lag was found: `head` or `rate`.
    pub lag_source: Option<String>,
    /// Things to warn about, e.g. `dead-letters to nothing`.
    pub warnings: Vec<String>,
}

/// Queues of the broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueSnapshot {
    /// Configured queues first, then by name.
    pub queues: Vec<QueueView>,
    /// All there are.
    pub total: Option<u64>,
    /// Version and nodes.
    pub overview: Option<BrokerOverview>,
    /// Statistics are switched off (M-03).
    pub statistics_off: bool,
    /// Parts that could not be read.
    pub unread: Vec<Unread>,
}

/// Dead letters of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterFacts {
    /// By cause.
    pub groups: DeadLetterGroups,
    /// The page asked for.
    pub page: Page<DeadLetter>,
    /// Depth of each of its DLQs: not collected yet. `None` = unknown.
    pub queued: Vec<(String, Option<u64>)>,
}

/// All dead letters, and failed rows of the outboxes are in the outbox snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadLetterSnapshot {
    /// One a service with dead letters.
    pub services: Vec<PerService<DeadLetterFacts>>,
}

/// Everything about one dead letter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterView {
    /// Its service.
    pub service: String,
    /// Row, message, deaths.
    pub detail: DeadLetterDetail,
    /// Where it lies.
    pub whereabouts: Whereabouts,
    /// Inbox state per consumer of the context: `None` = no row.
    pub inboxes: Vec<PerService<Option<InboxRow>>>,
    /// The outbox original: service and digest, if found.
    pub original: Option<(String, String)>,
    /// Its sequence in the outbox it came from.
    pub sequence: Sequence,
    /// Dead letters of the same aggregate.
    pub siblings: Vec<DeadLetter>,
    /// Parts that could not be read.
    pub unread: Vec<Unread>,
}

/// All sagas.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SagaSnapshot {
    /// One a service with sagas.
    pub services: Vec<PerService<Vec<Saga>>>,
}

/// Scans and findings, of the journal that keeps them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScanSnapshot {
    /// The last runs, newest first.
    pub scans: Vec<Scan>,
    /// Open findings, last seen first, at most a page.
    pub findings: Vec<Finding>,
    /// Open findings there are; `None`: nothing keeps them, or not known.
    pub open: Option<Count>,
    /// Parts that could not be read.
    pub unread: Vec<Unread>,
}

/// Operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperationSnapshot {
    /// One a service with a journal, newest first, items included.
    pub services: Vec<PerService<Vec<Operation>>>,
}

/// Audit entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AuditSnapshot {
    /// One a service with a journal, newest first.
    pub services: Vec<PerService<Vec<AuditEntry>>>,
}

/// The numbers at each hop and their history, for the Overview.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowSnapshot {
    /// Outboxes, one a service.
    pub outboxes: Vec<PerService<OutboxCounts>>,
    /// Consumers, one an inbox.
    pub consumers: Vec<ConsumerFlow>,
    /// Publishes a second over the last minute, all outboxes; `None` = not known.
    pub published_per_s: Option<f64>,
    /// Open dead letters, all services; `None` when any is unread.
    pub dead_open: Option<Count>,
    /// Deaths in the last minute.
    pub deaths_per_min: Option<f64>,
    /// Sagas that need a person, and those past their deadline; `None` = not known or no sagas.
    pub sagas_attention: Option<Count>,
    /// Operations whose outcome nobody knows; `None` when a journal is unread, or there is none.
    pub operations_unknown: Option<Count>,
    /// The questions it is the answer to.
    #[serde(skip)]
    pub operations_asked: Vec<Asked>,
    /// Open findings of scans; `None` when the journal is unread, or nothing keeps them.
    pub findings_open: Option<Count>,
    /// The question it is the answer to.
    #[serde(skip)]
    pub findings_asked: Option<Asked>,
    /// Parts that could not be read.
    pub unread: Vec<Unread>,
}

/// One consumer's hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumerFlow {
    /// Service.
    pub service: String,
    /// Consumer name.
    pub consumer: String,
    /// Its queue.
    pub queue: String,
    /// Ready there.
    pub ready: Option<u64>,
    /// Consumers attached.
    pub consumers: Option<u64>,
    /// Inbox rows a second over the last ten seconds.
    pub inbox_per_s: Option<f64>,
    /// Estimated lag in seconds.
    pub lag_s: Option<f64>,
    /// Open dead letters of this service.
    pub dead_open: Option<Count>,
    /// Events that wait for an earlier version; `None` = nothing can wait there, or not known.
    pub waiting: Option<WaitingSummary>,
}

/// What explains a stuck pipeline beyond its counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CauseSnapshot {
    /// Claims and leases, one a service with an outbox.
    pub leases: Vec<PerService<Leases>>,
    /// Failed rows and rows tried in vain, one a service with an outbox.
    pub troubles: Vec<PerService<RowTroubles>>,
    /// Waits on locks, one a service with an outbox; `None` where they make no sense.
    pub locks: Vec<PerService<Option<LockWaits>>>,
    /// Dead letters by cause.
    pub letters: Vec<PerService<DeadLetterGroups>>,
    /// Sagas, those that need somebody first.
    pub sagas: Vec<PerService<OpenSagas>>,
    /// Until when each inbox has forgotten ids; `None` = it never did.
    pub horizons: Vec<PerService<Option<Timestamp>>>,
    /// Queues, the configured ones first.
    pub queues: QueueSnapshot,
    /// Sent events nobody has seen, one a service with an outbox.
    pub unseen: Vec<PerService<Unseen>>,
    /// Claimed events that were sent all the same, one a service with a lease that is over.
    pub landed: Vec<PerService<Landed>>,
}

/// Events under a lease that is over, looked for at the consumers, from a bounded sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Landed {
    /// Events that were looked for.
    pub followed: u64,
    /// Those a consumer has seen: they were sent, and nobody wrote that down.
    pub seen: u64,
}

/// Events of one outbox that were sent and not seen, from a bounded sample of the newest ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Unseen {
    /// True when the sample is full: there may be older ones, which were not looked for.
    pub is_cut: bool,
    /// Events whose time was over, and that were looked for.
    pub followed: u64,
    /// What was not found.
    pub missing: Vec<Missing>,
    /// Consumers that could not be asked.
    pub unread: Vec<Unread>,
}

/// An event a consumer should have seen by now: no inbox row, not parked, no dead letter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    /// Who.
    pub consumer: String,
    /// Its queue.
    pub queue: String,
    /// What.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Seconds since it was marked sent.
    pub age_s: f64,
}

// The faces may not see the ports; what they draw of them comes through here.
pub use crate::broker::NodeFacts;
pub use crate::store::Safety;
