//! How the Dead letters pane looks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{DeadLetters, Part, SPEC, Tab};
use crate::base::human;
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetter, DeadLetterGroup, DeadLetterStatus};
use crate::tui::pane::browser::{self, Browser, Frame, short_id};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{self, Line, Span, columns};
use crate::tui::widget::table::{Column, Table};
use crate::tui::world::World;

const GROUP_COLUMNS: [Column; 7] = [
    Column::text("cause", 10, 14, 1, 0),
    Column::text("type", 15, 18, 1, 0),
    Column::text("error", 18, 30, 3, 0),
    Column::number("n", 7, 0),
    Column::number("first", 6, 3),
    Column::number("last", 6, 0),
    Column::text("owner", 6, 10, 1, 2),
];

const ROW_COLUMNS: [Column; 9] = [
    Column::text("event", 13, 13, 0, 0),
    Column::text("consumer", 9, 12, 0, 5),
    Column::text("key", 6, 12, 1, 1),
    Column::number("v", 3, 4),
    Column::number("died", 6, 0),
    Column::number("deaths", 6, 2),
    Column::number("replays", 7, 3),
    Column::text("replay", 11, 11, 0, 2),
    Column::text("error", 14, 30, 4, 0),
];

/// Where the parts of the pane stand.
pub struct Layout {
    pub head: Rect,
    pub groups: Rect,
    pub rows: Rect,
    pub detail: Rect,
}

impl Layout {
    pub fn cut(area: Rect, pane: &DeadLetters, world: &World) -> Self {
        let frame = Frame::cut(area, SPEC.feed, world);
        let body = frame.body;
        let none = Rect { height: 0, ..body };
        if body.height < 16 && pane.part == Part::Detail {
            return Self {
                head: frame.head,
                groups: none,
                rows: none,
                detail: body,
            };
        }
        let wanted = columns(pane.groups.len()).saturating_add(1);
        let groups = wanted
            .clamp(2, (body.height / 3).clamp(3, 9))
            .min(body.height);
        let (groups, rest) = paint::split_top(body, groups);
        // One blank line keeps the two tables apart where there is room for it.
        let gap = u16::from(rest.height > 16);
        let (_, rest) = paint::split_top(rest, gap);
        let detail = if body.height < 16 {
            0
        } else if pane.part == Part::Detail {
            rest.height * 3 / 4
        } else {
            rest.height / 2
        };
        let (rows, detail) = paint::split_top(rest, rest.height - detail);
        Self {
            head: frame.head,
            groups,
            rows,
            detail,
        }
    }
}

/// Where the tabs of the detail begin: `┌ Why ── Payload ──`.
const TABS_FROM: u16 = 1;

/// The tab at a column of the detail's upper edge.
pub fn tab_at(x: u16) -> Option<Tab> {
    let mut from = TABS_FROM;
    for (tab, title) in Tab::ALL {
        let to = from + columns(title.len()) + 2;
        if (from..to).contains(&x) {
            return Some(tab);
        }
        from = to + 2;
    }
    None
}

impl DeadLetters {
    pub(super) fn view(&self, area: Rect, buf: &mut Buffer, world: &World) {
        let layout = Layout::cut(area, self, world);
        browser::headline(
            buf,
            layout.head,
            "Dead letters",
            &Self::summary(world),
            &self.status_line(),
            world,
        );
        browser::problems(buf, browser::below(area, 1), SPEC.feed, world);
        Table {
            columns: &GROUP_COLUMNS,
            list: &self.groups,
            is_focused: self.part == Part::Groups,
            theme: world.theme,
        }
        .draw(layout.groups, buf, |index| match self.group(world, index) {
            Some((_, group)) => group_cells(group, world),
            None => all_cells(world),
        });
        Table {
            columns: &ROW_COLUMNS,
            list: &self.rows,
            is_focused: self.part == Part::Rows,
            theme: world.theme,
        }
        .draw(layout.rows, buf, |index| {
            self.row(world, index)
                .map(|(_, letter)| row_cells(letter, world))
                .unwrap_or_default()
        });
        if self.rows.is_empty() {
            let nothing = format!("✓ no dead letter is {}", self.status().word());
            browser::empty(
                buf,
                layout.rows,
                SPEC.feed,
                &nothing,
                self.total > 0 || (world.is_behind(SPEC.feed) && !self.filter_text.is_empty()),
                world,
            );
        }
        self.draw_detail(layout.detail, buf, world);
    }

