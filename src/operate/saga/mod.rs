//! What a person does to a saga: send a step's command again, ask what became of it, turn the saga
//! round, say that it was seen to by hand, take it over.
//!
//! Nothing is sent from here. The rows are changed in one transaction with the operation and its audit
//! entry, guarded by the version the plan saw; the coordinator acts on them, under the same idempotency
//! key as before. Whoever held the saga is fenced off by the new version: its late success is recorded
//! as an answer, once, or refused (S-05).

mod lines;
#[cfg(test)]
mod tests;

use super::Desk;
use super::command_line::CommandLine;
use super::guard::refused;
use super::journal::{Draft, applied, started};
use super::plan::{
    Applied, Confirmation, Frozen, ItemResult, Level, OperateError, Plan, PreflightLine, SagaWish,
};
use super::wording::ago;
use crate::base::text::safe;
use crate::model::ids::{OperationId, SagaId};
use crate::model::operation::{ItemState, Verb};
use crate::model::saga::Saga;
use crate::model::saga::manual::{Manual, act};
use crate::store::SagaAction;

/// Fewest characters of an id that is looked up by its beginning.
const PREFIX_MIN: usize = 8;

impl SagaWish {
    /// Its verb.
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Retry => Verb::SagaRetry,
            Self::Query => Verb::SagaQuery,
            Self::Compensate => Verb::SagaCompensate,
            Self::Handled { .. } => Verb::SagaHandled,
            Self::Assign { .. } => Verb::SagaAssign,
        }
    }

    /// What has to be typed when the wish does not bring it.
    const fn asks_for(&self) -> Option<&'static str> {
        match self {
            Self::Handled { evidence: None, .. } => Some("evidence"),
            Self::Assign { owner: None } => Some("owner"),
            Self::Handled { .. }
            | Self::Assign { .. }
            | Self::Retry
            | Self::Query
            | Self::Compensate => None,
        }
    }

    /// What is done, with what was typed.
    fn manual(&self, told: Option<&str>) -> Manual {
        let text = |given: &Option<String>| {
            let text = given.as_deref().or(told).unwrap_or_default();
            text.trim().to_owned()
        };
        match self {
            Self::Retry => Manual::Retry,
            Self::Query => Manual::Query,
            Self::Compensate => Manual::Compensate,
            Self::Handled { is_done, evidence } => Manual::Handled {
                is_done: *is_done,
                evidence: text(evidence),
            },
            Self::Assign { owner } => {
                let owner = text(owner);
                // A dash takes the owner away.
                Manual::Assign((owner != "-").then_some(owner))
            }
        }
    }
}

/// Finds a saga by its id, or by at least 8 characters of its beginning.
pub(super) async fn resolve(
    desk: &Desk,
    id: &str,
    service: Option<&str>,
) -> Result<(String, SagaId), OperateError> {
    let mut found: Vec<(String, SagaId)> = Vec::new();
    let mut is_known = false;
    for (of, store) in desk.ports.iter() {
        if !store.facts().has_sagas || service.is_some_and(|name| name != of.name) {
            continue;
        }
        is_known = true;
        let sagas = if let Some(saga) = store.saga(&SagaId::new(id)).await? {
            vec![saga]
        } else if id.len() >= PREFIX_MIN {
            store.sagas_by_prefix(id).await?
        } else {
            Vec::new()
        };
        found.extend(sagas.into_iter().map(|s| (of.name.clone(), s.saga_id)));
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] if !is_known => Err(OperateError::NotFound(format!(
            "no service of context {} keeps sagas{}",
            desk.ports.context.name,
            service.map_or_else(String::new, |name| format!(" under the name {name}"))
        ))),
        [] => Err(OperateError::NotFound(format!(
            "no saga {}; `redrive sagas` lists them, and {PREFIX_MIN} characters of an id will do",
            safe(id)
        ))),
        several => {
            let ids: Vec<_> = several
                .iter()
                .map(|(service, id)| format!("{id} ({service})"))
                .collect();
            Err(OperateError::Ambiguous(format!(
                "{} sagas begin with {}: {}",
                several.len(),
                safe(id),
                ids.join(", ")
            )))
        }
    }
}

