//! One call of `publish`: refuse what can be refused, send the rest, and find out whom to blame when
//! a channel is closed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use tokio::time::Instant;

use crate::base::tasks::Tasks;
use crate::broker::wire::refusal;
use crate::broker::{BrokerResult, Outgoing, PublishOutcome};

use super::super::fault::{channel_fault, fault, is_channel_gone};
use super::super::link::Live;
use super::super::{Limits, Publishing};
use super::Channels;
use super::flight::{Landed, fly};

/// The messages of one call and what is known of them.
pub(super) struct Batch {
    publishing: Arc<Publishing>,
    channels: Arc<Channels>,
    tasks: Tasks,
    limits: Limits,
    messages: Arc<[Outgoing]>,
    outcomes: Vec<Option<PublishOutcome>>,
    deadline: Duration,
    until: Instant,
}

impl Batch {
    pub(super) fn new(
        publishing: Arc<Publishing>,
        channels: Arc<Channels>,
        tasks: Tasks,
        limits: Limits,
        messages: Vec<Outgoing>,
        deadline: Duration,
    ) -> Self {
        Self {
            publishing,
            channels,
            tasks,
            limits,
            outcomes: vec![None; messages.len()],
            messages: messages.into(),
            deadline,
            until: Instant::now() + deadline,
        }
    }

