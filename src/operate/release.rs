//! Release: the rows of an expired lease back to pending. Guarded by token *and* time in the
//! statement: a lease that was renewed meanwhile is left alone.

use super::Desk;
use super::command_line::CommandLine;
use super::guard::refused;
use super::journal::{Draft, applied};
use super::plan::{
    Applied, Confirmation, Frozen, ItemResult, Level, OperateError, Plan, PreflightLine,
};
use super::wording::{ago, counted};
use crate::base::human;
use crate::model::ids::{ClaimToken, OperationId};
use crate::model::operation::{ItemState, Verb};
use crate::model::outbox::{LeaseGroup, Leases};
use crate::store::Safety;

/// Claimed rows that are looked at to find the token, at most.
const LEASE_ROWS: u32 = 1_000;

/// Plans it.
pub(super) async fn plan(
    desk: &Desk,
    service: &str,
    token: &ClaimToken,
) -> Result<Plan, OperateError> {
    let store = desk.store(service)?;
    let leases = store.leases(LEASE_ROWS).await?;
    let group = find(&leases, service, token)?;
    let mut headline = vec![
        format!("lease {token} of {service}"),
        counted(group.rows, "row", "rows"),
    ];
    let now = desk.ports.clock.now();
    let made = group.oldest_created_at;
    headline.extend(made.map(|at| format!("oldest made {}", ago(now, at))));
    headline.extend(group.attempts_max.map(|n| format!("attempts {n}")));
    let mut plan = desk.draft(Draft {
        operation_id: OperationId::generate(),
        verb: Verb::Release,
        service,
        headline: headline.join("  "),
        command_line: CommandLine::new(&desk.ports.context.name, Verb::Release, token.as_str())
            .option("--service", service)
            .finish(),
        frozen: Frozen::Release {
            claim_token: token.clone(),
        },
    })?;
    plan.preflight.push(expired(group));
    plan.preflight.push(safety(&store.facts().release));
    // A layout that cannot fence has said this already.
    if store.facts().release == Safety::Safe {
        plan.preflight.push(PreflightLine::new(
            "duplicates",
            Level::Warning,
            "a dispatcher that is only slow may still send them: consumers' inboxes absorb the second copy",
        ));
    }
    plan.confirm.count = (group.rows > 1).then_some(group.rows);
    Ok(plan.sealed())
}

fn find<'a>(
    leases: &'a Leases,
    service: &str,
    token: &ClaimToken,
) -> Result<&'a LeaseGroup, OperateError> {
    if let Some(why) = &leases.not_answered {
        return Err(refused("layout", format!("{service}: {why}")));
    }
    leases
        .groups
        .iter()
        .find(|group| group.claim_token.as_ref() == Some(token))
        .ok_or_else(|| {
            let limit = if leases.truncated {
                format!(" (looked at {LEASE_ROWS} rows, there are more)")
            } else {
                String::new()
            };
            OperateError::NotFound(format!("{service} has no claim {token} any more{limit}"))
        })
}

fn expired(group: &LeaseGroup) -> PreflightLine {
    const CHECK: &str = "lease_expired";
    match group.left_s {
        Some(left) if left > 0.0 => PreflightLine::new(
            CHECK,
            Level::Refusal,
            format!(
                "the lease holds for another {}: its dispatcher may be alive",
                human::age(left)
            ),
        ),
        Some(left) => PreflightLine::new(
            CHECK,
            Level::Pass,
            format!("the lease ran out {} ago", human::age(-left)),
        ),
        None => PreflightLine::new(
            CHECK,
            Level::Refusal,
            "when the lease ends is not known in this layout",
        ),
    }
}

fn safety(safety: &Safety) -> PreflightLine {
    let (level, text) = match safety {
        Safety::Safe => (
            Level::Pass,
            "fenced: rows that were completed or renewed meanwhile are left alone".to_owned(),
        ),
        Safety::MayDuplicate(why) => (Level::Warning, format!("may be sent twice: {why}")),
        Safety::NeedsApplication(why) => (
            Level::Refusal,
            format!("only the application can do it: {why}"),
        ),
        Safety::Impossible(why) => (Level::Refusal, format!("cannot be done: {why}")),
    };
    PreflightLine::new("layout", level, text)
}

/// Applies it: one transaction.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::Release { claim_token } = &plan.frozen else {
        return Err(refused("digest", "this is no plan of a release"));
    };
    let rows = desk
        .store(&plan.service)?
        .release_lease(
            &desk.operation(plan, confirmation),
            claim_token,
            &desk.intent(plan, confirmation),
        )
        .await?;
    if rows == 0 {
        return Err(refused(
            "drifted",
            "nothing is left under this lease: its rows were completed, or it was renewed",
        ));
    }
    Ok(applied(
        plan,
        ItemResult {
            event_id: None,
            state: ItemState::Applied,
            evidence: format!("{} back to pending", counted(rows, "row", "rows")),
            new_event_id: None,
        },
    ))
}
