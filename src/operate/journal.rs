//! Operations and audit records: intent before, outcome after (design invariant 7).

use super::Desk;
use super::guard::refused;
use super::plan::{
    Applied, ConfirmRules, Confirmation, Frozen, ItemResult, Level, OperateError, Plan,
    PreflightLine, Target,
};
use super::wording::moment;
use crate::base::text::safe;
use crate::config::Environment;
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::DeadLetter;
use crate::model::ids::{ClaimToken, DeadLetterId, OperationId};
use crate::model::operation::{ItemState, Verb};
use crate::store::{Begun, NewOperation, Reservation};

/// What a plan starts from.
pub(super) struct Draft<'a> {
    /// Its operation.
    pub operation_id: OperationId,
    /// What.
    pub verb: Verb,
    /// Service whose database records it.
    pub service: &'a str,
    /// One line for the head of the dialog.
    pub headline: String,
    /// The same as a command.
    pub command_line: String,
    /// The exact rows.
    pub frozen: Frozen,
}

impl Desk {
    /// A plan without its verb's own lines: rights, lock and journal are looked at already.
    pub(super) fn draft(&self, draft: Draft<'_>) -> Result<Plan, OperateError> {
        let context = &self.ports.context;
        let mut preflight = self.guard.lines(draft.verb);
        if !self.store(draft.service)?.facts().has_journal {
            preflight.push(PreflightLine::new(
                "journal",
                Level::Refusal,
                format!(
                    "{service} keeps no operations and no audit log; create their tables with: redrive migrate --service {service} --context {context} --apply",
                    service = draft.service,
                    context = context.name
                ),
            ));
        }
        let is_production = context.environment == Environment::Production;
        Ok(Plan {
            operation_id: draft.operation_id,
            verb: draft.verb,
            context: context.name.clone(),
            environment: context.environment,
            service: draft.service.to_owned(),
            made_at: self.ports.clock.now(),
            headline: draft.headline,
            event_id: None,
            consumer: None,
            target: None,
            destination: None,
            payload: None,
            headers_kept: 0,
            header_changes: vec![],
            preflight,
            diff: None,
            command_line: draft.command_line,
            confirm: ConfirmRules {
                context_name: is_production.then(|| context.name.clone()),
                count: None,
                ticket_pattern: context.ticket_pattern.clone(),
                word: None,
                told: None,
            },
            digest: String::new(),
            frozen: draft.frozen,
        })
    }

    /// The operation a confirmed plan becomes.
    pub(super) fn operation(&self, plan: &Plan, confirmation: &Confirmation) -> NewOperation {
        NewOperation {
            operation_id: plan.operation_id.clone(),
            verb: plan.verb,
            actor: self.actor.clone(),
            reason: confirmation.reason.trim().to_owned(),
            ticket: confirmation.ticket.clone(),
            plan_digest: plan.digest.clone(),
            plan: serde_json::json!(plan).to_string(),
        }
    }

    /// The audit entry of a plan's intent, or of both where one transaction does all.
    pub(super) fn intent(&self, plan: &Plan, confirmation: &Confirmation) -> AuditRecord {
        let noteworthy: Vec<_> = plan
            .preflight
            .iter()
            .filter(|line| line.level > Level::Pass)
            .collect();
        self.record(
            plan,
            confirmation,
            "intent",
            &serde_json::json!({
                "plan": plan.digest,
                "command": plan.command_line,
                "consumer": plan.consumer,
                "ticket": confirmation.ticket,
                "destination": plan.destination,
                "payload": plan.payload,
                "header_changes": plan.header_changes,
                "diff": plan.diff,
                "preflight": noteworthy,
            }),
        )
    }

    /// The audit entry of an item's outcome.
    pub(super) fn outcome(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
        state: ItemState,
        evidence: &str,
    ) -> AuditRecord {
        self.record(
            plan,
            confirmation,
            "outcome",
            &serde_json::json!({ "state": state, "evidence": evidence }),
        )
    }