    /// One outcome a message, in order.
    pub(super) async fn run(mut self) -> Vec<PublishOutcome> {
        match self.ready().await {
            Ok(live) => {
                self.refuse_unsendable(&live);
                self.refuse_unknown_exchanges(&live).await;
                drop(live);
                self.send().await;
            }
            Err(why) => self.leave_rest(&why),
        }
        let why = "the publish ended without an answer";
        self.outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(|| PublishOutcome::Unknown(why.to_owned())))
            .collect()
    }

    /// A connection the broker reads from.
    async fn ready(&self) -> Result<Arc<Live>, String> {
        let link = &self.publishing.link;
        let live = link
            .get(self.until)
            .await
            .map_err(|error| error.to_string())?;
        live.unblocked(self.until)
            .await
            .map_err(|reason| format!("broker blocked: {reason}"))?;
        Ok(live)
    }

    fn refuse_unsendable(&mut self, live: &Live) {
        let user = self.publishing.user.as_deref();
        for (message, outcome) in self.messages.iter().zip(&mut self.outcomes) {
            *outcome = refusal(message, user, live.frame_max()).map(PublishOutcome::Refused);
        }
    }

    async fn refuse_unknown_exchanges(&mut self, live: &Live) {
        let mut missing: HashMap<String, bool> = HashMap::new();
        for index in self.open() {
            let Some(exchange) = self.messages.get(index).map(|m| m.exchange.clone()) else {
                continue;
            };
            let is_missing = if let Some(known) = missing.get(&exchange) {
                *known
            } else {
                let found = self.publishing.has_exchange(live, &exchange, self.until);
                // A question that was not answered refuses nothing.
                let is_missing = matches!(found.await, Ok(false));
                missing.insert(exchange.clone(), is_missing);
                is_missing
            };
            if is_missing {
                let why = format!("exchange not found: {exchange}");
                self.set(index, PublishOutcome::Refused(why));
            }
        }
    }

    /// Sends what is open until every message has an outcome. Each message is sent once here, and
    /// once more by [`Batch::isolate`] if its channel was closed under it.
    async fn send(&mut self) {
        loop {
            let open = self.open();
            if open.is_empty() {
                return;
            }
            let (live, channel) = match self.channel().await {
                Ok(both) => both,
                Err(error) => return self.leave_rest(&error.to_string()),
            };
            let landed = fly(&channel, &self.messages, &open, self.limits, self.until).await;
            let suspects = self.take_in(landed, &live, channel);
            if !suspects.is_empty() {
                self.isolate(suspects).await;
            }
        }
    }

    /// Sends each suspect alone, so that a channel that closes names its cause.
    async fn isolate(&mut self, suspects: VecDeque<usize>) {
        for index in suspects {
            if self.outcomes.get(index).is_some_and(Option::is_some) {
                continue;
            }
            let (live, channel) = match self.channel().await {
                Ok(both) => both,
                Err(error) => {
                    let why = format!("its channel was closed, and then: {error}");
                    self.set(index, PublishOutcome::Unknown(why));
                    continue;
                }
            };
            let landed = fly(&channel, &self.messages, &[index], self.limits, self.until).await;
            let blamed = landed
                .failed
                .first()
                .and_then(|(_, error)| channel_fault(error));
            match blamed {
                Some(text) => self.blame(index, &text),
                None => {
                    // Nothing is suspected a second time: what failed here is not known.
                    for suspect in self.take_in(landed, &live, channel) {
                        let why = "its channel was closed twice".to_owned();
                        self.set(suspect, PublishOutcome::Unknown(why));
                    }
                }
            }
        }
    }

    /// Takes a flight's outcomes; returns the messages whose channel was closed under them.
    fn take_in(&mut self, landed: Landed, live: &Arc<Live>, channel: Channel) -> VecDeque<usize> {
        let is_nacked = landed
            .outcomes
            .iter()
            .any(|(_, outcome)| *outcome == PublishOutcome::Nacked);
        for (index, outcome) in landed.outcomes {
            self.set(index, outcome);
        }
        let named = landed
            .failed
            .iter()
            .find_map(|(_, error)| channel_fault(error));
        let mut suspects = VecDeque::new();
        for (index, error) in landed.failed {
            let is_suspect = channel_fault(&error).is_some()
                || (is_channel_gone(&error) && (named.is_some() || live.is_connected()));
            if is_suspect {
                suspects.push_back(index);
            } else {
                let why = format!("no confirm: {}", fault(&error));
                self.set(index, PublishOutcome::Unknown(why));
            }
        }
        for index in landed.unanswered {
            self.set(index, self.unanswered(live));
        }
        let is_late = Instant::now() >= self.until;
        if is_late || (suspects.is_empty() && !live.is_connected()) {
            let why = if is_late {
                format!("{:?} passed before it was sent", self.deadline)
            } else {
                "the connection was lost before it was sent".to_owned()
            };
            for index in landed.unsent {
                self.set(index, PublishOutcome::Unsent(why.clone()));
            }
        }
        if landed.unsettled.is_empty() {
            if is_nacked {
                // The broker's end of a channel remembers which node leads a quorum queue. One that first
                // published while that node was down nacks for that queue as long as it is down, also after
                // another one leads: `rabbit_fifo_client:enqueue` of 3.10.8. Another channel asks anew.
                drop(channel);
            } else {
                self.channels.give_back(channel);
            }
        } else {
            // A channel must not be closed before its messages are on the wire: frames on a closed
            // channel cost the connection. It is dropped when they are settled.
            self.tasks.spawn_until_stopped(async move {
                futures::future::join_all(landed.unsettled).await;
                drop(channel);
            });
        }
        if let Some(text) = named {
            self.blame_exchange(&text, &suspects);
        }
        suspects.retain(|index| self.outcomes.get(*index).is_some_and(Option::is_none));
        suspects
    }

    fn unanswered(&self, live: &Live) -> PublishOutcome {
        let blocked = live
            .blocked()
            .map(|reason| format!(": broker blocked: {reason}"))
            .unwrap_or_default();
        PublishOutcome::Unknown(format!("no confirm within {:?}{blocked}", self.deadline))
    }

    fn blame(&mut self, index: usize, text: &str) {
        self.set(index, PublishOutcome::Refused(worded(text)));
        self.blame_exchange(text, &VecDeque::new());
    }

    /// When the broker names an exchange it does not have or does not let us write to, every message
    /// for it is refused.
    fn blame_exchange(&mut self, text: &str, suspects: &VecDeque<usize>) {
        // A refused topic is about one routing key, not about its exchange.
        let is_about_exchange =
            text.starts_with("404 ") || (text.starts_with("403 ") && !text.contains("topic '"));
        if !is_about_exchange {
            return;
        }
        let open: Vec<usize> = self
            .open()
            .into_iter()
            .chain(suspects.iter().copied())
            .collect();
        for index in open {
            let is_named = self
                .messages
                .get(index)
                .is_some_and(|m| text.contains(&format!("exchange '{}'", m.exchange)));
            if is_named {
                if let Some(message) = self.messages.get(index) {
                    self.publishing.forget_exchange(&message.exchange);
                }
                self.set(index, PublishOutcome::Refused(worded(text)));
            }
        }
    }

    async fn channel(&self) -> BrokerResult<(Arc<Live>, Channel)> {
        self.channels.take(&self.publishing.link, self.until).await
    }

    /// Messages without an outcome.
    fn open(&self) -> Vec<usize> {
        let open = self.outcomes.iter().enumerate();
        open.filter(|(_, outcome)| outcome.is_none())
            .map(|(index, _)| index)
            .collect()
    }

    fn leave_rest(&mut self, why: &str) {
        for index in self.open() {
            self.set(index, PublishOutcome::Unsent(why.to_owned()));
        }
    }

    /// The first outcome of a message stands.
    fn set(&mut self, index: usize, outcome: PublishOutcome) {
        if let Some(known) = self.outcomes.get_mut(index)
            && known.is_none()
        {
            *known = Some(outcome);
        }
    }
}

fn worded(text: &str) -> String {
    if text.starts_with("404 ") {
        format!("exchange not found: {text}")
    } else {
        format!("refused by the broker: {text}")
    }
}
