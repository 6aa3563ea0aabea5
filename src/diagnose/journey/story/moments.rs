//! What happened to the events and the sagas by themselves.

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::operation::ItemState;
use crate::model::outbox::{OutboxRow, OutboxState};
use crate::model::saga::{Saga, SagaState, SagaStep, Side, StepState};

use super::super::facts::{EventFacts, Facts, Inbox, Letter};
use super::actions;
use super::clocks::Clocks;
use super::{BROKER, Evidence, Moment, Tone, What, evidence, name, short};

/// Every moment that no person made.
pub fn moments(facts: &Facts, clocks: &Clocks) -> Vec<Moment> {
    let mut out = Vec::new();
    for event in &facts.events {
        let teller = Teller {
            facts,
            clocks,
            event,
        };
        for (service, row) in &event.outbox {
            teller.outbox(service, row, &mut out);
        }
        teller.inbox(&mut out);
        for (service, note) in &event.waiting {
            out.push(Moment {
                what: What::Waiting,
                lane: service.clone(),
                tone: Tone::Warn,
                evidence: None,
                ..teller.moment(
                    service,
                    note.parked_at,
                    format!(
                        "{} v{} waits at {} for v{}, tried {}",
                        teller.name(),
                        note.version,
                        note.consumer,
                        note.missing_version,
                        times(note.attempts)
                    ),
                )
            });
        }
        for letter in &event.letters {
            teller.deaths(letter, &mut out);
        }
    }
    for (service, saga) in &facts.sagas {
        tell_saga(clocks, service, saga, &mut out);
    }
    out
}

struct Teller<'a> {
    facts: &'a Facts,
    clocks: &'a Clocks,
    event: &'a EventFacts,
}

/// `once`, `3 times`.
fn times(n: i64) -> String {
    if n == 1 {
        "once".to_owned()
    } else {
        format!("{n} times")
    }
}

/// True for a time that somebody recorded in whole seconds.
fn is_coarse(at: Timestamp) -> bool {
    at.micros() % 1_000_000 == 0
}

