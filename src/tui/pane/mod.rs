//! The panes. Each is a folder: what it holds and does in `mod.rs`, how it looks in `view.rs`.
//! `PANES` is the registry; number keys, tabs, help and the command bar read it.

pub mod audit;
pub mod browser;
pub mod dead_letters;
pub mod drills;
pub mod leases;
pub mod listing;
pub mod operations;
pub mod outbox;
pub mod overview;
pub mod queues;
pub mod sagas;
pub mod scans;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use crate::config::Environment;
use crate::model::filter::{Filter, FilterKind};
use crate::model::ids::DeadLetterId;
use crate::observe::Views;
use crate::operate::plan::{Request, Target};

use super::keymap::{Action, Scope};
use super::widget::paint::Line;
use super::world::World;

/// Which pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PaneId {
    /// 1
    #[default]
    Overview,
    /// 2
    Outbox,
    /// 3
    Leases,
    /// 4
    Queues,
    /// 5
    DeadLetters,
    /// 6
    Sagas,
    /// 7
    Scans,
    /// 8
    Operations,
    /// 9
    Audit,
    /// 0
    Drills,
}

/// A registered pane.
pub struct PaneSpec {
    /// Which.
    pub id: PaneId,
    /// Its number key.
    pub number: char,
    /// Its title.
    pub title: &'static str,
    /// Its title where there is little room.
    pub short: &'static str,
    /// The word of the command bar and of `--pane`.
    pub word: &'static str,
    /// Its keys.
    pub scope: Scope,
    /// The feed it shows.
    pub feed: &'static str,
    /// A new one.
    pub make: fn() -> Box<dyn Pane>,
}

/// Every pane in the order of the tabs.
pub const PANES: &[PaneSpec] = &[
    overview::SPEC,
    outbox::SPEC,
    leases::SPEC,
    queues::SPEC,
    dead_letters::SPEC,
    sagas::SPEC,
    scans::SPEC,
    operations::SPEC,
    audit::SPEC,
    drills::SPEC,
];

/// The panes of an environment: drills hurt a pipeline on purpose, so they are in sandboxes only.
pub fn panes_of(environment: Environment) -> impl Iterator<Item = &'static PaneSpec> {
    PANES.iter().filter(move |spec| spec.id.is_in(environment))
}

impl PaneId {
    /// Whether an environment has this pane.
    pub fn is_in(self, environment: Environment) -> bool {
        self != Self::Drills || environment == Environment::Sandbox
    }

    /// Its registration.
    pub fn spec(self) -> &'static PaneSpec {
        PANES
            .iter()
            .find(|spec| spec.id == self)
            .unwrap_or(&overview::SPEC)
    }

    /// The pane of a word (`dead_letters`, `dead-letters`) or number.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.replace(['-', ' '], "_");
        PANES
            .iter()
            .find(|spec| spec.word == word || spec.number.to_string() == word)
            .map(|spec| spec.id)
    }
}

/// Text of a dead letter that a person may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// Who takes care of it.
    Owner,
    /// A note.
    Note,
}

/// What a pane wants from the rest.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A plan, to be confirmed in a dialog.
    Plan(Request),
    /// An editor on a payload, then a plan.
    Repair(Target),
    /// A line of text for a dead letter.
    Annotate {
        /// Its service.
        service: String,
        /// Which.
        id: DeadLetterId,
        /// What is set.
        what: Annotation,
        /// What stands there now.
        current: String,
    },
    /// Another pane, with the cursor on an id.
    Go(PaneId, Option<String>),
    /// Something to read over the pane.
    Page(String, Vec<Line>),
    /// The plan of a replay of what an id means.
    Resolve(String),
    /// A scan, by its rule.
    Scan(String),
    /// The running scan stopped.
    StopScan,
    /// A drill, by its number.
    Drill(u8),
    /// A check of the audit chains.
    VerifyAudit,
    /// What is read has changed: tell the feeds.
    Watch,
    /// Say why nothing happened.
    Explain(String),
}

/// One pane: state that `update` changes and `draw` only reads.
pub trait Pane: Send {
    /// Takes over what was read.
    fn sync(&mut self, world: &World);
    /// Learns the size it will be drawn at.
    fn settle(&mut self, area: Rect, world: &World);
    /// Draws itself.
    fn draw(&self, area: Rect, buf: &mut Buffer, world: &World);
    /// Does what a key asks.
    fn act(&mut self, action: Action, world: &World) -> Vec<Ask>;
    /// Whether a key does something now; else it is not on the bottom line.
    fn allows(&self, action: Action, world: &World) -> bool;
    /// A click inside of its area.
    fn click(&mut self, at: (u16, u16), area: Rect, world: &World) -> Vec<Ask>;
    /// Says what it wants read.
    fn watch(&self, views: &mut Views);
    /// The id under the cursor.
    fn subject(&self, world: &World) -> Option<String>;
    /// Whose journey `t` shows; `None`: nothing under the cursor has one.
    fn journey(&self, world: &World) -> Option<String> {
        self.subject(world)
    }
    /// The rows that are shown (or marked), as JSON.
    fn export(&self, world: &World) -> Vec<Value>;
    /// Which filter language it takes; `None`: it has no rows.
    fn filter_kind(&self) -> Option<FilterKind>;
    /// The filter as typed.
    fn filter_text(&self) -> &str;
    /// Sets the filter.
    fn set_filter(&mut self, text: &str, filter: Filter, world: &World);
    /// The filter is complete: a cursor whose row does not pass it goes to the first that does.
    fn land(&mut self, _world: &World) {}
    /// True when keys go to the detail.
    fn is_in_detail(&self) -> bool;
    /// Searches in the detail; `false` when there is no such text.
    fn search(&mut self, needle: &str) -> bool;
    /// Puts the cursor on an id, now or when it has been read.
    fn select(&mut self, id: &str, world: &World);
}

/// A row's JSON with its service in front, for exports.
fn with_service(service: &str, row: Value) -> Value {
    let mut out = serde_json::Map::new();
    out.insert("service".to_owned(), Value::String(service.to_owned()));
    match row {
        Value::Object(fields) => out.extend(fields),
        other => {
            out.insert("value".to_owned(), other);
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod registry {
    use super::*;

    #[test]
    fn every_pane_is_listed_once_with_a_number_a_word_and_a_feed() {
        let mut numbers: Vec<char> = PANES.iter().map(|spec| spec.number).collect();
        numbers.dedup();
        assert_eq!(numbers, ['1', '2', '3', '4', '5', '6', '7', '8', '9', '0']);
        for spec in PANES {
            assert!(crate::observe::FEEDS.contains(&spec.feed), "{}", spec.feed);
            assert_eq!(PaneId::from_word(spec.word), Some(spec.id));
            assert_eq!(spec.id.spec().number, spec.number);
        }
        let folders = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tui/pane"))
            .expect("readable")
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .filter(|entry| entry.file_name() != "snapshots")
            .count();
        assert_eq!(folders, PANES.len());
    }
}