    fn summary(world: &World) -> Line {
        let Some(value) = world.readings.dead_letters.value.as_deref() else {
            return Line::new();
        };
        let facts = || value.services.iter().filter_map(|part| part.value.as_ref());
        let mut line = Line::new();
        let open = value
            .services
            .iter()
            .map(|part| part.value.as_ref().and_then(|facts| facts.groups.open))
            .try_fold(Count::Exact(0), |sum, open| open.map(|open| sum.plus(open)));
        let is_cut = facts().any(|facts| facts.groups.truncated);
        match open {
            Some(open) => line.push(Span::new(
                format!("{open} open"),
                if open.is_zero() {
                    Role::Good
                } else {
                    Role::Strong
                },
            )),
            None => line.push(Span::new("? open", Role::Unknown)),
        }
        let causes: usize = facts().map(|facts| facts.groups.groups.len()).sum();
        if causes > 0 {
            line.push(Span::new(
                format!(
                    " in {}{causes} cause{}",
                    if is_cut { "≥ " } else { "" },
                    if causes == 1 { "" } else { "s" }
                ),
                Role::Text,
            ));
        }
        let oldest = facts()
            .filter_map(|facts| facts.groups.oldest_open_s)
            .fold(None, |most: Option<f64>, age| {
                Some(most.map_or(age, |most| most.max(age)))
            });
        if let Some(oldest) = oldest {
            line.push(Span::new(
                format!(", oldest {}", human::age(oldest)),
                Role::Text,
            ));
        }
        let replaying: u64 = facts()
            .filter_map(|facts| facts.groups.replaying)
            .map(Count::floor)
            .sum();
        if replaying > 0 {
            line.push(Span::new(
                format!("   ▶ {replaying} replaying"),
                Role::Accent,
            ));
        }
        for (queue, depth) in facts().flat_map(|facts| &facts.queued) {
            match depth {
                Some(0) => {}
                Some(n) => line.push(Span::new(
                    format!("   ! {} not collected from {queue}", human::grouped(*n)),
                    Role::Warn,
                )),
                None => line.push(Span::new(format!("   {queue} ?"), Role::Unknown)),
            }
        }
        line
    }

    fn status_line(&self) -> Line {
        let mut line = Line::new();
        if self.status() != DeadLetterStatus::Open {
            line.push(Span::new(
                format!("{}  ", self.status().word()),
                Role::Accent,
            ));
        }
        if !self.filter_text.is_empty() {
            line.push(Span::new("filter ", Role::Dim));
            line.push(Span::new(self.filter_text.clone(), Role::Warn));
            line.push(Span::new(
                format!(" {} of {}  ", self.rows.len(), self.total),
                Role::Dim,
            ));
        }
        if let Some((service, _, no)) = &self.page {
            line.push(Span::new(format!("{service} page {no}  "), Role::Text));
        }
        if self.rows.marked() > 0 {
            line.push(Span::new(
                format!("{} marked  ", self.rows.marked()),
                Role::Warn,
            ));
        }
        if self.rows.is_gone() {
            line.push(Span::new("the row left this list  ", Role::Warn));
        }
        if !self.rows.is_empty() {
            line.push(Span::new(self.rows.position(), Role::Dim));
        }
        line
    }

    fn draw_detail(&self, area: Rect, buf: &mut Buffer, world: &World) {
        if area.height < 3 {
            return;
        }
        let is_focused = self.part == Part::Detail;
        let border = if is_focused {
            Role::Accent
        } else {
            Role::Border
        };
        paint::boxed_as(buf, area, "", world.theme, border);
        let mut x = area.x + TABS_FROM;
        for (tab, title) in Tab::ALL {
            let style = if tab == self.tab {
                world.theme.style(if is_focused {
                    Role::Selected
                } else {
                    Role::Strong
                })
            } else {
                world.theme.style(Role::Dim)
            };
            let room = area.right().saturating_sub(x + 1);
            x += paint::put(buf, x, area.y, room, &format!(" {title} "), style) + 2;
        }
        self.doc.draw(Browser::inside(area), buf, world.theme);
        browser::corner(buf, area, &self.doc.position(), world);
    }
}

