//! Overview: what is wrong (plain facts, worst first), the flow with live numbers at every hop, and
//! its history. Enter on anything goes to its evidence.

mod facts;
mod history;
mod hops;
mod view;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

pub use self::facts::skew_text;

use self::facts::Fact;
use self::history::History;
use super::{Ask, Pane, PaneId, PaneSpec};
use crate::model::filter::{Filter, FilterKind};
use crate::observe::Views;
use crate::tui::keymap::{Action, Scope};
use crate::tui::widget::list::ListState;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Overview,
    number: '1',
    title: "Overview",
    short: "Overview",
    word: "overview",
    scope: Scope::Overview,
    feed: "flow",
    make: || Box::new(Overview::default()),
};

/// One line that the cursor can stand on.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    /// Something that is wrong.
    Fact(usize),
    /// An outbox's hop.
    Outbox(usize),
    /// A consumer's hop.
    Consumer(usize),
}

/// What the pane holds.
#[derive(Default)]
pub struct Overview {
    list: ListState,
    items: Vec<Item>,
    facts: Vec<Fact>,
    history: History,
    /// Facts that are visible; the others are counted.
    facts_shown: usize,
}

impl Overview {
    fn evidence(&self, world: &World) -> Option<(PaneId, Option<String>)> {
        let flow = world.readings.flow.value.as_deref();
        match self.items.get(self.list.selected()?)? {
            Item::Fact(index) => {
                let fact = self.facts.get(*index)?;
                Some((fact.evidence, fact.target.clone()))
            }
            Item::Outbox(_) => Some((PaneId::Outbox, None)),
            Item::Consumer(index) => {
                let consumer = flow?.consumers.get(*index)?;
                Some((PaneId::Queues, Some(consumer.queue.clone())))
            }
        }
    }
}

impl Pane for Overview {
    fn sync(&mut self, world: &World) {
        self.history.record(world);
        self.facts = facts::facts(world);
        self.items.clear();
        let mut ids = Vec::new();
        for (index, fact) in self.facts.iter().enumerate() {
            self.items.push(Item::Fact(index));
            ids.push(format!("fact/{}", fact.id));
        }
        if let Some(flow) = world.readings.flow.value.as_deref() {
            for (index, part) in flow.outboxes.iter().enumerate() {
                self.items.push(Item::Outbox(index));
                ids.push(format!("outbox/{}", part.service));
            }
            for (index, consumer) in flow.consumers.iter().enumerate() {
                self.items.push(Item::Consumer(index));
                ids.push(format!("consumer/{}", consumer.consumer));
            }
        }
        self.list.sync(ids);
        // What was wrong and is not any more takes no cursor with it: nothing acts here.
        if self.list.is_gone() {
            self.list.select_index(0);
        }
    }

    fn settle(&mut self, area: Rect, world: &World) {
        self.facts_shown = view::facts_shown(area, self, world);
        self.list.set_height(self.items.len().max(1));
    }

    fn draw(&self, area: Rect, buf: &mut Buffer, world: &World) {
        self.view(area, buf, world);
    }

    fn act(&mut self, action: Action, world: &World) -> Vec<Ask> {
        match action {
            Action::Up => self.list.move_by(-1),
            Action::Down => self.list.move_by(1),
            Action::PageUp | Action::First => self.list.select_index(0),
            Action::PageDown | Action::Last => self.list.select_index(usize::MAX),
            Action::Enter => {
                if let Some((pane, target)) = self.evidence(world) {
                    return vec![Ask::Go(pane, target)];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn allows(&self, action: Action, _world: &World) -> bool {
        !matches!(action, Action::Filter | Action::Mark | Action::Copy)
    }

    fn click(&mut self, at: (u16, u16), area: Rect, world: &World) -> Vec<Ask> {
        match view::item_at(area, at.1, self, world) {
            Some(index) if self.list.selected() == Some(index) => self.act(Action::Enter, world),
            Some(index) => {
                self.list.select_index(index);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn watch(&self, _views: &mut Views) {}

    fn subject(&self, _world: &World) -> Option<String> {
        None
    }

    fn export(&self, world: &World) -> Vec<Value> {
        let flow = world
            .readings
            .flow
            .value
            .as_deref()
            .and_then(|flow| serde_json::to_value(flow).ok());
        let health = world
            .readings
            .health
            .value
            .as_deref()
            .and_then(|health| serde_json::to_value(health).ok());
        [flow, health].into_iter().flatten().collect()
    }

    fn filter_kind(&self) -> Option<FilterKind> {
        None
    }

    fn filter_text(&self) -> &'static str {
        ""
    }

    fn set_filter(&mut self, _text: &str, _filter: Filter, _world: &World) {}

    fn is_in_detail(&self) -> bool {
        false
    }

    fn search(&mut self, _needle: &str) -> bool {
        false
    }

    fn select(&mut self, id: &str, _world: &World) {
        self.list.select(id);
    }
}
