//! Cases both brokers pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive::broker::deaths::{deaths, is_broker_owned, original_expiration};
use redrive::broker::{Broker, BrokerError, NewQueue, PublishOutcome, QueueDepth};
use redrive::model::message::{FieldTable, FieldValue, Payload, Properties};

use super::arena::{confirmed, consume, declare, message, next, publish, queue, ready, take};

type B = Arc<dyn Broker>;

const NO_ROUTE: &str = "312 NO_ROUTE";

pub async fn a_confirmed_message_is_in_its_queue(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    confirmed(&broker, vec![message("", "orders", "m1")]).await;
    let depth = broker.depth("orders").await.expect("a depth");
    assert_eq!(
        depth,
        Some(QueueDepth {
            ready: 1,
            consumers: 0
        })
    );
    let mut consumer = consume(&broker, "orders", 1).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.exchange, "");
    assert_eq!(delivery.routing_key, "orders");
    assert!(!delivery.is_redelivered);
    assert_eq!(delivery.message, message("", "orders", "m1").message);
    consumer
        .ack(delivery.tag, false)
        .await
        .expect("acknowledged");
    consumer.close().await;
    ready(&broker, "orders", 0).await;
}

pub async fn nothing_to_publish_is_no_outcome(broker: B) {
    assert_eq!(publish(&broker, vec![]).await, []);
}

pub async fn outcomes_keep_the_order_of_their_messages(broker: B) {
    let full = NewQueue {
        max_length: Some(1),
        ..queue("full")
    };
    declare(&broker, &["shop.events"], vec![queue("orders"), full]).await;
    confirmed(&broker, vec![message("", "full", "first")]).await;
    let mut messages = Vec::new();
    for round in 0..10 {
        messages.push(message("", "orders", &format!("a{round}")));
        messages.push(message("shop.events", "nobody", &format!("b{round}")));
        messages.push(message("", "full", &format!("c{round}")));
        messages.push(message("does.not.exist", "orders", &format!("d{round}")));
    }
    let outcomes = publish(&broker, messages).await;
    assert_eq!(outcomes.len(), 40);
    for round in outcomes.chunks(4) {
        assert_eq!(round[0], PublishOutcome::Confirmed);
        assert_eq!(round[1], PublishOutcome::Returned(NO_ROUTE.into()));
        assert_eq!(round[2], PublishOutcome::Nacked);
        assert!(
            matches!(&round[3], PublishOutcome::Refused(why) if why.contains("does.not.exist")),
            "{round:?}"
        );
    }
    ready(&broker, "orders", 10).await;
}

pub async fn b_01_a_message_nobody_listens_to_is_returned(broker: B) {
    let bound = NewQueue {
        bindings: vec![("orders".into(), "order.placed".into())],
        ..queue("billing.orders")
    };
    declare(&broker, &["orders"], vec![bound]).await;
    let outcomes = publish(
        &broker,
        vec![
            message("orders", "nobody.listens", "m1"),
            message("orders", "order.placed", "m2"),
        ],
    )
    .await;
    assert_eq!(
        outcomes,
        [
            PublishOutcome::Returned(NO_ROUTE.into()),
            PublishOutcome::Confirmed
        ]
    );
    ready(&broker, "billing.orders", 1).await;
}

pub async fn b_01_a_message_to_a_queue_that_does_not_exist_is_returned(broker: B) {
    let outcomes = publish(&broker, vec![message("", "deleted.a.minute.ago", "m1")]).await;
    assert_eq!(outcomes, [PublishOutcome::Returned(NO_ROUTE.into())]);
}

pub async fn b_01_returns_among_a_thousand_meet_their_own_messages(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let is_lost = |index: usize| index % 7 == 3;
    let messages = (0..1000)
        .map(|index| {
            let queue = if is_lost(index) { "nobody" } else { "orders" };
            message("", queue, &format!("m{index}"))
        })
        .collect();
    for (index, outcome) in publish(&broker, messages).await.iter().enumerate() {
        let expected = if is_lost(index) {
            PublishOutcome::Returned(NO_ROUTE.into())
        } else {
            PublishOutcome::Confirmed
        };
        assert_eq!(*outcome, expected, "message {index}");
    }
}

