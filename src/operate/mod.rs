//! Acting: plan → confirm → apply → prove. Each verb is one file; rules that protect production
//! (read-only, rights, `never_replay`, reasons, tickets) are in `guard` and nowhere else, so that
//! neither the screen nor a script walks around them.
//!
//! ```text
//! Request ─ plan ─▶ Plan (frozen rows, preflight, digest) ─ Confirmation ─▶ apply ─▶ Applied
//!                                                                            │
//!            intent and reservation (one transaction) ─▶ publish ─▶ outcome  │
//!                                                                            ▼
//!                     prove_once / follow: inbox row, next death, or deadline
//! ```

mod command_line;
mod discard;
mod guard;
mod headers;
mod journal;
mod look;
pub mod plan;
mod preflight;
mod prove;
mod release;
mod repair;
mod replay;
mod requeue;
mod resolve;
mod route;
mod saga;
#[cfg(test)]
mod test_support;
mod wording;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::base::tasks::Tasks;
use crate::model::audit::{AuditRecord, ChainFault};
use crate::model::ids::{ConsumerName, DeadLetterId, FindingId, OperationId, SagaId};
use crate::model::message::Payload;
use crate::model::operation::Operation;
use crate::ports::Ports;
use crate::store::{Guarded, Store, StoreError};
use guard::{Guard, refused};
use plan::{Access, Applied, Confirmation, Frozen, OperateError, Plan, Request, Target};

/// One verb: its name in the CLI, its key on the screen, the file that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationEntry {
    /// The verb's word.
    pub name: &'static str,
    /// The key that asks for it; uppercase acts.
    pub key: char,
    /// File in this folder.
    pub file: &'static str,
}

/// Every operator action.
pub const OPERATIONS: &[OperationEntry] = &[
    OperationEntry {
        name: "replay",
        key: 'R',
        file: "replay.rs",
    },
    OperationEntry {
        name: "repair",
        key: 'E',
        file: "repair/mod.rs",
    },
    OperationEntry {
        name: "release",
        key: 'L',
        file: "release.rs",
    },
    OperationEntry {
        name: "discard",
        key: 'D',
        file: "discard.rs",
    },
    OperationEntry {
        name: "saga_retry",
        key: 'T',
        file: "saga/mod.rs",
    },
    OperationEntry {
        name: "saga_query",
        key: 'Q',
        file: "saga/mod.rs",
    },
    OperationEntry {
        name: "saga_compensate",
        key: 'C',
        file: "saga/mod.rs",
    },
    OperationEntry {
        name: "saga_handled",
        key: 'H',
        file: "saga/mod.rs",
    },
    OperationEntry {
        name: "saga_assign",
        key: 'A',
        file: "saga/mod.rs",
    },
];

/// Every operator action of one context.
pub struct Operator {
    desk: Arc<Desk>,
}

/// What every verb works with.
struct Desk {
    ports: Ports,
    actor: String,
    guard: Guard,
    tasks: Tasks,
    /// Where the next pass over unknown items starts, see [`prove`].
    unknown_turn: std::sync::atomic::AtomicUsize,
}

impl Desk {
    /// The store of a service that a request names.
    fn store(&self, service: &str) -> Result<&Arc<dyn Store>, OperateError> {
        self.ports.store(service).ok_or_else(|| {
            OperateError::NotFound(format!(
                "context {} has no service {service}",
                self.ports.context.name
            ))
        })
    }

    /// Services whose database keeps operations and the audit log.
    fn journals(&self) -> impl Iterator<Item = (&str, &Arc<dyn Store>)> {
        self.ports
            .iter()
            .filter(|(_, store)| store.facts().has_journal)
            .map(|(service, store)| (service.name.as_str(), store))
    }

    async fn apply(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
    ) -> Result<Applied, OperateError> {
        let result = match self.guard.check_apply(plan, confirmation) {
            Ok(()) => self.run(plan, confirmation).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(OperateError::Refused { check, reason }) = &result {
            self.record_refusal(plan, confirmation, check, reason).await;
        }
        result
    }

    async fn run(&self, plan: &Plan, confirmation: &Confirmation) -> Result<Applied, OperateError> {
        match &plan.frozen {
            Frozen::Replay { .. } => replay::apply(self, plan, confirmation).await,
            Frozen::OutboxReplay { .. } => requeue::apply(self, plan, confirmation).await,
            Frozen::Repair { .. } => repair::apply(self, plan, confirmation).await,
            Frozen::Release { .. } => release::apply(self, plan, confirmation).await,
            Frozen::Close { .. } => discard::apply(self, plan, confirmation).await,
            Frozen::Saga { .. } => saga::apply(self, plan, confirmation).await,
        }
    }
}

impl Operator {
    /// Acts on these ports as `actor` (`user@host`). `read_only` comes from a flag and only adds.
    pub fn new(ports: Ports, actor: String, read_only: bool) -> Self {
        let guard = Guard::new(Arc::clone(&ports.context), ports.clock.clone(), read_only);
        Self {
            desk: Arc::new(Desk {
                ports,
                actor,
                guard,
                tasks: Tasks::new(),
                unknown_turn: std::sync::atomic::AtomicUsize::new(0),
            }),
        }
    }

