//! What must hold at the end, by id and by amount. One server holds all databases, so that an outbox can be
//! held against an inbox in one statement.

use std::time::Duration;

use color_eyre::eyre::Result;
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::arena::{Arena, SKU};
use super::{Outcome, Plan, note};

/// Which events each consumer must have.
const CONSUMED: [(&str, &str, &str); 8] = [
    (
        "orders",
        "inventory",
        "'order.created', 'inventory.reserve'",
    ),
    (
        "orders",
        "notification",
        "'order.created', 'order.confirmed'",
    ),
    ("orders", "payment", "'payment.charge'"),
    (
        "inventory",
        "orders",
        "'inventory.reserved', 'inventory.rejected'",
    ),
    ("payment", "orders", "'payment.charged', 'payment.refused'"),
    ("notification", "orders", "'notification.sent'"),
    (
        "orders",
        "inventory",
        "'order.cancelled', 'inventory.release'",
    ),
    ("orders", "notification", "'order.cancelled'"),
];
const SERVICES: [&str; 4] = ["orders", "inventory", "payment", "notification"];

/// What is under way.
pub struct Open {
    pub orders: u64,
    pub events: u64,
}

async fn number(session: &mut MySqlConnection, statement: String) -> Result<i64> {
    let row: (i64,) = sqlx::query_as(AssertSqlSafe(statement))
        .fetch_one(session)
        .await?;
    Ok(row.0)
}

async fn count(session: &mut MySqlConnection, statement: String) -> Result<u64> {
    Ok(u64::try_from(number(session, statement).await?).unwrap_or_default())
}

/// Orders without an end, and events that are not sent.
pub async fn open(session: &mut MySqlConnection, arena: &Arena) -> Result<Open> {
    let orders = format!(
        "SELECT COUNT(*) FROM {}.orders WHERE state NOT IN ('confirmed', 'cancelled')",
        arena.database("orders")
    );
    let mut open = Open {
        orders: count(session, orders).await?,
        events: 0,
    };
    for service in SERVICES {
        let pending = format!(
            "SELECT COUNT(*) FROM {}.outbox_events WHERE status IN ('pending', 'sending')",
            arena.database(service)
        );
        open.events += count(session, pending).await?;
    }
    Ok(open)
}

/// Events that a consumer should have and has not.
pub async fn missing(session: &mut MySqlConnection, arena: &Arena) -> Result<u64> {
    let mut missing = 0;
    for (producer, consumer, types) in CONSUMED {
        let statement = format!(
            "SELECT COUNT(*) FROM {}.outbox_events e LEFT JOIN {}.consumer_inbox i \
             ON i.consumer_name = '{consumer}' AND i.event_id = e.event_id \
             WHERE e.event_type IN ({types}) AND i.event_id IS NULL",
            arena.database(producer),
            arena.database(consumer)
        );
        missing += count(session, statement).await?;
    }
    Ok(missing)
}

/// Everything, counted.
pub async fn count_all(session: &mut MySqlConnection, arena: &Arena) -> Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for service in SERVICES {
        let statement = format!(
            "SELECT COUNT(*) FROM {}.outbox_events",
            arena.database(service)
        );
        all.push((service.to_owned(), count(session, statement).await?));
    }
    Ok(all)
}

/// Holds the end against what was ordered.
pub async fn count_end(
    session: &mut MySqlConnection,
    arena: &Arena,
    plan: &Plan,
) -> Result<Outcome> {
    let n = plan.orders();
    let (orders, inventory) = (arena.database("orders"), arena.database("inventory"));
    let (payment, notification) = (arena.database("payment"), arena.database("notification"));
    let sum = "CAST(COALESCE(SUM(amount_cents), 0) AS SIGNED)";
    let placed = count(session, format!("SELECT COUNT(*) FROM {orders}.orders")).await?;
    let cents = number(session, format!("SELECT {sum} FROM {orders}.orders")).await?;
    let confirmed = format!("SELECT COUNT(*) FROM {orders}.orders WHERE state = 'confirmed'");
    let confirmed = count(session, confirmed).await?;
    let mut events = 0;
    for (service, rows) in count_all(session, arena).await? {
        note(&format!("{rows} events of {service}"));
        events += rows;
    }

    let mut lost = n.saturating_sub(placed) + missing(session, arena).await?;
    let mut doubled = placed.saturating_sub(n);
    for (service, event_type) in [
        ("orders", "order.created"),
        ("inventory", "inventory.reserved"),
        ("orders", "payment.charge"),
        ("payment", "payment.charged"),
        ("orders", "order.confirmed"),
    ] {
        let statement = format!(
            "SELECT COUNT(*) FROM {}.outbox_events WHERE event_type = '{event_type}'",
            arena.database(service)
        );
        let found = count(session, statement).await?;
        lost += n.saturating_sub(found);
        doubled += found.saturating_sub(n);
    }
    for table in [
        format!("{inventory}.reservations WHERE state = 'reserved'"),
        format!("{payment}.payments WHERE state = 'charged'"),
        format!("{payment}.processor_ledger WHERE kind = 'charge'"),
        format!("{notification}.mails WHERE about = 'created'"),
        format!("{notification}.mails WHERE about = 'confirmed'"),
    ] {
        let found = count(session, format!("SELECT COUNT(*) FROM {table}")).await?;
        lost += n.saturating_sub(found);
        doubled += found.saturating_sub(n);
    }

    let pieces = format!("SELECT CAST(SUM(quantity) AS SIGNED) FROM {inventory}.reservations");
    let pieces = number(session, pieces).await?;
    let reserved = format!("SELECT reserved FROM {inventory}.stock WHERE sku = '{SKU}'");
    let reserved = number(session, reserved).await?;
    // Every order costs 7.00 a piece.
    let expected = pieces * 700;
    let mut wrong_cents = cents.abs_diff(expected) + pieces.abs_diff(reserved) * 700;
    for table in ["payments", "processor_ledger"] {
        let statement = format!("SELECT {sum} FROM {payment}.{table}");
        wrong_cents += number(session, statement).await?.abs_diff(cents);
    }
    let mut wrong_states = placed - confirmed;
    for service in SERVICES {
        let database = arena.database(service);
        let unsent =
            format!("SELECT COUNT(*) FROM {database}.outbox_events WHERE status <> 'sent'");
        wrong_states += count(session, unsent).await?;
        let dead = format!("SELECT COUNT(*) FROM {database}.dead_letters");
        wrong_states += count(session, dead).await?;
    }
    Ok(Outcome {
        events,
        lost,
        doubled,
        wrong_cents,
        wrong_states,
        kills: 0,
        kills_least: 0,
        took: Duration::ZERO,
    })
}
