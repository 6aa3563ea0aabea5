//! Dead letters: grouped by cause, then the rows of the selected cause, then everything about one.

mod cursor;
mod detail;
mod payload;
mod rows;
#[cfg(test)]
mod tests;
mod view;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use super::{Annotation, Ask, Pane, PaneId, PaneSpec};
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::filter::{Filter, FilterKind};
use crate::model::page::Cursor;
use crate::observe::Views;
use crate::operate::plan::{Request, Target};
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::doc::Doc;
use crate::tui::widget::list::ListState;
use crate::tui::widget::paint;
use crate::tui::widget::table::Table;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::DeadLetters,
    number: '5',
    title: "Dead letters",
    short: "Dead",
    word: "dead_letters",
    scope: Scope::DeadLetters,
    feed: "dead_letters",
    make: || Box::new(DeadLetters::default()),
};

/// Which part the keys go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    #[default]
    Groups,
    Rows,
    Detail,
}

/// What the detail shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Why,
    Payload,
    Headers,
    Deaths,
    Inbox,
    Sequence,
}

impl Tab {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Why, "Why"),
        (Self::Payload, "Payload"),
        (Self::Headers, "Headers"),
        (Self::Deaths, "Deaths"),
        (Self::Inbox, "Inbox"),
        (Self::Sequence, "Sequence"),
    ];

    fn step(self, by: isize) -> Self {
        let here = Self::ALL
            .iter()
            .position(|(tab, _)| *tab == self)
            .unwrap_or(0);
        let next = here.saturating_add_signed(by).min(Self::ALL.len() - 1);
        Self::ALL.get(next).map_or(self, |(tab, _)| *tab)
    }
}

/// How the payload is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ViewAs {
    #[default]
    Json,
    Text,
    Hex,
}

impl ViewAs {
    const fn next(self) -> Self {
        match self {
            Self::Json => Self::Text,
            Self::Text => Self::Hex,
            Self::Hex => Self::Json,
        }
    }
}

/// What the pane holds.
#[derive(Default)]
pub struct DeadLetters {
    part: Part,
    groups: ListState,
    group_places: Vec<(usize, usize)>,
    rows: ListState,
    row_places: Vec<(usize, usize)>,
    total: usize,
    doc: Doc,
    tab: Tab,
    view_as: ViewAs,
    filter: Filter,
    filter_text: String,
    status: Option<DeadLetterStatus>,
    /// The service, cursor and number of a page that is not the first.
    page: Option<(String, Cursor, usize)>,
    /// The answer at hand when such a page was left: its rows are not those of the first one.
    left: Option<u64>,
    wanted: Option<String>,
}

/// The id of the line that stands for every cause.
const ALL_CAUSES: &str = "";

impl DeadLetters {
    /// What the filter asks for, else what was chosen.
    fn status(&self) -> DeadLetterStatus {
        self.filtered_status()
            .or(self.status)
            .unwrap_or(DeadLetterStatus::Open)
    }

    fn filtered_status(&self) -> Option<DeadLetterStatus> {
        DeadLetterStatus::from_word(&self.filter.pushdown().state?)
    }

    fn target(&self, world: &World) -> Option<(Target, DeadLetterStatus)> {
        self.selected(world).map(|(service, letter)| {
            (
                Target::DeadLetter {
                    service: service.to_owned(),
                    dead_letter_id: letter.dead_letter_id.clone(),
                },
                letter.status,
            )
        })
    }

    /// A request on the row under the cursor, or why there is none.
    fn on_row(&self, world: &World, ask: impl FnOnce(Target) -> Ask) -> Vec<Ask> {
        match self.target(world) {
            Some((target, DeadLetterStatus::Open)) => vec![ask(target)],
            Some((_, status)) => vec![Ask::Explain(format!(
                "this dead letter is {}: nothing is open to act on",
                status.word()
            ))],
            None => vec![Ask::Explain("no dead letter is under the cursor".into())],
        }
    }

    fn annotate(&self, world: &World, what: Annotation) -> Vec<Ask> {
        match self.selected(world) {
            Some((service, letter)) => vec![Ask::Annotate {
                service: service.to_owned(),
                id: letter.dead_letter_id.clone(),
                what,
                current: match what {
                    Annotation::Owner => letter.owner.clone(),
                    Annotation::Note => letter.note.clone(),
                }
                .unwrap_or_default(),
            }],
            None => vec![Ask::Explain("no dead letter is under the cursor".into())],
        }
    }

    fn next_status(&mut self, world: &World) -> Vec<Ask> {
        if let Some(status) = self.filtered_status() {
            let word = status.word();
            return vec![Ask::Explain(format!(
                "the filter asks for status:{word}: change it to see others"
            ))];
        }
        let all = DeadLetterStatus::ALL;
        let here = all
            .iter()
            .position(|status| *status == self.status())
            .unwrap_or(0);
        self.status = all.get((here + 1) % all.len()).copied();
        self.turn(world)
    }