    /// The ports it acts on.
    pub fn ports(&self) -> &Ports {
        &self.desk.ports
    }

    /// Whether writing is possible now.
    pub fn access(&self) -> Access {
        self.desk.guard.access()
    }

    /// Unlocks a production context for its configured time; audited on every journal that can be
    /// reached, and refused when none can: an unlock nobody recorded does not happen.
    ///
    /// # Errors
    /// `Refused` when read-only, or when `context_name` is not the context's.
    pub async fn unlock(&self, context_name: &str, reason: &str) -> Result<Access, OperateError> {
        let desk = &self.desk;
        desk.guard.check_unlock(context_name, reason)?;
        if desk.guard.access() == Access::Writable {
            return Ok(Access::Writable);
        }
        let record = AuditRecord {
            actor: desk.actor.clone(),
            action: "unlock".to_owned(),
            phase: "outcome".to_owned(),
            operation_id: None,
            subject: context_name.to_owned(),
            reason: reason.trim().to_owned(),
            detail: serde_json::json!({ "for_s": desk.ports.context.unlock.as_secs() }).to_string(),
        };
        let appended = join_all(desk.journals().map(|(service, store)| {
            let record = &record;
            async move { (service, store.audit_append(record).await) }
        }))
        .await;
        let mut first_error = None;
        let mut is_recorded = false;
        for (service, result) in appended {
            match result {
                Ok(_) => is_recorded = true,
                Err(error) => {
                    tracing::warn!(service, %error, "unlock not recorded in this journal");
                    first_error.get_or_insert(error);
                }
            }
        }
        match (is_recorded, first_error) {
            (true, _) => Ok(desk.guard.open()),
            (false, Some(error)) => Err(error.into()),
            (false, None) => Err(refused(
                "journal",
                "no service of this context keeps an audit log; run redrive migrate for one of them",
            )),
        }
    }

    /// Locks it again.
    pub fn lock(&self) {
        self.desk.guard.lock();
    }

    /// Finds what an event id means: an open dead letter (of `consumer`, when several), or a failed
    /// outbox row. A prefix of at least 8 characters will do when it is unique; a message without
    /// an id is named by its dead letter's.
    pub async fn resolve(
        &self,
        event_id: &str,
        consumer: Option<&ConsumerName>,
    ) -> Result<Target, OperateError> {
        resolve::resolve(&self.desk, event_id, consumer).await
    }

    /// Finds a saga by its id, or by the beginning of it when that is unique: its service and id.
    ///
    /// # Errors
    /// `NotFound` and `Ambiguous` say what to write instead.
    pub async fn resolve_saga(
        &self,
        id: &str,
        service: Option<&str>,
    ) -> Result<(String, SagaId), OperateError> {
        saga::resolve(&self.desk, id, service).await
    }

    /// The stored payload of a dead letter, for an editor.
    pub async fn payload(&self, target: &Target) -> Result<Payload, OperateError> {
        match target {
            Target::DeadLetter {
                service,
                dead_letter_id,
            } => {
                let detail = look::letter(&self.desk, service, dead_letter_id).await?;
                Ok(detail.message.payload)
            }
            Target::OutboxRow { service, event_id } => {
                let event = requeue::event(&self.desk, service, event_id).await?;
                Ok(event.payload)
            }
        }
    }

    /// Makes a plan; reads only.
    pub async fn plan(&self, request: &Request) -> Result<Plan, OperateError> {
        let desk = &self.desk;
        match request {
            Request::Replay {
                target:
                    Target::DeadLetter {
                        service,
                        dead_letter_id,
                    },
                through_exchange,
                to_queue,
                overrides,
            } => {
                let wish = route::Wish {
                    through_exchange: *through_exchange,
                    to_queue: to_queue.as_deref(),
                };
                Box::pin(replay::plan(desk, service, dead_letter_id, wish, overrides)).await
            }
            Request::Replay {
                target: Target::OutboxRow { service, event_id },
                through_exchange,
                to_queue,
                overrides,
            } => {
                let is_routed = *through_exchange || to_queue.is_some();
                requeue::plan(desk, service, event_id, is_routed, overrides).await
            }
            Request::Repair { target, payload } => {
                Box::pin(repair::plan(desk, target, payload)).await
            }
            Request::Release {
                service,
                claim_token,
            } => release::plan(desk, service, claim_token).await,
            Request::Discard {
                target,
                is_resolved,
            } => discard::plan(desk, target, *is_resolved).await,
            Request::Saga {
                service,
                saga_id,
                step,
                wish,
            } => saga::plan(desk, (service, saga_id), *step, wish).await,
        }
    }

