//! What has happened before the demo opens, so that no pane is empty: dead letters of several causes,
//! a claim whose dispatcher died, events nobody listens to, sagas that are stuck, one finished replay.
//! Made with the same calls the workers and the operator use.

mod replayed;
mod stuck;

use std::sync::Arc;
use std::time::Duration;

use super::event::{GIFT, Link, Order, SKUS, SOLD_OUT};
use super::fault::{Fault, order_rng};
use super::inventory;
use super::order_saga::{OrderSaga, RESERVE_STOCK, TYPE, Tempo};
use super::place;
use super::standby;
use super::tables::time;
use super::topology::SERVICES;
use crate::base::clock::{Clock, Timestamp};
use crate::broker::Delivery;
use crate::config::Service;
use crate::model::dead_letter::{DeathRecorded, NewDeath};
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, SagaId};
use crate::model::message::FieldValue;
use crate::model::outbox::OutboxEvent;
use crate::model::saga::Side;
use crate::model::saga::machine::Answer;
use crate::pipeline::death::{Found, new_death};
use crate::pipeline::headers;
use crate::pipeline::message::message_of;
use crate::pipeline::saga_coordinator::{Reply, SagaError, cancel, key_of, record};
use crate::ports::Ports;
use crate::store::{ClaimRequest, FailedAttempt, Store, StoreResult, Value};

/// Numbers of orders that belong to the past; the shop goes on above them.
const FIRST_PAST_ORDER: i64 = 8_700;

const STOCK_EMPTY: &str = "SELECT COUNT(*) FROM stock";
const STOCK: &str = "INSERT INTO stock (sku, on_hand, reserved) VALUES (?, ?, 0)";
const MAIL: &str = "INSERT INTO mails (order_no, about) VALUES (?, 'created')";
const BACKDATE: &str =
    "UPDATE outbox_events SET created_at = ?, next_attempt_at = ?, sent_at = ? WHERE event_id = ?";
const BACKDATE_SAGA: &str = "UPDATE sagas SET created_at = ?, updated_at = ?, deadline_at = ? \
     WHERE saga_id = ?";
const BACKDATE_STEPS: &str = "UPDATE saga_steps SET updated_at = ? WHERE saga_id = ?";

/// One dead letter of the past.
struct Past {
    /// Type of the event that died.
    event_type: &'static str,
    /// Makes the payload fail in the way it did.
    fault: Fault,
    /// Who failed on it, in which queue.
    consumer: &'static str,
    queue: &'static str,
    class: &'static str,
    error: &'static str,
    /// Version of the consumer then.
    version: &'static str,
    retries: i64,
    /// Minutes ago, one dead letter each.
    minutes_ago: &'static [u64],
}

const PAST: [Past; 4] = [
    Past {
        event_type: "order.created",
        fault: Fault::NoSku,
        consumer: "inventory",
        queue: "inventory.orders",
        class: "decode: missing field `sku`",
        error: "missing field `sku` at line 1 column 91",
        version: "4.2.0",
        retries: 1,
        minutes_ago: &[72, 66, 51, 40, 33, 21, 9, 4, 2],
    },
    Past {
        event_type: "order.created",
        fault: Fault::UnknownSku,
        consumer: "inventory",
        queue: "inventory.orders",
        class: "unknown sku",
        error: "sku SKU-404 is not in the catalogue",
        version: "4.2.0",
        retries: 1,
        minutes_ago: &[58, 26, 11],
    },
    Past {
        event_type: "order.cancelled",
        fault: Fault::None,
        consumer: "inventory",
        queue: "inventory.orders",
        class: "gave up: lock wait timeout on stock",
        error: "lock wait timeout on stock",
        version: "4.2.0",
        retries: 3,
        minutes_ago: &[14, 13],
    },
    Past {
        event_type: "payment.charge",
        fault: Fault::None,
        consumer: "payment",
        queue: "payment.orders",
        class: "gave up: card processor answered 502",
        error: "card processor answered 502",
        version: "4.2.1",
        retries: 3,
        minutes_ago: &[37, 36, 35],
    },
];

/// Fills the shelves, unless they are full already; `false` then.
///
/// # Errors
/// A sentence that names what could not be written.
pub(super) async fn fill_stock(ports: &Ports) -> Result<bool, String> {
    History::new(ports)?
        .fill_stock()
        .await
        .map_err(|e| told("stock")(e))
}

