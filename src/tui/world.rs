//! What every pane may read: the latest readings, the clock, the context, whether writing is
//! possible. Only `update` changes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::config::Context;
use crate::diagnose::{Pace, Patience, Sight, Verdict, Watch};
use crate::model::scan::Scan;
use crate::observe::snapshot::{
    AuditSnapshot, CauseSnapshot, DeadLetterSnapshot, DeadLetterView, FlowSnapshot, HealthSnapshot,
    LeaseSnapshot, OperationSnapshot, OutboxSnapshot, PerService, QueueSnapshot, Reading,
    SagaSnapshot, ScanSnapshot, Unread,
};
use crate::operate::plan::Access;
use crate::pipeline::Report;
use crate::reconcile;

use super::pane::drills::DrillRow;
use super::pane::scans::{self, ScanRow};
use super::theme::Theme;

/// The latest reading of every feed.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Servers.
    pub health: Reading<HealthSnapshot>,
    /// Numbers at every hop.
    pub flow: Reading<FlowSnapshot>,
    /// What explains them.
    pub causes: Reading<CauseSnapshot>,
    /// Outboxes.
    pub outbox: Reading<OutboxSnapshot>,
    /// Leases.
    pub leases: Reading<LeaseSnapshot>,
    /// Queues.
    pub queues: Reading<QueueSnapshot>,
    /// Dead letters.
    pub dead_letters: Reading<DeadLetterSnapshot>,
    /// The open dead letter.
    pub dead_letter: Reading<Option<DeadLetterView>>,
    /// Sagas.
    pub sagas: Reading<SagaSnapshot>,
    /// Scans and findings.
    pub scans: Reading<ScanSnapshot>,
    /// Operations.
    pub operations: Reading<OperationSnapshot>,
    /// Audit entries.
    pub audit: Reading<AuditSnapshot>,
}

/// A feed's new reading.
#[derive(Clone, Debug)]
pub enum Fresh {
    /// Servers.
    Health(Reading<HealthSnapshot>),
    /// Numbers at every hop.
    Flow(Reading<FlowSnapshot>),
    /// What explains them.
    Causes(Reading<CauseSnapshot>),
    /// Outboxes.
    Outbox(Reading<OutboxSnapshot>),
    /// Leases.
    Leases(Reading<LeaseSnapshot>),
    /// Queues.
    Queues(Reading<QueueSnapshot>),
    /// Dead letters.
    DeadLetters(Reading<DeadLetterSnapshot>),
    /// The open dead letter.
    DeadLetter(Reading<Option<DeadLetterView>>),
    /// Sagas.
    Sagas(Reading<SagaSnapshot>),
    /// Scans and findings.
    Scans(Reading<ScanSnapshot>),
    /// Operations.
    Operations(Reading<OperationSnapshot>),
    /// Audit entries.
    Audit(Reading<AuditSnapshot>),
}

/// How a feed stands, without its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// When the value shown was read.
    pub read_at: Option<Timestamp>,
    /// What is wrong since.
    pub problem: Option<String>,
    /// True while a first value is awaited.
    pub is_waiting: bool,
    /// Parts that could not be read.
    pub unread: Vec<Unread>,
    /// The generation of the question the value answers.
    pub generation: u64,
}

/// A reading's value, if nothing has gone wrong since.
fn current<T>(reading: &Reading<T>) -> Option<&T> {
    let value = reading.value.as_deref();
    value.filter(|_| reading.problem.is_none())
}

fn standing<T>(reading: &Reading<T>, unread: impl Fn(&T) -> Vec<Unread>) -> Standing {
    Standing {
        read_at: reading.read_at,
        problem: reading.problem.clone(),
        is_waiting: reading.value.is_none() && reading.problem.is_none(),
        unread: reading.value.as_deref().map(unread).unwrap_or_default(),
        generation: reading.generation,
    }
}

fn of_services<T>(services: &[PerService<T>]) -> Vec<Unread> {
    services
        .iter()
        .filter_map(|service| service.unread.clone())
        .collect()
}

