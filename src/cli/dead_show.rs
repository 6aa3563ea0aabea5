//! `redrive dead show ID`: everything known about one dead letter.

use clap::Args;
use serde_json::Value;

use crate::base::text::{safe, safe_bytes};
use crate::model::dead_letter::DeadLetter;
use crate::model::ids::{AggregateId, DeadLetterId, EventId};
use crate::observe::snapshot::{DeadLetterView, Unread};

use super::envelope::Answer;
use super::failure::{Failure, Outcome};
use super::mask;
use super::session::Session;

/// Arguments of `dead show`.
#[derive(Debug, Args)]
pub struct DeadShowArgs {
    /// Event id, or the id of a dead letter whose message had none
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only of this consumer, when several failed on the event
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
}

pub(super) async fn run(session: &Session, args: &DeadShowArgs) -> Outcome {
    let mut answer = session.answer("dead_letter");
    let found = find(session, args, &mut answer).await;
    if found.is_empty() && answer.unread.is_empty() {
        return Err(Failure::usage(format!(
            "no dead letter of {} has the id {:?}; `redrive dead` lists them",
            session.context().name,
            args.id
        )));
    }
    for (service, id) in found {
        match session.services.observer.dead_letter(&service, &id).await {
            Ok(Some(view)) => add(session, &mut answer, &view)?,
            Ok(None) => {}
            Err(unread) => answer.unread.push(unread),
        }
    }
    session.write(&answer)
}

/// Rows the id means: one a consumer that failed on the event.
async fn find(
    session: &Session,
    args: &DeadShowArgs,
    answer: &mut Answer,
) -> Vec<(String, DeadLetterId)> {
    let is_wanted = |letter: &DeadLetter| {
        let consumer = args.consumer.as_deref();
        consumer.is_none_or(|name| letter.consumer.as_str() == name)
    };
    let mut found = Vec::new();
    let stores = session.services.ports.iter();
    for (service, store) in stores.filter(|(service, _)| service.dead_letters.is_some()) {
        let by_event = store.dead_letters_of_event(&EventId::new(&args.id)).await;
        let letters = match by_event {
            Ok(letters) if letters.is_empty() => store
                .dead_letter(&DeadLetterId::new(&args.id))
                .await
                .map(|detail| detail.into_iter().map(|detail| detail.letter).collect()),
            other => other,
        };
        match letters {
            Ok(letters) => found.extend(
                letters
                    .into_iter()
                    .filter(is_wanted)
                    .map(|letter| (service.name.clone(), letter.dead_letter_id)),
            ),
            Err(error) => answer.unread.push(Unread {
                what: format!("dead letters of {}", service.name),
                reason: error.to_string(),
                is_unreachable: error.is_unreachable(),
            }),
        }
    }
    found
}

fn add(session: &Session, answer: &mut Answer, view: &DeadLetterView) -> Outcome<()> {
    answer.unread.extend(view.unread.iter().cloned());
    let mut item = serde_json::to_value(view)?;
    if let Some(payload) = item.pointer_mut("/detail/message/payload") {
        mask::payload(payload, &session.context().masked);
    }
    if !answer.head.is_empty() {
        answer.head.push(String::new());
    }
    lines(answer, view, &item);
    answer.items.push(item);
    Ok(())
}

fn lines(answer: &mut Answer, view: &DeadLetterView, item: &Value) {
    let letter = &view.detail.letter;
    let now = answer.as_of;
    let head = &mut answer.head;
    let or_dash = |text: Option<&str>| text.map_or_else(|| "–".to_owned(), safe);
    let ago = |at: crate::base::clock::Timestamp| crate::base::human::age(now.seconds_since(at));
    head.push(format!(
        "{}  {}  {}",
        or_dash(letter.event_id.as_ref().map(EventId::as_str)),
        or_dash(letter.event_type.as_deref()),
        letter.status.word()
    ));
    head.push(format!(
        "key        {}  v{}",
        or_dash(letter.aggregate_id.as_ref().map(AggregateId::as_str)),
        letter
            .aggregate_version
            .map_or_else(|| "–".to_owned(), |v| v.to_string())
    ));
    head.push(format!(
        "died       {} ago at {} in {} ({}), {} deaths, {} replays",
        ago(letter.last_died_at),
        safe(letter.consumer.as_str()),
        or_dash(letter.failed_queue.as_deref()),
        or_dash(letter.reason.as_deref()),
        letter.deaths,
        letter.replays
    ));
    head.push(format!(
        "error      {}",
        or_dash(
            letter
                .error_summary
                .as_deref()
                .or(Some(&letter.error_class))
        )
    ));
    head.push(format!(
        "owner      {}   note {}",
        or_dash(letter.owner.as_deref()),
        or_dash(letter.note.as_deref())
    ));
    for part in &view.inboxes {
        let state = match (&part.unread, &part.value) {
            (Some(unread), _) => format!("? ({})", safe(&unread.reason)),
            (None, Some(Some(row))) => format!("processed at {}", row.processed_at),
            (None, Some(None)) => "no row".to_owned(),
            (None, None) => "?".to_owned(),
        };
        head.push(format!("inbox      {}: {state}", safe(&part.service)));
    }
    for (name, value) in view.detail.message.properties.headers.iter() {
        head.push(format!(
            "header     {}: {}",
            safe(name),
            safe(&value.display())
        ));
    }
    for death in &view.detail.deaths {
        head.push(format!(
            "death {:<4} {} in {}: {}",
            death.no,
            death.died_at,
            or_dash(death.queue.as_deref()),
            or_dash(death.error.as_deref().or(death.reason.as_deref()))
        ));
    }
    for row in &view.sequence.rows {
        head.push(format!(
            "sequence   v{} {} {} {}",
            row.aggregate_version
                .map_or_else(|| "–".to_owned(), |v| v.to_string()),
            safe(row.event_id.as_str()),
            safe(&row.event_type),
            row.state.word()
        ));
    }
    head.push(format!(
        "payload    {} B  sha256 {}",
        letter.payload_bytes, letter.payload_sha256
    ));
    let data = item
        .pointer("/detail/message/payload/data")
        .and_then(Value::as_str);
    let is_masked = data.is_some_and(|data| data.contains(mask::MASK));
    head.push(match data {
        Some(data) if is_masked => safe(data),
        _ => safe_bytes(view.detail.message.payload.bytes()),
    });
}
