//! What a replayed message keeps and what it must not carry again (cases H-01 to H-13). Pure.
//!
//! All 14 basic properties are kept, except: a user-id that is not ours (the broker would close the
//! channel), an expiration (the replay would silently expire), `CC`/`BCC` (it would reach queues
//! that already succeeded). Broker-owned headers go, because the broker writes them anew; what our
//! own consumer said about the last failure goes, because it is about the last failure. Every
//! change is a [`HeaderChange`], shown before confirming and kept in the audit entry.

use super::plan::HeaderChange;
use crate::broker::deaths::is_broker_owned;
use crate::broker::wire::header_bytes;
use crate::model::ids::{EventId, OperationId};
use crate::model::message::{FieldTable, FieldValue, Message, Properties};
use crate::pipeline::headers::{DEATH_NOTES, OPERATION, REPLAYS};

/// Frame header (7) and frame end (1) around every frame.
const FRAME_OVERHEAD: usize = 8;

/// What a replay is marked with.
pub(super) struct Marks<'a> {
    /// The operation that sends it.
    pub operation_id: &'a OperationId,
    /// 1 for the first replay.
    pub replay_no: i64,
    /// Becomes the message id.
    pub event_id: Option<&'a EventId>,
    /// The user our connection publishes as.
    pub user: Option<&'a str>,
    /// Largest frame of the connection; 0 = no limit.
    pub frame_max: u32,
}

/// A message made ready, and how it differs from the original.
#[derive(Debug, PartialEq)]
pub(super) struct Prepared {
    /// What is sent.
    pub message: Message,
    /// Properties and headers kept as they were.
    pub kept: u64,
    /// Everything else.
    pub changes: Vec<HeaderChange>,
    /// Whether it fits into a frame.
    pub size: HeaderSize,
}

/// Size of the properties against the frame limit (H-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderSize {
    /// Fits with our marks.
    Fits,
    /// Fits only without our marks, so they were left out.
    FitsUnmarked,
    /// Does not fit: bytes needed, bytes allowed.
    TooLarge(usize, usize),
}

/// Applies the policy to a dead letter's message.
pub(super) fn prepare(original: &Message, marks: &Marks<'_>) -> Prepared {
    let (mut properties, mut changes) = cleaned(original, marks);
    let unmarked = properties.headers.clone();
    let mut marked_changes = Vec::new();
    set_header(
        &mut properties.headers,
        &original.properties.headers,
        OPERATION,
        FieldValue::text(marks.operation_id.as_str()),
        &mut marked_changes,
    );
    set_header(
        &mut properties.headers,
        &original.properties.headers,
        REPLAYS,
        FieldValue::I64(marks.replay_no),
        &mut marked_changes,
    );

    let size = match fit(&properties, marks.frame_max) {
        Ok(()) => HeaderSize::Fits,
        Err((needed, allowed)) => {
            let marked = std::mem::replace(&mut properties.headers, unmarked.clone());
            if fit(&properties, marks.frame_max).is_ok() {
                marked_changes.clear();
                HeaderSize::FitsUnmarked
            } else {
                properties.headers = marked;
                HeaderSize::TooLarge(needed, allowed)
            }
        }
    };
    changes.append(&mut marked_changes);
    let kept = kept(&original.properties, &properties, &unmarked);
    Prepared {
        message: Message {
            properties,
            payload: original.payload.clone(),
        },
        kept,
        changes,
        size,
    }
}

