//! Replay on the outbox side: a failed row goes back to pending under a guard, and the dispatcher
//! sends it like any other. Nothing is published here.

use futures::future::join_all;

use super::Desk;
use super::command_line::CommandLine;
use super::guard::{first_match, refused};
use super::journal::{Draft, applied, started};
use super::look::{self, Look};
use super::plan::{
    Applied, Confirmation, Destination, Frozen, ItemResult, Level, OperateError, Plan,
    PreflightLine, Target,
};
use super::preflight::overridden;
use super::wording::{ago, moment};
use crate::base::human;
use crate::base::text::safe;
use crate::model::ids::{EventId, OperationId};
use crate::model::operation::{ItemState, Verb};
use crate::model::outbox::{OutboxEvent, OutboxState};
use crate::store::{Safety, StoreError};

/// The row, with its payload.
pub(super) async fn event(
    desk: &Desk,
    service: &str,
    id: &EventId,
) -> Result<OutboxEvent, OperateError> {
    desk.store(service)?
        .outbox_event(id)
        .await?
        .ok_or_else(|| OperateError::NotFound(format!("the outbox of {service} has no event {id}")))
}

/// Plans it. `is_routed`: a queue or exchange was asked for, which only the dispatcher decides here.
pub(super) async fn plan(
    desk: &Desk,
    service: &str,
    id: &EventId,
    is_routed: bool,
    overrides: &[String],
) -> Result<Plan, OperateError> {
    let event = event(desk, service, id).await?;
    let row = &event.row;
    let mut command_line = CommandLine::new(&desk.ports.context.name, Verb::Replay, id.as_str());
    for check in overrides {
        command_line = command_line.option("--override", check);
    }
    let mut plan = desk.draft(Draft {
        operation_id: OperationId::generate(),
        verb: Verb::Replay,
        service,
        headline: headline(desk, service, &event),
        command_line: command_line.finish(),
        frozen: Frozen::OutboxReplay {
            event_id: id.clone(),
            attempts: row.attempts.unwrap_or_default(),
        },
    })?;
    plan.event_id = Some(id.clone());
    plan.target = Some(Target::OutboxRow {
        service: service.to_owned(),
        event_id: id.clone(),
    });
    plan.destination = Some(destination(desk, service, &event));
    let payload = &event.payload;
    plan.payload = Some(format!(
        "{}  sha256 {:.12}…  the outbox row itself",
        human::bytes(u64::try_from(payload.bytes().len()).unwrap_or(u64::MAX)),
        payload.sha256()
    ));
    plan.preflight.push(state(&event));
    plan.preflight
        .push(safety(&desk.store(service)?.facts().outbox_replay));
    plan.preflight.push(never_replay(desk, &event));
    plan.preflight.push(retention(desk, &event).await);
    plan.preflight.extend(processed(desk, id).await);
    if is_routed {
        plan.preflight.push(PreflightLine::new(
            "destination_exists",
            Level::Refusal,
            "a failed outbox row goes where its dispatcher sends it; leave out the queue or exchange",
        ));
    }
    overridden(&mut plan.preflight, overrides);
    Ok(plan.sealed())
}

fn headline(desk: &Desk, service: &str, event: &OutboxEvent) -> String {
    let row = &event.row;
    let mut parts = vec![safe(&row.event_type)];
    if let Some(key) = &row.aggregate_id {
        parts.push(format!("key {}", safe(key.as_str())));
    }
    if let Some(version) = row.aggregate_version {
        parts.push(format!("v{version}"));
    }
    parts.push(format!("{} in the outbox of {service}", row.state.word()));
    if let Some(at) = row.created_at {
        parts.push(format!("made {}", ago(desk.ports.clock.now(), at)));
    }
    if let Some(attempts) = row.attempts {
        parts.push(format!("attempts {attempts}"));
    }
    parts.join("  ")
}

fn destination(desk: &Desk, service: &str, event: &OutboxEvent) -> Destination {
    let default = desk
        .ports
        .context
        .service(service)
        .and_then(|service| service.outbox.as_ref())
        .map(|outbox| outbox.exchange.clone());
    let exchange = event.exchange.clone().or(default).unwrap_or_default();
    let routing_key = event
        .routing_key
        .clone()
        .unwrap_or_else(|| event.row.event_type.clone());
    let text = if exchange.is_empty() {
        format!(
            "back to pending; the dispatcher sends it to queue {}",
            safe(&routing_key)
        )
    } else {
        format!(
            "back to pending; the dispatcher sends it to exchange {} with key {}",
            safe(&exchange),
            safe(&routing_key)
        )
    };
    Destination {
        exchange,
        routing_key,
        consumers: None,
        queues: vec![],
        text,
    }
}

