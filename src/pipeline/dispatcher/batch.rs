//! The rows of one claim on their way: made into messages, sent in rounds, sorted by outcome.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::verdict::{Next, counter, exhausted, verdict};
use crate::base::clock::Timestamp;
use crate::broker::{Outgoing, PublishOutcome, Publisher};
use crate::config::{DispatcherSettings, Order, OutboxPart};
use crate::model::ids::{AggregateId, ClaimToken, EventId};
use crate::model::outbox::OutboxRow;
use crate::pipeline::Report;
use crate::pipeline::message::into_message;
use crate::store::{Claim, FailedAttempt, Unreadable};

/// Rows that wait for a retry get one of so many waits a batch: enough that they do not come back
/// together, few enough that they can be written together.
const WAITS: usize = 8;

/// A row with its message, then with its outcome.
struct Item {
    row: OutboxRow,
    attempts: u32,
    /// Taken when it is sent.
    message: Option<Outgoing>,
    /// Why it is not tried.
    fault: Option<String>,
    outcome: Option<PublishOutcome>,
}

/// A claim that was read.
pub(super) struct Batch {
    pub(super) token: ClaimToken,
    /// Before the claim was asked for: the lease began later.
    pub(super) asked_at: Instant,
    claimed_at: Timestamp,
    items: Vec<Item>,
    unreadable: Vec<Unreadable>,
    order: Order,
}

/// Rows of a batch by what happens to them.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) sent: Vec<EventId>,
    pub(super) failed: Vec<FailedAttempt>,
    pub(super) untried: Vec<EventId>,
    /// Why rows were not tried.
    pub(super) reason: Option<String>,
    /// Rows that went out after trouble: others may wait for them.
    pub(super) awaited: Vec<(AggregateId, i64)>,
}