impl Readings {
    /// Takes a new reading.
    pub fn take(&mut self, fresh: Fresh) {
        match fresh {
            Fresh::Health(reading) => self.health = reading,
            Fresh::Flow(reading) => self.flow = reading,
            Fresh::Causes(reading) => self.causes = reading,
            Fresh::Outbox(reading) => self.outbox = reading,
            Fresh::Leases(reading) => self.leases = reading,
            Fresh::Queues(reading) => self.queues = reading,
            Fresh::DeadLetters(reading) => self.dead_letters = reading,
            Fresh::DeadLetter(reading) => self.dead_letter = reading,
            Fresh::Sagas(reading) => self.sagas = reading,
            Fresh::Scans(reading) => self.scans = reading,
            Fresh::Operations(reading) => self.operations = reading,
            Fresh::Audit(reading) => self.audit = reading,
        }
    }

    /// How the feed called `name` stands.
    pub fn standing(&self, name: &str) -> Standing {
        match name {
            "health" => standing(&self.health, |_| Vec::new()),
            "flow" => standing(&self.flow, |flow| flow.unread.clone()),
            "causes" => standing(&self.causes, CauseSnapshot::unread),
            "outbox" => standing(&self.outbox, |value| of_services(&value.services)),
            "leases" => standing(&self.leases, |value| of_services(&value.services)),
            "queues" => standing(&self.queues, |value| value.unread.clone()),
            "dead_letters" => standing(&self.dead_letters, |value| of_services(&value.services)),
            "dead_letter" => standing(&self.dead_letter, |value| {
                value
                    .as_ref()
                    .map(|view| view.unread.clone())
                    .unwrap_or_default()
            }),
            "sagas" => standing(&self.sagas, |value| of_services(&value.services)),
            "scans" => standing(&self.scans, |value| value.unread.clone()),
            "operations" => standing(&self.operations, |value| of_services(&value.services)),
            "audit" => standing(&self.audit, |value| of_services(&value.services)),
            _ => Standing::default(),
        }
    }
}

/// What every pane may read.
#[derive(Clone, Debug)]
pub struct World {
    /// Our clock, as of the event being handled.
    pub now: Timestamp,
    /// The context looked at.
    pub context: Arc<Context>,
    /// Whether writing is possible.
    pub access: Access,
    /// Latest readings.
    pub readings: Readings,
    /// Reports of workers that run in this process (demo).
    pub workers: Vec<Report>,
    /// Every rule, each with its findings.
    pub scans: Vec<ScanRow>,
    /// The rule that is run from here.
    pub scanning: Option<Scan>,
    /// Every drill, and how it ended when it was run from here.
    pub drills: Vec<DrillRow>,
    /// Since when reading is paused.
    pub paused_at: Option<Timestamp>,
    /// Looks.
    pub theme: Theme,
    /// What is said to be wrong, the worst first.
    pub verdicts: Vec<Verdict>,
    watch: Watch,
    /// The readings of the last look of each pace, so that none counts twice.
    looked_at: [Option<Timestamp>; 2],
    /// Since when each unread part is unread: `feed/part`, or `feed/` for the feed as a whole.
    since: BTreeMap<String, Timestamp>,
    /// The generation of the last question for another page, by feed.
    asked: BTreeMap<&'static str, u64>,
}

