//! Attach, watch, collect, replay: item 2 of what the console is judged by.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapin::types::ShortString;
use serde_json::Value;

use super::redrive::{APPLY, only_item, replay};
use super::shop::{DLQ, Event, OTHER_QUEUE, QUEUE, Seen, Shop};

/// Puts 10 000 rows in all states into the outbox of orders.
async fn fill_outbox(shop: &Shop) {
    let rows = sqlx::query(
        "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload,
             status, attempts, next_attempt_at, claim_token, lease_until, last_error, sent_at)
         SELECT UUID(), CONCAT('k', seq DIV 4), seq MOD 4, 'order.created', '{\"sku\":\"A-1\"}',
             CASE WHEN seq <= 100 THEN 'sending' WHEN seq <= 600 THEN 'failed'
                  WHEN seq <= 2600 THEN 'pending' ELSE 'sent' END,
             1, NOW(6) + INTERVAL 1 DAY,
             IF(seq <= 100, CONCAT('claim-', seq DIV 50), NULL),
             IF(seq <= 100, NOW(6) - INTERVAL 1 MINUTE, NULL),
             IF(seq > 100 AND seq <= 600, 'NACK from the broker', NULL),
             IF(seq > 2600, NOW(6), NULL)
         FROM seq_1_to_10000",
    )
    .execute(&shop.orders)
    .await
    .expect("rows");
    assert_eq!(rows.rows_affected(), 10_000);
}

fn items(answer: &Value) -> &Vec<Value> {
    answer["items"].as_array().expect("items")
}

