//! Operations: what operators did, item by item, and what proves it.

use super::browser::{Facts, short_id};
use super::listing::{ListPane, Listing, Place};
use super::{PaneId, PaneSpec};
use crate::model::filter::FilterKind;
use crate::model::operation::{ItemState, Operation, OperationState};
use crate::tui::keymap::Scope;
use crate::tui::theme::Role;
use crate::tui::widget::json;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Operations,
    number: '8',
    title: "Operations",
    short: "Ops",
    word: "operations",
    scope: Scope::Operations,
    feed: "operations",
    make: || Box::new(ListPane::<Operations>::default()),
};

/// Operations of all journals.
#[derive(Default)]
pub struct Operations;

/// Glyph and role of an item's state.
pub(crate) const fn item_glyph(state: ItemState) -> (&'static str, Role) {
    match state {
        ItemState::Reserved | ItemState::Publishing => ("▶", Role::Warn),
        ItemState::Published => ("▶", Role::Accent),
        ItemState::Consumed | ItemState::Applied => ("✓", Role::Good),
        ItemState::DiedAgain => ("✖", Role::Bad),
        ItemState::Unroutable | ItemState::Refused => ("✖", Role::Warn),
        ItemState::Unknown => ("?", Role::Unknown),
    }
}

/// `2 consumed, 1 died again`: how the items stand, in the order of their states.
fn progress(operation: &Operation) -> String {
    ItemState::ALL
        .into_iter()
        .filter_map(|state| {
            let n = operation
                .items
                .iter()
                .filter(|item| item.state == state)
                .count();
            (n > 0).then(|| {
                let word = state.word().replace('_', " ");
                if operation.items.len() == 1 {
                    word
                } else {
                    format!("{n} {word}")
                }
            })
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn worst(operation: &Operation) -> (&'static str, Role) {
    let rank = |state: ItemState| match state {
        ItemState::Unknown => 0,
        ItemState::DiedAgain => 1,
        ItemState::Unroutable | ItemState::Refused => 2,
        ItemState::Reserved | ItemState::Publishing | ItemState::Published => 3,
        ItemState::Consumed | ItemState::Applied => 4,
    };
    operation
        .items
        .iter()
        .map(|item| item.state)
        .min_by_key(|state| rank(*state))
        .map_or(("–", Role::Dim), item_glyph)
}

impl Listing for Operations {
    type Row = Operation;
    const FEED: &'static str = "operations";
    const TITLE: &'static str = "Operations";
    const DETAIL: &'static str = "Operation";
    const NOTHING: &'static str = "nothing was done yet: R on a dead letter replays it";
    const KIND: FilterKind = FilterKind::Operations;
    const COLUMNS: &'static [Column] = &[
        Column::text("operation", 13, 13, 0, 3),
        Column::text("verb", 7, 7, 0, 0),
        Column::text("progress", 14, 14, 1, 0),
        Column::number("ago", 6, 0),
        Column::number("took", 6, 4),
        Column::text("event", 13, 13, 0, 1),
        Column::text("consumer", 9, 12, 0, 2),
        Column::text("who", 8, 10, 1, 3),
        Column::text("reason", 10, 24, 3, 1),
    ];

    fn parts(world: &World) -> Vec<(&str, &[Operation])> {
        world
            .readings
            .operations
            .value
            .as_deref()
            .map(|value| {
                value
                    .services
                    .iter()
                    .filter_map(|part| {
                        Some((part.service.as_str(), part.value.as_ref()?.as_slice()))
                    })
                    .collect()
            })
            .unwrap_or_default()
    }

    fn id(service: &str, row: &Operation) -> String {
        format!("{service}/{}", row.operation_id)
    }

    fn sort(rows: &mut [(&str, &Operation, Place)], _world: &World) {
        rows.sort_by(|(_, a, _), (_, b, _)| {
            b.created_at
                .cmp(&a.created_at)
                .then_with(|| b.operation_id.cmp(&a.operation_id))
        });
    }

    fn summary(&self, world: &World) -> Line {
        if world.readings.operations.value.is_none() {
            return Line::new();
        }
        let parts = Self::parts(world);
        let all = || parts.iter().flat_map(|(_, operations)| operations.iter());
        let of = |state| all().filter(|operation| operation.state == state).count();
        let mut line = Line::new();
        let unknown = of(OperationState::Unknown);
        if unknown > 0 {
            line.push(Span::new(
                format!("? {unknown} with an unknown outcome   "),
                Role::Unknown,
            ));
        }
        let running = of(OperationState::Running);
        if running > 0 {
            line.push(Span::new(format!("▶ {running} running   "), Role::Accent));
        }
        line.push(Span::new(format!("{} shown", all().count()), Role::Dim));
        line
    }

    fn cells(_service: &str, row: &Operation, world: &World) -> Vec<Span> {
        let (glyph, role) = worst(row);
        let first = row.items.first();
        vec![
            Span::new(short_id(row.operation_id.as_str()), Role::Dim),
            Span::new(row.verb.word(), Role::Strong),
            Span::new(format!("{glyph} {}", progress(row)), role),
            Span::new(world.age(row.created_at), Role::Text),
            Span::new(
                row.finished_at.map_or("–".into(), |at| {
                    crate::base::human::age(at.seconds_since(row.created_at))
                }),
                Role::Dim,
            ),
            Span::new(
                first
                    .and_then(|item| item.event_id.as_ref())
                    .map_or("–".into(), |id| short_id(id.as_str())),
                Role::Text,
            ),
            Span::new(
                first
                    .and_then(|item| item.consumer.as_ref())
                    .map_or("–".into(), ToString::to_string),
                Role::Text,
            ),
            Span::new(row.actor.clone(), Role::Dim),
            Span::new(row.reason.clone(), Role::Text),
        ]
    }

    fn detail(service: &str, row: &Operation, world: &World) -> Vec<Line> {
        let mut facts = Facts::new(10);
        facts
            .add_as(
                "operation",
                format!("{}  in {service}", row.operation_id),
                Role::Strong,
            )
            .add("what", format!("{}, {}", row.verb.word(), row.state.word()))
            .add("who", row.actor.as_str())
            .add("reason", row.reason.as_str())
            .add_some("ticket", row.ticket.clone())
            .add(
                "confirmed",
                format!(
                    "{}   {} ago",
                    row.created_at.to_rfc3339(),
                    world.age(row.created_at)
                ),
            );
        match row.finished_at {
            Some(at) => facts.add("finished", at.to_rfc3339()),
            None => facts.add_as("finished", "not yet", Role::Warn),
        };
        facts.line(Line::new());
        for item in &row.items {
            let (glyph, role) = item_glyph(item.state);
            facts.line(vec![
                Span::new(format!("{:>3}  ", item.no), Role::Dim),
                Span::new(
                    format!("{glyph} {:<11}", item.state.word().replace('_', " ")),
                    role,
                ),
                Span::new(
                    item.event_id
                        .as_ref()
                        .map_or("no event id".to_owned(), ToString::to_string),
                    Role::Text,
                ),
                Span::new(
                    item.consumer
                        .as_ref()
                        .map_or_else(String::new, |consumer| format!("  {consumer}")),
                    Role::Dim,
                ),
            ]);
            if let Some(evidence) = &item.evidence {
                facts.line(vec![
                    Span::new("     ", Role::Dim),
                    Span::new(evidence.clone(), Role::Text),
                ]);
            }
            if let Some(new) = &item.new_event_id {
                facts.line(vec![
                    Span::new("     new event ", Role::Dim),
                    Span::new(new.to_string(), Role::Text),
                ]);
            }
        }
        facts.line(Line::new());
        facts.add_as("plan", format!("sha256 {}", row.plan_digest), Role::Dim);
        match json::pretty(&row.plan, &world.context.masked) {
            Ok(lines) => {
                for line in lines {
                    facts.line(line);
                }
            }
            Err(_) => {
                facts.add("", row.plan.as_str());
            }
        }
        facts.take()
    }

    fn subject(row: &Operation) -> Option<String> {
        Some(row.operation_id.to_string())
    }
}
