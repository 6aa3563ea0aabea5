//! Reads what a plan needs to know, all at once and bounded. What could not be read is a value: a
//! preflight line says so, and nothing unread counts as clean (design invariant 11).

use futures::future::join_all;

use super::Desk;
use super::plan::OperateError;
use crate::base::clock::Timestamp;
use crate::broker::{Binding, BrokerError, QueueDepth};
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail, DeadLetterStatus};
use crate::model::ids::{ConsumerName, DeadLetterId, EventId};
use crate::model::inbox::InboxRow;
use crate::model::operation::{ItemState, Operation};

/// Later events of a sequence whose inbox rows are looked up, at most.
const LATER_EVENTS_MAX: usize = 10;

/// What a look found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Look<T> {
    /// It is there.
    Found(T),
    /// It is not there.
    Absent,
    /// It could not be read: why.
    Unread(String),
    /// Nothing is configured that could answer: why.
    NotConfigured(String),
}

impl<T> Look<T> {
    fn from_read<E: std::fmt::Display>(read: Result<Option<T>, E>) -> Self {
        match read {
            Ok(Some(found)) => Self::Found(found),
            Ok(None) => Self::Absent,
            Err(error) => Self::Unread(error.to_string()),
        }
    }
}

/// Who holds a dead letter that is being replayed, or who closed it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Holder {
    /// The operation.
    pub operation: Operation,
    /// Where its item for this letter stands.
    pub state: Option<ItemState>,
}

/// An event's row in some outbox.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Original {
    /// Service of the outbox.
    pub service: String,
    /// Digest of its payload.
    pub sha256: String,
    /// When its business transaction wrote it.
    pub created_at: Option<Timestamp>,
}

/// The outbox originals of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Originals {
    /// Where it was found.
    pub found: Vec<Original>,
    /// Outboxes that could not be read.
    pub unread: Vec<String>,
}

/// The letter's neighbours in its sequence, for its consumer; versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Neighbours {
    /// Earlier events that are dead too.
    pub earlier_dead: Vec<i64>,
    /// Later events that are dead: they wait behind it.
    pub later_dead: Vec<i64>,
    /// Later events the consumer has already processed.
    pub later_applied: Vec<i64>,
    /// Parts that could not be read.
    pub unread: Vec<String>,
    /// More later events exist than were looked up.
    pub is_truncated: bool,
}

/// A dead letter with its service.
pub(super) async fn letter(
    desk: &Desk,
    service: &str,
    id: &DeadLetterId,
) -> Result<DeadLetterDetail, OperateError> {
    desk.store(service)?
        .dead_letter(id)
        .await?
        .ok_or_else(|| OperateError::NotFound(format!("{service} has no dead letter {id}")))
}

/// The operation that holds a letter, or closed it.
pub(super) async fn holder(desk: &Desk, service: &str, letter: &DeadLetter) -> Look<Holder> {
    let Some(id) = letter
        .operation_id
        .as_ref()
        .filter(|_| letter.status != DeadLetterStatus::Open)
    else {
        return Look::Absent;
    };
    let read = match desk.store(service) {
        Ok(store) => store.operation(id).await,
        Err(error) => return Look::Unread(error.to_string()),
    };
    Look::from_read(read.map(|found| {
        found.map(|operation| Holder {
            state: operation
                .items
                .iter()
                .find(|item| item.dead_letter_id.as_ref() == Some(&letter.dead_letter_id))
                .map(|item| item.state),
            operation,
        })
    }))
}

/// The consumer's inbox row of an event.
pub(super) async fn inbox(
    desk: &Desk,
    consumer: &ConsumerName,
    event_id: Option<&EventId>,
) -> Look<InboxRow> {
    let Some(event_id) = event_id else {
        return Look::NotConfigured("the message carries no event id".to_owned());
    };
    let Some(service) = desk.ports.context.service_of_consumer(consumer) else {
        return Look::NotConfigured(format!(
            "no service of this context has the inbox of {consumer}"
        ));
    };
    match desk.store(&service.name) {
        Ok(store) => Look::from_read(store.inbox_row(consumer, event_id).await),
        Err(error) => Look::Unread(error.to_string()),
    }
}

/// How far back a consumer remembers, and what it says of an event that its inbox does not have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory {
    /// Ids processed at or before this may have been forgotten.
    pub horizon: Look<Timestamp>,
    /// The event's row in the archive.
    pub archived: Look<InboxRow>,
    /// The last version of the letter's sequence that was applied.
    pub applied: Look<i64>,
}

/// What the letter's consumer remembers beside its inbox.
pub(super) async fn memory(desk: &Desk, letter: &DeadLetter) -> Memory {
    let nothing = |why: &str| Memory {
        horizon: Look::NotConfigured(why.to_owned()),
        archived: Look::NotConfigured(why.to_owned()),
        applied: Look::NotConfigured(why.to_owned()),
    };
    let Some(service) = desk.ports.context.service_of_consumer(&letter.consumer) else {
        return nothing("no service of this context has its inbox");
    };
    let store = match desk.store(&service.name) {
        Ok(store) => store,
        Err(error) => return nothing(&error.to_string()),
    };
    let archived = async {
        match &letter.event_id {
            Some(id) => Look::from_read(store.archived_inbox_row(&letter.consumer, id).await),
            None => Look::NotConfigured("the message carries no event id".to_owned()),
        }
    };
    let applied = async {
        match &letter.aggregate_id {
            Some(key) => Look::from_read(store.applied_version(&letter.consumer, key).await),
            None => Look::NotConfigured("the message carries no business key".to_owned()),
        }
    };
    let (horizon, archived, applied) =
        futures::join!(store.inbox_horizon(&letter.consumer), archived, applied);
    Memory {
        horizon: Look::from_read(horizon),
        archived,
        applied,
    }
}

