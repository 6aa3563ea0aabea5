//! A list and the detail of its row: what most panes are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::config::{Context, Service};
use crate::model::filter::Filter;
use crate::tui::dialog::form::wrap;
use crate::tui::keymap::Action;
use crate::tui::theme::Role;
use crate::tui::widget::doc::Doc;
use crate::tui::widget::list::ListState;
use crate::tui::widget::paint::{self, Line, Span};
use crate::tui::widget::table::Table;
use crate::tui::world::World;

/// Which part the keys go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The list.
    #[default]
    List,
    /// The detail.
    Detail,
}

/// Rows a detail needs to be worth showing.
const DETAIL_MIN: u16 = 5;

/// List, detail, filter and where the keys go.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    /// Cursor and marks.
    pub list: ListState,
    /// The detail's text.
    pub doc: Doc,
    /// Where the keys go.
    pub part: Part,
    /// True when the detail is shown.
    pub is_open: bool,
    /// The filter in force.
    pub filter: Filter,
    /// The filter as typed.
    pub filter_text: String,
    /// Rows before filtering.
    pub total: usize,
    /// An id to go to as soon as it has been read.
    wanted: Option<String>,
}

impl Browser {
    /// Takes the ids of the rows that passed the filter, and how many there were before.
    pub fn sync(&mut self, ids: Vec<String>, total: usize) {
        self.total = total;
        self.list.sync(ids);
        if let Some(wanted) = self.wanted.take()
            && !self.list.select(&wanted)
        {
            self.wanted = Some(wanted);
        }
    }

    /// Puts the cursor on an id, now or when it has been read.
    pub fn select(&mut self, id: &str) {
        if !self.list.select(id) {
            self.wanted = Some(id.to_owned());
        }
    }

    /// Another list is shown: forgets cursor and marks.
    pub fn reset(&mut self) {
        self.list.reset();
        self.doc.rewind();
    }

    /// Sets the filter.
    pub fn set_filter(&mut self, text: &str, filter: Filter) {
        text.clone_into(&mut self.filter_text);
        self.filter = filter;
    }

    /// Moves, opens, closes. `true` when the key was for it; the caller then makes the detail anew.
    pub fn act(&mut self, action: Action) -> bool {
        match (self.part, action) {
            (_, Action::Enter) if self.part == Part::List => {
                if self.list.selected().is_some() {
                    self.is_open = true;
                    self.part = Part::Detail;
                    self.doc.rewind();
                }
            }
            (_, Action::NextFocus | Action::PreviousFocus) => {
                if self.is_open {
                    self.part = match self.part {
                        Part::List => Part::Detail,
                        Part::Detail => Part::List,
                    };
                } else if self.list.selected().is_some() {
                    self.is_open = true;
                    self.part = Part::Detail;
                }
            }
            (Part::Detail, Action::Back) => self.part = Part::List,
            (Part::List, Action::Back) => {
                if self.is_open {
                    self.is_open = false;
                } else if !self.list.clear_marks() && !self.filter_text.is_empty() {
                    self.set_filter("", Filter::default());
                }
            }
            (Part::Detail, Action::Up) => self.doc.move_by(-1),
            (Part::Detail, Action::Down) => self.doc.move_by(1),
            (Part::Detail, Action::PageUp) => self.doc.page_by(-1),
            (Part::Detail, Action::PageDown) => self.doc.page_by(1),
            (Part::Detail, Action::First) => self.doc.move_by(isize::MIN + 1),
            (Part::Detail, Action::Last) => self.doc.move_by(isize::MAX),
            (Part::List, Action::Mark) => self.list.toggle_mark(),
            (Part::List, action) => {
                let before = self.list.selected_id().map(str::to_owned);
                match action {
                    Action::Up => self.list.move_by(-1),
                    Action::Down => self.list.move_by(1),
                    Action::PageUp => self.list.page_by(-1),
                    Action::PageDown => self.list.page_by(1),
                    Action::First => self.list.select_index(0),
                    Action::Last => self.list.select_index(usize::MAX),
                    _ => return false,
                }
                if self.list.selected_id() != before.as_deref() {
                    self.doc.rewind();
                }
            }
            _ => return false,
        }
        true
    }

    /// List and detail of a body.
    pub fn areas(&self, body: Rect) -> (Rect, Rect) {
        if !self.is_open || body.height < DETAIL_MIN + 3 {
            // Too low for both: the part that has the keys is shown.
            return match self.part {
                Part::Detail if self.is_open => (Rect { height: 0, ..body }, body),
                _ => (body, Rect { height: 0, ..body }),
            };
        }
        let detail = (body.height * 11 / 20).max(DETAIL_MIN);
        let (list, detail) = paint::split_top(body, body.height - detail);
        (list, detail)
    }

    /// Learns the size of its body.
    pub fn settle(&mut self, body: Rect) {
        let (list, detail) = self.areas(body);
        self.list.set_height(Table::rows_in(list));
        self.doc.settle(Self::inside(detail));
    }

