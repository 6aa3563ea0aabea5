//! The sandbox's business tables: SQL that SQLite, MySQL and MariaDB read alike.

use crate::base::clock::Timestamp;
use crate::store::Value;

/// Tables of the orders service.
pub const ORDERS: &[&str] = &["CREATE TABLE IF NOT EXISTS orders (
    order_no BIGINT NOT NULL PRIMARY KEY,
    idempotency_key VARCHAR(64) NOT NULL UNIQUE,
    saga_id CHAR(36) NOT NULL,
    state VARCHAR(32) NOT NULL,
    amount_cents BIGINT NOT NULL
)"];

/// Tables of the inventory service.
pub const INVENTORY: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS stock (
    sku VARCHAR(64) NOT NULL PRIMARY KEY,
    on_hand BIGINT NOT NULL,
    reserved BIGINT NOT NULL
)",
    "CREATE TABLE IF NOT EXISTS reservations (
    order_no BIGINT NOT NULL PRIMARY KEY,
    sku VARCHAR(64) NOT NULL,
    quantity BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL
)",
];

/// Tables of the payment service.
pub const PAYMENT: &[&str] = &["CREATE TABLE IF NOT EXISTS payments (
    order_no BIGINT NOT NULL PRIMARY KEY,
    amount_cents BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL
)"];

/// Tables of the notification service.
pub const NOTIFICATION: &[&str] = &["CREATE TABLE IF NOT EXISTS mails (
    order_no BIGINT NOT NULL PRIMARY KEY,
    state VARCHAR(32) NOT NULL
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
