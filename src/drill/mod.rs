//! Fault drills: a fault injected on purpose in a sandbox, with what must come of it, and a record
//! of what did. Each file is one crash window; [`DRILLS`] is the table. `docs/drills.md` tells them
//! as stories.
//!
//! Drills write orders of their own and start, stop and kill workers of their own, nothing else; they
//! refuse a context that is not a sandbox, and one whose queues somebody else is reading.

mod ack_lost;
mod backlog;
mod before_outbox;
mod broker_blocked;
mod cancelled_first;
mod compensation;
mod confirm_lost;
mod control;
mod database_gone;
mod dispatcher_down;
pub mod faults;
mod killed_after_commit;
mod lease_lost;
mod node_lost;
mod oracle;
pub mod order;
mod poison;
pub mod proxy;
pub mod record;
mod rolled_back;
mod run;
mod sent_not_marked;
mod shuffled;
pub mod stage;
pub mod trouble;
mod two_deliveries;
mod unknown_payment;
mod unroutable;
pub mod verdict;

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde::Serialize;

use crate::broker::Broker;
use crate::pipeline::{self, Worker};
use crate::ports::Ports;
use crate::sandbox;
use stage::{Role, Stage};
use trouble::Trouble;

pub use run::run;
pub use verdict::{DrillReport, Verdict};

/// Where a drill plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// Workers are processes of their own, against a real database and a real broker.
    Real,
    /// Workers are inside this process: SQLite and the in-process broker.
    Embedded,
}

impl Where {
    /// The word on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Embedded => "embedded",
        }
    }
}

/// A drill's work: it tells the stage what it finds.
type Play = for<'a, 'b> fn(&'a mut Stage<'b>) -> LocalBoxFuture<'a, Result<(), Trouble>>;

/// How the orders of a drill must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Every order is confirmed, reserved once and paid once.
    Confirmed,
    /// As the drill itself checks.
    Own,
}

/// A registered drill.
pub struct Drill {
    /// Its number in the table of windows.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// The window in one line.
    pub window: &'static str,
    /// The fault.
    pub inject: &'static str,
    /// What must come of it.
    pub expect: &'static str,
    /// How that is verified.
    pub verify: &'static str,
    /// Where the fault exists.
    pub places: &'static [Where],
    /// How its orders end.
    pub ends: Ends,
    play: Play,
}

/// The fault exists in both pipelines.
const BOTH: &[Where] = &[Where::Real, Where::Embedded];
/// The fault needs processes and connections.
const REAL: &[Where] = &[Where::Real];

/// Every drill in the order of the table of windows.
pub const DRILLS: &[Drill] = &[
    before_outbox::DRILL,
    dispatcher_down::DRILL,
    sent_not_marked::DRILL,
    rolled_back::DRILL,
    ack_lost::DRILL,
    two_deliveries::DRILL,
    lease_lost::DRILL,
    cancelled_first::DRILL,
    confirm_lost::DRILL,
    node_lost::DRILL,
    killed_after_commit::DRILL,
    shuffled::DRILL,
    poison::DRILL,
    backlog::DRILL,
    unknown_payment::DRILL,
    compensation::DRILL,
    database_gone::DRILL,
    broker_blocked::DRILL,
    unroutable::DRILL,
];

impl Drill {
    /// The drill of a number or name.
    pub fn find(word: &str) -> Option<&'static Self> {
        DRILLS
            .iter()
            .find(|drill| drill.name == word || drill.number.to_string() == word)
    }
}

/// Faults of the in-process broker; a real one has proxies and a control program instead.
pub trait Switchboard: Send + Sync {
    /// Cuts every consumer off.
    fn disconnect(&self);
    /// Blocks publishing as a resource alarm does, or lets it go on.
    fn block(&self, reason: Option<&str>);
}