impl Teller<'_> {
    fn name(&self) -> String {
        name(self.facts, self.event)
    }

    fn id(&self) -> &str {
        self.event
            .event_id
            .as_ref()
            .map_or("(no event id)", |id| id.as_str())
    }

    /// A plain moment by a service's clock; the caller says where and what.
    fn moment(&self, service: &str, at: Timestamp, text: String) -> Moment {
        Moment {
            at: self.clocks.here(service, at),
            recorded_at: at,
            is_coarse: is_coarse(at),
            what: What::Committed,
            lane: service.to_owned(),
            to: None,
            event_id: self.event.event_id.clone(),
            text,
            tone: Tone::Plain,
            audit: Vec::new(),
            evidence: evidence("outbox", service, self.id()),
        }
    }

    fn outbox(&self, service: &str, row: &OutboxRow, out: &mut Vec<Moment>) {
        let attempts = row.attempts.filter(|n| *n > 1);
        let after = attempts.map_or_else(String::new, |n| format!(" after {n} attempts"));
        let is_full = self.event.role.is_told_in_full();
        let sent = row.sent_at.filter(|_| row.state == OutboxState::Sent);
        if let Some(at) = row.created_at {
            let version = row
                .aggregate_version
                .map_or_else(String::new, |v| format!(" v{v}"));
            let mut text = format!("{}{version} committed", self.name());
            if is_full {
                text = format!("{text}, id {}", short(self.id()));
            }
            let is_sent = row.state == OutboxState::Sent;
            let later = match sent {
                Some(sent) if !is_full => format!(
                    ", confirmed{after} {} later",
                    brief(sent.seconds_since(at).max(0.0))
                ),
                None if is_sent => format!(", sent{after}: this layout keeps no time of it"),
                _ => String::new(),
            };
            let mut moment = self.moment(service, at, format!("{text}{later}"));
            moment.to = (!later.is_empty()).then(|| BROKER.to_owned());
            out.push(moment);
        }
        if let (true, Some(at)) = (is_full, sent) {
            out.push(Moment {
                what: What::Confirmed,
                to: Some(BROKER.to_owned()),
                ..self.moment(
                    service,
                    at,
                    format!(
                        "{} confirmed by the broker{after}, marked sent",
                        self.name()
                    ),
                )
            });
        }
        if let Some((text, tone)) = self.standing(service, row) {
            out.push(Moment {
                at: self.facts.now,
                recorded_at: self.facts.now,
                is_coarse: false,
                what: What::Now,
                tone,
                ..self.moment(service, self.facts.now, text)
            });
        }
    }

    /// How a row stands that is not sent.
    fn standing(&self, service: &str, row: &OutboxRow) -> Option<(String, Tone)> {
        let now = self.facts.now;
        let error = row
            .last_error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}"));
        let attempts = row
            .attempts
            .filter(|n| *n > 0)
            .map_or_else(String::new, |n| format!(", tried {}", times(n)));
        let name = self.name();
        match row.state {
            OutboxState::Sent => None,
            OutboxState::Pending => {
                let due = row.next_attempt_at.map_or_else(String::new, |at| {
                    let wait = self.clocks.here(service, at).seconds_since(now);
                    if wait > 0.0 {
                        format!(", next attempt in {}", human::age(wait))
                    } else {
                        format!(", due for {}", human::age(-wait))
                    }
                });
                Some((
                    format!("{name} is pending{attempts}{due}{error}"),
                    Tone::Warn,
                ))
            }
            OutboxState::Sending => {
                let by = row.claim_token.as_ref().map_or_else(String::new, |token| {
                    format!(" by claim {}", short(token.as_str()))
                });
                let lease = row.lease_until.map_or_else(String::new, |until| {
                    let left = self.clocks.here(service, until).seconds_since(now);
                    if left > 0.0 {
                        format!(", lease ends in {}", human::age(left))
                    } else {
                        format!(", lease overdue by {}", human::age(-left))
                    }
                });
                Some((
                    format!("{name} is claimed{by}{attempts}{lease}{error}"),
                    Tone::Warn,
                ))
            }
            OutboxState::Failed => Some((
                format!("{name} failed in the outbox{attempts}{error}"),
                Tone::Bad,
            )),
            OutboxState::Unknown => Some((
                format!("{name} is in a state this layout does not name"),
                Tone::Warn,
            )),
        }
    }

    fn inbox(&self, out: &mut Vec<Moment>) {
        for seen in &self.event.seen {
            let Some(consumer) = self.facts.consumers.get(seen.consumer) else {
                continue;
            };
            let Some(row) = &seen.row else { continue };
            let archived = if seen.inbox == Inbox::Archived {
                " (in the archive: the inbox has forgotten it)"
            } else {
                ""
            };
            out.push(Moment {
                what: What::Consumed,
                lane: BROKER.to_owned(),
                to: Some(consumer.service.clone()),
                tone: Tone::Good,
                evidence: evidence("inbox", &consumer.service, self.id()),
                ..self.moment(
                    &consumer.service,
                    row.processed_at,
                    format!("{} consumed by {}{archived}", self.name(), consumer.name),
                )
            });
        }
    }

    fn deaths(&self, letter: &Letter, out: &mut Vec<Moment>) {
        let consumer = &letter.letter.consumer;
        let id = letter.letter.dead_letter_id.as_str();
        let told = |at, no: i64, error: &str| Moment {
            what: What::Died,
            lane: letter.service.clone(),
            tone: Tone::Bad,
            evidence: evidence("dead_letters", &letter.service, id),
            ..self.moment(
                &letter.service,
                at,
                format!("{} died at {consumer}, death {no}: {error}", self.name()),
            )
        };
        let row = &letter.letter;
        let why = row.error_summary.as_deref().unwrap_or(&row.error_class);
        if letter.deaths.is_empty() {
            out.push(told(row.last_died_at, row.deaths, why));
        }
        let mut before: Option<Timestamp> = None;
        for death in &letter.deaths {
            // The row keeps the words of the last death only.
            let is_last = death.no == row.deaths;
            let error = death
                .error
                .as_deref()
                .or(row.error_summary.as_deref().filter(|_| is_last))
                .or(death.reason.as_deref())
                .unwrap_or(why);
            let mut moment = told(death.died_at, death.no, error);
            moment.at = self.placed(letter, death, moment.at, before);
            before = Some(moment.at);
            out.push(moment);
        }
    }

    /// A death is recorded by the broker's clock, most often in whole seconds. It comes after what it
    /// followed from and before what was done about it, whatever the clock says.
    fn placed(
        &self,
        letter: &Letter,
        death: &crate::model::dead_letter::Death,
        at: Timestamp,
        before: Option<Timestamp>,
    ) -> Timestamp {
        let step = |at: Timestamp, by: i64| Timestamp::from_micros(at.micros() + by);
        let items = || {
            let of_service = self
                .facts
                .operations
                .iter()
                .filter(|o| o.service == letter.service);
            of_service
                .flat_map(|operation| operation.items().iter().map(move |item| (operation, item)))
        };
        let is_its = |item: &crate::model::operation::OperationItem| {
            item.dead_letter_id.as_ref() == Some(&letter.letter.dead_letter_id)
        };
        let published = items()
            .map(|(of, item)| (&of.operation, item))
            .filter(|(operation, item)| {
                is_its(item) && Some(&operation.operation_id) == death.operation_id.as_ref()
            })
            .map(|(operation, item)| item.published_at.unwrap_or(operation.created_at))
            .map(|at| self.clocks.here(&letter.service, at));
        let written = self.event.outbox.iter().filter_map(|(service, row)| {
            let at = row.created_at?;
            Some(self.clocks.here(service, at))
        });
        let earliest = published.chain(written).chain(before).max();
        let latest = items()
            .filter(|(_, item)| is_its(item))
            .map(|(of, item)| (item, actions::acted_at(self.facts, self.clocks, of)))
            .filter(|(item, acted)| match item.state {
                // Done at once, without a count of the deaths before.
                ItemState::Applied => at <= *acted,
                _ => item.deaths_before >= death.no,
            })
            .map(|(_, acted)| acted)
            .min();
        // A whole second stands for all of it; nothing that was recorded more exactly in it is known to be
        // later.
        let mut at = if is_coarse(death.died_at) {
            step(at, 999_999)
        } else {
            at
        };
        if let Some(earliest) = earliest
            && at <= earliest
        {
            at = step(earliest, 1);
        }
        if let Some(latest) = latest
            && at >= latest
        {
            at = step(latest, -1);
        }
        at
    }
}