impl World {
    /// A world in which nothing was read yet.
    pub fn new(context: Arc<Context>, now: Timestamp, access: Access, theme: Theme) -> Self {
        Self {
            now,
            context,
            access,
            readings: Readings::default(),
            workers: Vec::new(),
            scans: Vec::new(),
            scanning: None,
            drills: super::pane::drills::rows(),
            paused_at: None,
            theme,
            verdicts: Vec::new(),
            watch: Watch::default(),
            looked_at: [None; 2],
            since: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Takes a new reading and remembers since when its parts are unread.
    pub fn take(&mut self, fresh: Fresh) {
        let feed = match &fresh {
            Fresh::Health(_) => "health",
            Fresh::Flow(_) => "flow",
            Fresh::Causes(_) => "causes",
            Fresh::Outbox(_) => "outbox",
            Fresh::Leases(_) => "leases",
            Fresh::Queues(_) => "queues",
            Fresh::DeadLetters(_) => "dead_letters",
            Fresh::DeadLetter(_) => "dead_letter",
            Fresh::Sagas(_) => "sagas",
            Fresh::Scans(_) => "scans",
            Fresh::Operations(_) => "operations",
            Fresh::Audit(_) => "audit",
        };
        self.readings.take(fresh);
        match feed {
            "flow" => self.look(Pace::Counts),
            "causes" => self.look(Pace::Causes),
            "scans" => self.lay_out_scans(),
            _ => {}
        }
        let standing = self.readings.standing(feed);
        let whole = format!("{feed}/");
        let mut now_unread: Vec<String> = standing
            .unread
            .iter()
            .map(|unread| format!("{whole}{}", unread.what))
            .collect();
        if standing.problem.is_some() {
            now_unread.push(whole.clone());
        }
        let before: BTreeMap<String, Timestamp> = self
            .since
            .extract_if(whole.clone().., |key, _| key.starts_with(&whole))
            .collect();
        // A failure that changes its form is still the same trouble: its first time stays. A part that
        // fails beside others that failed before is a new one.
        let is_new_form = !now_unread.iter().any(|key| before.contains_key(key));
        let inherited = before
            .get(&whole)
            .or_else(|| before.values().min().filter(|_| is_new_form))
            .copied();
        for key in now_unread {
            let since = before.get(&key).copied().or(inherited).unwrap_or(self.now);
            self.since.insert(key, since);
        }
    }

    /// Looks at what was read with the rules of one pace. What could not be read now was not seen,
    /// however good the last value is.
    fn look(&mut self, pace: Pace) {
        let readings = &self.readings;
        let (read_at, is_current) = match pace {
            Pace::Counts => (readings.flow.read_at, readings.flow.problem.is_none()),
            Pace::Causes => (readings.causes.read_at, readings.causes.problem.is_none()),
        };
        let Some(last) = self.looked_at.get_mut(pace as usize) else {
            return;
        };
        if is_current && *last == read_at {
            return;
        }
        *last = read_at;
        let context = Arc::clone(&self.context);
        let sight = Sight {
            context: &context,
            at: read_at.filter(|_| is_current).unwrap_or(self.now),
            health: current(&readings.health),
            flow: current(&readings.flow),
            causes: current(&readings.causes),
            before: None,
        };
        let patience = Patience::from(&context.verdicts);
        self.watch.look(&sight, pace, patience);
        self.verdicts = self.watch.verdicts();
    }

    /// True once what is wrong would be said. Before, that nothing is said means nothing.
    pub fn has_looked(&self) -> bool {
        self.watch
            .has_looked(Patience::from(&self.context.verdicts))
    }

    /// Lays rules and findings out anew: something of them has changed.
    pub fn lay_out_scans(&mut self) {
        let rules = reconcile::rules_of(&self.context);
        let kept = self.readings.scans.value.as_deref();
        self.scans = scans::rows(&rules, kept, self.scanning.as_ref());
    }

    /// Remembers that another page was asked for: older answers are not shown under its heading.
    pub fn ask(&mut self, feed: &'static str, generation: u64) {
        self.asked.insert(feed, generation);
    }

    /// True while the answer to the last question has not come.
    pub fn is_behind(&self, feed: &str) -> bool {
        self.asked
            .get(feed)
            .is_some_and(|asked| self.readings.standing(feed).generation < *asked)
    }

    /// Seconds since `at`. While paused, as of the pause: a standing screen stands still.
    pub fn age_s(&self, at: Timestamp) -> f64 {
        self.paused_at
            .unwrap_or(self.now)
            .seconds_since(at)
            .max(0.0)
    }

    /// `2m`, the age of an instant.
    pub fn age(&self, at: Timestamp) -> String {
        human::age(self.age_s(at))
    }

    /// [`World::age`], or `?`.
    pub fn age_or(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "?".to_owned(), |at| self.age(at))
    }

    /// True when a feed's value is older than it may be.
    pub fn is_stale(&self, standing: &Standing) -> bool {
        standing
            .read_at
            .is_some_and(|at| self.age_s(at) > self.context.thresholds.stale_after.as_secs_f64())
    }

    /// Sentences on what a feed could not read, for the top of a pane.
    pub fn problems(&self, feed: &str) -> Vec<String> {
        let standing = self.readings.standing(feed);
        let shown = match standing.read_at {
            Some(at) if standing.problem.is_some() => {
                format!("; showing data {} old", self.age(at))
            }
            Some(_) => String::new(),
            None => "; nothing was read yet".to_owned(),
        };
        let since = |what: &str| {
            self.since
                .get(&format!("{feed}/{what}"))
                .map_or_else(String::new, |at| format!(" since {}", at.to_clock()))
        };
        let mut out = Vec::new();
        if let Some(problem) = &standing.problem {
            out.push(format!("{problem}{}{shown}", since("")));
        }
        for unread in &standing.unread {
            out.push(format!(
                "{}: {}{}",
                unread.what,
                unread.reason,
                since(&unread.what)
            ));
        }
        if standing.problem.is_none()
            && self.paused_at.is_none()
            && self.is_stale(&standing)
            && let Some(at) = standing.read_at
        {
            out.push(format!(
                "no answer for {}: the data is that old",
                self.age(at)
            ));
        }
        out
    }

    /// Whether an acting key does anything but explain itself.
    pub fn is_writable(&self) -> bool {
        match self.access {
            Access::Writable => true,
            Access::Unlocked { until } => until > self.now,
            Access::ReadOnly | Access::Locked => false,
        }
    }

    /// Time left of an unlock.
    pub fn unlocked_for(&self) -> Option<Duration> {
        match self.access {
            Access::Unlocked { until } => {
                let left = until.micros_since(self.now);
                u64::try_from(left).ok().map(Duration::from_micros)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;
    use crate::tui::test_support::{context, now, outbox, theme, unread};

    const FEED: &str = "outbox";

    /// A reading of the outboxes: of those services that failed, or with no value at all.
    fn failing(services: &[&str], problem: Option<&str>) -> Fresh {
        let Fresh::Outbox(mut reading) = outbox(1) else {
            unreachable!("outbox() reads outboxes");
        };
        let mut value = reading.value.as_deref().cloned().unwrap_or_default();
        value
            .services
            .extend(services.iter().map(|service| unread(service, FEED)));
        reading.value = problem.is_none().then(|| value.into());
        reading.problem = problem.map(str::to_owned);
        Fresh::Outbox(reading)
    }

    #[test]
    fn a_trouble_that_changes_its_form_keeps_its_first_time() {
        let mut world = World::new(
            context(Environment::Staging),
            now(),
            crate::operate::plan::Access::Writable,
            theme(),
        );
        let mut take = |minutes: u64, fresh: Fresh| {
            world.now = now().plus(Duration::from_mins(minutes));
            let Fresh::Outbox(reading) = fresh else {
                unreachable!("only outboxes are read here");
            };
            world.take(Fresh::Outbox(Reading {
                read_at: Some(world.now),
                ..reading
            }));
            world.problems(FEED).join(" | ")
        };
        let first = now().to_clock();
        let at = |minutes| now().plus(Duration::from_mins(minutes)).to_clock();
        let says = |text: &str, part: &str, since: &str| {
            assert!(
                text.split(" | ")
                    .any(|line| line.contains(part) && line.contains(&format!("since {since}"))),
                "{part} since {since}: {text}"
            );
        };

        // The same words, other words, a part of it instead of the whole, another part instead: one
        // trouble.
        says(
            &take(0, failing(&[], Some("connection refused"))),
            "refused",
            &first,
        );
        says(
            &take(1, failing(&[], Some("timed out"))),
            "timed out",
            &first,
        );
        says(
            &take(2, failing(&["orders"], None)),
            "outbox of orders",
            &first,
        );
        says(
            &take(3, failing(&["inventory"], None)),
            "outbox of inventory",
            &first,
        );
        // A part that fails beside it is a new one.
        let text = take(4, failing(&["inventory", "orders"], None));
        says(&text, "outbox of inventory", &first);
        says(&text, "outbox of orders", &at(4));
        // And the whole is as old as the oldest of its parts.
        says(
            &take(5, failing(&[], Some("timed out"))),
            "timed out",
            &first,
        );
        // Once all was well, it is a new trouble.
        assert_eq!(take(6, failing(&[], None)), "");
        says(
            &take(7, failing(&["orders"], None)),
            "outbox of orders",
            &at(7),
        );
    }
}
