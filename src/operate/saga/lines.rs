//! What a plan about a saga says: what will happen, and what is not known.

use super::super::plan::{Level, PreflightLine, SagaWish};
use super::super::wording::{ago, moment};
use crate::base::clock::Timestamp;
use crate::base::text::safe;
use crate::model::saga::manual::{Manual, target};
use crate::model::saga::{Saga, SagaStep, Side, StepState};

/// The lines of a plan that can be done: `after` is the saga after it.
pub(super) fn of(
    saga: &Saga,
    after: &Saga,
    (step, wish): (Option<i64>, &SagaWish),
    now: Timestamp,
) -> Vec<PreflightLine> {
    let aim = target(saga, step).and_then(|(no, side)| Some((saga.step(no)?, side)));
    let mut lines = Vec::new();
    match wish {
        SagaWish::Retry => lines.extend(aim.map(|(step, side)| sends(step, side))),
        SagaWish::Query => lines.extend(aim.map(|(step, side)| asks(step, side))),
        SagaWish::Compensate => lines.extend(undoes(after)),
        SagaWish::Handled { is_done, .. } => lines.push(handled(after, aim, *is_done)),
        SagaWish::Assign { .. } => lines.push(owner(saga)),
    }
    if matches!(wish, SagaWish::Assign { .. }) {
        return lines;
    }
    if let (SagaWish::Retry, Some((step, side))) = (wish, aim)
        && step.state(side).is_open()
    {
        lines.push(PreflightLine::new(
            "outcome",
            Level::Warning,
            format!(
                "whether {} was done is not known: query it first, unless its service keeps the key",
                name(step, side)
            ),
        ));
    }
    lines.extend(holder(saga, now));
    lines.extend(aim.and_then(|(step, _)| waits_for(step)));
    lines.push(PreflightLine::new(
        "coordinator",
        Level::Warning,
        "the rows are changed now; a running coordinator acts on them (redrive worker saga)",
    ));
    lines
}

fn name(step: &SagaStep, side: Side) -> String {
    match side {
        Side::Forward => safe(&step.name),
        Side::Compensation => format!("undoing {}", safe(&step.name)),
    }
}

fn sends(step: &SagaStep, side: Side) -> PreflightLine {
    let key = step.key(side).map_or_else(
        || "no idempotency key: its service may do it twice".to_owned(),
        |key| {
            format!(
                "idempotency key {}: a service that has done it does nothing again",
                safe(key)
            )
        },
    );
    let level = if step.key(side).is_some() {
        Level::Pass
    } else {
        Level::Warning
    };
    PreflightLine::new(
        "key",
        level,
        format!("{} is sent again under {key}", name(step, side)),
    )
}

fn asks(step: &SagaStep, side: Side) -> PreflightLine {
    PreflightLine::new(
        "question",
        Level::Pass,
        format!(
            "what became of {} is asked for again (asked {} times so far); the answer moves the saga",
            name(step, side),
            step.queries
        ),
    )
}

/// What turning round will undo, ask about and leave out.
fn undoes(after: &Saga) -> Vec<PreflightLine> {
    let names = |wanted: &dyn Fn(&SagaStep) -> bool| -> Vec<String> {
        let steps = after.steps.iter().rev().filter(|step| wanted(step));
        steps.map(|step| safe(&step.name)).collect()
    };
    let undone = names(&|step| {
        step.forward == StepState::Succeeded && step.compensation == StepState::Pending
    });
    let asked = names(&|step| step.forward == StepState::Unknown);
    let kept = names(&|step| {
        step.forward == StepState::Succeeded && step.compensation == StepState::Skipped
    });
    let mut lines = vec![PreflightLine::new(
        "undo",
        Level::Pass,
        if undone.is_empty() {
            "nothing was done that has to be undone".to_owned()
        } else {
            format!("undone, last first: {}", undone.join(", "))
        },
    )];
    if !asked.is_empty() {
        lines.push(PreflightLine::new(
            "outcome",
            Level::Warning,
            format!(
                "asked about first, and undone if done: {}",
                asked.join(", ")
            ),
        ));
    }
    if !kept.is_empty() {
        lines.push(PreflightLine::new(
            "kept",
            Level::Warning,
            format!("done, and nothing undoes it: {}", kept.join(", ")),
        ));
    }
    lines.push(PreflightLine::new(
        "one_way",
        Level::Warning,
        "a saga turns round once: it cannot be completed after this",
    ));
    lines
}

fn handled(after: &Saga, aim: Option<(&SagaStep, Side)>, is_done: bool) -> PreflightLine {
    let what = match aim {
        None => "what a person was told about".to_owned(),
        Some((step, Side::Compensation)) => format!("{} counts as undone", safe(&step.name)),
        Some((step, Side::Forward)) if is_done => format!("{} counts as done", safe(&step.name)),
        Some((step, Side::Forward)) => {
            format!(
                "{} counts as not done: the saga turns round",
                safe(&step.name)
            )
        }
    };
    PreflightLine::new(
        "evidence",
        Level::Warning,
        format!(
            "{what}, on your word: nothing is checked; the saga is {} then",
            after.state.word()
        ),
    )
}

fn owner(saga: &Saga) -> PreflightLine {
    PreflightLine::new(
        "owner",
        Level::Pass,
        match &saga.owner {
            Some(owner) => format!("taken over from {}", safe(owner)),
            None => "nobody looks after it so far".to_owned(),
        },
    )
}

/// A coordinator that works on it now is fenced off.
fn holder(saga: &Saga, now: Timestamp) -> Option<PreflightLine> {
    let (by, until) = saga.leased_by.as_deref().zip(saga.lease_until)?;
    let (level, text) = if until > now {
        (
            Level::Warning,
            format!(
                "{} holds it until {}: what it decided on the old rows is refused",
                safe(by),
                moment(until)
            ),
        )
    } else {
        (
            Level::Pass,
            format!(
                "{} held it; its lease ran out {}: a late write of it is refused",
                safe(by),
                ago(now, until)
            ),
        )
    };
    Some(PreflightLine::new("holder", level, text))
}

fn waits_for(step: &SagaStep) -> Option<PreflightLine> {
    step.event_id.as_ref().map(|event_id| {
        PreflightLine::new(
            "message",
            Level::Pass,
            format!("its last message is event {}", safe(event_id.as_str())),
        )
    })
}

/// What was done, as the operation's evidence.
pub(super) fn done(manual: &Manual) -> String {
    match manual {
        Manual::Retry => "to be sent again by the coordinator, under the same key".to_owned(),
        Manual::Query => "to be asked about by the coordinator".to_owned(),
        Manual::Compensate => "turned round: what was done is undone".to_owned(),
        Manual::Handled { is_done, evidence } => format!(
            "handled by hand ({}): {}",
            if *is_done { "done" } else { "not done" },
            safe(evidence)
        ),
        Manual::Assign(Some(owner)) => format!("owner {}", safe(owner)),
        Manual::Assign(None) => "no owner".to_owned(),
    }
}
