//! How the Overview looks: three boxes that share their borders.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::facts::Fact;
use super::history::{Points, largest_lag, oldest_due};
use super::hops::{Hop, consumer_hops, draw_hops, heading, outbox_hops};
use super::{Item, Overview, SPEC};
use crate::base::human;
use crate::observe::snapshot::FlowSnapshot;
use crate::tui::pane::browser;
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Span, columns};
use crate::tui::widget::sparkline;
use crate::tui::world::World;

/// Where the boxes stand; each shares its upper border with the one before.
struct Layout {
    verdicts: Rect,
    flow: Rect,
    charts: Rect,
    workers: Rect,
}

/// Rows of the flow: a heading before each kind.
fn flow_rows(flow: Option<&FlowSnapshot>) -> u16 {
    let (outboxes, consumers) =
        flow.map_or((0, 0), |flow| (flow.outboxes.len(), flow.consumers.len()));
    columns(outboxes + usize::from(outboxes > 0) + consumers + usize::from(consumers > 0)).max(1)
}

impl Layout {
    fn cut(area: Rect, pane: &Overview, world: &World) -> Self {
        let (_, area) = paint::split_top(area, browser::problem_rows(area, SPEC.feed, world));
        let flow_wanted = flow_rows(world.readings.flow.value.as_deref()) + 2;
        let charts_min = if area.height >= 12 { 3 } else { 0 };
        // Borders are shared, so every box after the first is one row higher than its part.
        let for_two = area.height.saturating_sub(charts_min.max(1) - 1) + 1;
        let room = for_two.saturating_sub(flow_wanted).max(4);
        // Every second line, or that of one fact alone.
        let full = columns(lines_wanted(pane)) + 2;
        let facts_wanted = if full <= room {
            full
        } else {
            columns(pane.facts.len() + 1) + 2
        };
        let verdicts = facts_wanted.max(3).min(room).min(area.height);
        let flow = flow_wanted
            .min(for_two.saturating_sub(verdicts))
            .min(area.height);
        let (verdicts_area, _) = paint::split_top(area, verdicts);
        let after = |rect: Rect, height: u16| {
            let y = rect.bottom().saturating_sub(1);
            Rect {
                y,
                height: height.min(area.bottom().saturating_sub(y)),
                ..area
            }
        };
        let flow_area = after(verdicts_area, flow);
        let left = area.bottom().saturating_sub(flow_area.bottom()) + 1;
        let worker_rows = columns(world.workers.len());
        let workers_wanted = if worker_rows > 0 && left >= worker_rows + 7 {
            worker_rows + 2
        } else {
            0
        };
        let charts = if left < 3 {
            0
        } else {
            (left - workers_wanted.saturating_sub(1)).min(14)
        };
        let charts_area = after(flow_area, charts);
        let workers_area = if workers_wanted > 0 {
            after(charts_area, workers_wanted)
        } else {
            Rect { height: 0, ..area }
        };
        Self {
            verdicts: verdicts_area,
            flow: flow_area,
            charts: charts_area,
            workers: workers_area,
        }
    }
}

/// Lines of facts that fit into their box.
pub fn fact_rows(area: Rect, pane: &Overview, world: &World) -> usize {
    let layout = Layout::cut(area, pane, world);
    usize::from(layout.verdicts.height.saturating_sub(2))
}

/// Lines that all facts would take with their second lines.
fn lines_wanted(pane: &Overview) -> usize {
    let facts = pane.facts.iter();
    facts.map(|fact| 1 + usize::from(fact.more.is_some())).sum()
}

/// One line of the box: a fact's sentence, or what stands under it.
#[derive(Clone, Copy)]
struct FactLine {
    fact: usize,
    is_more: bool,
}

/// The lines that are shown: with every second line if they fit, else only with that of the fact under
/// the cursor (or of the worst), which is always among them.
fn fact_lines(pane: &Overview, rows: usize) -> Vec<FactLine> {
    let chosen = match pane.list.selected().and_then(|index| pane.items.get(index)) {
        Some(Item::Fact(index)) => *index,
        _ => 0,
    };
    let fits = lines_wanted(pane) <= rows;
    let mut lines = Vec::new();
    for (fact, of) in pane.facts.iter().enumerate() {
        lines.push(FactLine {
            fact,
            is_more: false,
        });
        if of.more.is_some() && (fits || (fact == chosen && rows > 1)) {
            lines.push(FactLine {
                fact,
                is_more: true,
            });
        }
    }
    let end = lines
        .iter()
        .rposition(|line| line.fact == chosen)
        .map_or(0, |at| at + 1);
    let first = end.saturating_sub(rows);
    lines.into_iter().skip(first).take(rows).collect()
}