/// Writes the past, unless it is there already.
///
/// # Errors
/// A sentence that names what could not be written.
pub(super) async fn write(ports: &Ports) -> Result<(), String> {
    let history = History::new(ports)?;
    if !history.fill_stock().await.map_err(told("stock"))? {
        return Ok(());
    }
    let mut number = FIRST_PAST_ORDER;
    let mut dead = Vec::new();
    for past in &PAST {
        for minutes in past.minutes_ago {
            let event_id = history.order(past, number, *minutes).await?;
            dead.push((past, event_id, *minutes));
            number += 1;
        }
    }
    let refused = history.refund_refused(number + 10, 47).await?;
    history.charge_unknown(number + 11, 18).await?;
    let dying = dead.iter().map(|(_, id, minutes)| (id.clone(), *minutes));
    let sent: Vec<_> = dying.chain(refused.iter().cloned()).collect();
    let rows = history.sent(&sent).await.map_err(told("sent events"))?;
    let of_refused = |event: &&OutboxEvent| {
        let id = &event.row.event_id;
        refused.iter().any(|(of, _)| of == id)
    };
    for event in rows.iter().filter(of_refused) {
        history.consumed(event).await.map_err(told("an inbox"))?;
    }
    let mut letters = Vec::new();
    for (past, event_id, minutes) in &dead {
        letters.push(history.die(past, event_id, *minutes).await?);
    }
    history
        .failed_rows(number)
        .await
        .map_err(told("failed rows"))?;
    if let Some((id, death)) = letters.first() {
        history
            .replayed(id, death)
            .await
            .map_err(told("a replay"))?;
    }
    history
        .crashed(number + 20)
        .await
        .map_err(told("a crashed claim"))
}

fn told<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("sandbox history: {what}: {error}")
}

struct History<'a> {
    ports: &'a Ports,
    orders: &'a Arc<dyn Store>,
    inventory: &'a Arc<dyn Store>,
    saga: OrderSaga,
    clock: Clock,
    product: String,
}

impl<'a> History<'a> {
    fn new(ports: &'a Ports) -> Result<Self, String> {
        let missing = |name| format!("the sandbox needs a service called {name}");
        let orders = ports.store("orders").ok_or_else(|| missing("orders"))?;
        let inventory = ports
            .store("inventory")
            .ok_or_else(|| missing("inventory"))?;
        Ok(Self {
            ports,
            orders,
            inventory,
            saga: OrderSaga::new(ports, Tempo::default()),
            clock: ports.clock.clone(),
            product: orders.facts().product,
        })
    }

    fn ago(&self, minutes: u64) -> Timestamp {
        self.clock.now().minus(Duration::from_secs(minutes * 60))
    }

    fn time(&self, at: Timestamp) -> Value {
        time(&self.product, at)
    }

