//! The preflight of a replay: facts in, lines out. Pure, so that every line is tested by a table.

mod inbox;

use super::guard::first_match;
use super::headers::HeaderSize;
use super::look::{Holder, Look, Memory, Neighbours, Originals};
use super::plan::{Level, PreflightLine};
use super::wording::{moment, versions};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::text::safe;
use crate::config::Context;
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail, DeadLetterStatus};
use crate::model::inbox::InboxRow;
use crate::model::message::Payload;
use crate::model::operation::ItemState;

/// From this replay on the confirmation needs a word.
const REPLAYS_BEFORE_WORD: i64 = 2;
/// The word.
pub(super) const AGAIN: &str = "again";

/// What a replay's preflight looks at.
pub(super) struct Facts<'a> {
    /// The context's rules.
    pub context: &'a Context,
    /// On our clock.
    pub now: Timestamp,
    /// The letter, its message and deaths.
    pub detail: &'a DeadLetterDetail,
    /// Who holds it.
    pub holder: Look<Holder>,
    /// Its consumer's inbox row.
    pub inbox: Look<InboxRow>,
    /// What its consumer remembers beside the inbox.
    pub memory: Memory,
    /// Its outbox originals.
    pub originals: Originals,
    /// Its neighbours; `None` without key or version.
    pub neighbours: Option<Neighbours>,
    /// Its headers against the frame limit.
    pub size: HeaderSize,
}

/// Every line but those about the destination.
pub(super) fn lines(facts: &Facts<'_>) -> Vec<PreflightLine> {
    let letter = &facts.detail.letter;
    let mut lines = vec![
        status(letter, &facts.holder),
        replay_allowed(letter),
        never_replay(facts.context, letter),
        inbox::row(
            &facts.context.name,
            letter,
            &facts.inbox,
            &facts.memory.archived,
        ),
        inbox::retention(facts),
        same_content(letter, &facts.originals),
        sequence(facts),
    ];
    lines.extend(replays(letter));
    lines.extend(envelope(&facts.detail.message.payload));
    lines.extend(size(facts.size));
    lines
}

/// The extra word a confirmation needs, if any.
pub(super) fn word(letter: &DeadLetter) -> Option<String> {
    (letter.replays >= REPLAYS_BEFORE_WORD).then(|| AGAIN.to_owned())
}

/// Turns the refusals that were overridden in words into warnings that say so.
pub(super) fn overridden(lines: &mut [PreflightLine], overrides: &[String]) {
    for line in lines {
        if line.level == Level::Overridable && overrides.contains(&line.check) {
            line.level = Level::Warning;
            line.text.push_str(" (overridden)");
        }
    }
}

fn pass(check: &str, text: impl Into<String>) -> PreflightLine {
    PreflightLine::new(check, Level::Pass, text)
}

fn warning(check: &str, text: impl Into<String>) -> PreflightLine {
    PreflightLine::new(check, Level::Warning, text)
}

fn overridable(check: &str, text: impl Into<String>) -> PreflightLine {
    PreflightLine::new(check, Level::Overridable, text)
}

fn refusal(check: &str, text: impl Into<String>) -> PreflightLine {
    PreflightLine::new(check, Level::Refusal, text)
}

/// Whether the letter is free: open, or held by whom, or closed when.
pub(super) fn status(letter: &DeadLetter, holder: &Look<Holder>) -> PreflightLine {
    match letter.status {
        DeadLetterStatus::Open => pass("held", "open: nobody else holds it"),
        DeadLetterStatus::Replaying => held(holder),
        DeadLetterStatus::Replayed
        | DeadLetterStatus::Resolved
        | DeadLetterStatus::Repaired
        | DeadLetterStatus::Discarded => refusal("closed", closed_text(letter, holder)),
    }
}

