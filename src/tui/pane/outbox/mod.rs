//! Outbox: rows by state, oldest due first, a page of one service or the first page of all.

mod view;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use super::browser::{Browser, Frame};
use super::{Ask, Pane, PaneId, PaneSpec};
use crate::model::filter::{Filter, FilterKind, InService};
use crate::model::ids::EventId;
use crate::model::outbox::{OutboxRow, OutboxState};
use crate::model::page::Cursor;
use crate::observe::Views;
use crate::operate::plan::{Request, Target};
use crate::tui::keymap::{Action, Scope};
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Outbox,
    number: '2',
    title: "Outbox",
    short: "Outbox",
    word: "outbox",
    scope: Scope::Outbox,
    feed: "outbox",
    make: || Box::new(Outbox::default()),
};

/// What the pane holds.
pub struct Outbox {
    browser: Browser,
    state: OutboxState,
    /// Rows of this service only; paging needs one.
    service: Option<String>,
    /// Where the page on screen starts.
    after: Option<Cursor>,
    /// How many pages lie before it.
    page: usize,
    rows: Vec<(usize, usize)>,
    /// Only this event, whatever its state, until the filter changes.
    event: Option<EventId>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            browser: Browser::default(),
            state: OutboxState::Pending,
            service: None,
            after: None,
            page: 0,
            rows: Vec::new(),
            event: None,
        }
    }
}

impl Outbox {
    fn row<'a>(&self, world: &'a World, index: usize) -> Option<(&'a str, &'a OutboxRow)> {
        let (service, row) = *self.rows.get(index)?;
        let part = world
            .readings
            .outbox
            .value
            .as_deref()?
            .services
            .get(service)?;
        Some((
            part.service.as_str(),
            part.value.as_ref()?.page.rows.get(row)?,
        ))
    }

    fn selected<'a>(&self, world: &'a World) -> Option<(&'a str, &'a OutboxRow)> {
        self.row(world, self.browser.list.selected()?)
    }

    /// Shows another state, service or page.
    fn turn(&mut self) -> Vec<Ask> {
        self.browser.reset();
        self.rows.clear();
        vec![Ask::Watch]
    }

    fn turn_state(&mut self, by: isize) -> Vec<Ask> {
        let all = OutboxState::ALL;
        let here = all
            .iter()
            .position(|state| *state == self.state)
            .unwrap_or(0);
        let next = here.saturating_add_signed(by).min(all.len() - 1);
        if next == here {
            return Vec::new();
        }
        self.state = all[next];
        self.after = None;
        self.page = 0;
        self.turn()
    }

    fn next_service(&mut self, world: &World) -> Vec<Ask> {
        let names: Vec<&String> = world
            .context
            .services
            .iter()
            .filter(|service| service.outbox.is_some())
            .map(|service| &service.name)
            .collect();
        let next = match &self.service {
            None => names.first(),
            Some(now) => names
                .iter()
                .position(|name| *name == now)
                .and_then(|index| names.get(index + 1)),
        };
        self.service = next.map(|name| (*name).clone());
        self.after = None;
        self.page = 0;
        self.turn()
    }

    fn next_page(&mut self, world: &World) -> Vec<Ask> {
        let Some(service) = &self.service else {
            return vec![Ask::Explain(
                "pages belong to one service: s chooses it".into(),
            )];
        };
        let next = world
            .readings
            .outbox
            .value
            .as_deref()
            .and_then(|value| value.services.iter().find(|part| part.service == *service))
            .and_then(|part| part.value.as_ref())
            .and_then(|facts| facts.page.next.clone());
        match next {
            Some(cursor) => {
                self.after = Some(cursor);
                self.page += 1;
                self.turn()
            }
            None => vec![Ask::Explain("this is the last page".into())],
        }
    }

    fn replay(&self, world: &World) -> Vec<Ask> {
        match self.selected(world) {
            Some((service, row)) if row.state == OutboxState::Failed => {
                vec![Ask::Plan(Request::Replay {
                    target: Target::OutboxRow {
                        service: service.to_owned(),
                        event_id: row.event_id.clone(),
                    },
                    through_exchange: false,
                    to_queue: None,
                    overrides: Vec::new(),
                })]
            }
            Some(_) => vec![Ask::Explain(
                "only failed rows are replayed; l shows them".into(),
            )],
            None => vec![Ask::Explain("no row is under the cursor".into())],
        }
    }

    fn refresh_detail(&mut self, world: &World) {
        if self.browser.is_open {
            let lines = self
                .selected(world)
                .map(|(service, row)| view::detail(service, row, world))
                .unwrap_or_default();
            self.browser.doc.set(lines);
        }
    }
}

