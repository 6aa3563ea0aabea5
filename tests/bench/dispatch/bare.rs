//! The limit: a loop around the client library that only publishes. Same exchange, same quorum queue, same
//! events, one channel, pipelined confirms, mandatory, persistent; no database.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, ensure};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};

use crate::outbox::{EVENT_TYPE, EXCHANGE, QUEUE};

/// Messages in flight: more bring nothing (perf.md section 1).
const WINDOW: usize = 512;

/// A channel for the loop, and the queue.
pub struct Bare {
    connection: Connection,
    channel: Channel,
}

impl Bare {
    /// Connects and declares the exchange and the queue.
    pub async fn connect(amqp: &str) -> Result<Self> {
        let connection = Connection::connect(amqp, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        };
        channel
            .exchange_declare(
                EXCHANGE.into(),
                ExchangeKind::Topic,
                durable,
                FieldTable::default(),
            )
            .await?;
        let durable = QueueDeclareOptions {
            durable: true,
            ..Default::default()
        };
        let mut arguments = FieldTable::default();
        arguments.insert(
            "x-queue-type".into(),
            AMQPValue::LongString("quorum".into()),
        );
        channel
            .queue_declare(QUEUE.into(), durable, arguments)
            .await?;
        channel
            .queue_bind(
                QUEUE.into(),
                EXCHANGE.into(),
                EVENT_TYPE.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(Self {
            connection,
            channel,
        })
    }

    /// Empties the queue; how many messages it had.
    pub async fn purge(&self) -> Result<u64> {
        Ok(u64::from(
            self.channel
                .queue_purge(QUEUE.into(), QueuePurgeOptions::default())
                .await?,
        ))
    }

    /// Publishes so many events; how long it took until the last confirm.
    pub async fn publish(&self, events: u64) -> Result<Duration> {
        let options = BasicPublishOptions {
            mandatory: true,
            ..Default::default()
        };
        let began = Instant::now();
        let mut flying = VecDeque::with_capacity(WINDOW);
        for n in 0..events {
            if flying.len() >= WINDOW
                && let Some(first) = flying.pop_front()
            {
                confirmed(first).await?;
            }
            let payload = format!("{{\"order_id\":{n:010},\"note\":\"{}\"}}", "x".repeat(991));
            let mut headers = FieldTable::default();
            headers.insert(
                "aggregate_id".into(),
                AMQPValue::LongString(format!("order-{}", n / 3).into()),
            );
            headers.insert(
                "aggregate_version".into(),
                AMQPValue::LongLongInt(i64::try_from(n % 3)?),
            );
            headers.insert("schema_version".into(), AMQPValue::LongLongInt(1));
            let properties = BasicProperties::default()
                .with_content_type("application/json".into())
                .with_delivery_mode(2)
                .with_message_id(format!("{n:08x}-c3f2-7000-9000-000000000000").into())
                .with_type(EVENT_TYPE.into())
                .with_headers(headers);
            let confirm = self
                .channel
                .basic_publish(
                    EXCHANGE.into(),
                    EVENT_TYPE.into(),
                    options,
                    payload.as_bytes(),
                    properties,
                )
                .await?;
            flying.push_back(confirm);
        }
        for confirm in flying {
            confirmed(confirm).await?;
        }
        Ok(began.elapsed())
    }

    pub async fn close(self) -> Result<()> {
        self.connection.close(200, "done".into()).await?;
        Ok(())
    }
}

async fn confirmed(confirm: impl Future<Output = lapin::Result<Confirmation>>) -> Result<()> {
    let answer = confirm.await?;
    ensure!(
        matches!(answer, Confirmation::Ack(None)),
        "the bare loop's publish was not confirmed: {answer:?}"
    );
    Ok(())
}
