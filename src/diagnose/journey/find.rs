//! What an id means: an event, a dead letter, a saga, an operation, an aggregate; whole ids first,
//! then beginnings of event and saga ids, as everywhere else.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::base::text::safe;
use crate::model::ids::{AggregateId, DeadLetterId, EventId, OperationId, SagaId};
use crate::observe::Observer;
use crate::observe::snapshot::Unread;
use crate::store::Store;

use super::facts::Subject;
use super::gather::Gatherer;

/// Characters of a beginning at least.
const PREFIX_MIN: usize = 4;

/// Why there is no story.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// No such id anywhere, and everything was looked at.
    #[error("nothing has the id {id:?}: looked for {looked}")]
    NotFound {
        /// As typed.
        id: String,
        /// Where it was looked for.
        looked: String,
    },
    /// Several ids begin like that.
    #[error("{id:?} may be any of: {}", candidates.join(", "))]
    Ambiguous {
        /// As typed.
        id: String,
        /// Whole ids, with what they are.
        candidates: Vec<String>,
    },
    /// It was not found where it could be looked for, and not everything could be read.
    #[error(
        "{id:?} was not found in what could be read; not read: {}",
        told(unread)
    )]
    Unread {
        /// As typed.
        id: String,
        /// What could not be read.
        unread: Vec<Unread>,
    },
}

fn told(unread: &[Unread]) -> String {
    let parts = unread.iter().map(|u| format!("{} ({})", u.what, u.reason));
    parts.collect::<Vec<_>>().join("; ")
}

