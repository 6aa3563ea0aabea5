//! The whole screen from the model: top line, tabs, pane, keys, what lies over it. Changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::human;
use crate::config::Environment;
use crate::observe::snapshot::{HealthSnapshot, ServerHealth};
use crate::operate::plan::Access;

use super::dialog::Overlay;
use super::keymap::{self, Binding, Key, Scope};
use super::layout::{Areas, MIN, is_too_small};
use super::model::Model;
use super::pane::{PaneId, PaneSpec, panes_of};
use super::theme::{Role, ascii};
use super::widget::paint::{self, Line, Span, columns};
use super::world::World;

/// Draws the screen.
pub fn draw(model: &Model, buf: &mut Buffer) {
    let screen = model.screen().intersection(buf.area);
    if is_too_small(model.size) {
        let text = format!("terminal too small (needs {}×{})", MIN.0, MIN.1);
        let y = screen.y + screen.height / 2;
        paint::put(
            buf,
            screen.x,
            y,
            screen.width,
            &text,
            model.world.theme.style(Role::Warn),
        );
    } else {
        let areas = Areas::cut(screen, model.hints.is_some());
        top(model, areas.top, buf);
        tabs(model, areas.tabs, buf);
        model.pane().draw(areas.body, buf, &model.world);
        hint(model, areas.hint, buf);
        bar(model, areas.bar, buf);
        if let Some(overlay) = &model.overlay {
            let over = match overlay {
                Overlay::Line(_) => screen,
                // The bar stays: it says which keys work in the dialog.
                _ => Rect {
                    height: screen.height.saturating_sub(1),
                    ..screen
                },
            };
            overlay.draw(over, buf, &model.world);
        }
        toast(model, areas.bar, buf);
    }
    if model.world.theme.is_ascii {
        to_ascii(buf);
    }
}

/// Replaces everything that an ASCII terminal cannot show (T-14: `LANG=C`).
fn to_ascii(buf: &mut Buffer) {
    for cell in &mut buf.content {
        let symbol = cell.symbol();
        if symbol.is_empty() {
            cell.set_symbol("?");
        } else if !symbol.is_ascii() {
            let plain = ascii(symbol);
            cell.set_symbol(plain);
        }
    }
}

/// A part of the top line; the highest rank goes first when there is no room.
struct Part {
    rank: u8,
    spans: Line,
}

fn top(model: &Model, area: Rect, buf: &mut Buffer) {
    let world = &model.world;
    paint::shade(buf, area, world.theme.style(Role::Bar));
    let mut left = vec![
        Part {
            rank: 9,
            spans: vec![Span::new("redrive", Role::Accent)],
        },
        Part {
            rank: 0,
            spans: vec![Span::new(world.context.name.clone(), Role::Strong)],
        },
        Part {
            rank: 0,
            spans: vec![environment(world.context.environment)],
        },
        access(world),
    ];
    let mut middle = servers(world.readings.health.value.as_deref(), true);
    let mut right = clock(model, area.width);
    let width = |parts: &[Part]| -> usize {
        parts
            .iter()
            .filter(|part| !part.spans.is_empty())
            .map(|part| paint::line_width(&part.spans) + 2)
            .sum()
    };
    let room = usize::from(area.width);
    if width(&left) + width(&middle) + width(&right) > room {
        // Latencies go first: whether a server answers matters more than how fast.
        middle = servers(world.readings.health.value.as_deref(), false);
    }
    while width(&left) + width(&middle) + width(&right) > room {
        let worst = left
            .iter()
            .chain(&middle)
            .chain(&right)
            .map(|part| part.rank)
            .max()
            .unwrap_or(0);
        if worst == 0 {
            break;
        }
        for parts in [&mut left, &mut middle, &mut right] {
            parts.retain(|part| part.rank != worst);
        }
    }
    let joined = |parts: Vec<Part>| -> Line {
        let mut line = Line::new();
        for part in parts.into_iter().filter(|part| !part.spans.is_empty()) {
            if !line.is_empty() {
                line.push(Span::new("  ", Role::Text));
            }
            line.extend(part.spans);
        }
        line
    };
    let bar = Some(world.theme.style(Role::Bar));
    let mut x = area.x + 1;
    let start = joined(left);
    for span in &start {
        // The environment keeps its own paper: it is meant to be loud.
        let style = match span.role {
            Role::Production | Role::Staging | Role::Sandbox => world.theme.style(span.role),
            role => world
                .theme
                .style(Role::Bar)
                .patch(super::theme::ink_only(world.theme.style(role))),
        };
        x += paint::put(
            buf,
            x,
            area.y,
            area.right().saturating_sub(x),
            &span.text,
            style,
        );
    }
    let end = joined(right);
    let end_width = columns(paint::line_width(&end));
    let end_x = area.right().saturating_sub(end_width + 1).max(x);
    let between = joined(middle);
    let gap = end_x.saturating_sub(x);
    let wanted = columns(paint::line_width(&between));
    paint::put_line(
        buf,
        (x + gap.saturating_sub(wanted) / 2, area.y),
        gap,
        &between,
        world.theme,
        bar,
    );
    paint::put_line(
        buf,
        (end_x, area.y),
        area.right().saturating_sub(end_x),
        &end,
        world.theme,
        bar,
    );
}

