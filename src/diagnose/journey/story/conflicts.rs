//! What contradicts: content, states, effects, and orders that no clock explains.

use std::collections::BTreeMap;

use crate::base::clock::Timestamp;
use crate::model::dead_letter::DeadLetterStatus;

use super::super::facts::{EventFacts, Facts, Inbox, Seen};
use super::clocks::Clocks;
use super::gaps::{finding, id_of};
use super::moments::brief;
use super::{Finding, evidence, name, short};

/// Two databases of one machine agree within this, in microseconds.
const TOLERANCE_US: i64 = 5_000;

/// What contradicts.
pub fn conflicts(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    for event in &facts.events {
        out.extend(content_conflicts(facts, event));
        out.extend(state_conflicts(facts, event));
    }
    out.extend(effects_twice(facts));
    for (service, saga) in &facts.sagas {
        for step in &saga.steps {
            let Some(conflict) = &step.conflict else {
                continue;
            };
            out.push(Finding {
                about: Some(service.clone()),
                evidence: evidence("sagas", service, saga.saga_id.as_str()),
                ..finding(
                    "saga_conflict",
                    None,
                    format!("step {} {}: {conflict}", step.no, step.name),
                )
            });
        }
    }
    out
}

/// The same id with other content, and the same id in two outboxes.
fn content_conflicts(facts: &Facts, event: &EventFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    if event.outbox.len() > 1 {
        let services: Vec<&str> = event.outbox.iter().map(|(s, _)| s.as_str()).collect();
        out.push(finding(
            "id_in_two_outboxes",
            Some(event),
            format!(
                "{} is in the outboxes of {}",
                short(id_of(event)),
                services.join(" and ")
            ),
        ));
    }
    let mut digests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    if let Some(sha256) = &event.payload_sha256 {
        digests.entry(sha256).or_default().push("outbox".to_owned());
    }
    for seen in &event.seen {
        let consumer = facts.consumers.get(seen.consumer);
        let sha256 = seen
            .row
            .as_ref()
            .and_then(|row| row.payload_sha256.as_ref());
        if let (Some(consumer), Some(sha256)) = (consumer, sha256) {
            let place = format!("inbox of {}", consumer.name);
            digests.entry(sha256).or_default().push(place);
        }
    }
    for letter in &event.letters {
        let place = format!("dead letter of {}", letter.letter.consumer);
        digests
            .entry(&letter.letter.payload_sha256)
            .or_default()
            .push(place);
    }
    for (_, note) in &event.waiting {
        let place = format!("waiting at {}", note.consumer);
        digests.entry(&note.payload_sha256).or_default().push(place);
    }
    if digests.len() > 1 {
        let parts: Vec<String> = digests
            .iter()
            .map(|(sha256, places)| format!("{sha256:.8} ({})", places.join(", ")))
            .collect();
        out.push(finding(
            "same_id_other_content",
            Some(event),
            format!(
                "{}: same id, other content: sha256 {}",
                name(facts, event),
                parts.join(" against ")
            ),
        ));
    }
    out
}

fn has_row(seen: &Seen) -> bool {
    matches!(seen.inbox, Inbox::Row | Inbox::Archived)
}

/// A dead letter that says one thing while the inbox says another.
fn state_conflicts(facts: &Facts, event: &EventFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    for letter in &event.letters {
        let row = &letter.letter;
        let seen = event.seen.iter().find(|seen| {
            let consumer = facts.consumers.get(seen.consumer);
            consumer.is_some_and(|consumer| consumer.name == row.consumer)
        });
        let Some(seen) = seen else { continue };
        let (kind, text) = match row.status {
            DeadLetterStatus::Open | DeadLetterStatus::Repaired | DeadLetterStatus::Discarded
                if has_row(seen) =>
            {
                (
                    "dead_and_consumed",
                    format!(
                        "{} is a dead letter ({}) of {}, whose inbox has it",
                        name(facts, event),
                        row.status.word(),
                        row.consumer
                    ),
                )
            }
            DeadLetterStatus::Replayed | DeadLetterStatus::Resolved
                if seen.inbox == Inbox::Absent =>
            {
                (
                    "proof_is_gone",
                    format!(
                        "{} counts as {} at {}, whose inbox has no row of it",
                        name(facts, event),
                        row.status.word(),
                        row.consumer
                    ),
                )
            }
            DeadLetterStatus::Open
            | DeadLetterStatus::Replaying
            | DeadLetterStatus::Replayed
            | DeadLetterStatus::Resolved
            | DeadLetterStatus::Repaired
            | DeadLetterStatus::Discarded => continue,
        };
        out.push(Finding {
            about: Some(row.consumer.to_string()),
            evidence: evidence("dead_letters", &letter.service, row.dead_letter_id.as_str()),
            ..finding(kind, Some(event), text)
        });
    }
    out
}