/// What drills are given.
pub struct Bench {
    /// The context, with sessions of the drill's own.
    pub ports: Ports,
    /// The same with sessions for workers inside this process.
    pub worker_ports: Ports,
    /// Nothing may be written: by the configuration, or because it was asked for.
    pub is_read_only: bool,
    /// Where drills play here.
    pub place: Where,
    /// This program.
    pub program: PathBuf,
    /// Guards that a test has taken away, as `FAILPOINTS` says it; workers are started without them.
    pub guards_off: Vec<String>,
    /// Faults of the in-process broker.
    pub switchboard: Option<Arc<dyn Switchboard>>,
    /// Opens the broker at another URL: a drill goes on where a node was killed.
    pub broker_at: BrokerAt,
    /// Where workers inside this process write alerts about deaths, one a line.
    pub alerts: Option<PathBuf>,
}

/// Opens a broker at a URL.
pub type BrokerAt = Box<dyn Fn(&str) -> Result<Arc<dyn Broker>, String> + Send + Sync>;

impl Bench {
    /// The broker.
    ///
    /// # Errors
    /// When the context has none.
    pub fn broker(&self) -> Result<&Arc<dyn Broker>, Trouble> {
        self.ports.broker.as_ref().ok_or_else(|| {
            Trouble::NotConfigured(format!(
                "context {} names no broker; set amqp",
                self.ports.context.name
            ))
        })
    }

    /// The broker at another URL, in the context's vhost.
    fn broker_at(&self, url: &str) -> Result<Arc<dyn Broker>, Trouble> {
        (self.broker_at)(url).map_err(Trouble::Stuck)
    }

    /// Workers inside this process.
    fn workers(&self, role: Role) -> Result<Vec<Box<dyn Worker>>, Trouble> {
        let program = faults::around(sandbox::program(&self.worker_ports, sandbox::Chance::NONE));
        let names: Vec<String> = role.kind.map(str::to_owned).into_iter().collect();
        let workers =
            pipeline::build(&self.worker_ports, &names, &program).map_err(Trouble::Stuck)?;
        Ok(pipeline::only(workers, role.service))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_drill_has_its_number_its_name_and_its_words() {
        let mut last = 0;
        for drill in DRILLS {
            assert!(drill.number > last, "{} is out of order", drill.name);
            last = drill.number;
            assert_eq!(
                Drill::find(drill.name).map(|d| d.number),
                Some(drill.number)
            );
            assert_eq!(
                Drill::find(&drill.number.to_string()).map(|d| d.name),
                Some(drill.name)
            );
            for words in [drill.window, drill.inject, drill.expect, drill.verify] {
                assert!(words.len() > 10, "{}: {words:?}", drill.name);
            }
            assert!(!drill.places.is_empty(), "{}", drill.name);
        }
        assert!(Drill::find("nonsense").is_none());
    }

    #[test]
    fn the_page_of_drills_tells_every_window() {
        const BEGIN: &str = "<!-- made from DRILLS: UPDATE_DOCS=1 cargo test --lib drill -->\n";
        const END: &str = "<!-- end -->";
        let mut table = "| no | drill | window | plays |\n|---|---|---|---|\n".to_owned();
        for drill in DRILLS {
            let places: Vec<_> = drill.places.iter().map(|place| place.word()).collect();
            let (number, name) = (drill.number, drill.name);
            writeln!(
                table,
                "| {number} | [{name}](#{number}-{name}) | {} | {} |",
                drill.window,
                places.join(", ")
            )
            .expect("a String takes everything");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/drills.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (head, rest) = page.split_once(BEGIN).expect("the table's beginning");
        let (_, tail) = rest.split_once(END).expect("the table's end");
        let wanted = format!("{head}{BEGIN}{table}{END}{tail}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).expect("written");
        } else {
            assert!(
                page == wanted,
                "docs/drills.md is old: UPDATE_DOCS=1 cargo test --lib drill"
            );
        }
        let told: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .collect();
        let expected: Vec<String> = DRILLS
            .iter()
            .map(|drill| format!("{}. {}", drill.number, drill.name))
            .collect();
        assert_eq!(told, expected, "a story for every window");
    }
}
