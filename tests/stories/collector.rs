//! The collector as a process: killed between its commit and its acknowledgement.

use lapin::BasicProperties;

use super::shop::{DLQ, QUEUE, Shop, until};

/// Messages that die.
const MESSAGES: i64 = 100;

/// Ninety with an id; ten without, of which two have the same bytes and are two messages.
fn messages() -> Vec<(BasicProperties, Vec<u8>)> {
    let properties = || BasicProperties::default().with_delivery_mode(2);
    let body = |n: i64| format!(r#"{{"order_id":{n}}}"#).into_bytes();
    let with_id = (0..90).map(|n| {
        (
            properties().with_message_id(format!("e-{n}").into()),
            body(n),
        )
    });
    let without = (90..99).map(|n| (properties(), body(n)));
    // Next to its twin, so that both die in the same second.
    with_id
        .chain(without)
        .chain([(properties(), body(98))])
        .collect()
}

async fn letters(shop: &Shop) -> i64 {
    shop.count("SELECT COUNT(*) FROM dead_letters").await
}

#[tokio::test(flavor = "multi_thread")]
async fn b_14_killed_between_commit_and_ack_each_message_is_one_row() {
    let shop = Shop::open("killed_collector").await;
    let sent = messages();
    let lent: Vec<_> = sent
        .iter()
        .map(|(properties, body)| (properties.clone(), body.as_slice()))
        .collect();
    shop.put(QUEUE, &lent).await;
    shop.arrives(QUEUE, 100).await;
    assert_eq!(shop.consume(false).await.len(), 100);
    shop.arrives(DLQ, 100).await;

    // Killed in the middle of what was delivered; again among what comes back; and after the last.
    for (commits, rows) in [(58, 58), (70, 70), (100, MESSAGES)] {
        let point = format!("collector.after_commit={}*off->pause", commits - 1);
        let mut child = shop.console.start_worker(&["collector"], &point);
        until(&format!("{rows} rows"), || async {
            letters(&shop).await == rows
        })
        .await;
        child.kill().await.expect("kill -9");
        shop.arrives(DLQ, 100).await;
    }
    let mut child = shop.console.start_worker(&["collector"], "");
    shop.arrives(DLQ, 0).await;
    // Acknowledged means stored: only now can a wrong row be told from a late one.
    let twins = "SELECT COUNT(*) FROM dead_letters WHERE event_id IS NULL AND payload LIKE '%:98}'";
    let without = "SELECT COUNT(*) FROM dead_letters WHERE event_id IS NULL";
    let deaths = "SELECT COUNT(*) FROM dead_letter_deaths";
    assert_eq!(letters(&shop).await, MESSAGES);
    assert_eq!(shop.count(without).await, 10);
    assert_eq!(shop.count(twins).await, 2, "the twins are two messages");
    assert_eq!(shop.count(deaths).await, MESSAGES, "one death each");
    // Nobody holds them any more: a twin that comes later is another one.
    let held = "SELECT COUNT(*) FROM dead_letter_deaths d JOIN dead_letters l
        ON l.dead_letter_id = d.dead_letter_id WHERE l.event_id IS NULL AND d.fingerprint LIKE '%:%'";
    until("acknowledged rows are marked", || async {
        shop.count(held).await == 0
    })
    .await;
    child.kill().await.expect("ended");
    shop.console.verify_audit().await;
    shop.close().await;
}
