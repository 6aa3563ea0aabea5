//! The header policy against the cases it was written for.

use super::*;
use crate::model::message::Payload;

fn marks<'a>(operation_id: &'a OperationId, event_id: &'a EventId) -> Marks<'a> {
    Marks {
        operation_id,
        replay_no: 1,
        event_id: Some(event_id),
        user: Some("relay-ops"),
        frame_max: 131_072,
    }
}

fn replayed(properties: Properties) -> Prepared {
    let operation_id = OperationId::new("op-1");
    let event_id = EventId::new("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11");
    let message = Message {
        properties,
        payload: Payload::new(b"\x1f\x8b raw".to_vec()),
    };
    let prepared = prepare(&message, &marks(&operation_id, &event_id));
    assert_eq!(prepared.message.payload, message.payload, "bytes stay");
    prepared
}

fn table(fields: &[(&str, FieldValue)]) -> FieldTable {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn change<'a>(prepared: &'a Prepared, field: &str) -> &'a HeaderChange {
    prepared
        .changes
        .iter()
        .find(|change| change.field == field)
        .unwrap_or_else(|| panic!("{field} does not change: {:?}", prepared.changes))
}

fn all_fourteen() -> Properties {
    Properties {
        content_type: Some("application/vnd.acme.order+json;v=2".into()),
        content_encoding: Some("gzip".into()),
        headers: table(&[(
            "traceparent",
            FieldValue::text("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        )]),
        delivery_mode: Some(2),
        priority: Some(7),
        correlation_id: Some("corr-77".into()),
        reply_to: Some("amq.rabbitmq.reply-to".into()),
        expiration: Some("3000".into()),
        message_id: Some("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11".into()),
        timestamp: Some(1_767_323_045),
        kind: Some("order.placed".into()),
        user_id: Some("orders-svc".into()),
        app_id: Some("shop-web".into()),
        cluster_id: Some("eu".into()),
    }
}

#[test]
fn h_06_all_14_basic_properties_are_kept_but_two() {
    let before = all_fourteen();
    let prepared = replayed(before.clone());
    // Without `..`: a fifteenth property does not compile until it is decided here.
    let Properties {
        content_type,
        content_encoding,
        headers,
        delivery_mode,
        priority,
        correlation_id,
        reply_to,
        expiration,
        message_id,
        timestamp,
        kind,
        user_id,
        app_id,
        cluster_id,
    } = prepared.message.properties.clone();
    assert_eq!(content_type, before.content_type);
    assert_eq!(content_encoding, before.content_encoding);
    assert_eq!(
        headers.get("traceparent"),
        before.headers.get("traceparent")
    );
    assert_eq!(delivery_mode, Some(2));
    assert_eq!(priority, Some(7));
    assert_eq!(correlation_id, before.correlation_id);
    assert_eq!(reply_to, before.reply_to);
    assert_eq!(expiration, None);
    assert_eq!(message_id, before.message_id);
    assert_eq!(timestamp, before.timestamp);
    assert_eq!(kind, before.kind);
    assert_eq!(user_id, None);
    assert_eq!(app_id, before.app_id);
    assert_eq!(cluster_id, before.cluster_id);
    // 11 properties as they were and one header; user-id and expiration are gone.
    assert_eq!(prepared.kept, 12);
}

#[test]
fn h_01_a_foreign_user_id_is_cleared_and_shown_ours_stays() {
    let prepared = replayed(Properties {
        user_id: Some("orders-svc".into()),
        ..Properties::default()
    });
    assert_eq!(prepared.message.properties.user_id, None);
    let change = change(&prepared, "user_id");
    assert_eq!(change.action, "clear");
    assert_eq!(change.original.as_deref(), Some("orders-svc"));

    let ours = replayed(Properties {
        user_id: Some("relay-ops".into()),
        ..Properties::default()
    });
    assert_eq!(
        ours.message.properties.user_id.as_deref(),
        Some("relay-ops")
    );
}

#[test]
fn h_02_carbon_copies_are_removed_and_shown() {
    let prepared = replayed(Properties {
        headers: table(&[
            (
                "CC",
                FieldValue::Array(vec![FieldValue::text("audit.orders")]),
            ),
            ("BCC", FieldValue::Array(vec![])),
            ("event_type", FieldValue::text("order.placed")),
        ]),
        ..Properties::default()
    });
    let headers = &prepared.message.properties.headers;
    assert_eq!(headers.get("CC"), None);
    assert_eq!(headers.get("BCC"), None);
    assert!(headers.get("event_type").is_some());
    assert_eq!(
        change(&prepared, "CC").original.as_deref(),
        Some("[audit.orders]")
    );
}

#[test]
fn h_03_what_the_broker_owns_goes_and_an_application_header_with_x_stays() {
    let broker_owned = [
        "x-death",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-first-death-exchange",
        "x-last-death-queue",
        "x-delivery-count",
        "x-acquired-count",
    ];
    let mut fields: Vec<_> = broker_owned
        .iter()
        .map(|name| (*name, FieldValue::text("billing.orders")))
        .collect();
    fields.push(("x-tenant", FieldValue::text("eu-1")));
    let prepared = replayed(Properties {
        headers: table(&fields),
        ..Properties::default()
    });
    let names: Vec<_> = prepared
        .message
        .properties
        .headers
        .iter()
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(names, ["x-tenant", OPERATION, REPLAYS]);
    for name in broker_owned {
        assert_eq!(change(&prepared, name).action, "remove");
    }
}

#[test]
fn h_05_an_expiration_is_cleared_and_none_is_restored() {
    let with_property = replayed(Properties {
        expiration: Some("3000".into()),
        ..Properties::default()
    });
    assert_eq!(with_property.message.properties.expiration, None);
    assert_eq!(
        change(&with_property, "expiration").original.as_deref(),
        Some("3000")
    );

    let death =
        FieldTable::from_iter([("original-expiration".to_owned(), FieldValue::text("3000"))]);
    let with_death = replayed(Properties {
        headers: table(&[("x-death", FieldValue::Array(vec![FieldValue::Table(death)]))]),
        ..Properties::default()
    });
    assert_eq!(with_death.message.properties.expiration, None);
}

#[test]
fn h_13_a_replay_is_persistent_and_the_original_mode_is_recorded() {
    for (before, shown) in [(Some(1), Some("1")), (None, None)] {
        let prepared = replayed(Properties {
            delivery_mode: before,
            ..Properties::default()
        });
        assert_eq!(prepared.message.properties.delivery_mode, Some(2));
        let change = change(&prepared, "delivery_mode");
        assert_eq!(change.original.as_deref(), shown);
        assert_eq!(change.becomes.as_deref(), Some("2"));
    }
}

#[test]
fn h_10_headers_at_the_frame_limit_go_without_our_marks_or_not_at_all() {
    let with_stack = |bytes: usize| {
        replayed(Properties {
            headers: table(&[(
                "x-exception-stacktrace",
                FieldValue::text("s".repeat(bytes)),
            )]),
            ..Properties::default()
        })
    };
    assert_eq!(with_stack(130_500).size, HeaderSize::Fits);

    let trimmed = with_stack(130_950);
    assert_eq!(trimmed.size, HeaderSize::FitsUnmarked);
    assert_eq!(trimmed.message.properties.headers.get(OPERATION), None);

    let HeaderSize::TooLarge(needed, allowed) = with_stack(131_060).size else {
        panic!("131 060 bytes and a name cannot fit into 131 064");
    };
    assert_eq!(allowed, 131_064);
    assert!(needed > allowed);
}

#[test]
fn our_marks_replace_those_of_an_earlier_replay_and_failure_notes_go() {
    let prepared = replayed(Properties {
        headers: table(&[
            (OPERATION, FieldValue::text("op-0")),
            (REPLAYS, FieldValue::I64(4)),
            ("x-error-class", FieldValue::text("decode")),
            ("x-redrive-replay", FieldValue::text("allowed")),
        ]),
        ..Properties::default()
    });
    let headers = &prepared.message.properties.headers;
    assert_eq!(headers.get(OPERATION), Some(&FieldValue::text("op-1")));
    assert_eq!(headers.get(REPLAYS), Some(&FieldValue::I64(1)));
    assert_eq!(headers.get("x-error-class"), None);
    assert!(headers.get("x-redrive-replay").is_some());
    assert_eq!(
        change(&prepared, OPERATION).original.as_deref(),
        Some("op-0")
    );
}

#[test]
fn a_message_id_that_is_not_the_event_id_is_set_and_shown() {
    let prepared = replayed(Properties {
        message_id: Some("amq-7".into()),
        ..Properties::default()
    });
    assert_eq!(
        prepared.message.properties.message_id.as_deref(),
        Some("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11")
    );
    assert_eq!(
        change(&prepared, "message_id").original.as_deref(),
        Some("amq-7")
    );
}
