//! One line of typing at the bottom of the pane: the filter, the search in a detail, the command bar;
//! with what may follow.

use crossterm::event::KeyEvent;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::model::filter::{Filter, FilterKind};
use crate::tui::keymap::Action;
use crate::tui::pane::PANES;
use crate::tui::theme::{Role, ThemeName};
use crate::tui::widget::field::Field;
use crate::tui::widget::paint::{self, Span, columns};
use crate::tui::world::World;

/// Completions shown at once.
const OFFERS_MAX: usize = 8;

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A filter of these rows.
    Filter(FilterKind),
    /// A text to be found in a detail.
    Search,
    /// A command.
    Command,
}

/// One way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The whole line with it.
    pub text: String,
    /// What is shown.
    pub shown: String,
    /// One line of help.
    pub help: String,
}

/// The line, what was there before, and what may follow.
#[derive(Clone, Debug)]
pub struct LineEdit {
    /// What is being typed.
    pub kind: Kind,
    field: Field,
    before: String,
    offers: Vec<Offer>,
    chosen: Option<usize>,
    problem: Option<String>,
    contexts: Vec<String>,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineStep {
    /// Nothing more.
    Stay,
    /// Close it, everything as before: the text that was there.
    Close(String),
    /// Take the text.
    Take(String),
}

/// A command of the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// What a key does.
    Key(Action),
    /// Set the filter.
    Filter,
    /// Another theme.
    Theme,
    /// Another context.
    Context,
    /// Replay, by event id when one is given.
    Replay,
}

/// Commands that are not panes: word, what it does, help.
const COMMANDS: &[(&str, Command, &str)] = &[
    (
        "replay",
        Command::Replay,
        "replay the row under the cursor, or an event id",
    ),
    (
        "repair",
        Command::Key(Action::Repair),
        "repair the dead letter under the cursor",
    ),
    (
        "discard",
        Command::Key(Action::Discard),
        "discard the dead letter under the cursor",
    ),
    (
        "release",
        Command::Key(Action::Release),
        "release the expired lease under the cursor",
    ),
    (
        "assign",
        Command::Key(Action::Assign),
        "set the owner of the dead letter",
    ),
    (
        "retry",
        Command::Key(Action::SagaRetry),
        "send the step of the saga under the cursor again",
    ),
    (
        "query",
        Command::Key(Action::SagaQuery),
        "ask what became of the saga's step",
    ),
    (
        "compensate",
        Command::Key(Action::SagaCompensate),
        "turn the saga under the cursor round",
    ),
    (
        "handled",
        Command::Key(Action::SagaHandled),
        "say that a person saw to the saga's step",
    ),
    (
        "take",
        Command::Key(Action::SagaAssign),
        "say who looks after the saga under the cursor",
    ),
    (
        "note",
        Command::Key(Action::Note),
        "write a note on the dead letter",
    ),
    (
        "filter",
        Command::Filter,
        "filter the rows: filter type:order.*",
    ),
    (
        "unlock",
        Command::Key(Action::Unlock),
        "unlock a production context, or lock it again",
    ),
    (
        "verify",
        Command::Key(Action::Verify),
        "check the audit chains",
    ),
    (
        "journey",
        Command::Key(Action::Journey),
        "the journey of what is under the cursor",
    ),
    (
        "export",
        Command::Key(Action::Export),
        "write the rows to a JSON file",
    ),
    (
        "copy",
        Command::Key(Action::Copy),
        "copy the id under the cursor",
    ),
    (
        "pause",
        Command::Key(Action::Pause),
        "stop or go on reading",
    ),
    ("refresh", Command::Key(Action::Refresh), "read now"),
    (
        "redraw",
        Command::Key(Action::Redraw),
        "draw everything anew",
    ),
    ("help", Command::Key(Action::Help), "the keys of this pane"),
    ("theme", Command::Theme, "theme dark, light, ansi or mono"),
    ("context", Command::Context, "open another context"),
    ("quit", Command::Key(Action::Quit), "leave"),
];

