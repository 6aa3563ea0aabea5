//! A few text fields: unlocking a production context, owner and note of a dead letter, overriding a
//! refusal in words.

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::human;
use crate::model::ids::DeadLetterId;
use crate::operate::plan::Request;
use crate::tui::event::Effect;
use crate::tui::keymap::Action;
use crate::tui::pane::Annotation;
use crate::tui::theme::Role;
use crate::tui::widget::field::Field;
use crate::tui::widget::paint::{self, Span, columns};
use crate::tui::world::World;

/// What the fields are for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Unlock the context.
    Unlock,
    /// Owner or note of a dead letter.
    Annotate {
        /// Its service.
        service: String,
        /// Which.
        id: DeadLetterId,
        /// What is set.
        what: Annotation,
    },
    /// Ignore a refusal of a replay.
    Override {
        /// The replay.
        request: Request,
        /// Names of the checks that may be overridden.
        checks: Vec<String>,
    },
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum FormStep {
    /// Nothing more.
    Stay,
    /// Close it, nothing is done.
    Close,
    /// Close it and do that.
    Send(Effect),
    /// Close it and plan that.
    Plan(Request),
}

/// A small dialog of text fields.
#[derive(Clone, Debug)]
pub struct Form {
    purpose: Purpose,
    title: String,
    words: Vec<String>,
    fields: Vec<(&'static str, Field)>,
    focus: usize,
    problem: Option<String>,
}

impl Form {
    /// Asks for the context's name and a reason.
    pub fn unlock(world: &World) -> Self {
        let context = &world.context;
        Self {
            purpose: Purpose::Unlock,
            title: format!("Unlock {}", context.name),
            words: vec![
                format!(
                    "{} is a {} context: it opens locked. Unlocked for {}, and the audit log keeps who and why.",
                    context.name,
                    context.environment.word(),
                    human::duration(context.unlock)
                ),
                "Every action is still planned and confirmed one by one.".to_owned(),
            ],
            fields: vec![
                ("context name", Field::default()),
                ("reason", Field::default()),
            ],
            focus: 0,
            problem: None,
        }
    }

    /// Asks for an owner or a note.
    pub fn annotate(service: String, id: DeadLetterId, what: Annotation, current: &str) -> Self {
        let (title, label) = match what {
            Annotation::Owner => ("Who takes care of it", "owner"),
            Annotation::Note => ("Note", "note"),
        };
        Self {
            purpose: Purpose::Annotate { service, id, what },
            title: title.to_owned(),
            words: Vec::new(),
            fields: vec![(label, Field::with(current))],
            focus: 0,
            problem: None,
        }
    }

    /// Asks for the name of the check that is to be ignored.
    pub fn overriding(request: Request, checks: Vec<String>, reasons: Vec<String>) -> Self {
        let mut words = reasons;
        words.push(format!(
            "Type the name of the check to ignore it: {}",
            checks.join(", ")
        ));
        Self {
            purpose: Purpose::Override { request, checks },
            title: "Override a refusal".to_owned(),
            words,
            fields: vec![("check", Field::default())],
            focus: 0,
            problem: None,
        }
    }

    fn field_mut(&mut self) -> Option<&mut Field> {
        self.fields.get_mut(self.focus).map(|(_, field)| field)
    }

    /// Takes a key that is text.
    pub fn key(&mut self, key: KeyEvent) {
        self.problem = None;
        if let Some(field) = self.field_mut() {
            field.key(key);
        }
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: &str) {
        if let Some(field) = self.field_mut() {
            field.paste(text);
        }
    }

    /// Does what a key asks. `is_enter` tells Enter from Tab: only Enter on the last field sends.
    pub fn act(&mut self, action: Action, is_enter: bool, world: &World) -> FormStep {
        match action {
            Action::Back => return FormStep::Close,
            Action::PreviousFocus => self.focus = self.focus.saturating_sub(1),
            Action::NextFocus if self.focus + 1 < self.fields.len() => self.focus += 1,
            Action::NextFocus if is_enter => return self.send(world),
            Action::NextFocus => self.focus = 0,
            _ => {}
        }
        FormStep::Stay
    }

    fn value(&self, index: usize) -> String {
        self.fields
            .get(index)
            .map(|(_, field)| field.value().trim().to_owned())
            .unwrap_or_default()
    }

