//! Replay pressed twice, from two consoles.

use super::redrive::replay;
use super::shop::{Event, QUEUE, Shop};

#[tokio::test(flavor = "multi_thread")]
async fn r_01_two_consoles_publish_once() {
    let shop = Shop::open("two").await;
    let console = &shop.console;
    let events: Vec<Event> = (0..4).map(|n| Event::order(n, false)).collect();
    shop.publish(&events).await;
    shop.consume_at_least(4, false).await;
    shop.collect(4).await;
    for event in &events {
        let arguments = replay(&event.id, &[]);
        let (one, other) = tokio::join!(console.try_run(&arguments), console.try_run(&arguments));
        let mut codes = [one.code, other.code];
        codes.sort_unstable();
        assert_eq!(
            codes,
            [0, 4],
            "one is done, one is refused: {one:#?} {other:#?}"
        );
        let refused = if one.code == 4 { &one } else { &other };
        let told = format!("{} {}", refused.json, refused.stderr);
        assert!(
            told.contains("held") || told.contains("drifted"),
            "says who holds it: {told}"
        );
        shop.arrives(QUEUE, 1).await;
        let seen = shop.consume(true).await;
        assert_eq!(seen.len(), 1, "one publish");
        assert_eq!(shop.effects(event).await, 1);
    }
    // Pressed again when it is done: refused, nothing is sent.
    let late = console.try_run(&replay(&events[0].id, &[])).await;
    assert!(matches!(late.code, 2 | 4), "{late:#?}");
    assert_eq!(shop.depth(QUEUE).await, 0);
    console.verify_audit().await;
    shop.close().await;
}