/// The command of a word, and the rest of the line.
pub fn command(text: &str) -> Option<(Command, &str)> {
    let text = text.trim();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Some(pane) = PANES
        .iter()
        .find(|spec| spec.word.replace('_', "-") == word.replace('_', "-"))
    {
        return Some((Command::Key(Action::Pane(pane.id)), rest.trim()));
    }
    let word = if word == "q" { "quit" } else { word };
    COMMANDS
        .iter()
        .find(|(name, ..)| *name == word)
        .map(|(_, command, _)| (*command, rest.trim()))
}

impl LineEdit {
    /// A line that starts with some text.
    pub fn new(kind: Kind, text: &str, contexts: &[String]) -> Self {
        let mut line = Self {
            kind,
            field: Field::with(text),
            before: text.to_owned(),
            offers: Vec::new(),
            chosen: None,
            problem: None,
            contexts: contexts.to_vec(),
        };
        line.offer();
        line
    }

    /// The text as typed.
    pub fn value(&self) -> &str {
        self.field.value()
    }

    /// Takes a key that is text.
    pub fn key(&mut self, key: KeyEvent) {
        self.field.key(key);
        self.typed();
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: &str) {
        self.field.paste(text);
        self.typed();
    }

    /// Says what is wrong with the text.
    pub fn refuse(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    fn typed(&mut self) {
        self.problem = None;
        self.chosen = None;
        self.offer();
    }

    fn offer(&mut self) {
        let typed = self.field.value().to_owned();
        self.offers = match self.kind {
            Kind::Search => Vec::new(),
            Kind::Filter(kind) => filter_offers(kind, &typed),
            Kind::Command => self.command_offers(&typed),
        };
    }

    fn command_offers(&self, typed: &str) -> Vec<Offer> {
        if let Some(begun) = typed.strip_prefix("theme ") {
            return ThemeName::ALL
                .iter()
                .filter(|(name, _)| name.starts_with(begun.trim()))
                .map(|(name, _)| offer(format!("theme {name}"), (*name).to_owned(), "theme"))
                .collect();
        }
        if let Some(begun) = typed.strip_prefix("context ") {
            return fuzzy(begun.trim(), self.contexts.iter().map(String::as_str))
                .into_iter()
                .map(|name| offer(format!("context {name}"), name.to_owned(), "context"))
                .collect();
        }
        if typed.contains(' ') {
            return Vec::new();
        }
        let words: Vec<(String, &str)> = PANES
            .iter()
            .map(|spec| (spec.word.replace('_', "-"), "go to this pane"))
            .chain(
                COMMANDS
                    .iter()
                    .filter(|(name, ..)| *name != "context" || !self.contexts.is_empty())
                    .map(|(name, _, help)| ((*name).to_owned(), *help)),
            )
            .collect();
        fuzzy(typed, words.iter().map(|(word, _)| word.as_str()))
            .into_iter()
            .map(|word| {
                let help = words
                    .iter()
                    .find(|(other, _)| other == word)
                    .map_or("", |(_, help)| *help);
                offer(word.to_owned(), word.to_owned(), help)
            })
            .collect()
    }

    /// Does what a key asks.
    pub fn act(&mut self, action: Action) -> LineStep {
        let count = self.offers.len().min(OFFERS_MAX);
        match action {
            Action::Back => return LineStep::Close(self.before.clone()),
            Action::Submit => {
                // In the command bar the offer that is on top is what Enter means.
                let is_partial =
                    self.kind == Kind::Command && command(self.field.value()).is_none();
                let chosen = self.chosen.or(is_partial.then_some(0));
                if let Some(offer) = chosen.and_then(|index| self.offers.get(index)) {
                    if self.kind == Kind::Command {
                        return LineStep::Take(offer.text.clone());
                    }
                    let text = offer.text.clone();
                    self.field.set(&text);
                    self.typed();
                    return LineStep::Stay;
                }
                return LineStep::Take(self.field.value().to_owned());
            }
            Action::Complete => {
                if let Some(offer) = self.offers.get(self.chosen.unwrap_or(0)) {
                    let text = match self.kind {
                        Kind::Command if !offer.text.contains(' ') => format!("{} ", offer.text),
                        _ => offer.text.clone(),
                    };
                    self.field.set(&text);
                    self.typed();
                }
            }
            Action::Down if count > 0 => {
                self.chosen = Some(self.chosen.map_or(0, |index| (index + 1) % count));
            }
            Action::Up if count > 0 => {
                self.chosen = Some(
                    self.chosen
                        .map_or(count - 1, |index| (index + count - 1) % count),
                );
            }
            _ => {}
        }
        LineStep::Stay
    }

    /// Draws the line at the bottom of the screen and its offers above it.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        if screen.height < 2 {
            return;
        }
        let y = screen.bottom() - 1;
        let row = Rect {
            y,
            height: 1,
            ..screen
        };
        paint::clear(buf, row);
        paint::shade(buf, row, world.theme.style(Role::Field));
        let sign = match self.kind {
            Kind::Filter(_) => " filter / ",
            Kind::Search => " search / ",
            Kind::Command => " : ",
        };
        let used = paint::put(buf, row.x, y, row.width, sign, world.theme.style(Role::Key));
        let problem_width = self
            .problem
            .as_ref()
            .map_or(0, |problem| columns(paint::width_of(problem)) + 3)
            .min(row.width * 2 / 3);
        let room = row.width.saturating_sub(used);
        let typed = columns(paint::width_of(self.field.value())) + 2;
        self.field.draw(
            Rect {
                x: row.x + used,
                width: if problem_width > 0 {
                    typed.min(room)
                } else {
                    room
                },
                ..row
            },
            buf,
            world.theme,
            true,
        );
        if let Some(problem) = &self.problem {
            let x = row.x + used + typed.min(room);
            paint::put(
                buf,
                x,
                y,
                row.right().saturating_sub(x),
                &format!(" ✖ {problem}"),
                world.theme.style(Role::Bad),
            );
        }
        self.draw_offers(screen, buf, world);
    }

    fn draw_offers(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        let count = self
            .offers
            .len()
            .min(OFFERS_MAX)
            .min(usize::from(screen.height.saturating_sub(4)));
        if count == 0 {
            return;
        }
        let rect = Rect {
            x: screen.x,
            y: screen.bottom() - 1 - columns(count),
            width: screen.width,
            height: columns(count),
        };
        paint::clear(buf, rect);
        paint::shade(buf, rect, world.theme.style(Role::SelectedAway));
        for (index, offer) in self.offers.iter().take(count).enumerate() {
            let y = rect.y + columns(index);
            let base = if self.chosen == Some(index) {
                world.theme.style(Role::Selected)
            } else {
                world.theme.style(Role::SelectedAway)
            };
            paint::shade(
                buf,
                Rect {
                    y,
                    height: 1,
                    ..rect
                },
                base,
            );
            paint::put_line(
                buf,
                (rect.x + 1, y),
                rect.width.saturating_sub(2),
                &[
                    Span::new(format!("{:<20} ", offer.shown), Role::Strong),
                    Span::new(offer.help.clone(), Role::Dim),
                ],
                world.theme,
                Some(base),
            );
        }
    }
}

fn offer(text: String, shown: String, help: &str) -> Offer {
    Offer {
        text,
        shown,
        help: help.to_owned(),
    }
}

fn filter_offers(kind: FilterKind, typed: &str) -> Vec<Offer> {
    Filter::completions(kind, typed)
        .into_iter()
        .map(|completion| offer(completion.text, completion.shown, completion.help))
        .collect()
}

/// The candidates that match, best first; all of them when nothing was typed.
fn fuzzy<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart)
        .match_list(candidates, &mut matcher)
        .into_iter()
        .map(|(candidate, _)| candidate)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_word_and_no_word_is_a_pane() {
        for (word, expected, _) in COMMANDS {
            assert_eq!(command(word).map(|(command, _)| command), Some(*expected));
            assert!(PANES.iter().all(|spec| spec.word != *word));
        }
        assert_eq!(command("replay 0197").map(|(_, rest)| rest), Some("0197"));
        assert_eq!(command("nonsense"), None);
    }

    #[test]
    fn a_few_letters_find_a_pane() {
        let mut line = LineEdit::new(Kind::Command, "", &[]);
        line.paste("dea");
        assert_eq!(
            line.act(Action::Submit),
            LineStep::Take("dead-letters".into())
        );
    }
}