fn held(holder: &Look<Holder>) -> PreflightLine {
    match holder {
        Look::Found(held) => {
            let operation = &held.operation;
            let who = safe(&operation.actor);
            let since = moment(operation.created_at);
            if held.state == Some(ItemState::Unknown) {
                return overridable(
                    "unknown_outcome",
                    format!(
                        "replayed by {who} at {since}, outcome unknown: it may have been sent; sending it again is safe only while the inbox remembers the id"
                    ),
                );
            }
            refusal(
                "held",
                format!(
                    "already being replayed by {who} since {since} (operation {})",
                    operation.operation_id
                ),
            )
        }
        Look::Absent | Look::NotConfigured(_) => refusal(
            "held",
            "already being replayed by an operation that this journal does not know",
        ),
        Look::Unread(why) => refusal("unread", format!("who replays it could not be read: {why}")),
    }
}

fn closed_text(letter: &DeadLetter, holder: &Look<Holder>) -> String {
    let word = letter.status.word();
    match holder {
        Look::Found(held) => {
            let operation = &held.operation;
            let at = operation.finished_at.unwrap_or(operation.created_at);
            format!(
                "{word} at {} by {}: nothing is left to do",
                moment(at),
                safe(&operation.actor)
            )
        }
        Look::Absent | Look::Unread(_) | Look::NotConfigured(_) => {
            format!("{word} already: nothing is left to do")
        }
    }
}

fn replay_allowed(letter: &DeadLetter) -> PreflightLine {
    if letter.replay_allowed {
        pass("replay_allowed", "replay allowed")
    } else {
        refusal(
            "replay_allowed",
            "its producer forbids replays (header x-redrive-replay)",
        )
    }
}

fn never_replay(context: &Context, letter: &DeadLetter) -> PreflightLine {
    match &letter.event_type {
        _ if context.never_replay.is_empty() => {
            pass("never_replay", "no type is excluded from replays")
        }
        Some(event_type) => match first_match(&context.never_replay, event_type) {
            Some(pattern) => refusal(
                "never_replay",
                format!(
                    "never_replay: {} (contexts.{}.never_replay has {pattern})",
                    safe(event_type),
                    context.name
                ),
            ),
            None => pass(
                "never_replay",
                format!("{} may be replayed", safe(event_type)),
            ),
        },
        None => overridable(
            "never_replay",
            "its type is not known, and this context has types that are never replayed",
        ),
    }
}

fn same_content(letter: &DeadLetter, originals: &Originals) -> PreflightLine {
    const CHECK: &str = "same_content";
    if let Some(other) = originals
        .found
        .iter()
        .find(|original| original.sha256 != letter.payload_sha256)
    {
        return overridable(
            CHECK,
            format!(
                "same id, other content: the outbox row in {} has sha256 {:.12}…, this has {:.12}…",
                other.service, other.sha256, letter.payload_sha256
            ),
        );
    }
    if let Some(original) = originals.found.first() {
        return pass(
            CHECK,
            format!("payload equals the outbox row in {}", original.service),
        );
    }
    if originals.unread.is_empty() {
        warning(
            CHECK,
            "no outbox of this context has the event: its payload cannot be compared with the original",
        )
    } else {
        warning(
            CHECK,
            format!(
                "payload not compared with the original: {}",
                originals.unread.join("; ")
            ),
        )
    }
}

