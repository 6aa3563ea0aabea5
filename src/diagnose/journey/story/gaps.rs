//! What should be there and is not. Nothing is called absent that was not read.

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::ConsumerName;
use crate::model::operation::ItemState;
use crate::model::outbox::OutboxState;
use crate::model::saga::StepState;

use super::super::facts::{ConsumerFacts, EventFacts, Facts, Inbox, Route};
use super::clocks::Clocks;
use super::{Finding, evidence, name, short};

/// A finding without its place and age.
pub fn finding(kind: &'static str, event: Option<&EventFacts>, text: String) -> Finding {
    Finding {
        kind,
        event_id: event.and_then(|event| event.event_id.clone()),
        about: None,
        age_s: None,
        text,
        evidence: None,
    }
}

/// An event's id, or nothing.
pub fn id_of(event: &EventFacts) -> &str {
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
