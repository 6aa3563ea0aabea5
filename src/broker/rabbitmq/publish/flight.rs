//! One run of messages over one clean channel: sent in order without waiting for each other, then
//! their confirms.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use tokio::time::{Instant, timeout_at};

use crate::base::crash::CrashPoints;
use crate::broker::{Outgoing, PublishOutcome};

use super::super::Limits;
use super::super::codec::{short, to_wire};
use super::returns::Returns;

/// After a message is on the wire, before its confirm is read.
const AFTER_PUBLISH: &str = "dispatcher.after_publish";

/// That no message is sent which no queue would take without a word.
const MANDATORY: &str = "guard.mandatory";

/// Bytes in flight at most: lapin keeps a copy of each until it is on the wire.
const IN_FLIGHT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message on its way: resolves with its confirm.
pub(super) type Sending = BoxFuture<'static, lapin::Result<Confirmation>>;

/// What came of a flight.
#[derive(Default)]
pub(super) struct Landed {
    /// Messages with an outcome.
    pub outcomes: Vec<(usize, PublishOutcome)>,
    /// Messages whose confirm failed with the channel or connection.
    pub failed: Vec<(usize, lapin::Error)>,
    /// Messages without an answer at the deadline.
    pub unanswered: Vec<usize>,
    /// Their futures; they hold the channel until they are settled.
    pub unsettled: Vec<Sending>,
    /// Messages that were not sent any more after a failure or the deadline.
    pub unsent: Vec<usize>,
}

/// Sends `indices` of `messages` over `channel` and waits for their confirms until `until`. Stops
/// sending at the first failure. At most as many are in flight as the limits say.
pub(super) async fn fly(
    channel: &Channel,
    messages: &Arc<[Outgoing]>,
    indices: &[usize],
    limits: Limits,
    until: Instant,
) -> Landed {
    let window = limits.in_flight_max;
    let mut air = Air::new(limits.crash_points);
    let mut sent = 0;
    let flying = async {
        for index in indices {
            let bytes = size(messages, *index);
            while !air.has_room(window, bytes) {
                air.land_first().await;
            }
            if air.has_failed {
                break;
            }
            air.launch(channel, messages, *index, bytes);
            sent += 1;
        }
        while !air.sending.is_empty() {
            air.land_first().await;
        }
    };
    // An error only means that the time is up; what is still in the air is looked at below.
    drop(timeout_at(until, flying).await);
    air.land_settled();
    air.report(messages, indices, sent)
}

/// What is in the air.
struct Air {
    crash_points: CrashPoints,
    sending: VecDeque<(usize, usize, Sending)>,
    bytes: usize,
    settled: Vec<(usize, lapin::Result<Confirmation>)>,
    has_failed: bool,
}

impl Air {
    fn new(crash_points: CrashPoints) -> Self {
        Self {
            crash_points,
            sending: VecDeque::new(),
            bytes: 0,
            settled: Vec::new(),
            has_failed: false,
        }
    }

    fn has_room(&self, window: usize, bytes: usize) -> bool {
        self.sending.is_empty()
            || (self.sending.len() < window && self.bytes + bytes <= IN_FLIGHT_BYTES_MAX)
    }

    /// The first poll puts the frames in lapin's queue and takes the delivery tag: order is kept
    /// without waiting for the wire.
    fn launch(
        &mut self,
        channel: &Channel,
        messages: &Arc<[Outgoing]>,
        index: usize,
        bytes: usize,
    ) {
        let messages = Arc::clone(messages);
        let mut sending = send(channel.clone(), messages, index, self.crash_points).boxed();
        if let Some(result) = (&mut sending).now_or_never() {
            self.settle(index, result);
        } else {
            self.bytes += bytes;
            self.sending.push_back((index, bytes, sending));
        }
    }

    /// Waits for the oldest. Cancel safe: it stays in the queue until it is settled.
    async fn land_first(&mut self) {
        if let Some((_, _, sending)) = self.sending.front_mut() {
            let result = sending.await;
            if let Some((index, bytes, _)) = self.sending.pop_front() {
                self.bytes = self.bytes.saturating_sub(bytes);
                self.settle(index, result);
            }
        }
    }

