//! A subscription on its own channel. Its connection is shared with other subscriptions and with
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use lapin::Channel;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::{FieldTable, ShortString};
use tokio::time::{Instant, timeout, timeout_at};

use crate::broker::{BrokerError, BrokerResult, Consumer, Delivery};

use super::ask::named;
use super::codec;
use super::fault::fault;
use super::link::{Link, Live};

/// A lapin consumer with the channel its tags belong to.
pub(super) struct RabbitConsumer {
    queue: String,
    deliveries: lapin::Consumer,
    channel: Channel,
    /// Held so that the connection stays open as long as somebody consumes from it.
    _live: Arc<Live>,
    limit: Duration,
    is_over: bool,
}

impl RabbitConsumer {
    /// Subscribes to `queue`.
    pub(super) async fn open(
        link: &Link,
        queue: &str,
        prefetch: u16,
        limit: Duration,
    ) -> BrokerResult<Self> {
        let until = Instant::now() + limit;
        let name = named("queue", queue)?;
        if queue.is_empty() {
            return Err(BrokerError::NotFound("a queue name is empty".to_owned()));
        }
        let live = link.get(until).await?;
        let channel = live.channel(until).await?;
        let subscribing = async {
            channel
                .basic_qos(prefetch, BasicQosOptions::default())
                .await?;
            channel
                .basic_consume(
                    name,
                    ShortString::default(),
                    BasicConsumeOptions::default(),
                    FieldTable::default(),
                )
                .await
        };
        let deliveries = match timeout_at(until, subscribing).await {
            Ok(Ok(deliveries)) => deliveries,
            Ok(Err(error)) => return Err(fault(&error)),
            Err(_) => {
                return Err(BrokerError::TimedOut {
                    operation: "subscribe",
                    after: limit,
                });
            }
        };
        Ok(Self {
            queue: queue.to_owned(),
            deliveries,
            channel,
            _live: live,
            limit,
            is_over: false,
        })
    }

    async fn within<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = lapin::Result<T>> + Send,
    ) -> BrokerResult<T> {
        match timeout(self.limit, work).await {
            Ok(result) => result.map_err(|error| lost(&self.queue, &error)),
            Err(_) => Err(BrokerError::TimedOut {
                operation,
                after: self.limit,
            }),
        }
    }
}

#[async_trait]
impl Consumer for RabbitConsumer {
    async fn next(&mut self) -> BrokerResult<Delivery> {
        if self.is_over {
            return Err(BrokerError::Unavailable(format!(
                "the subscription to {} is over: open a new one",
                self.queue
            )));
        }
        match self.deliveries.next().await {
            Some(Ok(delivery)) => Ok(codec::delivery(delivery)),
            Some(Err(error)) => {
                self.is_over = true;
                Err(lost(&self.queue, &error))
            }
            None => {
                self.is_over = true;
                Err(BrokerError::Unavailable(format!(
                    "the broker ended the subscription to {}: queue deleted, or its node is down",
                    self.queue
                )))
            }
        }
    }

    async fn ack(&mut self, tag: u64, up_to: bool) -> BrokerResult<()> {
        let options = BasicAckOptions { multiple: up_to };
        self.within("ack", self.channel.basic_ack(tag, options))
            .await
    }

    async fn reject(&mut self, tag: u64, requeue: bool) -> BrokerResult<()> {
        let options = BasicRejectOptions { requeue };
        self.within("reject", self.channel.basic_reject(tag, options))
            .await
    }

    async fn close(self: Box<Self>) {
        let tag = self.deliveries.tag();
        let closing = async {
            self.channel
                .basic_cancel(tag, BasicCancelOptions::default())
                .await?;
            self.channel.close(200, "OK".into()).await
        };
        if let Err(error) = self.within("close subscription", closing).await {
            tracing::debug!(queue = self.queue, %error, "closing a subscription failed");
        }
    }
}

/// A lost subscription can be opened again, whatever closed it.
fn lost(queue: &str, error: &lapin::Error) -> BrokerError {
    match fault(error) {
        BrokerError::Protocol(text) => {
            BrokerError::Unavailable(format!("the subscription to {queue} was closed: {text}"))
        }
        other => other,
    }
}
