//! A sandbox with rows: SQLite files and an embedded broker that every process starts empty.

use std::sync::Arc;
use std::time::Duration;

use redrive::assembly::{Options, Services};
use redrive::base::clock::Clock;
use redrive::config::load::load;
use redrive::model::dead_letter::NewDeath;
use redrive::model::ids::EventId;
use redrive::model::message::{FieldTable, FieldValue, Message, Payload, Properties};
use redrive::model::outbox::NewEvent;
use redrive::store::ClaimRequest;

use crate::Home;

/// Event that died at `inventory`.
pub const DEAD: &str = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1";
/// Event with control characters in its error.
pub const WILD: &str = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea2";
/// Event claimed under a lease that has run out.
pub const CLAIMED: &str = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1eb1";
/// Event that waits.
pub const PENDING: &str = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1eb2";

const CONFIG: &str = r#"
[contexts.box]
environment = "sandbox"
amqp = "embedded:box"
masked = ["customer.email"]
scan = { second_look = "0s" }
[[contexts.box.services]]
name = "orders"
database = "sqlite:{dir}/orders.db"
outbox = { exchange = "shop.events" }
sagas = {}
[[contexts.box.services]]
name = "inventory"
database = "sqlite:{dir}/inventory.db"
outbox = { exchange = "shop.events" }
inbox = { consumer = "inventory", queue = "inventory.orders" }
dead_letters = { queues = ["inventory.orders.dlq"] }
"#;

/// Ninety days: an age that reads the same for an hour.
const LONG_AGO: Duration = Duration::from_hours(24 * 90);

/// Tables, no rows; made by the binary itself.
pub fn empty() -> Home {
    let home = Home::with_config(CONFIG);
    for service in ["orders", "inventory"] {
        home.run(&["migrate", "--service", service, "--apply"])
            .exits(0);
    }
    home
}

/// Two dead letters, a pending event, a claim with an expired lease, and a saga that needs a person.
pub fn seeded() -> Home {
    let home = empty();
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runtime.block_on(async {
        let config = load(Some(&home.path("redrive.toml")), &|_| None).expect("valid");
        let context = Arc::new(config.context(None).expect("one").clone());
        let services = Services::open(context, Options::default()).expect("opens");
        rows(&services).await;
        services.close().await;
    });
    home
}

async fn rows(services: &Services) {
    let orders = services.ports.store("orders").expect("service");
    let mut tx = orders.begin().await.expect("begins");
    tx.append(&event(CLAIMED, 1)).await.expect("appended");
    tx.commit().await.expect("commits");
    let claim = ClaimRequest {
        batch_rows: 1,
        lease: Duration::from_millis(1),
    };
    assert_eq!(
        orders
            .claim_batch(&claim)
            .await
            .expect("claims")
            .events
            .len(),
        1
    );
    let mut tx = orders.begin().await.expect("begins");
    tx.append(&event(PENDING, 2)).await.expect("appended");
    tx.execute(
        "INSERT INTO sagas (saga_id, saga_type, business_key, state) VALUES ('saga-1', 'order', '8812', 'compensation_failed')",
        &[],
    )
    .await
    .expect("inserted");
    tx.execute(
        "INSERT INTO saga_steps (saga_id, step_no, name, forward_state, compensation_state, attempts, last_error) \
         VALUES ('saga-1', 1, 'reserve_stock', 'succeeded', 'failed', 5, 'stock is gone')",
        &[],
    )
    .await
    .expect("inserted");
    tx.commit().await.expect("commits");
    let inventory = services.ports.store("inventory").expect("service");
    for (id, error) in [
        (DEAD, "missing field `sku`"),
        (WILD, "\u{1b}[2J\u{9b}31m gone \u{202e}"),
    ] {
        inventory
            .record_death(&death(id, error))
            .await
            .expect("recorded");
    }
}

fn event(id: &str, version: i64) -> NewEvent {
    NewEvent {
        event_id: EventId::new(id),
        aggregate_id: "8812".into(),
        aggregate_version: version,
        event_type: "order.created".into(),
        schema_version: 1,
        payload: Payload::new(r#"{"order":8812}"#),
        headers: FieldTable::new(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    }
}

fn death(id: &str, error: &str) -> NewDeath {
    let died_at = Clock::System.now().minus(LONG_AGO);
    let headers = [("x-tenant".to_owned(), FieldValue::Text("eu-1".into()))];
    NewDeath {
        consumer: "inventory".into(),
        event_id: Some(EventId::new(id)),
        aggregate_id: Some("8812".into()),
        aggregate_version: Some(3),
        event_type: Some("order.created".into()),
        message_at: Some(died_at),
        failed_queue: Some("inventory.orders".into()),
        source_exchange: Some("shop.events".into()),
        source_routing_key: Some("order.created".into()),
        dead_letter_queue: "inventory.orders.dlq".into(),
        reason: Some("rejected".into()),
        error_class: "decode: missing field sku".into(),
        error_summary: Some(error.to_owned()),
        stack_digest: None,
        delivery_count: None,
        retry_count: Some(0),
        died_at,
        producer_version: Some("1.0.0".into()),
        consumer_version: Some("4.1.0".into()),
        trace_id: None,
        replay_allowed: true,
        owner: None,
        operation_id: None,
        fingerprint: id.to_owned(),
        redelivered: false,
        message: Message {
            properties: Properties {
                content_type: Some("application/json".into()),
                message_id: Some(id.to_owned()),
                kind: Some("order.created".into()),
                delivery_mode: Some(2),
                headers: headers.into_iter().collect(),
                ..Properties::default()
            },
            payload: Payload::new(
                r#"{"order":8812,"total":12345678901234567890.10,"customer":{"email":"a@b.example"}}"#,
            ),
        },
    }
}