    /// Takes every confirm that has arrived. Repeated until nothing more is found: a return travels
    /// with the first confirm after it, which may belong to a message that was looked at before.
    fn land_settled(&mut self) {
        loop {
            let before = self.sending.len();
            for (index, bytes, mut sending) in std::mem::take(&mut self.sending) {
                match (&mut sending).now_or_never() {
                    Some(result) => self.settle(index, result),
                    None => self.sending.push_back((index, bytes, sending)),
                }
            }
            if self.sending.len() == before {
                return;
            }
        }
    }

    fn settle(&mut self, index: usize, result: lapin::Result<Confirmation>) {
        self.has_failed |= result.is_err();
        self.settled.push((index, result));
    }

    fn report(self, messages: &Arc<[Outgoing]>, indices: &[usize], sent: usize) -> Landed {
        let mut landed = Landed {
            unsent: indices.get(sent..).unwrap_or_default().to_vec(),
            ..Landed::default()
        };
        let mut returned: Vec<BasicReturnMessage> = Vec::new();
        for (index, result) in self.settled {
            match result {
                Ok(Confirmation::Ack(message)) => {
                    returned.extend(message);
                    landed.outcomes.push((index, PublishOutcome::Confirmed));
                }
                Ok(Confirmation::Nack(message)) => {
                    returned.extend(message);
                    landed.outcomes.push((index, PublishOutcome::Nacked));
                }
                Ok(Confirmation::NotRequested) => {
                    let why = "the channel gives no confirms".to_owned();
                    landed.outcomes.push((index, PublishOutcome::Unknown(why)));
                }
                Err(error) => landed.failed.push((index, error)),
            }
        }
        for (index, _, sending) in self.sending {
            landed.unanswered.push(index);
            landed.unsettled.push(sending);
        }
        landed.apply(messages, &returned);
        landed
    }
}

impl Landed {
    /// Marks the messages that came back. That is certain even where no confirm followed.
    fn apply(&mut self, messages: &[Outgoing], returned: &[BasicReturnMessage]) {
        if returned.is_empty() {
            return;
        }
        let sent = self
            .outcomes
            .iter()
            .map(|(index, _)| *index)
            .chain(self.failed.iter().map(|(index, _)| *index))
            .chain(self.unanswered.iter().copied());
        let mut candidates = Returns::new(messages, sent);
        for message in returned {
            let Some(index) = candidates.take(messages, message) else {
                tracing::warn!(
                    exchange = %message.exchange,
                    routing_key = %message.routing_key,
                    "a message came back that was not sent here"
                );
                continue;
            };
            self.failed.retain(|(failed, _)| *failed != index);
            self.unanswered.retain(|unanswered| *unanswered != index);
            let why = format!("{} {}", message.reply_code, message.reply_text);
            let outcome = PublishOutcome::Returned(why);
            match self.outcomes.iter_mut().find(|(sent, _)| *sent == index) {
                Some((_, known)) => *known = outcome,
                None => self.outcomes.push((index, outcome)),
            }
        }
    }
}

async fn send(
    channel: Channel,
    messages: Arc<[Outgoing]>,
    index: usize,
    crash_points: CrashPoints,
) -> lapin::Result<Confirmation> {
    let Some(message) = messages.get(index) else {
        return Ok(Confirmation::NotRequested);
    };
    // Names and properties were checked before (wire::refusal); an error here cannot happen and sends
    // nothing.
    let (Ok(exchange), Ok(routing_key), Ok(properties)) = (
        short(&message.exchange),
        short(&message.routing_key),
        to_wire(&message.message.properties),
    ) else {
        return Ok(Confirmation::NotRequested);
    };
    let options = BasicPublishOptions {
        mandatory: !crash_points.is_off(MANDATORY),
        ..BasicPublishOptions::default()
    };
    let confirm = channel
        .basic_publish(
            exchange,
            routing_key,
            options,
            message.message.payload.bytes(),
            properties,
        )
        .await?;
    crash_points.reach(AFTER_PUBLISH);
    confirm.await
}

fn size(messages: &[Outgoing], index: usize) -> usize {
    messages.get(index).map_or(0, |message| {
        message.message.payload.bytes().len() + message.message.properties.headers.encoded_len()
    })
}
