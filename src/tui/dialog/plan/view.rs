//! How the dialog of an action looks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::text::{LABEL, lines};
use super::{Asked, PlanDialog, Stage};
use crate::operate::plan::{Request, SagaWish};
use crate::tui::dialog::form;
use crate::tui::pane::browser;
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, columns};
use crate::tui::world::World;

/// Where the parts of the dialog stand, and its text.
pub struct Layout {
    /// The whole dialog.
    pub rect: Rect,
    /// The scrolling text.
    pub text: Rect,
    /// The fields below it.
    pub fields: Rect,
    /// The text itself.
    pub lines: Vec<Line>,
}

impl Layout {
    /// Cuts the screen; `settle` and `draw` both ask here.
    pub fn cut(dialog: &PlanDialog, screen: Rect, world: &World) -> Self {
        let width = screen
            .width
            .saturating_sub(4)
            .min(112)
            .max(screen.width.min(20));
        let inner = usize::from(width.saturating_sub(4));
        let lines = lines(dialog, inner, world);
        let rows: usize = lines
            .iter()
            .map(|line| wrapped_rows(paint::line_width(line), inner))
            .sum();
        let fields = if dialog.is_ready() {
            columns(dialog.fields.len())
        } else {
            0
        };
        // Border, text, fields, problem, buttons, border.
        let height = columns(rows)
            .saturating_add(fields)
            .saturating_add(4)
            .min(screen.height);
        let rect = paint::centred(screen, width, height);
        let inside = paint::inset(
            Rect {
                y: rect.y + u16::from(rect.height > 0),
                height: rect.height.saturating_sub(2),
                ..rect
            },
            2,
        );
        let below = (fields + 2).min(inside.height);
        let (text, fields) = paint::split_top(inside, inside.height - below);
        Self {
            rect,
            text,
            fields,
            lines,
        }
    }
}

/// Rows a line takes; a hanging label costs every further row its width.
fn wrapped_rows(width: usize, room: usize) -> usize {
    if width <= room || room <= LABEL * 2 {
        return width.div_ceil(room.max(1)).max(1);
    }
    1 + (width - room).div_ceil(room - LABEL)
}

fn title(dialog: &PlanDialog) -> String {
    let verb = match &dialog.request {
        Request::Discard {
            is_resolved: true, ..
        } => "Resolve",
        Request::Discard { .. } => "Discard",
        Request::Replay { .. } => "Replay",
        Request::Repair { .. } => "Repair",
        Request::Release { .. } => "Release lease",
        Request::Saga { wish, .. } => match wish {
            SagaWish::Retry => "Retry step of saga",
            SagaWish::Query => "Query step of saga",
            SagaWish::Compensate => "Compensate saga",
            SagaWish::Handled { .. } => "Mark as handled: saga",
            SagaWish::Assign { .. } => "Assign saga",
        },
    };
    let subject = match &dialog.stage {
        Stage::Ready(plan)
        | Stage::Applying(plan)
        | Stage::Done { plan, .. }
        | Stage::Refused { plan, .. } => plan
            .event_id
            .as_ref()
            .map_or_else(String::new, |id| format!(" {id}")),
        Stage::Planning | Stage::NoPlan(_) => String::new(),
    };
    if let Request::Saga { saga_id, .. } = &dialog.request {
        return format!("{verb} {saga_id}");
    }
    format!("{verb}{subject}")
}

/// Draws the dialog.
pub fn draw(dialog: &PlanDialog, screen: Rect, buf: &mut Buffer, world: &World) {
    let layout = Layout::cut(dialog, screen, world);
    paint::clear(buf, layout.rect);
    let border = match &dialog.stage {
        Stage::Ready(plan) if plan.environment == crate::config::Environment::Production => {
            Role::Bad
        }
        Stage::NoPlan(_) | Stage::Refused { .. } => Role::Bad,
        _ => Role::Accent,
    };
    paint::boxed_as(buf, layout.rect, &title(dialog), world.theme, border);
    dialog.doc.draw(layout.text, buf, world.theme);
    browser::corner(buf, layout.rect, &dialog.doc.position(), world);
    let mut y = layout.fields.y;
    if dialog.is_ready() {
        for (index, (asked, field)) in dialog.fields.iter().enumerate() {
            if y < layout.fields.bottom() {
                let rect = Rect {
                    y,
                    height: 1,
                    ..layout.fields
                };
                form::draw_field(
                    buf,
                    rect,
                    field_label(dialog, *asked),
                    field,
                    dialog.focus == index + 1,
                    world,
                );
                if field.value().is_empty() && dialog.focus != index + 1 {
                    draw_hint(buf, rect, &field_hint(dialog, *asked), world);
                }
                y += 1;
            }
        }
    }
    if y < layout.fields.bottom() {
        if let Some(problem) = &dialog.problem {
            paint::put(
                buf,
                layout.fields.x,
                y,
                layout.fields.width,
                &format!("✖ {problem}"),
                world.theme.style(Role::Bad),
            );
        } else if dialog.armed_at.is_some() {
            paint::put(
                buf,
                layout.fields.x,
                y,
                layout.fields.width,
                "▶ confirmed …",
                world.theme.style(Role::Accent),
            );
        }
        y += 1;
    }
    if y < layout.fields.bottom() {
        draw_buttons(
            dialog,
            Rect {
                y,
                height: 1,
                ..layout.fields
            },
            buf,
            world,
        );
    }
}