pub async fn b_03_a_missing_exchange_costs_its_own_message_only(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let batch = || {
        (0..50)
            .map(|index| {
                let exchange = if index == 17 { "does.not.exist" } else { "" };
                message(exchange, "orders", &format!("m{index}"))
            })
            .collect()
    };
    for round in 1..=2 {
        for (index, outcome) in publish(&broker, batch()).await.iter().enumerate() {
            match (index, outcome) {
                (17, PublishOutcome::Refused(why)) => {
                    assert!(why.starts_with("exchange not found"), "{why}");
                }
                (_, outcome) => assert_eq!(*outcome, PublishOutcome::Confirmed, "row {index}"),
            }
        }
        ready(&broker, "orders", round * 49).await;
    }
}

pub async fn b_04_a_full_queue_refuses_each_message(broker: B) {
    let full = NewQueue {
        max_length: Some(1),
        ..queue("full")
    };
    declare(&broker, &[], vec![full]).await;
    confirmed(&broker, vec![message("", "full", "first")]).await;
    let messages = (0..5)
        .map(|n| message("", "full", &format!("m{n}")))
        .collect();
    assert_eq!(
        publish(&broker, messages).await,
        vec![PublishOutcome::Nacked; 5]
    );
    assert_eq!(take(&broker, "full", 1).await, ["first"]);
}

pub async fn a_thousand_messages_are_confirmed_and_keep_their_order(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let ids: Vec<String> = (0..1000).map(|index| format!("m{index}")).collect();
    let messages = ids.iter().map(|id| message("", "orders", id)).collect();
    confirmed(&broker, messages).await;
    assert_eq!(take(&broker, "orders", 1000).await, ids);
}

pub async fn unacknowledged_messages_come_back_as_redelivered(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    confirmed(&broker, vec![message("", "orders", "m1")]).await;
    let mut first = consume(&broker, "orders", 10).await;
    assert!(!next(&mut first).await.is_redelivered);
    first.close().await;
    let mut second = consume(&broker, "orders", 10).await;
    let delivery = next(&mut second).await;
    assert!(delivery.is_redelivered);
    assert_eq!(delivery.message, message("", "orders", "m1").message);
    second.ack(delivery.tag, false).await.expect("acknowledged");
    second.close().await;
}

pub async fn acknowledging_up_to_a_tag_leaves_the_rest(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let messages = (0..10).map(|n| message("", "orders", &format!("m{n}")));
    confirmed(&broker, messages.collect()).await;
    let mut consumer = consume(&broker, "orders", 10).await;
    let mut tags = Vec::new();
    for _ in 0..10 {
        tags.push(next(&mut consumer).await.tag);
    }
    consumer.ack(tags[5], true).await.expect("acknowledged");
    consumer.close().await;
    ready(&broker, "orders", 4).await;
    assert_eq!(take(&broker, "orders", 4).await, ["m6", "m7", "m8", "m9"]);
}

pub async fn a_requeued_message_comes_again(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    confirmed(&broker, vec![message("", "orders", "m1")]).await;
    let mut consumer = consume(&broker, "orders", 1).await;
    let first = next(&mut consumer).await;
    consumer.reject(first.tag, true).await.expect("requeued");
    let second = next(&mut consumer).await;
    assert!(second.is_redelivered);
    assert!(second.tag > first.tag);
    consumer.ack(second.tag, false).await.expect("acknowledged");
    consumer.close().await;
}

pub async fn prefetch_bounds_what_is_out(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let messages = (0..10).map(|n| message("", "orders", &format!("m{n}")));
    confirmed(&broker, messages.collect()).await;
    let mut consumer = consume(&broker, "orders", 3).await;
    let mut last = 0;
    for _ in 0..3 {
        last = next(&mut consumer).await.tag;
    }
    let depth = broker.depth("orders").await.expect("a depth");
    assert_eq!(
        depth,
        Some(QueueDepth {
            ready: 7,
            consumers: 1
        })
    );
    consumer.ack(last, true).await.expect("acknowledged");
    assert_eq!(
        next(&mut consumer).await.message.properties.message_id,
        Some("m3".into())
    );
    consumer.close().await;
}

/// A work queue that dead-letters to its DLQ, and the exchange in front of it.
async fn with_dead_letters(broker: &B, work: NewQueue) {
    let work = NewQueue {
        name: "billing.orders".into(),
        dead_letter: Some((String::new(), "billing.orders.dlq".into())),
        bindings: vec![("orders".into(), "order.*".into())],
        ..work
    };
    declare(broker, &["orders"], vec![work, queue("billing.orders.dlq")]).await;
}

