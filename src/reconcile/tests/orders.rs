//! The sandbox's rules: one order of every class, among orders that are as they should be.

use super::*;
use crate::model::scan::FindingState;

const ORDER: &str = "INSERT INTO orders (order_no, idempotency_key, request_sha256, saga_id, state, \
     amount_cents) VALUES (?, ?, '', ?, ?, 1000)";
const SAGA: &str = "INSERT INTO sagas (saga_id, saga_type, business_key, state, updated_at) \
     VALUES (?, 'order', ?, ?, ?)";

/// An order with its saga, and how far its stock has come.
async fn order(bench: &Bench, number: i64, state: &str, age_s: u64) {
    saga_order(bench, number, (state, "running"), age_s).await;
}

async fn saga_order(bench: &Bench, number: i64, (state, saga): (&str, &str), age_s: u64) {
    let key = text(number.to_string());
    let row = [Value::Int(number), key.clone(), key.clone(), text(state)];
    execute(bench, "orders", ORDER, &row).await;
    let row = [key.clone(), key, text(saga), ago(age_s)];
    execute(bench, "orders", SAGA, &row).await;
}

async fn event(bench: &Bench, (service, kind): (&str, &str), number: i64, status: &str) -> String {
    let id = format!("{kind}-{number}");
    let version = i64::from(kind != "payment.charge");
    Sent {
        service,
        id: &id,
        kind,
        key: &number.to_string(),
        version,
        status,
        ..Sent::default()
    }
    .write(bench)
    .await;
    id
}

async fn stock(bench: &Bench, number: i64, state: &str) {
    let row = [Value::Int(number), text(number.to_string()), text(state)];
    let insert = "INSERT INTO reservations (order_no, idempotency_key, sku, quantity, state) \
         VALUES (?, ?, 'SKU-TEA', 1, ?)";
    execute(bench, "inventory", insert, &row).await;
}

async fn paid(bench: &Bench, number: i64, (state, cents): (&str, i64)) {
    let row = [
        text(number.to_string()),
        Value::Int(number),
        Value::Int(cents),
        text(state),
    ];
    let insert =
        "INSERT INTO payments (idempotency_key, order_no, amount_cents, state) VALUES (?, ?, ?, ?)";
    execute(bench, "payment", insert, &row).await;
}

/// The way of an order until its stock's result is told, as far as `steps`.
async fn on_the_way(bench: &Bench, number: i64, steps: usize, result: &str) {
    let created = event(bench, ("orders", "order.created"), number, "sent").await;
    if steps > 0 {
        consumed(bench, ("inventory", &created), "{}", 3_000).await;
    }
    if steps > 1 {
        let told = event(bench, ("inventory", result), number, "sent").await;
        if steps > 2 {
            consumed(bench, ("orders", &told), "{}", 2_000).await;
        }
    }
}

