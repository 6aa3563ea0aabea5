//! The sandbox's business tables: SQL that SQLite, MySQL and MariaDB read alike.

use crate::base::clock::Timestamp;
use crate::store::Value;

/// Tables of the orders service. A request repeated under the client's key finds its order, and its
/// digest tells whether it is the same request.
pub const ORDERS: &[&str] = &["CREATE TABLE IF NOT EXISTS orders (
    order_no BIGINT NOT NULL PRIMARY KEY,
    idempotency_key VARCHAR(191) NOT NULL UNIQUE,
    request_sha256 CHAR(64) NOT NULL,
    saga_id CHAR(36) NOT NULL,
    state VARCHAR(32) NOT NULL,
    amount_cents BIGINT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1
)"];

/// Tables of the inventory service. A reservation in the state `cancelled` is a tombstone: the order
/// was cancelled before it came, and stays so.
pub const INVENTORY: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS stock (
    sku VARCHAR(64) NOT NULL PRIMARY KEY,
    on_hand BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    CHECK (on_hand >= 0),
    CHECK (reserved >= 0),
    CHECK (reserved <= on_hand)
)",
    "CREATE TABLE IF NOT EXISTS reservations (
    order_no BIGINT NOT NULL PRIMARY KEY,
    idempotency_key VARCHAR(191) UNIQUE,
    sku VARCHAR(64) NOT NULL,
    quantity BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL
)",
];

/// Tables of the payment service, and of the card processor it pays through: what that has done is in
/// a ledger of its own, so that a charge whose answer was lost is still there to be asked for.
pub const PAYMENT: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS payments (
    idempotency_key VARCHAR(191) NOT NULL PRIMARY KEY,
    order_no BIGINT NOT NULL UNIQUE,
    amount_cents BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL
)",
    "CREATE TABLE IF NOT EXISTS refunds (
    idempotency_key VARCHAR(191) NOT NULL PRIMARY KEY,
    order_no BIGINT NOT NULL UNIQUE,
    amount_cents BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL
)",
    "CREATE TABLE IF NOT EXISTS processor_ledger (
    idempotency_key VARCHAR(191) NOT NULL PRIMARY KEY,
    order_no BIGINT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    amount_cents BIGINT NOT NULL
)",
    "CREATE TABLE IF NOT EXISTS processor_faults (
    order_no BIGINT NOT NULL PRIMARY KEY,
    fault VARCHAR(32) NOT NULL,
    times_left BIGINT NOT NULL
)",
];

/// Tables of the notification service.
pub const NOTIFICATION: &[&str] = &["CREATE TABLE IF NOT EXISTS mails (
    order_no BIGINT NOT NULL,
    about VARCHAR(32) NOT NULL,
    PRIMARY KEY (order_no, about)
)"];

/// Tables of a service by name.
pub fn of(service: &str) -> &'static [&'static str] {
    match service {
        "orders" => ORDERS,
        "inventory" => INVENTORY,
        "payment" => PAYMENT,
        "notification" => NOTIFICATION,
        _ => &[],
    }
}

/// An instant as the product's time columns take it: MySQL and MariaDB keep `DATETIME(6)`, SQLite
/// microseconds.
pub fn time(product: &str, at: Timestamp) -> Value {
    if product == "sqlite" {
        return Value::Int(at.micros());
    }
    at.to_datetime().map_or(Value::Null, |at| {
        Value::Text(at.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
    })
}