    /// Applies a confirmed plan: intent, effect, outcome. Once begun it runs to its end even when
    /// the caller is dropped.
    pub async fn apply(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
    ) -> Result<Applied, OperateError> {
        let desk = Arc::clone(&self.desk);
        let (plan, confirmation) = (plan.clone(), confirmation.clone());
        let service = plan.service.clone();
        let task = self
            .desk
            .tasks
            .spawn(async move { Box::pin(desk.apply(&plan, &confirmation)).await });
        match task.await {
            Ok(result) => result,
            Err(error) => Err(OperateError::Store(StoreError::Failed {
                service,
                operation: "apply",
                detail: format!(
                    "its task ended early ({error}); the operation's record tells how far it came"
                ),
            })),
        }
    }

    /// Waits at most `patience` for actions that were begun, before the program ends; `false` when
    /// some were still running. They are never stopped half-way: what is left is resolved from the
    /// journal at the next start.
    pub async fn finish(&self, patience: Duration) -> bool {
        self.desk.tasks.stop(patience).await
    }

    /// Looks once for proof of every unfinished item (inbox rows, next deaths, deadlines) and moves it on;
    /// returns the operations that changed. Sends nothing. A read-only session changes nothing.
    pub async fn prove_once(&self) -> Result<Vec<Operation>, StoreError> {
        prove::prove_once(&self.desk).await
    }

    /// Follows one operation until every item is final or `deadline` has passed.
    pub async fn follow(
        &self,
        service: &str,
        id: &OperationId,
        deadline: Duration,
    ) -> Result<Operation, OperateError> {
        prove::follow(&self.desk, service, id, deadline).await
    }

    /// Sets owner or note of a dead letter.
    pub async fn annotate(
        &self,
        service: &str,
        id: &DeadLetterId,
        owner: Option<&str>,
        note: Option<&str>,
    ) -> Result<(), OperateError> {
        let desk = &self.desk;
        desk.guard.check_access()?;
        let audit = AuditRecord {
            actor: desk.actor.clone(),
            action: if owner.is_some() { "assign" } else { "note" }.to_owned(),
            phase: "outcome".to_owned(),
            operation_id: None,
            subject: id.to_string(),
            reason: String::new(),
            detail: serde_json::json!({ "owner": owner, "note": note }).to_string(),
        };
        match desk
            .store(service)?
            .annotate_dead_letter(id, owner, note, &audit)
            .await?
        {
            Guarded::Done => Ok(()),
            Guarded::LostRace => Err(OperateError::NotFound(format!(
                "{service} has no dead letter {id}"
            ))),
        }
    }

    /// Sets owner or note of a finding, kept in the journal of `service`; `None` keeps, empty clears.
    pub async fn annotate_finding(
        &self,
        service: &str,
        id: &FindingId,
        owner: Option<&str>,
        note: Option<&str>,
    ) -> Result<(), OperateError> {
        let desk = &self.desk;
        desk.guard.check_access()?;
        let audit = AuditRecord {
            actor: desk.actor.clone(),
            action: if owner.is_some() { "assign" } else { "note" }.to_owned(),
            phase: "outcome".to_owned(),
            operation_id: None,
            subject: id.to_string(),
            reason: String::new(),
            detail: serde_json::json!({ "owner": owner, "note": note }).to_string(),
        };
        let annotated = desk
            .store(service)?
            .annotate_finding(id, owner, note, &audit)
            .await?;
        match annotated {
            Guarded::Done => Ok(()),
            Guarded::LostRace => Err(OperateError::NotFound(format!(
                "{service} keeps no finding {id}"
            ))),
        }
    }

    /// Checks the audit chain of every journal: service, and entries or fault.
    pub async fn verify_audit(&self) -> Vec<(String, Result<Result<i64, ChainFault>, StoreError>)> {
        join_all(self.desk.journals().map(|(service, store)| async move {
            (service.to_owned(), store.audit_verify().await)
        }))
        .await
    }
}

#[cfg(test)]
mod tests;