fn draw_hint(buf: &mut Buffer, rect: Rect, hint: &str, world: &World) {
    let from = 14;
    if rect.width > from + 1 {
        let style = world
            .theme
            .style(Role::Field)
            .patch(world.theme.style(Role::Dim));
        paint::put(
            buf,
            rect.x + from + 1,
            rect.y,
            rect.width - from - 1,
            hint,
            style,
        );
    }
}

const fn field_label(dialog: &PlanDialog, asked: Asked) -> &'static str {
    match asked {
        Asked::Told => match &dialog.request {
            Request::Saga {
                wish: SagaWish::Assign { .. },
                ..
            } => "owner",
            _ => "evidence",
        },
        Asked::Reason => "reason",
        Asked::Ticket => "ticket",
        Asked::ContextName => "context name",
        Asked::Count => "count",
        Asked::Word => "word",
    }
}

fn field_hint(dialog: &PlanDialog, asked: Asked) -> String {
    let Stage::Ready(plan) = &dialog.stage else {
        return String::new();
    };
    match asked {
        Asked::Told if plan.confirm.told.as_deref() == Some("owner") => {
            "Tab, then who; - for nobody".to_owned()
        }
        Asked::Told => "Tab, then what shows it".to_owned(),
        Asked::Reason => "Tab, then why".to_owned(),
        Asked::Ticket => format!(
            "like {}",
            plan.confirm.ticket_pattern.as_deref().unwrap_or("?")
        ),
        Asked::ContextName => format!(
            "type {}",
            plan.confirm.context_name.as_deref().unwrap_or("?")
        ),
        Asked::Count => format!("type {}", plan.confirm.count.unwrap_or(0)),
        Asked::Word => format!("type {}", plan.confirm.word.as_deref().unwrap_or("?")),
    }
}

fn draw_buttons(dialog: &PlanDialog, area: Rect, buf: &mut Buffer, world: &World) {
    let cancel = match &dialog.stage {
        Stage::Ready(_) | Stage::Planning => " Cancel ",
        _ => " Close ",
    };
    let mut line: Line = Vec::new();
    if let Stage::Ready(plan) = &dialog.stage {
        if plan.is_allowed() {
            line.push(Span::new("    y", Role::Key));
            let verb = match &dialog.request {
                Request::Discard {
                    is_resolved: true, ..
                } => "resolve",
                _ => plan.verb.command(),
            };
            line.push(Span::new(format!(" {verb}"), Role::Text));
        } else {
            line.push(Span::new("    ✖ refused", Role::Bad));
        }
        for (action, key, word) in [
            (crate::tui::keymap::Action::ThroughExchange, "e", "exchange"),
            (crate::tui::keymap::Action::Resolve, "v", "resolve"),
            (crate::tui::keymap::Action::Override, "o", "override"),
            (crate::tui::keymap::Action::NotDone, "n", "not done"),
        ] {
            if dialog.allows(action) {
                let word = match (&dialog.request, action) {
                    (
                        Request::Replay {
                            through_exchange: true,
                            ..
                        },
                        crate::tui::keymap::Action::ThroughExchange,
                    ) => "queue",
                    (
                        Request::Saga {
                            wish: SagaWish::Handled { is_done: false, .. },
                            ..
                        },
                        crate::tui::keymap::Action::NotDone,
                    ) => "done",
                    _ => word,
                };
                line.push(Span::new(format!("   {key}"), Role::Key));
                line.push(Span::new(format!(" {word}"), Role::Dim));
            }
        }
    }
    let width = columns(paint::line_width(&line) + cancel.len() + 2);
    let x = area.right().saturating_sub(width).max(area.x);
    let style = world.theme.style(if dialog.is_in_field() {
        Role::Dim
    } else {
        Role::Selected
    });
    let used = paint::put(
        buf,
        x,
        area.y,
        area.right().saturating_sub(x),
        &format!("[{cancel}]"),
        style,
    );
    paint::put_line(
        buf,
        (x + used, area.y),
        area.right().saturating_sub(x + used),
        &line,
        world.theme,
        None,
    );
}
