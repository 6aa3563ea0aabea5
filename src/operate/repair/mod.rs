//! Repair: a *new* event under a new id, linked to the original, with an edited payload.
//!
//! One transaction writes the new outbox row, the link, the diff, the audit entry, and closes the
//! original as `repaired`; the dispatcher sends it to the failed queue like any other event. The
//! original stays as it was. Identity headers are locked: the new event has its own id, is caused
//! by the original, and keeps correlation and saga headers. The payload is exactly the editor's
//! bytes: JSON is checked, never rewritten, so numbers keep their digits and keys their order (P-06).

use super::Desk;
use super::command_line::CommandLine;
use super::guard::refused;
use super::headers::must_go;
use super::journal::{Draft, about_letter, applied, started};
use super::look::{self, Look};
use super::plan::{
    Applied, Confirmation, Frozen, HeaderChange, ItemResult, Level, OperateError, Plan,
    PreflightLine, Target,
};
use super::preflight;
use super::route::{self, Wish};
use super::wording::{headline, moment};
use crate::base::text::safe;
use crate::base::{human, mask};
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail};
use crate::model::ids::{AggregateId, EventId, OperationId};
use crate::model::inbox::InboxRow;
use crate::model::message::{FieldTable, FieldValue, Payload};
use crate::model::operation::{ItemState, Verb};
use crate::model::outbox::NewEvent;
use crate::store::Repair;

/// Header that carries the correlation id of a message whose producer used the property.
const CORRELATION_HEADER: &str = "correlation_id";

/// Plans it.
pub(super) async fn plan(
    desk: &Desk,
    target: &Target,
    edited: &Payload,
) -> Result<Plan, OperateError> {
    let Target::DeadLetter {
        service,
        dead_letter_id,
    } = target
    else {
        return Err(refused(
            "unsupported",
            "a failed outbox row is mended by its application; replay it when its cause is gone",
        ));
    };
    let detail = look::letter(desk, service, dead_letter_id).await?;
    let letter = &detail.letter;
    let (route, holder, inbox) = futures::join!(
        route::route(desk, letter, Wish::default()),
        look::holder(desk, service, letter),
        look::inbox(desk, &letter.consumer, letter.event_id.as_ref()),
    );
    let queue = route.destination.routing_key.clone();
    let (new_event, changes) = new_event(&detail, edited, queue);
    let mut plan = desk.draft(Draft {
        operation_id: OperationId::generate(),
        verb: Verb::Repair,
        service,
        headline: headline(letter, desk.ports.clock.now()),
        command_line: CommandLine::of_letter(&desk.ports.context.name, Verb::Repair, letter)
            .option("--payload-file", "FILE")
            .finish(),
        frozen: Frozen::Repair {
            dead_letter_id: letter.dead_letter_id.clone(),
            version: letter.version,
            payload_sha256: letter.payload_sha256.clone(),
            new_event: Box::new(new_event.clone()),
        },
    })?;
    about_letter(&mut plan, service, letter);
    plan.payload = Some(format!(
        "{}  sha256 {:.12}…  new event {}",
        human::bytes(u64::try_from(edited.bytes().len()).unwrap_or(u64::MAX)),
        edited.sha256(),
        new_event.event_id
    ));
    plan.headers_kept = u64::try_from(new_event.headers.len()).unwrap_or(u64::MAX);
    plan.header_changes = changes;
    plan.diff = Some(diff(
        &detail.message.payload,
        edited,
        &desk.ports.context.masked,
    ));
    plan.preflight.push(preflight::status(letter, &holder));
    plan.preflight.push(outbox(desk, service));
    plan.preflight
        .extend(content(&detail.message.payload, edited));
    plan.preflight.push(processed(letter, &inbox));
    plan.preflight.extend(identity(letter));
    plan.preflight.extend(route.lines);
    plan.destination = Some(route.destination);
    Ok(plan.sealed())
}

