//! Sagas: failed compensations on top, then the overdue, then the stalest; steps as a track.

use super::browser::{Facts, not_configured, short_id};
use super::listing::{ListPane, Listing, Place};
use super::{Ask, PaneId, PaneSpec};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::filter::FilterKind;
use crate::model::saga::{Saga, SagaState, SagaStep, StepState};
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Sagas,
    number: '6',
    title: "Sagas",
    short: "Sagas",
    word: "sagas",
    scope: Scope::Sagas,
    feed: "sagas",
    make: || Box::new(ListPane::<Sagas>::default()),
};

/// Sagas of all services.
#[derive(Default)]
pub struct Sagas;

fn is_overdue(saga: &Saga, now: Timestamp) -> bool {
    !saga.is_finished() && saga.deadline_at.is_some_and(|deadline| deadline < now)
}

/// The next timer: the earliest timeout of a step that waits.
fn next_timer(saga: &Saga) -> Option<Timestamp> {
    saga.steps
        .iter()
        .filter(|step| {
            matches!(step.forward, StepState::InFlight | StepState::Unknown)
                || matches!(step.compensation, StepState::InFlight | StepState::Unknown)
        })
        .filter_map(|step| step.timeout_at)
        .min()
}

const fn glyph(state: StepState) -> (&'static str, Role) {
    match state {
        StepState::Pending => ("○", Role::Dim),
        StepState::InFlight => ("▶", Role::Warn),
        StepState::Succeeded => ("✓", Role::Good),
        StepState::Failed => ("✖", Role::Bad),
        StepState::Unknown => ("?", Role::Unknown),
        StepState::Skipped => ("–", Role::Dim),
    }
}

/// `✓ ✓ ✖ ○`, and the compensating side when it has begun: `✓ ✓ ✖ ○ ◀ ✓ ✖ –`.
fn track(saga: &Saga) -> String {
    let forward: Vec<&str> = saga
        .steps
        .iter()
        .map(|step| glyph(step.forward).0)
        .collect();
    let has_compensation = saga
        .steps
        .iter()
        .any(|step| !matches!(step.compensation, StepState::Pending | StepState::Skipped));
    if has_compensation {
        let back: Vec<&str> = saga
            .steps
            .iter()
            .map(|step| glyph(step.compensation).0)
            .collect();
        format!("{} ◀ {}", forward.join(" "), back.join(" "))
    } else {
        forward.join(" ")
    }
}

/// The step that is being worked on or failed.
fn current(saga: &Saga) -> Option<&SagaStep> {
    saga.steps
        .iter()
        .find(|step| {
            matches!(
                step.compensation,
                StepState::Failed | StepState::InFlight | StepState::Unknown
            )
        })
        .or_else(|| {
            saga.steps.iter().find(|step| {
                matches!(
                    step.forward,
                    StepState::Failed | StepState::InFlight | StepState::Unknown
                )
            })
        })
        .or_else(|| {
            saga.steps
                .iter()
                .find(|step| step.forward == StepState::Pending)
        })
}

