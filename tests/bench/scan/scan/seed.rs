//! Orders as the sandbox leaves them, made by the database itself, and faults of every class among them.

use std::collections::BTreeMap;

use color_eyre::eyre::{Result, WrapErr};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use super::Plan;
use super::arena::Arena;

/// The first seeded order.
const FIRST: u64 = 1_000_000;
/// Rows filled by one statement.
const CHUNK: u64 = 20_000;

/// Classes, each with the statements that make it of a confirmed order; `{…}` are the tables.
const CLASSES: [(&str, &[&str]); 10] = [
    (
        "never_emitted",
        &[
            PENDING,
            NO_STOCK,
            NO_PAYMENT,
            NO_INBOX,
            "DELETE FROM {orders}.outbox_events WHERE aggregate_id = ?",
        ],
    ),
    (
        "not_sent",
        &[
            PENDING,
            NO_STOCK,
            NO_PAYMENT,
            NO_INBOX,
            "UPDATE {orders}.outbox_events SET status = 'pending', sent_at = NULL, next_attempt_at = NOW(6) + INTERVAL 1 DAY WHERE aggregate_id = ?",
        ],
    ),
    (
        "failed_at_dispatch",
        &[
            PENDING,
            NO_STOCK,
            NO_PAYMENT,
            NO_INBOX,
            "UPDATE {orders}.outbox_events SET status = 'failed', sent_at = NULL, last_error = 'unroutable' WHERE aggregate_id = ?",
        ],
    ),
    (
        "sent_not_consumed",
        &[PENDING, NO_STOCK, NO_PAYMENT, NO_INBOX],
    ),
    (
        "dead_at_consumer",
        &[
            PENDING,
            NO_STOCK,
            NO_PAYMENT,
            NO_INBOX,
            "INSERT INTO {inventory}.dead_letters (dead_letter_id, consumer_name, event_id, first_died_at, last_died_at, updated_at, dead_letter_queue, error_class, properties, headers, payload, payload_bytes, payload_sha256) SELECT UUID(), 'inventory', event_id, created_at, created_at, created_at, 'inventory.orders.dlq', 'decode', '{}', '[]', '', 0, '' FROM {orders}.outbox_events WHERE aggregate_id = ?",
        ],
    ),
    ("no_result", &[PENDING, NO_PAYMENT]),
    (
        "result_not_applied",
        &[PENDING, NO_PAYMENT, RESULT_RESERVED, TOLD],
    ),
    (
        "business_failure",
        &[
            PENDING,
            NO_PAYMENT,
            RESULT_REJECTED,
            TOLD,
            "UPDATE {inventory}.reservations SET state = 'rejected' WHERE order_no = ?",
        ],
    ),
    (
        "state_mismatch",
        &["UPDATE {inventory}.reservations SET state = 'released' WHERE order_no = ?"],
    ),
    (
        "amount_mismatch",
        &["UPDATE {payment}.payments SET amount_cents = amount_cents - 1 WHERE order_no = ?"],
    ),
];

const PENDING: &str = "UPDATE {orders}.orders o JOIN {orders}.sagas s ON s.saga_id = o.saga_id SET o.state = 'pending_inventory', s.state = 'running' WHERE o.order_no = ?";
const NO_STOCK: &str = "DELETE FROM {inventory}.reservations WHERE order_no = ?";
const NO_PAYMENT: &str = "DELETE FROM {payment}.payments WHERE order_no = ?";
const NO_INBOX: &str = "DELETE i FROM {inventory}.consumer_inbox i JOIN {orders}.outbox_events e ON e.event_id = i.event_id WHERE e.aggregate_id = ? AND i.consumer_name = 'inventory'";
const RESULT_RESERVED: &str = "INSERT INTO {inventory}.outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, status, created_at, next_attempt_at, sent_at) SELECT UUID(), aggregate_id, 1, 'inventory.reserved', payload, 'sent', created_at, created_at, created_at FROM {orders}.outbox_events WHERE aggregate_id = ?";
const RESULT_REJECTED: &str = "INSERT INTO {inventory}.outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, status, created_at, next_attempt_at, sent_at) SELECT UUID(), aggregate_id, 1, 'inventory.rejected', payload, 'sent', created_at, created_at, created_at FROM {orders}.outbox_events WHERE aggregate_id = ?";
const TOLD: &str = "INSERT INTO {orders}.consumer_inbox (consumer_name, event_id, payload_sha256, processed_at) SELECT 'orders', event_id, '', created_at FROM {inventory}.outbox_events WHERE aggregate_id = ?";

