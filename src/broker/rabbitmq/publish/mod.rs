//! Publishing with confirms and mandatory returns, many messages at a time, each outcome tied to its
//! own message.
//!
//! Four things make that more than a loop:
//!
//! - A batch owns its channel. What is still unconfirmed at the deadline keeps the channel until it
//!   is settled, and the next batch gets another one: no late confirm can meet the wrong message. The
//!   batch runs in a task, so a caller that gives up leaves nothing half done.
//! - lapin hands a returned message to whichever confirm comes next, which need not be its own; so
//!   returns are matched by content ([`returns`]).
//! - A channel-level error takes every unconfirmed message with it (B-03). Those are sent once more,
//!   one at a time, so that the one to blame is known and each is sent at most twice. Known causes
//!   are refused before: [`crate::broker::wire::refusal`], and exchanges that do not exist.
//! - A channel that refused a message is not used again: it may go on refusing because of a node that
//!   was down when it was new.

mod batch;
mod flight;
mod returns;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::time::{Instant, timeout_at};

use crate::base::tasks::Tasks;
use crate::broker::{BrokerError, BrokerResult, Flow, Outgoing, PublishOutcome, Publisher};

use super::fault::fault;
use super::link::{Link, Live};
use super::{Limits, Publishing};

/// Idle channels kept by a publisher; more batches at once open more channels.
const IDLE_CHANNELS_MAX: usize = 4;

/// A publisher on the shared publishing connection.
pub(super) struct RabbitPublisher {
    publishing: Arc<Publishing>,
    channels: Arc<Channels>,
    tasks: Tasks,
    limits: Limits,
}

impl RabbitPublisher {
    pub(super) fn new(publishing: Arc<Publishing>, tasks: Tasks, limits: Limits) -> Self {
        Self {
            publishing,
            channels: Arc::default(),
            tasks,
            limits,
        }
    }
}

#[async_trait]
impl Publisher for RabbitPublisher {
    async fn publish(&self, messages: Vec<Outgoing>, deadline: Duration) -> Vec<PublishOutcome> {
        let count = messages.len();
        if count == 0 {
            return Vec::new();
        }
        let batch = batch::Batch::new(
            Arc::clone(&self.publishing),
            Arc::clone(&self.channels),
            self.tasks.clone(),
            self.limits,
            messages,
            deadline,
        );
        match self.tasks.spawn(batch.run()).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::error!(%error, "a publish ended without its outcomes");
                let why = "the publish ended without an answer".to_owned();
                vec![PublishOutcome::Unknown(why); count]
            }
        }
    }

    fn flow(&self) -> Flow {
        self.publishing.link.flow()
    }
}

/// Channels in confirm mode that nothing is pending on.
#[derive(Default)]
pub(super) struct Channels(Mutex<Vec<Channel>>);

impl Channels {
    /// A clean channel of the present connection.
    async fn take(&self, link: &Link, until: Instant) -> BrokerResult<(Arc<Live>, Channel)> {
        let live = link.get(until).await?;
        loop {
            let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                // A channel of a lost connection is not connected.
                Some(channel) if channel.status().connected() => return Ok((live, channel)),
                Some(_) => {}
                None => break,
            }
        }
        let channel = live.channel(until).await?;
        match timeout_at(
            until,
            channel.confirm_select(ConfirmSelectOptions::default()),
        )
        .await
        {
            Ok(Ok(())) => Ok((live, channel)),
            Ok(Err(error)) => Err(fault(&error)),
            Err(_) => Err(BrokerError::Unavailable(
                "the broker did not switch confirms on in time".to_owned(),
            )),
        }
    }

    /// Keeps a channel on which nothing is pending.
    fn give_back(&self, channel: Channel) {
        if !channel.status().connected() {
            return;
        }
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CHANNELS_MAX {
            idle.push(channel);
        }
    }
}
