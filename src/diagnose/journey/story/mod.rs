//! Facts in, a story out: moments in order, what is missing, what contradicts, and how far the clocks
//! may be trusted. Pure.
//!
//! Times are told on our clock: the skew of each database, as it was measured a moment ago, is
//! subtracted where it is more than the measurement can be off. An order that only holds because of
//! that is said to be so.

mod actions;
mod clocks;
mod conflicts;
mod gaps;
mod moments;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::model::ids::EventId;
use crate::observe::snapshot::Unread;

use super::facts::{EventFacts, Facts, Role, Subject};
use clocks::Clocks;

pub use clocks::{ClockNote, ClockShown};
pub use moments::brief;
#[cfg(test)]
pub(crate) use tests::example;

/// The lane of the broker.
pub const BROKER: &str = "broker";
/// The lane of people.
pub const OPERATOR: &str = "operator";

/// What happened at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A saga began.
    SagaStarted,
    /// An operator acted.
    Acted,
    /// A business transaction wrote the event.
    Committed,
    /// The broker has it, and the row is marked sent.
    Confirmed,
    /// It waits for an earlier version.
    Waiting,
    /// A consumer's transaction has it.
    Consumed,
    /// It became a dead letter, or died again.
    Died,
    /// An operator's message was confirmed.
    Published,
    /// How an action ended, where nothing else shows it.
    Outcome,
    /// A saga's step changed.
    SagaStep,
    /// A saga ended.
    SagaEnded,
    /// An audit entry that belongs to no other moment.
    Audit,
    /// How it stands now.
    Now,
}

/// How a moment is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// As it should be.
    Plain,
    /// What one hopes for.
    Good,
    /// Worth a look.
    Warn,
    /// Went wrong.
    Bad,
}

/// Where a moment or a finding can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// `outbox`, `inbox`, `dead_letters`, `operations`, `sagas` or `queues`.
    pub place: &'static str,
    /// Whose, where it is somebody's.
    pub service: Option<String>,
    /// The id there.
    pub id: String,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// On our clock.
    pub at: Timestamp,
    /// As it was recorded.
    pub recorded_at: Timestamp,
    /// Recorded in whole seconds.
    pub is_coarse: bool,
    /// What happened.
    pub what: What,
    /// Where.
    pub lane: String,
    /// Where it went from there.
    pub to: Option<String>,
    /// The event, if it is one's.
    pub event_id: Option<EventId>,
    /// One line.
    pub text: String,
    /// How it is to be read.
    pub tone: Tone,
    /// Numbers of the audit entries that tell of it.
    pub audit: Vec<i64>,
    /// Where it can be looked at.
    pub evidence: Option<Evidence>,
}

/// Something that is missing or contradicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// A stable word, e.g. `no_inbox_row`.
    pub kind: &'static str,
    /// The event.
    pub event_id: Option<EventId>,
    /// Service or consumer it is about.
    pub about: Option<String>,
    /// For how long, in seconds.
    pub age_s: Option<f64>,
    /// One line.
    pub text: String,
    /// Where it can be looked at.
    pub evidence: Option<Evidence>,
}

/// A repair as a link of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// What was repaired; `None`: its message carried no id.
    pub from: Option<EventId>,
    /// What replaced it.
    pub to: EventId,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, as it was recorded.
    pub at: Timestamp,
}

/// An event of the story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its id.
    pub event_id: Option<EventId>,
    /// Why it is here.
    pub role: Role,
    /// Its type.
    pub event_type: Option<String>,
    /// Its aggregate.
    pub aggregate_id: Option<String>,
    /// Its version.
    pub aggregate_version: Option<i64>,
    /// The service whose outbox has it.
    pub service: Option<String>,
    /// What caused it.
    pub causation_id: Option<String>,
}

/// The story.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// What it is about.
    pub subject: Subject,
    /// When it was read, on our clock.
    pub as_of: Timestamp,
    /// Its events.
    pub events: Vec<Head>,
    /// Repairs, oldest first.
    pub lineage: Vec<Link>,
    /// Lanes from left to right.
    pub lanes: Vec<String>,
    /// In order.
    pub moments: Vec<Moment>,
    /// What should be there and is not.
    pub gaps: Vec<Finding>,
    /// What contradicts.
    pub conflicts: Vec<Finding>,
    /// Clocks, and orders that hang on them.
    pub clocks: Vec<ClockNote>,
    /// Orders that only the skew of clocks explains, and those it cannot.
    pub order_notes: Vec<String>,
    /// What could not be read: nothing is known of it.
    #[serde(skip)]
    pub unread: Vec<Unread>,
    /// Limits that were hit, and what cannot be asked here.
    pub limits: Vec<String>,
}

