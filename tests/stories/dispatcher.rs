//! The dispatcher as a process, killed in each of its windows: what is left, who takes it up, and that every
//! event takes effect once.

use sqlx::Row;

use super::shop::{Event, QUEUE, Shop, until};

const EVENTS: i64 = 3;

/// Commits events that nobody has sent.
async fn emit(shop: &Shop) -> Vec<Event> {
    let events: Vec<Event> = (0..EVENTS).map(|n| Event::order(n, true)).collect();
    for event in &events {
        sqlx::query(
            "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload)
             VALUES (?, ?, ?, 'order.created', ?)",
        )
        .bind(&event.id)
        .bind(&event.key)
        .bind(event.version)
        .bind(String::from_utf8_lossy(&event.body).as_ref())
        .execute(&shop.orders)
        .await
        .expect("an outbox row");
    }
    events
}

async fn rows(shop: &Shop, state: &str) -> i64 {
    let count = "SELECT COUNT(*) FROM outbox_events WHERE status = ?";
    let row = sqlx::query(count).bind(state).fetch_one(&shop.orders).await;
    row.expect("a row").get(0)
}

/// Kills a dispatcher at `point`; then the lease runs out, the reaper and another dispatcher go on.
/// Returns how many messages the dead one had sent.
async fn killed_at(shop: &Shop, point: &str) -> usize {
    let console = &shop.console;
    let mut child = console.start_worker(&["dispatcher"], &format!("{point}=pause"));
    until("the crash point", || async {
        console.worker_log().contains(point)
    })
    .await;
    child.kill().await.expect("kill -9");
    assert_eq!(rows(shop, "sending").await, EVENTS, "left under a lease");
    let sent = shop.depth(QUEUE).await;
    // Before the lease has run out nobody touches them.
    for worker in ["reaper", "dispatcher"] {
        console.run(&["worker", worker, "--once"]).await;
    }
    assert_eq!(rows(shop, "sending").await, EVENTS);
    sqlx::query("UPDATE outbox_events SET lease_until = NOW(6) - INTERVAL 1 SECOND")
        .execute(&shop.orders)
        .await
        .expect("time passes");
    let reaped = console.run(&["worker", "reaper", "--once"]).await;
    assert!(reaped.to_string().contains(r#"["reaped",3]"#), "{reaped:#}");
    console.run(&["worker", "dispatcher", "--once"]).await;
    assert_eq!(rows(shop, "sent").await, EVENTS);
    sent
}

async fn each_took_effect_once(shop: Shop, events: &[Event], deliveries: usize) {
    shop.consume_at_least(deliveries, true).await;
    for event in events {
        assert_eq!(shop.effects(event).await, 1, "{}", event.id);
    }
    shop.console.verify_audit().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_claim_and_publish_nothing_was_sent_and_the_next_one_sends_it() {
    let shop = Shop::open("after_claim").await;
    let events = emit(&shop).await;
    assert_eq!(killed_at(&shop, "dispatcher.after_claim").await, 0);
    each_took_effect_once(shop, &events, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_confirm_is_read_the_event_goes_out_again_under_its_id() {
    let shop = Shop::open("after_publish").await;
    let events = emit(&shop).await;
    let sent = killed_at(&shop, "dispatcher.after_publish").await;
    assert!((1..=3).contains(&sent), "{sent} were on the wire");
    each_took_effect_once(shop, &events, 3 + sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_confirm_and_sent_mark_every_event_goes_out_twice_and_takes_effect_once() {
    let shop = Shop::open("after_confirm").await;
    let events = emit(&shop).await;
    assert_eq!(killed_at(&shop, "dispatcher.after_confirm").await, 3);
    each_took_effect_once(shop, &events, 6).await;
}
