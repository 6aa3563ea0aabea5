//! Prove: what became of an event after it was sent. The inbox row proves that it was consumed, a
//! new death that it was not; after a deadline nobody knows, and that is said. Nothing is ever sent
//! again from here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Desk;
use super::look::{self, Look};
use super::plan::OperateError;
use super::wording::moment;
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::text::safe;
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::DeadLetter;
use crate::model::ids::OperationId;
use crate::model::inbox::InboxRow;
use crate::model::operation::{ItemState, Operation, OperationItem};
use crate::store::{Guarded, ItemStep, Store, StoreError, StoreResult};

/// Operations looked at in one pass over a journal.
const OPERATIONS_A_PASS: u32 = 200;
/// Items whose outcome is unknown that are looked at in one pass: they may stay so for ever, and
/// must not keep the pass from those that move.
const UNKNOWN_A_PASS: usize = 20;
/// First and longest wait between two looks of [`follow`].
const FOLLOW_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What is known about an item besides its state.
pub(super) struct Evidence<'a> {
    /// The consumer's inbox.
    pub inbox: Look<InboxRow>,
    /// Its dead letter now.
    pub letter: Option<&'a DeadLetter>,
    /// Deaths since this item was planned of messages that another operation sent. They are not its answer.
    pub foreign_deaths: i64,
    /// The database's clock.
    pub now: Timestamp,
    /// How long a published item waits.
    pub proof_deadline: Duration,
}

/// Where an item goes next, and why; `None`: nothing is known that would move it.
pub(super) fn decide(item: &OperationItem, evidence: &Evidence<'_>) -> Option<(ItemState, String)> {
    let abandoned = item
        .abandoned_at(evidence.now)
        .map(|(state, why)| (state, why.to_owned()));
    match item.state {
        ItemState::Reserved => abandoned,
        ItemState::Publishing => abandoned.map(|gone| proof(item, evidence).unwrap_or(gone)),
        ItemState::Published => proof(item, evidence).or_else(|| overdue(item, evidence)),
        ItemState::Unknown => proof(item, evidence),
        ItemState::Consumed
        | ItemState::DiedAgain
        | ItemState::Unroutable
        | ItemState::Refused
        | ItemState::Applied => None,
    }
}

fn proof(item: &OperationItem, evidence: &Evidence<'_>) -> Option<(ItemState, String)> {
    if let Look::Found(row) = &evidence.inbox {
        let other = match (&row.payload_sha256, evidence.letter) {
            (Some(stored), Some(letter)) if *stored != letter.payload_sha256 => {
                ", with other content than was sent"
            }
            _ => "",
        };
        return Some((
            ItemState::Consumed,
            format!(
                "inbox row of {} at {}{other}",
                safe(row.consumer.as_str()),
                moment(row.processed_at)
            ),
        ));
    }
    let letter = evidence.letter?;
    let deaths = letter.deaths.saturating_sub(evidence.foreign_deaths);
    (deaths > item.deaths_before).then(|| {
        let why = letter
            .error_summary
            .as_deref()
            .map(|error| format!(": {}", safe(error)))
            .unwrap_or_default();
        (
            ItemState::DiedAgain,
            format!("died again at {}{why}", moment(letter.last_died_at)),
        )
    })
}

fn overdue(item: &OperationItem, evidence: &Evidence<'_>) -> Option<(ItemState, String)> {
    let since = item.published_at.unwrap_or(item.updated_at);
    if evidence.now < since.plus(evidence.proof_deadline) {
        return None;
    }
    let waited = human::duration(evidence.proof_deadline);
    let why = match &evidence.inbox {
        Look::Found(_) | Look::Absent => "neither an inbox row nor a new death".to_owned(),
        Look::Unread(why) | Look::NotConfigured(why) => format!("no proof possible: {why}"),
    };
    Some((
        ItemState::Unknown,
        format!("sent and confirmed; after {waited} {why}"),
    ))
}

