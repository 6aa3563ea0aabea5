//! What a replay puts on the wire, and what the broker may answer.

use super::*;

#[tokio::test]
async fn r_12_empty_mistyped_and_dead_letter_targets_are_refused() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    for (queue, check, wanted) in [
        ("", "target_empty", Level::Refusal),
        (" ", "target_empty", Level::Refusal),
        ("inventory.orders ", "target_space", Level::Refusal),
        ("Inventory.Orders", "destination_exists", Level::Refusal),
        (DLQ, "target_is_dlq", Level::Overridable),
        ("payment.orders.dlq", "target_is_dlq", Level::Overridable),
        ("payment.orders", "other_queue", Level::Warning),
    ] {
        let plan = scene
            .operator
            .plan(&letter.replay_to(queue))
            .await
            .expect("plans");
        assert_eq!(level(&plan, check), wanted, "{queue:?}");
        assert_eq!(plan.is_allowed(), wanted == Level::Warning, "{queue:?}");
    }
    let told = Request::Replay {
        target: letter.target(),
        through_exchange: false,
        to_queue: Some(DLQ.to_owned()),
        overrides: vec!["target_is_dlq".to_owned()],
    };
    let plan = scene.operator.plan(&told).await.expect("plans");
    assert!(plan.is_allowed(), "{:?}", plan.preflight);
}

#[tokio::test]
async fn b_01_a_returned_message_is_not_published_and_the_letter_stays_open() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            death.source_routing_key = Some("nobody.listens".to_owned());
        })
        .await;
    let plan = scene
        .operator
        .plan(&letter.through_exchange())
        .await
        .expect("plans");
    let to = plan.destination.clone().expect("a destination");
    assert_eq!(
        to.queues,
        [
            "inventory.orders",
            "notification.orders",
            "orders.results",
            "payment.orders"
        ]
    );
    let applied = scene
        .operator
        .apply(&plan, &because("x"))
        .await
        .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Unroutable);
    assert!(
        applied.items[0].evidence.starts_with("unroutable: "),
        "{:?}",
        applied.items
    );
    let after = scene.letter(&letter).await;
    assert_eq!(after.status, DeadLetterStatus::Open);
    assert_eq!(after.replays, 0);
}

#[tokio::test]
async fn through_the_exchange_the_plan_says_who_else_gets_it() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    scene.processed("payment", &letter.event).await;
    let plan = scene
        .operator
        .plan(&letter.through_exchange())
        .await
        .expect("plans");
    let radius: Vec<_> = plan
        .preflight
        .iter()
        .filter(|line| line.check == "blast_radius")
        .map(|line| line.text.clone())
        .collect();
    assert_eq!(radius.len(), 3, "{radius:?}");
    assert!(
        radius
            .iter()
            .any(|text| text.starts_with("payment has it since "))
    );
    assert!(
        radius.contains(&"orders has no inbox row: it will take effect there too".to_owned()),
        "{radius:?}"
    );
}

#[tokio::test]
async fn b_04_a_full_queue_refuses_and_nothing_is_lost() {
    let scene = Scene::new().await;
    scene
        .bench
        .broker
        .declare(&Topology {
            exchanges: vec![],
            queues: vec![NewQueue {
                name: "full".to_owned(),
                max_length: Some(1),
                ..NewQueue::default()
            }],
        })
        .await
        .expect("declares");
    scene
        .bench
        .put("full", vec![crate::model::message::Message::default()])
        .await;
    for _ in 0..5 {
        let letter = scene.dead().await;
        let applied = act(&scene.operator, &letter.replay_to("full"))
            .await
            .expect("applies");
        assert_eq!(applied.items[0].state, ItemState::Refused);
        assert_eq!(
            applied.items[0].evidence,
            "refused by broker (nack): queue full or limit"
        );
        assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    }
}

/// One queue behind the exchange is full: the broker refuses, and the consumer's queue has it all the same.
#[tokio::test]
async fn b_04_a_nack_for_one_of_several_queues_is_unknown_until_the_inbox_tells() {
    let scene = Scene::new().await;
    let audit = NewQueue {
        name: "audit.orders".to_owned(),
        max_length: Some(1),
        bindings: vec![("shop.events".to_owned(), "order.created".to_owned())],
        ..NewQueue::default()
    };
    let topology = Topology {
        exchanges: vec![],
        queues: vec![audit],
    };
    scene
        .bench
        .broker
        .declare(&topology)
        .await
        .expect("declares");
    let full = vec![crate::model::message::Message::default()];
    scene.bench.put("audit.orders", full).await;
    let letter = scene.dead().await;
    let plan = scene
        .operator
        .plan(&letter.through_exchange())
        .await
        .expect("plans");
    let applied = scene
        .operator
        .apply(&plan, &because("x"))
        .await
        .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Unknown);
    assert!(
        applied.items[0]
            .evidence
            .contains("another may have taken it"),
        "{:?}",
        applied.items
    );
    scene.processed("inventory", &letter.event).await;
    scene.operator.prove_once().await.expect("proves");
    assert_eq!(
        scene.state(&applied.operation_id).await,
        ItemState::Consumed
    );
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replayed);
}

