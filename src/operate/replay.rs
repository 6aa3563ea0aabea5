//! Replay: the same event again, same id, same bytes, to the consumer that failed.
//!
//! Reserve (one transaction: operation, item, letter `replaying`, audit entry), mark as publishing,
//! publish, record the outcome by token. Whatever happens in between is told by the item's state:
//! `reserved` was never sent, `publishing` may have been, `published` was.

use futures::future::join;

use super::Desk;
use super::command_line::CommandLine;
use super::guard::refused;
use super::headers::{self, Marks};
use super::journal::{Draft, about_letter, applied, started};
use super::look::{self, Look};
use super::plan::{Applied, Confirmation, Frozen, ItemResult, Level, OperateError, Plan};
use super::preflight::{self, Facts};
use super::route::{self, Route, Wish};
use super::wording;
use crate::base::backoff::Backoff;
use crate::base::text::safe;
use crate::broker::{Flow, Outgoing, PublishOutcome, Publisher};
use crate::model::audit::AuditRecord;
use crate::model::ids::{DeadLetterId, OperationId};
use crate::model::message::Message;
use crate::model::operation::{ItemState, Verb};
use crate::pipeline::death::replays_of;
use crate::store::{Guarded, ItemStep, Reservation, Store};
use std::sync::Arc;
use std::time::Duration;

/// The only item of a single replay.
const ITEM: i64 = 1;
/// Crash point between the publishing step and the publish: certainly not sent, but nobody can know.
const BEFORE_PUBLISH: &str = "replay.before_publish";
/// Crash point between the confirm and its record: sent, and nobody wrote it down.
const AFTER_CONFIRM: &str = "replay.after_confirm";
/// Tries to record an outcome while the database does not answer.
const RECORD_TRIES: u32 = 5;
/// Wait between them.
const RECORD_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    cap: Duration::from_secs(1),
};

/// Plans the replay of a dead letter.
pub(super) async fn plan(
    desk: &Desk,
    service: &str,
    id: &DeadLetterId,
    wish: Wish<'_>,
    overrides: &[String],
) -> Result<Plan, OperateError> {
    let mut detail = look::letter(desk, service, id).await?;
    // A death that came before our own record of the publish was not counted there; the message
    // itself carries the number of the replay it died after.
    let counted = replays_of(&detail.message);
    detail.letter.replays = detail.letter.replays.max(counted);
    let letter = &detail.letter;
    let (route, (holder, inbox, originals, memory)) =
        join(route::route(desk, letter, wish), async {
            futures::join!(
                look::holder(desk, service, letter),
                look::inbox(desk, &letter.consumer, letter.event_id.as_ref()),
                look::originals(desk, letter.event_id.as_ref()),
                look::memory(desk, letter),
            )
        })
        .await;
    let neighbours = look::neighbours(desk, letter, &originals).await;

    let operation_id = OperationId::generate();
    let broker = desk.ports.broker.as_ref();
    let user = broker.and_then(|broker| broker.user());
    let prepared = headers::prepare(
        &detail.message,
        &Marks {
            operation_id: &operation_id,
            replay_no: letter.replays.saturating_add(1),
            event_id: letter.event_id.as_ref(),
            user: user.as_deref(),
            frame_max: broker.map_or(0, |broker| broker.frame_max()),
        },
    );
    let facts = Facts {
        context: &desk.ports.context,
        now: desk.ports.clock.now(),
        detail: &detail,
        holder,
        inbox,
        memory,
        originals,
        neighbours,
        size: prepared.size,
    };
    let mut plan = desk.draft(Draft {
        operation_id,
        verb: Verb::Replay,
        service,
        headline: wording::headline(letter, facts.now),
        command_line: command_line(&desk.ports.context.name, letter, wish, overrides),
        frozen: Frozen::Replay {
            dead_letter_id: letter.dead_letter_id.clone(),
            version: letter.version,
            payload_sha256: letter.payload_sha256.clone(),
            message: Box::new(prepared.message),
        },
    })?;
    about_letter(&mut plan, service, letter);
    let Route { destination, lines } = route;
    plan.destination = Some(destination);
    plan.payload = Some(preflight::payload_text(letter, &facts.originals));
    plan.headers_kept = prepared.kept;
    plan.header_changes = prepared.changes;
    plan.preflight.extend(preflight::lines(&facts));
    plan.preflight.extend(lines);
    preflight::overridden(&mut plan.preflight, overrides);
    plan.confirm.word = preflight::word(letter);
    Ok(plan.sealed())
}

fn command_line(
    context: &str,
    letter: &crate::model::dead_letter::DeadLetter,
    wish: Wish<'_>,
    overrides: &[String],
) -> String {
    let mut line = CommandLine::of_letter(context, Verb::Replay, letter)
        .flag("--through-exchange", wish.through_exchange);
    if let Some(queue) = wish.to_queue {
        line = line.option("--to-queue", queue);
    }
    for check in overrides {
        line = line.option("--override", check);
    }
    line.finish()
}

