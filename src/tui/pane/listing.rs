//! A pane that is one list with a detail: the pane says what its rows are, the rest is here.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde::Serialize;
use serde_json::Value;

use super::browser::{self, Browser, Frame, Part};
use super::{Ask, Pane};
use crate::model::filter::{Fields, Filter, FilterKind, InService};
use crate::observe::Views;
use crate::tui::keymap::Action;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::{Column, Table};
use crate::tui::world::World;

/// What a list pane is made of.
pub trait Listing: Default + Send + 'static {
    /// A row.
    type Row: Fields + Serialize + 'static;
    /// The feed it shows.
    const FEED: &'static str;
    /// Its title.
    const TITLE: &'static str;
    /// The title of its detail.
    const DETAIL: &'static str;
    /// What it says when there is nothing.
    const NOTHING: &'static str;
    /// The kind of its rows in the filter language.
    const KIND: FilterKind;
    /// Its columns.
    const COLUMNS: &'static [Column];
    /// Rows by service; rows that belong to none stand under `""`.
    fn parts(world: &World) -> Vec<(&str, &[Self::Row])>;
    /// A row's identity.
    fn id(service: &str, row: &Self::Row) -> String;
    /// Sorts rows for the screen; the default keeps the order of services.
    fn sort(_rows: &mut [(&str, &Self::Row, Place)], _world: &World) {}
    /// The summary of the headline.
    fn summary(&self, world: &World) -> Line;
    /// The cells of a row, one a column.
    fn cells(service: &str, row: &Self::Row, world: &World) -> Vec<Span>;
    /// Everything about a row.
    fn detail(service: &str, row: &Self::Row, world: &World) -> Vec<Line>;
    /// What `y` copies.
    fn subject(row: &Self::Row) -> Option<String>;
    /// Whose journey `t` shows.
    fn journey(row: &Self::Row) -> Option<String> {
        Self::subject(row)
    }
    /// Keys of its own; `None`: not one of them.
    fn act(
        &mut self,
        _action: Action,
        _selected: Option<(&str, &Self::Row)>,
        _world: &World,
    ) -> Option<Vec<Ask>> {
        None
    }
    /// Whether a key of its own does something now.
    fn allows(
        &self,
        _action: Action,
        _selected: Option<(&str, &Self::Row)>,
        _world: &World,
    ) -> bool {
        true
    }
    /// What it wants read.
    fn watch(&self, _views: &mut Views) {}
}

/// Where a row stands in its snapshot.
pub type Place = (usize, usize);

/// The pane of a [`Listing`].
#[derive(Default)]
pub struct ListPane<L> {
    browser: Browser,
    rows: Vec<Place>,
    listing: L,
}

impl<L: Listing> ListPane<L> {
    fn row<'a>(
        parts: &[(&'a str, &'a [L::Row])],
        place: Option<&Place>,
    ) -> Option<(&'a str, &'a L::Row)> {
        let (service, index) = place?;
        let (name, rows) = parts.get(*service)?;
        Some((name, rows.get(*index)?))
    }

    fn selected<'a>(&self, world: &'a World) -> Option<(&'a str, &'a L::Row)> {
        let index = self.browser.list.selected()?;
        Self::row(&L::parts(world), self.rows.get(index))
    }

    fn refresh_detail(&mut self, world: &World) {
        if self.browser.is_open {
            let lines = self
                .selected(world)
                .map(|(service, row)| L::detail(service, row, world))
                .unwrap_or_default();
            self.browser.doc.set(lines);
        }
    }
}

impl<L: Listing> Pane for ListPane<L> {
    fn sync(&mut self, world: &World) {
        let mut rows: Vec<(&str, &L::Row, Place)> = Vec::new();
        if !world.is_behind(L::FEED) {
            for (service, (name, part)) in L::parts(world).into_iter().enumerate() {
                rows.extend(
                    part.iter()
                        .enumerate()
                        .map(|(index, row)| (name, row, (service, index))),
                );
            }
        }
        let total = rows.len();
        rows.retain(|(service, row, _)| {
            self.browser
                .filter
                .matches(&InService { service, row: *row }, world.now)
        });
        L::sort(&mut rows, world);
        let ids = rows
            .iter()
            .map(|(service, row, _)| L::id(service, row))
            .collect();
        self.rows = rows.iter().map(|(_, _, place)| *place).collect();
        self.browser.sync(ids, total);
        self.refresh_detail(world);
    }