pub async fn h_03_a_rejected_message_carries_a_typed_history(broker: B) {
    with_dead_letters(&broker, NewQueue::default()).await;
    let mut sent = message("orders", "order.placed", "m1");
    sent.message
        .properties
        .headers
        .set("x-tenant", FieldValue::text("eu-1"));
    confirmed(&broker, vec![sent.clone()]).await;
    reject_next(&broker, "billing.orders").await;

    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let dead = next(&mut consumer).await;
    let headers = &dead.message.properties.headers;
    let history = deaths(headers);
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].queue, "billing.orders");
    assert_eq!(history[0].reason, "rejected");
    assert_eq!(history[0].count, 1);
    assert_eq!(history[0].exchange, "orders");
    assert_eq!(history[0].routing_keys, ["order.placed"]);
    assert!(history[0].time.is_some_and(|time| time > 1_700_000_000));
    assert_types(headers);
    let text = |name: &str| headers.get(name).and_then(FieldValue::as_text);
    assert_eq!(text("x-first-death-queue"), Some("billing.orders"));
    assert_eq!(text("x-first-death-reason"), Some("rejected"));
    assert_eq!(text("x-first-death-exchange"), Some("orders"));
    assert_eq!(dead.message.payload, sent.message.payload);
    // Without the broker's own headers it is what was sent.
    let mut stripped = dead.message.properties.clone();
    stripped.headers.take_where(is_broker_owned);
    assert_eq!(stripped, sent.message.properties);
    consumer.ack(dead.tag, false).await.expect("acknowledged");
    consumer.close().await;
}

/// The wire types RabbitMQ gives its history.
fn assert_types(headers: &FieldTable) {
    let Some(FieldValue::Array(entries)) = headers.get("x-death") else {
        panic!("x-death is not an array: {headers:?}");
    };
    let Some(FieldValue::Table(entry)) = entries.first() else {
        panic!("x-death holds no table: {headers:?}");
    };
    assert!(matches!(entry.get("count"), Some(FieldValue::I64(_))));
    assert!(matches!(entry.get("reason"), Some(FieldValue::Text(_))));
    assert!(matches!(entry.get("queue"), Some(FieldValue::Text(_))));
    assert!(matches!(entry.get("exchange"), Some(FieldValue::Text(_))));
    assert!(matches!(entry.get("time"), Some(FieldValue::Time(_))));
    assert!(matches!(
        entry.get("routing-keys"),
        Some(FieldValue::Array(_))
    ));
}

async fn reject_next(broker: &B, queue: &str) {
    let mut consumer = consume(broker, queue, 1).await;
    let delivery = next(&mut consumer).await;
    consumer
        .reject(delivery.tag, false)
        .await
        .expect("rejected");
    consumer.close().await;
}

pub async fn h_03_a_second_death_is_counted(broker: B) {
    with_dead_letters(&broker, NewQueue::default()).await;
    confirmed(&broker, vec![message("orders", "order.placed", "m1")]).await;
    reject_next(&broker, "billing.orders").await;
    // A tool that moves the message back with its headers.
    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let dead = next(&mut consumer).await;
    let mut back = message("", "billing.orders", "m1");
    back.message = dead.message;
    confirmed(&broker, vec![back]).await;
    consumer.ack(dead.tag, false).await.expect("acknowledged");
    consumer.close().await;
    reject_next(&broker, "billing.orders").await;
    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let history = deaths(&next(&mut consumer).await.message.properties.headers);
    // RabbitMQ 4 ignores a history that a client sends: it starts again at 1.
    assert!(matches!(history[0].count, 1 | 2), "{history:?}");
    assert_eq!(history[0].queue, "billing.orders");
    consumer.close().await;
}

pub async fn h_03_without_the_history_a_new_one_begins(broker: B) {
    with_dead_letters(&broker, NewQueue::default()).await;
    confirmed(&broker, vec![message("orders", "order.placed", "m1")]).await;
    reject_next(&broker, "billing.orders").await;
    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let dead = next(&mut consumer).await;
    let mut back = message("", "billing.orders", "m1");
    back.message = dead.message;
    back.message.properties.headers.take_where(is_broker_owned);
    confirmed(&broker, vec![back]).await;
    consumer.ack(dead.tag, false).await.expect("acknowledged");
    consumer.close().await;
    reject_next(&broker, "billing.orders").await;
    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let again = next(&mut consumer).await;
    let history = deaths(&again.message.properties.headers);
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].count, 1);
    assert_eq!(history[0].exchange, "");
    assert_types(&again.message.properties.headers);
    consumer.close().await;
}

