//! What an id on the command line means. It names one thing or nothing: several are listed with the
//! flag that chooses, and a database that could not be asked is said, never taken for empty.

use futures::future::join_all;

use super::Desk;
use super::plan::{OperateError, Target};
use crate::base::text::safe;
use crate::model::dead_letter::{DeadLetter, DeadLetterQuery, DeadLetterStatus};
use crate::model::ids::{ConsumerName, DeadLetterId, EventId};
use crate::model::outbox::{OutboxRow, OutboxState};
use crate::store::{Store, StoreError};

/// A shorter prefix is too likely to be a slip.
const PREFIX_MIN: usize = 8;
/// A whole id; longer text is no prefix.
const ID_LEN: usize = 36;
/// Open letters searched for a prefix, per service and status.
const PREFIX_LETTERS: u32 = 500;
/// Ids listed when a prefix is not unique.
const LISTED: usize = 8;

/// Everything found under one id.
#[derive(Default)]
struct Finds {
    letters: Vec<(String, DeadLetter)>,
    rows: Vec<(String, OutboxRow)>,
    searched: Vec<String>,
    unread: Vec<StoreError>,
}

/// Finds the target of `text`.
pub(super) async fn resolve(
    desk: &Desk,
    text: &str,
    consumer: Option<&ConsumerName>,
) -> Result<Target, OperateError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(OperateError::NotFound("no event id was given".to_owned()));
    }
    let finds = find(desk, text).await;
    if !finds.letters.is_empty() || !finds.rows.is_empty() {
        return choose(text, finds, consumer);
    }
    if text.len() < PREFIX_MIN || text.len() >= ID_LEN {
        return Err(nothing(text, finds, consumer));
    }
    let (ids, mut unread) = by_prefix(desk, text).await;
    match ids.as_slice() {
        [] => {
            let mut finds = finds;
            finds.unread.append(&mut unread);
            Err(nothing(text, finds, consumer))
        }
        [id] => choose(id, find(desk, id).await, consumer),
        several => {
            let mut listed = several
                .iter()
                .take(LISTED)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if several.len() > LISTED {
                listed.push_str(", …");
            }
            Err(OperateError::Ambiguous(format!(
                "{} begins several ids: {listed}",
                safe(text)
            )))
        }
    }
}

async fn find(desk: &Desk, id: &str) -> Finds {
    let reads = desk.ports.iter().map(|(service, store)| async move {
        (service, find_in(service, store.as_ref(), id).await)
    });
    let mut finds = Finds::default();
    for (service, found) in join_all(reads).await {
        let name = &service.name;
        for read in found {
            match read {
                Ok(Found::Letters(letters)) => {
                    finds.searched.push(format!("dead letters of {name}"));
                    let named = letters.into_iter().map(|letter| (name.clone(), letter));
                    finds.letters.extend(named);
                }
                Ok(Found::Row(row)) => {
                    finds.searched.push(format!("outbox of {name}"));
                    finds.rows.extend(row.map(|row| (name.clone(), *row)));
                }
                Err(error) => finds.unread.push(error),
            }
        }
    }
    finds
}

enum Found {
    Letters(Vec<DeadLetter>),
    Row(Option<Box<OutboxRow>>),
}

async fn find_in(
    service: &crate::config::Service,
    store: &dyn Store,
    id: &str,
) -> Vec<Result<Found, StoreError>> {
    let event_id = EventId::new(id);
    let mut out = Vec::new();
    if service.dead_letters.is_some() {
        let letters = match store.dead_letters_of_event(&event_id).await {
            Ok(letters) if letters.is_empty() => store
                .dead_letter(&DeadLetterId::new(id))
                .await
                .map(|found| found.into_iter().map(|detail| detail.letter).collect()),
            read => read,
        };
        out.push(letters.map(Found::Letters));
    }
    if service.outbox.is_some() {
        let row = store.outbox_event(&event_id).await;
        out.push(row.map(|found| Found::Row(found.map(|event| Box::new(event.row)))));
    }
    out
}