/// The event in every outbox of the context.
pub(super) async fn originals(desk: &Desk, event_id: Option<&EventId>) -> Originals {
    let Some(event_id) = event_id else {
        return Originals::default();
    };
    let reads = desk
        .ports
        .iter()
        .filter(|(service, _)| service.outbox.is_some())
        .map(|(service, store)| async move {
            (service.name.as_str(), store.outbox_event(event_id).await)
        });
    let mut originals = Originals::default();
    for (service, read) in join_all(reads).await {
        match read {
            Ok(Some(event)) => originals.found.push(Original {
                service: service.to_owned(),
                sha256: event.payload.sha256(),
                created_at: event.row.created_at,
            }),
            Ok(None) => {}
            Err(error) => originals.unread.push(error.to_string()),
        }
    }
    originals
}

/// The letter's neighbours; `None` when it has no key or version.
pub(super) async fn neighbours(
    desk: &Desk,
    letter: &DeadLetter,
    originals: &Originals,
) -> Option<Neighbours> {
    let key = letter.aggregate_id.as_ref()?;
    let version = letter.aggregate_version?;
    let mut out = Neighbours::default();

    let reads = desk
        .ports
        .iter()
        .filter(|(service, _)| service.dead_letters.is_some())
        .map(|(_, store)| store.dead_letters_of_aggregate(key));
    for read in join_all(reads).await {
        match read {
            Ok(siblings) => {
                for sibling in siblings {
                    note_sibling(&mut out, letter, &sibling, version);
                }
            }
            Err(error) => out.unread.push(error.to_string()),
        }
    }

    let later = later_events(desk, letter, originals, version, &mut out).await;
    let looks = join_all(
        later
            .iter()
            .map(|(_, event_id)| inbox(desk, &letter.consumer, Some(event_id))),
    )
    .await;
    for ((version, _), look) in later.iter().zip(looks) {
        match look {
            Look::Found(_) => out.later_applied.push(*version),
            Look::Absent | Look::NotConfigured(_) => {}
            Look::Unread(why) => out.unread.push(why),
        }
    }
    out.unread.dedup();
    for list in [
        &mut out.earlier_dead,
        &mut out.later_dead,
        &mut out.later_applied,
    ] {
        list.sort_unstable();
        list.dedup();
    }
    Some(out)
}

fn note_sibling(out: &mut Neighbours, letter: &DeadLetter, sibling: &DeadLetter, version: i64) {
    let is_waiting = matches!(
        sibling.status,
        DeadLetterStatus::Open | DeadLetterStatus::Replaying
    );
    if sibling.consumer != letter.consumer
        || sibling.dead_letter_id == letter.dead_letter_id
        || !is_waiting
    {
        return;
    }
    match sibling.aggregate_version {
        Some(other) if other < version => out.earlier_dead.push(other),
        Some(other) if other > version => out.later_dead.push(other),
        _ => {}
    }
}

/// Later events of the key in the outbox the letter came from. None when that outbox is not known:
/// versions of another producer's sequence must not be compared.
async fn later_events(
    desk: &Desk,
    letter: &DeadLetter,
    originals: &Originals,
    version: i64,
    out: &mut Neighbours,
) -> Vec<(i64, EventId)> {
    let Some(key) = &letter.aggregate_id else {
        return vec![];
    };
    let mut later = Vec::new();
    let sources = originals.found.iter().map(|found| found.service.as_str());
    for service in sources {
        let Ok(store) = desk.store(service) else {
            continue;
        };
        match store.outbox_sequence(key).await {
            Ok(sequence) => {
                out.is_truncated |= sequence.truncated;
                out.unread.extend(sequence.not_answered);
                later.extend(sequence.rows.into_iter().filter_map(|row| {
                    let other = row.aggregate_version.filter(|other| *other > version)?;
                    Some((other, row.event_id))
                }));
            }
            Err(error) => out.unread.push(error.to_string()),
        }
    }
    later.sort_by_key(|(version, _)| *version);
    out.is_truncated |= later.len() > LATER_EVENTS_MAX;
    later.truncate(LATER_EVENTS_MAX);
    later
}

/// Depth of a queue, by asking the queue itself.
pub(super) async fn queue(desk: &Desk, name: &str) -> Look<QueueDepth> {
    match &desk.ports.broker {
        Some(broker) => Look::from_read(broker.depth(name).await),
        None => Look::NotConfigured(no_broker(desk)),
    }
}

/// What an exchange is bound to.
pub(super) async fn bindings(desk: &Desk, exchange: &str) -> Look<Vec<Binding>> {
    match &desk.ports.broker {
        Some(broker) => match broker.bindings(exchange).await {
            Ok(bindings) => Look::Found(bindings),
            Err(BrokerError::NotFound(_)) => Look::Absent,
            Err(error) => Look::Unread(error.to_string()),
        },
        None => Look::NotConfigured(no_broker(desk)),
    }
}

/// Why nothing can be sent.
pub(super) fn no_broker(desk: &Desk) -> String {
    let name = &desk.ports.context.name;
    format!("context {name} names no broker; set contexts.{name}.amqp")
}