    fn turn(&mut self, world: &World) -> Vec<Ask> {
        self.leave_page(world);
        self.rows.reset();
        self.row_places.clear();
        self.doc.rewind();
        vec![Ask::Watch]
    }

    /// Back to the first page; `false` when it was there.
    fn leave_page(&mut self, world: &World) -> bool {
        let is_left = self.page.take().is_some();
        if is_left {
            self.left = Some(world.readings.dead_letters.generation);
        }
        is_left
    }

    fn next_page(&mut self, world: &World) -> Vec<Ask> {
        let service = self
            .selected_group(world)
            .map(|(service, _)| service.to_owned())
            .or_else(|| self.page.as_ref().map(|(service, ..)| service.clone()));
        let parts = world.readings.dead_letters.value.as_deref();
        let with_more = parts.and_then(|value| {
            value.services.iter().find(|part| {
                service.as_ref().is_none_or(|name| *name == part.service)
                    && part
                        .value
                        .as_ref()
                        .is_some_and(|facts| facts.page.next.is_some())
            })
        });
        let next = with_more.and_then(|part| {
            let cursor = part.value.as_ref()?.page.next.clone()?;
            Some((part.service.clone(), cursor))
        });
        match next {
            Some((service, cursor)) => {
                let no = self.page.as_ref().map_or(2, |(_, _, no)| no + 1);
                let asks = self.turn(world);
                self.page = Some((service, cursor, no));
                asks
            }
            None => vec![Ask::Explain("this is the last page".into())],
        }
    }

    fn refresh_detail(&mut self, world: &World) {
        let lines = match (self.open_view(world), self.selected(world)) {
            (Some(view), _) => detail::lines(view, self.tab, self.view_as, world),
            (None, Some((_, letter))) => detail::waiting(letter, world),
            (None, None) if self.rows.is_gone() => vec![paint::line(
                "the dead letter under the cursor left this list; j or k chooses another",
                Role::Dim,
            )],
            (None, None) => Vec::new(),
        };
        self.doc.set(lines);
    }
}

impl Pane for DeadLetters {
    fn sync(&mut self, world: &World) {
        self.sync_groups(world);
        self.sync_rows(world);
        self.refresh_detail(world);
    }

    fn settle(&mut self, area: Rect, world: &World) {
        let layout = view::Layout::cut(area, self, world);
        self.groups.set_height(Table::rows_in(layout.groups));
        self.rows.set_height(Table::rows_in(layout.rows));
        self.doc
            .settle(super::browser::Browser::inside(layout.detail));
    }

    fn draw(&self, area: Rect, buf: &mut Buffer, world: &World) {
        self.view(area, buf, world);
    }

    fn act(&mut self, action: Action, world: &World) -> Vec<Ask> {
        let mut needs_sync = false;
        let asks = match action {
            Action::Replay => self.on_row(world, |target| {
                Ask::Plan(Request::Replay {
                    target,
                    through_exchange: false,
                    to_queue: None,
                    overrides: Vec::new(),
                })
            }),
            Action::Repair => self.on_row(world, Ask::Repair),
            Action::Discard => self.on_row(world, |target| {
                Ask::Plan(Request::Discard {
                    target,
                    is_resolved: false,
                })
            }),
            Action::Assign => self.annotate(world, Annotation::Owner),
            Action::Note => self.annotate(world, Annotation::Note),
            Action::NextService => self.next_status(world),
            Action::NextPage => self.next_page(world),
            Action::FirstPage => {
                if self.page.is_some() {
                    self.turn(world)
                } else {
                    Vec::new()
                }
            }
            Action::ViewAs => {
                self.tab = Tab::Payload;
                self.view_as = self.view_as.next();
                self.doc.rewind();
                Vec::new()
            }
            Action::Left | Action::Right => {
                self.tab = self.tab.step(if action == Action::Left { -1 } else { 1 });
                self.doc.rewind();
                Vec::new()
            }
            Action::Mark if self.part == Part::Rows => {
                self.rows.toggle_mark();
                Vec::new()
            }
            Action::Enter => {
                self.part = match self.part {
                    Part::Groups => Part::Rows,
                    Part::Rows | Part::Detail => Part::Detail,
                };
                Vec::new()
            }
            Action::NextFocus | Action::PreviousFocus => {
                self.step_focus(if action == Action::NextFocus { 1 } else { -1 });
                Vec::new()
            }
            Action::Back => {
                needs_sync = self.back();
                Vec::new()
            }
            action => {
                let asks = self.movement(action);
                needs_sync = self.part == Part::Groups;
                asks
            }
        };
        if needs_sync {
            self.sync_rows(world);
        }
        self.refresh_detail(world);
        asks
    }