#[tokio::test]
async fn every_class_is_told_from_the_others() {
    let bench = bench().await;
    // As they should be: done, cancelled, on their way.
    order(&bench, 1, "confirmed", 3_600).await;
    stock(&bench, 1, "reserved").await;
    paid(&bench, 1, ("charged", 1_000)).await;
    order(&bench, 2, "cancelled", 3_600).await;
    stock(&bench, 2, "released").await;
    order(&bench, 3, "pending_inventory", 5).await;

    order(&bench, 10, "pending_inventory", 3_600).await;
    order(&bench, 11, "pending_inventory", 3_600).await;
    event(&bench, ("orders", "order.created"), 11, "pending").await;
    order(&bench, 12, "pending_inventory", 3_600).await;
    event(&bench, ("orders", "order.created"), 12, "failed").await;
    order(&bench, 13, "pending_inventory", 3_600).await;
    on_the_way(&bench, 13, 0, "").await;
    order(&bench, 14, "pending_inventory", 3_600).await;
    on_the_way(&bench, 14, 0, "").await;
    dead(&bench, ("inventory", "order.created-14"), "open", None).await;
    order(&bench, 15, "pending_inventory", 3_600).await;
    on_the_way(&bench, 15, 1, "").await;
    order(&bench, 16, "pending_inventory", 3_600).await;
    on_the_way(&bench, 16, 2, "inventory.reserved").await;
    order(&bench, 17, "pending_inventory", 3_600).await;
    on_the_way(&bench, 17, 3, "inventory.reserved").await;
    order(&bench, 18, "pending_inventory", 3_600).await;
    on_the_way(&bench, 18, 3, "inventory.rejected").await;
    order(&bench, 19, "confirmed", 3_600).await;
    stock(&bench, 19, "reserved").await;
    paid(&bench, 19, ("charged", 900)).await;
    order(&bench, 20, "confirmed", 3_600).await;
    stock(&bench, 20, "released").await;
    saga_order(&bench, 21, ("cancelled", "compensation_failed"), 3_600).await;
    order(&bench, 22, "reserved", 3_600).await;
    event(&bench, ("orders", "payment.charge"), 22, "sent").await;
    dead(&bench, ("payment", "payment.charge-22"), "open", None).await;
    // Moved five seconds ago, whatever its age (C-01).
    order(&bench, 23, "pending_inventory", 3 * 24 * 3_600).await;
    Sent {
        id: "again-23",
        key: "23",
        created_s: 3 * 24 * 3_600,
        sent_s: 5,
        ..Sent::default()
    }
    .write(&bench)
    .await;

    let outcome = scan(&bench, "orders-stuck").await;
    assert_eq!(outcome.scan.not_compared, []);
    let found: Vec<(&str, &str)> = outcome
        .found
        .iter()
        .map(|difference| (difference.subject.as_str(), difference.class.as_str()))
        .collect();
    let expected = [
        ("10", "never_emitted"),
        ("11", "not_sent"),
        ("12", "failed_at_dispatch"),
        ("13", "sent_not_consumed"),
        ("14", "dead_at_consumer"),
        ("15", "no_result"),
        ("16", "result_not_applied"),
        ("17", "result_not_applied"),
        ("18", "business_failure"),
        ("19", "amount_mismatch"),
        ("20", "state_mismatch"),
        ("21", "business_failure"),
        ("22", "dead_at_consumer"),
    ];
    assert_eq!(found, expected);
    // Number 3 has no event yet, number 23 is under way.
    assert_eq!(outcome.scan.progress.in_flight, 2);
    let dead = outcome.found.get(4).expect("fourteen");
    assert_eq!(
        dead.summary,
        "order.created of order 14 is a dead letter (open) at inventory: decode"
    );
    let suggestion = dead.suggestion.as_ref().expect("suggests");
    assert_eq!(
        (suggestion.verb.as_str(), suggestion.target.as_str()),
        ("replay", "order.created-14")
    );
    let query = FindingQuery {
        state: FindingState::Open,
        after: None,
        limit: 100,
    };
    let kept = reconciler(&bench).findings(&query).await.expect("reads");
    assert_eq!(kept.rows.len(), expected.len());
}

/// An evidence that cannot be read leaves the keys that need it undecided; the others are judged.
#[tokio::test]
async fn a_rule_whose_evidence_is_away_judges_what_it_can() {
    let bench = bench().await;
    order(&bench, 1, "pending_inventory", 3_600).await;
    order(&bench, 2, "confirmed", 3_600).await;
    execute(&bench, "inventory", "DROP TABLE reservations", &[]).await;
    let outcome = scan(&bench, "orders-stuck").await;
    assert_eq!(subjects(&outcome, "never_emitted"), ["1"]);
    assert_eq!(outcome.found.len(), 1);
    let [missing] = outcome.scan.not_compared.as_slice() else {
        panic!("one part: {:?}", outcome.scan.not_compared);
    };
    assert_eq!(missing.what, "stock of inventory");
}

/// What waits in a queue is no finding of a rule either (C-03).
#[tokio::test]
async fn c_03_a_rule_looks_at_the_queue_before_it_says_lost() {
    let bench = bench().await;
    order(&bench, 1, "pending_inventory", 3_600).await;
    on_the_way(&bench, 1, 0, "").await;
    let message = crate::pipeline::test_support::message(Some("x"), "order.created", b"{}");
    bench.put("inventory.orders", vec![message]).await;
    let outcome = scan(&bench, "orders-stuck").await;
    assert_eq!(outcome.found, []);
    let explained = &outcome.scan.progress.explained;
    assert_eq!(explained.len(), 1, "{explained:?}");
    let why = explained.keys().next().expect("one");
    assert!(
        why.starts_with("order.created waits in queue inventory.orders"),
        "{why}"
    );
}