fn sequence(facts: &Facts<'_>) -> PreflightLine {
    const CHECK: &str = "sequence";
    let letter = &facts.detail.letter;
    let (Some(key), Some(found)) = (&letter.aggregate_id, &facts.neighbours) else {
        return warning(
            CHECK,
            "its headers name no key or version: its place in a sequence is not known",
        );
    };
    let key = safe(key.as_str());
    let mut notes = Vec::new();
    if !found.earlier_dead.is_empty() {
        notes.push(format!(
            "{} of key {key} died before it: replay that first",
            versions(&found.earlier_dead)
        ));
    }
    if !found.later_applied.is_empty() {
        notes.push(format!(
            "later events of {key} were already processed ({})",
            versions(&found.later_applied)
        ));
    }
    if let (Look::Found(applied), Some(version)) = (&facts.memory.applied, letter.aggregate_version)
        && *applied >= version
    {
        notes.push(format!(
            "{} has applied v{applied} of {key} already: it will absorb this one as stale",
            safe(letter.consumer.as_str())
        ));
    }
    if !found.later_dead.is_empty() {
        notes.push(format!(
            "{} of this key waits behind it",
            versions(&found.later_dead)
        ));
    }
    if !found.unread.is_empty() {
        notes.push(format!(
            "not all could be read: {}",
            found.unread.join("; ")
        ));
    }
    if facts.originals.found.is_empty() {
        notes.push("later events not looked up: its outbox is not known".to_owned());
    }
    if found.is_truncated {
        notes.push("more events of the key exist than were looked at".to_owned());
    }
    if notes.is_empty() {
        pass(CHECK, format!("nothing else of key {key} is out of order"))
    } else {
        warning(CHECK, notes.join("; "))
    }
}

/// What earlier replays came to.
fn replays(letter: &DeadLetter) -> Option<PreflightLine> {
    if letter.replays <= 0 {
        return None;
    }
    let times = if letter.replays == 1 {
        "once".to_owned()
    } else {
        format!("{} times", letter.replays)
    };
    let since = letter.last_replayed_at.map(|at| {
        let after = letter.last_died_at.seconds_since(at);
        // The broker tells deaths in whole seconds, so a death at once may look earlier.
        if after > -1.0 {
            format!(", last death {} after replay", human::age(after.max(0.0)))
        } else {
            format!(", last replay at {}", moment(at))
        }
    });
    let word = word(letter)
        .map(|word| format!("; type `{word}` to go on"))
        .unwrap_or_default();
    Some(warning(
        "replays",
        format!("replayed {times}{}{word}", since.unwrap_or_default()),
    ))
}

/// An error-queue wrapper around the message would be sent instead of the message (P-12).
fn envelope(payload: &Payload) -> Option<PreflightLine> {
    use base64::Engine as _;
    #[derive(serde::Deserialize)]
    struct Envelope {
        payload: String,
        #[serde(rename = "error")]
        _error: serde::de::IgnoredAny,
    }
    let envelope: Envelope = serde_json::from_slice(payload.bytes()).ok()?;
    let is_base64 = base64::engine::general_purpose::STANDARD
        .decode(envelope.payload.as_bytes())
        .is_ok();
    is_base64.then(|| {
        warning(
            "envelope",
            "body looks like an error envelope; the original is inside",
        )
    })
}

fn size(size: HeaderSize) -> Option<PreflightLine> {
    match size {
        HeaderSize::Fits => None,
        HeaderSize::FitsUnmarked => Some(warning(
            "headers_size",
            "headers at the frame limit: sent without our marks, a next death is counted but not linked to this replay",
        )),
        HeaderSize::TooLarge(needed, allowed) => Some(refusal(
            "headers_size",
            format!(
                "headers too large to republish ({} of {})",
                thousands(needed),
                thousands(allowed)
            ),
        )),
    }
}

fn thousands(n: usize) -> String {
    human::grouped(u64::try_from(n).unwrap_or(u64::MAX)).replace(' ', ",")
}

/// `412 B  sha256 9f2c…  equals the outbox row`.
pub(super) fn payload_text(letter: &DeadLetter, originals: &Originals) -> String {
    let size = human::bytes(u64::try_from(letter.payload_bytes).unwrap_or_default());
    let compared = match originals.found.first() {
        _ if originals
            .found
            .iter()
            .any(|original| original.sha256 != letter.payload_sha256) =>
        {
            "differs from the outbox row"
        }
        Some(_) => "equals the outbox row",
        None if originals.unread.is_empty() => "no outbox row to compare with",
        None => "outbox not read",
    };
    format!("{size}  sha256 {:.12}…  {compared}", letter.payload_sha256)
}

#[cfg(test)]
pub(super) mod tests;
