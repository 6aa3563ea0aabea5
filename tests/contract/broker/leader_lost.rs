//! A quorum queue whose leader's node is gone, on a cluster of the test's own.

use std::sync::Arc;
use std::time::Duration;

use redrive::base::secret::SecretUrl;
use redrive::broker::rabbitmq::{Limits, RabbitBroker};
use redrive::broker::{Broker, BrokerError, NewQueue, PublishOutcome};
use tokio::time::{Instant, interval};

use super::arena::{PATIENCE, confirmed, declare, message, queue};
use super::node::{FIRST, Node, Wanted};

fn at(url: String) -> Arc<dyn Broker> {
    RabbitBroker::new(Some(&SecretUrl::new(url)), None, Limits::default()).expect("a valid URL")
}

/// A channel whose first message found the leader's node down is refused by 3.10.8 as long as it is down, whoever
/// leads by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_met_a_dead_leader_goes_on_at_the_new_one() {
    let node = Node::start_with(Wanted {
        nodes: 3,
        ..Wanted::NODE
    })
    .await;
    let (second, third) = ("rabbitmq-2", "rabbitmq-3");
    let broker = at(node.control(&["url", FIRST]).await);
    let work = NewQueue {
        is_quorum: true,
        ..queue("work")
    };
    declare(&broker, &[], vec![work, queue("classic")]).await;
    confirmed(&broker, vec![message("", "work", "before")]).await;
    broker.close().await;

    let survivor = at(node.control(&["url", second]).await);
    let publisher = survivor.publisher().await.expect("a publisher");
    node.kill(&[FIRST, third]).await;
    let send = |id: &str| publisher.publish(vec![message("", "work", id)], PATIENCE);
    let outcomes = send("without a majority").await;
    assert!(
        matches!(
            outcomes[..],
            [PublishOutcome::Nacked | PublishOutcome::Unknown(_)]
        ),
        "{outcomes:?}"
    );

    // A queue without other members is there, and not known; the broker's code for it is that of one that is not.
    let depth = survivor.depth("classic").await;
    assert!(
        matches!(&depth, Err(BrokerError::Unavailable(why)) if why.contains("classic")),
        "{depth:?}"
    );
    assert_eq!(survivor.depth("nowhere").await, Ok(None));

    // Two of three can choose a leader; the one that led stays away.
    node.restart(&[third]).await;
    let mut ticks = interval(Duration::from_millis(200));
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let outcomes = send("with a majority").await;
        if outcomes == [PublishOutcome::Confirmed] {
            break;
        }
        assert!(Instant::now() < until, "still refused: {outcomes:?}");
        ticks.tick().await;
    }
    survivor.close().await;
    node.stop().await;
}