/// A replay under way.
struct Sending<'a> {
    desk: &'a Desk,
    plan: &'a Plan,
    confirmation: &'a Confirmation,
    store: &'a Arc<dyn Store>,
    reservation: Reservation,
}

/// Applies a replay.
pub(super) async fn apply(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
) -> Result<Applied, OperateError> {
    let Frozen::Replay {
        dead_letter_id,
        version,
        payload_sha256,
        message,
    } = &plan.frozen
    else {
        return Err(refused("digest", "this is no plan of a replay"));
    };
    let store = desk.store(&plan.service)?;
    // A broker that cannot be reached is found out before anything is written.
    let publisher = publisher(desk).await?;
    recheck_inbox(desk, plan).await?;
    let version = give_up_unknown(desk, plan, confirmation, *version).await?;

    let sending = Sending {
        desk,
        plan,
        confirmation,
        store,
        reservation: desk.reservation(dead_letter_id, version, payload_sha256),
    };
    started(
        store
            .begin_replay(
                &desk.operation(plan, confirmation),
                std::slice::from_ref(&sending.reservation),
                &desk.intent(plan, confirmation),
            )
            .await?,
    )?;
    let item = sending.send(publisher.as_ref(), message).await?;
    Ok(applied(plan, item))
}

async fn publisher(desk: &Desk) -> Result<Box<dyn Publisher>, OperateError> {
    let Some(broker) = &desk.ports.broker else {
        return Err(refused("no_broker", look::no_broker(desk)));
    };
    let publisher = broker.publisher().await?;
    if let Flow::Blocked(why) = publisher.flow() {
        return Err(refused(
            "blocked",
            format!("the broker takes no messages now: {}", safe(&why)),
        ));
    }
    Ok(publisher)
}

/// The letter may look as it did while another copy was consumed meanwhile.
async fn recheck_inbox(desk: &Desk, plan: &Plan) -> Result<(), OperateError> {
    let Some(consumer) = &plan.consumer else {
        return Ok(());
    };
    match look::inbox(desk, consumer, plan.event_id.as_ref()).await {
        Look::Found(row) => Err(refused(
            "inbox_absent",
            format!(
                "{consumer} processed it at {}: it would skip it; close it as resolved instead",
                wording::moment(row.processed_at)
            ),
        )),
        Look::Unread(why) => Err(refused(
            "unread",
            format!("the inbox of {consumer} could not be read: {why}"),
        )),
        Look::Absent | Look::NotConfigured(_) => Ok(()),
    }
}

/// When the operator chose to send again what an earlier replay left unknown, that one is given up
/// first, which opens the letter; returns the version to reserve.
async fn give_up_unknown(
    desk: &Desk,
    plan: &Plan,
    confirmation: &Confirmation,
    version: i64,
) -> Result<i64, OperateError> {
    let is_chosen = plan
        .preflight
        .iter()
        .any(|line| line.check == "unknown_outcome" && line.level == Level::Warning);
    let Frozen::Replay {
        dead_letter_id,
        payload_sha256,
        ..
    } = &plan.frozen
    else {
        return Ok(version);
    };
    if !is_chosen {
        return Ok(version);
    }
    let drifted = || refused("drifted", "its earlier replay was resolved; plan again");
    let detail = look::letter(desk, &plan.service, dead_letter_id).await?;
    let Look::Found(holder) = look::holder(desk, &plan.service, &detail.letter).await else {
        return Err(drifted());
    };
    let Some(item) = holder
        .operation
        .items
        .iter()
        .find(|item| item.dead_letter_id.as_ref() == Some(dead_letter_id))
    else {
        return Err(drifted());
    };
    let evidence = format!("given up: sent again by operation {}", plan.operation_id);
    let mut audit = desk.outcome(plan, confirmation, ItemState::Refused, &evidence);
    audit.operation_id = Some(holder.operation.operation_id.clone());
    let store = desk.store(&plan.service)?;
    let step = ItemStep {
        operation_id: holder.operation.operation_id.clone(),
        no: item.no,
        token: item.token.clone(),
        from: vec![ItemState::Unknown],
        to: ItemState::Refused,
        evidence,
        audit: Some(audit),
    };
    if detail.letter.version != version || store.step_item(&step).await? == Guarded::LostRace {
        return Err(drifted());
    }
    let opened = look::letter(desk, &plan.service, dead_letter_id)
        .await?
        .letter;
    if opened.payload_sha256 != *payload_sha256 {
        return Err(drifted());
    }
    Ok(opened.version)
}

