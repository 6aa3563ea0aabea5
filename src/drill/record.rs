//! The state of the business and the pipeline, as far as it belongs to one drill: orders are told by
//! their numbers, events by their aggregate, stock by the drill's own sku.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;

use super::trouble::{Told as _, Trouble};
use crate::base::clock::Timestamp;
use crate::model::ids::EventId;
use crate::ports::Ports;
use crate::sandbox;
use crate::store::Value;

/// Event ids shown in a record; the counts are of all.
const IDS_SHOWN: usize = 100;
/// Events of one drill that are read at most.
const EVENTS_MAX: usize = 20_000;

/// Rows of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateCount {
    /// The state.
    pub state: String,
    /// Rows.
    pub rows: u64,
    /// Their sum: cents of orders and payments, pieces of reservations.
    pub sum: i64,
}

/// The drill's sku in stock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stock {
    /// Its name.
    pub sku: String,
    /// Pieces.
    pub on_hand: i64,
    /// Of them reserved.
    pub reserved: i64,
}

/// Events of one service's outbox by state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutboxCount {
    /// The service.
    pub service: String,
    /// `pending`, `sending`, `sent` or `failed`.
    pub state: String,
    /// Rows.
    pub rows: u64,
    /// Attempts of all of them.
    pub attempts: u64,
}

/// The drill's events in one inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InboxCount {
    /// The consumer.
    pub consumer: String,
    /// Rows.
    pub rows: u64,
    /// Events that should have a row and have none.
    pub missing: u64,
}

/// The state at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// When it was read.
    pub at: Timestamp,
    /// Orders by state, with their amount in cents.
    pub orders: Vec<StateCount>,
    /// Outboxes.
    pub outbox: Vec<OutboxCount>,
    /// Inboxes.
    pub inbox: Vec<InboxCount>,
    /// Stock of the drill's sku.
    pub stock: Stock,
    /// Reservations by state, with their pieces.
    pub reservations: Vec<StateCount>,
    /// Payments by state, with their amount in cents.
    pub payments: Vec<StateCount>,
    /// Dead letters that wait for a person.
    pub dead_letters: u64,
    /// Events in all.
    pub events: u64,
    /// Their ids, oldest first; the first hundred.
    pub event_ids: Vec<EventId>,
}

/// One event in an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Whose outbox.
    pub service: String,
    /// Its id.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// The order's number.
    pub order_no: i64,
    /// The row's state.
    pub state: String,
    /// Times it was claimed.
    pub attempts: i64,
}

/// What a record is made of: also what is too much to show.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What is shown.
    pub record: Record,
    /// Every event.
    pub events: Vec<EventRow>,
    /// `(consumer, event id)` of the inbox rows found.
    pub consumed: BTreeSet<(String, EventId)>,
}

const ORDERS: &str = "SELECT state, COUNT(*), CAST(SUM(amount_cents) AS SIGNED) FROM orders \
     WHERE order_no >= ? AND order_no < ? AND state > ? GROUP BY state ORDER BY state LIMIT 1";
const RESERVATIONS: &str = "SELECT state, COUNT(*), CAST(SUM(quantity) AS SIGNED) FROM reservations \
     WHERE order_no >= ? AND order_no < ? AND state > ? GROUP BY state ORDER BY state LIMIT 1";
const PAYMENTS: &str = "SELECT state, COUNT(*), CAST(SUM(amount_cents) AS SIGNED) FROM payments \
     WHERE order_no >= ? AND order_no < ? AND state > ? GROUP BY state ORDER BY state LIMIT 1";
const STOCK: &str = "SELECT on_hand, reserved FROM stock WHERE sku = ?";
/// By `outbox_aggregate`; numbers of drills have the same length, so that texts sort as numbers.
const EVENTS: &str = "SELECT event_id, event_type, aggregate_id, status, attempts FROM outbox_events \
     WHERE aggregate_id >= ? AND aggregate_id < ? AND event_id > ? ORDER BY event_id LIMIT 1";
const DEAD_LETTERS: &str = "SELECT COUNT(*) FROM dead_letters \
     WHERE aggregate_id >= ? AND aggregate_id < ? AND status = 'open'";
