//! How the Outbox pane looks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Outbox, SPEC};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::outbox::{OutboxRow, OutboxState};
use crate::observe::snapshot::{OutboxFacts, Safety};
use crate::tui::pane::browser::{self, Facts, Frame, short_id};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, columns};
use crate::tui::widget::table::{Column, Table};
use crate::tui::world::World;

const COLUMNS: [Column; 9] = [
    Column::text("event", 13, 13, 0, 0),
    Column::text("service", 6, 10, 0, 5),
    Column::text("type", 12, 20, 1, 0),
    Column::text("key", 6, 12, 1, 2),
    Column::number("v", 3, 4),
    Column::number("tries", 5, 3),
    Column::number("age", 6, 1),
    Column::number("next", 9, 1),
    Column::text("last error", 12, 24, 4, 2),
];

/// The list and detail below headline, problems and the line of states.
pub fn list_area(area: Rect, world: &World) -> Rect {
    let frame = Frame::cut(area, SPEC.feed, world);
    paint::split_top(frame.body, 1).1
}

/// The state whose word stands at a column of the line of states.
pub fn state_at(x: u16) -> Option<OutboxState> {
    let mut from = 1;
    for state in OutboxState::ALL {
        let to = from + columns(state.word().len()) + 2;
        if (from..to).contains(&x) {
            return Some(state);
        }
        from = to + 1;
    }
    None
}

impl Outbox {
    pub(super) fn view(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let frame = Frame::cut(area, SPEC.feed, world);
        browser::headline(
            buf,
            frame.head,
            "Outbox",
            &self.summary(world),
            &self.browser.status(),
            world,
        );
        browser::problems(
            buf,
            Rect {
                y: area.y + 1,
                height: area.height.saturating_sub(1),
                ..area
            },
            SPEC.feed,
            world,
        );
        let (states, body) = paint::split_top(frame.body, 1);
        self.draw_states(states, buf, world);
        let (list, detail) = self.browser.areas(body);
        Table {
            columns: &COLUMNS,
            list: &self.browser.list,
            is_focused: !crate::tui::pane::Pane::is_in_detail(self),
            theme: world.theme,
        }
        .draw(list, buf, |index| {
            self.row(world, index)
                .map(|(service, row)| cells(service, row, world))
                .unwrap_or_default()
        });
        if self.browser.list.is_empty() {
            let nothing = format!("✓ no {} rows", self.state.word());
            let is_filtered = self.browser.total > 0;
            browser::empty(buf, list, SPEC.feed, &nothing, is_filtered, world);
        }
        self.browser.draw_detail(detail, buf, world, "Outbox row");
    }

    /// Counts per service, worst things first.
    fn summary(&self, world: &World) -> Line {
        let Some(value) = world.readings.outbox.value.as_deref() else {
            return Line::new();
        };
        let mut line = Line::new();
        for part in &value.services {
            if self
                .service
                .as_ref()
                .is_some_and(|name| *name != part.service)
            {
                continue;
            }
            line.push(Span::new(format!("{} ", part.service), Role::Dim));
            match &part.value {
                Some(facts) => line.extend(counts(facts)),
                None => line.push(Span::new("?", Role::Unknown)),
            }
            line.push(Span::new("   ", Role::Dim));
        }
        line
    }

    fn draw_states(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let mut x = area.x + 1;
        for state in OutboxState::ALL {
            let role = if state == self.state {
                Role::SelectedAway
            } else {
                Role::Dim
            };
            let text = format!(" {} ", state.word());
            let style = if state == self.state {
                world
                    .theme
                    .style(role)
                    .patch(world.theme.style(Role::Strong))
            } else {
                world.theme.style(role)
            };
            x += paint::put(buf, x, area.y, area.right().saturating_sub(x), &text, style) + 1;
        }
        let of = self.service.as_deref().unwrap_or("all services");
        let page = if self.page > 0 {
            format!(", page {}", self.page + 1)
        } else {
            String::new()
        };
        let order = match self.state {
            OutboxState::Sent => "newest first",
            OutboxState::Sending => "by lease",
            _ => "oldest due first",
        };
        let text = format!("{of}{page}, {order}");
        let width = columns(paint::width_of(&text));
        if x + width + 2 < area.right() {
            paint::put(
                buf,
                area.right() - 1 - width,
                area.y,
                width,
                &text,
                world.theme.style(Role::Dim),
            );
        }
    }
}

fn counts(facts: &OutboxFacts) -> Line {
    let counts = &facts.counts;
    let mut line = Line::new();
    let mut push = |text: String, role| line.push(Span::new(text, role));
    if !counts.failed.is_zero() {
        push(format!("{} failed  ", counts.failed), Role::Bad);
    }
    push(format!("{} pending", counts.pending), Role::Text);
    if let Some(oldest) = counts.oldest_due_s {
        let role = if oldest > 60.0 { Role::Warn } else { Role::Dim };
        push(format!(" (due {})", human::age(oldest)), role);
    }
    push(format!("  {} sending", counts.sending), Role::Text);
    match counts.expired_leases {
        Some(expired) if !expired.is_zero() => push(format!(" ({expired} expired)"), Role::Bad),
        _ => {}
    }
    line
}

