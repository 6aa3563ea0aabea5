//! What was seen in one look, and what a rule makes of it.

use crate::base::clock::Timestamp;
use crate::config::{Context, VerdictSettings};
use crate::model::outbox::OutboxCounts;
use crate::observe::snapshot::{
    CauseSnapshot, ConsumerFlow, FlowSnapshot, HealthSnapshot, PerService, QueueView,
};

use super::verdict::{About, Blind, Found};

/// Counts of an earlier look, for rules that need a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Before {
    /// When.
    pub at: Timestamp,
    /// Backlog of each consumer's queue.
    pub backlogs: Vec<Backlog>,
    /// Since when the oldest due event of each outbox is due, on the database's clock.
    pub due_since: Vec<(String, Timestamp)>,
}

/// What waited in a queue, and since when it has not become less.
#[derive(Clone, Debug, PartialEq)]
pub struct Backlog {
    /// Which.
    pub queue: String,
    /// Messages ready then.
    pub ready: u64,
    /// First look since which it has never been less.
    pub since: Timestamp,
}

impl Before {
    /// What a later look wants to compare with.
    pub fn of(at: Timestamp, flow: &FlowSnapshot, earlier: Option<&Self>) -> Self {
        let backlogs = flow.consumers.iter().filter_map(|consumer| {
            let ready = consumer.ready?;
            let stood = earlier.and_then(|earlier| earlier.stood_since(&consumer.queue, ready));
            Some(Backlog {
                queue: consumer.queue.clone(),
                ready,
                since: stood.unwrap_or(at),
            })
        });
        let outboxes = flow.outboxes.iter().filter_map(|part| {
            let since = due_since(part.value.as_ref()?)?;
            Some((part.service.clone(), since))
        });
        Self {
            at,
            backlogs: backlogs.collect(),
            due_since: outboxes.collect(),
        }
    }

    /// Since when the oldest due event of an outbox was due then.
    pub fn due_since(&self, service: &str) -> Option<Timestamp> {
        let mut outboxes = self.due_since.iter();
        let (_, since) = outboxes.find(|(of, _)| of == service)?;
        Some(*since)
    }

    /// Messages a second by which a queue that now holds `ready` has become less deep; `None` when it has not.
    pub fn shrinks_per_s(&self, queue: &str, ready: u64, now: Timestamp) -> Option<f64> {
        let mut backlogs = self.backlogs.iter();
        let backlog = backlogs.find(|backlog| backlog.queue == queue)?;
        let less = backlog.ready.checked_sub(ready).filter(|less| *less > 0)?;
        let seconds = now.seconds_since(self.at);
        #[expect(clippy::cast_precision_loss, reason = "a pace is an estimate")]
        let less = less as f64;
        (seconds > 0.0).then(|| less / seconds)
    }

    /// Since when a queue that now holds `ready` has not become less deep; `None` when it has since.
    pub fn stood_since(&self, queue: &str, ready: u64) -> Option<Timestamp> {
        let mut backlogs = self.backlogs.iter();
        let backlog = backlogs.find(|backlog| backlog.queue == queue)?;
        (backlog.ready > 0 && ready >= backlog.ready).then_some(backlog.since)
    }
}

/// Since when the oldest due event is due, on the database's clock.
pub fn due_since(counts: &OutboxCounts) -> Option<Timestamp> {
    let due = std::time::Duration::try_from_secs_f64(counts.oldest_due_s?).ok()?;
    Some(counts.database_now.minus(due))
}

/// Everything a rule may look at. `None`: it could not be read, or was not yet.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// The configuration.
    pub context: &'a Context,
    /// Our clock.
    pub at: Timestamp,
    /// Servers.
    pub health: Option<&'a HealthSnapshot>,
    /// Counts.
    pub flow: Option<&'a FlowSnapshot>,
    /// Causes.
    pub causes: Option<&'a CauseSnapshot>,
    /// An earlier look.
    pub before: Option<&'a Before>,
}

impl<'a> Sight<'a> {
    /// The limits in force.
    pub fn limits(&self) -> &'a VerdictSettings {
        &self.context.verdicts
    }

    /// The consumer of a queue, by the counts.
    pub fn consumer(&self, queue: &str) -> Option<&'a ConsumerFlow> {
        let mut consumers = self.flow?.consumers.iter();
        consumers.find(|consumer| consumer.queue == queue)
    }

    /// A queue, by the causes.
    pub fn queue(&self, name: &str) -> Option<&'a QueueView> {
        let mut queues = self.causes?.queues.queues.iter();
        queues.find(|queue| queue.facts.name == name)
    }

    /// Seconds the oldest due event of a service has been due; `None` when not known or nothing is due.
    pub fn oldest_due_s(&self, service: &str) -> Option<f64> {
        let mut outboxes = self.flow?.outboxes.iter();
        let part = outboxes.find(|part| part.service == service)?;
        part.value.as_ref()?.oldest_due_s
    }
}

/// What a rule makes of a sight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// What is wrong.
    pub found: Vec<Found>,
    /// What could not be seen.
    pub blind: Vec<Blind>,
}

impl Look {
    /// Something is wrong.
    pub fn found(&mut self, found: Found) {
        self.found.push(found);
    }

    /// Something could not be seen.
    pub fn blind(&mut self, about: About, reason: impl Into<String>) {
        self.blind.push(Blind {
            about,
            reason: reason.into(),
        });
    }

    /// The counts, or blindness for all.
    pub fn flow<'a>(&mut self, sight: &Sight<'a>) -> Option<&'a FlowSnapshot> {
        if sight.flow.is_none() {
            self.blind(About::All, "the counts could not be read");
        }
        sight.flow
    }

    /// The causes, or blindness for all.
    pub fn causes<'a>(&mut self, sight: &Sight<'a>) -> Option<&'a CauseSnapshot> {
        if sight.causes.is_none() {
            self.blind(About::All, "the causes could not be read");
        }
        sight.causes
    }

    /// The parts that were read; the others are what could not be seen.
    pub fn parts<'a, T>(&mut self, parts: &'a [PerService<T>]) -> Vec<(&'a str, &'a T)> {
        let mut out = Vec::new();
        for part in parts {
            if let Some(value) = &part.value {
                out.push((part.service.as_str(), value));
            } else {
                let unread = part.unread.as_ref();
                let reason = unread.map_or("not read", |unread| unread.reason.as_str());
                self.blind(About::Service(part.service.clone()), reason);
            }
        }
        out
    }

    /// The configured queues of a role, `work` or `dlq`. One that was not seen is not known to be well.
    pub fn queues<'a>(&mut self, sight: &Sight<'a>, role: &str) -> Vec<&'a QueueView> {
        let Some(causes) = self.causes(sight) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for service in &sight.context.services {
            let names: Vec<&String> = match role {
                "work" => service.inbox.iter().map(|inbox| &inbox.queue).collect(),
                _ => service
                    .dead_letters
                    .iter()
                    .flat_map(|part| &part.queues)
                    .collect(),
            };
            for name in names {
                if let Some(queue) = sight.queue(name) {
                    out.push(queue);
                } else {
                    let unread = causes.queues.unread.first();
                    let reason = unread.map_or("it was not listed", |unread| &unread.reason);
                    self.blind(
                        About::Queue(name.clone()),
                        format!("queue {name}: {reason}"),
                    );
                }
            }
        }
        out
    }
}