impl Listing for Sagas {
    type Row = Saga;
    const FEED: &'static str = "sagas";
    const TITLE: &'static str = "Sagas";
    const DETAIL: &'static str = "Saga";
    const NOTHING: &'static str = "no sagas";
    const KIND: FilterKind = FilterKind::Sagas;
    const COLUMNS: &'static [Column] = &[
        Column::text("saga", 13, 13, 0, 2),
        Column::text("type", 8, 10, 0, 3),
        Column::text("key", 8, 12, 1, 0),
        Column::text("state", 19, 19, 0, 0),
        Column::text("steps", 11, 13, 2, 0),
        Column::text("now at", 12, 14, 2, 2),
        Column::number("idle", 7, 0),
        Column::number("deadline", 12, 1),
        Column::number("timer", 8, 4),
    ];

    fn parts(world: &World) -> Vec<(&str, &[Saga])> {
        world
            .readings
            .sagas
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

    fn id(service: &str, row: &Saga) -> String {
        format!("{service}/{}", row.saga_id)
    }

    fn sort(rows: &mut [(&str, &Saga, Place)], world: &World) {
        rows.sort_by_key(|(_, saga, _)| {
            (
                !saga.needs_attention(),
                saga.is_finished(),
                !is_overdue(saga, world.now),
                saga.updated_at,
            )
        });
    }

    fn summary(&self, world: &World) -> Line {
        let parts = Self::parts(world);
        if world.readings.sagas.value.is_none()
            || not_configured(Self::FEED, &world.context).is_some()
        {
            return Line::new();
        }
        let all = || parts.iter().flat_map(|(_, sagas)| sagas.iter());
        let failed = all().filter(|saga| saga.needs_attention()).count();
        let overdue = all().filter(|saga| is_overdue(saga, world.now)).count();
        let open = all().filter(|saga| !saga.is_finished()).count();
        let mut line = Line::new();
        if failed > 0 {
            line.push(Span::new(
                format!("✖ {failed} with a failed compensation   "),
                Role::Bad,
            ));
        }
        if overdue > 0 {
            line.push(Span::new(format!("! {overdue} overdue   "), Role::Warn));
        }
        line.push(Span::new(format!("{open} open"), Role::Text));
        line
    }

    fn cells(_service: &str, row: &Saga, world: &World) -> Vec<Span> {
        let state_role = if row.needs_attention() {
            Role::Bad
        } else if row.is_finished() {
            Role::Dim
        } else if row.state == SagaState::Compensating {
            Role::Warn
        } else {
            Role::Text
        };
        vec![
            Span::new(short_id(row.saga_id.as_str()), Role::Text),
            Span::new(row.saga_type.clone(), Role::Dim),
            Span::new(row.business_key.clone(), Role::Strong),
            Span::new(row.state.word(), state_role),
            Span::new(track(row), state_role),
            Span::new(
                current(row)
                    .filter(|_| !row.is_finished())
                    .map_or_else(String::new, |step| step.name.clone()),
                Role::Text,
            ),
            Span::new(world.age(row.updated_at), Role::Text),
            timer(row.deadline_at.filter(|_| !row.is_finished()), world),
            timer(next_timer(row), world),
        ]
    }

    fn detail(service: &str, row: &Saga, world: &World) -> Vec<Line> {
        let mut facts = Facts::new(10);
        facts
            .add_as("saga", row.saga_id.as_str(), Role::Strong)
            .add(
                "for",
                format!("{} {} of {service}", row.saga_type, row.business_key),
            )
            .add_as(
                "state",
                format!("{}  v{}", row.state.word(), row.version),
                if row.needs_attention() {
                    Role::Bad
                } else {
                    Role::Text
                },
            )
            .add(
                "changed",
                format!(
                    "{} ago, started {} ago",
                    world.age(row.updated_at),
                    world.age(row.created_at)
                ),
            );
        match row.deadline_at {
            Some(at) if is_overdue(row, world.now) => {
                facts.add_as(
                    "deadline",
                    format!("{}, overdue by {}", at.to_rfc3339(), world.age(at)),
                    Role::Bad,
                );
            }
            Some(at) => {
                facts.add("deadline", at.to_rfc3339());
            }
            None => {
                facts.add("deadline", "none");
            }
        }
        facts.line(vec![Span::new("", Role::Text)]);
        for step in &row.steps {
            let (forward, forward_role) = glyph(step.forward);
            let (back, back_role) = glyph(step.compensation);
            facts.line(vec![
                Span::new(format!("{:>2}  {:<22} ", step.no, step.name), Role::Text),
                Span::new(
                    format!("{forward} {:<10}", step.forward.word()),
                    forward_role,
                ),
                Span::new("  undo ", Role::Dim),
                Span::new(
                    format!("{back} {:<10}", step.compensation.word()),
                    back_role,
                ),
                Span::new(
                    if step.attempts > 1 {
                        format!("  tries {}", step.attempts)
                    } else {
                        String::new()
                    },
                    Role::Warn,
                ),
                Span::new(
                    step.timeout_at
                        .map_or_else(String::new, |at| format!("  timeout {}", at.to_clock())),
                    Role::Dim,
                ),
            ]);
            if let Some(error) = &step.last_error {
                facts.line(vec![
                    Span::new("    ", Role::Dim),
                    Span::new(error.clone(), Role::Removed),
                ]);
            }
            if let Some(event) = &step.event_id {
                facts.line(vec![
                    Span::new("    event ", Role::Dim),
                    Span::new(event.to_string(), Role::Text),
                ]);
            }
        }
        if current(row).is_some_and(|step| step.event_id.is_some()) && !row.is_finished() {
            facts.line(vec![
                Span::new("→ ", Role::Key),
                Span::new(
                    "the message it waits for, among the dead letters",
                    Role::Dim,
                ),
            ]);
        }
        facts.take()
    }

    fn subject(row: &Saga) -> Option<String> {
        Some(row.saga_id.to_string())
    }

    fn act(
        &mut self,
        action: Action,
        selected: Option<(&str, &Saga)>,
        _world: &World,
    ) -> Option<Vec<Ask>> {
        // The message that blocks a saga is one key away.
        if action != Action::Right {
            return None;
        }
        let event = selected
            .and_then(|(_, saga)| current(saga))
            .and_then(|step| step.event_id.as_ref());
        Some(match event {
            Some(event) => vec![Ask::Go(PaneId::DeadLetters, Some(format!("event:{event}")))],
            None => vec![Ask::Explain("no event is known that it waits for".into())],
        })
    }
}

fn timer(at: Option<Timestamp>, world: &World) -> Span {
    match at {
        None => Span::new("–", Role::Dim),
        Some(at) if at < world.now => Span::new(format!("over {}", world.age(at)), Role::Bad),
        Some(at) => Span::new(
            format!("in {}", human::age(at.seconds_since(world.now))),
            Role::Text,
        ),
    }
}
