//! One look at everything, by the same snapshots as the console and the command line.

use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::diagnose::{Blind, Patience, Sight, Verdict, Watch};
use crate::model::dead_letter::DeadLetterGroups;
use crate::observe::Observer;
use crate::observe::snapshot::{
    FlowSnapshot, HealthSnapshot, OperationSnapshot, PerService, QueueSnapshot, SagaSnapshot,
    ScanSnapshot, Unread,
};

/// Operations whose items are counted by outcome.
pub const OPERATIONS: u32 = 50;

/// What the rules say after some looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// The worst first.
    pub verdicts: Vec<Verdict>,
    /// Why rules could not see something in the last look.
    pub blind: Vec<Blind>,
}

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
    /// Scans and findings; `None` where nothing keeps them.
    pub scans: Option<ScanSnapshot>,
    /// What only the rules read, and could not.
    pub causes_unread: Vec<Unread>,
    /// What the rules say; `None` until they have looked as often as a verdict needs.
    pub diagnosis: Option<Diagnosis>,
}

/// Looks again and again; what is said of the pipeline needs some looks in a row.
pub struct Looker {
    observer: Arc<Observer>,
    watch: Watch,
    looks: u32,
}

impl Looker {
    /// One that has not looked yet.
    pub fn new(observer: Arc<Observer>) -> Self {
        Self {
            observer,
            watch: Watch::default(),
            looks: 0,
        }
    }

    /// Looks once. Every read has its own limit, and what is down is not asked again at once.
    pub async fn look(&mut self) -> Look {
        let observer = &self.observer;
        let context = &observer.ports().context;
        let clock = &observer.ports().clock;
        let at = clock.now();
        // However short the pause between looks is set: each has answers of its own.
        observer.ask_anew();
        // Two at a time: the read pools are small, and a look is in no hurry. Each on the heap: together they
        // are more than a stack should hold.
        let (health, flow) = tokio::join!(Box::pin(observer.health()), Box::pin(observer.flow()));
        let (queues, letters) = tokio::join!(
            Box::pin(observer.queues(1)),
            Box::pin(observer.letter_groups())
        );
        let (sagas, operations) = tokio::join!(
            Box::pin(observer.sagas()),
            Box::pin(observer.operations(OPERATIONS))
        );
        let is_kept = context.services.iter().any(|service| service.journal);
        let scans = async {
            if is_kept {
                Some(observer.scans().await)
            } else {
                None
            }
        };
        let (causes, scans) = tokio::join!(Box::pin(observer.causes()), Box::pin(scans));
        let sight = Sight {
            context,
            at: clock.now(),
            health: Some(&health),
            flow: Some(&flow),
            causes: Some(&causes),
            before: None,
        };
        let patience = Patience::from(&context.verdicts);
        self.watch.look_at_all(&sight, patience);
        self.looks = self.looks.saturating_add(1);
        // The first look is what rates are taken against.
        let is_said = self.looks > patience.looks;
        let diagnosis = is_said.then(|| Diagnosis {
            verdicts: self.watch.verdicts(),
            blind: self.watch.blind(),
        });
        Look {
            at,
            took_s: clock.now().seconds_since(at).max(0.0),
            page_rows: context.thresholds.page_rows,
            causes_unread: causes.unread(),
            health,
            flow,
            queues,
            letters,
            sagas,
            operations,
            scans,
            diagnosis,
        }
    }
}

impl Look {
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
            .chain(self.scans.iter().flat_map(|scans| &scans.unread))
            .chain(&self.causes_unread)
            .collect()
    }
}
