//! What people did: operations with their items and audit entries. Intent, outcome and their audit
//! entries are one story, so they are one or two lines.

use crate::base::clock::Timestamp;
use crate::model::ids::DeadLetterId;
use crate::model::operation::{ItemState, OperationItem, Verb};

use super::super::facts::{Facts, OperationFacts};
use super::clocks::Clocks;
use super::{BROKER, Moment, OPERATOR, Tone, What, evidence, short};

/// Every moment a person made.
pub fn moments(facts: &Facts, clocks: &Clocks) -> Vec<Moment> {
    let mut out = Vec::new();
    let mut ordered: Vec<&OperationFacts> = facts.operations.iter().collect();
    ordered.sort_by_key(|of| of.operation.created_at);
    let mut replays: Vec<(Option<DeadLetterId>, usize)> = Vec::new();
    for of in ordered {
        let teller = Teller { facts, clocks, of };
        let mut number = None;
        if of.operation.verb == Verb::Replay {
            let key = of
                .items()
                .first()
                .and_then(|item| item.dead_letter_id.clone());
            if let Some((_, count)) = replays.iter_mut().find(|(letter, _)| *letter == key) {
                *count += 1;
                number = Some(*count);
            } else {
                replays.push((key, 1));
                number = Some(1);
            }
        }
        teller.tell(number, &mut out);
    }
    out
}

/// When something was done, on our clock. One transaction writes the event of a repair and then its record,
/// each with the time of its statement: the act comes before both.
pub(super) fn acted_at(facts: &Facts, clocks: &Clocks, of: &OperationFacts) -> Timestamp {
    let recorded = clocks.here(&of.service, of.operation.created_at);
    let written = || {
        let new = of.items().first()?.new_event_id.as_ref()?;
        let mut events = facts.events.iter();
        let event = events.find(|event| event.event_id.as_ref() == Some(new))?;
        let (service, row) = event.outbox.first()?;
        Some(clocks.here(service, row.created_at?))
    };
    written().map_or(recorded, |at| at.min(recorded))
}

struct Teller<'a> {
    facts: &'a Facts,
    clocks: &'a Clocks,
    of: &'a OperationFacts,
}

impl Teller<'_> {
    fn moment(&self, what: What, at: Timestamp, tone: Tone, text: String) -> Moment {
        let operation = &self.of.operation;
        let event_id = self
            .of
            .items()
            .first()
            .and_then(|item| item.event_id.clone());
        Moment {
            at: self.clocks.here(&self.of.service, at),
            recorded_at: at,
            is_coarse: false,
            what,
            lane: OPERATOR.to_owned(),
            to: None,
            event_id,
            text,
            tone,
            audit: Vec::new(),
            evidence: evidence(
                "operations",
                &self.of.service,
                operation.operation_id.as_str(),
            ),
        }
    }

    fn tell(&self, number: Option<usize>, out: &mut Vec<Moment>) {
        let operation = &self.of.operation;
        let verb = operation.verb.command();
        let no = number.map_or_else(String::new, |n| format!(" {n}"));
        let ended = ending(self.of.items());
        let (ending, tone) = ended.unwrap_or((String::new(), Tone::Plain));
        let (own, apart): (Vec<_>, Vec<_>) =
            self.of.audit.iter().partition(|entry| {
                matches!(entry.record.phase.as_str(), "intent" | "outcome" | "")
            });
        let audit: Vec<i64> = own.iter().map(|entry| entry.seq).collect();
        let mut acted = self.moment(
            What::Acted,
            operation.created_at,
            tone,
            format!(
                "{verb}{no} by {}{ending}{}: {}",
                operation.actor,
                entries(&audit),
                operation.reason
            ),
        );
        acted.audit = audit;
        if operation.verb == Verb::Repair {
            acted.to = Some(self.of.service.clone());
            acted.at = acted_at(self.facts, self.clocks, self.of);
        }
        out.push(acted);
        for item in self.of.items() {
            self.item(number, item, out);
        }
        for entry in apart {
            let record = &entry.record;
            let mut moment = self.moment(
                What::Audit,
                entry.at,
                if record.phase == "refused" {
                    Tone::Warn
                } else {
                    Tone::Plain
                },
                format!(
                    "{} {} by {}{}",
                    record.action,
                    record.phase,
                    record.actor,
                    entries(&[entry.seq])
                ),
            );
            moment.audit.push(entry.seq);
            out.push(moment);
        }
    }

    /// What an item's own times tell: the confirm, and an end that no inbox row and no death shows.
    fn item(&self, number: Option<usize>, item: &OperationItem, out: &mut Vec<Moment>) {
        let verb = self.of.operation.verb.command();
        let no = number.map_or_else(String::new, |n| format!(" {n}"));
        if let Some(at) = item.published_at {
            let target = item
                .consumer
                .as_ref()
                .map_or_else(String::new, |consumer| format!(", for {consumer}"));
            let mut moment = self.moment(
                What::Published,
                at,
                Tone::Plain,
                format!("{verb}{no} published{target}, confirmed by the broker"),
            );
            moment.to = Some(BROKER.to_owned());
            moment.event_id.clone_from(&item.event_id);
            out.push(moment);
        }
        let tone = match item.state {
            ItemState::Unroutable | ItemState::Refused => Tone::Bad,
            ItemState::Unknown => Tone::Warn,
            ItemState::Reserved
            | ItemState::Publishing
            | ItemState::Published
            | ItemState::Consumed
            | ItemState::DiedAgain
            | ItemState::Applied => return,
        };
        let why = item
            .evidence
            .as_ref()
            .map_or_else(String::new, |evidence| format!(": {evidence}"));
        let mut moment = self.moment(
            What::Outcome,
            item.updated_at,
            tone,
            format!("{verb}{no} ended {}{why}", item.state.word()),
        );
        moment.event_id.clone_from(&item.event_id);
        out.push(moment);
    }
}

/// ` [audit 3, 4]`: the first and the last of them.
fn entries(audit: &[i64]) -> String {
    match audit {
        [] => String::new(),
        [only] => format!(" [audit {only}]"),
        [first, .., last] => format!(" [audit {first}, {last}]"),
    }
}

/// How it ended, for the line that says it was begun.
fn ending(items: &[OperationItem]) -> Option<(String, Tone)> {
    let item = items.first()?;
    Some(match (item.state, &item.new_event_id) {
        (ItemState::Applied, Some(new)) => {
            (format!(" → event {}", short(new.as_str())), Tone::Plain)
        }
        (ItemState::Applied, None) => (String::new(), Tone::Plain),
        (ItemState::Consumed, _) => (" → consumed".to_owned(), Tone::Good),
        (ItemState::DiedAgain, _) => (" → died again".to_owned(), Tone::Bad),
        (ItemState::Unroutable | ItemState::Refused, _) => {
            (format!(" → {}", item.state.word()), Tone::Bad)
        }
        (
            ItemState::Unknown | ItemState::Reserved | ItemState::Publishing | ItemState::Published,
            _,
        ) => (format!(" → {} yet", item.state.word()), Tone::Warn),
    })
}