    /// `false` when the shelves are full already: then the past has been written before.
    async fn fill_stock(&self) -> StoreResult<bool> {
        let mut tx = self.inventory.begin().await?;
        let found = tx.fetch_one(STOCK_EMPTY, &[]).await?;
        if !matches!(found.as_deref(), Some([Value::Int(0)])) {
            tx.rollback().await?;
            return Ok(false);
        }
        let plenty = SKUS
            .into_iter()
            .chain([GIFT])
            .map(|sku| (sku, 1_000_000_000));
        for (sku, on_hand) in plenty.chain([(SOLD_OUT, 0)]) {
            tx.execute(STOCK, &[Value::Text(sku.to_owned()), Value::Int(on_hand)])
                .await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// An order that waits since then for what will have died; the event of that.
    async fn order(&self, past: &Past, number: i64, minutes: u64) -> Result<EventId, String> {
        let order = Order::draw(number, past.fault, &mut order_rng(1, number));
        if past.event_type != "order.created" {
            self.reserved(&order).await.map_err(told("a reservation"))?;
        }
        let placed = async {
            let saga_id = SagaId::generate();
            let mut tx = self.orders.begin().await?;
            place::write(tx.as_mut(), &self.saga, (&order, &client(number)), &saga_id).await?;
            match past.event_type {
                "payment.charge" => {
                    let key = step_key(&order, RESERVE_STOCK, Side::Forward);
                    self.said(tx.as_mut(), key, Answer::Succeeded).await?;
                }
                "order.cancelled" => {
                    let key = order.order_no.to_string();
                    cancel(tx.as_mut(), &self.saga, &key, "cancelled by the customer").await?;
                }
                _ => {}
            }
            self.backdate(tx.as_mut(), &saga_id, self.ago(minutes))
                .await?;
            tx.commit().await?;
            Ok::<_, SagaError>(())
        };
        placed.await.map_err(told("an order"))?;
        self.event_of(number, past.event_type).await
    }

    async fn said(
        &self,
        tx: &mut dyn crate::store::BusinessTx,
        key: String,
        answer: Answer,
    ) -> Result<(), SagaError> {
        let reply = Reply {
            key,
            answer,
            event_id: EventId::generate(),
        };
        record(tx, &self.saga, &reply).await.map(|_| ())
    }

    /// Stock held for an order.
    async fn reserved(&self, order: &Order) -> StoreResult<()> {
        let key = step_key(order, RESERVE_STOCK, Side::Forward);
        let mut tx = self.inventory.begin().await?;
        inventory::reserve(tx.as_mut(), order, &key).await?;
        tx.commit().await
    }

    async fn backdate(
        &self,
        tx: &mut dyn crate::store::BusinessTx,
        saga_id: &SagaId,
        at: Timestamp,
    ) -> StoreResult<()> {
        let (id, at, deadline) = (
            Value::Text(saga_id.to_string()),
            self.time(at),
            self.time(at.plus(Duration::from_mins(1))),
        );
        let row = [at.clone(), at.clone(), deadline, id.clone()];
        tx.execute(BACKDATE_SAGA, &row).await?;
        tx.execute(BACKDATE_STEPS, &[at, id]).await?;
        Ok(())
    }

    /// The event of a type about an order.
    async fn event_of(&self, number: i64, event_type: &str) -> Result<EventId, String> {
        let key = AggregateId::new(number.to_string());
        let found = self.orders.outbox_sequence(&key).await;
        let rows = found.map_err(told("an event"))?.rows;
        rows.into_iter()
            .find(|row| row.event_type == event_type)
            .map(|row| row.event_id)
            .ok_or_else(|| format!("sandbox history: order {number} has no {event_type}"))
    }

    /// Events of the orders service that were published so many minutes ago; notification has seen
    /// those that are its own.
    async fn sent(&self, events: &[(EventId, u64)]) -> StoreResult<Vec<OutboxEvent>> {
        let claim = claim_of(Duration::from_mins(1));
        let claim = self.orders.claim_batch(&claim).await?;
        let (sent, others): (Vec<_>, Vec<_>) = claim
            .events
            .into_iter()
            .partition(|event| events.iter().any(|(id, _)| *id == event.row.event_id));
        let ids = |events: &[OutboxEvent]| -> Vec<EventId> {
            events.iter().map(|e| e.row.event_id.clone()).collect()
        };
        self.orders.complete(&claim.token, &ids(&sent)).await?;
        self.orders.give_back(&claim.token, &ids(&others)).await?;
        let mut tx = self.orders.begin().await?;
        for (event_id, minutes) in events {
            let at = self.time(self.ago(*minutes));
            let id = Value::Text(event_id.to_string());
            tx.execute(BACKDATE, &[at.clone(), at.clone(), at, id])
                .await?;
        }
        tx.commit().await?;
        for event in &sent {
            match event.row.event_type.as_str() {
                "order.created" => self.notified(event).await?,
                "order.cancelled" => self.seen_by(standby::SERVICE, event).await?,
                _ => {}
            }
        }
        Ok(sent)
    }

    /// The services that get an event have consumed it; notification's part is in [`Self::sent`].
    async fn consumed(&self, event: &OutboxEvent) -> StoreResult<()> {
        for (name, _, bound) in SERVICES {
            if name != standby::SERVICE && bound.contains(&event.row.event_type.as_str()) {
                self.seen_by(name, event).await?;
            }
        }
        Ok(())
    }

    /// A consumer's inbox has an event.
    async fn seen_by(&self, service: &str, event: &OutboxEvent) -> StoreResult<()> {
        let Some(store) = self.ports.store(service) else {
            return Ok(());
        };
        let consumer = ConsumerName::new(service);
        let mut tx = store.begin().await?;
        tx.inbox_insert(&consumer, &event.row.event_id, &event.payload.sha256())
            .await?;
        tx.commit().await
    }

    /// Notification has consumed an order's first event.
    async fn notified(&self, event: &OutboxEvent) -> StoreResult<()> {
        let (Some(store), Some(aggregate_id)) = (
            self.ports.store(standby::SERVICE),
            event.row.aggregate_id.as_ref(),
        ) else {
            return Ok(());
        };
        let consumer = ConsumerName::new(standby::SERVICE);
        let mut tx = store.begin().await?;
        let sha256 = event.payload.sha256();
        tx.inbox_insert(&consumer, &event.row.event_id, &sha256)
            .await?;
        tx.lock_version(&consumer, aggregate_id, 0).await?;
        tx.set_version(&consumer, aggregate_id, 0, 1).await?;
        let number = aggregate_id.as_str().parse().unwrap_or_default();
        tx.execute(MAIL, &[Value::Int(number)]).await?;
        tx.commit().await
    }

    /// The death of an event `minutes` ago.
    async fn die(
        &self,
        past: &Past,
        event_id: &EventId,
        minutes: u64,
    ) -> Result<(DeadLetterId, NewDeath), String> {
        let at = self.ago(minutes);
        let producer = self.service("orders")?;
        let stored = self
            .orders
            .outbox_event(event_id)
            .await
            .map_err(told("a sent event"))?
            .ok_or("sandbox history: a sent event is not there")?;
        let outbox = producer
            .0
            .outbox
            .as_ref()
            .ok_or("the sandbox needs outboxes")?;
        let out = message_of(&stored, outbox);
        let mut message = out.message;
        let died_at = u64::try_from(at.micros() / 1_000_000).unwrap_or_default();
        let table = &mut message.properties.headers;
        for (name, value) in [
            (headers::FAILED_QUEUE, past.queue),
            (headers::REASON, "rejected"),
            (headers::DEATH_ID, EventId::generate().as_str()),
            (headers::SOURCE_EXCHANGE, &out.exchange),
            (headers::SOURCE_ROUTING_KEY, &out.routing_key),
            (headers::ERROR_CLASS, past.class),
            (headers::ERROR_SUMMARY, past.error),
            (headers::CONSUMER_VERSION, past.version),
        ] {
            table.set(name, FieldValue::text(value));
        }
        table.set(headers::DIED_AT, FieldValue::Time(died_at));
        table.set(headers::RETRY_COUNT, FieldValue::I64(past.retries));
        let consumer = self.service(past.consumer)?;
        let queue = format!("{}.dlq", past.queue);
        let death = new_death(
            &Delivery {
                tag: 0,
                is_redelivered: false,
                exchange: String::new(),
                routing_key: queue.clone(),
                message,
            },
            Found {
                context: &self.ports.context,
                service: consumer.0,
                queue: &queue,
                now: self.clock.now(),
            },
        );
        let recorded = consumer
            .1
            .record_death(&death)
            .await
            .map_err(told("a death"))?;
        let (DeathRecorded::New(id)
        | DeathRecorded::SameDelivery(id)
        | DeathRecorded::Again {
            dead_letter_id: id, ..
        }) = recorded;
        Ok((id, death))
    }

    fn service(&self, name: &str) -> Result<(&Service, &Arc<dyn Store>), String> {
        self.ports
            .iter()
            .find(|(service, _)| service.name == name)
            .ok_or_else(|| format!("the sandbox needs a service called {name}"))
    }

    /// Events that no queue took.
    async fn failed_rows(&self, first: i64) -> StoreResult<()> {
        let mut tx = self.orders.begin().await?;
        for number in first..first + 3 {
            let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
            if let Ok(event) = order.event("order.gifted", Link::default()) {
                tx.append(&event).await?;
            }
        }
        tx.commit().await?;
        let claim = self
            .orders
            .claim_batch(&claim_of(Duration::from_mins(1)))
            .await?;
        let (gifted, others): (Vec<_>, Vec<_>) = claim
            .events
            .iter()
            .partition(|event| event.row.event_type == "order.gifted");
        let others: Vec<_> = others.iter().map(|e| e.row.event_id.clone()).collect();
        self.orders.give_back(&claim.token, &others).await?;
        let attempts: Vec<_> = gifted
            .iter()
            .map(|event| FailedAttempt {
                event_id: event.row.event_id.clone(),
                error: "given up after 4 attempts: unroutable: 312 NO_ROUTE".to_owned(),
                retry_after: None,
            })
            .collect();
        self.orders.fail_attempts(&claim.token, &attempts).await?;
        Ok(())
    }

    /// A claim whose dispatcher died: its lease runs out while the console opens.
    async fn crashed(&self, first: i64) -> StoreResult<()> {
        let Some(store) = self.ports.store(standby::SERVICE) else {
            return Ok(());
        };
        let mut tx = store.begin().await?;
        for number in first..first + 3 {
            let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
            if let Ok(event) = order.event("notification.sent", Link::default()) {
                tx.append(&event).await?;
            }
        }
        tx.commit().await?;
        store
            .claim_batch(&claim_of(Duration::from_millis(500)))
            .await?;
        Ok(())
    }
}

/// The idempotency key of a step of an order.
fn step_key(order: &Order, step: &str, side: Side) -> String {
    key_of(TYPE, &order.order_no.to_string(), step, side)
}

/// The client's key of an order of the past.
fn client(number: i64) -> String {
    format!("client-{number}")
}

fn claim_of(lease: Duration) -> ClaimRequest {
    ClaimRequest {
        batch_rows: 200,
        lease,
    }
}
