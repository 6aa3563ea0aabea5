//! A dead letter to act on: SQLite databases, the in-process broker, an operator.

use std::sync::Arc;

use crate::base::clock::{Clock, Timestamp};
use crate::config::Context;
use crate::model::dead_letter::{DeadLetter, DeadLetterStatus, DeathRecorded, NewDeath};
use crate::model::ids::{ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::inbox::InboxInsert;
use crate::model::message::{Message, Properties};
use crate::model::operation::{ItemState, Operation};
use crate::model::outbox::NewEvent;
use crate::operate::Operator;
use crate::operate::plan::{
    Applied, Confirmation, Level, OperateError, Plan, PreflightLine, Request, Target,
};
use crate::pipeline::headers::OPERATION;
use crate::pipeline::test_support::{Bench, new_event};

/// The consumer that failed, its queue and its DLQ.
pub(super) const CONSUMER: &str = "inventory";
pub(super) const QUEUE: &str = "inventory.orders";
pub(super) const DLQ: &str = "inventory.orders.dlq";

/// A pipeline, and one operator on it.
pub(super) struct Scene {
    pub bench: Bench,
    pub operator: Arc<Operator>,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Context)) -> Self {
        let bench = Bench::with(change).await;
        let operator = Arc::new(operator(&bench, "mia@desk", false));
        Self { bench, operator }
    }

    /// Another console on the same pipeline.
    pub fn second(&self, actor: &str) -> Arc<Operator> {
        Arc::new(operator(&self.bench, actor, false))
    }

    /// An event in the outbox of `orders` that died once at `inventory`.
    pub async fn dead(&self) -> Letter {
        self.dead_event(&new_event("order.created", r#"{"a":1.10}"#), |_| {})
            .await
    }

    /// The same with a version, or anything else, of its own.
    pub async fn dead_event(&self, event: &NewEvent, change: impl FnOnce(&mut NewDeath)) -> Letter {
        self.bench.append("orders", event).await;
        self.died(event, None, change).await
    }

    /// A death of `event` at `inventory`, after the replay of `operation_id` if it was one.
    pub async fn died(
        &self,
        event: &NewEvent,
        operation_id: Option<&OperationId>,
        change: impl FnOnce(&mut NewDeath),
    ) -> Letter {
        let mut death = death_of(event, operation_id);
        change(&mut death);
        let recorded = self
            .bench
            .store(CONSUMER)
            .record_death(&death)
            .await
            .expect("records the death");
        let dead_letter_id = match recorded {
            DeathRecorded::New(id) | DeathRecorded::SameDelivery(id) => id,
            DeathRecorded::Again { dead_letter_id, .. } => dead_letter_id,
        };
        Letter {
            event: event.clone(),
            dead_letter_id,
        }
    }

    /// The consumer's transaction.
    pub async fn processed(&self, consumer: &str, event: &NewEvent) {
        let mut tx = self.bench.store(consumer).begin().await.expect("begins");
        let inserted = tx
            .inbox_insert(
                &ConsumerName::new(consumer),
                &event.event_id,
                &event.payload.sha256(),
            )
            .await
            .expect("inserts");
        assert_eq!(inserted, InboxInsert::First);
        tx.commit().await.expect("commits");
    }

    pub async fn letter(&self, letter: &Letter) -> DeadLetter {
        let detail = self
            .bench
            .store(CONSUMER)
            .dead_letter(&letter.dead_letter_id)
            .await
            .expect("reads");
        detail.expect("the letter").letter
    }

    pub async fn status(&self, letter: &Letter) -> DeadLetterStatus {
        self.letter(letter).await.status
    }

    pub async fn operation(&self, id: &OperationId) -> Operation {
        let operation = self.bench.store(CONSUMER).operation(id).await;
        operation.expect("reads").expect("the operation")
    }

    pub async fn state(&self, id: &OperationId) -> ItemState {
        self.operation(id).await.items[0].state
    }

    /// Audit phases of `inventory`'s journal, oldest first.
    pub async fn audit(&self) -> Vec<String> {
        let entries = self.bench.store(CONSUMER).audit_page(None, 200).await;
        let mut phases: Vec<_> = entries
            .expect("reads")
            .into_iter()
            .map(|entry| {
                format!(
                    "{} {} {}",
                    entry.record.actor, entry.record.action, entry.record.phase
                )
            })
            .collect();
        phases.reverse();
        phases
    }

    /// Every chain verifies.
    pub async fn assert_chains_verify(&self) {
        for (service, verified) in self.operator.verify_audit().await {
            let verified = verified.expect("reads");
            assert!(verified.is_ok(), "{service}: {verified:?}");
        }
    }
}

pub(super) fn operator(bench: &Bench, actor: &str, read_only: bool) -> Operator {
    Operator::new(bench.ports.clone(), actor.to_owned(), read_only)
}

/// A dead letter and the event it is about.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub event: NewEvent,
    pub dead_letter_id: DeadLetterId,
}

