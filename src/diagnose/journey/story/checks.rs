//! What should be there and is not, and what contradicts. Nothing is called absent that was not read.

use std::collections::BTreeMap;

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::ConsumerName;
use crate::model::operation::ItemState;
use crate::model::outbox::OutboxState;
use crate::model::saga::StepState;

use super::super::facts::{ConsumerFacts, EventFacts, Facts, Inbox, Route, Seen};
use super::clocks::Clocks;
use super::moments::brief;
use super::{Finding, evidence, name, short};

/// Two databases of one machine agree within this, in microseconds.
const TOLERANCE_US: i64 = 5_000;

fn finding(kind: &'static str, event: Option<&EventFacts>, text: String) -> Finding {
    Finding {
        kind,
        event_id: event.and_then(|event| event.event_id.clone()),
        about: None,
        age_s: None,
        text,
        evidence: None,
    }
}

fn id_of(event: &EventFacts) -> &str {
    event.event_id.as_ref().map_or("", |id| id.as_str())
}

/// What should be there and is not.
pub fn gaps(facts: &Facts, clocks: &Clocks) -> Vec<Finding> {
    let mut out = Vec::new();
    for event in &facts.events {
        out.extend(outbox_gaps(facts, clocks, event));
        out.extend(inbox_gaps(facts, clocks, event));
        out.extend(waiting_gaps(facts, event));
    }
    out.extend(operation_gaps(facts, clocks));
    out.extend(saga_gaps(facts, clocks));
    out
}

fn outbox_gaps(facts: &Facts, clocks: &Clocks, event: &EventFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    let is_everything_read = !facts.unread.iter().any(|unread| {
        unread.what.starts_with("outbox original") || unread.what.starts_with("events")
    });
    if event.outbox.is_empty() && event.event_id.is_some() && is_everything_read {
        out.push(finding(
            "no_outbox_row",
            Some(event),
            format!(
                "no outbox of this context has {}: deleted, or published by somebody else",
                short(id_of(event))
            ),
        ));
    }
    for (service, row) in &event.outbox {
        let since = |at: Option<Timestamp>| {
            at.map(|at| facts.now.seconds_since(clocks.here(service, at)).max(0.0))
        };
        let (kind, age, text) = match row.state {
            OutboxState::Pending => {
                let due = since(row.next_attempt_at);
                let age = due.filter(|age| *age > 0.0);
                let Some(age) = age else { continue };
                let text = format!("due for {} and not claimed", human::age(age));
                ("not_claimed", Some(age), text)
            }
            OutboxState::Sending => {
                let Some(age) = since(row.lease_until).filter(|age| *age > 0.0) else {
                    continue;
                };
                let text = format!("claimed, and its lease ran out {} ago", human::age(age));
                ("lease_expired", Some(age), text)
            }
            OutboxState::Failed => {
                let text = "given up in the outbox: it was never confirmed".to_owned();
                ("failed_in_outbox", since(row.created_at), text)
            }
            OutboxState::Sent | OutboxState::Unknown => continue,
        };
        out.push(Finding {
            about: Some(service.clone()),
            age_s: age,
            evidence: evidence("outbox", service, id_of(event)),
            ..finding(
                kind,
                Some(event),
                format!("{} of {service}: {text}", name(facts, event)),
            )
        });
    }
    out
}

/// True when a consumer is meant to get an event: its queue is bound for it, or it died there.
fn is_expected(event: &EventFacts, consumer: &ConsumerFacts) -> bool {
    let is_routed = match &event.route {
        Route::Queues(queues) => queues.contains(&consumer.queue),
        Route::Unknown => false,
    };
    is_routed
        || event
            .letters
            .iter()
            .any(|l| l.letter.consumer == consumer.name)
}

/// Why an absent row is no riddle: it lies dead, was given up, or waits.
fn is_explained(event: &EventFacts, consumer: &ConsumerName) -> bool {
    let is_dead = event.letters.iter().any(|letter| {
        letter.letter.consumer == *consumer && letter.letter.status != DeadLetterStatus::Replayed
    });
    is_dead
        || event
            .waiting
            .iter()
            .any(|(_, note)| note.consumer == *consumer)
}