    fn refuse(&mut self, problem: &str, focus: usize) -> FormStep {
        self.problem = Some(problem.to_owned());
        self.focus = focus;
        FormStep::Stay
    }

    fn send(&mut self, world: &World) -> FormStep {
        match self.purpose.clone() {
            Purpose::Unlock => {
                let (context_name, reason) = (self.value(0), self.value(1));
                if context_name != world.context.name {
                    return self.refuse("that is not the context's name", 0);
                }
                if reason.is_empty() {
                    return self.refuse("a reason is needed", 1);
                }
                FormStep::Send(Effect::Unlock {
                    context_name,
                    reason,
                })
            }
            Purpose::Annotate { service, id, what } => {
                let text = self.value(0);
                let (owner, note) = match what {
                    Annotation::Owner => (Some(text), None),
                    Annotation::Note => (None, Some(text)),
                };
                FormStep::Send(Effect::Annotate {
                    service,
                    id,
                    owner,
                    note,
                })
            }
            Purpose::Override {
                mut request,
                checks,
            } => {
                let typed = self.value(0);
                if !checks.contains(&typed) {
                    return self.refuse("that is none of these checks", 0);
                }
                if let Request::Replay { overrides, .. } = &mut request
                    && !overrides.contains(&typed)
                {
                    overrides.push(typed);
                }
                FormStep::Plan(request)
            }
        }
    }

    /// Draws itself.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        let width = screen.width.saturating_sub(4).min(90);
        let inner_width = usize::from(width.saturating_sub(4)).max(1);
        let mut words: Vec<String> = Vec::new();
        for text in &self.words {
            words.extend(wrap(text, inner_width));
        }
        let height = columns(words.len() + self.fields.len()) + 5;
        let rect = paint::centred(screen, width, height);
        paint::clear(buf, rect);
        paint::boxed_as(buf, rect, &self.title, world.theme, Role::Accent);
        let inner = paint::inset(
            Rect {
                y: rect.y + 1,
                height: rect.height.saturating_sub(2),
                ..rect
            },
            2,
        );
        let mut y = inner.y;
        let next = |y: &mut u16| {
            let at = *y;
            *y += 1;
            (at < inner.bottom()).then_some(at)
        };
        for text in &words {
            if let Some(y) = next(&mut y) {
                paint::put(
                    buf,
                    inner.x,
                    y,
                    inner.width,
                    text,
                    world.theme.style(Role::Text),
                );
            }
        }
        for (index, (label, field)) in self.fields.iter().enumerate() {
            if let Some(y) = next(&mut y) {
                draw_field(
                    buf,
                    Rect {
                        y,
                        height: 1,
                        ..inner
                    },
                    label,
                    field,
                    self.focus == index,
                    world,
                );
            }
        }
        if let Some(y) = next(&mut y) {
            let (text, role) = match &self.problem {
                Some(problem) => (format!("✖ {problem}"), Role::Bad),
                None => (String::new(), Role::Dim),
            };
            paint::put(buf, inner.x, y, inner.width, &text, world.theme.style(role));
        }
        if let Some(y) = next(&mut y) {
            paint::put_line(
                buf,
                (inner.x, y),
                inner.width,
                &[
                    Span::new("Enter", Role::Key),
                    Span::new(" next, then done   ", Role::Dim),
                    Span::new("Esc", Role::Key),
                    Span::new(" cancel", Role::Dim),
                ],
                world.theme,
                None,
            );
        }
    }
}

/// Draws `label  text`.
pub fn draw_field(
    buf: &mut Buffer,
    area: Rect,
    label: &str,
    field: &Field,
    is_focused: bool,
    world: &World,
) {
    let style = world
        .theme
        .style(if is_focused { Role::Key } else { Role::Dim });
    let marker = if is_focused { "▸" } else { " " };
    paint::put(buf, area.x, area.y, 1, marker, style);
    let used = paint::put(
        buf,
        area.x + 1,
        area.y,
        area.width.saturating_sub(1),
        &format!("{label:<13}"),
        style,
    ) + 1;
    field.draw(
        Rect {
            x: area.x + used,
            width: area.width.saturating_sub(used),
            ..area
        },
        buf,
        world.theme,
        is_focused,
    );
}

/// Words in lines of at most `width` columns.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let needed = paint::width_of(word) + usize::from(!line.is_empty());
        if !line.is_empty() && paint::width_of(&line) + needed > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