/// Rows by the states a drill waits for.
const OPEN_ORDERS: &str = "SELECT COUNT(*) FROM orders \
     WHERE order_no >= ? AND order_no < ? AND state NOT IN ('confirmed', 'cancelled')";
const OPEN_EVENTS: &str = "SELECT COUNT(*) FROM outbox_events \
     WHERE aggregate_id >= ? AND aggregate_id < ? AND status IN ('pending', 'sending')";

fn store<'a>(ports: &'a Ports, service: &str) -> Result<&'a dyn crate::store::Store, Trouble> {
    ports
        .store(service)
        .map(AsRef::as_ref)
        .ok_or_else(|| Trouble::NotConfigured(format!("the context has no service {service}")))
}

fn keys(numbers: &Range<i64>) -> [Value; 2] {
    [
        Value::Text(numbers.start.to_string()),
        Value::Text(numbers.end.to_string()),
    ]
}

/// Reads everything about the orders of `numbers`.
///
/// # Errors
/// When a database did not answer.
pub async fn read(ports: &Ports, numbers: &Range<i64>, sku: &str) -> Result<Facts, Trouble> {
    let mut events = Vec::new();
    for (service, _) in ports.iter().filter(|(service, _)| service.outbox.is_some()) {
        events_of(ports, &service.name, numbers, &mut events).await?;
    }
    events.sort_by(|a, b| a.event_id.cmp(&b.event_id));
    let (inbox, consumed) = inboxes(ports, &events).await?;
    let mut dead_letters = 0;
    for (service, _) in ports.iter().filter(|(s, _)| s.dead_letters.is_some()) {
        dead_letters += count(ports, &service.name, DEAD_LETTERS, &keys(numbers)).await?;
    }
    let record = Record {
        at: ports.clock.now(),
        orders: states(ports, "orders", ORDERS, numbers).await?,
        outbox: outboxes(&events),
        inbox,
        stock: stock(ports, sku).await?,
        reservations: states(ports, "inventory", RESERVATIONS, numbers).await?,
        payments: states(ports, "payment", PAYMENTS, numbers).await?,
        dead_letters,
        events: len(events.len()),
        event_ids: events
            .iter()
            .take(IDS_SHOWN)
            .map(|event| event.event_id.clone())
            .collect(),
    };
    Ok(Facts {
        record,
        events,
        consumed,
    })
}

/// What is still on its way: orders without an end, and events that are not sent.
///
/// # Errors
/// When a database did not answer.
pub async fn open(ports: &Ports, numbers: &Range<i64>) -> Result<(u64, u64), Trouble> {
    let range = [Value::Int(numbers.start), Value::Int(numbers.end)];
    let orders = count(ports, "orders", OPEN_ORDERS, &range).await?;
    let mut events = 0;
    for (service, _) in ports.iter().filter(|(service, _)| service.outbox.is_some()) {
        events += count(ports, &service.name, OPEN_EVENTS, &keys(numbers)).await?;
    }
    Ok((orders, events))
}

/// One number from one service.
///
/// # Errors
/// When the database did not answer, or answered something else.
pub async fn count(
    ports: &Ports,
    service: &str,
    statement: &'static str,
    values: &[Value],
) -> Result<u64, Trouble> {
    let mut tx = store(ports, service)?.begin().await.told()?;
    let row = tx.fetch_one(statement, values).await.told()?;
    tx.rollback().await.told()?;
    match row.as_deref() {
        Some([Value::Int(n)]) => Ok(u64::try_from(*n).unwrap_or_default()),
        other => Err(Trouble::Stuck(format!(
            "{service}: no number but {other:?}"
        ))),
    }
}

async fn states(
    ports: &Ports,
    service: &str,
    statement: &'static str,
    numbers: &Range<i64>,
) -> Result<Vec<StateCount>, Trouble> {
    let mut tx = store(ports, service)?.begin().await.told()?;
    let mut found = Vec::new();
    let mut last = String::new();
    loop {
        let range = [
            Value::Int(numbers.start),
            Value::Int(numbers.end),
            Value::Text(last.clone()),
        ];
        let row = tx.fetch_one(statement, &range).await.told()?;
        let Some([Value::Text(state), Value::Int(rows), Value::Int(sum)]) = row.as_deref() else {
            break;
        };
        last.clone_from(state);
        found.push(StateCount {
            state: state.clone(),
            rows: u64::try_from(*rows).unwrap_or_default(),
            sum: *sum,
        });
    }
    tx.rollback().await.told()?;
    Ok(found)
}