pub async fn h_05_an_expired_message_loses_its_expiration(broker: B) {
    with_dead_letters(&broker, NewQueue::default()).await;
    let mut short_lived = message("orders", "order.placed", "m1");
    short_lived.message.properties.expiration = Some("30".into());
    confirmed(&broker, vec![short_lived]).await;
    let mut consumer = consume(&broker, "billing.orders.dlq", 1).await;
    let dead = next(&mut consumer).await;
    let history = deaths(&dead.message.properties.headers);
    assert_eq!(history[0].reason, "expired");
    assert_eq!(dead.message.properties.expiration, None);
    assert_eq!(
        original_expiration(&dead.message.properties.headers),
        Some("30")
    );
    consumer.close().await;
}

pub async fn h_12_a_message_comes_back_from_its_retry_queue_as_often_as_it_is_sent_there(
    broker: B,
) {
    for (work, is_quorum) in [("orders", false), ("billing", true)] {
        let name = format!("{work}.retry.50");
        let retry = NewQueue {
            is_quorum,
            dead_letter: Some((String::new(), work.to_owned())),
            message_ttl_ms: Some(50),
            ..queue(&name)
        };
        declare(&broker, &[], vec![queue(work), retry.clone()]).await;
        // A consumer that starts declares them again.
        declare(&broker, &[], vec![retry]).await;
        let mut consumer = consume(&broker, work, 1).await;
        let mut out = message("", &name, "m1");
        for round in 1..=3 {
            confirmed(&broker, vec![out.clone()]).await;
            let back = next(&mut consumer).await;
            consumer.ack(back.tag, false).await.expect("acknowledged");
            let history = deaths(&back.message.properties.headers);
            let told: Vec<_> = history
                .iter()
                .map(|death| (death.queue.as_str(), death.reason.as_str(), death.count))
                .collect();
            assert_eq!(told, [(name.as_str(), "expired", round)]);
            let origin = redrive::model::dead_letter::origin(&history);
            assert_eq!(origin.failed_queue.as_deref(), Some(work));
            // The history goes along: it counts the waits, and the broker sees no cycle in it.
            out.message = back.message;
        }
        consumer.close().await;
    }
}

pub async fn b_10_a_delivery_limit_ends_a_requeue_loop(broker: B) {
    let work = NewQueue {
        is_quorum: true,
        delivery_limit: Some(2),
        ..NewQueue::default()
    };
    with_dead_letters(&broker, work).await;
    confirmed(&broker, vec![message("orders", "order.placed", "m1")]).await;
    let mut consumer = consume(&broker, "billing.orders", 1).await;
    for deliveries in 0..3 {
        let delivery = next(&mut consumer).await;
        let counted = delivery
            .message
            .properties
            .headers
            .get("x-delivery-count")
            .and_then(FieldValue::as_i64);
        assert_eq!(counted.unwrap_or(0), deliveries);
        consumer.reject(delivery.tag, true).await.expect("requeued");
    }
    let mut dlq = consume(&broker, "billing.orders.dlq", 1).await;
    let history = deaths(&next(&mut dlq).await.message.properties.headers);
    assert_eq!(history[0].reason, "delivery_limit");
    consumer.close().await;
    dlq.close().await;
}

fn with_copy(to: &str, copy: &str) -> redrive::broker::Outgoing {
    let mut sent = message("", to, "m1");
    sent.message
        .properties
        .headers
        .set("CC", FieldValue::Array(vec![FieldValue::text(copy)]));
    sent
}

pub async fn h_02_a_carbon_copy_reaches_its_queue(broker: B) {
    declare(
        &broker,
        &[],
        vec![queue("billing.orders"), queue("audit.orders")],
    )
    .await;
    confirmed(&broker, vec![with_copy("billing.orders", "audit.orders")]).await;
    ready(&broker, "billing.orders", 1).await;
    ready(&broker, "audit.orders", 1).await;
}

pub async fn h_02_a_carbon_copy_header_survives_a_death_without_its_own_key(broker: B) {
    let bound = |name: &str, key: &str| NewQueue {
        bindings: vec![("dlx".into(), key.into())],
        ..queue(name)
    };
    let work = NewQueue {
        dead_letter: Some(("dlx".into(), String::new())),
        ..queue("billing.orders")
    };
    declare(
        &broker,
        &["dlx"],
        vec![work, bound("dead", "billing.orders"), queue("audit.orders")],
    )
    .await;
    confirmed(&broker, vec![with_copy("billing.orders", "audit.orders")]).await;
    reject_next(&broker, "billing.orders").await;
    let mut consumer = consume(&broker, "dead", 1).await;
    let dead = next(&mut consumer).await;
    assert_eq!(
        dead.message.properties.headers.get("CC"),
        Some(&FieldValue::Array(vec![FieldValue::text("audit.orders")]))
    );
    assert_eq!(
        deaths(&dead.message.properties.headers)[0].routing_keys,
        ["billing.orders", "audit.orders"]
    );
    consumer.close().await;
}

