//! Who is to blame when a statement fails: the event, the database, or neither. A database that does not
//! answer is away. One that answers may have refused this event; but when it refuses one event
//! after the other and nothing is committed between, it is not the events' fault.

use std::sync::{Mutex, PoisonError};

use super::attempt::{Handled, Tried, dead};
use super::event::Received;
use super::work::Work;
use crate::model::ids::EventId;
use crate::store::StoreError;

/// Events in a row that may fail on the database's word before the database is at fault.
const REFUSED_IN_A_ROW_MAX: usize = 10;

/// Events the database has refused since the last commit.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Vec<EventId>>);

impl Refusals {
    /// Something was committed.
    pub(super) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Notes a refused event; `false` when too many others were refused before it.
    fn may_blame(&self, event_id: &EventId) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED_IN_A_ROW_MAX {
            return false;
        }
        if !refused.contains(event_id) {
            refused.push(event_id.clone());
        }
        true
    }
}

/// Whose statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The beginning of a transaction: nothing of the event was in it.
    Begin,
    /// Inbox row, place in the sequence, waiting room, commit.
    Own,
    /// The handler's own.
    Handler,
}

impl Work {
    /// What a failed statement means for an event.
    pub(super) async fn judge(&self, error: StoreError, step: Step, event: &Received) -> Tried {
        if let StoreError::Contended { .. } = error {
            return Tried::Again(error.to_string());
        }
        if let Err(away) = self.store.probe().await {
            return Tried::Over(Handled::Away(away.to_string()));
        }
        let text = error.to_string();
        let class = match (&error, step) {
            (StoreError::Failed { .. }, Step::Own | Step::Handler) => {
                Some("database refused the effect")
            }
            (StoreError::Unsupported { .. }, Step::Handler) => {
                Some("database cannot store the effect")
            }
            // A table, a right or time may come: a few tries first.
            (
                StoreError::TimedOut { .. }
                | StoreError::Denied { .. }
                | StoreError::Mapping { .. },
                Step::Handler,
            ) => None,
            // It broke down and is back, is full, or our own tables are at fault: no event is to blame.
            _ => return Tried::Over(Handled::Held(text)),
        };
        if !self.refusals.may_blame(&event.event_id) {
            return Tried::Over(Handled::Held(format!(
                "the database refused {REFUSED_IN_A_ROW_MAX} events and more in a row, which is not \
                 their fault: {text}"
            )));
        }
        match class {
            Some(class) => dead(event, class.to_owned(), text),
            None => Tried::Over(Handled::Later(text)),
        }
    }

    /// A handler says that nothing can be handled now: its database decides whether that is so.
    pub(super) async fn nothing_works(&self, reason: String) -> Tried {
        Tried::Over(match self.store.probe().await {
            Err(away) => Handled::Away(away.to_string()),
            Ok(_) => Handled::Held(reason),
        })
    }
}