fn all_cells(world: &World) -> Vec<Span> {
    let facts = || {
        world
            .readings
            .dead_letters
            .value
            .as_deref()
            .into_iter()
            .flat_map(|value| &value.services)
            .filter_map(|part| part.value.as_ref())
    };
    let groups = || facts().flat_map(|facts| &facts.groups.groups);
    let first = groups().map(|group| group.first_died_at).min();
    let last = groups().map(|group| group.last_died_at).max();
    let count: u64 = groups().map(|group| group.count).sum();
    let value = world.readings.dead_letters.value.as_deref();
    let is_known = value.is_some_and(|value| {
        value.services.iter().all(|part| {
            part.value
                .as_ref()
                .is_some_and(|facts| !facts.groups.truncated)
        })
    });
    let count = match (is_known, count) {
        (true, count) => Span::new(human::grouped(count), Role::Text),
        (false, 0) => Span::new("?", Role::Unknown),
        (false, count) => Span::new(format!("≥ {}", human::grouped(count)), Role::Unknown),
    };
    vec![
        Span::new("all causes", Role::Text),
        Span::new("", Role::Dim),
        Span::new("", Role::Dim),
        count,
        Span::new(first.map_or("–".into(), |at| world.age(at)), Role::Dim),
        Span::new(last.map_or("–".into(), |at| world.age(at)), Role::Text),
        Span::new("", Role::Dim),
    ]
}

fn group_cells(group: &DeadLetterGroup, world: &World) -> Vec<Span> {
    vec![
        Span::new(group.consumer.to_string(), Role::Strong),
        match &group.event_type {
            Some(event_type) => Span::new(event_type.clone(), Role::Text),
            None => Span::new("no type", Role::Unknown),
        },
        Span::new(group.error_class.clone(), Role::Removed),
        Span::new(human::grouped(group.count), Role::Strong),
        Span::new(world.age(group.first_died_at), Role::Dim),
        Span::new(world.age(group.last_died_at), Role::Text),
        Span::new(
            match (&group.owner, &group.note) {
                (Some(owner), Some(note)) => format!("{owner}: {note}"),
                (Some(owner), None) => owner.clone(),
                (None, Some(note)) => note.clone(),
                (None, None) => "–".to_owned(),
            },
            Role::Dim,
        ),
    ]
}

/// Whether a replay may be asked for, by what the list knows.
pub fn replay_word(letter: &DeadLetter, world: &World) -> (&'static str, Role) {
    let is_never = letter.event_type.as_ref().is_some_and(|event_type| {
        world
            .context
            .never_replay
            .iter()
            .any(|never| never == event_type)
    });
    match letter.status {
        DeadLetterStatus::Open if is_never => ("never", Role::Bad),
        DeadLetterStatus::Open if !letter.replay_allowed => ("not allowed", Role::Bad),
        DeadLetterStatus::Open => ("allowed", Role::Good),
        DeadLetterStatus::Replaying => ("replaying", Role::Accent),
        status => (status.word(), Role::Dim),
    }
}

fn row_cells(letter: &DeadLetter, world: &World) -> Vec<Span> {
    let (replay, replay_role) = replay_word(letter, world);
    let often = |n: i64| Span::new(n.to_string(), if n > 1 { Role::Warn } else { Role::Dim });
    vec![
        match &letter.event_id {
            Some(id) => Span::new(short_id(id.as_str()), Role::Text),
            None => Span::new("no event id", Role::Unknown),
        },
        Span::new(letter.consumer.to_string(), Role::Dim),
        Span::new(
            letter
                .aggregate_id
                .as_ref()
                .map_or("–".into(), ToString::to_string),
            Role::Text,
        ),
        Span::new(
            letter
                .aggregate_version
                .map_or("–".into(), |version| version.to_string()),
            Role::Dim,
        ),
        Span::new(world.age(letter.last_died_at), Role::Text),
        often(letter.deaths),
        often(letter.replays),
        Span::new(replay, replay_role),
        Span::new(
            letter
                .error_summary
                .clone()
                .unwrap_or_else(|| letter.error_class.clone()),
            Role::Text,
        ),
    ]
}