impl Letter {
    pub fn target(&self) -> Target {
        Target::DeadLetter {
            service: CONSUMER.to_owned(),
            dead_letter_id: self.dead_letter_id.clone(),
        }
    }

    pub fn replay(&self) -> Request {
        Request::Replay {
            target: self.target(),
            through_exchange: false,
            to_queue: None,
            overrides: vec![],
        }
    }

    pub fn replay_overriding(&self, check: &str) -> Request {
        Request::Replay {
            target: self.target(),
            through_exchange: false,
            to_queue: None,
            overrides: vec![check.to_owned()],
        }
    }

    pub fn replay_to(&self, queue: &str) -> Request {
        Request::Replay {
            target: self.target(),
            through_exchange: false,
            to_queue: Some(queue.to_owned()),
            overrides: vec![],
        }
    }

    pub fn through_exchange(&self) -> Request {
        Request::Replay {
            target: self.target(),
            through_exchange: true,
            to_queue: None,
            overrides: vec![],
        }
    }
}

/// Plans and applies with a reason.
pub(super) async fn act(operator: &Operator, request: &Request) -> Result<Applied, OperateError> {
    let plan = operator.plan(request).await?;
    operator.apply(&plan, &because("sku optional")).await
}

pub(super) fn because(reason: &str) -> Confirmation {
    Confirmation {
        reason: reason.to_owned(),
        ..Confirmation::default()
    }
}

/// The line of a check.
pub(super) fn line<'a>(plan: &'a Plan, check: &str) -> &'a PreflightLine {
    plan.preflight
        .iter()
        .find(|line| line.check == check)
        .unwrap_or_else(|| panic!("no line {check}: {:?}", plan.preflight))
}

pub(super) fn level(plan: &Plan, check: &str) -> Level {
    line(plan, check).level
}

/// Check and reason of a refusal.
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, OperateError>) -> (String, String) {
    match result {
        Err(OperateError::Refused { check, reason }) => (check, reason),
        other => panic!("not refused: {other:?}"),
    }
}

/// What a collector would make of the event's message in the DLQ.
fn death_of(event: &NewEvent, operation_id: Option<&OperationId>) -> NewDeath {
    let now = Clock::System.now();
    let message = Message {
        properties: Properties {
            content_type: Some("application/json".to_owned()),
            headers: event.headers.clone(),
            message_id: Some(event.event_id.to_string()),
            kind: Some(event.event_type.clone()),
            delivery_mode: Some(2),
            ..Properties::default()
        },
        payload: event.payload.clone(),
    };
    NewDeath {
        consumer: ConsumerName::new(CONSUMER),
        event_id: Some(event.event_id.clone()),
        aggregate_id: Some(event.aggregate_id.clone()),
        aggregate_version: Some(event.aggregate_version),
        event_type: Some(event.event_type.clone()),
        message_at: Some(Timestamp::from_micros(now.micros() - 180_000_000)),
        failed_queue: Some(QUEUE.to_owned()),
        source_exchange: Some("shop.events".to_owned()),
        source_routing_key: Some(event.event_type.clone()),
        dead_letter_queue: DLQ.to_owned(),
        reason: Some("rejected".to_owned()),
        error_class: "decode: missing field sku".to_owned(),
        error_summary: Some("missing field `sku` at line 1 column 58".to_owned()),
        stack_digest: None,
        delivery_count: Some(1),
        retry_count: None,
        died_at: now,
        producer_version: None,
        consumer_version: None,
        trace_id: None,
        replay_allowed: true,
        owner: None,
        operation_id: operation_id.cloned(),
        fingerprint: EventId::generate().to_string(),
        redelivered: false,
        message,
    }
}

/// The operation a replayed message is marked with.
pub(super) fn operation_of(message: &Message) -> Option<OperationId> {
    let mark = message.properties.headers.get(OPERATION)?;
    Some(OperationId::new(mark.as_text()?))
}
