//! A scan on real servers, from a fault to a finding and back; and the sandbox's rules, small.

use serde_json::Value;

#[path = "../bench/scan/scan/mod.rs"]
mod scan;

use super::redrive::Console;
use super::shop::{Event, QUEUE, SANDBOX, Shop, server};
use scan::{Addresses, Plan};

const SCAN: [&str; 5] = ["scan", "run", "sent-not-consumed", "--context", SANDBOX];

fn first(answer: &Value) -> &Value {
    &answer["items"][0]
}

/// Events that were sent and are nowhere are found by id; what waits in the queue is not. A finding is
/// taken by somebody, and gone when its event is consumed. A consumer that cannot be read is said so.
#[tokio::test(flavor = "multi_thread")]
async fn c_03_a_loss_is_found_a_backlog_is_not_and_what_cannot_be_read_is_said() {
    let shop = Shop::open("scans").await;
    let events: Vec<Event> = (1..=4).map(|n| Event::order(n, true)).collect();
    shop.publish(&events).await;
    shop.arrives(QUEUE, 4).await;
    sqlx::query("UPDATE outbox_events SET created_at = NOW(6) - INTERVAL 1 HOUR, sent_at = NOW(6) - INTERVAL 1 HOUR")
        .execute(&shop.orders)
        .await
        .expect("an hour ago");

    // All four wait: nothing is lost.
    let waiting = shop.console.run(&SCAN).await;
    assert_eq!(first(&waiting)["progress"]["found"], 0, "{waiting:#}");
    let explained = &first(&waiting)["progress"]["explained"];
    assert!(
        explained
            .to_string()
            .contains("waits in queue inventory.orders"),
        "{explained:#}"
    );

    // Two are consumed, two are gone without a trace.
    let taken = shop.take(QUEUE).await;
    assert_eq!(taken.len(), 4);
    for event in events.iter().take(2) {
        sqlx::query("INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256) VALUES ('inventory', ?, '')")
            .bind(&event.id)
            .execute(&shop.inventory)
            .await
            .expect("consumed");
    }
    let found = shop.console.try_run(&SCAN).await;
    assert_eq!(found.code, 3, "{found:#?}");
    let lost = first(&found.json)["found"].as_array().expect("a list");
    let mut ids: Vec<&str> = lost.iter().filter_map(|f| f["event_id"].as_str()).collect();
    ids.sort_unstable();
    let mut expected: Vec<&str> = events.iter().skip(2).map(|e| e.id.as_str()).collect();
    expected.sort_unstable();
    assert_eq!(ids, expected);

    // Somebody takes one; it stays the same finding.
    let findings = shop.console.try_run(&["scan", "findings"]).await;
    assert_eq!(
        (findings.code, findings.json["total"]["n"].as_u64()),
        (3, Some(2)),
        "{findings:#?}"
    );
    let id = first(&findings.json)["finding_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let dry = shop
        .console
        .run(&["scan", "assign", &id, "--owner", "leo"])
        .await;
    assert_eq!(first(&dry)["owner"], Value::Null, "nothing was done");
    let taken = shop
        .console
        .run(&["scan", "assign", &id, "--owner", "leo", "--apply"])
        .await;
    assert_eq!(first(&taken)["owner"], "leo");
    shop.console.try_run(&SCAN).await;
    let again = shop.console.try_run(&["scan", "findings", &id]).await;
    assert_eq!(first(&again.json)["owner"], "leo", "{again:#?}");

    // Read-only: found, and not recorded.
    let read_only = shop
        .console
        .try_run(&[&SCAN[..], &["--read-only"]].concat())
        .await;
    assert_eq!(first(&read_only.json)["recorded"], false, "{read_only:#?}");

    // They are consumed after all: gone.
    for event in events.iter().skip(2) {
        sqlx::query("INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256) VALUES ('inventory', ?, '')")
            .bind(&event.id)
            .execute(&shop.inventory)
            .await
            .expect("consumed");
    }
    let clean = shop.console.run(&SCAN).await;
    assert_eq!(first(&clean)["progress"]["cleared"], 2, "{clean:#}");
    let none = shop.console.run(&["scan", "findings"]).await;
    assert_eq!(none["items"], serde_json::json!([]));

    // What cannot be read is neither clean nor lost.
    sqlx::query("RENAME TABLE consumer_inbox TO elsewhere")
        .execute(&shop.inventory)
        .await
        .expect("away");
    let unread = shop.console.try_run(&SCAN).await;
    assert_eq!(unread.code, 5, "{unread:#?}");
    assert_eq!(unread.json["complete"], false);
    assert_eq!(unread.json["unread"][0]["what"], "inbox of inventory");
    // Nor is what a server that is away would have told.
    let away = shop.folder().join("away.toml");
    let database = format!("/{}\"", shop.database());
    let text = shop.console.configuration();
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let is_its = line.starts_with("database") && line.ends_with(&database);
            if is_its {
                "database = \"mysql://ops:pw@127.0.0.1:1/inventory\"".to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    std::fs::write(&away, lines.join("\n")).expect("written");
    let blind = Console::new(away, shop.folder()).try_run(&SCAN).await;
    assert_eq!(blind.code, 5, "{blind:#?}");
    assert_eq!(blind.json["unread"][0]["what"], "inbox of inventory");
    assert_eq!(blind.json["unread"][0]["is_unreachable"], true);
    let shown = shop.console.run(&["scan", "show"]).await;
    assert!(
        shown["items"]
            .as_array()
            .is_some_and(|runs| runs.len() >= 5)
    );
    shop.close().await;
}

/// The bench, small: every class among two thousand orders, while orders are placed.
#[tokio::test(flavor = "multi_thread")]
async fn every_seeded_fault_is_found_and_nothing_else() {
    let addresses = Addresses {
        mariadb: server("REDRIVE_TEST_MARIADB_URL"),
        amqp: server("REDRIVE_TEST_AMQP_URL"),
        management: server("REDRIVE_TEST_MANAGEMENT_URL"),
    };
    let plan = Plan {
        orders: 2_000,
        faults: 50,
    };
    let outcome = scan::run(&addresses, plan).await.expect("runs");
    assert!(outcome.examined >= plan.orders, "{outcome:?}");
    assert_eq!(
        (
            outcome.found,
            outcome.wrong,
            outcome.invented,
            outcome.not_compared,
            outcome.found_again
        ),
        (plan.faults, 0, 0, 0, plan.faults),
        "{outcome:?}"
    );
    assert!(outcome.placed > 0, "{outcome:?}");
    // A service that is away is named, and nothing is said of what could not be compared.
    assert!(outcome.away_named > 0, "{outcome:?}");
    assert_eq!(outcome.away_wrong, 0, "{outcome:?}");
    // Other tests read on the same server: the bench holds this against a bound.
    assert!(outcome.rows_read > outcome.orders_counted, "{outcome:?}");
}