fn environment(environment: Environment) -> Span {
    match environment {
        Environment::Sandbox => Span::new(" sandbox ", Role::Sandbox),
        Environment::Staging => Span::new(" staging ", Role::Staging),
        Environment::Production => Span::new(" PRODUCTION ", Role::Production),
    }
}

fn access(world: &World) -> Part {
    let span = match world.access {
        Access::ReadOnly => Span::new("read-only", Role::Good),
        Access::Locked => Span::new("locked", Role::Good),
        Access::Unlocked { .. } => match world.unlocked_for() {
            Some(left) => Span::new(format!("UNLOCKED {}", human::duration(left)), Role::Bad),
            None => Span::new("locked", Role::Good),
        },
        Access::Writable => Span::new("writable", Role::Dim),
    };
    Part {
        rank: if world.access == Access::Writable {
            7
        } else {
            0
        },
        spans: vec![span],
    }
}

fn latency(us: u64) -> String {
    if us < 1_000 {
        "<1ms".to_owned()
    } else if us < 10_000_000 {
        format!("{}ms", us / 1_000)
    } else {
        format!("{}s", us / 1_000_000)
    }
}

fn server(name: &str, servers: &[&ServerHealth], is_long: bool) -> Line {
    let (glyph, role) = if servers.iter().any(|server| server.is_up == Some(false)) {
        ("✖", Role::Bad)
    } else if servers.is_empty() || servers.iter().any(|server| server.is_up.is_none()) {
        ("?", Role::Unknown)
    } else {
        ("✓", Role::Good)
    };
    let mut line = vec![
        Span::new(format!("{name} "), Role::Dim),
        Span::new(glyph, role),
    ];
    let slowest = servers.iter().filter_map(|server| server.latency_us).max();
    if let (true, Some(us)) = (is_long && glyph == "✓", slowest) {
        line.push(Span::new(format!(" {}", latency(us)), Role::Text));
    }
    line
}

fn servers(health: Option<&HealthSnapshot>, is_long: bool) -> Vec<Part> {
    let part = |rank, spans| Part { rank, spans };
    let Some(health) = health else {
        return ["db", "amqp", "mgmt"]
            .into_iter()
            .map(|name| part(0, server(name, &[], false)))
            .collect();
    };
    let databases: Vec<&ServerHealth> = health.databases.iter().collect();
    let mut parts = vec![
        part(0, server("db", &databases, is_long)),
        part(0, server("amqp", &[&health.broker], is_long)),
        part(0, server("mgmt", &[&health.management], is_long)),
    ];
    let skew = match health.skew_us {
        Some(us) => {
            let role = if us.unsigned_abs() > 2_000_000 {
                Role::Warn
            } else {
                Role::Text
            };
            Span::new(super::pane::overview::skew_text(us), role)
        }
        None => Span::new("?", Role::Unknown),
    };
    let rank = if skew.role == Role::Text { 8 } else { 1 };
    parts.push(part(rank, vec![Span::new("skew ", Role::Dim), skew]));
    parts
}

