//! Rules RabbitMQ cannot be made to show on demand; everything else is in the contract suite.

use std::time::Duration;

use crate::broker::{Broker, Flow, NewQueue, Outgoing, PublishOutcome, Topology};
use crate::model::message::{FieldValue, Message, Payload};

use super::EmbeddedBroker;

fn message(body: &str) -> Message {
    Message {
        payload: Payload::new(body),
        ..Message::default()
    }
}

fn to_queue(queue: &str, message: Message) -> Outgoing {
    Outgoing {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        message,
    }
}

async fn broker(queues: Vec<NewQueue>) -> std::sync::Arc<EmbeddedBroker> {
    let broker = EmbeddedBroker::new("test");
    let topology = Topology {
        exchanges: vec!["shop.events".into()],
        queues,
    };
    broker.declare(&topology).await.expect("declares");
    broker
}

#[tokio::test]
async fn b_06_a_blocked_broker_says_after_the_deadline_that_nothing_was_sent_and_confirms_once_released()
 {
    let broker = broker(vec![NewQueue {
        name: "work".into(),
        ..NewQueue::default()
    }])
    .await;
    let publisher = broker.publisher().await.expect("publisher");
    broker.set_blocked(Some("memory"));
    assert_eq!(publisher.flow(), Flow::Blocked("memory".into()));
    let outcomes = publisher
        .publish(
            vec![to_queue("work", message("a"))],
            Duration::from_millis(5),
        )
        .await;
    assert!(matches!(&outcomes[..], [PublishOutcome::Unsent(why)] if why.contains("memory")));
    assert_eq!(
        broker.depth("work").await.expect("depth").map(|d| d.ready),
        Some(0)
    );

    let release = async {
        tokio::task::yield_now().await;
        broker.set_blocked(None);
    };
    let publish = publisher.publish(vec![to_queue("work", message("b"))], Duration::from_secs(5));
    let (outcomes, ()) = tokio::join!(publish, release);
    assert_eq!(outcomes, vec![PublishOutcome::Confirmed]);
}

#[tokio::test]
async fn an_expired_message_moves_on_without_anybody_asking_for_its_queue() {
    let retry = NewQueue {
        name: "work.retry".into(),
        message_ttl_ms: Some(20),
        dead_letter: Some((String::new(), "work".into())),
        ..NewQueue::default()
    };
    let broker = broker(vec![
        retry,
        NewQueue {
            name: "work".into(),
            ..NewQueue::default()
        },
    ])
    .await;
    let publisher = broker.publisher().await.expect("publisher");
    publisher
        .publish(
            vec![to_queue("work.retry", message("a"))],
            Duration::from_secs(1),
        )
        .await;
    let mut consumer = broker.consumer("work", 10).await.expect("consumer");
    let delivery = consumer.next().await.expect("comes by itself");
    let Some(FieldValue::Array(deaths)) = delivery.message.properties.headers.get("x-death") else {
        panic!("no typed x-death: {delivery:?}");
    };
    assert_eq!(deaths.len(), 1);
}

#[tokio::test]
async fn a_quorum_queue_gives_up_after_its_delivery_limit() {
    let work = NewQueue {
        name: "work".into(),
        is_quorum: true,
        delivery_limit: Some(2),
        dead_letter: Some((String::new(), "work.dlq".into())),
        ..NewQueue::default()
    };
    let broker = broker(vec![
        work,
        NewQueue {
            name: "work.dlq".into(),
            ..NewQueue::default()
        },
    ])
    .await;
    let publisher = broker.publisher().await.expect("publisher");
    publisher
        .publish(vec![to_queue("work", message("a"))], Duration::from_secs(1))
        .await;
    let mut consumer = broker.consumer("work", 1).await.expect("consumer");
    for _ in 0..3 {
        let delivery = consumer.next().await.expect("delivery");
        consumer.reject(delivery.tag, true).await.expect("requeues");
    }
    assert_eq!(
        broker.depth("work").await.expect("depth").map(|d| d.ready),
        Some(0)
    );
    assert_eq!(
        broker
            .depth("work.dlq")
            .await
            .expect("depth")
            .map(|d| d.ready),
        Some(1)
    );
}

#[tokio::test]
async fn b_07_a_cut_off_consumer_says_so_once_and_its_messages_come_again() {
    let broker = broker(vec![NewQueue {
        name: "work".into(),
        ..NewQueue::default()
    }])
    .await;
    let publisher = broker.publisher().await.expect("publisher");
    publisher
        .publish(vec![to_queue("work", message("a"))], Duration::from_secs(1))
        .await;
    let mut consumer = broker.consumer("work", 1).await.expect("consumer");
    let delivery = consumer.next().await.expect("delivery");
    broker.disconnect_all();
    assert!(consumer.ack(delivery.tag, false).await.is_err());
    assert!(consumer.next().await.is_err());
    let mut again = broker.consumer("work", 1).await.expect("consumer");
    assert!(again.next().await.expect("delivery").is_redelivered);
}
