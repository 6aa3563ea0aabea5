//! A replay is still there when it is needed: it does not expire, and the broker may be killed.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::node::{FIRST, Node};
use super::redrive::replay;
use super::shop::{DLQ, OTHER_QUEUE, QUEUE, Seen, Servers, Shop, until};

const BODY: &[u8] = br#"{"order_id":4711}"#;

fn properties(id: &str) -> BasicProperties {
    BasicProperties::default().with_message_id(id.into())
}

/// Time to live of the messages, in milliseconds.
const TTL: &str = "3000";

fn original_expiration(seen: &Seen) -> Option<String> {
    let headers = seen.headers();
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else {
        return None;
    };
    let AMQPValue::FieldTable(death) = deaths.as_slice().first()? else {
        return None;
    };
    match death.inner().get("original-expiration")? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h_05_a_replay_outlives_the_expiration_its_message_had() {
    let shop = Shop::open("outlives").await;
    let console = &shop.console;
    // (a) the broker itself dead-letters it: the property goes, the death record keeps it.
    let expiring = properties("e-a").with_expiration(TTL.into());
    shop.put(QUEUE, &[(expiring, BODY)]).await;
    shop.consume_at_least(1, false).await;
    shop.arrives(DLQ, 1).await;
    let (_connection, channel) = shop.channel().await;
    let peeked = channel
        .basic_get(DLQ.into(), lapin::options::BasicGetOptions::default())
        .await
        .expect("readable")
        .expect("a dead letter");
    let peeked = Seen {
        properties: peeked.delivery.properties.clone(),
        body: peeked.delivery.data.clone(),
        exchange: String::new(),
        is_accepted: false,
    };
    assert_eq!(original_expiration(&peeked).as_deref(), Some(TTL));
    assert_eq!(*peeked.properties.expiration(), None);
    channel.close(200, "OK".into()).await.expect("given back");
    shop.collect(1).await;
    // (b) a consumer library publishes to its error queue: no death record, and the property.
    let mut collector = console.start_worker(&["collector"], "");
    let expiring = properties("e-b").with_expiration(TTL.into());
    shop.put(DLQ, &[(expiring, BODY)]).await;
    until("both collected", || async {
        shop.count("SELECT COUNT(*) FROM dead_letters").await == 2
    })
    .await;
    collector.kill().await.expect("stopped");

    for id in ["e-a", "e-b"] {
        let applied = console.run(&replay(id, &[])).await;
        assert_eq!(applied["complete"], true);
    }
    shop.arrives(QUEUE, 2).await;
    // A message with the same time to live, sent after both, expires before we look.
    let control = properties("control").with_expiration(TTL.into());
    shop.take(OTHER_QUEUE).await;
    shop.put(OTHER_QUEUE, &[(control, BODY)]).await;
    shop.arrives(OTHER_QUEUE, 0).await;
    assert_eq!(shop.depth(QUEUE).await, 2, "both are still there");
    for seen in shop.take(QUEUE).await {
        assert_eq!(*seen.properties.expiration(), None);
        assert_eq!(seen.body, BODY);
    }
    console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h_13_a_replay_survives_the_broker_whatever_mode_its_message_had() {
    let node = Node::start().await;
    let mut shop = Shop::open_on("persistent", Servers::of(&node)).await;
    // A quorum queue keeps everything; a classic one only what is persistent.
    shop.make_queue_classic().await;
    // The broker writes a definition down some time after it has answered: one that was killed within the
    // second has forgotten the queue, and what that queue kept is not what this is about.
    node.ctl(&["eval", "mnesia:sync_log()."]).await;
    let transient = properties("e-transient").with_delivery_mode(1);
    shop.put(
        QUEUE,
        &[(transient.clone(), BODY), (properties("e-absent"), BODY)],
    )
    .await;
    assert_eq!(shop.consume_at_least(2, false).await.len(), 2);
    shop.collect(2).await;
    for id in ["e-transient", "e-absent"] {
        shop.console.run(&replay(id, &[])).await;
    }
    // What the broker forgets: the same message as the producer had sent it.
    shop.put(QUEUE, &[(transient, BODY)]).await;
    shop.arrives(QUEUE, 3).await;
    node.kill(&[FIRST]).await;
    node.restart(&[FIRST]).await;
    shop.reconnect().await;
    shop.arrives(QUEUE, 2).await;
    let seen = shop.take(QUEUE).await;
    let ids: Vec<_> = seen.iter().map(Seen::message_id).collect();
    assert_eq!(ids, ["e-transient", "e-absent"]);
    for seen in &seen {
        assert_eq!(*seen.properties.delivery_mode(), Some(2));
    }
    let audit = shop.console.run(&["audit"]).await.to_string();
    assert!(audit.contains("delivery_mode"), "recorded: {audit}");
    shop.console.verify_audit().await;
    shop.close().await;
    node.stop().await;
}
