//! The shop's consumer, well behaved or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use lapin::Connection;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use sqlx::MySqlPool;

use super::super::shop::{QUEUE, Shop, take_effect};

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Accepts an event with a sku, rejects any other.
    Works,
    /// Accepts every event.
    Mended,
    /// As it works, but takes this long for each.
    Slow(Duration),
    /// Takes one and never comes back to it.
    Hangs,
    /// Gives everything back at once.
    GivesBack,
    /// Commits the effect, and loses its connection before the acknowledgement.
    LosesItsAck,
}

/// A consumer that is attached until it is told to leave.
pub struct Consumer {
    connection: Connection,
    taken: Arc<AtomicUsize>,
    work: tokio::task::JoinSet<()>,
}

impl Consumer {
    /// Attaches one to the shop's queue.
    pub async fn attach(shop: &Shop, manner: Manner) -> Self {
        let (connection, channel) = shop.channel().await;
        let qos = BasicQosOptions::default();
        channel.basic_qos(1, qos).await.expect("a prefetch");
        let options = BasicConsumeOptions::default();
        let tag = "story".into();
        let mut deliveries = channel
            .basic_consume(QUEUE.into(), tag, options, FieldTable::default())
            .await
            .expect("consumes");
        let inbox = shop.inventory.clone();
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let mut work = tokio::task::JoinSet::new();
        work.spawn(async move {
            let mut held = Vec::new();
            let mut pace = tokio::time::interval(match manner {
                Manner::Slow(each) => each,
                // A loop that is hot enough to be seen, and leaves the machine to the others.
                _ => Duration::from_millis(5),
            });
            while let Some(Ok(delivery)) = deliveries.next().await {
                counter.fetch_add(1, Ordering::AcqRel);
                match manner {
                    Manner::Hangs => held.push(delivery),
                    Manner::LosesItsAck => {
                        effect(&inbox, &delivery).await;
                        drop(channel.close(200, "lost".into()).await);
                        return;
                    }
                    Manner::GivesBack => {
                        pace.tick().await;
                        let again = BasicRejectOptions { requeue: true };
                        drop(delivery.acker.reject(again).await);
                    }
                    Manner::Slow(_) => {
                        pace.tick().await;
                        consume(&inbox, delivery, true).await;
                    }
                    Manner::Works => {
                        let has_sku = delivery.data.windows(5).any(|part| part == b"\"sku\"");
                        consume(&inbox, delivery, has_sku).await;
                    }
                    Manner::Mended => consume(&inbox, delivery, true).await,
                }
            }
        });
        Self {
            connection,
            taken,
            work,
        }
    }

    /// Messages it was given so far.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Closes its connection; what it has not acknowledged goes back to the queue.
    pub async fn leave(self) {
        drop(self.connection.close(200, "OK".into()).await);
        // It ends with its connection.
        self.work.join_all().await;
    }
}

async fn consume(inbox: &MySqlPool, delivery: Delivery, is_accepted: bool) {
    if is_accepted {
        effect(inbox, &delivery).await;
        drop(delivery.acker.ack(BasicAckOptions::default()).await);
    } else {
        let dead = BasicRejectOptions { requeue: false };
        drop(delivery.acker.reject(dead).await);
    }
}

/// Inbox row and effect, once however often the event comes.
async fn effect(inbox: &MySqlPool, delivery: &Delivery) {
    let id = delivery.properties.message_id().as_ref();
    let id = id.map(ToString::to_string).unwrap_or_default();
    take_effect(inbox, &id, &delivery.data).await;
}