impl Sending<'_> {
    async fn send(
        &self,
        publisher: &dyn Publisher,
        message: &Message,
    ) -> Result<ItemResult, OperateError> {
        let crash_points = self.desk.ports.context.environment.crash_points();
        let publishing = self.step(
            &[ItemState::Reserved],
            ItemState::Publishing,
            "being sent",
            None,
        );
        if self.store.step_item(&publishing).await? == Guarded::LostRace {
            return Err(refused(
                "held",
                "its reservation was taken back before anything was sent; plan again",
            ));
        }
        crash_points.reach(BEFORE_PUBLISH);
        let outgoing = self.outgoing(message);
        let deadline = self.desk.ports.context.thresholds.publish_deadline;
        let outcome = publisher
            .publish(vec![outgoing], deadline)
            .await
            .into_iter()
            .next()
            .unwrap_or_else(|| PublishOutcome::Unknown("the broker gave no outcome".to_owned()));
        crash_points.reach(AFTER_CONFIRM);
        let (state, evidence) = judged(&outcome, self.plan);
        let audit = self
            .desk
            .outcome(self.plan, self.confirmation, state, &evidence);
        let step = self.step(&[ItemState::Publishing], state, &evidence, Some(audit));
        Ok(self.record(&step).await)
    }

    fn outgoing(&self, message: &Message) -> Outgoing {
        let (exchange, routing_key) = match &self.plan.destination {
            Some(to) => (to.exchange.clone(), to.routing_key.clone()),
            None => (String::new(), String::new()),
        };
        Outgoing {
            exchange,
            routing_key,
            message: message.clone(),
        }
    }

    fn step(
        &self,
        from: &[ItemState],
        to: ItemState,
        evidence: &str,
        audit: Option<AuditRecord>,
    ) -> ItemStep {
        ItemStep {
            operation_id: self.plan.operation_id.clone(),
            no: ITEM,
            token: self.reservation.token.clone(),
            from: from.to_vec(),
            to,
            evidence: evidence.to_owned(),
            audit,
        }
    }

    /// Records what became of the publish. It has happened, so this never fails: what cannot be
    /// written down now is *unknown*, and resolves itself from the inbox later.
    async fn record(&self, step: &ItemStep) -> ItemResult {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.step_item(step).await {
                Ok(Guarded::Done) => return self.result(step.to, &step.evidence),
                Ok(Guarded::LostRace) => return self.as_it_stands(step).await,
                Err(error) if error.is_retryable() && tries < RECORD_TRIES => {
                    tokio::time::sleep(RECORD_BACKOFF.delay(tries)).await;
                }
                Err(error) => return self.unrecorded(step, &error.to_string()),
            }
        }
    }

    /// Somebody was faster: the collector with its next death, a prover, or our own first try whose
    /// answer was lost.
    async fn as_it_stands(&self, step: &ItemStep) -> ItemResult {
        match self.store.operation(&self.plan.operation_id).await {
            Ok(Some(operation)) => match operation.items.iter().find(|item| item.no == ITEM) {
                Some(item) => {
                    let evidence = item.evidence.as_deref().unwrap_or_default();
                    self.result(item.state, evidence)
                }
                None => self.unrecorded(step, "its item is gone"),
            },
            Ok(None) => self.unrecorded(step, "its operation is gone"),
            Err(error) => self.unrecorded(step, &error.to_string()),
        }
    }

    fn unrecorded(&self, step: &ItemStep, why: &str) -> ItemResult {
        self.result(
            ItemState::Unknown,
            &format!(
                "{}, but that could not be recorded ({why}); it resolves itself from the inbox when the database answers",
                step.evidence
            ),
        )
    }

    fn result(&self, state: ItemState, evidence: &str) -> ItemResult {
        ItemResult {
            event_id: self.plan.event_id.clone(),
            state,
            evidence: evidence.to_owned(),
            new_event_id: None,
        }
    }
}

/// What a publish outcome means for the item.
fn judged(outcome: &PublishOutcome, plan: &Plan) -> (ItemState, String) {
    let target = plan.destination.as_ref().map_or_else(String::new, |to| {
        if to.exchange.is_empty() {
            format!("queue {}", safe(&to.routing_key))
        } else {
            format!("exchange {}", safe(&to.exchange))
        }
    });
    let is_queue = plan
        .destination
        .as_ref()
        .is_some_and(|to| to.exchange.is_empty());
    match outcome {
        PublishOutcome::Confirmed => (
            ItemState::Published,
            format!("confirmed by the broker for {target}"),
        ),
        PublishOutcome::Returned(why) if is_queue => (
            ItemState::Unroutable,
            format!("unroutable: {}: target {target} does not exist", safe(why)),
        ),
        PublishOutcome::Returned(why) => (
            ItemState::Unroutable,
            format!(
                "unroutable: {}: no queue behind {target} took it",
                safe(why)
            ),
        ),
        PublishOutcome::Nacked if is_queue => (
            ItemState::Refused,
            "refused by broker (nack): queue full or limit".to_owned(),
        ),
        // One queue that is full refuses for all of them, whatever the others have taken.
        PublishOutcome::Nacked => (
            ItemState::Unknown,
            format!(
                "refused by broker (nack): a queue behind {target} is full or at its limit; another may \
                 have taken it, and it is safe to send again"
            ),
        ),
        PublishOutcome::Refused(why) | PublishOutcome::Unsent(why) => {
            (ItemState::Refused, format!("not sent: {}", safe(why)))
        }
        PublishOutcome::Unknown(why) => (
            ItemState::Unknown,
            format!(
                "no confirm: {}; it may have been sent, and is safe to send again",
                safe(why)
            ),
        ),
    }
}