async fn stock(ports: &Ports, sku: &str) -> Result<Stock, Trouble> {
    let mut tx = store(ports, "inventory")?.begin().await.told()?;
    let row = tx
        .fetch_one(STOCK, &[Value::Text(sku.to_owned())])
        .await
        .told()?;
    tx.rollback().await.told()?;
    let (on_hand, reserved) = match row.as_deref() {
        Some([Value::Int(on_hand), Value::Int(reserved)]) => (*on_hand, *reserved),
        _ => (0, 0),
    };
    Ok(Stock {
        sku: sku.to_owned(),
        on_hand,
        reserved,
    })
}

async fn events_of(
    ports: &Ports,
    service: &str,
    numbers: &Range<i64>,
    events: &mut Vec<EventRow>,
) -> Result<(), Trouble> {
    let mut tx = store(ports, service)?.begin().await.told()?;
    let mut last = String::new();
    while events.len() < EVENTS_MAX {
        let [first, end] = keys(numbers);
        let row = tx
            .fetch_one(EVENTS, &[first, end, Value::Text(last.clone())])
            .await
            .told()?;
        let Some(
            [
                Value::Text(event_id),
                Value::Text(event_type),
                Value::Text(key),
                Value::Text(state),
                Value::Int(attempts),
            ],
        ) = row.as_deref()
        else {
            break;
        };
        last.clone_from(event_id);
        events.push(EventRow {
            service: service.to_owned(),
            event_id: EventId::new(event_id.as_str()),
            event_type: event_type.clone(),
            order_no: key.parse().unwrap_or_default(),
            state: state.clone(),
            attempts: *attempts,
        });
    }
    tx.rollback().await.told()?;
    Ok(())
}

fn outboxes(events: &[EventRow]) -> Vec<OutboxCount> {
    let mut counts: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for event in events {
        let count = counts.entry((&event.service, &event.state)).or_default();
        count.0 += 1;
        count.1 += u64::try_from(event.attempts).unwrap_or_default();
    }
    counts
        .into_iter()
        .map(|((service, state), (rows, attempts))| OutboxCount {
            service: service.to_owned(),
            state: state.to_owned(),
            rows,
            attempts,
        })
        .collect()
}

/// The consumers that get a type of event.
pub fn consumers_of(event_type: &str) -> impl Iterator<Item = &'static str> {
    sandbox::SERVICES
        .iter()
        .filter(move |(_, _, keys)| keys.contains(&event_type))
        .map(|(name, _, _)| *name)
}

type Consumed = BTreeSet<(String, EventId)>;

async fn inboxes(
    ports: &Ports,
    events: &[EventRow],
) -> Result<(Vec<InboxCount>, Consumed), Trouble> {
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut consumed = BTreeSet::new();
    for event in events {
        for consumer in consumers_of(&event.event_type) {
            let found = store(ports, consumer)?
                .inbox_row(&consumer.into(), &event.event_id)
                .await
                .told()?;
            let count = counts.entry(consumer).or_default();
            if found.is_some() {
                count.0 += 1;
                consumed.insert((consumer.to_owned(), event.event_id.clone()));
            } else {
                count.1 += 1;
            }
        }
    }
    let counts = counts
        .into_iter()
        .map(|(consumer, (rows, missing))| InboxCount {
            consumer: consumer.to_owned(),
            rows,
            missing,
        })
        .collect();
    Ok((counts, consumed))
}

/// A length as a count.
pub fn len(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Rows of `state`, and their sum.
pub fn of_state(counts: &[StateCount], state: &str) -> (u64, i64) {
    counts
        .iter()
        .find(|count| count.state == state)
        .map_or((0, 0), |count| (count.rows, count.sum))
}
