//! A broker that stops reading (B-06), on a node of its own.

use std::time::Duration;

use redrive::base::secret::SecretUrl;
use redrive::broker::rabbitmq::{Limits, RabbitBroker};
use redrive::broker::{Flow, PublishOutcome};

use super::arena::{PATIENCE, confirmed, consume, declare, message, next, queue, ready};
use super::node::Node;

#[tokio::test(flavor = "multi_thread")]
async fn b_06_a_blocked_broker_is_told_and_holds_nobody_beyond_the_deadline() {
    let node = Node::start().await;
    let broker = RabbitBroker::new(
        Some(&SecretUrl::new(node.variable("REDRIVE_TEST_AMQP_URL"))),
        Some(&SecretUrl::new(
            node.variable("REDRIVE_TEST_MANAGEMENT_URL"),
        )),
        Limits::default(),
    )
    .expect("valid URLs");
    declare(&broker, &[], vec![queue("orders")]).await;
    confirmed(&broker, vec![message("", "orders", "before")]).await;
    let publisher = broker.publisher().await.expect("a publisher");
    assert_eq!(publisher.flow(), Flow::Open);
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "1MB"])
        .await;

    // The first publish under the alarm makes the broker say so; its outcome is not known.
    let deadline = Duration::from_secs(2);
    let batch = || (0..20).map(|n| message("", "orders", &format!("m{n}")));
    let outcomes = publisher.publish(batch().collect(), deadline).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, PublishOutcome::Unknown(_))),
        "{outcomes:?}"
    );
    let Flow::Blocked(reason) = publisher.flow() else {
        panic!("blocked: {:?}", publisher.flow());
    };
    assert!(reason.contains("memory"), "{reason}");
    assert_eq!(broker.flow(), Flow::Blocked(reason));
    // What comes later is not sent at all, so that it cannot go out twice.
    let outcomes = publisher.publish(batch().collect(), deadline).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(
            outcome,
            PublishOutcome::Unsent(why) if why.contains("blocked") && why.contains("memory")
        )),
        "{outcomes:?}"
    );
    // Consuming and asking go on, and the nodes' alarm is told.
    let mut consumer = consume(&broker, "orders", 1).await;
    let delivery = next(&mut consumer).await;
    consumer
        .ack(delivery.tag, false)
        .await
        .expect("acknowledged");
    let nodes = broker.overview().await.expect("an overview").nodes;
    assert_eq!(nodes.expect("nodes")[0].memory_alarm, Some(true));

    node.ctl(&["set_vm_memory_high_watermark", "0.4"]).await;
    let outcomes = publisher.publish(batch().collect(), PATIENCE).await;
    assert_eq!(outcomes, vec![PublishOutcome::Confirmed; 20]);
    assert_eq!(publisher.flow(), Flow::Open);
    consumer.close().await;
    // Twenty that were truly under way, and twenty that were sent again.
    ready(&broker, "orders", 40).await;
    broker.close().await;
    node.stop().await;
}
