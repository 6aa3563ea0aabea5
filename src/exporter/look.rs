//! One look at everything, by the same snapshots as the console and the command line.

use crate::base::clock::Timestamp;
use crate::model::dead_letter::DeadLetterGroups;
use crate::observe::Observer;
use crate::observe::snapshot::{
    FlowSnapshot, HealthSnapshot, OperationSnapshot, PerService, QueueSnapshot, SagaSnapshot,
    Unread,
};

/// Operations whose items are counted by outcome.
pub const OPERATIONS: u32 = 50;

/// What one look saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// When it began, on our clock.
    pub at: Timestamp,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Rows at which lists stop.
    pub page_rows: u32,
    /// Servers.
    pub health: HealthSnapshot,
    /// Numbers at every hop.
    pub flow: FlowSnapshot,
    /// Queues.
    pub queues: QueueSnapshot,
    /// Dead letters.
    pub letters: Vec<PerService<DeadLetterGroups>>,
    /// Sagas: those that need a person first, then the stalest.
    pub sagas: SagaSnapshot,
    /// The newest operations.
    pub operations: OperationSnapshot,
}

impl Look {
    /// Looks once. Every read has its own limit, and what is down is not asked again at once.
    pub async fn take(observer: &Observer) -> Self {
        let clock = &observer.ports().clock;
        let at = clock.now();
        // Two at a time: the read pools are small, and a look is in no hurry.
        let (health, flow) = tokio::join!(observer.health(), observer.flow());
        let (queues, letters) = tokio::join!(observer.queues(1), observer.letter_groups());
        let (sagas, operations) = tokio::join!(observer.sagas(), observer.operations(OPERATIONS));
        Self {
            at,
            took_s: clock.now().seconds_since(at).max(0.0),
            page_rows: observer.ports().context.thresholds.page_rows,
            health,
            flow,
            queues,
            letters,
            sagas,
            operations,
        }
    }

    /// Everything that could not be read.
    pub fn unread(&self) -> Vec<&Unread> {
        let letters = self.letters.iter().filter_map(|part| part.unread.as_ref());
        let sagas = self.sagas.services.iter();
        let operations = self.operations.services.iter();
        self.flow
            .unread
            .iter()
            .chain(&self.queues.unread)
            .chain(letters)
            .chain(sagas.filter_map(|part| part.unread.as_ref()))
            .chain(operations.filter_map(|part| part.unread.as_ref()))
            .collect()
    }
}