    fn allows(&self, action: Action, world: &World) -> bool {
        match action {
            Action::Replay | Action::Repair | Action::Discard => self
                .target(world)
                .is_some_and(|(_, status)| status == DeadLetterStatus::Open),
            Action::Assign | Action::Note => self.rows.selected().is_some(),
            Action::FirstPage => self.page.is_some(),
            _ => true,
        }
    }

    fn click(&mut self, at: (u16, u16), area: Rect, world: &World) -> Vec<Ask> {
        let layout = view::Layout::cut(area, self, world);
        let mut asks = Vec::new();
        if layout.detail.height > 0 && at.1 >= layout.detail.y {
            if at.1 == layout.detail.y
                && let Some(tab) = view::tab_at(at.0.saturating_sub(layout.detail.x))
            {
                self.tab = tab;
                self.doc.rewind();
            }
            self.part = Part::Detail;
        } else if let Some(index) = Table::row_at(&self.rows, layout.rows, at.1) {
            if self.part == Part::Rows && self.rows.selected() == Some(index) {
                self.part = Part::Detail;
            } else {
                self.part = Part::Rows;
                self.rows.select_index(index);
                self.doc.rewind();
            }
        } else if let Some(index) = Table::row_at(&self.groups, layout.groups, at.1) {
            self.part = Part::Groups;
            if self.groups.selected() != Some(index) {
                self.groups.select_index(index);
                asks = self.turn(world);
                self.sync_rows(world);
            }
        }
        self.refresh_detail(world);
        asks
    }

    fn watch(&self, views: &mut Views) {
        let view = &mut views.dead_letters;
        view.status = self.status();
        let parts = self
            .groups
            .selected_id()
            .filter(|id| *id != ALL_CAUSES)
            .map(|id| id.split('\u{1f}').collect::<Vec<_>>());
        if let Some([service, consumer, event_type, class]) = parts.as_deref() {
            view.service = Some((*service).to_owned());
            view.consumer = Some((*consumer).to_owned());
            view.event_type = Some((*event_type != "\u{0}").then(|| (*event_type).to_owned()));
            view.error_class = Some((*class).to_owned());
        } else {
            let pushed = self.filter.pushdown();
            view.service = pushed.service;
            view.consumer = pushed.consumer;
            view.event_type = pushed.event_type.map(Some);
            view.error_class = pushed.error_class;
        }
        view.payload = self.filter.payload_terms();
        view.after = None;
        if let Some((service, cursor, _)) = &self.page {
            view.service = Some(service.clone());
            view.after = Some(cursor.clone());
        }
        views.dead_letter = self.rows.selected_id().and_then(|id| {
            let (service, letter) = id.split_once('/')?;
            Some((service.to_owned(), letter.into()))
        });
    }

    fn subject(&self, world: &World) -> Option<String> {
        self.selected(world).map(|(_, letter)| {
            letter
                .event_id
                .as_ref()
                .map_or_else(|| letter.dead_letter_id.to_string(), ToString::to_string)
        })
    }

    fn export(&self, world: &World) -> Vec<Value> {
        let has_marks = self.rows.marked() > 0;
        (0..self.row_places.len())
            .filter(|index| !has_marks || self.rows.is_row_marked(*index))
            .filter_map(|index| self.row(world, index))
            .filter_map(|(service, row)| {
                serde_json::to_value(row)
                    .ok()
                    .map(|row| super::with_service(service, row))
            })
            .collect()
    }

    fn filter_kind(&self) -> Option<FilterKind> {
        Some(FilterKind::DeadLetters)
    }

    fn filter_text(&self) -> &str {
        &self.filter_text
    }

    fn set_filter(&mut self, text: &str, filter: Filter, world: &World) {
        let status = self.status();
        text.clone_into(&mut self.filter_text);
        self.filter = filter;
        if self.leave_page(world) || self.status() != status {
            self.rows.reset();
        }
        self.sync(world);
    }

    fn land(&mut self, world: &World) {
        self.rows.land();
        self.sync(world);
    }

    fn is_in_detail(&self) -> bool {
        self.part == Part::Detail
    }

    fn search(&mut self, needle: &str) -> bool {
        self.doc.find(needle)
    }

    fn select(&mut self, id: &str, world: &World) {
        if let Some(event) = id.strip_prefix("event:") {
            let text = format!("id:{event}");
            if let Ok(filter) = Filter::parse_for(FilterKind::DeadLetters, &text) {
                self.set_filter(&text, filter, world);
            }
        } else if self.rows.select(id) {
            self.part = Part::Rows;
        } else if !id.is_empty() {
            self.wanted = Some(id.to_owned());
        }
    }
}