/// An event and its repair that both took effect at one consumer.
fn effects_twice(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    let of = |id: &crate::model::ids::EventId| {
        facts
            .events
            .iter()
            .find(|event| event.event_id.as_ref() == Some(id))
    };
    for (service, link) in &facts.repairs {
        let original = link.original_event_id.as_ref().and_then(of);
        let (Some(original), Some(repair)) = (original, of(&link.new_event_id)) else {
            continue;
        };
        for seen in original.seen.iter().filter(|seen| has_row(seen)) {
            let is_twice = repair
                .seen
                .iter()
                .any(|other| other.consumer == seen.consumer && has_row(other));
            let Some(consumer) = facts.consumers.get(seen.consumer).filter(|_| is_twice) else {
                continue;
            };
            out.push(Finding {
                about: Some(consumer.name.to_string()),
                evidence: evidence("operations", service, link.operation_id.as_str()),
                ..finding(
                    "effect_twice",
                    Some(original),
                    format!(
                        "{} has both {} and its repair {}: the effect happened twice",
                        consumer.name,
                        short(id_of(original)),
                        short(id_of(repair))
                    ),
                )
            });
        }
    }
    out
}

/// Orders that only skew explains, and those that nothing does: a consumer cannot have an event before
/// it was written.
pub fn order(facts: &Facts, clocks: &Clocks) -> (Vec<String>, Vec<Finding>) {
    let (mut notes, mut conflicts) = (Vec::new(), Vec::new());
    for event in &facts.events {
        let Some((origin, Some(written))) = event
            .outbox
            .first()
            .map(|(service, row)| (service, row.created_at))
        else {
            continue;
        };
        for seen in &event.seen {
            let (Some(consumer), Some(row)) = (facts.consumers.get(seen.consumer), &seen.row)
            else {
                continue;
            };
            let service = &consumer.service;
            let recorded = row.processed_at.micros_since(written);
            let here = clocks
                .here(service, row.processed_at)
                .micros_since(clocks.here(origin, written));
            let early = |us: i64| {
                let zero = Timestamp::from_micros(0);
                brief(zero.seconds_since(Timestamp::from_micros(us)))
            };
            let called = format!("{} of {} at {}", name(facts, event), origin, consumer.name);
            if here >= -TOLERANCE_US && recorded < -TOLERANCE_US {
                notes.push(format!(
                    "{called}: recorded as consumed {} before it was written; only the skew of the clocks \
                     explains that order",
                    early(recorded)
                ));
            } else if here < -TOLERANCE_US {
                let is_known = clocks.skew(service).is_some() && clocks.skew(origin).is_some();
                if is_known {
                    conflicts.push(Finding {
                        about: Some(consumer.name.to_string()),
                        evidence: evidence("inbox", service, id_of(event)),
                        ..finding(
                            "inbox_before_outbox",
                            Some(event),
                            format!(
                                "{called}: consumed {} before it was written, and the clocks do not \
                                 explain it",
                                early(here)
                            ),
                        )
                    });
                } else {
                    notes.push(format!(
                        "{called}: recorded as consumed {} before it was written; a clock that could not \
                         be asked may explain it",
                        early(here)
                    ));
                }
            }
        }
    }
    (notes, conflicts)
}