    fn settle(&mut self, area: Rect, world: &World) {
        self.browser.settle(Frame::cut(area, L::FEED, world).body);
    }

    fn draw(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let frame = Frame::cut(area, L::FEED, world);
        browser::headline(
            buf,
            frame.head,
            L::TITLE,
            &self.listing.summary(world),
            &self.browser.status(),
            world,
        );
        browser::problems(buf, browser::below(area, 1), L::FEED, world);
        let (list, detail) = self.browser.areas(frame.body);
        let parts = L::parts(world);
        Table {
            columns: L::COLUMNS,
            list: &self.browser.list,
            is_focused: self.browser.part == Part::List,
            theme: world.theme,
        }
        .draw(list, buf, |index| {
            Self::row(&parts, self.rows.get(index))
                .map(|(service, row)| L::cells(service, row, world))
                .unwrap_or_default()
        });
        if self.browser.list.is_empty() {
            let is_filtered = self.browser.total > 0;
            browser::empty(buf, list, L::FEED, L::NOTHING, is_filtered, world);
        }
        self.browser.draw_detail(detail, buf, world, L::DETAIL);
    }

    fn act(&mut self, action: Action, world: &World) -> Vec<Ask> {
        let selected = self
            .browser
            .list
            .selected()
            .and_then(|index| Self::row(&L::parts(world), self.rows.get(index)));
        let asks = if let Some(asks) = self.listing.act(action, selected, world) {
            if asks.contains(&Ask::Watch) {
                self.browser.reset();
            }
            asks
        } else {
            if self.browser.act(action) && action == Action::Back {
                self.sync(world);
            }
            Vec::new()
        };
        self.refresh_detail(world);
        asks
    }

    fn allows(&self, action: Action, world: &World) -> bool {
        self.listing.allows(action, self.selected(world), world)
    }

    fn click(&mut self, at: (u16, u16), area: Rect, world: &World) -> Vec<Ask> {
        self.browser
            .click(at, Frame::cut(area, L::FEED, world).body);
        self.refresh_detail(world);
        Vec::new()
    }

    fn watch(&self, views: &mut Views) {
        self.listing.watch(views);
    }

    fn subject(&self, world: &World) -> Option<String> {
        self.selected(world).and_then(|(_, row)| L::subject(row))
    }

    fn journey(&self, world: &World) -> Option<String> {
        self.selected(world).and_then(|(_, row)| L::journey(row))
    }

    fn export(&self, world: &World) -> Vec<Value> {
        let parts = L::parts(world);
        let has_marks = self.browser.list.marked() > 0;
        self.rows
            .iter()
            .enumerate()
            .filter(|(index, _)| !has_marks || self.browser.list.is_row_marked(*index))
            .filter_map(|(_, place)| Self::row(&parts, Some(place)))
            .filter_map(|(service, row)| {
                serde_json::to_value(row)
                    .ok()
                    .map(|row| super::with_service(service, row))
            })
            .collect()
    }

    fn filter_kind(&self) -> Option<FilterKind> {
        Some(L::KIND)
    }

    fn filter_text(&self) -> &str {
        &self.browser.filter_text
    }

    fn set_filter(&mut self, text: &str, filter: Filter, world: &World) {
        self.browser.set_filter(text, filter);
        self.sync(world);
    }

    fn land(&mut self, world: &World) {
        self.browser.list.land();
        self.sync(world);
    }

    fn is_in_detail(&self) -> bool {
        self.browser.part == Part::Detail
    }

    fn search(&mut self, needle: &str) -> bool {
        self.browser.doc.find(needle)
    }

    fn select(&mut self, id: &str, world: &World) {
        self.browser.select(id);
        self.sync(world);
    }
}
