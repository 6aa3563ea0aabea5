//! Messages of a drill, past every worker: published, taken out, counted.

use super::{Stage, until};
use crate::broker::{Consumer, Outgoing, PublishOutcome, QueueDepth};
use crate::drill::record::len;
use crate::drill::trouble::{Told as _, Trouble};
use crate::model::ids::EventId;
use crate::pipeline::message::message_of;

impl Stage<'_> {
    /// Publishes `copies` of an event's message straight to a queue, as a second sender would.
    ///
    /// # Errors
    /// When the event is not there, or the broker did not take it.
    pub async fn publish_copies(
        &mut self,
        service: &str,
        event_id: Option<&EventId>,
        queue: &str,
        copies: usize,
    ) -> Result<(), Trouble> {
        let missing = || Trouble::Stuck(format!("{service} has no event {event_id:?}"));
        let store = self.ports.store(service).ok_or_else(missing)?;
        let part = self
            .ports
            .context
            .service(service)
            .and_then(|s| s.outbox.as_ref());
        let part = part.ok_or_else(missing)?;
        let event = store
            .outbox_event(event_id.ok_or_else(missing)?)
            .await
            .told()?
            .ok_or_else(missing)?;
        let out = Outgoing {
            exchange: String::new(),
            routing_key: queue.to_owned(),
            ..message_of(&event, part)
        };
        self.publish(vec![out; copies]).await?;
        self.step(format!("published {copies} copies to {queue}"));
        Ok(())
    }

    /// Takes `n` messages out of a queue, and holds them.
    ///
    /// # Errors
    /// When they do not come in time.
    pub async fn take(&self, queue: &str, n: usize) -> Result<Taken, Trouble> {
        let prefetch = u16::try_from(n).unwrap_or(u16::MAX);
        let mut consumer = self
            .bench
            .broker()?
            .consumer(queue, prefetch)
            .await
            .told()?;
        let mut messages = Vec::with_capacity(n);
        let mut last = 0;
        while messages.len() < n {
            let delivery = tokio::time::timeout(self.patience(), consumer.next())
                .await
                .map_err(|_| Trouble::late(&format!("a message of {queue}"), self.patience()))?
                .told()?;
            last = delivery.tag;
            messages.push(Outgoing {
                exchange: String::new(),
                routing_key: queue.to_owned(),
                message: delivery.message,
            });
        }
        Ok(Taken {
            messages,
            consumer,
            last,
        })
    }

    /// Publishes past every worker, and waits for the confirms.
    ///
    /// # Errors
    /// When the broker did not take all of it.
    pub async fn publish(&self, messages: Vec<Outgoing>) -> Result<(), Trouble> {
        let publisher = self.broker()?.publisher().await.told()?;
        let outcomes = publisher.publish(messages, self.patience()).await;
        match outcomes.iter().find(|o| **o != PublishOutcome::Confirmed) {
            None => Ok(()),
            Some(outcome) => Err(Trouble::Stuck(format!(
                "the broker did not take it: {outcome:?}"
            ))),
        }
    }

    /// Messages ready in a queue.
    ///
    /// # Errors
    /// When the broker did not answer, or has no such queue.
    pub async fn ready(&self, queue: &str) -> Result<u64, Trouble> {
        self.depth(queue).await.map(|depth| depth.ready)
    }

    /// Depth of a queue.
    ///
    /// # Errors
    /// When the broker did not answer, or has no such queue.
    pub async fn depth(&self, queue: &str) -> Result<QueueDepth, Trouble> {
        self.broker()?
            .depth(queue)
            .await
            .told()?
            .ok_or_else(|| Trouble::Stuck(format!("there is no queue {queue}")))
    }

    /// Waits until a queue holds exactly `n` messages that are ready.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn arrives(&self, queue: &str, n: usize) -> Result<(), Trouble> {
        let wanted = len(n);
        until(
            &format!("{n} messages in {queue}"),
            self.patience(),
            async || Ok(self.ready(queue).await? == wanted),
        )
        .await
    }

    /// Waits until a queue has exactly `n` consumers.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn consumers(&self, queue: &str, n: u64) -> Result<(), Trouble> {
        until(
            &format!("{n} consumers of {queue}"),
            self.patience(),
            async || Ok(self.depth(queue).await?.consumers == n),
        )
        .await
    }
}

/// Messages that were taken out of their queue. Dropped, they go back.
pub struct Taken {
    /// In the order they came, addressed to their queue.
    pub messages: Vec<Outgoing>,
    consumer: Box<dyn Consumer>,
    last: u64,
}

impl Taken {
    /// Acknowledges all of them: they are gone.
    ///
    /// # Errors
    /// When the broker did not hear it.
    pub async fn give_up(mut self) -> Result<(), Trouble> {
        self.consumer.ack(self.last, true).await.told()?;
        self.consumer.close().await;
        Ok(())
    }
}
