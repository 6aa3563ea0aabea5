//! What has happened before the demo opens, so that no pane is empty: dead letters of several causes,
//! a claim whose dispatcher died, events nobody listens to, sagas that are stuck, one finished replay.
//! Made with the same calls the workers and the operator use.

use std::sync::Arc;
use std::time::Duration;

use super::event::{GIFT, Order, SKUS, SOLD_OUT};
use super::fault::{Fault, order_rng};
use super::handlers;
use super::saga::{self, NewStep, Times};
use super::shop;
use super::standby;
use super::tables::time;
use crate::base::clock::{Clock, Timestamp};
use crate::broker::Delivery;
use crate::config::Service;
use crate::model::audit::AuditRecord;
use crate::model::dead_letter::{DeathRecorded, NewDeath};
use crate::model::ids::{ClaimToken, DeadLetterId, EventId, OperationId, SagaId};
use crate::model::message::FieldValue;
use crate::model::operation::{ItemState, Verb};
use crate::pipeline::consumer::{Handler as _, Outcome, Received};
use crate::pipeline::death::{Found, new_death};
use crate::pipeline::headers;
use crate::pipeline::message::message_of;
use crate::ports::Ports;
use crate::store::{
    Begun, ClaimRequest, FailedAttempt, ItemStep, NewOperation, Reservation, Store, StoreResult,
    Value,
};

/// Numbers of orders that belong to the past; the shop goes on above them.
const FIRST_PAST_ORDER: i64 = 8_700;

const STOCK_EMPTY: &str = "SELECT COUNT(*) FROM stock";
const STOCK: &str = "INSERT INTO stock (sku, on_hand, reserved) VALUES (?, ?, 0)";
const BACKDATE: &str =
    "UPDATE outbox_events SET created_at = ?, next_attempt_at = ?, sent_at = ? WHERE event_id = ?";

/// One dead letter of the past.
struct Past {
    /// Type of the event that died.
    event_type: &'static str,
    /// Makes the payload fail in the way it did.
    fault: Fault,
    /// Who wrote it, who failed on it, in which queue.
    producer: &'static str,
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
        producer: "orders",
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
        producer: "orders",
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
        producer: "orders",
        consumer: "inventory",
        queue: "inventory.orders",
        class: "gave up: lock wait timeout on stock",
        error: "lock wait timeout on stock",
        version: "4.2.0",
        retries: 3,
        minutes_ago: &[14, 13],
    },
    Past {
        event_type: "inventory.reserved",
        fault: Fault::None,
        producer: "inventory",
        consumer: "payment",
        queue: "payment.orders",
        class: "gave up: card processor answered 502",
        error: "card processor answered 502",
        version: "4.2.1",
        retries: 3,
        minutes_ago: &[37, 36, 35],
    },
];

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
    let mut letters = Vec::new();
    for past in &PAST {
        for minutes in past.minutes_ago {
            let letter = history.die(past, number, *minutes).await?;
            letters.push(letter);
            number += 1;
        }
    }
    history
        .failed_rows(number)
        .await
        .map_err(told("failed rows"))?;
    history.sagas(number + 10).await.map_err(told("sagas"))?;
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

fn told(what: &'static str) -> impl Fn(crate::store::StoreError) -> String {
    move |error| format!("sandbox history: {what}: {error}")
}