/// Plans it.
pub(super) async fn plan(
    desk: &Desk,
    (service, saga_id): (&str, &SagaId),
    step: Option<i64>,
    wish: &SagaWish,
) -> Result<Plan, OperateError> {
    let store = desk.store(service)?;
    let Some(saga) = store.saga(saga_id).await? else {
        return Err(OperateError::NotFound(format!(
            "{service} has no saga {saga_id}"
        )));
    };
    let now = desk.ports.clock.now();
    let mut plan = desk.draft(Draft {
        operation_id: OperationId::generate(),
        verb: wish.verb(),
        service,
        headline: headline(&saga, now),
        command_line: command_line(desk, service, &saga, (step, wish)),
        frozen: Frozen::Saga {
            saga_id: saga_id.clone(),
            version: saga.version,
            step,
            wish: wish.clone(),
        },
    })?;
    plan.confirm.told = wish.asks_for().map(ToOwned::to_owned);
    // Tried on the rows as they are: what the transaction will refuse is refused here already.
    match act(&saga, step, &wish.manual(Some("…")), now) {
        Ok(after) => plan
            .preflight
            .extend(lines::of(&saga, &after, (step, wish), now)),
        Err(why) => plan
            .preflight
            .push(PreflightLine::new("state", Level::Refusal, why)),
    }
    Ok(plan.sealed())
}

fn headline(saga: &Saga, now: crate::base::clock::Timestamp) -> String {
    let mut parts = vec![
        format!("{} {}", safe(&saga.saga_type), safe(&saga.business_key)),
        format!("{}  v{}", saga.state.word(), saga.version),
    ];
    if let Some((step, side)) = saga.current() {
        parts.push(format!(
            "{} {} {} for {}",
            side.word(),
            safe(&step.name),
            step.state(side).word(),
            ago(now, step.updated_at).trim_end_matches(" ago")
        ));
    }
    parts.push(format!("started {}", ago(now, saga.created_at)));
    parts.extend(saga.owner.as_deref().map(|o| format!("owner {}", safe(o))));
    parts.join("  ")
}

fn command_line(
    desk: &Desk,
    service: &str,
    saga: &Saga,
    (step, wish): (Option<i64>, &SagaWish),
) -> String {
    let mut line = CommandLine::new(&desk.ports.context.name, wish.verb(), saga.saga_id.as_str())
        .option("--service", service);
    if let Some(step) = step {
        line = line.option("--step", &step.to_string());
    }
    match wish {
        SagaWish::Handled { is_done, evidence } => line
            .flag("--not-done", !is_done)
            .option("--evidence", evidence.as_deref().unwrap_or("…")),
        SagaWish::Assign { owner } => line.option("--owner", owner.as_deref().unwrap_or("…")),
        SagaWish::Retry | SagaWish::Query | SagaWish::Compensate => line,
    }
    .finish()
}

/// Applies it: one transaction.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::Saga {
        saga_id,
        version,
        step,
        wish,
    } = &plan.frozen
    else {
        return Err(refused("digest", "this is no plan about a saga"));
    };
    let manual = wish.manual(confirmation.told.as_deref());
    let told = lines::done(&manual);
    let action = SagaAction {
        saga_id: saga_id.clone(),
        version: *version,
        step: *step,
        manual,
        told: told.clone(),
    };
    let begun = desk
        .store(&plan.service)?
        .act_on_saga(
            &desk.operation(plan, confirmation),
            &action,
            &desk.intent(plan, confirmation),
        )
        .await?;
    started(begun)?;
    Ok(applied(
        plan,
        ItemResult {
            event_id: None,
            state: ItemState::Applied,
            evidence: told,
            new_event_id: None,
        },
    ))
}