/// `0.3s`, `14s`, `2m05s`: a short time with its tenths.
pub fn brief(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.1}s")
    } else {
        human::age(seconds)
    }
}

fn tell_saga(clocks: &Clocks, service: &str, saga: &Saga, out: &mut Vec<Moment>) {
    let at_evidence: Option<Evidence> = evidence("sagas", service, saga.saga_id.as_str());
    let moment = |at: Timestamp, what, tone, text| Moment {
        at: clocks.here(service, at),
        recorded_at: at,
        is_coarse: is_coarse(at),
        what,
        lane: service.to_owned(),
        to: None,
        event_id: None,
        text,
        tone,
        audit: Vec::new(),
        evidence: at_evidence.clone(),
    };
    let called = format!("saga {} {}", saga.saga_type, saga.business_key);
    out.push(moment(
        saga.created_at,
        What::SagaStarted,
        Tone::Plain,
        format!("{called} started, id {}", short(saga.saga_id.as_str())),
    ));
    for step in &saga.steps {
        if let Some((text, tone)) = step_told(step) {
            out.push(moment(step.updated_at, What::SagaStep, tone, text));
        }
    }
    let end = match saga.state {
        SagaState::Completed => Some(Tone::Good),
        SagaState::Compensated => Some(Tone::Warn),
        SagaState::CompensationFailed => Some(Tone::Bad),
        SagaState::Running | SagaState::Compensating | SagaState::Unreadable => None,
    };
    if let Some(tone) = end {
        let word = saga.state.word().replace('_', " ");
        out.push(moment(
            saga.updated_at,
            What::SagaEnded,
            tone,
            format!("{called} {word}"),
        ));
    }
}

/// What is known of a step: its last change.
fn step_told(step: &SagaStep) -> Option<(String, Tone)> {
    let side = step.side();
    let state = step.state(side);
    let tone = match state {
        StepState::Pending | StepState::Skipped => return None,
        StepState::Succeeded => Tone::Good,
        StepState::InFlight | StepState::Unknown => Tone::Warn,
        StepState::Failed => Tone::Bad,
    };
    let undoing = if side == Side::Compensation {
        " undone:"
    } else {
        ""
    };
    let error = step
        .last_error
        .as_ref()
        .filter(|_| state != StepState::Succeeded)
        .map_or_else(String::new, |error| format!(": {error}"));
    let text = format!(
        "step {} {}{undoing} {}, asked {}{error}",
        step.no,
        step.name,
        state.word().replace('_', " "),
        times(step.attempts.max(1))
    );
    Some((text, tone))
}
