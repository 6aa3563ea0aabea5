//! What only the real broker can show: refusals that close channels, lost connections, other clients'
//! objects, virtual hosts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive::broker::{Broker, BrokerError, Flow, Outgoing, PublishOutcome};
use redrive::model::message::{FieldTable, FieldValue};

use super::arena::{
    PATIENCE, Vhost, confirmed, consume, declare, message, next, publish, queue, ready, take,
};

/// A virtual host with one queue, `orders`.
async fn vhost(test: &str) -> (Vhost, Arc<dyn Broker>) {
    let vhost = Vhost::create(&format!("redrive {test} {}", std::process::id())).await;
    let broker = vhost.broker();
    declare(&broker, &[], vec![queue("orders")]).await;
    (vhost, broker)
}

async fn end(vhost: Vhost, broker: Arc<dyn Broker>) {
    broker.close().await;
    vhost.delete().await;
}

fn batch(count: usize) -> Vec<Outgoing> {
    (0..count)
        .map(|index| message("", "orders", &format!("m{index}")))
        .collect()
}

/// Asserts that every outcome but `index` is a confirm, and returns why that one was refused.
fn refused_alone(outcomes: &[PublishOutcome], index: usize) -> String {
    for (row, outcome) in outcomes.iter().enumerate() {
        if row != index {
            assert_eq!(*outcome, PublishOutcome::Confirmed, "row {row}");
        }
    }
    match &outcomes[index] {
        PublishOutcome::Refused(why) => why.clone(),
        other => panic!("row {index}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h_01_another_users_message_is_refused_and_nine_others_go_out_once() {
    let (vhost, broker) = vhost("h01").await;
    let mut messages = batch(10);
    messages[4].message.properties.user_id = Some("orders-svc".into());
    messages[5].message.properties.user_id = broker.user();
    let why = refused_alone(&publish(&broker, messages).await, 4);
    assert!(why.contains("orders-svc"), "{why}");
    ready(&broker, "orders", 9).await;
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h_10_headers_too_large_for_a_frame_cost_nothing_but_their_message() {
    let (vhost, broker) = vhost("h10").await;
    assert_eq!(broker.frame_max(), 131_072);
    let mut messages = batch(10);
    for (index, length) in [(2, 130_500), (3, 130_900), (4, 131_200)] {
        let trace = FieldValue::text("s".repeat(length));
        let headers = &mut messages[index].message.properties.headers;
        headers.set("x-exception-stacktrace", trace);
    }
    let publisher = broker.publisher().await.expect("a publisher");
    let why = refused_alone(&publisher.publish(messages, PATIENCE).await, 4);
    assert!(
        why.starts_with("headers too large to republish (131,2") && why.ends_with("of 131,064)"),
        "{why}"
    );
    // The largest that the size check lets through does fit.
    let mut largest = batch(1);
    let room = 131_064 - redrive::broker::wire::header_bytes(&largest[0].message.properties);
    // Table length, name length, name, type, text length.
    let text = "s".repeat(room - (4 + 1 + 1 + 1 + 4));
    let headers = &mut largest[0].message.properties.headers;
    headers.set("h", FieldValue::text(text));
    assert_eq!(
        redrive::broker::wire::header_bytes(&largest[0].message.properties),
        131_064
    );
    assert_eq!(
        publisher.publish(largest, PATIENCE).await,
        [PublishOutcome::Confirmed]
    );
    ready(&broker, "orders", 10).await;
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_03_an_exchange_deleted_under_way_is_found_and_its_neighbours_go_out() {
    let (vhost, broker) = vhost("b03").await;
    declare(&broker, &["gone"], vec![]).await;
    let publisher = broker.publisher().await.expect("a publisher");
    // Seen once, so that only the broker's refusal can tell that it is gone.
    let seen = publisher
        .publish(vec![message("gone", "x", "m")], PATIENCE)
        .await;
    assert_eq!(seen, [PublishOutcome::Returned("312 NO_ROUTE".into())]);
    vhost.remove(&["exchanges", &vhost.name, "gone"]).await;

    let mut messages = batch(50);
    messages[17].exchange = "gone".into();
    let outcomes = publisher.publish(messages.clone(), PATIENCE).await;
    let why = refused_alone(&outcomes, 17);
    assert!(
        why.starts_with("exchange not found") && why.contains("gone"),
        "{why}"
    );
    let depth = broker.depth("orders").await.expect("depth").expect("queue");
    let count = usize::try_from(depth.ready).expect("small");
    let mut seen: HashMap<String, usize> = HashMap::new();
    for id in take(&broker, "orders", count).await {
        *seen.entry(id).or_default() += 1;
    }
    assert_eq!(seen.len(), 49);
    assert!(seen.values().all(|times| (1..=2).contains(times)));
    // Row 17 does not stop the next batch, and is known by now.
    let outcomes = publisher.publish(messages, PATIENCE).await;
    assert!(refused_alone(&outcomes, 17).starts_with("exchange not found"));
    ready(&broker, "orders", 49).await;
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_03_an_exchange_one_may_not_write_to_is_refused_alone() {
    let (vhost, admin) = vhost("b03 denied").await;
    declare(&admin, &["secret"], vec![]).await;
    let user = format!("writer-{}", std::process::id());
    let account = r#"{"password":"pw","tags":""}"#;
    vhost.put(&["users", &user], account).await;
    vhost.permit(&user, "^(orders|amq\\.default)$").await;
    let broker = vhost.broker_as(&user, "pw");

    let mut messages = batch(600);
    for index in [100, 101, 400] {
        messages[index].exchange = "secret".into();
    }
    let outcomes = publish(&broker, messages).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        match outcome {
            PublishOutcome::Refused(why) if [100, 101, 400].contains(&index) => {
                assert!(why.contains("403") && why.contains("secret"), "{why}");
            }
            other => assert_eq!(*other, PublishOutcome::Confirmed, "row {index}"),
        }
    }
    broker.close().await;
    vhost.remove(&["users", &user]).await;
    end(vhost, admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_07_a_lost_connection_is_told_once_and_everything_comes_back() {
    let (vhost, broker) = vhost("b07").await;
    let publisher = broker.publisher().await.expect("a publisher");
    assert_eq!(broker.flow(), Flow::Open);
    confirmed(&broker, batch(1)).await;
    let mut consumer = consume(&broker, "orders", 10).await;
    let first = next(&mut consumer).await;

    vhost
        .ctl(&["close_all_connections", "--vhost", &vhost.name, "drill"])
        .await;
    let lost = tokio::time::timeout(PATIENCE, consumer.next())
        .await
        .expect("it is told");
    assert!(
        matches!(&lost, Err(BrokerError::Unavailable(_))),
        "{lost:?}"
    );
    assert!(consumer.next().await.is_err());
    assert!(
        consumer.ack(first.tag, false).await.is_err(),
        "a tag of a lost channel is worthless"
    );
    // The same publisher and broker go on.
    let outcomes = publisher.publish(batch(5), PATIENCE).await;
    assert_eq!(outcomes, vec![PublishOutcome::Confirmed; 5]);
    let mut consumer = consume(&broker, "orders", 10).await;
    let again = next(&mut consumer).await;
    assert!(again.is_redelivered);
    consumer.close().await;
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_07_messages_under_way_when_the_connection_is_lost_are_never_invented() {
    let (vhost, broker) = vhost("b07 publish").await;
    let publisher = broker.publisher().await.expect("a publisher");
    let is_cut = AtomicBool::new(false);
    let publishing = async {
        let mut outcomes = Vec::new();
        while !is_cut.load(Ordering::SeqCst) {
            outcomes.extend(publisher.publish(batch(500), PATIENCE).await);
        }
        outcomes
    };
    let cutting = async {
        let arguments = ["close_all_connections", "--vhost", &vhost.name, "drill"];
        for _ in 0..2 {
            vhost.ctl(&arguments).await;
        }
        is_cut.store(true, Ordering::SeqCst);
    };
    let (outcomes, ()) = tokio::join!(publishing, cutting);
    let count = |wanted: fn(&PublishOutcome) -> bool| -> u64 {
        outcomes.iter().filter(|o| wanted(o)).count() as u64
    };
    let confirmed = count(|o| *o == PublishOutcome::Confirmed);
    let unknown = count(|o| matches!(o, PublishOutcome::Unknown(_)));
    let unsent = count(|o| {
        matches!(o, PublishOutcome::Unsent(why)
            if why.contains("before it was sent") || why.contains("not reachable"))
    });
    assert_eq!(confirmed + unknown + unsent, outcomes.len() as u64);
    let ready = broker.depth("orders").await.expect("depth").expect("queue");
    assert!(
        (confirmed..=confirmed + unknown).contains(&ready.ready),
        "{confirmed} confirmed, {unknown} unknown, {} stored",
        ready.ready
    );
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_08_a_missing_queue_opens_no_more_connections_or_channels() {
    let (vhost, broker) = vhost("b08").await;
    declare(&broker, &[], vec![queue("a.dlq"), queue("b.dlq")]).await;
    let mut good = Vec::new();
    for name in ["orders", "a.dlq", "b.dlq"] {
        good.push(consume(&broker, name, 10).await);
    }
    for _ in 0..100 {
        assert!(broker.consumer("missing.dlq", 10).await.is_err());
    }
    let count = |listed: String| listed.lines().filter(|line| *line == vhost.name).count();
    let arguments = ["-q", "list_connections", "vhost", "--no-table-headers"];
    let connections = count(vhost.ctl(&arguments).await);
    assert!(connections <= 2, "{connections} connections");
    let arguments = ["-q", "list_channels", "vhost", "--no-table-headers"];
    let channels = count(vhost.ctl(&arguments).await);
    // One a consumer, and at most one for questions.
    assert!(channels <= 4, "{channels} channels");
    for consumer in good {
        consumer.close().await;
    }
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_12_questions_about_a_stream_disturb_no_publish() {
    let (vhost, broker) = vhost("b12").await;
    let stream = r#"{"durable":true,"arguments":{"x-queue-type":"stream"}}"#;
    vhost
        .put(&["queues", &vhost.name, "events.log"], stream)
        .await;
    let asking = async {
        for _ in 0..20 {
            let depth = broker.depth("events.log").await;
            assert!(depth.is_ok(), "{depth:?}");
            assert_eq!(broker.depth("missing").await, Ok(None));
        }
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, batch(100)), asking);
    assert_eq!(outcomes, vec![PublishOutcome::Confirmed; 100]);
    let facts = broker.queue("events.log").await.expect("an answer");
    let kind = facts.and_then(|facts| facts.kind);
    assert_eq!(kind.as_deref(), Some("stream"));
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n_03_every_spelling_of_a_virtual_host_is_the_one_that_is_used() {
    for name in ["/billing", "billing/eu", "бухгалтерия", "a%2Fb c"] {
        let name = format!("{name} {}", std::process::id());
        let vhost = Vhost::create(&name).await;
        let broker = vhost.broker();
        assert!(broker.name().ends_with(&format!("vhost {name}")));
        declare(&broker, &[], vec![queue("orders/eu")]).await;
        confirmed(&broker, vec![message("", "orders/eu", "m1")]).await;
        let page = broker.queues(1, 10).await.expect("a page");
        let names: Vec<_> = page.queues.iter().map(|q| q.name.as_str()).collect();
        assert_eq!(names, ["orders/eu"]);
        assert!(matches!(broker.queue("orders/eu").await, Ok(Some(_))));
        end(vhost, broker).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n_04_a_line_break_in_a_name_is_refused_with_a_reason() {
    let (vhost, broker) = vhost("n04").await;
    for name in ["orders\n", "orders\r"] {
        let depth = broker.depth(name).await;
        assert!(
            matches!(&depth, Err(BrokerError::NotFound(why)) if why.contains("line break")),
            "{depth:?}"
        );
        let consumer = broker.consumer(name, 1).await.err();
        assert!(
            matches!(&consumer, Some(BrokerError::NotFound(why)) if why.contains("line break")),
            "{consumer:?}"
        );
    }
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_names_user_and_place_but_no_password() {
    let (vhost, broker) = vhost("login").await;
    let wrong = vhost.broker_as("t", "S3CRET-42");
    let error = wrong.probe().await.expect_err("refused");
    assert!(matches!(error, BrokerError::Denied(_)), "{error:?}");
    assert!(error.to_string().contains("wrong user or password"));
    assert!(!format!("{error:?} {error}").contains("S3CRET-42"));
    let outcome = wrong.publisher().await.err();
    assert!(matches!(outcome, Some(BrokerError::Denied(_))));
    assert!(broker.probe().await.is_ok());
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_host_that_does_not_exist_is_named() {
    let (vhost, broker) = vhost("no vhost").await;
    let name = vhost.name.clone();
    end(vhost, Arc::clone(&broker)).await;
    let error = broker.probe().await.expect_err("it is gone");
    assert!(
        matches!(&error, BrokerError::NotFound(why) if why.contains(&name)),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_management_api_tells_facts_of_a_quorum_queue() {
    let (vhost, broker) = vhost("facts").await;
    let work = redrive::broker::NewQueue {
        is_quorum: true,
        delivery_limit: Some(5),
        dead_letter: Some((String::new(), "orders.dlq".into())),
        ..queue("work")
    };
    declare(&broker, &[], vec![work, queue("orders.dlq")]).await;
    let policy = r#"{"pattern":"^orders","definition":{"dead-letter-exchange":"dlx","dead-letter-routing-key":"k"},"apply-to":"queues"}"#;
    vhost.put(&["policies", &vhost.name, "dead"], policy).await;

    let facts = broker.queue("work").await.expect("an answer");
    let facts = facts.expect("a queue");
    assert_eq!(facts.kind.as_deref(), Some("quorum"));
    assert_eq!(facts.is_durable, Some(true));
    assert_eq!(facts.delivery_limit, Some(5));
    assert_eq!(facts.dead_letter_exchange.as_deref(), Some(""));
    assert_eq!(facts.dead_letter_routing_key.as_deref(), Some("orders.dlq"));
    assert_eq!(facts.members.map(|members| members.len()), Some(1));
    assert_eq!(facts.members_online.map(|online| online.len()), Some(1));
    // The broker applies a policy soon after it took it.
    let applied = async {
        loop {
            let facts = broker.queue("orders").await.expect("an answer");
            let facts = facts.expect("a queue");
            if facts.policy.is_some() {
                return facts;
            }
        }
    };
    let facts = tokio::time::timeout(PATIENCE, applied).await.expect("soon");
    assert_eq!(facts.policy.as_deref(), Some("dead"));
    assert_eq!(facts.dead_letter_exchange.as_deref(), Some("dlx"));
    assert_eq!(facts.dead_letter_routing_key.as_deref(), Some("k"));

    let overview = broker.overview().await.expect("an overview");
    assert!(overview.product.starts_with("RabbitMQ "));
    let nodes = overview.nodes.expect("an administrator sees nodes");
    assert_eq!(nodes[0].is_running, Some(true));
    assert_eq!(nodes[0].memory_alarm, Some(false));
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_given_up_half_way_leaves_the_publisher_usable() {
    let (vhost, broker) = vhost("dropped").await;
    let publisher = broker.publisher().await.expect("a publisher");
    for _ in 0..20 {
        let mut publishing = publisher.publish(batch(300), PATIENCE);
        assert!(futures::poll!(&mut publishing).is_pending());
        drop(publishing);
    }
    let mut messages = batch(100);
    messages[50].routing_key = "nobody".into();
    let outcomes = publisher.publish(messages, PATIENCE).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let expected = if index == 50 {
            PublishOutcome::Returned("312 NO_ROUTE".into())
        } else {
            PublishOutcome::Confirmed
        };
        assert_eq!(*outcome, expected, "row {index}");
    }
    // What was given up was still sent, whole: nothing was cut off in the middle.
    ready(&broker, "orders", 20 * 300 + 99).await;
    end(vhost, broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h_08_another_clients_headers_arrive_with_the_types_it_gave_them() {
    let (vhost, broker) = vhost("h08").await;
    let described = serde_json::json!([{
        "routing_key": "orders",
        "body_base64": "AP+A/sMoCg0bwK+f7aCA4oAA",
        "properties": {
            "content_type": "application/octet-stream", "content_encoding": "identity",
            "delivery_mode": 2, "priority": 7, "correlation_id": "corr-77", "reply_to": "answers",
            "expiration": "600000", "message_id": "m1", "timestamp": 1_767_323_045,
            "type": "order.placed", "user_id": "t", "app_id": "shop-web", "cluster_id": "c1",
        },
        "headers": {
            "b": {"b": -5}, "B": {"B": 251}, "s": {"s": -300}, "u": {"u": 65_000},
            "I": {"I": -7}, "i": {"i": 4_000_000_000_u32}, "l": {"l": i64::MIN / 2},
            "f": {"f": 1.5}, "d": {"d": 0.1}, "D": {"D": [2, -1999]},
            "T": {"T": 1_767_323_045}, "x": {"x": "AP+A"}, "S": {"S64": "//4A"},
            "V": {"V": null}, "t": {"t": true}, "A": {"A": []}, "F": {"F": {}},
            "nested": {"F": {"a": {"F": {"b": {"A": [{"I": 1}, {"S": "x"}, {"V": null}]}}}}},
        },
    }]);
    vhost.publish_with_python(&described).await;
    let mut consumer = consume(&broker, "orders", 1).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(
        delivery.message.payload.sha256(),
        "478192775d5771ef59a5afb93cf9acfb3593815ca66e0c9c8db25f9bab4fc8e5"
    );
    let properties = &delivery.message.properties;
    assert_eq!(properties.cluster_id.as_deref(), Some("c1"));
    assert_eq!(properties.kind.as_deref(), Some("order.placed"));
    let headers = &properties.headers;
    let expected = [
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
        ("V", FieldValue::Void),
        ("t", FieldValue::Bool(true)),
        ("A", FieldValue::Array(vec![])),
        ("F", FieldValue::Table(FieldTable::new())),
    ];
    for (name, value) in &expected {
        assert_eq!(headers.get(name), Some(value), "{name}");
    }
    assert_eq!(headers.len(), expected.len() + 1);
    // And back to the broker, and here again, without a difference.
    let mut again = message("", "orders", "m1");
    again.message = delivery.message.clone();
    confirmed(&broker, vec![again]).await;
    consumer
        .ack(delivery.tag, false)
        .await
        .expect("acknowledged");
    assert_eq!(next(&mut consumer).await.message, delivery.message);
    consumer.close().await;
    end(vhost, broker).await;
}
