//! The events of a story: where they were written, what they caused, where they died.

use std::collections::HashSet;

use futures::future::join_all;

use crate::model::dead_letter::DeadLetter;
use crate::model::ids::{AggregateId, DeadLetterId, EventId, OperationId, SagaId};
use crate::model::operation::OperationItem;
use crate::store::trace::{TRAIL_MAX, TrailRow};

use super::super::facts::{EventFacts, Facts, Letter, OperationFacts, Role, Subject};
use super::{Gatherer, LETTERS_MAX, LINEAGE_MAX};

impl Gatherer<'_> {
    /// The first events, by what was asked for; aggregates that are known at once.
    pub(super) async fn seeds(&self, facts: &mut Facts) -> Vec<AggregateId> {
        match facts.subject.clone() {
            Subject::Event(id) => {
                self.add(facts, &id, Role::Subject);
                Vec::new()
            }
            Subject::DeadLetter(id) => {
                self.add_letter(facts, &id, Role::Subject).await;
                Vec::new()
            }
            Subject::Aggregate(id) => vec![id],
            Subject::Saga(id) => self.seeds_of_saga(facts, &id).await,
            Subject::Operation(id) => {
                self.seeds_of_operation(facts, &id).await;
                Vec::new()
            }
        }
    }

    /// A dead letter whose message carried no id.
    async fn add_letter(&self, facts: &mut Facts, id: &DeadLetterId, role: Role) {
        for (service, store) in self.services(|service| service.dead_letters.is_some()) {
            let read = self.ask(service, "dead letter", store.dead_letter(id));
            if let Some(Some(detail)) = read.await {
                let mut event = EventFacts::new(detail.letter.event_id.clone(), role);
                event.letters.push(letter_of(service, detail.letter));
                facts.events.push(event);
            }
        }
    }

    async fn seeds_of_saga(&self, facts: &mut Facts, id: &SagaId) -> Vec<AggregateId> {
        let mut aggregates = Vec::new();
        for (service, store) in self.services(|service| service.sagas.is_some()) {
            let read = self.ask(service, "saga", store.saga(id)).await;
            let Some(saga) = read.flatten() else { continue };
            for step in &saga.steps {
                if let Some(id) = &step.event_id {
                    self.add(facts, id, Role::Sequence);
                }
            }
            aggregates.push(AggregateId::new(saga.business_key.clone()));
            facts.sagas.push((service.to_owned(), saga));
        }
        aggregates
    }

    async fn seeds_of_operation(&self, facts: &mut Facts, id: &OperationId) {
        for (service, store) in self.services(|service| service.journal) {
            let read = self.ask(service, "operation", store.operation(id)).await;
            let Some(operation) = read.flatten() else {
                continue;
            };
            if operation.items.len() > LINEAGE_MAX {
                self.limit(format!(
                    "the operation has {} items: the first {LINEAGE_MAX} are shown",
                    operation.items.len()
                ));
            }
            let mut operation = operation;
            operation.items.truncate(LINEAGE_MAX);
            for item in &operation.items {
                self.seed_of_item(facts, item).await;
            }
            facts.operations.push(OperationFacts {
                service: service.to_owned(),
                operation,
                audit: Vec::new(),
            });
        }
    }

    async fn seed_of_item(&self, facts: &mut Facts, item: &OperationItem) {
        if let Some(id) = &item.event_id {
            self.add(facts, id, Role::Subject);
        } else if let Some(id) = &item.dead_letter_id {
            self.add_letter(facts, id, Role::Subject).await;
        }
        if let Some(id) = &item.new_event_id {
            self.add(facts, id, Role::Lineage);
        }
    }

    /// What the events that are told in full were repaired from and to, as far as chains go.
    pub(super) async fn lineage(&self, facts: &mut Facts) {
        let is_asked_for = |event: &EventFacts| {
            event.role.is_told_in_full()
                || event
                    .letters
                    .iter()
                    .any(|l| l.letter.operation_id.is_some())
        };
        let mut asked: HashSet<EventId> = HashSet::new();
        loop {
            let next = facts
                .events
                .iter()
                .filter(|event| is_asked_for(event))
                .filter_map(|event| event.event_id.clone())
                .find(|id| !asked.contains(id));
            let Some(id) = next else { return };
            if asked.len() == LINEAGE_MAX {
                self.limit(format!(
                    "the chain of repairs is longer than {LINEAGE_MAX} events: its ends are not shown"
                ));
                return;
            }
            let reads = self.services(|service| service.journal).into_iter().map(
                |(service, store)| async {
                    let read = self.ask(service, "repairs", store.repairs_of(&id)).await;
                    (service.to_owned(), read.unwrap_or_default())
                },
            );
            for (service, links) in join_all(reads).await {
                for link in links {
                    if let Some(original) = &link.original_event_id {
                        self.add(facts, original, Role::Lineage);
                    }
                    self.add(facts, &link.new_event_id, Role::Lineage);
                    let named = (service.clone(), link);
                    if !facts.repairs.contains(&named) {
                        facts.repairs.push(named);
                    }
                }
            }
            asked.insert(id);
        }
    }

    /// The outbox rows, with the digest of their payload, of events that are told in full or have none yet.
    pub(super) async fn originals(&self, facts: &mut Facts) {
        let is_asked_for = |event: &&mut EventFacts| {
            event.outbox.is_empty()
                || (event.role.is_told_in_full() && event.payload_sha256.is_none())
        };
        for event in facts.events.iter_mut().filter(is_asked_for) {
            let Some(id) = event.event_id.clone() else {
                continue;
            };
            let reads = self
                .services(|service| service.outbox.is_some())
                .into_iter()
                .map(|(service, store)| {
                    let id = id.clone();
                    async move {
                        let read = store.outbox_event(&id);
                        (service, self.ask(service, "outbox original", read).await)
                    }
                });
            for (service, found) in join_all(reads).await {
                let Some(found) = found.flatten() else {
                    continue;
                };
                event.payload_sha256 = Some(found.payload.sha256());
                if event.outbox.iter().any(|(of, _)| of == service) {
                    continue;
                }
                event.causation_id.clone_from(&found.causation_id);
                event.exchange.clone_from(&found.exchange);
                event.outbox.push((service.to_owned(), found.row));
                self.routing(event, service, found.routing_key.as_deref());
            }
        }
    }

    /// The dead letters of the events so far.
    pub(super) async fn letters(&self, facts: &mut Facts) {
        for event in &mut facts.events {
            let Some(id) = event.event_id.clone() else {
                continue;
            };
            let reads = self
                .services(|service| service.dead_letters.is_some())
                .into_iter()
                .map(|(service, store)| {
                    let id = id.clone();
                    async move {
                        let read = store.dead_letters_of_event(&id);
                        (service, self.ask(service, "dead letters", read).await)
                    }
                });
            for (service, letters) in join_all(reads).await {
                let letters = letters.unwrap_or_default().into_iter();
                let is_new: Vec<Letter> = letters
                    .filter(|letter| !has_letter(event, letter))
                    .map(|letter| letter_of(service, letter))
                    .collect();
                event.letters.extend(is_new);
            }
        }
    }

    /// The events of the aggregates: all of them when an aggregate or a saga was asked for, else what
    /// the events so far have caused.
    pub(super) async fn trails(&self, facts: &mut Facts, aggregates: &[AggregateId]) {
        let is_whole = matches!(facts.subject, Subject::Aggregate(_) | Subject::Saga(_));
        for aggregate in aggregates {
            let mut rows = self.trail_of(aggregate).await;
            loop {
                let known: HashSet<String> = facts
                    .events
                    .iter()
                    .filter_map(|event| event.event_id.as_ref().map(ToString::to_string))
                    .collect();
                let (now, later): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, row)| {
                    is_whole
                        || known.contains(row.row.event_id.as_str())
                        || row.causation_id.as_ref().is_some_and(|c| known.contains(c))
                });
                rows = later;
                if now.is_empty() {
                    break;
                }
                for (service, row) in now {
                    self.take_row(facts, &service, row, is_whole);
                }
            }
            self.letters_of(facts, aggregate, is_whole).await;
        }
    }

    async fn trail_of(&self, aggregate: &AggregateId) -> Vec<(String, TrailRow)> {
        let reads = self
            .services(|service| service.outbox.is_some())
            .into_iter()
            .map(|(service, store)| async move {
                (
                    service,
                    self.ask(service, "events", store.trail(aggregate)).await,
                )
            });
        let mut rows = Vec::new();
        for (service, trail) in join_all(reads).await {
            let Some(trail) = trail else { continue };
            if let Some(reason) = trail.not_answered {
                self.limit(format!("events of {aggregate} in {service}: {reason}"));
            }
            if trail.truncated {
                self.limit(format!(
                    "{service} has more than {TRAIL_MAX} events of {aggregate}: the newest are shown"
                ));
            }
            rows.extend(trail.rows.into_iter().map(|row| (service.to_owned(), row)));
        }
        rows
    }

    fn take_row(&self, facts: &mut Facts, service: &str, found: TrailRow, is_whole: bool) {
        let role = if is_whole {
            Role::Sequence
        } else {
            Role::Result
        };
        let id = found.row.event_id.clone();
        self.add(facts, &id, role);
        let event = facts
            .events
            .iter_mut()
            .find(|event| event.event_id.as_ref() == Some(&id));
        let Some(event) = event else { return };
        if event.outbox.iter().any(|(of, _)| of == service) {
            return;
        }
        event.causation_id = found.causation_id;
        event.exchange = found.exchange;
        event.outbox.push((service.to_owned(), found.row));
        self.routing(event, service, found.routing_key.as_deref());
    }

    async fn letters_of(&self, facts: &mut Facts, aggregate: &AggregateId, is_whole: bool) {
        let reads = self
            .services(|service| service.dead_letters.is_some())
            .into_iter()
            .map(|(service, store)| async move {
                let read = store.dead_letters_of_aggregate(aggregate);
                (
                    service,
                    self.ask(service, "dead letters of the aggregate", read)
                        .await,
                )
            });
        for (service, letters) in join_all(reads).await {
            for letter in letters.unwrap_or_default() {
                if is_whole && let Some(id) = &letter.event_id {
                    self.add(facts, id, Role::Sequence);
                }
                let event = facts.events.iter_mut().find(|event| {
                    letter.event_id.is_some()
                        && event.event_id == letter.event_id
                        && !has_letter(event, &letter)
                });
                match event {
                    Some(event) => event.letters.push(letter_of(service, letter)),
                    None if is_whole && letter.event_id.is_none() => {
                        let mut event = EventFacts::new(None, Role::Sequence);
                        event.letters.push(letter_of(service, letter));
                        facts.events.push(event);
                    }
                    None => {}
                }
            }
        }
    }

    /// Every death of the letters.
    pub(super) async fn deaths(&self, facts: &mut Facts) {
        let letters = facts.events.iter_mut().flat_map(|e| &mut e.letters);
        for (read, letter) in letters.enumerate() {
            if read == LETTERS_MAX {
                self.limit(format!(
                    "more than {LETTERS_MAX} dead letters: of the others only the last death is shown"
                ));
                return;
            }
            let Some(store) = self.store(&letter.service) else {
                continue;
            };
            let id = letter.letter.dead_letter_id.clone();
            let detail = self
                .ask(&letter.service, "deaths", store.dead_letter(&id))
                .await;
            if let Some(Some(detail)) = detail {
                letter.deaths = detail.deaths;
                letter.deaths.sort_by_key(|death| death.no);
                letter.letter = detail.letter;
            }
        }
    }
}

fn letter_of(service: &str, letter: DeadLetter) -> Letter {
    Letter {
        service: service.to_owned(),
        letter,
        deaths: Vec::new(),
    }
}

fn has_letter(event: &EventFacts, letter: &DeadLetter) -> bool {
    event
        .letters
        .iter()
        .any(|known| known.letter.dead_letter_id == letter.dead_letter_id)
}