fn clock(model: &Model, width: u16) -> Vec<Part> {
    let world = &model.world;
    let standing = world.readings.standing(model.active.spec().feed);
    let mut parts = Vec::new();
    if let Some(at) = world.paused_at {
        parts.push(Part {
            rank: 0,
            spans: vec![Span::new(format!("PAUSED {}Z", at.to_clock()), Role::Warn)],
        });
        return parts;
    }
    parts.push(Part {
        rank: 6,
        spans: vec![Span::new(format!("{}Z", world.now.to_clock()), Role::Text)],
    });
    let word = if width >= 100 { "data " } else { "" };
    let spans = match standing.read_at {
        Some(at) => {
            let age_s = world.age_s(at);
            let is_stale = world.is_stale(&standing);
            let text = if is_stale {
                format!("{word}{} old", human::age(age_s))
            } else if standing.unread.is_empty() {
                // Within the refresh interval an age is noise that would redraw the screen.
                "live".to_owned()
            } else {
                // Fresh, but not of every server.
                "in part".to_owned()
            };
            vec![Span::new(
                text,
                if is_stale || standing.problem.is_some() || !standing.unread.is_empty() {
                    Role::Warn
                } else {
                    Role::Good
                },
            )]
        }
        None if standing.problem.is_some() => vec![Span::new("no data", Role::Bad)],
        None => vec![Span::new("reading …", Role::Dim)],
    };
    parts.push(Part { rank: 0, spans });
    parts
}

fn tab_title(spec: &PaneSpec, width: u16, active: PaneId) -> String {
    if width >= 100 {
        format!("{} {}", spec.number, spec.title)
    } else if width >= 76 || spec.id == active {
        format!("{} {}", spec.number, spec.short)
    } else {
        spec.number.to_string()
    }
}

/// The pane whose tab is at a column.
pub fn tab_at(model: &Model, area: Rect, x: u16) -> Option<PaneId> {
    let mut from = area.x;
    for (id, text) in tab_texts(model, area.width) {
        let to = from + columns(paint::width_of(&text));
        if (from..to).contains(&x) {
            return Some(id);
        }
        from = to;
    }
    None
}

/// The tabs as they stand beside each other: closer together where they would not all fit.
fn tab_texts(model: &Model, width: u16) -> Vec<(PaneId, String)> {
    let titles: Vec<_> = panes_of(model.world.context.environment)
        .map(|spec| (spec.id, tab_title(spec, width, model.active)))
        .collect();
    let all: u16 = titles
        .iter()
        .map(|(_, title)| columns(paint::width_of(title)) + 2)
        .sum();
    let gap = if all <= width { " " } else { "" };
    titles
        .into_iter()
        .map(|(id, title)| (id, format!(" {title}{gap}")))
        .collect()
}

fn tabs(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = model.world.theme;
    let mut x = area.x;
    for (id, text) in tab_texts(model, area.width) {
        let room = area.right().saturating_sub(x);
        let style = if id == model.active {
            theme.style(Role::Selected)
        } else {
            theme.style(Role::Dim)
        };
        x += paint::put(buf, x, area.y, room, &text, style);
    }
}

fn hint(model: &Model, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    if let Some(text) = model.hints.as_ref().and_then(super::hint::Script::text) {
        paint::put_line(
            buf,
            (area.x + 1, area.y),
            area.width.saturating_sub(2),
            &[
                Span::new("▸ ", Role::Key),
                Span::new(text.to_owned(), Role::Accent),
            ],
            model.world.theme,
            None,
        );
    }
}

