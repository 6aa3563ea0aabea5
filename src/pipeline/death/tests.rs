//! What is read out of a dead message, case by case.

use super::*;
use crate::base::secret::SecretUrl;
use crate::config::{DeadLetterPart, Environment, InboxPart};
use crate::model::message::{Payload, Properties};

fn service() -> Service {
    Service {
        name: "billing".into(),
        database: SecretUrl::new("sqlite::memory:".into()),
        outbox: None,
        inbox: Some(InboxPart {
            layout: "native".into(),
            table: None,
            consumer: "billing".into(),
            queue: "billing.orders".into(),
        }),
        dead_letters: Some(DeadLetterPart {
            layout: "native".into(),
            table: None,
            queues: vec!["billing.orders.dlq".into()],
        }),
        sagas: None,
        journal: true,
    }
}

fn context() -> Context {
    Context {
        name: "shop".into(),
        environment: Environment::Sandbox,
        read_only: false,
        amqp: None,
        management: None,
        services: vec![service()],
        rights: vec![],
        never_replay: vec![],
        inbox_retention: None,
        ticket_pattern: None,
        unlock: std::time::Duration::from_mins(5),
        masked: vec![],
        owners: vec![
            OwnerRule {
                consumer: Some("billing".into()),
                event_type: Some("order.*".into()),
                owner: "mia".into(),
            },
            OwnerRule {
                consumer: None,
                event_type: None,
                owner: "ops".into(),
            },
        ],
        thresholds: crate::config::Thresholds::default(),
        dispatcher: crate::config::DispatcherSettings::default(),
        consumer: crate::config::ConsumerLimits::default(),
        drill: crate::config::DrillSettings::default(),
        retention: crate::config::RetentionSettings::default(),
        verdicts: crate::config::VerdictSettings::default(),
        on_death: None,
        scan: crate::config::ScanSettings::default(),
    }
}

fn delivery(headers: Vec<(&str, FieldValue)>, payload: &[u8]) -> Delivery {
    Delivery {
        tag: 1,
        is_redelivered: false,
        exchange: String::new(),
        routing_key: "billing.orders.dlq".into(),
        message: Message {
            properties: Properties {
                headers: headers
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect(),
                message_id: Some("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11".into()),
                kind: Some("order.placed".into()),
                timestamp: Some(1_767_323_045),
                ..Properties::default()
            },
            payload: Payload::new(payload.to_vec()),
        },
    }
}

fn read(delivery: &Delivery) -> NewDeath {
    let context = context();
    new_death(
        delivery,
        Found {
            context: &context,
            service: &context.services[0],
            queue: "billing.orders.dlq",
            now: Timestamp::from_micros(1),
        },
    )
}