fn cells(service: &str, row: &OutboxRow, world: &World) -> Vec<Span> {
    let now = world.paused_at.unwrap_or(world.now);
    let next = match (row.state, row.next_attempt_at, row.lease_until, row.sent_at) {
        (OutboxState::Sending, _, Some(until), _) => {
            let left = until.seconds_since(now);
            if left < 0.0 {
                Span::new(format!("over {}", human::age(-left)), Role::Bad)
            } else {
                Span::new(format!("lease {}", human::age(left)), Role::Text)
            }
        }
        (OutboxState::Sent, _, _, Some(at)) => {
            Span::new(format!("{} ago", world.age(at)), Role::Dim)
        }
        (OutboxState::Failed, ..) => Span::new("–", Role::Dim),
        (_, Some(at), _, _) => {
            let due = now.seconds_since(at);
            if due >= 0.0 {
                Span::new(
                    format!("due {}", human::age(due)),
                    if due > 60.0 { Role::Warn } else { Role::Text },
                )
            } else {
                Span::new(format!("in {}", human::age(-due)), Role::Dim)
            }
        }
        _ => Span::new("?", Role::Unknown),
    };
    vec![
        Span::new(short_id(row.event_id.as_str()), Role::Text),
        Span::new(service, Role::Dim),
        Span::new(row.event_type.clone(), Role::Strong),
        Span::new(
            row.aggregate_id
                .as_ref()
                .map_or("–".into(), ToString::to_string),
            Role::Text,
        ),
        Span::new(
            row.aggregate_version
                .map_or("–".into(), |version| version.to_string()),
            Role::Dim,
        ),
        match row.attempts {
            Some(0) => Span::new("0", Role::Dim),
            Some(n) => Span::new(n.to_string(), if n > 1 { Role::Warn } else { Role::Text }),
            None => Span::new("?", Role::Unknown),
        },
        match row.created_at {
            Some(at) => Span::new(world.age(at), Role::Text),
            None => Span::new("?", Role::Unknown),
        },
        next,
        Span::new(row.last_error.clone().unwrap_or_default(), Role::Removed),
    ]
}

/// Everything about one row.
pub fn detail(service: &str, row: &OutboxRow, world: &World) -> Vec<Line> {
    let at =
        |at: Option<Timestamp>| at.map(|at| format!("{}   {} ago", at.to_rfc3339(), world.age(at)));
    let mut facts = Facts::new(12);
    facts
        .add_as("event id", row.event_id.as_str(), Role::Strong)
        .add("type", row.event_type.as_str())
        .add("state", row.state.word())
        .add("service", service)
        .add_or(
            "key",
            row.aggregate_id
                .as_ref()
                .map(|key| match row.aggregate_version {
                    Some(version) => format!("{key}  v{version}"),
                    None => key.to_string(),
                }),
        )
        .add_or("attempts", row.attempts.map(|n| n.to_string()))
        .add_or("created", at(row.created_at));
    match row.state {
        OutboxState::Sent => {
            facts.add_or("sent", at(row.sent_at));
        }
        OutboxState::Sending => {
            facts.add_or(
                "claim token",
                row.claim_token.as_ref().map(ToString::to_string),
            );
            facts.add_or("lease until", row.lease_until.map(Timestamp::to_rfc3339));
        }
        _ => {
            facts.add_or(
                "next attempt",
                row.next_attempt_at.map(Timestamp::to_rfc3339),
            );
        }
    }
    if let Some(error) = &row.last_error {
        facts.add_as("last error", error.as_str(), Role::Bad);
    }
    if row.state == OutboxState::Failed {
        let safety = world
            .readings
            .outbox
            .value
            .as_deref()
            .and_then(|value| value.services.iter().find(|part| part.service == service))
            .and_then(|part| part.value.as_ref())
            .map(|facts| &facts.facts.outbox_replay);
        let (text, role) = match safety {
            Some(Safety::Safe) => (
                "R sets it back to pending, fenced; the dispatcher sends it".to_owned(),
                Role::Good,
            ),
            Some(Safety::MayDuplicate(why)) => (format!("R may send it twice: {why}"), Role::Warn),
            Some(Safety::NeedsApplication(why)) => {
                (format!("only the application can: {why}"), Role::Warn)
            }
            Some(Safety::Impossible(why)) => (format!("not possible: {why}"), Role::Bad),
            None => ("?".to_owned(), Role::Unknown),
        };
        facts.add_as("replay", text, role);
    }
    facts.take()
}