fn outbox(desk: &Desk, service: &str) -> PreflightLine {
    const CHECK: &str = "outbox";
    match desk.store(service).map(|store| store.facts().outbox_layout) {
        Ok(Some(_)) => PreflightLine::new(
            CHECK,
            Level::Pass,
            format!("goes out through the outbox of {service}, in one transaction"),
        ),
        _ => PreflightLine::new(
            CHECK,
            Level::Refusal,
            format!(
                "{service} has no outbox to issue the new event through; configure one, or replay instead"
            ),
        ),
    }
}

/// Whether the edited bytes are JSON, and differ. The check reads syntax only: no number is turned
/// into a float, and nesting of any depth is walked without recursion (P-06, P-09).
fn content(original: &Payload, edited: &Payload) -> Vec<PreflightLine> {
    let mut lines = Vec::new();
    match serde_json::from_slice::<serde::de::IgnoredAny>(edited.bytes()) {
        Ok(_) => lines.push(PreflightLine::new(
            "json",
            Level::Pass,
            "payload is JSON, sent byte for byte as edited",
        )),
        Err(error) => lines.push(PreflightLine::new(
            "json",
            Level::Refusal,
            format!("the edited payload is not JSON: {error}"),
        )),
    }
    if original == edited {
        lines.push(PreflightLine::new(
            "unchanged",
            Level::Warning,
            "the payload is unchanged: a replay would keep the original id",
        ));
    }
    lines
}

fn processed(letter: &DeadLetter, inbox: &Look<InboxRow>) -> PreflightLine {
    const CHECK: &str = "inbox";
    let consumer = safe(letter.consumer.as_str());
    match inbox {
        Look::Found(row) => PreflightLine::new(
            CHECK,
            Level::Warning,
            format!(
                "{consumer} processed the original at {}: the repair is a second effect under a new id",
                moment(row.processed_at)
            ),
        ),
        Look::Absent => PreflightLine::new(
            CHECK,
            Level::Pass,
            format!("{consumer} has not processed the original"),
        ),
        Look::Unread(why) | Look::NotConfigured(why) => PreflightLine::new(
            CHECK,
            Level::Warning,
            format!("whether {consumer} processed the original is not known: {why}"),
        ),
    }
}

/// What the new event needs to know of the original: its key and type; its version, if it has one.
fn identity(letter: &DeadLetter) -> Vec<PreflightLine> {
    let mut lines = Vec::new();
    if letter.aggregate_id.is_none() {
        lines.push(PreflightLine::new(
            "key",
            Level::Refusal,
            "its headers name no key: the new event would belong to nothing",
        ));
    }
    if letter.event_type.is_none() {
        lines.push(PreflightLine::new(
            "type",
            Level::Refusal,
            "its type is not known: no consumer could tell what the new event is",
        ));
    }
    if letter.aggregate_version.is_none() {
        lines.push(PreflightLine::new(
            "version",
            Level::Warning,
            "its headers name no version: the new event carries 0",
        ));
    }
    lines
}

/// The event that is issued, and what it does not carry on.
fn new_event(
    detail: &DeadLetterDetail,
    edited: &Payload,
    queue: String,
) -> (NewEvent, Vec<HeaderChange>) {
    let letter = &detail.letter;
    let properties = &detail.message.properties;
    let event_id = EventId::generate();
    let original_id = letter
        .event_id
        .as_ref()
        .map_or_else(|| letter.dead_letter_id.to_string(), ToString::to_string);
    let mut headers: FieldTable = properties.headers.clone();
    let removed = headers.take_where(must_go);
    if let Some(correlation) = &properties.correlation_id
        && headers.get(CORRELATION_HEADER).is_none()
    {
        headers.set(CORRELATION_HEADER, FieldValue::text(correlation));
    }
    let mut changes = vec![
        locked(
            "message_id",
            properties.message_id.clone(),
            event_id.as_str(),
        ),
        locked(
            "causation_id",
            headers.get("causation_id").map(FieldValue::display),
            &original_id,
        ),
    ];
    changes.extend(removed.into_iter().map(|(field, value)| HeaderChange {
        action: "remove".to_owned(),
        field,
        original: Some(value.display()),
        becomes: None,
    }));
    changes.extend(not_carried(detail));
    let schema_version = headers
        .get("schema_version")
        .and_then(FieldValue::as_i64)
        .unwrap_or(1);
    let new_event = NewEvent {
        event_id,
        aggregate_id: letter
            .aggregate_id
            .clone()
            .unwrap_or_else(|| AggregateId::new("")),
        // A repaired event keeps the place of its original in the sequence.
        aggregate_version: letter.aggregate_version.unwrap_or_default(),
        event_type: letter.event_type.clone().unwrap_or_default(),
        schema_version,
        payload: edited.clone(),
        headers,
        exchange: Some(String::new()),
        routing_key: Some(queue),
        trace_id: letter.trace_id.clone(),
        causation_id: Some(original_id),
    };
    (new_event, changes)
}

