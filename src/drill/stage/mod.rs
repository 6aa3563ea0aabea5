//! Where a drill plays: the context's databases and broker, workers that can be killed, the drill's
//! own orders, and what was found. A drill says what happens; how it is done in processes of their
//! own (`real`) or inside this one (`embedded`) is here.

mod actor;
pub mod child;
pub mod config;
mod end;
mod lines;
mod messages;
mod task;
mod totals;
mod wait;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use actor::{Actor, Fault, Role};
pub use end::Findings;
pub use lines::Lines;
pub use messages::Taken;
pub use totals::Totals;
pub use wait::until;

use super::order::{self, Placed};
use super::record::{self, Facts, Record, len};
use super::trouble::Trouble;
use super::verdict::{Check, Step};
use super::{Bench, Where};
use crate::base::tasks::Tasks;
use crate::broker::Broker;
use crate::ports::Ports;
use crate::store::Value;

/// How long a fact may take that needs no waiting for a lease.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long recovery may take: a lease, a backoff, and room for a busy machine.
const RECOVERY: Duration = Duration::from_secs(30);
/// The same where a test has taken a guard away: longer than a lease, or recovery could not be seen.
const WITHOUT_A_GUARD: Duration = Duration::from_secs(10);
/// Pieces of the drill's sku.
pub const ON_HAND: i64 = 1_000_000;

/// The stage of one drill.
pub struct Stage<'a> {
    /// The context, connected past the proxies.
    pub ports: &'a Ports,
    bench: &'a Bench,
    lines: Option<Lines>,
    tasks: Tasks,
    numbers: Range<i64>,
    sku: String,
    placed: Vec<Placed>,
    actors: u32,
    deliveries: BTreeMap<String, u64>,
    began: Instant,
    fault_over: Option<Instant>,
    rto: Option<Duration>,
    steps: Vec<Step>,
    checks: Vec<Check>,
    before: Option<Record>,
    moved: Option<Arc<dyn Broker>>,
    dead_letters: u64,
    alerts_before: u64,
}

impl<'a> Stage<'a> {
    /// A stage with numbers and stock of its own.
    ///
    /// # Errors
    /// When a server did not answer.
    pub async fn open(bench: &'a Bench) -> Result<Self, Trouble> {
        let tasks = Tasks::new();
        let numbers = order::numbers(&bench.ports);
        let sku = format!("SKU-DRILL-{}", numbers.start);
        let lines = match bench.place {
            Where::Real => Some(Lines::open(bench, &tasks).await?),
            Where::Embedded => None,
        };
        order::stock(&bench.ports, &sku, ON_HAND).await?;
        let mut stage = Self {
            ports: &bench.ports,
            bench,
            lines,
            tasks,
            numbers,
            sku,
            placed: Vec::new(),
            actors: 0,
            deliveries: BTreeMap::new(),
            began: Instant::now(),
            fault_over: None,
            rto: None,
            steps: Vec::new(),
            checks: Vec::new(),
            before: None,
            moved: None,
            dead_letters: 0,
            alerts_before: 0,
        };
        stage.alerts_before = stage.alerts();
        Ok(stage)
    }

    /// True when workers are processes of their own.
    pub const fn is_real(&self) -> bool {
        matches!(self.bench.place, Where::Real)
    }

    /// How long a fact may take that needs no waiting for a lease. Short when a guard was taken away:
    /// the damage is already done then.
    pub fn patience(&self) -> Duration {
        self.bounded(PATIENCE)
    }

    fn recovery(&self) -> Duration {
        self.bounded(RECOVERY)
    }

    fn bounded(&self, patience: Duration) -> Duration {
        if self.bench.guards_off.is_empty() {
            patience
        } else {
            patience.min(WITHOUT_A_GUARD)
        }
    }

    /// The bench it stands on.
    pub const fn bench(&self) -> &Bench {
        self.bench
    }

