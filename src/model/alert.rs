//! What somebody is told when an event dies.

use serde::Serialize;

use crate::base::clock::Timestamp;

use super::dead_letter::{DeathRecorded, NewDeath};
use super::ids::{AggregateId, ConsumerName, DeadLetterId, EventId};

/// One death, for an alert hook. It carries no payload and no headers: those are for who may look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alert {
    /// Context's name.
    pub context: String,
    /// The dead letter.
    pub dead_letter_id: DeadLetterId,
    /// Who failed on it.
    pub consumer: ConsumerName,
    /// The event, when the message carried an id.
    pub event_id: Option<EventId>,
    /// e.g. `order.created`.
    pub event_type: Option<String>,
    /// Its business key.
    pub aggregate_id: Option<AggregateId>,
    /// Its place in the sequence.
    pub aggregate_version: Option<i64>,
    /// The cause, the same for equal causes.
    pub error_class: String,
    /// One line.
    pub error_summary: Option<String>,
    /// Queue it failed in.
    pub failed_queue: Option<String>,
    /// How many times it has died by now.
    pub deaths: i64,
    /// When it died.
    pub died_at: Timestamp,
    /// Who takes care of it, by the configuration's rules.
    pub owner: Option<String>,
    /// Trace id.
    pub trace_id: Option<String>,
    /// Producer's version.
    pub producer_version: Option<String>,
    /// Consumer's version.
    pub consumer_version: Option<String>,
    /// Deaths of the same cause nobody was told about since the last alert.
    pub left_out: u64,
}

/// What makes two deaths one alert: consumer, type, class.
pub type Cause = (String, Option<String>, String);

impl Alert {
    /// Of a recorded death; `None` for one that was recorded before.
    pub fn of(context: &str, recorded: &DeathRecorded, death: &NewDeath) -> Option<Self> {
        let (dead_letter_id, deaths) = match recorded {
            DeathRecorded::New(id) => (id, 1),
            DeathRecorded::Again {
                dead_letter_id,
                deaths,
            } => (dead_letter_id, *deaths),
            DeathRecorded::SameDelivery(_) => return None,
        };
        Some(Self {
            context: context.to_owned(),
            dead_letter_id: dead_letter_id.clone(),
            consumer: death.consumer.clone(),
            event_id: death.event_id.clone(),
            event_type: death.event_type.clone(),
            aggregate_id: death.aggregate_id.clone(),
            aggregate_version: death.aggregate_version,
            error_class: death.error_class.clone(),
            error_summary: death.error_summary.clone(),
            failed_queue: death.failed_queue.clone(),
            deaths,
            died_at: death.died_at,
            owner: death.owner.clone(),
            trace_id: death.trace_id.clone(),
            producer_version: death.producer_version.clone(),
            consumer_version: death.consumer_version.clone(),
            left_out: 0,
        })
    }

    /// Its cause.
    pub fn cause(&self) -> Cause {
        (
            self.consumer.as_str().to_owned(),
            self.event_type.clone(),
            self.error_class.clone(),
        )
    }
}
