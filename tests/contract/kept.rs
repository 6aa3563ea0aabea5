//! A failed event on a real broker whose dead-letter queue is full: the broker's own dead-lettering would
//! lose it without a word.

use std::sync::Arc;

use async_trait::async_trait;
use redrive::base::backoff::Backoff;
use redrive::base::clock::Clock;
use redrive::broker::NewQueue;
use redrive::pipeline::Worker as _;
use redrive::pipeline::consumer::{Consumer, ConsumerSettings, Handler, Outcome, Received};
use redrive::store::BusinessTx;

use super::broker::arena::{Arena, PATIENCE, confirmed, declare, message, take};
use super::store::fixture::{Fixture, native};

const QUEUE: &str = "inventory.orders";
const DEAD: &str = "inventory.orders.dlq";

/// Fails for good.
struct Never;

#[async_trait]
impl Handler for Never {
    async fn handle(&self, _: &Received, _: &mut dyn BusinessTx) -> Outcome {
        Outcome::Permanent {
            class: "bad".to_owned(),
            error: "bad".to_owned(),
        }
    }
}

/// Passes until something is counted, e.g. `held`.
async fn until(consumer: &mut Consumer, counter: &str) {
    let passes = async { while consumer.run_once().await.get(counter) == 0 {} };
    tokio::time::timeout(PATIENCE, passes)
        .await
        .unwrap_or_else(|_| panic!("nothing {counter}"));
}

async fn kept_until_there_is_room(arena: Arena) {
    let fixture = Fixture::sqlite().await;
    let service = native("sqlite::memory:");
    let settings = ConsumerSettings {
        backoff: Backoff {
            base: std::time::Duration::from_millis(10),
            cap: std::time::Duration::from_millis(100),
        },
        dead_letter_queue: Some(DEAD.to_owned()),
        ..ConsumerSettings::of(&service)
    };
    arena
        .run(|broker| async move {
            let queues = vec![
                NewQueue {
                    name: DEAD.to_owned(),
                    max_length: Some(1),
                    ..NewQueue::default()
                },
                NewQueue {
                    name: QUEUE.to_owned(),
                    dead_letter: Some((String::new(), DEAD.to_owned())),
                    ..NewQueue::default()
                },
            ];
            declare(&broker, &[], queues).await;
            confirmed(&broker, vec![message("", DEAD, "in the way")]).await;
            confirmed(&broker, vec![message("", QUEUE, "e-1")]).await;
            let handler: Arc<dyn Handler> = Arc::new(Never);
            let ports = (fixture.another(), Arc::clone(&broker));
            let work = (handler, settings);
            let mut consumer =
                Consumer::with_settings(&service, ports, &Clock::System, work).expect("an inbox");
            until(&mut consumer, "held").await;
            assert_eq!(take(&broker, DEAD, 1).await, ["in the way"]);
            until(&mut consumer, "dead").await;
            assert_eq!(take(&broker, DEAD, 1).await, ["e-1"]);
            consumer.drain().await;
            fixture.drop_database().await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_rabbitmq_an_event_that_cannot_be_buried_is_kept() {
    kept_until_there_is_room(Arena::rabbitmq("kept").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_broker_an_event_that_cannot_be_buried_is_kept() {
    kept_until_there_is_room(Arena::embedded()).await;
}
