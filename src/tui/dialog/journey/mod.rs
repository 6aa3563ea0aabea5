//! The journey of an event, aggregate, saga or operation, over the pane: its lanes, one line a moment,
//! what is missing and what contradicts under them. The cursor goes through both; Enter goes to the
//! evidence.

#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::text::{cut, safe};
use crate::diagnose::journey::lanes::{Chart, chart};
use crate::diagnose::journey::{Evidence, Finding, Story, Tone, TraceError};
use crate::tui::event::Job;
use crate::tui::keymap::Action;
use crate::tui::pane::PaneId;
use crate::tui::pane::browser::{self, Browser};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, columns};
use crate::tui::world::World;

/// Lines of the cursor's whole words under the list.
const DETAIL: u16 = 2;

/// What a key made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JourneyStep {
    /// It stays.
    Stay,
    /// It closes.
    Close,
    /// It is read again.
    Again(String),
    /// Another pane, with the cursor on what shows it.
    Go(PaneId, String),
    /// An id for the clipboard.
    Copy(String),
    /// Nothing happened: why.
    Explain(String),
}

/// A row under the cursor: a moment or a finding.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    line: Line,
    whole: String,
    evidence: Option<Evidence>,
    event_id: Option<String>,
}

/// The view.
#[derive(Debug)]
pub struct Journey {
    /// Whose answer it waits for.
    pub job: Job,
    id: String,
    told: Option<Result<Box<Story>, TraceError>>,
    head: Vec<Line>,
    rows: Vec<Row>,
    cursor: usize,
    top: usize,
    size: (u16, u16),
}

impl Journey {
    /// A view that waits for its story.
    pub fn new(id: String, job: Job) -> Self {
        Self {
            job,
            id,
            told: None,
            head: Vec::new(),
            rows: Vec::new(),
            cursor: 0,
            top: 0,
            size: (0, 0),
        }
    }

    /// Waits for another answer; what is shown stays.
    pub fn wait(&mut self, job: Job) {
        self.job = job;
    }

    /// Takes the answer.
    pub fn take(&mut self, told: Result<Box<Story>, TraceError>) {
        self.told = Some(told);
        self.lay_out();
    }

    fn lay_out(&mut self) {
        self.head.clear();
        self.rows.clear();
        let Some(Ok(story)) = &self.told else { return };
        let width = usize::from(self.size.0.saturating_sub(4));
        let picture = chart(story, width);
        self.head = head(&picture);
        self.rows = rows(story, &picture);
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
    }

    /// Learns the size of the screen.
    pub fn settle(&mut self, screen: Rect) {
        // The bottom line stays: it says which keys work.
        let size = (screen.width, screen.height.saturating_sub(1));
        if self.size != size {
            self.size = size;
            self.lay_out();
        }
        let height = self.room();
        if self.cursor < self.top {
            self.top = self.cursor;
        } else if self.cursor >= self.top + height {
            self.top = self.cursor + 1 - height;
        }
        self.top = self.top.min(self.rows.len().saturating_sub(height));
    }

    /// Rows that are visible at once.
    fn room(&self) -> usize {
        let taken = columns(self.head.len()) + DETAIL + 3;
        usize::from(self.size.1.saturating_sub(taken).max(1))
    }

    fn step(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.cursor = self.cursor.saturating_add_signed(by).min(last);
    }

    /// Does what a key asks.
    pub fn act(&mut self, action: Action) -> JourneyStep {
        let page = isize::try_from(self.room()).unwrap_or(1);
        match action {
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-page),
            Action::PageDown => self.step(page),
            Action::First => self.cursor = 0,
            Action::Last => self.cursor = self.rows.len().saturating_sub(1),
            Action::Back => return JourneyStep::Close,
            Action::Refresh => return JourneyStep::Again(self.id.clone()),
            Action::Copy => return self.copy(),
            Action::Enter => return self.go(),
            _ => {}
        }
        JourneyStep::Stay
    }

    fn copy(&self) -> JourneyStep {
        let row = self.rows.get(self.cursor);
        let id = row.and_then(|row| {
            let evidence = row.evidence.as_ref().map(|evidence| evidence.id.clone());
            row.event_id.clone().or(evidence)
        });
        JourneyStep::Copy(id.unwrap_or_else(|| self.id.clone()))
    }

    fn go(&self) -> JourneyStep {
        let row = self.rows.get(self.cursor);
        let Some((row, evidence)) = row.and_then(|row| Some((row, row.evidence.as_ref()?))) else {
            return JourneyStep::Explain("nothing more is stored of this line".to_owned());
        };
        let in_service = || match &evidence.service {
            Some(service) => format!("{service}/{}", evidence.id),
            None => evidence.id.clone(),
        };
        match evidence.place {
            "outbox" => JourneyStep::Go(PaneId::Outbox, format!("event:{}", evidence.id)),
            "dead_letters" => JourneyStep::Go(
                PaneId::DeadLetters,
                row.event_id
                    .as_ref()
                    .map_or_else(in_service, |id| format!("event:{id}")),
            ),
            "operations" => JourneyStep::Go(PaneId::Operations, in_service()),
            "sagas" => JourneyStep::Go(PaneId::Sagas, in_service()),
            "queues" => JourneyStep::Go(PaneId::Queues, evidence.id.clone()),
            _ => JourneyStep::Explain(
                "the inbox row is all there is: consumer, event, time and digest".to_owned(),
            ),
        }
    }

    /// Draws itself.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        paint::clear(buf, screen);
        let title = format!("Journey of {}", safe(&self.id));
        paint::boxed_as(buf, screen, &title, world.theme, Role::Accent);
        let inside = Browser::inside(screen);
        match &self.told {
            None => {
                let line = paint::line("reading the tables of every service …", Role::Dim);
                put(buf, inside, 0, &line, world);
            }
            Some(Err(error)) => {
                let lines =
                    crate::tui::dialog::form::wrap(&error.to_string(), usize::from(inside.width));
                for (row, text) in lines.into_iter().enumerate() {
                    put(buf, inside, row, &paint::line(text, Role::Bad), world);
                }
            }
            Some(Ok(_)) => self.draw_story(screen, inside, buf, world),
        }
    }

    fn draw_story(&self, screen: Rect, inside: Rect, buf: &mut Buffer, world: &World) {
        for (row, line) in self.head.iter().enumerate() {
            put(buf, inside, row, line, world);
        }
        let from = self.head.len();
        let room = self.room();
        for (offset, row) in self.rows.iter().skip(self.top).take(room).enumerate() {
            let y = from + offset;
            if self.top + offset == self.cursor {
                let area = Rect {
                    y: inside.y + columns(y),
                    height: 1,
                    ..inside
                };
                let style = world.theme.style(Role::Selected);
                paint::shade(buf, area, style);
                let at = (area.x, area.y);
                paint::put_line(buf, at, area.width, &row.line, world.theme, Some(style));
            } else {
                put(buf, inside, y, &row.line, world);
            }
        }
        if let Some(row) = self.rows.get(self.cursor) {
            let width = usize::from(inside.width);
            let lines = crate::tui::dialog::form::wrap(&row.whole, width);
            let first = usize::from(inside.height.saturating_sub(DETAIL));
            for (offset, text) in lines.into_iter().take(usize::from(DETAIL)).enumerate() {
                put(
                    buf,
                    inside,
                    first + offset,
                    &paint::line(text, Role::Dim),
                    world,
                );
            }
        }
        if self.rows.len() > room {
            let position = format!("{}/{}", self.cursor + 1, self.rows.len());
            browser::corner(buf, screen, &position, world);
        }
    }
}