fn table(fields: Vec<(&str, FieldValue)>) -> FieldValue {
    FieldValue::Table(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn death(
    queue: &str,
    reason: &str,
    count: i64,
    exchange: &str,
    keys: &[&str],
    time: u64,
) -> FieldValue {
    table(vec![
        ("queue", FieldValue::text(queue)),
        ("reason", FieldValue::text(reason)),
        ("count", FieldValue::I64(count)),
        ("exchange", FieldValue::text(exchange)),
        (
            "routing-keys",
            FieldValue::Array(keys.iter().map(|k| FieldValue::text(*k)).collect()),
        ),
        ("time", FieldValue::Time(time)),
    ])
}

#[test]
fn h_12_the_queue_that_failed_is_taken_from_a_chain_of_deaths() {
    let chain = FieldValue::Array(vec![
        death(
            "billing.orders.retry",
            "expired",
            3,
            "retry",
            &["billing.orders"],
            1_767_323_145,
        ),
        death(
            "billing.orders",
            "rejected",
            4,
            "orders",
            &["order.placed", "audit.orders"],
            1_767_323_140,
        ),
    ]);
    let death = read(&delivery(vec![("x-death", chain)], b"{}"));
    assert_eq!(death.failed_queue.as_deref(), Some("billing.orders"));
    assert_eq!(death.consumer.as_str(), "billing");
    assert_eq!(death.delivery_count, Some(4));
    assert_eq!(death.source_exchange.as_deref(), Some("orders"));
    assert_eq!(death.source_routing_key.as_deref(), Some("order.placed"));
    assert_eq!(death.died_at, Timestamp::from_micros(1_767_323_140_000_000));
    assert_eq!(death.error_class, "no error told: rejected");
    assert_eq!(death.owner.as_deref(), Some("mia"));
}

#[test]
fn our_own_note_wins_over_the_broker_s_record() {
    let death = read(&delivery(
        vec![
            (
                "x-death",
                FieldValue::Array(vec![death("elsewhere", "rejected", 1, "e", &["k"], 1)]),
            ),
            (headers::FAILED_QUEUE, FieldValue::text("billing.orders")),
            (
                headers::ERROR_CLASS,
                FieldValue::text("decode: missing field `sku`"),
            ),
            (
                headers::ERROR_SUMMARY,
                FieldValue::text("missing field `sku` at line 1 column 58"),
            ),
            (headers::OPERATION, FieldValue::text("op-1")),
            (headers::REPLAY, FieldValue::text("never")),
            ("aggregate_id", FieldValue::I64(8812)),
            ("aggregate_version", FieldValue::text("3")),
        ],
        b"{}",
    ));
    assert_eq!(death.failed_queue.as_deref(), Some("billing.orders"));
    assert_eq!(death.error_class, "decode: missing field `sku`");
    assert_eq!(
        death.error_summary.as_deref(),
        Some("missing field `sku` at line 1 column 58")
    );
    assert_eq!(death.operation_id, Some("op-1".into()));
    assert!(!death.replay_allowed);
    assert_eq!(death.aggregate_id, Some("8812".into()));
    assert_eq!(death.aggregate_version, Some(3));
}

#[test]
fn a_message_without_any_record_is_this_service_s_own() {
    let mut plain = delivery(vec![], b"\x00\xff");
    plain.message.properties.message_id = None;
    plain.message.properties.kind = Some(String::new());
    plain.message.properties.timestamp = Some(u64::MAX);
    let death = read(&plain);
    assert_eq!(death.failed_queue.as_deref(), Some("billing.orders"));
    assert_eq!(death.event_id, None);
    assert_eq!(death.event_type, None);
    assert_eq!(death.message_at, None);
    assert_eq!(death.owner.as_deref(), Some("ops"));
    assert_eq!(death.message, plain.message);
}

#[test]
fn an_unknown_queue_names_its_own_consumer() {
    let record = FieldValue::Array(vec![death(
        "mail.orders",
        "rejected",
        1,
        "orders",
        &["k"],
        1,
    )]);
    assert_eq!(
        read(&delivery(vec![("x-death", record)], b""))
            .consumer
            .as_str(),
        "mail.orders"
    );
}

#[test]
fn p_13_an_error_text_that_no_column_would_take_is_made_safe() {
    let long = format!("{}こんにちは👩‍💻", "x".repeat(996));
    let cut = read(&delivery(
        vec![("x-exception-message", FieldValue::text(long))],
        b"",
    ))
    .error_summary;
    assert_eq!(cut, Some(format!("{}こ", "x".repeat(996))));
    let windows = read(&delivery(
        vec![("x-error", FieldValue::TextBytes(b"Auc\x92a".to_vec()))],
        b"",
    ));
    assert_eq!(windows.error_summary.as_deref(), Some("Auc\\x92a"));
    let nul = read(&delivery(vec![("x-error", FieldValue::text("a\0b"))], b""));
    assert_eq!(nul.error_summary.as_deref(), Some("a\u{2400}b"));
}

#[test]
fn a_class_says_what_failed_and_not_which_event() {
    assert_eq!(
        normalise("order 0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1 has 12 items, sku A-77"),
        "order # has # items, sku A-#"
    );
    assert_eq!(normalise("lock wait timeout"), "lock wait timeout");
    assert_eq!(
        normalise("missing field `sku`\n at x"),
        "missing field `sku`"
    );
    assert_eq!(normalise(" \n"), "empty error");
    assert_eq!(normalise("defaced feed"), "defaced feed");
}

#[test]
fn r_13_two_deaths_of_an_event_differ_and_one_death_read_twice_does_not() {
    let first = delivery(
        vec![(
            "x-death",
            FieldValue::Array(vec![death("q", "rejected", 1, "e", &["k"], 10)]),
        )],
        b"{}",
    );
    let second = delivery(
        vec![(
            "x-death",
            FieldValue::Array(vec![death("q", "rejected", 1, "e", &["k"], 13)]),
        )],
        b"{}",
    );
    let again = delivery(
        vec![
            (
                "x-death",
                FieldValue::Array(vec![death("q", "rejected", 1, "e", &["k"], 10)]),
            ),
            (headers::REPLAYS, FieldValue::I64(1)),
        ],
        b"{}",
    );
    assert_eq!(read(&first).fingerprint, read(&first).fingerprint);
    assert_ne!(read(&first).fingerprint, read(&second).fingerprint);
    assert_ne!(read(&first).fingerprint, read(&again).fingerprint);
}

#[test]
fn b_14_equal_messages_of_one_batch_are_numbered_the_same_way_each_time() {
    let mut before = Occurrences::default();
    let mut after = Occurrences::default();
    let first: Vec<_> = ["a", "a", "b"]
        .iter()
        .map(|base| before.fingerprint(base))
        .collect();
    let second: Vec<_> = ["a", "a", "b"]
        .iter()
        .map(|base| after.fingerprint(base))
        .collect();
    assert_eq!(first, second);
    assert_ne!(first[0], first[1]);
}
