//! What is asked of a database that keeps sagas, beside [`super::BusinessTx`], in which they are moved.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::audit::AuditRecord;
use crate::model::ids::{ClaimToken, SagaId};
use crate::model::saga::manual::Manual;
use crate::model::saga::{Saga, SagaClaim};

use super::{Begun, Guarded, NewOperation, StoreResult};

/// Which due sagas to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaClaimRequest {
    /// Of this type only: a program moves the sagas it knows.
    pub saga_type: String,
    /// At most so many.
    pub rows_max: u32,
    /// How long the claim holds.
    pub lease: Duration,
    /// Who takes them, for people.
    pub by: String,
}

/// What an operator does to a saga, as the plan froze it.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaAction {
    /// The saga.
    pub saga_id: SagaId,
    /// Its version at the plan.
    pub version: i64,
    /// The step meant; `None`: the one that holds it up.
    pub step: Option<i64>,
    /// What is done.
    pub manual: Manual,
    /// One line that says it, kept as the operation's evidence.
    pub told: String,
}

/// The sagas of a store.
#[async_trait]
pub trait SagaStore: Send + Sync {
    /// Sagas: those needing attention, then stalest first.
    async fn sagas(&self, limit: u32) -> StoreResult<Vec<Saga>>;
    /// Sagas that are not finished, in the same order, without their steps: for counting who waits.
    async fn sagas_open(&self, limit: u32) -> StoreResult<Vec<Saga>>;
    /// One saga with its steps.
    async fn saga(&self, id: &SagaId) -> StoreResult<Option<Saga>>;
    /// Sagas whose id starts with `prefix` (at least 4 characters), at most 20.
    async fn sagas_by_prefix(&self, prefix: &str) -> StoreResult<Vec<Saga>>;
    /// Claims due sagas of one type, longest due first. A claim whose holder died is due again when
    /// its lease ends.
    async fn claim_sagas(&self, request: &SagaClaimRequest) -> StoreResult<SagaClaim>;
    /// Puts a claimed saga that could not be moved off, counted, so that it holds up no other (S-04).
    async fn postpone_saga(
        &self,
        token: &ClaimToken,
        id: &SagaId,
        error: &str,
        pause: Duration,
    ) -> StoreResult<Guarded>;
    /// What a person does to a saga, with operation and audit entry, in one transaction.
    async fn act_on_saga(
        &self,
        operation: &NewOperation,
        action: &SagaAction,
        audit: &AuditRecord,
    ) -> StoreResult<Begun>;
}