struct History<'a> {
    ports: &'a Ports,
    orders: &'a Arc<dyn Store>,
    inventory: &'a Arc<dyn Store>,
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

    /// An order whose event was sent and died `minutes` ago.
    async fn die(
        &self,
        past: &Past,
        number: i64,
        minutes: u64,
    ) -> Result<(DeadLetterId, NewDeath), String> {
        let order = Order::draw(number, past.fault, &mut order_rng(1, number));
        let event = order.event(past.event_type, None)?;
        let at = self.ago(minutes);
        self.order(&order, &event.event_id, at)
            .await
            .map_err(told("an order"))?;
        let producer = self.service(past.producer)?;
        self.sent(producer.1, &event, at)
            .await
            .map_err(told("a sent event"))?;
        let stored = producer
            .1
            .outbox_event(&event.event_id)
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

    /// An order that waits for stock since then.
    async fn order(&self, order: &Order, event_id: &EventId, at: Timestamp) -> StoreResult<()> {
        let saga_id = SagaId::generate();
        let mut tx = self.orders.begin().await?;
        tx.execute(shop::INSERT_ORDER, &shop::row(order, &saga_id))
            .await?;
        let times = Times {
            now: self.time(at),
            deadline: self.time(at.plus(saga::DEADLINE)),
            event_id: Some(event_id.clone()),
        };
        saga::start(tx.as_mut(), &saga_id, order.order_no, &times).await?;
        tx.commit().await
    }

    /// An event that was published at `at`.
    async fn sent(
        &self,
        store: &Arc<dyn Store>,
        event: &crate::model::outbox::NewEvent,
        at: Timestamp,
    ) -> StoreResult<()> {
        let mut tx = store.begin().await?;
        tx.append(event).await?;
        tx.commit().await?;
        let claim = store.claim_batch(&claim_of(Duration::from_mins(1))).await?;
        let ids: Vec<_> = claim
            .events
            .iter()
            .map(|e| e.row.event_id.clone())
            .collect();
        store.complete(&claim.token, &ids).await?;
        let mut tx = store.begin().await?;
        let at = self.time(at);
        let id = Value::Text(event.event_id.to_string());
        tx.execute(BACKDATE, &[at.clone(), at.clone(), at, id])
            .await?;
        tx.commit().await
    }

    /// Events that no queue took.
    async fn failed_rows(&self, first: i64) -> StoreResult<()> {
        let mut tx = self.orders.begin().await?;
        for number in first..first + 3 {
            let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
            if let Ok(event) = order.event("order.gifted", None) {
                tx.append(&event).await?;
            }
        }
        tx.commit().await?;
        let claim = self
            .orders
            .claim_batch(&claim_of(Duration::from_mins(1)))
            .await?;
        let attempts: Vec<_> = claim
            .events
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

    /// One saga that failed to compensate, and one whose charge nobody knows about.
    async fn sagas(&self, first: i64) -> StoreResult<()> {
        let failed = [
            NewStep::new("reserve_stock", "succeeded", "succeeded"),
            NewStep {
                attempts: 5,
                error: Some("refund: card processor answered 409 already disputed"),
                ..NewStep::new("charge", "succeeded", "failed")
            },
            NewStep::new("confirm", "failed", "skipped"),
        ];
        let unknown = [
            NewStep::new("reserve_stock", "succeeded", "pending"),
            NewStep {
                attempts: 2,
                error: Some("no answer within 10s"),
                ..NewStep::new("charge", "unknown", "pending")
            },
            NewStep::new("confirm", "pending", "skipped"),
        ];
        let sagas: [(&str, &[NewStep], u64); 2] = [
            ("compensation_failed", &failed, 47),
            ("running", &unknown, 18),
        ];
        let mut tx = self.orders.begin().await?;
        for (number, (state, steps, minutes)) in (first..).zip(sagas) {
            let at = self.ago(minutes);
            let times = Times {
                now: self.time(at),
                deadline: self.time(at.plus(saga::DEADLINE)),
                event_id: None,
            };
            let id = SagaId::generate();
            saga::write(tx.as_mut(), &id, (number, state), (steps, &times)).await?;
        }
        tx.commit().await
    }

    /// A claim whose dispatcher died: its lease runs out while the console opens.
    async fn crashed(&self, first: i64) -> StoreResult<()> {
        let Some(store) = self.ports.store(standby::SERVICE) else {
            return Ok(());
        };
        let mut tx = store.begin().await?;
        for number in first..first + 3 {
            let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
            if let Ok(event) = order.event("notification.sent", None) {
                tx.append(&event).await?;
            }
        }
        tx.commit().await?;
        store
            .claim_batch(&claim_of(Duration::from_millis(500)))
            .await?;
        Ok(())
    }

    /// Inventory consumes the event for real: inbox row, reservation and result event.
    async fn consume(&self, event_id: &EventId, death: &NewDeath) -> StoreResult<()> {
        let received = Received {
            event_id: event_id.clone(),
            event_type: death.event_type.clone(),
            aggregate_id: death.aggregate_id.clone(),
            aggregate_version: death.aggregate_version,
            replays: 1,
            attempt: 2,
            message: death.message.clone(),
        };
        let sha256 = death.message.payload.sha256();
        let mut tx = self.inventory.begin().await?;
        tx.inbox_insert(&death.consumer, event_id, &sha256).await?;
        let outcome = handlers::inventory().handle(&received, tx.as_mut()).await;
        if outcome == Outcome::Done {
            tx.commit().await
        } else {
            tx.rollback().await
        }
    }

    /// A replay that an operator did and that was seen consumed.
    async fn replayed(&self, id: &DeadLetterId, death: &NewDeath) -> StoreResult<()> {
        let Some(event_id) = &death.event_id else {
            return Ok(());
        };
        let Some(detail) = self.inventory.dead_letter(id).await? else {
            return Ok(());
        };
        let token = ClaimToken::generate();
        let operation_id = OperationId::generate();
        let operation = NewOperation {
            operation_id: operation_id.clone(),
            verb: Verb::Replay,
            actor: "mia@oncall".to_owned(),
            reason: "sku made optional in 4.2.1".to_owned(),
            ticket: None,
            plan_digest: crate::base::digest::sha256_hex(operation_id.as_str().as_bytes()),
            plan: format!(
                "{{\"verb\":\"replay\",\"event_id\":\"{event_id}\",\"to\":\"inventory.orders\"}}"
            ),
        };
        let reservation = Reservation {
            dead_letter_id: id.clone(),
            version: detail.letter.version,
            payload_sha256: detail.letter.payload_sha256,
            token: token.clone(),
            lease: Duration::from_mins(1),
        };
        let record = |phase: &str, detail: &str| AuditRecord {
            actor: operation.actor.clone(),
            action: "replay".to_owned(),
            phase: phase.to_owned(),
            operation_id: Some(operation_id.clone()),
            subject: event_id.to_string(),
            reason: operation.reason.clone(),
            detail: detail.to_owned(),
        };
        let begun = self
            .inventory
            .begin_replay(&operation, &[reservation], &record("intent", "{}"))
            .await?;
        if begun != Begun::Started {
            return Ok(());
        }
        self.consume(event_id, death).await?;
        let step = |from, to, evidence: &str, audit| ItemStep {
            operation_id: operation_id.clone(),
            no: 1,
            token: token.clone(),
            from: vec![from],
            to,
            evidence: evidence.to_owned(),
            audit,
        };
        let sending = step(
            ItemState::Reserved,
            ItemState::Publishing,
            "sent to inventory.orders",
            None,
        );
        self.inventory.step_item(&sending).await?;
        let published = step(
            ItemState::Publishing,
            ItemState::Published,
            "confirmed by the broker, routed to inventory.orders",
            None,
        );
        self.inventory.step_item(&published).await?;
        let consumed = step(
            ItemState::Published,
            ItemState::Consumed,
            "inbox row of inventory seen",
            Some(record("outcome", "{\"state\":\"consumed\"}")),
        );
        self.inventory.step_item(&consumed).await?;
        Ok(())
    }
}

fn claim_of(lease: Duration) -> ClaimRequest {
    ClaimRequest {
        batch_rows: 200,
        lease,
    }
}
