//! The queues the measured context names, so that the console has something to look at.

use color_eyre::eyre::Result;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};

pub const EXCHANGE: &str = "bench.events";
pub const QUEUE: &str = "bench.shop";
pub const DLQ: &str = "bench.shop.dlq";

/// Declares them; harmless when they are there.
pub async fn declare(amqp: &str) -> Result<()> {
    let connection = Connection::connect(amqp, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let exchange = ExchangeDeclareOptions {
        durable: true,
        ..Default::default()
    };
    channel
        .exchange_declare(
            EXCHANGE.into(),
            ExchangeKind::Topic,
            exchange,
            FieldTable::default(),
        )
        .await?;
    channel
        .queue_declare(DLQ.into(), durable, FieldTable::default())
        .await?;
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-dead-letter-exchange".into(),
        AMQPValue::LongString("".into()),
    );
    arguments.insert(
        "x-dead-letter-routing-key".into(),
        AMQPValue::LongString(DLQ.into()),
    );
    channel
        .queue_declare(QUEUE.into(), durable, arguments)
        .await?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(
            QUEUE.into(),
            EXCHANGE.into(),
            "#".into(),
            bind,
            FieldTable::default(),
        )
        .await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