/// The original without what must not be sent again. Destructured without `..`: a new property does
/// not compile until somebody decides about it (H-06).
fn cleaned(original: &Message, marks: &Marks<'_>) -> (Properties, Vec<HeaderChange>) {
    let Properties {
        content_type,
        content_encoding,
        headers,
        delivery_mode,
        priority,
        correlation_id,
        reply_to,
        expiration,
        message_id,
        timestamp,
        kind,
        user_id,
        app_id,
        cluster_id,
    } = original.properties.clone();
    let mut changes = Vec::new();

    let user_id = user_id.filter(|user| {
        let is_ours = marks.user == Some(user.as_str());
        if !is_ours {
            changes.push(clear("user_id", user));
        }
        is_ours
    });
    if let Some(expiration) = &expiration {
        changes.push(clear("expiration", expiration));
    }
    if delivery_mode != Some(2) {
        changes.push(set(
            "delivery_mode",
            delivery_mode.map(|mode| mode.to_string()),
            "2",
        ));
    }
    let message_id = match marks.event_id {
        Some(event_id) if message_id.as_deref() != Some(event_id.as_str()) => {
            changes.push(set("message_id", message_id, event_id.as_str()));
            Some(event_id.to_string())
        }
        _ => message_id,
    };
    let mut headers = headers;
    for (name, value) in headers.take_where(must_go) {
        // Our own marks are replaced below, with the original shown there.
        if name != OPERATION && name != REPLAYS {
            changes.push(HeaderChange {
                action: "remove".to_owned(),
                field: name,
                original: Some(value.display()),
                becomes: None,
            });
        }
    }
    let properties = Properties {
        content_type,
        content_encoding,
        headers,
        delivery_mode: Some(2),
        priority,
        correlation_id,
        reply_to,
        expiration: None,
        message_id,
        timestamp,
        kind,
        user_id,
        app_id,
        cluster_id,
    };
    (properties, changes)
}

fn clear(field: &str, original: &str) -> HeaderChange {
    HeaderChange {
        action: "clear".to_owned(),
        field: field.to_owned(),
        original: Some(original.to_owned()),
        becomes: None,
    }
}

fn set(field: &str, original: Option<String>, becomes: &str) -> HeaderChange {
    HeaderChange {
        action: "set".to_owned(),
        field: field.to_owned(),
        original,
        becomes: Some(becomes.to_owned()),
    }
}

fn set_header(
    headers: &mut FieldTable,
    before: &FieldTable,
    name: &str,
    value: FieldValue,
    changes: &mut Vec<HeaderChange>,
) {
    changes.push(set(
        name,
        before.get(name).map(FieldValue::display),
        &value.display(),
    ));
    headers.set(name, value);
}

/// Headers that are never sent again.
pub(super) fn must_go(name: &str) -> bool {
    matches!(name, "CC" | "BCC") || is_broker_owned(name) || is_failure_note(name)
}

/// What the last failure left: notes about that death, and our own marks of the replay before it.
/// `x-redrive-replay` (the producer's permission) is not one of them.
fn is_failure_note(name: &str) -> bool {
    DEATH_NOTES.contains(&name) || matches!(name, OPERATION | REPLAYS)
}

/// How many properties and headers are exactly as they were.
fn kept(before: &Properties, after: &Properties, unmarked: &FieldTable) -> u64 {
    let same = [
        is_same(before.content_type.as_ref(), after.content_type.as_ref()),
        is_same(
            before.content_encoding.as_ref(),
            after.content_encoding.as_ref(),
        ),
        is_same(before.delivery_mode.as_ref(), after.delivery_mode.as_ref()),
        is_same(before.priority.as_ref(), after.priority.as_ref()),
        is_same(
            before.correlation_id.as_ref(),
            after.correlation_id.as_ref(),
        ),
        is_same(before.reply_to.as_ref(), after.reply_to.as_ref()),
        is_same(before.message_id.as_ref(), after.message_id.as_ref()),
        is_same(before.timestamp.as_ref(), after.timestamp.as_ref()),
        is_same(before.kind.as_ref(), after.kind.as_ref()),
        is_same(before.user_id.as_ref(), after.user_id.as_ref()),
        is_same(before.app_id.as_ref(), after.app_id.as_ref()),
        is_same(before.cluster_id.as_ref(), after.cluster_id.as_ref()),
    ];
    let properties = same.into_iter().filter(|same| *same).count();
    u64::try_from(properties + unmarked.len()).unwrap_or(u64::MAX)
}

fn is_same<T: PartialEq>(before: Option<&T>, after: Option<&T>) -> bool {
    before.is_some() && before == after
}

/// Whether the properties fit into one frame: `Err((needed, allowed))` when not (H-10).
fn fit(properties: &Properties, frame_max: u32) -> Result<(), (usize, usize)> {
    let Ok(frame_max) = usize::try_from(frame_max) else {
        return Ok(());
    };
    if frame_max == 0 {
        return Ok(());
    }
    let allowed = frame_max.saturating_sub(FRAME_OVERHEAD);
    let needed = header_bytes(properties);
    if needed <= allowed {
        Ok(())
    } else {
        Err((needed, allowed))
    }
}

#[cfg(test)]
mod tests;
