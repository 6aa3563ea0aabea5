//! A replay that an operator did, and that was seen consumed.

use std::time::Duration;

use super::History;
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::NewDeath;
use crate::model::ids::{ClaimToken, DeadLetterId, EventId, OperationId};
use crate::model::operation::{ItemState, Verb};
use crate::pipeline::consumer::{Handler as _, Outcome, Received};
use crate::sandbox::fault::Chance;
use crate::sandbox::inventory::Inventory;
use crate::store::{Begun, ItemStep, NewOperation, Reservation, StoreResult};

impl History<'_> {
    /// Inventory consumes the event for real: inbox row, reservation and result event.
    async fn consume(&self, event_id: &EventId, death: &NewDeath) -> StoreResult<()> {
        let received = Received {
            event_id: event_id.clone(),
            event_type: death.event_type.clone(),
            aggregate_id: death.aggregate_id.clone(),
            aggregate_version: death.aggregate_version,
            replays: 1,
            attempt: 2,
            message: death.message.clone(),
        };
        let sha256 = death.message.payload.sha256();
        let mut tx = self.inventory.begin().await?;
        tx.inbox_insert(&death.consumer, event_id, &sha256).await?;
        let chance = Chance::NONE;
        let outcome = Inventory { chance }.handle(&received, tx.as_mut()).await;
        if outcome == Outcome::Done {
            tx.commit().await
        } else {
            tx.rollback().await
        }
    }

    /// A replay that an operator did and that was seen consumed.
    pub(super) async fn replayed(&self, id: &DeadLetterId, death: &NewDeath) -> StoreResult<()> {
        let Some(event_id) = &death.event_id else {
            return Ok(());
        };
        let Some(detail) = self.inventory.dead_letter(id).await? else {
            return Ok(());
        };
        let token = ClaimToken::generate();
        let operation_id = OperationId::generate();
        let operation = NewOperation {
            operation_id: operation_id.clone(),
            verb: Verb::Replay,
            actor: "mia@oncall".to_owned(),
            reason: "sku made optional in 4.2.1".to_owned(),
            ticket: None,
            plan_digest: crate::base::digest::sha256_hex(operation_id.as_str().as_bytes()),
            plan: format!(
                "{{\"verb\":\"replay\",\"event_id\":\"{event_id}\",\"to\":\"inventory.orders\"}}"
            ),
        };
        let reservation = Reservation {
            dead_letter_id: id.clone(),
            version: detail.letter.version,
            payload_sha256: detail.letter.payload_sha256,
            token: token.clone(),
            lease: Duration::from_mins(1),
        };
        let record = |phase: &str, detail: &str| AuditRecord {
            actor: operation.actor.clone(),
            action: "replay".to_owned(),
            phase: phase.to_owned(),
            operation_id: Some(operation_id.clone()),
            subject: event_id.to_string(),
            reason: operation.reason.clone(),
            detail: detail.to_owned(),
        };
        let begun = self
            .inventory
            .begin_replay(&operation, &[reservation], &record("intent", "{}"))
            .await?;
        if begun != Begun::Started {
            return Ok(());
        }
        self.consume(event_id, death).await?;
        let step = |from, to, evidence: &str, audit| ItemStep {
            operation_id: operation_id.clone(),
            no: 1,
            token: token.clone(),
            from: vec![from],
            to,
            evidence: evidence.to_owned(),
            audit,
        };
        let sending = step(
            ItemState::Reserved,
            ItemState::Publishing,
            "sent to inventory.orders",
            None,
        );
        self.inventory.step_item(&sending).await?;
        let published = step(
            ItemState::Publishing,
            ItemState::Published,
            "confirmed by the broker, routed to inventory.orders",
            None,
        );
        self.inventory.step_item(&published).await?;
        let consumed = step(
            ItemState::Published,
            ItemState::Consumed,
            "inbox row of inventory seen",
            Some(record("outcome", "{\"state\":\"consumed\"}")),
        );
        self.inventory.step_item(&consumed).await?;
        Ok(())
    }
}
