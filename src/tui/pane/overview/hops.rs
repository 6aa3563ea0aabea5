//! The hops of the flow: outbox → dispatcher → exchange, queue → consumers → inbox → dead.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::base::human;
use crate::model::count::Count;
use crate::model::outbox::OutboxCounts;
use crate::observe::snapshot::{ConsumerFlow, PerService};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, columns};
use crate::tui::world::World;

/// One hop: what stands at its left and at its right.
pub type Hop = (Line, Line);

/// Widths of the four hops with three arrows between them.
fn hop_widths(width: u16) -> [u16; 4] {
    let room = width.saturating_sub(3 * ARROW + 3);
    let spare = room.saturating_sub(56);
    let narrow = [23, 12, 13, 8];
    if room < 56 {
        let quarter = room / 4;
        return [room - 3 * quarter, quarter, quarter, quarter];
    }
    [
        narrow[0] + spare.min(26),
        narrow[1] + spare.saturating_sub(26) / 4,
        narrow[2] + spare.saturating_sub(26) / 3,
        narrow[3],
    ]
}

const ARROW: u16 = 5;

/// Draws one line of hops. A hop is text at its left and text at its right.
pub fn draw_hops(
    area: Rect,
    buf: &mut Buffer,
    world: &World,
    cells: &[Hop; 4],
    is_heading: bool,
    base: Option<Style>,
) {
    if let Some(style) = base {
        paint::shade(buf, area, style);
        paint::put(buf, area.x, area.y, 1, "▸", style);
    }
    let mut x = area.x + 2;
    for (index, ((left, right), width)) in cells.iter().zip(hop_widths(area.width)).enumerate() {
        let width = width.min(area.right().saturating_sub(x));
        let wanted = columns(paint::line_width(right));
        let right_room = wanted.min(width);
        let left_room = width.saturating_sub(right_room + u16::from(wanted > 0));
        paint::put_line(buf, (x, area.y), left_room, left, world.theme, base);
        paint::put_line(
            buf,
            (x + width - right_room, area.y),
            right_room,
            right,
            world.theme,
            base,
        );
        x += width;
        if index < 3 && !is_heading && x + ARROW <= area.right() {
            paint::put_line(
                buf,
                (x, area.y),
                ARROW,
                &[Span::new(" ──▶ ", Role::Border)],
                world.theme,
                base,
            );
        }
        x = x.saturating_add(ARROW);
        if x >= area.right() {
            break;
        }
    }
}

/// The headings of the hops; the last one stands over numbers, and so does `unit` in the first.
pub fn heading(words: [&str; 4], unit: &str) -> [Hop; 4] {
    let [first, second, third, last] = words.map(|word| paint::line(word, Role::Dim));
    [
        (first, paint::line(unit, Role::Dim)),
        (second, Line::new()),
        (third, Line::new()),
        (Line::new(), last),
    ]
}

fn one(text: impl Into<String>, role: Role) -> Line {
    paint::line(text, role)
}

fn unknown() -> Line {
    one("?", Role::Unknown)
}

pub fn outbox_hops(part: &PerService<OutboxCounts>, world: &World) -> [Hop; 4] {
    let exchange = world
        .context
        .service(&part.service)
        .and_then(|service| service.outbox.as_ref())
        .map_or_else(|| "?".to_owned(), |outbox| outbox.exchange.clone());
    let name = one(part.service.clone(), Role::Strong);
    let Some(counts) = &part.value else {
        return [
            (name, unknown()),
            (unknown(), Line::new()),
            (one(exchange, Role::Text), Line::new()),
            (Line::new(), unknown()),
        ];
    };
    let is_late = counts.oldest_due_s.is_some_and(|due| due > 60.0);
    let mut pending = one(
        counts.pending.to_string(),
        if counts.pending.is_zero() {
            Role::Dim
        } else if is_late {
            Role::Warn
        } else {
            Role::Text
        },
    );
    if is_late {
        pending.push(Span::new(" ▲", Role::Warn));
    }
    let mut sending = one(
        format!("{} sending", counts.sending),
        if counts.sending.is_zero() {
            Role::Dim
        } else {
            Role::Text
        },
    );
    match counts.expired_leases {
        Some(expired) if !expired.is_zero() => {
            sending = one(format!("✖ {expired} expired"), Role::Bad);
        }
        _ => {}
    }
    let sent = match counts.published_last_minute() {
        Some(count) => per_second(count),
        None => unknown(),
    };
    [
        (name, pending),
        (sending, Line::new()),
        (one(exchange, Role::Text), Line::new()),
        (Line::new(), sent),
    ]
}

fn per_second(count: Count) -> Line {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let rate = count.floor() as f64 / 60.0;
    let sign = if matches!(count, Count::AtLeast(_)) {
        "≥ "
    } else {
        ""
    };
    let role = if count.is_zero() {
        Role::Dim
    } else {
        Role::Text
    };
    if rate < 9.95 {
        one(format!("{sign}{rate:.1}/s"), role)
    } else {
        one(format!("{sign}{rate:.0}/s"), role)
    }
}

pub fn consumer_hops(consumer: &ConsumerFlow) -> [Hop; 4] {
    let is_left = consumer.consumers == Some(0) && consumer.ready.is_some_and(|ready| ready > 0);
    let ready = match consumer.ready {
        Some(0) => one("0", Role::Dim),
        Some(n) => one(
            format!("{}{}", human::grouped(n), if is_left { " ▲" } else { "" }),
            if is_left { Role::Bad } else { Role::Text },
        ),
        None => unknown(),
    };
    let attached = match consumer.consumers {
        Some(0) => one("✖ none", Role::Bad),
        Some(n) => one(format!("✓ {n}"), Role::Good),
        None => unknown(),
    };
    let mut inbox = match consumer.inbox_per_s {
        Some(value) => {
            let span = crate::tui::pane::queues::rate(Some(value));
            vec![span]
        }
        None => unknown(),
    };
    match consumer.lag_s {
        Some(lag) if lag >= 1.0 => inbox.push(Span::new(
            format!("  lag {}", human::age(lag)),
            if lag > 30.0 { Role::Warn } else { Role::Dim },
        )),
        Some(_) => {}
        None => inbox.push(Span::new("  lag ?", Role::Unknown)),
    }
    let dead = match consumer.dead_open {
        Some(count) if count.is_zero() => one("0", Role::Dim),
        Some(count) => one(format!("{count} open"), Role::Warn),
        None => unknown(),
    };
    [
        (one(consumer.queue.clone(), Role::Strong), ready),
        (attached, Line::new()),
        (inbox, Line::new()),
        (Line::new(), dead),
    ]
}