/// Whether a key does something now.
fn is_allowed(model: &Model, binding: &Binding) -> bool {
    match &model.overlay {
        Some(Overlay::Plan(dialog)) => dialog.allows(binding.action),
        Some(_) => true,
        None => {
            let world = &model.world;
            let is_locked = matches!(world.access, Access::Locked | Access::Unlocked { .. });
            match binding.action {
                keymap::Action::Unlock => is_locked,
                keymap::Action::Enter => !model.pane().is_in_detail(),
                keymap::Action::Back => {
                    model.pane().is_in_detail() || !model.pane().filter_text().is_empty()
                }
                keymap::Action::Replay
                | keymap::Action::Repair
                | keymap::Action::Release
                | keymap::Action::Discard
                | keymap::Action::Assign
                | keymap::Action::SagaRetry
                | keymap::Action::SagaQuery
                | keymap::Action::SagaCompensate
                | keymap::Action::SagaHandled
                | keymap::Action::SagaAssign
                | keymap::Action::Note => {
                    world.access != Access::ReadOnly && model.pane().allows(binding.action, world)
                }
                action => model.pane().allows(action, world),
            }
        }
    }
}

fn bar(model: &Model, area: Rect, buf: &mut Buffer) {
    let world = &model.world;
    paint::shade(buf, area, world.theme.style(Role::Bar));
    let scopes = model.scopes();
    let mut bindings: Vec<&Binding> = keymap::of(&scopes)
        .filter(|binding| binding.bar > 0 && is_allowed(model, binding))
        .collect();
    bindings.sort_by_key(|binding| binding.bar);
    let text = |binding: &Binding| -> Line {
        vec![
            Span::new(
                binding.keys.first().map(Key::to_string).unwrap_or_default(),
                Role::Key,
            ),
            Span::new(format!(" {}", name(model, binding)), Role::Text),
        ]
    };
    // Help and quit are always there; the others as far as they fit.
    let (last, first): (Vec<&Binding>, Vec<&Binding>) =
        bindings.into_iter().partition(|binding| binding.bar >= 90);
    let mut end = Line::new();
    for binding in last {
        if !end.is_empty() {
            end.push(Span::new("   ", Role::Text));
        }
        end.extend(text(binding));
    }
    let last = end;
    let base = Some(world.theme.style(Role::Bar));
    let last_width = columns(paint::line_width(&last));
    let room = area.width.saturating_sub(last_width + 4);
    let mut x = area.x + 1;
    for binding in first {
        let line = text(binding);
        let width = columns(paint::line_width(&line));
        if x - area.x + width > room {
            break;
        }
        x += paint::put_line(buf, (x, area.y), width, &line, world.theme, base) + 3;
    }
    paint::put_line(
        buf,
        (area.right().saturating_sub(last_width + 1), area.y),
        last_width,
        &last,
        world.theme,
        base,
    );
}

fn name(model: &Model, binding: &Binding) -> &'static str {
    match binding.action {
        keymap::Action::Pause if model.world.paused_at.is_some() => "go on",
        keymap::Action::Unlock if matches!(model.world.access, Access::Unlocked { .. }) => "lock",
        keymap::Action::Back
            if binding.scope == Scope::Plan
                && matches!(&model.overlay, Some(Overlay::Plan(dialog)) if !dialog.is_ready()) =>
        {
            "close"
        }
        _ => binding.name,
    }
}

/// What just happened lies over the keys.
fn toast(model: &Model, area: Rect, buf: &mut Buffer) {
    let Some(toast) = &model.toast else { return };
    if matches!(model.overlay, Some(Overlay::Line(_))) {
        return;
    }
    let theme = model.world.theme;
    paint::clear(buf, area);
    paint::shade(buf, area, theme.style(Role::Bar));
    paint::put_line(
        buf,
        (area.x + 1, area.y),
        area.width.saturating_sub(2),
        &[Span::new(
            format!("{} {}", toast.glyph(), toast.text),
            toast.role,
        )],
        theme,
        Some(theme.style(Role::Bar)),
    );
}
