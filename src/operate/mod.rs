//! Acting: plan → confirm → apply → prove. Each verb is one file; rules that protect production
//! (read-only, rights, `never_replay`, reasons, tickets) are in `guard` and nowhere else, so that
//! neither the screen nor a script walks around them.

pub mod plan;

use std::time::Duration;

use crate::model::audit::ChainFault;
use crate::model::ids::{ConsumerName, DeadLetterId, OperationId};
use crate::model::message::Payload;
use crate::model::operation::Operation;
use crate::ports::Ports;
use crate::store::StoreError;
use plan::{Access, Applied, Confirmation, OperateError, Plan, Request, Target};

/// Every operator action of one context.
pub struct Operator {
    ports: Ports,
}

#[expect(clippy::unused_async, reason = "signatures first")]
impl Operator {
    /// Acts on these ports as `actor` (`user@host`). `read_only` comes from a flag and only adds.
    pub fn new(ports: Ports, _actor: String, _read_only: bool) -> Self {
        Self { ports }
    }
    /// The ports it acts on.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }
    /// Whether writing is possible now.
    pub fn access(&self) -> Access {
        unreachable!("written by the operate branch")
    }
    /// Unlocks a production context for its configured time; audited on every journal.
    ///
    /// # Errors
    /// `Refused` when read-only, or when `context_name` is not the context's.
    pub async fn unlock(&self, _context_name: &str, _reason: &str) -> Result<Access, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Locks it again.
    pub fn lock(&self) {}
    /// Finds what an event id means: an open dead letter (of `consumer`, when several), or a failed
    /// outbox row.
    pub async fn resolve(
        &self,
        _event_id: &str,
        _consumer: Option<&ConsumerName>,
    ) -> Result<Target, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// The stored payload of a dead letter, for an editor.
    pub async fn payload(&self, _target: &Target) -> Result<Payload, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Makes a plan; reads only.
    pub async fn plan(&self, _request: &Request) -> Result<Plan, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Applies a confirmed plan: intent, effect, outcome. Once begun it runs to its end even when
    /// the caller is dropped.
    pub async fn apply(
        &self,
        _plan: &Plan,
        _confirmation: &Confirmation,
    ) -> Result<Applied, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Looks once for proof of every unfinished item (inbox rows, next deaths, deadlines) and moves it on;
    /// returns the operations that changed.
    pub async fn prove_once(&self) -> Result<Vec<Operation>, StoreError> {
        unreachable!("written by the operate branch")
    }
    /// Follows one operation until every item is final or `deadline` has passed.
    pub async fn follow(
        &self,
        _service: &str,
        _id: &OperationId,
        _deadline: Duration,
    ) -> Result<Operation, OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Sets owner or note of a dead letter.
    pub async fn annotate(
        &self,
        _service: &str,
        _id: &DeadLetterId,
        _owner: Option<&str>,
        _note: Option<&str>,
    ) -> Result<(), OperateError> {
        unreachable!("written by the operate branch")
    }
    /// Checks the audit chain of every journal: service, and entries or fault.
    pub async fn verify_audit(&self) -> Vec<(String, Result<Result<i64, ChainFault>, StoreError>)> {
        unreachable!("written by the operate branch")
    }
}
