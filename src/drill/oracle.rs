//! What must hold of a drill's orders when everything has recovered: nothing lost, nothing twice.

use std::collections::BTreeMap;

use super::order::Placed;
use super::record::{Facts, len, of_state};
use super::verdict::Check;

/// The claims for orders that must all be confirmed, and how many of them have lost something.
pub fn confirmed(placed: &[Placed], dead_letters: u64, facts: &Facts) -> (Vec<Check>, u64) {
    let record = &facts.record;
    let n = len(placed.len());
    let pieces: i64 = placed.iter().map(|placed| placed.quantity).sum();
    let cents: i64 = placed.iter().map(|placed| placed.amount_cents).sum();
    let (confirmed, confirmed_cents) = of_state(&record.orders, "confirmed");
    let orders: u64 = record.orders.iter().map(|count| count.rows).sum();
    let (reserved, reserved_pieces) = of_state(&record.reservations, "reserved");
    let (paid, paid_cents) = of_state(&record.payments, "charged");
    let mut checks = vec![
        Check::equal("orders that exist", &n, &orders),
        Check::equal("orders confirmed", &n, &confirmed),
        Check::equal("cents of confirmed orders", &cents, &confirmed_cents),
        Check::equal(
            "orders with exactly one order.created",
            &n,
            &created_once(placed, facts),
        ),
        Check::equal("reservations told", &n, &told(facts, "inventory.reserved")),
        Check::equal("charges told", &n, &told(facts, "payment.charged")),
        Check::equal("confirmations told", &n, &told(facts, "order.confirmed")),
        Check::equal("events not sent", &0, &unsent(facts)),
        Check::equal("reservations", &n, &reserved),
        Check::equal("pieces reserved", &pieces, &reserved_pieces),
        Check::equal("pieces taken from stock", &pieces, &record.stock.reserved),
        Check::equal("payments", &n, &paid),
        Check::equal("cents charged", &cents, &paid_cents),
        Check::equal("open dead letters", &dead_letters, &record.dead_letters),
    ];
    for inbox in &record.inbox {
        checks.push(Check::equal(
            format!("events missing in the inbox of {}", inbox.consumer),
            &0,
            &inbox.missing,
        ));
    }
    let whole = [orders, created_once(placed, facts), reserved, paid];
    let least = whole.into_iter().min().unwrap_or_default();
    (checks, n.saturating_sub(least))
}

/// Committed orders that are not in the table any more, or without their event.
pub fn lost_orders(placed: &[Placed], facts: &Facts) -> u64 {
    let n = len(placed.len());
    let orders: u64 = facts.record.orders.iter().map(|count| count.rows).sum();
    n.saturating_sub(orders.min(created_once(placed, facts)))
}

/// Placed orders with exactly one `order.created`, under the id it was committed with.
fn created_once(placed: &[Placed], facts: &Facts) -> u64 {
    let mut created: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for event in facts
        .events
        .iter()
        .filter(|event| event.event_type == "order.created")
    {
        created
            .entry(event.order_no)
            .or_default()
            .push(event.event_id.as_str());
    }
    let is_whole = |placed: &&Placed| {
        let ids = created.get(&placed.order_no);
        ids.is_some_and(|ids| ids.as_slice() == [placed.event_id.as_str()])
    };
    len(placed.iter().filter(is_whole).count())
}

/// Result events of a type: a second one would be a second effect.
fn told(facts: &Facts, event_type: &str) -> u64 {
    let events = facts.events.iter();
    len(events
        .filter(|event| event.event_type == event_type)
        .count())
}

fn unsent(facts: &Facts) -> u64 {
    len(facts
        .events
        .iter()
        .filter(|event| event.state != "sent")
        .count())
}
