//! What was read about a subject: plain values, gathered by `gather`, told by `story`.

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::dead_letter::{DeadLetter, Death};
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId, SagaId};
use crate::model::inbox::InboxRow;
use crate::model::operation::{Operation, OperationItem};
use crate::model::outbox::OutboxRow;
use crate::model::saga::Saga;
use crate::observe::snapshot::Unread;
use crate::store::trace::{RepairLink, WaitingNote};

/// What a story is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Subject {
    /// One event, with what replaced it and what it caused.
    Event(EventId),
    /// A dead letter whose message carried no event id.
    DeadLetter(DeadLetterId),
    /// Every event of one aggregate.
    Aggregate(AggregateId),
    /// A saga and the events of its business key.
    Saga(SagaId),
    /// An operator's action and what it acted on.
    Operation(OperationId),
}

impl Subject {
    /// `event`, `dead letter`, … for a person.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Event(_) => "event",
            Self::DeadLetter(_) => "dead letter",
            Self::Aggregate(_) => "aggregate",
            Self::Saga(_) => "saga",
            Self::Operation(_) => "operation",
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Event(id) => id.as_str(),
            Self::DeadLetter(id) => id.as_str(),
            Self::Aggregate(id) => id.as_str(),
            Self::Saga(id) => id.as_str(),
            Self::Operation(id) => id.as_str(),
        }
    }
}

/// Why an event is in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It was asked for.
    Subject,
    /// A repair made the subject out of it, or it out of the subject.
    Lineage,
    /// One of these caused it.
    Result,
    /// It belongs to the aggregate.
    Sequence,
}

impl Role {
    /// True for events that are told in full; the others in as few lines as they need.
    pub const fn is_told_in_full(self) -> bool {
        matches!(self, Self::Subject | Self::Lineage)
    }
}

/// What a consumer's inbox says of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inbox {
    /// It has the row.
    Row,
    /// It has forgotten the row, and its archive keeps it.
    Archived,
    /// It has no row.
    Absent,
    /// It has none and may have forgotten it.
    Forgotten,
    /// It could not be read.
    Unread,
}

/// One event as one consumer has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Position in [`Facts::consumers`].
    pub consumer: usize,
    /// What the inbox says.
    pub inbox: Inbox,
    /// The row, of the inbox or the archive.
    pub row: Option<InboxRow>,
}

/// A consumer of the context.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerFacts {
    /// Its service.
    pub service: String,
    /// Its name in the inbox.
    pub name: ConsumerName,
    /// Its queue.
    pub queue: String,
    /// Messages ready there, and consumers attached; `None`: not asked or not told.
    pub depth: Option<(u64, u64)>,
}

/// Where the broker routes an event to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To these queues, as bindings are now.
    Queues(Vec<String>),
    /// Nobody knows.
    Unknown,
}

/// A dead letter with its deaths.
#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    /// Whose table.
    pub service: String,
    /// The row.
    pub letter: DeadLetter,
    /// Oldest first; empty when they were not read.
    pub deaths: Vec<Death>,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFacts {
    /// Its id; `None` for a message that carried none.
    pub event_id: Option<EventId>,
    /// Why it is here.
    pub role: Role,
    /// Its row in each outbox that has it.
    pub outbox: Vec<(String, OutboxRow)>,
    /// What caused it.
    pub causation_id: Option<String>,
    /// SHA-256 of the outbox's payload, where it was read.
    pub payload_sha256: Option<String>,
    /// Exchange it is published to.
    pub exchange: Option<String>,
    /// Its routing key.
    pub routing_key: Option<String>,
    /// Where it is routed to.
    pub route: Route,
    /// What each inbox says.
    pub seen: Vec<Seen>,
    /// Services in which it waits for an earlier version.
    pub waiting: Vec<(String, WaitingNote)>,
    /// Its dead letters.
    pub letters: Vec<Letter>,
}

impl EventFacts {
    /// An event of which nothing is known yet.
    pub const fn new(event_id: Option<EventId>, role: Role) -> Self {
        Self {
            event_id,
            role,
            outbox: Vec::new(),
            causation_id: None,
            payload_sha256: None,
            exchange: None,
            routing_key: None,
            route: Route::Unknown,
            seen: Vec::new(),
            waiting: Vec::new(),
            letters: Vec::new(),
        }
    }

    /// Its type, wherever it is told.
    pub fn event_type(&self) -> Option<&str> {
        let row = self.outbox.first().map(|(_, row)| row.event_type.as_str());
        row.or_else(|| {
            self.letters
                .first()
                .and_then(|letter| letter.letter.event_type.as_deref())
        })
    }

    /// Its version in the sequence, wherever it is told.
    pub fn version(&self) -> Option<i64> {
        let row = self
            .outbox
            .first()
            .and_then(|(_, row)| row.aggregate_version);
        row.or_else(|| {
            self.letters
                .first()
                .and_then(|letter| letter.letter.aggregate_version)
        })
    }

    /// Its aggregate, wherever it is told.
    pub fn aggregate_id(&self) -> Option<&AggregateId> {
        let row = self
            .outbox
            .first()
            .and_then(|(_, row)| row.aggregate_id.as_ref());
        row.or_else(|| {
            self.letters
                .first()
                .and_then(|letter| letter.letter.aggregate_id.as_ref())
        })
    }
}

/// What one operation did to what this story is about.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationFacts {
    /// Whose journal.
    pub service: String,
    /// The operation, with the items that matter here only.
    pub operation: Operation,
    /// Its audit entries, oldest first.
    pub audit: Vec<AuditEntry>,
}

impl OperationFacts {
    /// Its items.
    pub fn items(&self) -> &[OperationItem] {
        &self.operation.items
    }
}

/// A database's clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockFacts {
    /// Whose.
    pub service: String,
    /// Its clock minus ours, in microseconds; `None`: it did not answer.
    pub skew_us: Option<i64>,
    /// Round trip of the question, in microseconds: how far the skew may be off.
    pub round_trip_us: Option<u64>,
}

/// Everything that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// What was asked for.
    pub subject: Subject,
    /// When it was read, on our clock.
    pub now: Timestamp,
    /// Services in the order of the configuration.
    pub services: Vec<String>,
    /// Consumers in the order of the configuration.
    pub consumers: Vec<ConsumerFacts>,
    /// Clocks of the databases.
    pub clocks: Vec<ClockFacts>,
    /// Events.
    pub events: Vec<EventFacts>,
    /// Repairs, with the service whose journal has them.
    pub repairs: Vec<(String, RepairLink)>,
    /// Operations.
    pub operations: Vec<OperationFacts>,
    /// Sagas, with their service.
    pub sagas: Vec<(String, Saga)>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Limits that were hit, and what cannot be asked here.
    pub limits: Vec<String>,
}