/// What a replay must keep, property by property; all 14 are named so that none is forgotten (H-06).
pub fn assert_same_message(first: &Seen, again: &Seen) {
    let (before, after) = (&first.properties, &again.properties);
    assert_eq!(first.body, again.body, "the bytes");
    assert_eq!(before.content_type(), after.content_type());
    assert_eq!(before.content_encoding(), after.content_encoding());
    assert_eq!(after.delivery_mode(), &Some(2), "persistent (H-13)");
    assert_eq!(before.priority(), after.priority());
    assert_eq!(before.correlation_id(), after.correlation_id());
    assert_eq!(before.reply_to(), after.reply_to());
    assert_eq!(
        after.expiration(),
        &None::<ShortString>,
        "would expire in silence (H-05)"
    );
    assert_eq!(before.message_id(), after.message_id());
    assert_eq!(before.timestamp(), after.timestamp());
    assert_eq!(before.kind(), after.kind());
    assert_eq!(before.user_id(), after.user_id(), "ours: the same account");
    assert_eq!(before.app_id(), after.app_id());
    assert_eq!(before.cluster_id(), after.cluster_id());
    let headers = again.headers();
    for (name, value) in first.headers().inner() {
        assert_eq!(
            headers.inner().get(name),
            Some(value),
            "header {name} with its type (H-08)"
        );
    }
    // A quorum queue counts deliveries in a header of its own: 0 for a message that just came.
    let broker_owned = [
        "x-death",
        "x-first-death-queue",
        "x-first-death-exchange",
        "x-first-death-reason",
    ];
    for name in broker_owned {
        assert!(
            headers.inner().get(name).is_none(),
            "{name} is the broker's (H-03)"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h_03_h_05_h_06_h_08_h_13_a_dead_letter_is_collected_shown_and_replayed_once_to_its_queue()
{
    let shop = Shop::open("attach").await;
    let console = &shop.console;
    fill_outbox(&shop).await;
    let mut events: Vec<Event> = (0..9).map(|n| Event::order(n, true)).collect();
    events.extend((9..12).map(|n| Event::order(n, false)));
    shop.publish(&events).await;
    let seen = shop.consume_at_least(12, false).await;
    assert_eq!(seen.iter().filter(|seen| seen.is_accepted).count(), 9);
    shop.collect(3).await;

    watch(&shop).await;

    // Show: bytes, properties and typed headers as they came.
    let event = events[9].clone();
    let first = seen
        .iter()
        .find(|seen| seen.message_id() == event.id)
        .expect("was seen");
    let shown = console.run(&["dead", "show", &event.id]).await;
    let message = &items(&shown)[0]["detail"]["message"];
    let data = message["payload"]["data"].as_str().expect("data");
    assert_eq!(data.as_bytes(), event.body, "{message:#}");
    assert!(
        message.to_string().contains("4634343214213523454"),
        "digits are exact (P-06)"
    );

    // Plan: nothing changes.
    let plan = console
        .run(&["replay", &event.id, "--consumer", "inventory"])
        .await;
    assert_eq!(plan["kind"], "plan");
    assert_eq!(
        (shop.status(&event).await.as_str(), shop.depth(QUEUE).await),
        ("open", 0)
    );

    // Replay: to the failed queue only.
    let others = shop.depth(OTHER_QUEUE).await;
    let applied = console.run(&replay(&event.id, &[])).await;
    let operation = items(&applied)[0]["operation_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    shop.arrives(QUEUE, 1).await;
    assert_eq!(shop.depth(OTHER_QUEUE).await, others, "nobody else gets it");
    let again = shop.consume(true).await;
    let [again] = again.as_slice() else {
        panic!("one message: {again:?}");
    };
    assert_eq!(again.exchange, "", "straight to the queue");
    assert_same_message(first, again);
    assert_eq!(shop.effects(&event).await, 1);

    // Prove: the inbox row is the proof.
    let shown = console.run(&["operations", "show", &operation]).await;
    let (state, evidence) = only_item(&shown);
    assert_eq!(state, "consumed", "{shown:#}");
    assert!(evidence.contains("inbox row"), "{evidence}");
    assert_eq!(shop.status(&event).await, "replayed");

    // The same event once more, from outside: absorbed.
    shop.publish_again(&event).await;
    shop.consume_at_least(1, true).await;
    assert_eq!(shop.effects(&event).await, 1, "the effect happens once");
    assert!(console.verify_audit().await >= 2);
    shop.close().await;
}

/// Every list answers, with what is there.
async fn watch(shop: &Shop) {
    let console = &shop.console;
    let check = console.try_run(&["check"]).await;
    assert!(matches!(check.code, 0 | 3), "{check:#?}");
    let status = console.try_run(&["status"]).await;
    assert!(
        matches!(status.code, 0 | 3) && status.json["complete"] == true,
        "{status:#?}"
    );
    for (state, rows) in [("pending", 2_000), ("failed", 500), ("sending", 100)] {
        let answer = console
            .run(&["outbox", "--service", "orders", "--state", state, "--all"])
            .await;
        assert_eq!(items(&answer).len(), rows, "{state}");
    }
    let leases = console.run(&["leases"]).await;
    let under_lease: u64 = items(&leases)
        .iter()
        .filter_map(|group| group["rows"].as_u64())
        .sum();
    assert_eq!(under_lease, 100, "{leases:#}");
    let dead = console
        .run(&[
            "dead",
            "--filter",
            "consumer:inventory type:order.* status:open",
        ])
        .await;
    assert_eq!(items(&dead).len(), 3, "{dead:#}");
    for (filter, rows) in [
        ("payload.order_id:4634343214213523454", 3),
        ("payload.total>1.1", 0),
    ] {
        let dead = console.run(&["dead", "--filter", filter]).await;
        assert_eq!(items(&dead).len(), rows, "{filter}");
    }
    let causes = console.run(&["dead", "--by", "cause"]).await;
    assert_eq!(items(&causes).len(), 1, "{causes:#}");
    let queues = console.run(&["queues", "--filter", "role:work"]).await;
    assert!(queues.to_string().contains(QUEUE), "{queues:#}");
    assert_eq!(shop.depth(DLQ).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn r_13_a_replay_that_dies_again_is_told_and_the_letter_is_open_again() {
    let shop = Shop::open("again").await;
    let console = &shop.console;
    let event = Event::order(1, false);
    shop.publish(std::slice::from_ref(&event)).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    let applied = console.run(&replay(&event.id, &[])).await;
    let operation = items(&applied)[0]["operation_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    let shown = console.try_run(&["operations", "show", &operation]).await;
    assert_eq!(only_item(&shown.json).0, "died_again", "{shown:#?}");
    let letter = console.run(&["dead", "show", &event.id]).await;
    let letter = &items(&letter)[0]["detail"]["letter"];
    assert_eq!(
        (&letter["deaths"], &letter["status"]),
        (&2.into(), &"open".into()),
        "{letter:#}"
    );
    assert_eq!(letter["replays"], 1);
    console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_01_a_replay_to_a_queue_that_is_gone_marks_nothing() {
    let shop = Shop::open("gone").await;
    let console = &shop.console;
    let event = Event::order(1, false);
    shop.publish(std::slice::from_ref(&event)).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    shop.delete_queue(QUEUE).await;
    let refused = console.try_run(&replay(&event.id, &[])).await;
    assert!(matches!(refused.code, 4), "{refused:#?}");
    assert_eq!(shop.status(&event).await, "open");
    console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_01_bytes_that_are_no_text_come_back_as_they_were() {
    let shop = Shop::open("bytes").await;
    let console = &shop.console;
    let body = STANDARD.decode("AP+A/sMoCg0bwK+f7aCA4oAA").expect("base64");
    let event = Event {
        body,
        ..Event::order(1, false)
    };
    // No outbox row: a text column could not hold these bytes.
    shop.publish_again(&event).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    let shown = console.run(&["dead", "show", &event.id]).await;
    let payload = &items(&shown)[0]["detail"]["message"]["payload"];
    assert_eq!(payload["encoding"], "base64");
    assert_eq!(
        payload["sha256"],
        "478192775d5771ef59a5afb93cf9acfb3593815ca66e0c9c8db25f9bab4fc8e5"
    );
    console.run(&replay(&event.id, &[])).await;
    let again = shop.consume_at_least(1, true).await;
    assert_eq!(again[0].body, event.body);
    console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_goes_out_under_a_new_linked_id_and_the_original_stays() {
    let shop = Shop::open("repair").await;
    let console = &shop.console;
    let event = Event::order(1, false);
    shop.publish(std::slice::from_ref(&event)).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("payload.json");
    let edited = String::from_utf8(event.body.clone())
        .expect("text")
        .replace('}', r#","sku":"A-1"}"#);
    std::fs::write(&file, &edited).expect("written");
    let path = file.to_string_lossy();
    let arguments = [
        &["repair", &event.id, "--payload-file", &path],
        APPLY.as_slice(),
    ]
    .concat();
    let applied = console.run(&arguments).await;
    let new_id = items(&applied)[0]["new_event_id"]
        .as_str()
        .expect("a new id")
        .to_owned();
    assert_ne!(new_id, event.id);
    assert_eq!(shop.status(&event).await, "repaired");
    console.run(&["worker", "dispatcher", "--once"]).await;
    let seen = shop.consume_at_least(1, false).await;
    assert_eq!(
        (seen[0].message_id(), &seen[0].body),
        (new_id.as_str(), &edited.into_bytes())
    );
    assert_eq!(shop.effects(&event).await, 0, "the original took no effect");
    console.verify_audit().await;
    shop.close().await;
}