fn put(buf: &mut Buffer, inside: Rect, row: usize, line: &Line, world: &World) {
    let y = inside.y + columns(row);
    if y < inside.bottom() {
        paint::put_line(buf, (inside.x, y), inside.width, line, world.theme, None);
    }
}

const fn role(tone: Tone) -> Role {
    match tone {
        Tone::Plain => Role::Text,
        Tone::Good => Role::Good,
        Tone::Warn => Role::Warn,
        Tone::Bad => Role::Bad,
    }
}

fn head(picture: &Chart) -> Vec<Line> {
    let head = picture
        .head
        .iter()
        .map(|(tone, text)| paint::line(text.clone(), role(*tone)));
    let names = picture
        .names
        .iter()
        .map(|text| paint::line(text.clone(), Role::Accent));
    head.chain(names).collect()
}

fn rows(story: &Story, picture: &Chart) -> Vec<Row> {
    let moments = picture.rows.iter().filter_map(|row| {
        let moment = story.moments.get(row.moment)?;
        let recorded = if moment.recorded_at == moment.at {
            String::new()
        } else {
            format!(" · recorded {}", moment.recorded_at.to_rfc3339())
        };
        Some(Row {
            line: vec![
                Span::new(row.times.clone(), Role::Dim),
                Span::new(row.art.clone(), role(row.tone)),
                Span::new(row.text.clone(), role(row.tone)),
            ],
            whole: format!("{}{recorded}{}", row.text, told(moment.evidence.as_ref())),
            evidence: moment.evidence.clone(),
            event_id: moment.event_id.as_ref().map(ToString::to_string),
        })
    });
    let finding = |mark: &str, tone: Tone, finding: &Finding| Row {
        line: paint::line(format!("{mark} {}", safe(&finding.text)), role(tone)),
        whole: format!("{}{}", safe(&finding.text), told(finding.evidence.as_ref())),
        evidence: finding.evidence.clone(),
        event_id: finding.event_id.as_ref().map(ToString::to_string),
    };
    let plain = |tone: Tone, text: &str| Row {
        line: paint::line(text.to_owned(), role(tone)),
        whole: text.to_owned(),
        evidence: None,
        event_id: None,
    };
    let conflicts = story.conflicts.iter();
    let gaps = story.gaps.iter();
    let unread = story.unread.iter().map(|unread| {
        let text = format!("? not read: {}: {}", unread.what, unread.reason);
        plain(Tone::Bad, &safe(&text))
    });
    let found = story.conflicts.len() + story.gaps.len();
    // The chart's own foot has the findings first; they stand above with their evidence.
    let notes = picture
        .foot
        .iter()
        .skip(found)
        .map(|(tone, text)| plain(*tone, text));
    moments
        .chain(conflicts.map(|f| finding("✖ conflict:", Tone::Bad, f)))
        .chain(gaps.map(|f| finding("! gap:", Tone::Warn, f)))
        .chain(unread)
        .chain(notes)
        .collect()
}

fn told(evidence: Option<&Evidence>) -> String {
    evidence.map_or_else(String::new, |evidence| {
        let of = evidence
            .service
            .as_ref()
            .map_or_else(String::new, |service| format!(" of {service}"));
        let place = evidence.place.replace('_', " ");
        format!(" · in {place}{of}: {}", cut(&safe(&evidence.id), 40))
    })
}