/// Finds what an id means.
///
/// # Errors
/// [`TraceError`].
pub(super) async fn find(observer: &Observer, id: &str) -> Result<Subject, TraceError> {
    let gatherer = Gatherer::new(observer);
    if let Some(subject) = gatherer.by_whole_id(id).await {
        return Ok(subject);
    }
    if let Some(subject) = gatherer.by_key(id).await {
        return Ok(subject);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut found = BTreeSet::new();
    if id.len() >= PREFIX_MIN && id.chars().all(is_plain) {
        found = gatherer.by_prefix(id).await;
    }
    let (unread, limits) = gatherer.into_told();
    let mut found = found.into_iter();
    match (found.next(), found.len()) {
        (Some((word, id)), 0) => Ok(if word == "saga" {
            Subject::Saga(SagaId::new(id))
        } else {
            Subject::Event(EventId::new(id))
        }),
        (Some(first), _) => Err(TraceError::Ambiguous {
            id: safe(id),
            candidates: std::iter::once(first)
                .chain(found)
                .map(|(word, id)| format!("{word} {}", safe(&id)))
                .collect(),
        }),
        (None, _) if unread.is_empty() => Err(TraceError::NotFound {
            id: safe(id),
            looked: looked(&limits),
        }),
        (None, _) => Err(TraceError::Unread {
            id: safe(id),
            unread,
        }),
    }
}

fn looked(limits: &[String]) -> String {
    let all = "events, dead letters, sagas, operations and aggregates, and for beginnings of event and \
               saga ids of at least 4 characters";
    if limits.is_empty() {
        return all.to_owned();
    }
    format!("{all}; cannot be asked: {}", limits.join("; "))
}

impl Gatherer<'_> {
    /// A whole id that is a key somewhere.
    async fn by_whole_id(&self, id: &str) -> Option<Subject> {
        let reads = self
            .services(|_| true)
            .into_iter()
            .map(|(service, store)| self.whole_id_in(service, store.as_ref(), id));
        join_all(reads).await.into_iter().flatten().min_by_key(rank)
    }

    async fn whole_id_in(&self, service: &str, store: &dyn Store, id: &str) -> Option<Subject> {
        let facts = store.facts();
        let event = EventId::new(id);
        if facts.outbox_layout.is_some() {
            let read = self.ask(service, "outbox event", store.outbox_event(&event));
            if read.await.flatten().is_some() {
                return Some(Subject::Event(event));
            }
        }
        if let Some(consumer) = &facts.consumer {
            let ids = [event.clone()];
            let read = self.ask(service, "inbox rows", store.inbox_rows(consumer, &ids));
            if read.await.is_some_and(|rows| !rows.is_empty()) {
                return Some(Subject::Event(event));
            }
        }
        if facts.has_dead_letters {
            let read = self.ask(service, "dead letters", store.dead_letters_of_event(&event));
            if read.await.is_some_and(|letters| !letters.is_empty()) {
                return Some(Subject::Event(event));
            }
            let letter = DeadLetterId::new(id);
            let read = self.ask(service, "dead letter", store.dead_letter(&letter));
            if let Some(detail) = read.await.flatten() {
                return Some(match detail.letter.event_id {
                    Some(event) => Subject::Event(event),
                    None => Subject::DeadLetter(letter),
                });
            }
        }
        if facts.has_sagas {
            let saga = SagaId::new(id);
            if self
                .ask(service, "saga", store.saga(&saga))
                .await
                .flatten()
                .is_some()
            {
                return Some(Subject::Saga(saga));
            }
        }
        if facts.has_journal {
            let operation = OperationId::new(id);
            let ids = [operation.clone()];
            let read = self.ask(service, "operations", store.operation_heads(&ids));
            if read.await.is_some_and(|heads| !heads.is_empty()) {
                return Some(Subject::Operation(operation));
            }
        }
        None
    }

    /// An aggregate that has events, dead letters or a saga.
    async fn by_key(&self, id: &str) -> Option<Subject> {
        let reads = self
            .services(|_| true)
            .into_iter()
            .map(|(service, store)| self.is_key_in(service, store.as_ref(), id));
        let is_key = join_all(reads).await.contains(&true);
        is_key.then(|| Subject::Aggregate(AggregateId::new(id)))
    }

    async fn is_key_in(&self, service: &str, store: &dyn Store, id: &str) -> bool {
        let facts = store.facts();
        let aggregate = AggregateId::new(id);
        if facts.outbox_layout.is_some() {
            let read = self.ask(service, "events", store.trail(&aggregate)).await;
            if read.is_some_and(|trail| !trail.rows.is_empty()) {
                return true;
            }
        }
        if facts.has_dead_letters {
            let read = store.dead_letters_of_aggregate(&aggregate);
            let read = self.ask(service, "dead letters of the aggregate", read);
            if read.await.is_some_and(|letters| !letters.is_empty()) {
                return true;
            }
        }
        if !facts.has_sagas {
            return false;
        }
        let read = self.ask(service, "sagas", store.sagas_of_key(id)).await;
        read.is_some_and(|sagas| !sagas.is_empty())
    }

    /// Events and sagas that begin like that.
    async fn by_prefix(&self, prefix: &str) -> BTreeSet<(&'static str, String)> {
        let reads = self
            .services(|_| true)
            .into_iter()
            .map(|(service, store)| async move {
                let facts = store.facts();
                let mut found = Vec::new();
                if facts.outbox_layout.is_some() {
                    let read = store.outbox_by_prefix(prefix);
                    let rows = self.ask(service, "events by prefix", read).await;
                    let rows = rows.into_iter().flatten();
                    found.extend(rows.map(|row| ("event", row.event_id.to_string())));
                }
                if facts.has_sagas {
                    let read = store.sagas_by_prefix(prefix);
                    let sagas = self.ask(service, "sagas by prefix", read).await;
                    let sagas = sagas.into_iter().flatten();
                    found.extend(sagas.map(|saga| ("saga", saga.saga_id.to_string())));
                }
                found
            });
        join_all(reads).await.into_iter().flatten().collect()
    }
}

/// Of two meanings the first wins.
const fn rank(subject: &Subject) -> u8 {
    match subject {
        Subject::Event(_) => 0,
        Subject::DeadLetter(_) => 1,
        Subject::Saga(_) => 2,
        Subject::Operation(_) => 3,
        Subject::Aggregate(_) => 4,
    }
}