impl Batch {
    pub(super) fn new(
        claim: Claim,
        asked_at: Instant,
        part: &OutboxPart,
        settings: &DispatcherSettings,
    ) -> Self {
        let item = |event| {
            let (row, message) = into_message(event, part);
            let attempts = row
                .attempts
                .map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX));
            Item {
                fault: exhausted(attempts, row.last_error.as_deref(), settings),
                row,
                attempts,
                message: Some(message),
                outcome: None,
            }
        };
        Self {
            token: claim.token,
            asked_at,
            claimed_at: claim.claimed_at,
            items: claim.events.into_iter().map(item).collect(),
            unreadable: claim.unreadable,
            order: settings.order,
        }
    }

    /// Every row under the claim.
    pub(super) fn ids(&self) -> Vec<EventId> {
        let unreadable = self.unreadable.iter().map(|row| row.event_id.clone());
        self.items
            .iter()
            .map(|item| item.row.event_id.clone())
            .chain(unreadable)
            .collect()
    }

    /// Sends what can be sent, until `until`. In sequence the rows of one aggregate go one after the
    /// other, each after the confirm of the one before; what comes behind a row without one is not
    /// tried. Otherwise all go at once.
    pub(super) async fn send(&mut self, publisher: &dyn Publisher, until: Instant) {
        let mut behind = self.chains();
        let mut round: Vec<usize> = match self.order {
            Order::Due => (0..self.items.len())
                .filter(|index| self.can_be_sent(*index))
                .collect(),
            Order::Sequence => behind.keys().copied().collect(),
        };
        while !round.is_empty() {
            round.sort_unstable();
            let messages: Vec<Outgoing> = round
                .iter()
                .filter_map(|index| self.items.get_mut(*index)?.message.take())
                .collect();
            let left = until.saturating_duration_since(Instant::now());
            let mut outcomes = publisher.publish(messages, left).await.into_iter();
            let mut next = Vec::new();
            for index in round {
                // A publisher owes one outcome a message; a missing one is not known, never guessed.
                let outcome = outcomes
                    .next()
                    .unwrap_or_else(|| PublishOutcome::Unknown("no outcome".to_owned()));
                if outcome == PublishOutcome::Confirmed
                    && let Some(mut waiting) = behind.remove(&index)
                    && let Some(first) = waiting.pop_front()
                {
                    behind.insert(first, waiting);
                    next.push(first);
                }
                if let Some(item) = self.items.get_mut(index) {
                    item.outcome = Some(outcome);
                }
            }
            round = next;
        }
    }

    fn can_be_sent(&self, index: usize) -> bool {
        self.items
            .get(index)
            .is_some_and(|item| item.fault.is_none())
    }

    /// In sequence: the first row of each aggregate, and what must wait behind it. A row that is not tried
    /// or cannot be read ends its chain.
    fn chains(&self) -> HashMap<usize, VecDeque<usize>> {
        if self.order == Order::Due {
            return HashMap::new();
        }
        let mut by_aggregate: HashMap<Option<&AggregateId>, Vec<usize>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate() {
            let key = item.row.aggregate_id.as_ref();
            by_aggregate.entry(key).or_default().push(index);
        }
        let version = |index: &usize| {
            let item = self.items.get(*index);
            item.and_then(|item| item.row.aggregate_version)
        };
        // One whose version cannot be read either may be any of its aggregate: nothing goes.
        let mut ends: HashMap<&AggregateId, Option<i64>> = HashMap::new();
        for row in &self.unreadable {
            if let Some(key) = &row.aggregate_id {
                let end = ends.entry(key).or_insert(row.aggregate_version);
                *end = row.aggregate_version.min(*end);
            }
        }
        by_aggregate
            .into_iter()
            .filter_map(|(key, mut indexes)| {
                let end = key.and_then(|key| ends.get(key));
                indexes.sort_by_key(version);
                let mut chain: VecDeque<usize> = indexes
                    .into_iter()
                    .take_while(|index| end.is_none_or(|end| version(index) < *end))
                    .take_while(|index| self.can_be_sent(*index))
                    .collect();
                Some((chain.pop_front()?, chain))
            })
            .collect()
    }

    /// What happens to each row.
    pub(super) fn sort(self, settings: &DispatcherSettings, report: &mut Report) -> Sorted {
        let mut sorted = Sorted::default();
        let mut waits = HashMap::new();
        let mut awaited: HashMap<AggregateId, i64> = HashMap::new();
        for row in self.unreadable {
            report.add("failed", 1);
            sorted.failed.push(FailedAttempt {
                event_id: row.event_id,
                error: format!("cannot be read: {}", row.problem),
                retry_after: None,
            });
        }
        for (index, item) in self.items.into_iter().enumerate() {
            let next = match (item.fault, item.outcome) {
                (Some(error), _) => Next::Fail { error },
                (None, Some(outcome)) => {
                    report.add(counter(&outcome), 1);
                    let age = age(item.row.created_at, self.claimed_at);
                    verdict(&outcome, item.attempts, age, settings)
                }
                (None, None) => {
                    // An earlier one of its aggregate was not confirmed, or nothing was sent at all.
                    sorted.untried.push(item.row.event_id);
                    continue;
                }
            };
            let event_id = item.row.event_id;
            match next {
                Next::Sent => {
                    if settings.order == Order::Sequence
                        && (item.attempts > 1 || item.row.last_error.is_some())
                        && let (Some(key), Some(version)) =
                            (item.row.aggregate_id, item.row.aggregate_version)
                    {
                        let newest = awaited.entry(key).or_insert(version);
                        *newest = version.max(*newest);
                    }
                    sorted.sent.push(event_id);
                }
                Next::Retry { error } => {
                    report.add("retried", 1);
                    let wait = waits
                        .entry((item.attempts, index % WAITS))
                        .or_insert_with(|| settings.backoff.delay(item.attempts));
                    sorted.failed.push(FailedAttempt {
                        event_id,
                        error,
                        retry_after: Some(*wait),
                    });
                }
                Next::Fail { error } => {
                    report.add("failed", 1);
                    sorted.failed.push(FailedAttempt {
                        event_id,
                        error,
                        retry_after: None,
                    });
                }
                Next::GiveBack { reason } => {
                    sorted.reason.get_or_insert(reason);
                    sorted.untried.push(event_id);
                }
            }
        }
        sorted.awaited = awaited.into_iter().collect();
        sorted
    }
}

/// How long ago the event was committed, where that is known.
fn age(created_at: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let seconds = now.seconds_since(created_at?);
    Some(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