fn inbox_gaps(facts: &Facts, clocks: &Clocks, event: &EventFacts) -> Vec<Finding> {
    let sent = event
        .outbox
        .iter()
        .find(|(_, row)| row.state == OutboxState::Sent);
    let Some((service, row)) = sent else {
        return Vec::new();
    };
    let since = row.sent_at.or(row.created_at);
    let age = since.map(|at| facts.now.seconds_since(clocks.here(service, at)).max(0.0));
    let told = age.map_or_else(String::new, |age| format!(" after {}", human::age(age)));
    if event.route == Route::Queues(Vec::new()) {
        return vec![Finding {
            age_s: age,
            ..finding(
                "not_routed",
                Some(event),
                format!("{}: no queue is bound for it now", name(facts, event)),
            )
        }];
    }
    let mut out = Vec::new();
    for seen in &event.seen {
        let Some(consumer) = facts.consumers.get(seen.consumer) else {
            continue;
        };
        let is_missing = seen.inbox == Inbox::Absent
            && is_expected(event, consumer)
            && !is_explained(event, &consumer.name);
        if !is_missing {
            continue;
        }
        let queue = match consumer.depth {
            Some((ready, consumers)) => format!(
                ": {} has {} ready, {consumers} consumers",
                consumer.queue,
                human::grouped(ready)
            ),
            None => String::new(),
        };
        out.push(Finding {
            about: Some(consumer.name.to_string()),
            age_s: age,
            evidence: evidence("queues", &consumer.service, &consumer.queue),
            ..finding(
                "no_inbox_row",
                Some(event),
                format!(
                    "{}: no inbox row for `{}`{told}{queue}",
                    name(facts, event),
                    consumer.name
                ),
            )
        });
    }
    out
}

fn waiting_gaps(facts: &Facts, event: &EventFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    for (service, note) in &event.waiting {
        let missing = facts.events.iter().find(|other| {
            other.version() == Some(note.missing_version) && other.event_id != event.event_id
        });
        let why = match missing {
            None => "not among the events that were read".to_owned(),
            Some(other) if !other.letters.is_empty() => {
                format!("{} is dead", short(id_of(other)))
            }
            Some(other) => format!("{} has not come there", short(id_of(other))),
        };
        out.push(Finding {
            about: Some(note.consumer.to_string()),
            age_s: Some(facts.now.seconds_since(note.parked_at).max(0.0)),
            evidence: evidence("inbox", service, id_of(event)),
            ..finding(
                "waits_for_version",
                Some(event),
                format!(
                    "{} v{} waits at {} for v{}: {why}",
                    name(facts, event),
                    note.version,
                    note.consumer,
                    note.missing_version
                ),
            )
        });
    }
    out
}

fn operation_gaps(facts: &Facts, clocks: &Clocks) -> Vec<Finding> {
    let mut out = Vec::new();
    for of in &facts.operations {
        let operation = &of.operation;
        for item in of.items() {
            let (kind, text) = match item.state {
                ItemState::Reserved | ItemState::Publishing => {
                    ("intent_without_outcome", "was begun and has no outcome yet")
                }
                ItemState::Published => {
                    ("no_proof", "was published; neither inbox row nor death yet")
                }
                ItemState::Unknown => ("outcome_unknown", "has an unknown outcome"),
                ItemState::Consumed
                | ItemState::DiedAgain
                | ItemState::Unroutable
                | ItemState::Refused
                | ItemState::Applied => continue,
            };
            let since = item.published_at.unwrap_or(operation.created_at);
            let age = facts
                .now
                .seconds_since(clocks.here(&of.service, since))
                .max(0.0);
            let about = item.consumer.as_ref().map(ToString::to_string);
            out.push(Finding {
                event_id: item.event_id.clone(),
                about,
                age_s: Some(age),
                evidence: evidence("operations", &of.service, operation.operation_id.as_str()),
                ..finding(
                    kind,
                    None,
                    format!(
                        "{} {} {text} ({})",
                        operation.verb.command(),
                        short(operation.operation_id.as_str()),
                        human::age(age)
                    ),
                )
            });
        }
    }
    out
}

fn saga_gaps(facts: &Facts, clocks: &Clocks) -> Vec<Finding> {
    let mut out = Vec::new();
    for (service, saga) in &facts.sagas {
        let overdue = |at: Option<Timestamp>| {
            let age = facts.now.seconds_since(clocks.here(service, at?));
            (age > 0.0).then_some(age)
        };
        let called = format!("saga {} {}", saga.saga_type, saga.business_key);
        let place = evidence("sagas", service, saga.saga_id.as_str());
        if let Some(age) = overdue(saga.deadline_at).filter(|_| !saga.is_finished()) {
            out.push(Finding {
                about: Some(service.clone()),
                age_s: Some(age),
                evidence: place.clone(),
                ..finding(
                    "saga_overdue",
                    None,
                    format!("{called} should have been over {} ago", human::age(age)),
                )
            });
        }
        if saga.is_finished() {
            continue;
        }
        for step in &saga.steps {
            let is_open = step.forward.is_open() || step.compensation.is_open();
            let Some(age) = overdue(step.timeout_at).filter(|_| is_open) else {
                continue;
            };
            let state = step.state(step.side());
            let word = if state == StepState::Unknown {
                "is unknown"
            } else {
                "has no answer"
            };
            out.push(Finding {
                about: Some(service.clone()),
                age_s: Some(age),
                evidence: place.clone(),
                ..finding(
                    "step_without_answer",
                    None,
                    format!(
                        "{called}: step {} {} {word}, {} late",
                        step.no,
                        step.name,
                        human::age(age)
                    ),
                )
            });
        }
    }
    out
}

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
