//! Operator actions as durable records: intent before, outcome after (design invariant 7).
//!
//! Item states:
//! ```text
//! reserved ─▶ publishing ─▶ published ─▶ consumed        the inbox row appeared
//!    │            │             ├──────▶ died_again      a new death was recorded
//!    │            │             └──────▶ unknown         neither before the deadline; may still resolve
//!    │            ├──▶ unroutable | refused              nothing was marked, the letter is open again
//!    │            └──▶ unknown                           no confirm: may have been sent
//!    └──▶ refused                                        given back before anything was sent
//! applied                                                release, discard, repair: done in one transaction
//! ```

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

use super::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId};

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// The same event again, to the consumer that failed.
    Replay,
    /// A new event, linked to the original.
    Repair,
    /// An expired lease back to pending.
    Release,
    /// A dead letter given up.
    Discard,
    /// A saga's command again, under the same key.
    SagaRetry,
    /// What became of a saga's step.
    SagaQuery,
    /// A saga turned round.
    SagaCompensate,
    /// A saga's step that a person saw to.
    SagaHandled,
    /// Who looks after a saga.
    SagaAssign,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 9] = [
        Self::Replay,
        Self::Repair,
        Self::Release,
        Self::Discard,
        Self::SagaRetry,
        Self::SagaQuery,
        Self::SagaCompensate,
        Self::SagaHandled,
        Self::SagaAssign,
    ];

    /// The word of the CLI, the columns and the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Repair => "repair",
            Self::Release => "release",
            Self::Discard => "discard",
            Self::SagaRetry => "saga_retry",
            Self::SagaQuery => "saga_query",
            Self::SagaCompensate => "saga_compensate",
            Self::SagaHandled => "saga_handled",
            Self::SagaAssign => "saga_assign",
        }
    }

    /// How the command line calls it.
    pub const fn command(self) -> &'static str {
        match self {
            Self::SagaRetry => "saga retry",
            Self::SagaQuery => "saga query",
            Self::SagaCompensate => "saga compensate",
            Self::SagaHandled => "saga handled",
            Self::SagaAssign => "saga assign",
            Self::Replay | Self::Repair | Self::Release | Self::Discard => self.word(),
        }
    }

    /// The verb of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Applied, not proven yet.
    Running,
    /// Every item has its final state.
    Finished,
    /// At least one item's outcome is unknown.
    Unknown,
}

impl OperationState {
    /// The word in columns and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Unknown => "unknown",
        }
    }

    /// The state of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Finished, Self::Unknown]
            .into_iter()
            .find(|state| state.word() == word)
    }
}

/// Where one item of an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Held for this operation; certainly not sent.
    Reserved,
    /// About to be sent or being sent: after a crash the outcome is unknown.
    Publishing,
    /// Confirmed and routed; waits for proof.
    Published,
    /// Its inbox row was seen.
    Consumed,
    /// Its next death was seen.
    DiedAgain,
    /// The broker returned it.
    Unroutable,
    /// Not sent: the broker or a guard said no.
    Refused,
    /// Nobody can say yet.
    Unknown,
    /// Done in one transaction; there is nothing to prove.
    Applied,
}

impl ItemState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Reserved,
        Self::Publishing,
        Self::Published,
        Self::Consumed,
        Self::DiedAgain,
        Self::Unroutable,
        Self::Refused,
        Self::Unknown,
        Self::Applied,
    ];

    /// The word in columns and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Publishing => "publishing",
            Self::Published => "published",
            Self::Consumed => "consumed",
            Self::DiedAgain => "died_again",
            Self::Unroutable => "unroutable",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Applied => "applied",
        }
    }

    /// The state of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// True when nothing can change it any more.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Consumed | Self::DiedAgain | Self::Unroutable | Self::Refused | Self::Applied
        )
    }

    /// Whether the state may become `next`. A store refuses every other step in its statement.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Reserved, Self::Publishing | Self::Refused)
                | (
                    Self::Publishing,
                    Self::Published | Self::Unroutable | Self::Refused | Self::Unknown
                )
                | (
                    Self::Publishing | Self::Published | Self::Unknown,
                    Self::Consumed | Self::DiedAgain
                )
                | (Self::Published, Self::Unknown)
                | (Self::Unknown, Self::Refused)
        )
    }
}