impl Pane for Outbox {
    fn sync(&mut self, world: &World) {
        self.rows.clear();
        let mut ids = Vec::new();
        let mut total = 0;
        let mut has_more = false;
        let value = world.readings.outbox.value.as_deref();
        // Payload terms were answered by the feed: list rows carry no payload.
        let row_filter = self.browser.filter.row_terms();
        if let Some(value) = value.filter(|_| !world.is_behind(SPEC.feed)) {
            for (service, part) in value.services.iter().enumerate() {
                let Some(facts) = &part.value else { continue };
                // A late answer to an earlier question is not shown under the new heading.
                let is_other = self
                    .service
                    .as_ref()
                    .is_some_and(|name| *name != part.service);
                let is_pointed_at = self.event.is_some()
                    && facts.page.rows.first().map(|row| &row.event_id) == self.event.as_ref();
                if is_pointed_at {
                    self.state = facts.state;
                }
                if is_other || facts.state != self.state {
                    continue;
                }
                has_more |= facts.page.next.is_some();
                for (index, row) in facts.page.rows.iter().enumerate() {
                    total += 1;
                    let filtered = InService {
                        service: &part.service,
                        row,
                    };
                    if row_filter.matches(&filtered, world.now) {
                        self.rows.push((service, index));
                        ids.push(format!("{}/{}", part.service, row.event_id));
                    }
                }
            }
        }
        self.browser.sync(ids, total);
        self.browser.list.set_has_more(has_more);
        self.refresh_detail(world);
    }

    fn settle(&mut self, area: Rect, world: &World) {
        self.browser.settle(view::list_area(area, world));
    }

    fn draw(&self, area: Rect, buf: &mut Buffer, world: &World) {
        self.view(area, buf, world);
    }

    fn act(&mut self, action: Action, world: &World) -> Vec<Ask> {
        let asks = match action {
            Action::Left if !self.is_in_detail() => self.turn_state(-1),
            Action::Right if !self.is_in_detail() => self.turn_state(1),
            Action::NextService => self.next_service(world),
            Action::NextPage => self.next_page(world),
            Action::FirstPage if self.page > 0 => {
                self.after = None;
                self.page = 0;
                self.turn()
            }
            Action::Replay => self.replay(world),
            action => {
                if self.browser.act(action) && action == Action::Back {
                    if self.browser.filter_text.is_empty() {
                        self.event = None;
                    }
                    self.sync(world);
                }
                Vec::new()
            }
        };
        self.refresh_detail(world);
        asks
    }

    fn allows(&self, action: Action, world: &World) -> bool {
        match action {
            Action::Replay => self
                .selected(world)
                .is_some_and(|(_, row)| row.state == OutboxState::Failed),
            Action::NextPage => self.service.is_some(),
            Action::FirstPage => self.page > 0,
            _ => true,
        }
    }

    fn click(&mut self, at: (u16, u16), area: Rect, world: &World) -> Vec<Ask> {
        let frame = Frame::cut(area, SPEC.feed, world);
        if at.1 == frame.body.y {
            if let Some(state) = view::state_at(at.0.saturating_sub(area.x))
                && state != self.state
            {
                self.state = state;
                self.after = None;
                self.page = 0;
                return self.turn();
            }
        } else {
            self.browser.click(at, view::list_area(area, world));
            self.refresh_detail(world);
        }
        Vec::new()
    }

    fn watch(&self, views: &mut Views) {
        views.outbox.service.clone_from(&self.service);
        views.outbox.state = self.state;
        views.outbox.after.clone_from(&self.after);
        views.outbox.event.clone_from(&self.event);
        views.outbox.event_type = self.browser.filter.pushdown().event_type;
        views.outbox.payload = self.browser.filter.payload_terms();
    }

    fn subject(&self, world: &World) -> Option<String> {
        self.selected(world)
            .map(|(_, row)| row.event_id.to_string())
    }

    fn export(&self, world: &World) -> Vec<Value> {
        let has_marks = self.browser.list.marked() > 0;
        (0..self.rows.len())
            .filter(|index| !has_marks || self.browser.list.is_row_marked(*index))
            .filter_map(|index| self.row(world, index))
            .filter_map(|(service, row)| {
                serde_json::to_value(row)
                    .ok()
                    .map(|row| super::with_service(service, row))
            })
            .collect()
    }

    fn filter_kind(&self) -> Option<FilterKind> {
        Some(FilterKind::Outbox)
    }

    fn filter_text(&self) -> &str {
        &self.browser.filter_text
    }

    fn set_filter(&mut self, text: &str, filter: Filter, world: &World) {
        self.event = None;
        self.browser.set_filter(text, filter);
        self.sync(world);
    }

    fn land(&mut self, world: &World) {
        self.browser.list.land();
        self.sync(world);
    }

    fn is_in_detail(&self) -> bool {
        self.browser.part == super::browser::Part::Detail
    }

    fn search(&mut self, needle: &str) -> bool {
        self.browser.doc.find(needle)
    }

    fn select(&mut self, id: &str, world: &World) {
        let words = id.strip_prefix("state:").map(|rest| {
            let (word, filter) = rest.split_once(' ').unwrap_or((rest, ""));
            (
                OutboxState::ALL.into_iter().find(|s| s.word() == word),
                filter,
            )
        });
        if let Some((Some(state), text)) = words {
            if state != self.state {
                self.state = state;
                self.turn();
            }
            if let Ok(filter) = Filter::parse_for(FilterKind::Outbox, text) {
                self.browser.set_filter(text, filter);
            }
        } else if let Some(event) = id.strip_prefix("event:") {
            let text = format!("id:{event}");
            if let Ok(filter) = Filter::parse_for(FilterKind::Outbox, &text) {
                self.service = None;
                self.after = None;
                self.page = 0;
                self.turn();
                self.browser.set_filter(&text, filter);
                self.event = Some(EventId::new(event));
            }
        } else {
            self.browser.select(id);
        }
        self.sync(world);
    }
}
