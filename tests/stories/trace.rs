//! The story of one event: replayed twice, repaired once, told on one screen.

use serde_json::Value;

use crate::pty;

use super::redrive::{APPLY, Console, replay};
use super::shop::{DLQ, Event, QUEUE, SANDBOX, Shop};

/// A screen on which everything has to stand.
const SCREEN: pty::Size = (120, 36);

/// An event that dies three times, is replayed twice, and is repaired. The repair is consumed.
async fn replayed_twice_and_repaired() -> (Shop, Event, String) {
    let shop = Shop::open("trace").await;
    let event = Event::order(1, false);
    shop.publish(std::slice::from_ref(&event)).await;
    shop.consume_at_least(1, false).await;
    shop.collect(1).await;
    for _ in 0..2 {
        shop.console.run(&replay(&event.id, &[])).await;
        shop.consume_at_least(1, false).await;
        shop.collect(1).await;
    }
    let file = shop.folder().join("payload.json");
    std::fs::write(
        &file,
        br#"{"order_id":4634343214213523454,"total":1.10,"sku":"A-1"}"#,
    )
    .expect("written");
    let path = file.display().to_string();
    let repair = [&["repair", &event.id, "--payload-file", &path][..], &APPLY].concat();
    let repaired = shop.console.run(&repair).await;
    let operation = repaired["items"][0]["operation_id"]
        .as_str()
        .expect("an operation")
        .to_owned();
    shop.console.run(&["worker", "dispatcher", "--once"]).await;
    assert_eq!(shop.consume_at_least(1, true).await.len(), 1);
    assert_eq!(shop.depth(DLQ).await, 0);
    assert_eq!(shop.depth(QUEUE).await, 0);
    (shop, event, operation)
}

fn texts(story: &Value) -> Vec<&str> {
    let moments = story["items"][0]["moments"].as_array().expect("moments");
    moments
        .iter()
        .map(|moment| moment["text"].as_str().expect("a text"))
        .collect()
}

fn list<'a>(story: &'a Value, name: &str) -> &'a Vec<Value> {
    story["items"][0][name].as_array().expect("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_replayed_twice_and_repaired_once_stands_on_one_screen() {
    let (shop, event, operation) = replayed_twice_and_repaired().await;
    let config = shop.config.display().to_string();
    let arguments = [
        "--config",
        &config,
        "--context",
        SANDBOX,
        "trace",
        &event.id,
    ];
    let mut screen = pty::Console::start(SCREEN, &arguments, &[]);
    screen.wait_for("no gap, no conflict");
    let shown = screen.shown();
    // Nothing has scrolled away, and nothing was cut that tells the story.
    for told in [
        format!("event {}", event.id),
        "─repair─▶".to_owned(),
        "orders  broker  inventory  operator".to_owned(),
        "v1 committed, id".to_owned(),
        "confirmed by the broker".to_owned(),
        "death 1:".to_owned(),
        "replay 1 by mia@".to_owned(),
        "replay 1 published, for inventory".to_owned(),
        "death 2:".to_owned(),
        "replay 2 by mia@".to_owned(),
        "replay 2 published, for inventory".to_owned(),
        "death 3:".to_owned(),
        "repair by mia@".to_owned(),
        "consumed by inventory".to_owned(),
    ] {
        assert!(
            shown.contains(&told),
            "{told} is not on the screen:\n{shown}"
        );
    }
    let story = shop.console.run(&["trace", &event.id]).await;
    assert_eq!(list(&story, "gaps"), &Vec::<Value>::new(), "{story:#}");
    assert_eq!(list(&story, "conflicts"), &Vec::<Value>::new(), "{story:#}");
    let told: Vec<&str> = list(&story, "moments")
        .iter()
        .map(|moment| moment["what"].as_str().expect("a word"))
        .collect();
    let deaths = told.iter().filter(|what| **what == "died").count();
    let acted = told.iter().filter(|what| **what == "acted").count();
    assert_eq!((deaths, acted), (3, 3), "{told:?}");
    let order = |what: &str| texts(&story).iter().position(|text| text.contains(what));
    let expected = [
        "death 1",
        "replay 1 by",
        "replay 1 published",
        "death 2",
        "replay 2 by",
        "replay 2 published",
        "death 3",
        "repair by",
        "consumed by inventory",
    ];
    let places: Vec<_> = expected.iter().map(|what| order(what)).collect();
    assert!(places.iter().all(Option::is_some), "{places:?}");
    assert!(
        places.is_sorted(),
        "{expected:?} {places:?}\n{:#?}",
        texts(&story)
    );
    other_ways_to_it(&shop, &event, &operation, &story).await;
    shop.console.verify_audit().await;
    shop.close().await;
}

/// The replacement, the key, the operation and the beginning of the id lead to the same lineage.
async fn other_ways_to_it(shop: &Shop, event: &Event, operation: &str, story: &Value) {
    let lineage = list(story, "lineage");
    assert_eq!(lineage.len(), 1, "{story:#}");
    assert_eq!(lineage[0]["from"], event.id.as_str());
    let repaired = lineage[0]["to"].as_str().expect("an id");
    let beginning = &event.id[..30];
    for (id, kind) in [
        (repaired, "event"),
        (event.key.as_str(), "aggregate"),
        (operation, "operation"),
        (beginning, "event"),
    ] {
        let other = shop.console.run(&["trace", id]).await;
        assert_eq!(other["items"][0]["subject"]["kind"], kind, "{id}");
        assert_eq!(list(&other, "lineage"), lineage, "{id}: {other:#}");
    }
    let nothing = shop.console.try_run(&["trace", "no-such-id"]).await;
    assert_eq!(nothing.code, 2, "{nothing:#?}");
    assert!(
        nothing.stderr.contains("nothing has the id"),
        "{nothing:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_unread_and_never_absent() {
    let shop = Shop::open("unread").await;
    let event = Event::order(1, true);
    shop.publish(std::slice::from_ref(&event)).await;
    // Not consumed: a gap, as long as the inbox can be read.
    let story = shop.console.run(&["trace", &event.id]).await;
    let gaps = list(&story, "gaps");
    assert_eq!(gaps.len(), 1, "{story:#}");
    assert_eq!(gaps[0]["kind"], "no_inbox_row");
    assert_eq!(gaps[0]["about"], "inventory");
    let told = gaps[0]["text"].as_str().expect("a text");
    assert!(
        told.contains("inventory.orders has 1 ready, 0 consumers"),
        "{told}"
    );

    let blind = shop.folder().join("blind.toml");
    let database = format!("/{}\"", shop.database());
    let text = shop.console.configuration();
    let broken: Vec<String> = text
        .lines()
        .map(|line| {
            if line.starts_with("database") && line.ends_with(&database) {
                "database = \"mysql://ops:S3CRET-42@127.0.0.1:1/inventory\"".to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    std::fs::write(&blind, broken.join("\n")).expect("written");
    let console = Console::new(blind, shop.folder());
    let story = console.try_run(&["trace", &event.id]).await;
    assert_eq!(story.code, 5, "{story:#?}");
    assert_eq!(story.json["complete"], false);
    let unread = story.json["unread"].as_array().expect("a list");
    assert!(!unread.is_empty());
    assert!(!story.json.to_string().contains("S3CRET-42"));
    assert_eq!(
        list(&story.json, "gaps"),
        &Vec::<Value>::new(),
        "{:#}",
        story.json
    );
    shop.close().await;
}