    /// The text's place inside of the detail's box.
    pub fn inside(detail: Rect) -> Rect {
        Rect {
            x: detail.x.saturating_add(2),
            y: detail.y.saturating_add(1),
            width: detail.width.saturating_sub(4),
            height: detail.height.saturating_sub(2),
        }
    }

    /// Draws the detail's box and text.
    pub fn draw_detail(&self, detail: Rect, buf: &mut Buffer, world: &World, title: &str) {
        if detail.height < 3 {
            return;
        }
        let border = if self.part == Part::Detail {
            Role::Accent
        } else {
            Role::Border
        };
        paint::boxed_as(buf, detail, title, world.theme, border);
        self.doc.draw(Self::inside(detail), buf, world.theme);
        corner(buf, detail, &self.doc.position(), world);
    }

    /// A click: the row under it, or the detail.
    pub fn click(&mut self, at: (u16, u16), body: Rect) {
        let (list, detail) = self.areas(body);
        if detail.height > 0 && at.1 >= detail.y {
            self.part = Part::Detail;
        } else if let Some(index) = Table::row_at(&self.list, list, at.1) {
            self.part = Part::List;
            if self.list.selected() == Some(index) {
                self.act(Action::Enter);
            } else {
                self.list.select_index(index);
                self.doc.rewind();
            }
        }
    }

    /// What stands at the right of a pane's headline: filter and position.
    pub fn status(&self) -> Line {
        let mut line = Line::new();
        if !self.filter_text.is_empty() {
            line.push(Span::new("filter ", Role::Dim));
            line.push(Span::new(self.filter_text.clone(), Role::Warn));
            line.push(Span::new(
                format!(" {} of {}  ", self.list.len(), self.total),
                Role::Dim,
            ));
        }
        if self.list.marked() > 0 {
            line.push(Span::new(
                format!("{} marked  ", self.list.marked()),
                Role::Warn,
            ));
        }
        if self.list.is_gone() {
            line.push(Span::new("the row left this list  ", Role::Warn));
        }
        if !self.list.is_empty() {
            line.push(Span::new(self.list.position(), Role::Dim));
        }
        line
    }
}

/// Text in the lower right corner of a box.
pub fn corner(buf: &mut Buffer, area: Rect, text: &str, world: &World) {
    if text.is_empty() || area.height == 0 {
        return;
    }
    let text = format!(" {text} ");
    let width = paint::columns(paint::width_of(&text));
    if width + 2 <= area.width {
        paint::put(
            buf,
            area.right() - 1 - width,
            area.bottom() - 1,
            width,
            &text,
            world.theme.style(Role::Dim),
        );
    }
}

/// Draws a pane's headline: title, summary, and at the right its status.
pub fn headline(
    buf: &mut Buffer,
    area: Rect,
    title: &str,
    summary: &[Span],
    status: &[Span],
    world: &World,
) {
    if area.height == 0 {
        return;
    }
    let room = area.width.saturating_sub(2);
    let wanted = paint::columns(paint::line_width(status));
    let right = if wanted + 20 <= room { wanted } else { 0 };
    let mut line = vec![Span::new(format!("{title}   "), Role::Strong)];
    line.extend_from_slice(summary);
    paint::put_line(
        buf,
        (area.x + 1, area.y),
        room.saturating_sub(right + u16::from(right > 0)),
        &line,
        world.theme,
        None,
    );
    if right > 0 {
        paint::put_line(
            buf,
            (area.right() - 1 - right, area.y),
            right,
            status,
            world.theme,
            None,
        );
    }
}

/// Draws what a feed could not read, worst first, at most three lines; returns the area left.
pub fn problems(buf: &mut Buffer, area: Rect, feed: &str, world: &World) -> Rect {
    let lines = problem_lines(feed, area.width, world);
    let (top, rest) = paint::split_top(area, problem_rows(area, feed, world));
    for (offset, text) in lines.iter().take(usize::from(top.height)).enumerate() {
        let y = top.y + paint::columns(offset);
        paint::put(
            buf,
            top.x + 1,
            y,
            top.width.saturating_sub(2),
            text,
            world.theme.style(Role::Bad),
        );
    }
    if lines.len() > usize::from(top.height) && top.height > 0 {
        paint::put(
            buf,
            top.right().saturating_sub(2),
            top.bottom() - 1,
            1,
            "…",
            world.theme.style(Role::Bad),
        );
    }
    rest
}

/// The problems of a feed, wrapped: the end of a sentence says how old the data is.
fn problem_lines(feed: &str, width: u16, world: &World) -> Vec<String> {
    let width = usize::from(width.saturating_sub(5)).max(10);
    world
        .problems(feed)
        .iter()
        .flat_map(|text| {
            wrap(text, width)
                .into_iter()
                .enumerate()
                .map(|(row, text)| format!("{} {text}", if row == 0 { "✖" } else { " " }))
        })
        .collect()
}

