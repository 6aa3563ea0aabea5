//! What a program tells about a saga: its limits, its commands, and how to ask what became of one.

use async_trait::async_trait;

use crate::model::outbox::NewEvent;
use crate::model::saga::machine::Answer;
use crate::model::saga::{Saga, SagaPolicy, SagaStep, Side};
use crate::store::{BusinessTx, StoreError};

/// One side of one step of one saga.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The saga.
    pub saga: &'a Saga,
    /// Its business input.
    pub data: &'a str,
    /// The step.
    pub step: &'a SagaStep,
    /// Doing or undoing.
    pub side: Side,
    /// The idempotency key: the same however often the command is sent.
    pub key: &'a str,
}

/// A kind of saga that a program runs.
#[async_trait]
pub trait SagaDefinition: Send + Sync {
    /// Its type, as in the rows.
    fn saga_type(&self) -> &'static str;

    /// Its steps and limits.
    fn policy(&self) -> &SagaPolicy;

    /// The command events of a side: the first one's id is kept with the step. They are appended to the
    /// outbox in the transaction that says so. Not asked for local sides.
    ///
    /// # Errors
    /// A sentence: the saga is put off and listed.
    fn command(&self, task: &Task<'_>) -> Result<Vec<NewEvent>, String>;

    /// Asks the service behind a side what became of its key. Called outside of any transaction, with a
    /// time limit; a panic or a late answer counts as [`Answer::Away`].
    ///
    /// # Cancel safety
    /// Dropped at the time limit.
    async fn query(&self, task: &Task<'_>) -> Answer;

    /// Changes this service's own rows with the saga, in the transaction that moves it: a local side, an
    /// order's state. The saga before and after the move may differ by several steps. Nothing, where the
    /// saga changes no row of this service.
    ///
    /// # Errors
    /// Rolls the move back.
    async fn moved(
        &self,
        _tx: &mut dyn BusinessTx,
        _data: &str,
        _before: &Saga,
        _after: &Saga,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}