/// Ids that begin with `prefix`: dead letters waiting for somebody, and outbox events.
async fn by_prefix(desk: &Desk, prefix: &str) -> (Vec<String>, Vec<StoreError>) {
    let reads = desk.ports.iter().map(|(service, store)| async move {
        let mut ids = Vec::new();
        let mut unread = Vec::new();
        if service.outbox.is_some() {
            match store.outbox_by_prefix(prefix).await {
                Ok(rows) => ids.extend(rows.into_iter().map(|row| row.event_id.to_string())),
                Err(error) => unread.push(error),
            }
        }
        if service.dead_letters.is_some() {
            for status in [DeadLetterStatus::Open, DeadLetterStatus::Replaying] {
                match store.dead_letter_page(&page(status)).await {
                    Ok(page) => ids.extend(page.rows.into_iter().filter_map(|letter| {
                        let id = super::wording::subject(&letter);
                        id.starts_with(prefix).then_some(id)
                    })),
                    Err(error) => unread.push(error),
                }
            }
        }
        (ids, unread)
    });
    let mut ids = Vec::new();
    let mut unread = Vec::new();
    for (mut found, mut failed) in join_all(reads).await {
        ids.append(&mut found);
        unread.append(&mut failed);
    }
    ids.sort_unstable();
    ids.dedup();
    (ids, unread)
}

fn page(status: DeadLetterStatus) -> DeadLetterQuery {
    DeadLetterQuery {
        status,
        consumer: None,
        event_type: None,
        error_class: None,
        after: None,
        limit: PREFIX_LETTERS,
    }
}

/// One of what was found under a whole id.
fn choose(id: &str, finds: Finds, consumer: Option<&ConsumerName>) -> Result<Target, OperateError> {
    let letters: Vec<_> = finds
        .letters
        .iter()
        .filter(|(_, letter)| consumer.is_none_or(|wanted| letter.consumer == *wanted))
        .collect();
    let waiting: Vec<_> = letters
        .iter()
        .copied()
        .filter(|(_, letter)| letter.status == DeadLetterStatus::Open)
        .collect();
    let candidates = if waiting.is_empty() { letters } else { waiting };
    match candidates.as_slice() {
        [(service, letter)] => Ok(Target::DeadLetter {
            service: service.clone(),
            dead_letter_id: letter.dead_letter_id.clone(),
        }),
        [] if consumer.is_some() => Err(nothing(id, finds, consumer)),
        [] => choose_row(id, finds),
        several => {
            let listed: Vec<_> = several
                .iter()
                .map(|(_, letter)| format!("--consumer {}", safe(letter.consumer.as_str())))
                .collect();
            Err(OperateError::Ambiguous(format!(
                "{} is dead at several consumers: choose {}",
                safe(id),
                listed.join(" or ")
            )))
        }
    }
}

fn choose_row(id: &str, finds: Finds) -> Result<Target, OperateError> {
    let failed: Vec<_> = finds
        .rows
        .iter()
        .filter(|(_, row)| row.state == OutboxState::Failed)
        .collect();
    match failed.as_slice() {
        [(service, row)] => Ok(Target::OutboxRow {
            service: service.clone(),
            event_id: row.event_id.clone(),
        }),
        [] => match finds.rows.first() {
            Some((service, row)) if finds.unread.is_empty() => {
                Err(OperateError::NotFound(format!(
                    "{} is no dead letter: it is {} in the outbox of {service}",
                    safe(id),
                    row.state.word()
                )))
            }
            _ => Err(nothing(id, finds, None)),
        },
        several => {
            let services: Vec<_> = several
                .iter()
                .map(|(service, _)| service.as_str())
                .collect();
            Err(OperateError::Ambiguous(format!(
                "{} failed in several outboxes: {}",
                safe(id),
                services.join(", ")
            )))
        }
    }
}

/// Nothing was found. When a database could not be asked that is an outage, not an answer.
fn nothing(id: &str, finds: Finds, consumer: Option<&ConsumerName>) -> OperateError {
    let of_consumer = consumer
        .map(|consumer| format!(" of consumer {}", safe(consumer.as_str())))
        .unwrap_or_default();
    let looked = if finds.searched.is_empty() {
        "nothing could be searched".to_owned()
    } else {
        format!("looked in {}", finds.searched.join(", "))
    };
    let text = format!("no dead letter {}{of_consumer}: {looked}", safe(id));
    let unread: Vec<_> = finds.unread.iter().map(ToString::to_string).collect();
    match finds.unread.into_iter().find(StoreError::is_unreachable) {
        Some(StoreError::Unavailable { service, .. } | StoreError::TimedOut { service, .. }) => {
            OperateError::Store(StoreError::Unavailable {
                service,
                detail: format!("{text}; could not look everywhere: {}", unread.join("; ")),
            })
        }
        _ if unread.is_empty() => OperateError::NotFound(text),
        _ => OperateError::NotFound(format!(
            "{text}; could not look everywhere: {}",
            unread.join("; ")
        )),
    }
}