    /// A refused try is part of the history too, where the session may write at all.
    pub(super) async fn record_refusal(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
        check: &str,
        reason: &str,
    ) {
        let Ok(store) = self.store(&plan.service) else {
            return;
        };
        if !self.guard.may_record() || !store.facts().has_journal {
            return;
        }
        let record = self.record(
            plan,
            confirmation,
            "refused",
            &serde_json::json!({ "check": check, "refusal": reason, "plan": plan.digest }),
        );
        if let Err(error) = store.audit_append(&record).await {
            // The refusal itself reaches the operator; only its record is missing.
            tracing::warn!(%error, check, "refused try not recorded");
        }
    }

    fn record(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
        phase: &str,
        detail: &serde_json::Value,
    ) -> AuditRecord {
        AuditRecord {
            actor: self.actor.clone(),
            action: plan.verb.word().to_owned(),
            phase: phase.to_owned(),
            operation_id: Some(plan.operation_id.clone()),
            subject: subject_of(plan),
            reason: confirmation.reason.trim().to_owned(),
            detail: detail.to_string(),
        }
    }

    /// Reserves a letter as the plan froze it. The lease outlives the slowest publish and the
    /// statements around it, so that nobody takes a live action for a dead one.
    pub(super) fn reservation(
        &self,
        dead_letter_id: &DeadLetterId,
        version: i64,
        payload_sha256: &str,
    ) -> Reservation {
        let limits = &self.ports.context.thresholds;
        Reservation {
            dead_letter_id: dead_letter_id.clone(),
            version,
            payload_sha256: payload_sha256.to_owned(),
            token: ClaimToken::generate(),
            lease: limits.publish_deadline + limits.statement_timeout * 2,
        }
    }
}

/// What an operation acts on, in one word.
fn subject_of(plan: &Plan) -> String {
    match (&plan.event_id, &plan.target, &plan.frozen) {
        (Some(event_id), _, _) | (None, Some(Target::OutboxRow { event_id, .. }), _) => {
            event_id.to_string()
        }
        (None, Some(Target::DeadLetter { dead_letter_id, .. }), _) => dead_letter_id.to_string(),
        (None, None, Frozen::Release { claim_token }) => claim_token.to_string(),
        (None, None, Frozen::Saga { saga_id, .. }) => saga_id.to_string(),
        (None, None, _) => plan.operation_id.to_string(),
    }
}

/// A refusal for everything but a start.
pub(super) fn started(begun: Begun) -> Result<(), OperateError> {
    match begun {
        Begun::Started => Ok(()),
        Begun::Held {
            operation_id,
            actor,
            since,
        } => Err(refused(
            "held",
            format!(
                "already being replayed by {} since {} (operation {operation_id})",
                safe(&actor),
                moment(since)
            ),
        )),
        Begun::Closed { status, at } => Err(refused(
            "closed",
            format!("{status} at {}: nothing is left to do", moment(at)),
        )),
        Begun::Drifted { what } => Err(refused(
            "drifted",
            format!("it changed since the plan ({what}); plan again"),
        )),
        Begun::Missing => Err(refused("drifted", "the row is gone; plan again")),
    }
}

/// The answer of an action on one thing.
pub(super) fn applied(plan: &Plan, item: ItemResult) -> Applied {
    Applied {
        operation_id: plan.operation_id.clone(),
        verb: plan.verb,
        service: plan.service.clone(),
        items: vec![item],
    }
}

/// Fills in what every plan about a dead letter says.
pub(super) fn about_letter(plan: &mut Plan, service: &str, letter: &DeadLetter) {
    plan.event_id.clone_from(&letter.event_id);
    plan.consumer = Some(letter.consumer.clone());
    plan.target = Some(Target::DeadLetter {
        service: service.to_owned(),
        dead_letter_id: letter.dead_letter_id.clone(),
    });
}