fn locked(field: &str, original: Option<String>, becomes: &str) -> HeaderChange {
    HeaderChange {
        action: "set".to_owned(),
        field: field.to_owned(),
        original,
        becomes: Some(becomes.to_owned()),
    }
}

/// Properties an outbox row has no column for: the dispatcher writes its own.
fn not_carried(detail: &DeadLetterDetail) -> Vec<HeaderChange> {
    let properties = &detail.message.properties;
    let lost = [
        ("content_encoding", properties.content_encoding.clone()),
        ("priority", properties.priority.map(|p| p.to_string())),
        ("reply_to", properties.reply_to.clone()),
        ("expiration", properties.expiration.clone()),
        ("user_id", properties.user_id.clone()),
        ("app_id", properties.app_id.clone()),
        ("cluster_id", properties.cluster_id.clone()),
    ];
    lost.into_iter()
        .filter_map(|(field, original)| {
            original.map(|original| HeaderChange {
                action: "clear".to_owned(),
                field: field.to_owned(),
                original: Some(original),
                becomes: None,
            })
        })
        .collect()
}

/// The payloads as a unified diff; bytes that are not text are only counted. It goes to screens,
/// the audit log and the repair's record, so masked values are hidden here, before anyone has it.
fn diff(original: &Payload, edited: &Payload, masked: &[String]) -> String {
    let sizes = || {
        format!(
            "{} become {}",
            human::bytes(u64::try_from(original.bytes().len()).unwrap_or(u64::MAX)),
            human::bytes(u64::try_from(edited.bytes().len()).unwrap_or(u64::MAX))
        )
    };
    let (Some(before), Some(after)) = (original.text(), edited.text()) else {
        return format!("not text: {}", sizes());
    };
    let Some((before, after)) = mask::pair(before, after, masked) else {
        return format!(
            "not shown: this context masks parts of payloads, and not both are JSON; {}",
            sizes()
        );
    };
    similar::TextDiff::from_lines(before.as_ref(), after.as_ref())
        .unified_diff()
        .context_radius(3)
        .header("original", "repair")
        .to_string()
}

/// Applies it: one transaction.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::Repair {
        dead_letter_id,
        version,
        payload_sha256,
        new_event,
    } = &plan.frozen
    else {
        return Err(refused("digest", "this is no plan of a repair"));
    };
    let repair = Repair {
        reservation: desk.reservation(dead_letter_id, *version, payload_sha256),
        new_event: new_event.as_ref().clone(),
        diff: plan.diff.clone().unwrap_or_default(),
        audit: desk.intent(plan, confirmation),
    };
    started(
        desk.store(&plan.service)?
            .repair(&desk.operation(plan, confirmation), &repair)
            .await?,
    )?;
    Ok(applied(
        plan,
        ItemResult {
            event_id: plan.event_id.clone(),
            state: ItemState::Applied,
            evidence: format!(
                "event {} is in the outbox of {}; the dispatcher sends it to queue {}",
                new_event.event_id,
                plan.service,
                safe(new_event.routing_key.as_deref().unwrap_or_default())
            ),
            new_event_id: Some(new_event.event_id.clone()),
        },
    ))
}

#[cfg(test)]
mod tests;
