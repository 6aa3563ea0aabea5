//! `kill -9` between publish and completion.

use serde_json::Value;

use super::redrive::{Console, only_item, replay};
use super::shop::{Event, QUEUE, Shop, until};

/// The only operation, as the next start shows it.
async fn operation(console: &Console) -> (String, Value) {
    let list = console.try_run(&["operations"]).await;
    let id = list.json["items"][0]["operation_id"]
        .as_str()
        .expect("an operation")
        .to_owned();
    let shown = console.try_run(&["operations", "show", &id]).await;
    (id, shown.json)
}

async fn one_dead_letter(story: &str) -> (Shop, Event) {
    let shop = Shop::open(story).await;
    let event = Event::order(1, false);
    shop.publish(std::slice::from_ref(&event)).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    (shop, event)
}

#[tokio::test(flavor = "multi_thread")]
async fn r_05_killed_after_the_publish_the_next_start_says_unknown_and_finds_the_inbox_row() {
    let (shop, event) = one_dead_letter("killed").await;
    let console = &shop.console;
    let mut child = console.start_until("replay.after_confirm", &replay(&event.id, &[]));
    shop.arrives(QUEUE, 1).await;
    child.kill().await.expect("kill -9");

    // Until its reservation runs out the console may be alive; then its outcome is unknown.
    until("unknown", || async {
        only_item(&operation(console).await.1).0 == "unknown"
    })
    .await;
    let again = console.try_run(&replay(&event.id, &[])).await;
    assert_eq!(again.code, 4, "not sent again without a word: {again:#?}");
    assert_eq!(shop.depth(QUEUE).await, 1, "one publish");

    assert_eq!(shop.consume(true).await.len(), 1);
    let (_, shown) = operation(console).await;
    let (state, evidence) = only_item(&shown);
    assert_eq!(state, "consumed", "{shown:#}");
    assert!(evidence.contains("inbox row"), "{evidence}");
    assert_eq!(shop.status(&event).await, "replayed");
    assert_eq!(shop.effects(&event).await, 1);
    console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r_05_killed_before_the_publish_nothing_is_claimed_to_be_sent() {
    let (shop, event) = one_dead_letter("before").await;
    let console = &shop.console;
    let mut child = console.start_until("replay.before_publish", &replay(&event.id, &[]));
    until("reserved", || async {
        shop.status(&event).await == "replaying"
    })
    .await;
    until("publishing", || async {
        let (_, shown) = operation(console).await;
        only_item(&shown).0 == "publishing"
    })
    .await;
    child.kill().await.expect("kill -9");
    until("unknown", || async {
        only_item(&operation(console).await.1).0 == "unknown"
    })
    .await;
    assert_eq!(shop.depth(QUEUE).await, 0);
    console.verify_audit().await;
    shop.close().await;
}
