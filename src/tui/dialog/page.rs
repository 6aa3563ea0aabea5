//! Something to read over the pane: help, what an audit check found.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::model::filter::{Filter, FilterKind};
use crate::tui::keymap::{self, Action, Scope};
use crate::tui::pane::browser;
use crate::tui::theme::Role;
use crate::tui::widget::doc::Doc;
use crate::tui::widget::paint::{self, Line, Span, columns, line};
use crate::tui::world::World;

/// A titled text.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    doc: Doc,
    lines: usize,
}

impl Page {
    /// A page.
    pub fn new(title: impl Into<String>, lines: Vec<Line>) -> Self {
        let mut doc = Doc::default();
        let count = lines.len();
        doc.set(lines);
        Self {
            title: title.into(),
            doc,
            lines: count,
        }
    }

    /// The keys of a pane, those of everywhere, and its filter fields: all from the tables that
    /// drive them.
    pub fn help(title: &str, scope: Scope, filter: Option<FilterKind>) -> Self {
        let mut lines = Vec::new();
        for (of, heading) in Scope::ALL {
            let is_here = of == scope || of == Scope::Everywhere || of == Scope::Plan;
            let bindings: Vec<_> = keymap::of(&[of]).collect();
            if !is_here || bindings.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(Line::new());
            }
            lines.push(line(heading, Role::Accent));
            for binding in bindings {
                lines.push(vec![
                    Span::new(format!("  {:<22}", binding.keys_text()), Role::Key),
                    Span::new(binding.help, Role::Text),
                ]);
            }
        }
        // The pane's own keys come first: that is what one looks for.
        if let Some(start) = lines
            .iter()
            .position(|line| line.first().is_some_and(|span| is_heading_of(span, scope)))
        {
            let end = lines[start..]
                .iter()
                .position(Line::is_empty)
                .map_or(lines.len(), |length| start + length);
            let mut own: Vec<Line> = lines.drain(start..end).collect();
            own.push(Line::new());
            lines.splice(0..0, own);
        }
        if let Some(kind) = filter {
            lines.push(Line::new());
            lines.push(line(
                "Filter fields of this pane   type:order.created age>10m !owner:mia error~timeout \"two words\"",
                Role::Accent,
            ));
            for field in Filter::known_fields(kind) {
                lines.push(vec![
                    Span::new(format!("  {:<22}", field.name), Role::Key),
                    Span::new(field.help, Role::Text),
                ]);
            }
        }
        Self::new(format!("Help: {title}"), lines)
    }

    fn rect(&self, screen: Rect) -> Rect {
        let height = columns(self.lines).saturating_add(2);
        paint::centred(
            screen,
            screen.width.saturating_sub(4).min(110),
            height.min(screen.height.saturating_sub(2)).max(3),
        )
    }

    /// Learns the size of the screen.
    pub fn settle(&mut self, screen: Rect) {
        let rect = self.rect(screen);
        self.doc.settle(browser::Browser::inside(rect));
    }

    /// Scrolls; `true` when it is to be closed.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Up => self.doc.move_by(-1),
            Action::Down => self.doc.move_by(1),
            Action::PageUp => self.doc.page_by(-1),
            Action::PageDown => self.doc.page_by(1),
            Action::First => self.doc.move_by(isize::MIN + 1),
            Action::Last => self.doc.move_by(isize::MAX),
            Action::Back => return true,
            _ => {}
        }
        false
    }

    /// Draws itself.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        let rect = self.rect(screen);
        paint::clear(buf, rect);
        paint::boxed_as(buf, rect, &self.title, world.theme, Role::Accent);
        self.doc
            .draw(browser::Browser::inside(rect), buf, world.theme);
        browser::corner(buf, rect, &self.doc.position(), world);
    }
}

fn is_heading_of(span: &Span, scope: Scope) -> bool {
    scope != Scope::Everywhere
        && Scope::ALL
            .iter()
            .any(|(of, heading)| *of == scope && span.text == *heading)
}
