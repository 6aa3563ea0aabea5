//! Who is handled when: events of one aggregate always in the same lane, one after the other; and which
//! tags may be acknowledged together. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::super::death::{aggregate_id_of, event_id_of};
use super::letter::Arrived;
use crate::model::ids::AggregateId;
use crate::model::message::Message;

/// Something to handle.
#[derive(Debug)]
pub(super) enum Job {
    /// A message of the queue.
    Delivery { tag: u64, arrived: Box<Arrived> },
    /// A sequence with a parked event whose turn it was at the last look. What is done is read again: a delivery
    /// before it in the lane may have consumed it.
    Waiting(AggregateId),
}

#[derive(Debug, Default)]
struct Lane {
    jobs: VecDeque<Job>,
    is_busy: bool,
}

/// The lanes of one consumer.
#[derive(Debug)]
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    pub(super) fn new(count: u16) -> Self {
        Self((0..count.max(1)).map(|_| Lane::default()).collect())
    }

    /// Puts a job at the end of its lane.
    pub(super) fn push(&mut self, job: Job) {
        let mut hasher = DefaultHasher::new();
        match &job {
            Job::Delivery { arrived, .. } => key_of(&arrived.message).hash(&mut hasher),
            Job::Waiting(aggregate_id) => Some(aggregate_id.as_str()).hash(&mut hasher),
        }
        let count = self.0.len().max(1) as u64;
        let index = usize::try_from(hasher.finish() % count).unwrap_or(0);
        if let Some(lane) = self.0.get_mut(index) {
            lane.jobs.push_back(job);
        }
    }

    /// A job whose lane is free, with the lane's number; the lane is busy from now on.
    pub(super) fn start(&mut self) -> Option<(usize, Job)> {
        let (index, lane) = self
            .0
            .iter_mut()
            .enumerate()
            .find(|(_, lane)| !lane.is_busy && !lane.jobs.is_empty())?;
        let job = lane.jobs.pop_front()?;
        lane.is_busy = true;
        Some((index, job))
    }

    /// The lane's job is over.
    pub(super) fn free(&mut self, lane: usize) {
        if let Some(lane) = self.0.get_mut(lane) {
            lane.is_busy = false;
        }
    }

    /// Forgets what has not been started: deliveries come again, parked events stay parked.
    pub(super) fn clear(&mut self) {
        for lane in &mut self.0 {
            lane.jobs.clear();
        }
    }
}

/// What keeps an order; a message without a business key is its own sequence.
fn key_of(message: &Message) -> Option<String> {
    aggregate_id_of(message)
        .map(|id| id.as_str().to_owned())
        .or_else(|| event_id_of(message))
}

/// Tags of one subscription that have not been acknowledged, and which of them may be.
#[derive(Debug, Default)]
pub(super) struct Tags(BTreeMap<u64, bool>);

impl Tags {
    /// A delivery was taken.
    pub(super) fn taken(&mut self, tag: u64) {
        self.0.insert(tag, false);
    }

    /// Its work is committed.
    pub(super) fn done(&mut self, tag: u64) {
        if let Some(done) = self.0.get_mut(&tag) {
            *done = true;
        }
    }

    /// It was refused, which settles it.
    pub(super) fn refused(&mut self, tag: u64) {
        self.0.remove(&tag);
    }

    /// How many are out.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The subscription is gone, and with it every tag.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The acknowledgements to send: one up to the last tag below which everything is done, and one
    /// for each that is done behind another's work. `(tag, up to it)`, in order.
    pub(super) fn flush(&mut self) -> Vec<(u64, bool)> {
        let prefix = self.0.values().take_while(|done| **done).count();
        let mut acks = Vec::new();
        if let Some(last) = prefix.checked_sub(1).and_then(|n| self.0.keys().nth(n)) {
            acks.push((*last, prefix > 1));
        }
        let behind = self.0.iter().skip(prefix).filter(|(_, done)| **done);
        acks.extend(behind.map(|(tag, _)| (*tag, false)));
        self.0.retain(|_, done| !*done);
        acks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message::{FieldValue, Payload};
    use proptest::prelude::*;

    fn job(tag: u64, aggregate: &str) -> Job {
        let mut message = Message {
            payload: Payload::new(Vec::new()),
            ..Message::default()
        };
        let headers = &mut message.properties.headers;
        headers.set("aggregate_id", FieldValue::text(aggregate));
        let arrived = Box::new(Arrived {
            message,
            exchange: String::new(),
            routing_key: String::new(),
        });
        Job::Delivery { tag, arrived }
    }

    fn tag_of(job: &Job) -> u64 {
        match job {
            Job::Delivery { tag, .. } => *tag,
            Job::Waiting(_) => 0,
        }
    }

    #[test]
    fn one_aggregate_is_handled_one_event_after_the_other() {
        let mut lanes = Lanes::new(4);
        lanes.push(job(1, "a"));
        lanes.push(job(2, "a"));
        let (lane, first) = lanes.start().expect("a job");
        assert_eq!(tag_of(&first), 1);
        assert!(lanes.start().is_none(), "the second waits for the first");
        lanes.free(lane);
        let (_, second) = lanes.start().expect("the next");
        assert_eq!(tag_of(&second), 2);
    }

    proptest! {
        #[test]
        fn no_tag_is_acknowledged_before_its_work_is_done(
            order in Just((1_u64..=12).collect::<Vec<_>>()).prop_shuffle(),
            every in 1_usize..5,
        ) {
            let mut tags = Tags::default();
            (1..=12).for_each(|tag| tags.taken(tag));
            let mut done = std::collections::BTreeSet::new();
            let mut acked = std::collections::BTreeSet::new();
            for (step, tag) in order.iter().enumerate() {
                tags.done(*tag);
                done.insert(*tag);
                if step % every != 0 { continue; }
                for (tag, up_to) in tags.flush() {
                    let covered = if up_to { 1..=tag } else { tag..=tag };
                    for tag in covered {
                        prop_assert!(done.contains(&tag), "{tag} is not done");
                        acked.insert(tag);
                    }
                }
            }
            for (tag, up_to) in tags.flush() {
                acked.extend(if up_to { 1..=tag } else { tag..=tag });
            }
            prop_assert_eq!(acked.len(), 12);
            prop_assert_eq!(tags.len(), 0);
        }
    }
}