/// The item on a row of the screen.
pub fn item_at(area: Rect, y: u16, pane: &Overview, world: &World) -> Option<usize> {
    let layout = Layout::cut(area, pane, world);
    let inside = |rect: Rect| {
        (rect.height > 2 && y > rect.y && y + 1 < rect.bottom())
            .then(|| usize::from(y - rect.y - 1))
    };
    if let Some(row) = inside(layout.verdicts) {
        let lines = fact_lines(pane, pane.fact_rows);
        return lines.get(row).map(|line| line.fact);
    }
    let row = inside(layout.flow)?;
    let flow = world.readings.flow.value.as_deref()?;
    let outboxes = flow.outboxes.len();
    let heading = usize::from(outboxes > 0);
    let index = if row < heading {
        return None;
    } else if row < heading + outboxes {
        row - heading
    } else {
        row.checked_sub(heading + 1)?
    };
    let item = pane.facts.len() + index;
    (item < pane.items.len()).then_some(item)
}

impl Overview {
    pub(super) fn view(&self, area: Rect, buf: &mut Buffer, world: &World) {
        browser::problems(buf, area, SPEC.feed, world);
        let layout = Layout::cut(area, self, world);
        self.draw_verdicts(layout.verdicts, buf, world);
        self.draw_flow(layout.flow, buf, world);
        self.draw_charts(layout.charts, buf, world);
        draw_workers(layout.workers, buf, world);
    }

    fn selection(&self, item: &Item, world: &World) -> Option<Style> {
        let selected = self.list.selected().and_then(|index| self.items.get(index));
        (selected == Some(item)).then(|| world.theme.style(Role::Selected))
    }

    fn draw_verdicts(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let inner = paint::boxed(buf, area, "Verdicts", world.theme);
        if inner.height == 0 {
            return;
        }
        if self.facts.is_empty() {
            let (glyph, text, role) = match (
                world.readings.health.value.is_some(),
                world.readings.flow.value.is_some() && world.readings.causes.value.is_some(),
            ) {
                (true, true) if world.has_looked() => {
                    ("✓", "nothing is wrong that this screen can see", Role::Good)
                }
                (true, true) => (" ", "looking: no verdict yet", Role::Dim),
                _ if world.readings.flow.problem.is_some() => {
                    ("?", "not known: nothing could be read", Role::Unknown)
                }
                _ => (" ", "reading …", Role::Dim),
            };
            paint::put_line(
                buf,
                (inner.x + 1, inner.y),
                inner.width.saturating_sub(1),
                &[Span::new(format!("{glyph} {text}"), role)],
                world.theme,
                None,
            );
            return;
        }
        let lines = fact_lines(self, usize::from(inner.height));
        for (offset, line) in lines.iter().enumerate() {
            let Some(fact) = self.facts.get(line.fact) else {
                continue;
            };
            let row = Rect {
                y: inner.y + columns(offset),
                height: 1,
                ..inner
            };
            let base = self.selection(&Item::Fact(line.fact), world);
            if line.is_more {
                draw_more(fact, row, buf, world, base);
            } else {
                draw_fact(fact, row, buf, world, base);
            }
        }
        let shown = lines.iter().filter(|line| !line.is_more).count();
        let hidden = self.facts.len().saturating_sub(shown);
        if hidden > 0 {
            browser::corner(buf, area, &format!("{hidden} more"), world);
        }
    }

    fn draw_flow(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let inner = paint::boxed(buf, area, "Flow", world.theme);
        let Some(flow) = world.readings.flow.value.as_deref() else {
            if inner.height > 0 {
                let text = if world.readings.flow.problem.is_some() {
                    "?"
                } else {
                    "reading …"
                };
                paint::put(
                    buf,
                    inner.x + 1,
                    inner.y,
                    inner.width.saturating_sub(2),
                    text,
                    world.theme.style(Role::Dim),
                );
            }
            return;
        };
        let mut y = inner.y;
        let mut row = |cells: [Hop; 4], is_heading: bool, base: Option<Style>, buf: &mut Buffer| {
            if y < inner.bottom() {
                draw_hops(
                    Rect {
                        y,
                        height: 1,
                        ..inner
                    },
                    buf,
                    world,
                    &cells,
                    is_heading,
                    base,
                );
                y += 1;
            }
        };
        if !flow.outboxes.is_empty() {
            row(
                heading(["outbox", "dispatcher", "exchange", "sent"], "pending"),
                true,
                None,
                buf,
            );
        }
        for (index, part) in flow.outboxes.iter().enumerate() {
            let base = self.selection(&Item::Outbox(index), world);
            row(outbox_hops(part, world), false, base, buf);
        }
        if !flow.consumers.is_empty() {
            row(
                heading(["queue", "consumers", "inbox", "dead"], "ready"),
                true,
                None,
                buf,
            );
        }
        for (index, consumer) in flow.consumers.iter().enumerate() {
            let base = self.selection(&Item::Consumer(index), world);
            row(consumer_hops(consumer), false, base, buf);
        }
    }