impl Story {
    /// Tells the story of these facts.
    pub fn of(facts: &Facts) -> Self {
        let clocks = Clocks::new(facts);
        let mut moments = moments::moments(facts, &clocks);
        moments.extend(actions::moments(facts, &clocks));
        // What has the same time is told in the order it must have happened.
        moments.sort_by_key(|moment| (moment.at, moment.what));
        let mut order_notes = Vec::new();
        let mut conflicts = conflicts::conflicts(facts);
        let (explained, reversed) = conflicts::order(facts, &clocks);
        order_notes.extend(explained);
        conflicts.extend(reversed);
        let mut lineage: Vec<Link> = facts
            .repairs
            .iter()
            .map(|(_, link)| Link {
                from: link.original_event_id.clone(),
                to: link.new_event_id.clone(),
                actor: link.actor.clone(),
                reason: link.reason.clone(),
                at: link.created_at,
            })
            .collect();
        lineage.sort_by_key(|link| link.at);
        lineage.dedup();
        Self {
            subject: facts.subject.clone(),
            as_of: facts.now,
            events: facts.events.iter().map(head).collect(),
            lineage,
            lanes: lanes(facts, &moments),
            moments,
            gaps: gaps::gaps(facts, &clocks),
            conflicts,
            clocks: clocks.notes(facts),
            order_notes,
            unread: facts.unread.clone(),
            limits: facts.limits.clone(),
        }
    }
}

fn head(event: &EventFacts) -> Head {
    Head {
        event_id: event.event_id.clone(),
        role: event.role,
        event_type: event.event_type().map(str::to_owned),
        aggregate_id: event.aggregate_id().map(ToString::to_string),
        aggregate_version: event.version(),
        service: event.outbox.first().map(|(service, _)| service.clone()),
        causation_id: event.causation_id.clone(),
    }
}

/// Who wrote the subject first, then the broker, then the other services that have something to tell, then people.
fn lanes(facts: &Facts, moments: &[Moment]) -> Vec<String> {
    let is_used = |name: &str| {
        moments
            .iter()
            .any(|moment| moment.lane == name || moment.to.as_deref() == Some(name))
    };
    let origin = facts
        .events
        .iter()
        .filter(|event| event.role.is_told_in_full())
        .chain(&facts.events)
        .find_map(|event| event.outbox.first().map(|(service, _)| service.as_str()));
    let mut lanes: Vec<String> = Vec::new();
    let others = facts.services.iter().map(String::as_str);
    let all = origin.into_iter().chain([BROKER]).chain(others);
    for name in all.chain([OPERATOR]) {
        if is_used(name) && !lanes.iter().any(|lane| lane == name) {
            lanes.push(name.to_owned());
        }
    }
    lanes
}

/// An id for the eye: its beginning, and its end, which differs where beginnings are alike.
pub fn short(id: &str) -> String {
    let count = id.chars().count();
    if count <= 16 {
        return id.to_owned();
    }
    let start: String = id.chars().take(8).collect();
    let end: String = id.chars().skip(count - 4).collect();
    format!("{start}…{end}")
}

/// How an event is called in a line: by its type, and by the end of its id where several are told.
fn name(facts: &Facts, event: &EventFacts) -> String {
    let kind = event.event_type().unwrap_or("event");
    let told_in_full = facts.events.iter().filter(|e| e.role.is_told_in_full());
    let is_alone = told_in_full.count() < 2 || !event.role.is_told_in_full();
    match &event.event_id {
        Some(id) if !is_alone => {
            let count = id.as_str().chars().count();
            let end: String = id.as_str().chars().skip(count.saturating_sub(4)).collect();
            format!("{kind} …{end}")
        }
        _ => kind.to_owned(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "moments and findings hold an option: some have no place to look at"
)]
fn evidence(place: &'static str, service: &str, id: &str) -> Option<Evidence> {
    Some(Evidence {
        place,
        service: Some(service.to_owned()),
        id: id.to_owned(),
    })
}