#[tokio::test]
async fn b_06_a_blocked_broker_is_said_before_and_nothing_is_sent_when_it_blocks_in_between() {
    let scene = Scene::with(|context| {
        context.thresholds.publish_deadline = Duration::from_millis(50);
    })
    .await;
    let letter = scene.dead().await;
    scene.bench.broker.set_blocked(Some("memory"));
    let (check, why) = refusal(act(&scene.operator, &letter.replay()).await);
    assert_eq!(check, "blocked");
    assert!(why.contains("memory"), "{why}");
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    scene.bench.broker.set_blocked(None);

    // It blocks after the reservation: nothing left, which is certain, and the letter is open again.
    let mut meddler = Meddler::new(&scene.bench.broker);
    let broker = Arc::clone(&scene.bench.broker);
    meddler.before_publish = Some(Arc::new(move || {
        broker.set_blocked(Some("memory"));
        Box::pin(async {})
    }));
    let mut ports = scene.bench.ports.clone();
    ports.broker = Some(Arc::new(meddler));
    let operator = crate::operate::Operator::new(ports, "mia@desk".to_owned(), false);
    let applied = act(&operator, &letter.replay()).await.expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Refused);
    assert!(
        applied.items[0]
            .evidence
            .contains("not sent: broker blocked"),
        "{:?}",
        applied.items
    );
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    scene.bench.broker.set_blocked(None);
    let applied = act(&scene.operator, &letter.replay()).await.expect("goes");
    assert_eq!(applied.items[0].state, ItemState::Published);
}

#[tokio::test]
async fn h_02_h_05_h_06_the_replayed_copy_as_the_queue_has_it() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            let properties = &mut death.message.properties;
            properties.headers.set(
                "CC",
                FieldValue::Array(vec![FieldValue::text("payment.orders")]),
            );
            properties.headers.set("x-tenant", FieldValue::I16(-7));
            properties.expiration = Some("3000".to_owned());
            properties.content_encoding = Some("gzip".to_owned());
            properties.priority = Some(7);
            properties.app_id = Some("shop-web".to_owned());
            properties.reply_to = Some("replies".to_owned());
        })
        .await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    scene
        .operator
        .apply(&plan, &because("x"))
        .await
        .expect("applies");
    assert_eq!(scene.bench.ready("payment.orders").await, 0);
    let sent = scene.bench.take(QUEUE).await.remove(0).message.properties;
    assert_eq!(sent.expiration, None);
    assert_eq!(sent.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(sent.priority, Some(7));
    assert_eq!(sent.app_id.as_deref(), Some("shop-web"));
    assert_eq!(sent.reply_to.as_deref(), Some("replies"));
    assert_eq!(sent.headers.get("x-tenant"), Some(&FieldValue::I16(-7)));
    // Every change is in the audit entry, with what was there.
    let entries = scene.bench.store(CONSUMER).audit_page(None, 10).await;
    let intent = entries.expect("reads").pop().expect("an entry");
    assert_eq!(intent.record.phase, "intent");
    assert!(
        intent.record.detail.contains("payment.orders"),
        "{}",
        intent.record.detail
    );
    assert!(intent.record.detail.contains("3000"));
}

#[tokio::test]
async fn h_03_a_second_rejection_has_a_well_formed_history_of_its_own() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            let entry = [
                ("count".to_owned(), FieldValue::I64(1)),
                ("reason".to_owned(), FieldValue::text("rejected")),
                ("queue".to_owned(), FieldValue::text("billing.orders")),
            ];
            let headers = &mut death.message.properties.headers;
            headers.set(
                "x-death",
                FieldValue::Array(vec![FieldValue::Table(entry.into_iter().collect())]),
            );
            headers.set("x-first-death-queue", FieldValue::text("billing.orders"));
        })
        .await;
    act(&scene.operator, &letter.replay())
        .await
        .expect("applies");
    let mut consumer = scene.bench.broker.consumer(QUEUE, 1).await.expect("opens");
    let delivery = consumer.next().await.expect("the replay");
    consumer.reject(delivery.tag, false).await.expect("rejects");
    let dead = scene.bench.take(DLQ).await.remove(0).message;
    let deaths = crate::broker::deaths::deaths(&dead.properties.headers);
    assert_eq!(deaths.len(), 1);
    assert_eq!((deaths[0].queue.as_str(), deaths[0].count), (QUEUE, 1));
    assert_eq!(
        dead.properties.headers.get("x-first-death-queue"),
        Some(&FieldValue::text(QUEUE))
    );
}
