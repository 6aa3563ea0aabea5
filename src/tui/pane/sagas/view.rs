//! How a saga looks: the track with its two directions, the timers, and everything about one.

use super::super::browser::Facts;
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::saga::{Saga, SagaState, SagaStep, Side, StepState};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::world::World;

/// Characters of a step's name in the table of steps.
const NAME: usize = 14;

pub(super) fn is_overdue(saga: &Saga, now: Timestamp) -> bool {
    !saga.is_finished() && saga.deadline_at.is_some_and(|deadline| deadline < now)
}

/// The next timer: when the coordinator looks next, or a step's own where rows have no such time.
pub(super) fn next_timer(saga: &Saga) -> Option<Timestamp> {
    if saga.is_finished() {
        return None;
    }
    let waiting = saga
        .steps
        .iter()
        .filter(|step| step.forward.is_open() || step.compensation.is_open());
    saga.due_at
        .or_else(|| waiting.filter_map(|step| step.timeout_at).min())
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

/// True once the saga goes back, or went.
const fn goes_back(saga: &Saga) -> bool {
    matches!(
        saga.state,
        SagaState::Compensating | SagaState::CompensationFailed | SagaState::Compensated
    )
}

/// `✓ ✓ ✖ ○`, and the compensating side when it has begun: `✓ ✓ ✖ ○ ◀ ✓ ✖ –`.
pub(super) fn track(saga: &Saga) -> String {
    let signs = |side: fn(&SagaStep) -> StepState| -> String {
        let signs: Vec<&str> = saga.steps.iter().map(|step| glyph(side(step)).0).collect();
        signs.join(" ")
    };
    let forward = signs(|step| step.forward);
    if goes_back(saga) {
        format!("{forward} ◀ {}", signs(|step| step.compensation))
    } else {
        forward
    }
}

/// The step that holds it up, with `↩` when it is being undone.
pub(super) fn now_at(saga: &Saga) -> String {
    saga.current()
        .map_or_else(String::new, |(step, side)| match side {
            Side::Forward => step.name.clone(),
            Side::Compensation => format!("↩ {}", step.name),
        })
}

/// The event that a saga waits for.
pub(super) fn blocking(saga: &Saga) -> Option<&crate::model::ids::EventId> {
    saga.current().and_then(|(step, _)| step.event_id.as_ref())
}

pub(super) fn state_role(saga: &Saga) -> Role {
    if saga.needs_attention() {
        Role::Bad
    } else if saga.is_finished() {
        Role::Dim
    } else if saga.state == SagaState::Compensating {
        Role::Warn
    } else {
        Role::Text
    }
}

pub(super) fn timer(at: Option<Timestamp>, world: &World) -> Span {
    match at {
        None => Span::new("–", Role::Dim),
        Some(at) if at < world.now => Span::new(format!("over {}", world.age(at)), Role::Bad),
        Some(at) => Span::new(
            format!("in {}", human::age(at.seconds_since(world.now))),
            Role::Text,
        ),
    }
}

/// Everything about a saga.
pub(super) fn detail(service: &str, saga: &Saga, world: &World) -> Vec<Line> {
    let mut facts = Facts::new(9);
    facts
        .add_as("saga", saga.saga_id.as_str(), Role::Strong)
        .add(
            "for",
            format!("{} {} of {service}", saga.saga_type, saga.business_key),
        );
    facts.add_as(
        "state",
        format!("{}  v{}", saga.state.word(), saga.version),
        state_role(saga),
    );
    if let Some(why) = &saga.attention {
        facts.add_as("look", format!("✖ {why}"), Role::Bad);
    }
    if let Some(error) = &saga.last_error {
        facts.add_as(
            "not moved",
            format!("✖ {} in a row: {error}", times(saga.failures)),
            Role::Bad,
        );
    }
    steps(saga, world, &mut facts);
    facts.add(
        "changed",
        format!(
            "{} ago, started {} ago",
            world.age(saga.updated_at),
            world.age(saga.created_at)
        ),
    );
    timers(saga, world, &mut facts);
    facts.add("owner", saga.owner.as_deref().unwrap_or("nobody"));
    facts.add_some("evidence", saga.evidence.clone());
    for step in &saga.steps {
        keys(step, &mut facts);
    }
    if blocking(saga).is_some() {
        facts.line(vec![
            Span::new("→ ", Role::Key),
            Span::new("its message among the dead letters   ", Role::Dim),
            Span::new("o ", Role::Key),
            Span::new("in the outbox", Role::Dim),
        ]);
    }
    facts.take()
}

fn times(n: i64) -> String {
    if n == 1 {
        "once".to_owned()
    } else {
        format!("{n} times")
    }
}

fn timers(saga: &Saga, world: &World, facts: &mut Facts) {
    match saga.deadline_at {
        Some(at) if is_overdue(saga, world.now) => {
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
    if saga.is_finished() {
        return;
    }
    facts.line(vec![
        Span::new(format!("{:<9}  ", "next"), Role::Dim),
        match (saga.due_at, saga.state) {
            (None, SagaState::CompensationFailed) => {
                Span::new("nothing by itself: a person has to act", Role::Bad)
            }
            (None, _) => Span::new("nothing by itself: it waits for an answer", Role::Text),
            (Some(at), _) if at < world.now => Span::new(
                format!("due for {}: does a coordinator run?", world.age(at)),
                Role::Warn,
            ),
            (Some(at), _) => Span::new(
                format!(
                    "looked at again in {}",
                    human::age(at.seconds_since(world.now))
                ),
                Role::Text,
            ),
        },
    ]);
    if let Some(at) = saga.expires_at {
        facts.line(vec![
            Span::new(format!("{:<9}  ", "turns"), Role::Dim),
            Span::new("round by itself ", Role::Text),
            timer(Some(at), world),
        ]);
    }
    if let (Some(by), Some(until)) = (&saga.leased_by, saga.lease_until) {
        facts.line(vec![
            Span::new(format!("{:<9}  ", "held by"), Role::Dim),
            Span::new(format!("{by}, lease "), Role::Text),
            timer(Some(until), world),
        ]);
    }
}

/// The two sides of every step, and how long they have been so.
fn steps(saga: &Saga, world: &World, facts: &mut Facts) {
    facts.line(vec![Span::new(
        format!("    {:<NAME$} {:<11} {:<11}", "step", "do", "undo"),
        Role::Dim,
    )]);
    let held_up = saga.current().map(|(step, side)| (step.no, side));
    for step in &saga.steps {
        let is_here = held_up.is_some_and(|(no, _)| no == step.no);
        let side = |state: StepState| {
            let (sign, role) = glyph(state);
            Span::new(format!("{sign} {:<9} ", state.word()), role)
        };
        let mut line = vec![
            Span::new(if is_here { "▸" } else { " " }, Role::Key),
            Span::new(
                format!("{:>2} {:<NAME$} ", step.no, step.name),
                if is_here { Role::Strong } else { Role::Text },
            ),
            side(step.forward),
            side(step.compensation),
        ];
        if is_here {
            line.push(Span::new(
                format!("for {}  ", world.age(step.updated_at)),
                Role::Text,
            ));
        }
        if step.attempts > 1 {
            line.push(Span::new(format!("sent {}×  ", step.attempts), Role::Warn));
        }
        if step.queries > 0 {
            line.push(Span::new(format!("asked {}×  ", step.queries), Role::Warn));
        }
        if let Some(at) = step.timeout_at.filter(|_| !saga.is_finished()) {
            line.push(Span::new("next ", Role::Dim));
            line.push(timer(Some(at), world));
        }
        facts.line(line);
        for (text, role) in [
            (&step.last_error, Role::Removed),
            (&step.conflict, Role::Bad),
        ] {
            if let Some(text) = text {
                facts.line(vec![
                    Span::new("       ", Role::Dim),
                    Span::new(text.clone(), role),
                ]);
            }
        }
    }
}

/// The idempotency keys and the message of a step.
fn keys(step: &SagaStep, facts: &mut Facts) {
    if step.forward_key.is_none() && step.event_id.is_none() {
        return;
    }
    let mut line = vec![Span::new(format!("{:>2} key     ", step.no), Role::Dim)];
    line.push(match &step.forward_key {
        Some(key) => Span::new(key.clone(), Role::Text),
        None => Span::new("none", Role::Unknown),
    });
    if let Some(key) = &step.compensation_key {
        line.push(Span::new("  undo ", Role::Dim));
        line.push(Span::new(key.clone(), Role::Text));
    }
    facts.line(line);
    if let Some(event) = &step.event_id {
        facts.line(vec![
            Span::new("   event   ", Role::Dim),
            Span::new(event.to_string(), Role::Text),
        ]);
    }
}