/// Every order of one chunk, an hour old: confirmed, reserved, charged, its event sent and consumed.
const FILL: [&str; 6] = [
    "INSERT INTO {orders}.orders (order_no, idempotency_key, request_sha256, saga_id, state, amount_cents) SELECT seq, CONCAT('seed-', seq), '', {id}, 'confirmed', 1000 + seq MOD 500 FROM {seq}",
    "INSERT INTO {orders}.sagas (saga_id, saga_type, business_key, state, created_at, updated_at) SELECT {id}, 'order', seq, 'completed', {then}, {then} FROM {seq}",
    "INSERT INTO {inventory}.reservations (order_no, idempotency_key, sku, quantity, state) SELECT seq, CONCAT('seed-', seq), 'SKU-SOAK', 1, 'reserved' FROM {seq}",
    "INSERT INTO {payment}.payments (idempotency_key, order_no, amount_cents, state) SELECT CONCAT('seed-', seq), seq, 1000 + seq MOD 500, 'charged' FROM {seq}",
    "INSERT INTO {orders}.outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, status, created_at, next_attempt_at, sent_at) SELECT {id}, seq, 1, 'order.created', CONCAT('{\"order_no\":', seq, '}'), 'sent', {then}, {then}, {then} FROM {seq}",
    "INSERT INTO {inventory}.consumer_inbox (consumer_name, event_id, payload_sha256, processed_at) SELECT 'inventory', {id}, '', {then} FROM {seq}",
];

/// Orders and faults; order number and class of each fault.
pub async fn fill(
    database: &mut MySqlConnection,
    arena: &Arena,
    plan: Plan,
) -> Result<BTreeMap<String, &'static str>> {
    let last = FIRST + plan.orders - 1;
    let named = |statement: &str| {
        ["orders", "inventory", "payment"]
            .iter()
            .fold(statement.to_owned(), |text, service| {
                text.replace(&format!("{{{service}}}"), &arena.database(service))
            })
    };
    // A DELETE over several tables wants a database of its session.
    let own = format!("USE {}", arena.database("orders"));
    database.execute(AssertSqlSafe(own)).await?;
    let id = "LOWER(CONCAT(LPAD(HEX(seq), 8, '0'), '-c3f2-7000-9000-', LPAD(HEX(seq), 12, '0')))";
    for from in (FIRST..=last).step_by(usize::try_from(CHUNK)?) {
        let to = last.min(from + CHUNK - 1);
        for statement in FILL {
            let statement = named(statement)
                .replace("{id}", id)
                .replace("{then}", "(NOW(6) - INTERVAL 1 HOUR)")
                .replace(
                    "{seq}",
                    &format!("{}.seq_{from}_to_{to}", arena.database("orders")),
                );
            run(database, &statement, None).await?;
        }
    }
    let apart = plan.orders / plan.faults.max(1);
    let mut expected = BTreeMap::new();
    for (number, (class, statements)) in (0..plan.faults).zip(CLASSES.iter().cycle()) {
        let order = FIRST + number * apart;
        for statement in *statements {
            run(database, &named(statement), Some(order)).await?;
        }
        expected.insert(order.to_string(), *class);
    }
    for (service, table) in [
        ("orders", "orders"),
        ("orders", "sagas"),
        ("orders", "outbox_events"),
        ("inventory", "reservations"),
        ("inventory", "consumer_inbox"),
        ("payment", "payments"),
    ] {
        let analyze = format!("ANALYZE TABLE {}.{table}", arena.database(service));
        run(database, &analyze, None).await?;
    }
    Ok(expected)
}

async fn run(database: &mut MySqlConnection, statement: &str, order: Option<u64>) -> Result<()> {
    let query = sqlx::query(AssertSqlSafe(statement.to_owned()));
    let query = match order {
        // As text: that is what an aggregate is; a number column takes it as well.
        Some(order) => query.bind(order.to_string()),
        None => query,
    };
    query
        .execute(database)
        .await
        .wrap_err_with(|| statement.chars().take(160).collect::<String>())?;
    Ok(())
}