/// An area without its first rows.
pub fn below(area: Rect, rows: u16) -> Rect {
    paint::split_top(area, rows).1
}

/// How many rows [`problems`] takes.
pub fn problem_rows(area: Rect, feed: &str, world: &World) -> u16 {
    paint::columns(problem_lines(feed, area.width, world).len())
        .min(3)
        .min(area.height.saturating_sub(3))
}

/// Headline, problems and body of a pane.
pub struct Frame {
    /// The first line.
    pub head: Rect,
    /// Everything below headline and problems.
    pub body: Rect,
}

impl Frame {
    /// Cuts a pane's area; `settle` and `draw` must agree, so both ask here.
    pub fn cut(area: Rect, feed: &str, world: &World) -> Self {
        let (head, rest) = paint::split_top(area, 1);
        let (_, body) = paint::split_top(rest, problem_rows(rest, feed, world));
        Self { head, body }
    }
}

/// The part of a service a feed reads, if no service of the context has it: then an empty list
/// says nothing about the pipeline.
pub fn not_configured(feed: &str, context: &Context) -> Option<&'static str> {
    let has = |is_there: fn(&Service) -> bool| context.services.iter().any(is_there);
    let (part, is_there) = match feed {
        "outbox" | "leases" => ("an outbox", has(|service| service.outbox.is_some())),
        "dead_letters" => (
            "dead letters",
            has(|service| service.dead_letters.is_some()),
        ),
        "sagas" => ("sagas", has(|service| service.sagas.is_some())),
        _ => return None,
    };
    (!is_there).then_some(part)
}

/// What an empty list says instead of rows.
pub fn empty(
    buf: &mut Buffer,
    area: Rect,
    feed: &str,
    nothing: &str,
    is_filtered: bool,
    world: &World,
) {
    if area.height < 2 {
        return;
    }
    let standing = world.readings.standing(feed);
    let (text, role) = if standing.is_waiting || world.is_behind(feed) {
        ("reading …".to_owned(), Role::Dim)
    } else if standing.read_at.is_none() {
        ("? nothing could be read".to_owned(), Role::Unknown)
    } else if let Some(part) = not_configured(feed, &world.context) {
        (
            format!("no service of this context has {part}: nothing is looked at here"),
            Role::Unknown,
        )
    } else if is_filtered {
        (
            "no row passes the filter; Esc clears it".to_owned(),
            Role::Warn,
        )
    } else if standing.problem.is_some() || !standing.unread.is_empty() {
        (
            "? not everything could be read: this is not \"none\"".to_owned(),
            Role::Unknown,
        )
    } else {
        (nothing.to_owned(), Role::Dim)
    };
    let y = area.y + (area.height / 3).max(1).min(area.height - 1);
    paint::put(
        buf,
        area.x + 3,
        y,
        area.width.saturating_sub(4),
        &text,
        world.theme.style(role),
    );
}

/// `label  value` lines of a detail, the labels padded to one width.
pub struct Facts {
    lines: Vec<Line>,
    width: usize,
}

impl Facts {
    /// Labels padded to `width`.
    pub const fn new(width: usize) -> Self {
        Self {
            lines: Vec::new(),
            width,
        }
    }

    /// Adds a fact.
    pub fn add(&mut self, label: &str, value: impl Into<String>) -> &mut Self {
        self.add_as(label, value, Role::Text)
    }

    /// Adds a fact with a role of its own.
    pub fn add_as(&mut self, label: &str, value: impl Into<String>, role: Role) -> &mut Self {
        let width = self.width;
        self.lines.push(vec![
            Span::new(format!("{label:<width$}  "), Role::Dim),
            Span::new(value, role),
        ]);
        self
    }

    /// Adds a fact that may not be known.
    pub fn add_or(&mut self, label: &str, value: Option<impl Into<String>>) -> &mut Self {
        match value {
            Some(value) => self.add(label, value),
            None => self.add_as(label, "?", Role::Unknown),
        }
    }

    /// Adds a fact only when there is one.
    pub fn add_some(&mut self, label: &str, value: Option<impl Into<String>>) -> &mut Self {
        if let Some(value) = value {
            self.add(label, value);
        }
        self
    }

    /// Adds a line of its own.
    pub fn line(&mut self, line: Line) -> &mut Self {
        self.lines.push(line);
        self
    }

    /// The lines.
    pub fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }
}

/// A known number, or `?`.
pub fn known(value: Option<impl ToString>) -> Span {
    match value {
        Some(value) => Span::new(value.to_string(), Role::Text),
        None => Span::new("?", Role::Unknown),
    }
}

/// The head and tail of a long id: `0197c3f2…a1`.
pub fn short_id(id: &str) -> String {
    let count = id.chars().count();
    if count <= 13 {
        return id.to_owned();
    }
    let head: String = id.chars().take(8).collect();
    let tail: String = id.chars().skip(count - 4).collect();
    format!("{head}…{tail}")
}
