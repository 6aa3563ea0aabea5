//! Discard: a dead letter is given up with a reason, or closed as resolved because its consumer had
//! processed the event already. Nothing is deleted: the row, its payload and its deaths stay, and
//! the next death of the event opens it again.

use super::Desk;
use super::command_line::CommandLine;
use super::guard::refused;
use super::journal::{Draft, about_letter, applied, started};
use super::look::{self, Look};
use super::plan::{
    Applied, Confirmation, Frozen, ItemResult, Level, OperateError, Plan, PreflightLine, Target,
};
use super::preflight;
use super::wording::{headline, moment};
use crate::base::text::safe;
use crate::model::dead_letter::DeadLetter;
use crate::model::ids::OperationId;
use crate::model::inbox::InboxRow;
use crate::model::operation::{ItemState, Verb};

/// Plans it.
pub(super) async fn plan(
    desk: &Desk,
    target: &Target,
    is_resolved: bool,
) -> Result<Plan, OperateError> {
    let Target::DeadLetter {
        service,
        dead_letter_id,
    } = target
    else {
        return Err(refused(
            "unsupported",
            "a failed outbox row belongs to its application and cannot be discarded from here; replay it, or mark it there",
        ));
    };
    let detail = look::letter(desk, service, dead_letter_id).await?;
    let letter = &detail.letter;
    let (holder, inbox) = futures::join!(
        look::holder(desk, service, letter),
        look::inbox(desk, &letter.consumer, letter.event_id.as_ref()),
    );
    let mut plan = desk.draft(Draft {
        operation_id: OperationId::generate(),
        verb: Verb::Discard,
        service,
        headline: headline(letter, desk.ports.clock.now()),
        command_line: CommandLine::of_letter(&desk.ports.context.name, Verb::Discard, letter)
            .flag("--resolved", is_resolved)
            .finish(),
        frozen: Frozen::Close {
            dead_letter_id: letter.dead_letter_id.clone(),
            version: letter.version,
            payload_sha256: letter.payload_sha256.clone(),
            is_resolved,
        },
    })?;
    about_letter(&mut plan, service, letter);
    plan.preflight.push(preflight::status(letter, &holder));
    plan.preflight.push(processed(letter, &inbox, is_resolved));
    Ok(plan.sealed())
}

/// Whether the inbox supports what is asked.
fn processed(letter: &DeadLetter, inbox: &Look<InboxRow>, is_resolved: bool) -> PreflightLine {
    let consumer = safe(letter.consumer.as_str());
    let (level, text) = match (inbox, is_resolved) {
        (Look::Found(row), true) => (
            Level::Pass,
            format!("{consumer} processed it at {}", moment(row.processed_at)),
        ),
        (Look::Found(row), false) => (
            Level::Warning,
            format!(
                "{consumer} processed it at {}: --resolved says that, discard says it is given up",
                moment(row.processed_at)
            ),
        ),
        (Look::Absent, true) => (
            Level::Warning,
            format!("{consumer} inbox has no row: nothing shows that it was processed"),
        ),
        (Look::Absent, false) => (
            Level::Warning,
            format!("{consumer} never processed it, and nothing will send it again"),
        ),
        (Look::Unread(why), _) => (
            Level::Warning,
            format!("the inbox of {consumer} could not be read: {why}"),
        ),
        (Look::NotConfigured(why), _) => (
            Level::Warning,
            format!("whether {consumer} processed it cannot be told: {why}"),
        ),
    };
    PreflightLine::new("inbox", level, text)
}

/// Applies it: one transaction.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::Close {
        dead_letter_id,
        version,
        payload_sha256,
        is_resolved,
    } = &plan.frozen
    else {
        return Err(refused("digest", "this is no plan of a discard"));
    };
    started(
        desk.store(&plan.service)?
            .close_dead_letter(
                &desk.operation(plan, confirmation),
                &desk.reservation(dead_letter_id, *version, payload_sha256),
                *is_resolved,
                &desk.intent(plan, confirmation),
            )
            .await?,
    )?;
    let word = if *is_resolved {
        "resolved"
    } else {
        "discarded"
    };
    Ok(applied(
        plan,
        ItemResult {
            event_id: plan.event_id.clone(),
            state: ItemState::Applied,
            evidence: format!("closed as {word}"),
            new_event_id: None,
        },
    ))
}