    fn draw_charts(&self, area: Rect, buf: &mut Buffer, world: &World) {
        if area.height < 3 || area.width < 20 {
            return;
        }
        let flow = world.readings.flow.value.as_deref();
        let rate = |value: f64| {
            if value < 9.95 {
                format!("{value:.1}/s")
            } else {
                format!("{value:.0}/s")
            }
        };
        let charts: [(&str, &Points, Option<String>, f64); 4] = [
            (
                "Oldest due",
                &self.history.oldest_due_s,
                flow.and_then(oldest_due).map(human::age),
                60.0,
            ),
            (
                "Published",
                &self.history.published_per_s,
                flow.and_then(|flow| flow.published_per_s).map(rate),
                f64::INFINITY,
            ),
            (
                "Consumer lag",
                &self.history.lag_s,
                flow.and_then(largest_lag).map(human::age),
                30.0,
            ),
            (
                "Deaths/min",
                &self.history.deaths_per_min,
                flow.and_then(|flow| flow.deaths_per_min)
                    .map(|value| format!("{value:.0}")),
                0.5,
            ),
        ];
        let mut x = area.x;
        for (index, (title, points, now, limit)) in charts.into_iter().enumerate() {
            // Neighbours share a border; the last one takes what is left.
            let right = if index == 3 {
                area.right()
            } else {
                area.x + area.width * columns(index + 1) / 4 + 1
            };
            let rect = Rect {
                x,
                width: right.saturating_sub(x),
                ..area
            };
            x = right.saturating_sub(1);
            let inner = paint::inset(paint::boxed(buf, rect, title, world.theme), 1);
            let is_high = points
                .back()
                .copied()
                .flatten()
                .is_some_and(|value| value > limit);
            draw_chart(inner, buf, world, points, now, is_high);
        }
    }
}

fn draw_chart(
    area: Rect,
    buf: &mut Buffer,
    world: &World,
    points: &Points,
    now: Option<String>,
    is_high: bool,
) {
    if area.height == 0 {
        return;
    }
    let (text, role) = match now {
        Some(text) => (text, if is_high { Role::Warn } else { Role::Strong }),
        None => ("?".to_owned(), Role::Unknown),
    };
    let number = columns(paint::width_of(&text)).max(6) + 1;
    let width = area.width.saturating_sub(number);
    let bars = sparkline::bars(
        points.iter().copied(),
        usize::from(width),
        usize::from(area.height),
    );
    let style = world
        .theme
        .style(if is_high { Role::Warn } else { Role::Key });
    for (offset, bar) in bars.iter().enumerate() {
        paint::put(buf, area.x, area.y + columns(offset), width, bar, style);
    }
    let x = area.right().saturating_sub(columns(paint::width_of(&text)));
    paint::put(
        buf,
        x,
        area.bottom() - 1,
        number,
        &text,
        world.theme.style(role),
    );
}

fn draw_fact(fact: &Fact, area: Rect, buf: &mut Buffer, world: &World, base: Option<Style>) {
    if let Some(style) = base {
        paint::shade(buf, area, style);
        paint::put(buf, area.x, area.y, 1, "▸", style);
    }
    let spec = fact.evidence.spec();
    let evidence = format!("{} {}", spec.number, spec.title);
    let room = area.width.saturating_sub(2);
    let right = columns(paint::width_of(&evidence));
    let has_room = room > right + 30 && fact.evidence != super::PaneId::Overview;
    let text_room = if has_room { room - right - 3 } else { room };
    paint::put_line(
        buf,
        (area.x + 2, area.y),
        text_room,
        &[
            Span::new(format!("{} ", fact.glyph()), fact.role),
            Span::new(fact.text.clone(), fact.role),
        ],
        world.theme,
        base,
    );
    if has_room {
        paint::put_line(
            buf,
            (area.right() - 1 - right, area.y),
            right,
            &[Span::new(evidence, Role::Dim)],
            world.theme,
            base,
        );
    }
}

/// The second line of a verdict.
fn draw_more(fact: &Fact, area: Rect, buf: &mut Buffer, world: &World, base: Option<Style>) {
    if let Some(style) = base {
        paint::shade(buf, area, style);
    }
    let text = fact.more.clone().unwrap_or_default();
    let (x, room) = (area.x + 4, area.width.saturating_sub(5));
    paint::put_line(
        buf,
        (x, area.y),
        room,
        &[Span::new(text, Role::Dim)],
        world.theme,
        base,
    );
}

fn draw_workers(area: Rect, buf: &mut Buffer, world: &World) {
    if area.height < 3 {
        return;
    }
    let inner = paint::boxed(buf, area, "Workers in this process", world.theme);
    for (offset, report) in world
        .workers
        .iter()
        .take(usize::from(inner.height))
        .enumerate()
    {
        let counts = report
            .counts
            .iter()
            .map(|(name, n)| format!("{name} {}", human::grouped(*n)))
            .collect::<Vec<_>>()
            .join("  ");
        let (doing, role) = if counts.is_empty() {
            ("idle".to_owned(), Role::Dim)
        } else {
            (counts, Role::Text)
        };
        let mut line = vec![
            Span::new(format!("{:<12} ", report.worker), Role::Text),
            Span::new(format!("{:<14} ", report.service), Role::Dim),
            Span::new(doing, role),
        ];
        if let Some(problem) = &report.problem {
            line.push(Span::new(format!("   ! {problem}"), Role::Warn));
        }
        paint::put_line(
            buf,
            (inner.x + 1, inner.y + columns(offset)),
            inner.width.saturating_sub(2),
            &line,
            world.theme,
            None,
        );
    }
}