    /// The proxies between the workers and their servers.
    ///
    /// # Errors
    /// When this is the embedded pipeline: nothing to cut there.
    pub fn lines(&self) -> Result<&Lines, Trouble> {
        self.lines.as_ref().ok_or_else(|| {
            Trouble::NotConfigured("the embedded pipeline has no connections to cut".to_owned())
        })
    }

    /// The broker as the drill itself sees it, past the proxies.
    ///
    /// # Errors
    /// When the context has none.
    pub fn broker(&self) -> Result<&Arc<dyn Broker>, Trouble> {
        match &self.moved {
            Some(broker) => Ok(broker),
            None => self.bench.broker(),
        }
    }

    /// Goes on at another node of the broker, the drill and its processes alike.
    ///
    /// # Errors
    /// When the URL cannot be used.
    pub async fn move_to(&mut self, url: &str) -> Result<(), Trouble> {
        self.lines()?.move_broker(url).await?;
        self.moved = Some(self.bench.broker_at(url)?);
        Ok(())
    }

    /// Alerts about deaths so far.
    pub fn alerts(&self) -> u64 {
        let path = match &self.lines {
            Some(lines) => Some(lines.alerts()),
            None => self.bench.alerts.clone(),
        };
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        len(text.unwrap_or_default().lines().count()).saturating_sub(self.alerts_before)
    }

    /// Seconds from the fault's end to recovery, once it has recovered.
    pub const fn rto(&self) -> Option<Duration> {
        self.rto
    }

    /// So many dead letters are what must come of it.
    pub fn expects_dead_letters(&mut self, n: u64) {
        self.dead_letters = n;
    }

    /// Writes down a step.
    pub fn step(&mut self, what: impl Into<String>) {
        let what = what.into();
        tracing::info!(step = what, "drill");
        self.steps.push(Step {
            at_s: self.began.elapsed().as_secs_f64(),
            what,
        });
    }

    /// Writes down a claim.
    pub fn check(&mut self, check: Check) {
        self.checks.push(check);
    }

    // ---- orders --------------------------------------------------------------------------------

    /// The drill's numbers.
    pub const fn numbers(&self) -> &Range<i64> {
        &self.numbers
    }

    /// The drill's aggregate ids, from and to, as statements bind them.
    pub fn keys(&self) -> [Value; 2] {
        [
            Value::Text(self.numbers.start.to_string()),
            Value::Text(self.numbers.end.to_string()),
        ]
    }

    /// The drill's sku.
    pub fn sku(&self) -> &str {
        &self.sku
    }

    /// Committed orders.
    pub fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// The number of the next order.
    pub fn next_number(&self) -> i64 {
        let placed = i64::try_from(self.placed.len()).unwrap_or(i64::MAX);
        self.numbers.start.saturating_add(placed)
    }

    /// Takes an order that somebody else has committed into the reckoning.
    pub fn count(&mut self, placed: Placed) {
        self.placed.push(placed);
    }

    /// Places `n` orders, each in its own transaction.
    ///
    /// # Errors
    /// When the database did not take one.
    pub async fn place(&mut self, n: usize) -> Result<(), Trouble> {
        for _ in 0..n {
            let order = order::order(self.next_number(), &self.sku);
            let placed = order::place(self.ports, &order).await?;
            self.count(placed);
        }
        self.step(format!("placed {n} orders"));
        Ok(())
    }

    /// Starts a task of this process that ends with the stage.
    pub fn spawn<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(work)
    }

    // ---- facts ---------------------------------------------------------------------------------

    /// Reads the record, and keeps it as the one from before the fault was over.
    ///
    /// # Errors
    /// When a database did not answer.
    pub async fn before(&mut self) -> Result<Facts, Trouble> {
        let facts = self.facts().await?;
        self.before = Some(facts.record.clone());
        Ok(facts)
    }

    /// Reads the record.
    ///
    /// # Errors
    /// When a database did not answer.
    pub async fn facts(&self) -> Result<Facts, Trouble> {
        record::read(self.ports, &self.numbers, &self.sku).await
    }
}
