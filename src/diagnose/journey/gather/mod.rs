//! Reads what a story needs: look-ups by key, each with a limit that is told when it is hit, all
//! through the observer's reader, so that a server that is down is not asked again at once.
//!
//! Order matters, because every step finds keys for the next: the subject's events, their lineage,
//! their rows and letters, the aggregates of those, what they caused, then what happened to each.

mod events;
mod links;
mod places;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;

use crate::base::clock::Timestamp;
use crate::config::Service;
use crate::model::ids::{AggregateId, EventId};
use crate::observe::Observer;
use crate::observe::snapshot::Unread;
use crate::store::{Store, StoreError, StoreResult};

use super::facts::{ClockFacts, ConsumerFacts, EventFacts, Facts, Role, Subject};

/// Events of a lineage and items of an operation that are told at most.
const LINEAGE_MAX: usize = 20;
/// Events of a story at most.
const EVENTS_MAX: usize = 60;
/// Dead letters whose deaths are read at most.
const LETTERS_MAX: usize = 20;
/// Operations at most.
const OPERATIONS_MAX: usize = 20;
/// Aggregates that are looked at, most of the time one.
const AGGREGATES_MAX: usize = 3;

/// Reads for one story.
pub(super) struct Gatherer<'a> {
    observer: &'a Observer,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    unread: Vec<Unread>,
    limits: Vec<String>,
}

impl<'a> Gatherer<'a> {
    pub(super) fn new(observer: &'a Observer) -> Self {
        Self {
            observer,
            told: Mutex::default(),
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        // Nothing that can panic runs while it is held.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something could not be read.
    fn unread(&self, unread: Unread) {
        let mut told = self.told();
        if !told.unread.contains(&unread) {
            told.unread.push(unread);
        }
    }

    /// Says that there is more than was read, or that something cannot be asked here.
    fn limit(&self, line: String) {
        let mut told = self.told();
        if !told.limits.contains(&line) {
            told.limits.push(line);
        }
    }

    /// What was not read so far.
    pub(super) fn into_told(self) -> (Vec<Unread>, Vec<String>) {
        let told = self
            .told
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        (told.unread, told.limits)
    }

    /// Reads; `None` when it could not be read, or cannot be asked here: either has been told.
    pub(super) async fn ask<T>(
        &self,
        service: &str,
        part: &'static str,
        work: impl Future<Output = StoreResult<T>> + Send,
    ) -> Option<T> {
        let work = async {
            match work.await {
                Err(StoreError::Unsupported { reason, .. }) => Ok(Err(reason)),
                other => other.map(Ok),
            }
        };
        match self.observer.reader().store(service, part, work).await {
            Ok(Ok(value)) => Some(value),
            Ok(Err(reason)) => {
                self.limit(format!("{part} of {service}: {reason}"));
                None
            }
            Err(unread) => {
                self.unread(unread);
                None
            }
        }
    }

    /// Every service that has what `with` asks for.
    pub(super) fn services(
        &self,
        with: impl Fn(&Service) -> bool,
    ) -> Vec<(&'a str, &'a Arc<dyn Store>)> {
        self.observer
            .ports()
            .iter()
            .filter(|(service, _)| with(service))
            .map(|(service, store)| (service.name.as_str(), store))
            .collect()
    }

    fn store(&self, service: &str) -> Option<&'a Arc<dyn Store>> {
        self.observer.ports().store(service)
    }

    /// Facts with nothing in them yet.
    fn empty(&self, subject: Subject) -> Facts {
        let ports = self.observer.ports();
        let services = &ports.context.services;
        let consumers = services.iter().filter_map(|service| {
            let inbox = service.inbox.as_ref()?;
            Some(ConsumerFacts {
                service: service.name.clone(),
                name: inbox.consumer.clone(),
                queue: inbox.queue.clone(),
                depth: None,
            })
        });
        Facts {
            subject,
            now: ports.clock.now(),
            services: services.iter().map(|s| s.name.clone()).collect(),
            consumers: consumers.collect(),
            clocks: Vec::new(),
            events: Vec::new(),
            repairs: Vec::new(),
            operations: Vec::new(),
            sagas: Vec::new(),
            unread: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// Everything about a subject.
    pub(super) async fn gather(self, subject: Subject) -> Facts {
        let mut facts = self.empty(subject);
        let clocks = self.clocks(&mut facts).await;
        let mut aggregates = self.seeds(&mut facts).await;
        self.lineage(&mut facts).await;
        self.originals(&mut facts).await;
        self.letters(&mut facts).await;
        aggregates.extend(
            facts
                .events
                .iter()
                .filter(|event| event.role.is_told_in_full())
                .filter_map(|event| event.aggregate_id().cloned()),
        );
        let aggregates = self.first_few(aggregates);
        self.trails(&mut facts, &aggregates).await;
        if matches!(facts.subject, Subject::Aggregate(_) | Subject::Saga(_)) {
            self.lineage(&mut facts).await;
            self.originals(&mut facts).await;
        }
        self.deaths(&mut facts).await;
        self.inboxes(&mut facts).await;
        self.operations(&mut facts, &clocks).await;
        self.sagas(&mut facts, &aggregates).await;
        self.routes(&mut facts).await;
        self.depths(&mut facts).await;
        let (unread, limits) = self.into_told();
        facts.unread = unread;
        facts.limits = limits;
        facts
    }

    fn first_few(&self, aggregates: Vec<AggregateId>) -> Vec<AggregateId> {
        let mut few: Vec<AggregateId> = Vec::new();
        for aggregate in aggregates {
            if few.contains(&aggregate) {
                continue;
            }
            if few.len() == AGGREGATES_MAX {
                self.limit(format!(
                    "more than {AGGREGATES_MAX} aggregates are touched: events of the others are not shown"
                ));
                break;
            }
            few.push(aggregate);
        }
        few
    }

    /// Asks every database for its clock; the clocks as they were.
    async fn clocks(&self, facts: &mut Facts) -> HashMap<String, Timestamp> {
        let probes = self
            .services(|_| true)
            .into_iter()
            .map(|(service, store)| async move {
                (service, self.ask(service, "clock", store.probe()).await)
            });
        let mut clocks = HashMap::new();
        for (service, probe) in join_all(probes).await {
            if let Some(probe) = &probe {
                clocks.insert(service.to_owned(), probe.database_now);
            }
            facts.clocks.push(ClockFacts {
                service: service.to_owned(),
                skew_us: probe.as_ref().map(|probe| probe.skew_us),
                round_trip_us: probe.as_ref().map(|probe| probe.latency_us),
            });
        }
        clocks
    }

    /// Adds an event, unless it is there already; a fuller role wins.
    fn add(&self, facts: &mut Facts, id: &EventId, role: Role) {
        let known = facts
            .events
            .iter_mut()
            .find(|event| event.event_id.as_ref() == Some(id));
        if let Some(event) = known {
            event.role = event.role.min(role);
        } else if facts.events.len() < EVENTS_MAX {
            facts.events.push(EventFacts::new(Some(id.clone()), role));
        } else {
            self.limit(format!(
                "more than {EVENTS_MAX} events: the others are not shown"
            ));
        }
    }
}
