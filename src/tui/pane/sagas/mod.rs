//! Sagas: failed compensations on top, then what else a person has to see, then the overdue, then the
//! stalest; steps as a track with both directions.

#[cfg(test)]
mod tests;
mod view;

use super::browser::{not_configured, short_id};
use super::listing::{ListPane, Listing, Place};
use super::{Ask, PaneId, PaneSpec};
use crate::model::filter::FilterKind;
use crate::model::saga::{Saga, SagaState, StepState};
use crate::operate::plan::{Request, SagaWish};
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;
use view::{blocking, is_overdue, next_timer, now_at, state_role, timer, track};

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Sagas,
    number: '6',
    title: "Sagas",
    short: "Saga",
    word: "sagas",
    scope: Scope::Sagas,
    feed: "sagas",
    make: || Box::new(ListPane::<Sagas>::default()),
};

/// Sagas of all services.
#[derive(Default)]
pub struct Sagas;

impl Listing for Sagas {
    type Row = Saga;
    const FEED: &'static str = "sagas";
    const TITLE: &'static str = "Sagas";
    const DETAIL: &'static str = "Saga";
    const NOTHING: &'static str = "no sagas";
    const KIND: FilterKind = FilterKind::Sagas;
    const COLUMNS: &'static [Column] = &[
        Column::text("saga", 13, 13, 0, 3),
        Column::text("type", 8, 10, 0, 4),
        Column::text("key", 8, 12, 1, 0),
        Column::text("state", 19, 19, 0, 0),
        Column::text("steps", 13, 13, 2, 0),
        Column::text("now at", 13, 16, 2, 2),
        Column::number("idle", 7, 0),
        Column::number("deadline", 10, 1),
        Column::number("timer", 9, 5),
        Column::text("owner", 6, 8, 0, 6),
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
                saga.state != SagaState::CompensationFailed,
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
        let count = |wanted: &dyn Fn(&Saga) -> bool| {
            let all = parts.iter().flat_map(|(_, sagas)| sagas.iter());
            all.filter(|saga| wanted(saga)).count()
        };
        let is_failed = |saga: &Saga| saga.state == SagaState::CompensationFailed;
        let failed = count(&is_failed);
        let told = count(&|saga| saga.needs_attention() && !is_failed(saga));
        let overdue = count(&|saga| is_overdue(saga, world.now));
        let open = count(&|saga| !saga.is_finished());
        let mut line = Line::new();
        if failed > 0 {
            line.push(Span::new(
                format!("✖ {failed} with a failed compensation   "),
                Role::Bad,
            ));
        }
        if told > 0 {
            line.push(Span::new(format!("✖ {told} to look at   "), Role::Bad));
        }
        if overdue > 0 {
            line.push(Span::new(format!("! {overdue} overdue   "), Role::Warn));
        }
        line.push(Span::new(format!("{open} open"), Role::Text));
        line
    }

    fn cells(_service: &str, row: &Saga, world: &World) -> Vec<Span> {
        let role = state_role(row);
        vec![
            Span::new(short_id(row.saga_id.as_str()), Role::Text),
            Span::new(row.saga_type.clone(), Role::Dim),
            Span::new(row.business_key.clone(), Role::Strong),
            Span::new(row.state.word(), role),
            Span::new(track(row), role),
            Span::new(now_at(row), Role::Text),
            Span::new(world.age(row.updated_at), Role::Text),
            timer(row.deadline_at.filter(|_| !row.is_finished()), world),
            timer(next_timer(row), world),
            Span::new(row.owner.clone().unwrap_or_default(), Role::Text),
        ]
    }

    fn detail(service: &str, row: &Saga, world: &World) -> Vec<Line> {
        view::detail(service, row, world)
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
        let pane = match action {
            // The message that blocks a saga is one key away.
            Action::Right => PaneId::DeadLetters,
            Action::Origin => PaneId::Outbox,
            _ => return wish_of(action).map(|wish| plan(wish, selected)),
        };
        let event = selected.and_then(|(_, saga)| blocking(saga));
        Some(match event {
            Some(event) => vec![Ask::Go(pane, Some(format!("event:{event}")))],
            None => vec![Ask::Explain("no event is known that it waits for".into())],
        })
    }

    fn allows(&self, action: Action, selected: Option<(&str, &Saga)>, _world: &World) -> bool {
        let Some((_, saga)) = selected else {
            return !matches!(action, Action::Origin) && wish_of(action).is_none();
        };
        let state = saga.current().map(|(step, side)| step.state(side));
        match action {
            Action::Origin => blocking(saga).is_some(),
            Action::SagaRetry => state.is_some(),
            Action::SagaQuery => state.is_some_and(StepState::is_open),
            Action::SagaCompensate => saga.state == SagaState::Running,
            Action::SagaHandled => {
                saga.needs_attention()
                    || state.is_some_and(|state| state.is_open() || state == StepState::Failed)
            }
            _ => true,
        }
    }
}

/// What a key wants with a saga.
const fn wish_of(action: Action) -> Option<SagaWish> {
    match action {
        Action::SagaRetry => Some(SagaWish::Retry),
        Action::SagaQuery => Some(SagaWish::Query),
        Action::SagaCompensate => Some(SagaWish::Compensate),
        Action::SagaHandled => Some(SagaWish::Handled {
            is_done: true,
            evidence: None,
        }),
        Action::SagaAssign => Some(SagaWish::Assign { owner: None }),
        _ => None,
    }
}

fn plan(wish: SagaWish, selected: Option<(&str, &Saga)>) -> Vec<Ask> {
    match selected {
        Some((service, saga)) => vec![Ask::Plan(Request::Saga {
            service: service.to_owned(),
            saga_id: saga.saga_id.clone(),
            step: None,
            wish,
        })],
        None => vec![Ask::Explain("no saga is under the cursor".into())],
    }
}