/// One header of every type the wire knows (H-08).
fn every_header() -> FieldTable {
    let table = |fields: Vec<(&str, FieldValue)>| {
        let owned = fields.into_iter().map(|(k, v)| (k.to_owned(), v));
        FieldValue::Table(owned.collect())
    };
    let nested = table(vec![(
        "b",
        FieldValue::Array(vec![
            FieldValue::I32(1),
            FieldValue::text("x"),
            FieldValue::Void,
        ]),
    )]);
    [
        ("b", FieldValue::I8(-5)),
        ("B", FieldValue::U8(251)),
        ("s", FieldValue::I16(-300)),
        ("u", FieldValue::U16(65_000)),
        ("I", FieldValue::I32(-7)),
        ("i", FieldValue::U32(4_000_000_000)),
        ("l", FieldValue::I64(i64::MIN / 2)),
        ("f", FieldValue::F32Bits(0x3fc0_0000)),
        ("d", FieldValue::F64Bits(0x3fb9_9999_9999_999a)),
        (
            "D",
            FieldValue::Decimal {
                scale: 2,
                value: 0xffff_f831,
            },
        ),
        ("T", FieldValue::Time(0x6957_35a5)),
        ("x", FieldValue::Bytes(vec![0, 0xff, 0x80])),
        ("S", FieldValue::TextBytes(vec![0xff, 0xfe, 0])),
        ("text", FieldValue::text("заказ ✓")),
        ("V", FieldValue::Void),
        ("t", FieldValue::Bool(true)),
        ("A", FieldValue::Array(vec![])),
        ("F", table(vec![])),
        ("nested", table(vec![("a", nested)])),
        (
            "traceparent",
            FieldValue::text("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Headers have no order on the wire.
fn sorted(headers: &FieldTable) -> BTreeMap<String, FieldValue> {
    headers
        .iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

pub async fn h_06_every_property_and_header_type_arrives_as_it_was(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let mut sent = message("", "orders", "m1");
    sent.message.properties = Properties {
        content_type: Some("application/vnd.acme.order+json;v=2".into()),
        content_encoding: Some("gzip".into()),
        headers: every_header(),
        delivery_mode: Some(2),
        priority: Some(7),
        correlation_id: Some("corr-77".into()),
        reply_to: Some("answers".into()),
        expiration: Some("600000".into()),
        message_id: Some("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11".into()),
        timestamp: Some(1_767_323_045),
        kind: Some("order.placed".into()),
        user_id: broker.user(),
        app_id: Some("shop-web".into()),
        cluster_id: Some("c1".into()),
    };
    confirmed(&broker, vec![sent.clone()]).await;
    let mut consumer = consume(&broker, "orders", 1).await;
    let mut got = next(&mut consumer).await.message.properties;
    assert_eq!(
        sorted(&got.headers),
        sorted(&sent.message.properties.headers)
    );
    got.headers = sent.message.properties.headers.clone();
    assert_eq!(got, sent.message.properties);
    consumer.close().await;
}

pub async fn h_06_a_message_without_properties_stays_without(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let mut sent = message("", "orders", "m1");
    sent.message.properties = Properties::default();
    confirmed(&broker, vec![sent]).await;
    let mut consumer = consume(&broker, "orders", 1).await;
    assert_eq!(
        next(&mut consumer).await.message.properties,
        Properties::default()
    );
    consumer.close().await;
}

pub async fn p_01_payload_bytes_arrive_as_they_were(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    let bytes = |length: usize| -> Vec<u8> {
        (0..length)
            .map(|index| u8::try_from(index * 31 % 251).expect("below 251") ^ 0x80)
            .collect()
    };
    // Around the sizes of a column and of a frame (P-07).
    for length in [
        0, 1, 21, 65_535, 65_536, 131_063, 131_064, 131_065, 1_048_577,
    ] {
        let mut sent = message("", "orders", "m1");
        sent.message.payload = Payload::new(bytes(length));
        confirmed(&broker, vec![sent.clone()]).await;
        let mut consumer = consume(&broker, "orders", 1).await;
        let delivery = next(&mut consumer).await;
        assert!(
            delivery.message.payload == sent.message.payload,
            "{length} bytes"
        );
        consumer
            .ack(delivery.tag, false)
            .await
            .expect("acknowledged");
        consumer.close().await;
    }
}

pub async fn n_01_n_05_n_07_odd_names_name_their_own_queue(broker: B) {
    let longest = format!("{}x", "é".repeat(127));
    let names = [
        "orders/eu",
        "a b",
        "q?x=1#f",
        "q%2Fx",
        "q/x",
        "a+b",
        "%",
        "café",
        "заказы",
        "q:[x]",
        "tab\tx",
        "注文🧾.dlq",
        "ｶﾞ.queue",
        "👩‍🔬-lab",
        "e\u{301}tat",
        "\u{202e}qld.sredro",
        "or\u{200b}ders.dlq",
        "orders.dlq",
        "..x",
        longest.as_str(),
    ];
    declare(&broker, &[], names.iter().map(|name| queue(name)).collect()).await;
    let messages = names.iter().map(|name| message("", name, name));
    confirmed(&broker, messages.collect()).await;
    for name in names {
        ready(&broker, name, 1).await;
        let facts = broker.queue(name).await.expect("an answer");
        assert_eq!(facts.map(|facts| facts.name).as_deref(), Some(name));
        let mut consumer = consume(&broker, name, 1).await;
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.message.payload.bytes(), name.as_bytes());
        consumer.close().await;
    }
    assert_eq!(broker.queue("q%2fx").await, Ok(None));
}

pub async fn the_depth_of_an_unknown_queue_is_no_depth(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    for _ in 0..3 {
        assert_eq!(broker.depth("nobody").await, Ok(None));
        assert!(matches!(broker.depth("orders").await, Ok(Some(_))));
    }
    assert_eq!(broker.queue("nobody").await, Ok(None));
}

pub async fn declaring_twice_changes_nothing(broker: B) {
    for _ in 0..2 {
        with_dead_letters(&broker, NewQueue::default()).await;
        confirmed(&broker, vec![message("orders", "order.placed", "m1")]).await;
    }
    ready(&broker, "billing.orders", 2).await;
}

pub async fn r_03_bindings_tell_who_else_would_get_a_message(broker: B) {
    let bound = |name: &str, key: &str| NewQueue {
        bindings: vec![("orders".into(), key.into())],
        ..queue(name)
    };
    declare(
        &broker,
        &["orders", "unused"],
        vec![
            bound("billing.orders", "order.placed"),
            bound("audit.orders", "order.#"),
        ],
    )
    .await;
    let mut bindings = broker.bindings("orders").await.expect("bindings");
    bindings.sort_by(|a, b| a.destination.cmp(&b.destination));
    let shown: Vec<_> = bindings
        .iter()
        .map(|b| {
            (
                b.destination.as_str(),
                b.routing_key.as_str(),
                b.is_to_queue,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("audit.orders", "order.#", true),
            ("billing.orders", "order.placed", true)
        ]
    );
    assert_eq!(broker.bindings("unused").await, Ok(vec![]));
    assert!(matches!(
        broker.bindings("nobody").await,
        Err(BrokerError::NotFound(_))
    ));
}

pub async fn queues_come_in_pages_by_name(broker: B) {
    let names: Vec<String> = (0..5).map(|index| format!("q{index}")).collect();
    declare(
        &broker,
        &[],
        names.iter().rev().map(|name| queue(name)).collect(),
    )
    .await;
    let mut seen = Vec::new();
    for page in 1..=3 {
        let page = broker.queues(page, 2).await.expect("a page");
        assert_eq!(page.total, Some(5));
        assert!(!page.statistics_off);
        seen.extend(page.queues.into_iter().map(|queue| queue.name));
    }
    assert_eq!(seen, names);
    assert_eq!(broker.queues(9, 2).await.expect("a page").queues, []);
}

pub async fn a_subscription_to_a_missing_queue_is_refused(broker: B) {
    declare(&broker, &[], vec![queue("orders")]).await;
    confirmed(&broker, vec![message("", "orders", "m1")]).await;
    let mut good = consume(&broker, "orders", 1).await;
    for _ in 0..5 {
        let refused = broker.consumer("nobody", 1).await.err();
        assert!(
            matches!(refused, Some(BrokerError::NotFound(_))),
            "{refused:?}"
        );
    }
    // The one that works is not disturbed.
    let delivery = next(&mut good).await;
    good.ack(delivery.tag, false).await.expect("acknowledged");
    good.close().await;
}