fn state(event: &OutboxEvent) -> PreflightLine {
    let row = &event.row;
    match row.state {
        OutboxState::Failed => {
            let why = row
                .last_error
                .as_deref()
                .map(|error| format!(": {}", safe(error)))
                .unwrap_or_default();
            PreflightLine::new(
                "failed",
                Level::Pass,
                format!("no dispatcher will try it again{why}"),
            )
        }
        OutboxState::Pending | OutboxState::Sending => PreflightLine::new(
            "failed",
            Level::Refusal,
            format!(
                "it is {}: the dispatcher sends it by itself",
                row.state.word()
            ),
        ),
        OutboxState::Sent => PreflightLine::new(
            "failed",
            Level::Refusal,
            "it was sent: nothing is left to do",
        ),
        OutboxState::Unknown => PreflightLine::new(
            "failed",
            Level::Refusal,
            "this layout cannot tell whether it failed",
        ),
    }
}

fn safety(safety: &Safety) -> PreflightLine {
    let (level, text) = match safety {
        Safety::Safe => (
            Level::Pass,
            "fenced: sent once by one dispatcher".to_owned(),
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

fn never_replay(desk: &Desk, event: &OutboxEvent) -> PreflightLine {
    let context = &desk.ports.context;
    let event_type = &event.row.event_type;
    match first_match(&context.never_replay, event_type) {
        Some(pattern) => PreflightLine::new(
            "never_replay",
            Level::Refusal,
            format!(
                "never_replay: {} (contexts.{}.never_replay has {pattern})",
                safe(event_type),
                context.name
            ),
        ),
        None => PreflightLine::new(
            "never_replay",
            Level::Pass,
            format!("{} may be replayed", safe(event_type)),
        ),
    }
}

/// A failed row may have been sent once with its confirm lost: then only the inbox stops a second
/// effect, as long as it keeps the row.
async fn retention(desk: &Desk, event: &OutboxEvent) -> PreflightLine {
    const CHECK: &str = "inbox_retention";
    let horizons = desk.ports.iter().filter_map(|(service, store)| {
        let inbox = service.inbox.as_ref()?;
        Some(async { (&inbox.consumer, store.inbox_horizon(&inbox.consumer).await) })
    });
    for (consumer, horizon) in join_all(horizons).await {
        let consumer = safe(consumer.as_str());
        let text = match horizon {
            Err(StoreError::Unsupported { .. }) | Ok(None) => continue,
            Err(error) => {
                format!("how far {consumer}'s inbox has forgotten could not be read: {error}")
            }
            Ok(Some(horizon)) if event.row.created_at.is_none_or(|at| at <= horizon) => format!(
                "{consumer}'s inbox has forgotten ids up to {}: if this one was sent before, its effect \
                 could happen twice",
                moment(horizon)
            ),
            Ok(Some(_)) => continue,
        };
        return PreflightLine::new(CHECK, Level::Overridable, text);
    }
    let Some(kept) = desk.ports.context.inbox_retention else {
        return PreflightLine::new(CHECK, Level::Pass, "the inbox keeps its rows for ever");
    };
    let kept_text = human::duration(kept);
    let Some(made_at) = event.row.created_at else {
        return PreflightLine::new(
            CHECK,
            Level::Warning,
            format!("when it was made is not known; the inbox keeps {kept_text}"),
        );
    };
    let age_s = desk.ports.clock.now().seconds_since(made_at).max(0.0);
    let age = human::age(age_s);
    if age_s >= kept.as_secs_f64() {
        PreflightLine::new(
            CHECK,
            Level::Overridable,
            format!(
                "{age} old, the inbox keeps {kept_text}: if it was sent before, its effect could happen twice"
            ),
        )
    } else {
        PreflightLine::new(
            CHECK,
            Level::Pass,
            format!("{age} old, inbox keeps {kept_text}"),
        )
    }
}

/// Consumers that have it already: an attempt did go out.
async fn processed(desk: &Desk, id: &EventId) -> Vec<PreflightLine> {
    let consumers = desk
        .ports
        .context
        .services
        .iter()
        .filter_map(|service| service.inbox.as_ref().map(|inbox| &inbox.consumer));
    let looks =
        join_all(consumers.map(|consumer| async move {
            (consumer, look::inbox(desk, consumer, Some(id)).await)
        }))
        .await;
    looks
        .into_iter()
        .filter_map(|(consumer, look)| match look {
            Look::Found(row) => Some(format!(
                "{consumer} processed it at {} and will skip it",
                moment(row.processed_at)
            )),
            Look::Unread(why) => Some(format!("the inbox of {consumer} could not be read: {why}")),
            Look::Absent | Look::NotConfigured(_) => None,
        })
        .map(|text| PreflightLine::new("inbox_absent", Level::Warning, text))
        .collect()
}

/// Applies it: one transaction.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::OutboxReplay { event_id, attempts } = &plan.frozen else {
        return Err(refused("digest", "this is no plan of an outbox row"));
    };
    started(
        desk.store(&plan.service)?
            .replay_outbox_row(
                &desk.operation(plan, confirmation),
                event_id,
                *attempts,
                &desk.intent(plan, confirmation),
            )
            .await?,
    )?;
    Ok(applied(
        plan,
        ItemResult {
            event_id: Some(event_id.clone()),
            state: ItemState::Applied,
            evidence: "back to pending; the dispatcher sends it".to_owned(),
            new_event_id: None,
        },
    ))
}
