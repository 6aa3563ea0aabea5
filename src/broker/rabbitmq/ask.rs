//! Questions and declarations on a connection of their own: a refused one closes its channel, and
//! must not disturb a publish or a subscription (B-12).

use std::future::Future;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Channel, ExchangeKind};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::broker::wire::name_fault;
use crate::broker::{BrokerError, BrokerResult, NewQueue, QueueDepth, Topology};

use super::codec::short;
use super::fault::{fault, is_not_found};
use super::link::{Link, Live};

/// A channel kept for questions; replaced when a refused question closed it.
#[derive(Default)]
pub(super) struct AskChannel(Mutex<Option<Channel>>);

impl AskChannel {
    /// Asks one question. `Ok(None)` stands for the broker's "not found".
    async fn ask<T, F>(
        &self,
        live: &Live,
        operation: &'static str,
        until: Instant,
        question: impl FnOnce(Channel) -> F + Send,
    ) -> BrokerResult<Option<T>>
    where
        F: Future<Output = lapin::Result<T>> + Send,
    {
        let began = Instant::now();
        let timed_out = || BrokerError::TimedOut {
            operation,
            after: until.saturating_duration_since(began),
        };
        let mut kept = timeout_at(until, self.0.lock())
            .await
            .map_err(|_| timed_out())?;
        let channel = match kept.take().filter(|channel| channel.status().connected()) {
            Some(channel) => channel,
            None => live.channel(until).await?,
        };
        // Kept again only after an answer: a question that was dropped or refused costs the channel.
        match timeout_at(until, question(channel.clone())).await {
            Ok(Ok(answer)) => {
                *kept = Some(channel);
                Ok(Some(answer))
            }
            Ok(Err(error)) if is_not_found(&error) => Ok(None),
            Ok(Err(error)) => Err(fault(&error)),
            Err(_) => Err(timed_out()),
        }
    }

    /// True when the exchange exists on this connection's virtual host.
    pub(super) async fn has_exchange(
        &self,
        live: &Live,
        name: &str,
        until: Instant,
    ) -> BrokerResult<bool> {
        let exchange = named("exchange", name)?;
        let options = ExchangeDeclareOptions {
            passive: true,
            ..ExchangeDeclareOptions::default()
        };
        let asked = self.ask(live, "look for exchange", until, |channel| async move {
            channel
                .exchange_declare(
                    exchange,
                    ExchangeKind::Topic,
                    options,
                    FieldTable::default(),
                )
                .await
        });
        Ok(asked.await?.is_some())
    }
}

/// Depth of a queue by passive declare; `None` when it does not exist.
pub(super) async fn depth(
    link: &Link,
    channel: &AskChannel,
    queue: &str,
    limit: Duration,
) -> BrokerResult<Option<QueueDepth>> {
    let until = Instant::now() + limit;
    let name = named("queue", queue)?;
    if queue.is_empty() {
        // To the broker an empty name means the last queue this channel declared.
        return Err(BrokerError::NotFound("a queue name is empty".to_owned()));
    }
    let live = link.get(until).await?;
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let asked = channel.ask(&live, "queue depth", until, |channel| async move {
        channel
            .queue_declare(name, options, FieldTable::default())
            .await
    });
    let Some(found) = asked.await? else {
        return Ok(None);
    };
    if found.name().as_str() != queue {
        return Err(BrokerError::NotFound(format!(
            "the broker knows queue {queue:?} as {:?}: use that name",
            found.name().as_str()
        )));
    }
    Ok(Some(QueueDepth {
        ready: u64::from(found.message_count()),
        consumers: u64::from(found.consumer_count()),
    }))
}

/// Declares exchanges, queues and bindings; everything durable.
pub(super) async fn declare(link: &Link, topology: &Topology, limit: Duration) -> BrokerResult<()> {
    let until = Instant::now() + limit;
    let live = link.get(until).await?;
    let channel = live.channel(until).await?;
    let work = async {
        for exchange in &topology.exchanges {
            declare_exchange(&channel, exchange).await?;
        }
        for queue in &topology.queues {
            for (exchange, _) in &queue.bindings {
                declare_exchange(&channel, exchange).await?;
            }
            declare_queue(&channel, queue).await?;
        }
        Ok(())
    };
    match timeout_at(until, work).await {
        Ok(result) => result,
        Err(_) => Err(BrokerError::TimedOut {
            operation: "declare",
            after: limit,
        }),
    }
}

async fn declare_exchange(channel: &Channel, name: &str) -> BrokerResult<()> {
    if name.is_empty() || name.starts_with("amq.") {
        return Ok(());
    }
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    channel
        .exchange_declare(
            named("exchange", name)?,
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        )
        .await
        .map_err(|error| fault(&error))
}

async fn declare_queue(channel: &Channel, queue: &NewQueue) -> BrokerResult<()> {
    let name = named("queue", &queue.name)?;
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(name.clone(), options, arguments(queue))
        .await
        .map_err(|error| fault(&error))?;
    for (exchange, key) in &queue.bindings {
        let key = named("binding key", key)?;
        channel
            .queue_bind(
                name.clone(),
                named("exchange", exchange)?,
                key,
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .map_err(|error| fault(&error))?;
    }
    Ok(())
}

fn arguments(queue: &NewQueue) -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(LongString::from(text.as_bytes()));
    let mut arguments = FieldTable::default();
    let mut set = |name: &str, value: AMQPValue| {
        arguments.insert(ShortString::from(name), value);
    };
    if queue.is_quorum {
        set("x-queue-type", text("quorum"));
    }
    if let Some((exchange, key)) = &queue.dead_letter {
        set("x-dead-letter-exchange", text(exchange));
        if !key.is_empty() {
            set("x-dead-letter-routing-key", text(key));
        }
    }
    if let Some(limit) = queue.delivery_limit.filter(|_| queue.is_quorum) {
        set("x-delivery-limit", AMQPValue::LongLongInt(limit));
    }
    if let Some(limit) = queue.max_length {
        set("x-max-length", AMQPValue::LongLongInt(limit));
        set("x-overflow", text("reject-publish"));
    }
    if let Some(ttl_ms) = queue.message_ttl_ms {
        set("x-message-ttl", AMQPValue::LongLongInt(ttl_ms));
        if queue.is_quorum && queue.dead_letter.is_some() && queue.max_length.is_none() {
            // What expires here is on its way, not given up: it leaves only when it has arrived. The
            // broker asks for the overflow behaviour with it.
            set("x-dead-letter-strategy", text("at-least-once"));
            set("x-overflow", text("reject-publish"));
        }
    }
    arguments
}

/// A name as the wire takes it, or why it cannot be one.
pub(super) fn named(what: &str, name: &str) -> BrokerResult<ShortString> {
    if let Some(fault) = name_fault(what, name) {
        return Err(BrokerError::NotFound(fault));
    }
    short(name).map_err(|error| BrokerError::NotFound(format!("{what}: {error}")))
}