/// One operator action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Operation {
    /// Its identity.
    pub operation_id: OperationId,
    /// What.
    pub verb: Verb,
    /// Where it stands.
    pub state: OperationState,
    /// Who: user name and host.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Ticket, when the context asks for one.
    pub ticket: Option<String>,
    /// Digest of the plan that was confirmed.
    pub plan_digest: String,
    /// The plan, as JSON text: what was shown before confirming.
    pub plan: String,
    /// When it was confirmed.
    pub created_at: Timestamp,
    /// When its last item became final.
    pub finished_at: Option<Timestamp>,
    /// Its items.
    pub items: Vec<OperationItem>,
}

/// One event of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationItem {
    /// From 1.
    pub no: i64,
    /// The event.
    pub event_id: Option<EventId>,
    /// The consumer it is for.
    pub consumer: Option<ConsumerName>,
    /// The dead letter it came from.
    pub dead_letter_id: Option<DeadLetterId>,
    /// Where it stands.
    pub state: ItemState,
    /// Fences its transitions.
    pub token: ClaimToken,
    /// Until when the holder is believed alive, on the database's clock.
    pub lease_until: Option<Timestamp>,
    /// When the confirm came.
    pub published_at: Option<Timestamp>,
    /// Last change.
    pub updated_at: Timestamp,
    /// What shows it, or why not: one line.
    pub evidence: Option<String>,
    /// Deaths of the letter when the plan was made: a higher number later is a new death.
    pub deaths_before: i64,
    /// The new event of a repair.
    pub new_event_id: Option<EventId>,
}

impl OperationItem {
    /// What is known of an item whose console is gone, when its lease has run out: where it stands,
    /// and why. `None` while the console may be at work, and for items that no console holds.
    pub fn abandoned_at(&self, database_now: Timestamp) -> Option<(ItemState, &'static str)> {
        if self.lease_until.is_some_and(|until| until >= database_now) {
            return None;
        }
        match self.state {
            ItemState::Reserved => Some((
                ItemState::Refused,
                "never sent: its console stopped before publishing",
            )),
            ItemState::Publishing => Some((
                ItemState::Unknown,
                "its console stopped between publish and completion: it may have been sent",
            )),
            ItemState::Published
            | ItemState::Consumed
            | ItemState::DiedAgain
            | ItemState::Unroutable
            | ItemState::Refused
            | ItemState::Unknown
            | ItemState::Applied => None,
        }
    }
}

impl Operation {
    /// True when a console holds one of its items, or held it when it stopped.
    pub fn is_held(&self) -> bool {
        self.items
            .iter()
            .any(|item| matches!(item.state, ItemState::Reserved | ItemState::Publishing))
    }

    /// The operation as it must be shown: an intent whose console is gone has an unknown outcome, even
    /// while nobody who may write has recorded that.
    pub fn shown_at(mut self, database_now: Timestamp) -> Self {
        for item in &mut self.items {
            if let Some((state, why)) = item.abandoned_at(database_now) {
                item.state = state;
                item.evidence = Some(why.to_owned());
                if state == ItemState::Unknown {
                    self.state = OperationState::Unknown;
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_final_state_can_be_left() {
        for from in ItemState::ALL {
            for to in ItemState::ALL {
                assert!(
                    !(from.is_final() && from.may_become(to)),
                    "{from:?} -> {to:?}"
                );
            }
        }
    }

    #[test]
    fn every_word_reads_back() {
        for state in ItemState::ALL {
            assert_eq!(ItemState::from_word(state.word()), Some(state));
        }
        for verb in Verb::ALL {
            assert_eq!(Verb::from_word(verb.word()), Some(verb));
        }
    }
}