/// One pass over every journal.
pub(super) async fn prove_once(desk: &Desk) -> Result<Vec<Operation>, StoreError> {
    if !desk.guard.may_prove() {
        return Ok(vec![]);
    }
    let mut changed = Vec::new();
    let mut first_error = None;
    for (service, store) in desk.journals() {
        match prove_journal(desk, store, &mut changed).await {
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(service, %error, "operations of this journal not looked at");
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if changed.is_empty() => Err(error),
        _ => Ok(changed),
    }
}

async fn prove_journal(
    desk: &Desk,
    store: &Arc<dyn Store>,
    changed: &mut Vec<Operation>,
) -> StoreResult<()> {
    let operations = store.unfinished_operations(OPERATIONS_A_PASS).await?;
    if operations.is_empty() {
        return Ok(());
    }
    let now = store.probe().await?.database_now;
    let (unknown, moving): (Vec<_>, Vec<_>) = operations.into_iter().partition(is_only_unknown);
    let turn = desk
        .unknown_turn
        .fetch_add(UNKNOWN_A_PASS, Ordering::Relaxed);
    let start = turn.checked_rem(unknown.len()).unwrap_or_default();
    let unknown = unknown
        .iter()
        .cycle()
        .skip(start)
        .take(unknown.len().min(UNKNOWN_A_PASS));
    for operation in moving.iter().chain(unknown) {
        if prove(desk, store, operation, now).await?
            && let Some(operation) = store.operation(&operation.operation_id).await?
        {
            changed.push(operation);
        }
    }
    Ok(())
}

fn is_only_unknown(operation: &Operation) -> bool {
    operation
        .items
        .iter()
        .all(|item| item.state.is_final() || item.state == ItemState::Unknown)
}

/// Looks at every item of one operation; true when one moved.
async fn prove(
    desk: &Desk,
    store: &Arc<dyn Store>,
    operation: &Operation,
    now: Timestamp,
) -> StoreResult<bool> {
    let mut moved = false;
    for item in operation.items.iter().filter(|item| !item.state.is_final()) {
        let inbox = match &item.consumer {
            Some(consumer) => look::inbox(desk, consumer, item.event_id.as_ref()).await,
            None => Look::NotConfigured("its consumer is not known".to_owned()),
        };
        let letter = letter_of(store, item).await?;
        let foreign_deaths = match &letter {
            Some(letter) => foreign_deaths(store, letter, operation, item).await?,
            None => 0,
        };
        let evidence = Evidence {
            inbox,
            letter: letter.as_ref(),
            foreign_deaths,
            now,
            proof_deadline: desk.ports.context.thresholds.proof_deadline,
        };
        if let Some((to, why)) = decide(item, &evidence) {
            let step = ItemStep {
                operation_id: operation.operation_id.clone(),
                no: item.no,
                token: item.token.clone(),
                from: vec![item.state],
                to,
                audit: Some(record(desk, operation, item, to, &why)),
                evidence: why,
            };
            // A lost race means that somebody else knows more: the next pass sees it.
            moved |= store.step_item(&step).await? == Guarded::Done;
        }
    }
    Ok(moved)
}

/// Deaths of the letter since the item was planned whose messages carry another operation's mark: an earlier
/// replay without an outcome may still have had its copy under way.
async fn foreign_deaths(
    store: &Arc<dyn Store>,
    letter: &DeadLetter,
    operation: &Operation,
    item: &OperationItem,
) -> StoreResult<i64> {
    if letter.deaths <= item.deaths_before {
        return Ok(0);
    }
    let Some(detail) = store.dead_letter(&letter.dead_letter_id).await? else {
        return Ok(0);
    };
    let foreign = detail.deaths.iter().filter(|death| {
        let marked = death.operation_id.as_ref();
        death.no > item.deaths_before && marked.is_some_and(|of| *of != operation.operation_id)
    });
    Ok(i64::try_from(foreign.count()).unwrap_or(i64::MAX))
}

async fn letter_of(
    store: &Arc<dyn Store>,
    item: &OperationItem,
) -> StoreResult<Option<DeadLetter>> {
    let Some(id) = &item.dead_letter_id else {
        return Ok(None);
    };
    match &item.event_id {
        Some(event_id) => Ok(store
            .dead_letters_of_event(event_id)
            .await?
            .into_iter()
            .find(|letter| letter.dead_letter_id == *id)),
        None => Ok(store.dead_letter(id).await?.map(|detail| detail.letter)),
    }
}

fn record(
    desk: &Desk,
    operation: &Operation,
    item: &OperationItem,
    state: ItemState,
    evidence: &str,
) -> AuditRecord {
    let subject = match (&item.event_id, &item.dead_letter_id) {
        (Some(event_id), _) => event_id.to_string(),
        (None, Some(id)) => id.to_string(),
        (None, None) => operation.operation_id.to_string(),
    };
    AuditRecord {
        actor: desk.actor.clone(),
        action: operation.verb.word().to_owned(),
        phase: "outcome".to_owned(),
        operation_id: Some(operation.operation_id.clone()),
        subject,
        reason: operation.reason.clone(),
        detail: serde_json::json!({ "state": state, "evidence": evidence }).to_string(),
    }
}

/// Looks at one operation again and again until it is final or the deadline has passed. A session
/// that may not write only reads.
pub(super) async fn follow(
    desk: &Desk,
    service: &str,
    id: &OperationId,
    deadline: Duration,
) -> Result<Operation, OperateError> {
    let store = desk.store(service)?;
    let end = tokio::time::Instant::now() + deadline;
    let (mut wait, longest) = FOLLOW_WAIT;
    loop {
        let mut operation = read(store, service, id).await?;
        if !is_final(&operation) && desk.guard.may_prove() {
            let now = store.probe().await?.database_now;
            if prove(desk, store, &operation, now).await? {
                operation = read(store, service, id).await?;
            }
        }
        if is_final(&operation) || tokio::time::Instant::now() + wait > end {
            return Ok(operation);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}

fn is_final(operation: &Operation) -> bool {
    operation.items.iter().all(|item| item.state.is_final())
}

async fn read(
    store: &Arc<dyn Store>,
    service: &str,
    id: &OperationId,
) -> Result<Operation, OperateError> {
    store
        .operation(id)
        .await?
        .ok_or_else(|| OperateError::NotFound(format!("{service} has no operation {id}")))
}

#[cfg(test)]
mod tests;
