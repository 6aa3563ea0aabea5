//! What workers counted, as their reports say it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::pipeline::{self, Report};

/// Counters by worker and service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals(BTreeMap<(String, String), BTreeMap<String, u64>>);

/// The answer of `redrive worker -o json`.
#[derive(Deserialize)]
pub(super) struct Envelope {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    worker: String,
    service: String,
    counts: Vec<(String, u64)>,
}

impl Totals {
    /// Adds a pass.
    pub fn add(&mut self, report: &Report) {
        let counts = self
            .0
            .entry((report.worker.clone(), report.service.clone()))
            .or_default();
        for (counter, n) in &report.counts {
            *counts.entry(counter.clone()).or_default() += n;
        }
    }

    /// Adds what others counted.
    pub fn merge(&mut self, other: &Self) {
        for (who, counts) in &other.0 {
            let own = self.0.entry(who.clone()).or_default();
            for (counter, n) in counts {
                *own.entry(counter.clone()).or_default() += n;
            }
        }
    }

    /// What a process answered.
    pub(super) fn of(envelope: Envelope) -> Self {
        let mut totals = Self::default();
        for item in envelope.items {
            totals.add(&Report {
                worker: item.worker,
                service: item.service,
                counts: item.counts,
                ..Report::default()
            });
        }
        totals
    }

    /// One counter; 0 when it was never counted.
    pub fn get(&self, worker: &str, service: &str, counter: &str) -> u64 {
        self.0
            .get(&(worker.to_owned(), service.to_owned()))
            .and_then(|counts| counts.get(counter))
            .copied()
            .unwrap_or_default()
    }

    /// A counter of a service's consumer.
    pub fn consumer(&self, service: &str, counter: &str) -> u64 {
        self.get(pipeline::consumer::NAME, service, counter)
    }

    /// A counter of a service's dispatcher.
    pub fn dispatcher(&self, service: &str, counter: &str) -> u64 {
        self.get(pipeline::dispatcher::NAME, service, counter)
    }

    /// Deliveries that came to an end, by service.
    pub fn deliveries(&self) -> impl Iterator<Item = (String, u64)> {
        self.0
            .iter()
            .filter(|((worker, _), _)| worker == pipeline::consumer::NAME)
            .map(|((_, service), counts)| {
                let ends = ["done", "rejected", "stale", "parked", "duplicates", "dead"];
                let n = ends.iter().filter_map(|end| counts.get(*end)).sum();
                (service.clone(), n)
            })
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .filter(|(_, counts)| !counts.is_empty())
            .map(|((worker, service), counts)| {
                let counts: Vec<String> = counts
                    .iter()
                    .map(|(counter, n)| format!("{n} {counter}"))
                    .collect();
                format!("{service} {worker} {}", counts.join(" "))
            })
            .collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}
