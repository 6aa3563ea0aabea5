//! What a repair keeps byte for byte, and what it locks.

use super::*;
use crate::base::clock::Timestamp;
use crate::model::message::{Message, Properties};
use crate::operate::preflight::tests::letter;

/// The digits of P-06.
const NUMBERS: &str = r#"{"order_id":4634343214213523454,"neg":-9223372036854775808,"u64":18446744073709551615,"huge":123456789012345678901234567890,"f":1.10,"e":1E400}"#;

fn payload(text: &str) -> Payload {
    Payload::new(text.as_bytes().to_vec())
}

fn detail() -> DeadLetterDetail {
    let headers = [
        ("saga_id", FieldValue::text("s-7")),
        ("causation_id", FieldValue::text("c-0")),
        ("schema_version", FieldValue::I64(4)),
        ("x-death", FieldValue::Array(vec![])),
        ("CC", FieldValue::Array(vec![])),
        ("x-error-class", FieldValue::text("decode")),
    ];
    DeadLetterDetail {
        letter: letter(),
        message: Message {
            properties: Properties {
                headers: headers
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                correlation_id: Some("corr-77".to_owned()),
                message_id: Some("0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1".to_owned()),
                content_encoding: Some("gzip".to_owned()),
                ..Properties::default()
            },
            payload: payload(NUMBERS),
        },
        deaths: vec![],
    }
}

#[test]
fn p_06_a_repair_changes_only_the_bytes_that_were_edited() {
    let edited = payload(&NUMBERS.replace("1.10", "1.20"));
    let (event, _) = new_event(&detail(), &edited, "inventory.orders".to_owned());
    assert_eq!(event.payload.bytes(), edited.bytes());
    let text = event.payload.text().expect("it is text");
    for digits in [
        "4634343214213523454",
        "18446744073709551615",
        "123456789012345678901234567890",
        "1.20",
        "1E400",
    ] {
        assert!(text.contains(digits), "{digits}");
    }
    assert_eq!(content(&payload(NUMBERS), &edited)[0].level, Level::Pass);
    let shown = diff(&payload(NUMBERS), &edited, &[]);
    assert!(shown.contains("-{") && shown.contains("+{"), "{shown}");
}

#[test]
fn a_masked_value_is_not_in_the_diff() {
    let before = payload("{\"email\":\"mia@shop\"}");
    let after = payload("{\"email\":\"mia@shop\",\n\"sku\":\"A-1\"}");
    let masked = ["email".to_owned()];
    let shown = diff(&before, &after, &masked);
    assert!(shown.contains("sku") && shown.contains("•••"), "{shown}");
    assert!(!shown.contains("mia@shop"), "{shown}");
    let shown = diff(&payload("email=mia@shop"), &after, &masked);
    assert!(shown.starts_with("not shown"), "{shown}");
    assert!(!shown.contains("mia@shop"), "{shown}");
}

#[test]
fn identity_headers_are_locked_and_the_rest_of_the_thread_is_kept() {
    let (event, changes) = new_event(&detail(), &payload("{}"), "inventory.orders".to_owned());
    let original = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1";
    assert_ne!(event.event_id.as_str(), original);
    assert_eq!(
        uuid::Uuid::parse_str(event.event_id.as_str())
            .expect("a uuid")
            .get_version_num(),
        7
    );
    assert_eq!(event.causation_id.as_deref(), Some(original));
    assert_eq!(event.headers.get("saga_id"), Some(&FieldValue::text("s-7")));
    assert_eq!(
        event.headers.get("correlation_id"),
        Some(&FieldValue::text("corr-77"))
    );
    assert_eq!(event.schema_version, 4);
    for gone in ["x-death", "CC", "x-error-class"] {
        assert_eq!(event.headers.get(gone), None, "{gone}");
        assert!(changes.iter().any(|change| change.field == gone), "{gone}");
    }
    // Straight to the failed queue.
    assert_eq!(event.exchange.as_deref(), Some(""));
    assert_eq!(event.routing_key.as_deref(), Some("inventory.orders"));
    // A property the outbox cannot carry is said to be lost.
    assert!(changes.iter().any(|c| c.field == "content_encoding"));
}

#[test]
fn what_is_not_json_is_refused_and_what_is_unchanged_is_said() {
    let lines = content(&payload("{}"), &payload("{\"a\":}"));
    assert_eq!(lines[0].level, Level::Refusal);
    let lines = content(&payload("{}"), &payload("{}"));
    assert_eq!(lines[1].check, "unchanged");
    assert_eq!(lines[1].level, Level::Warning);
}

#[test]
fn p_09_deep_nesting_is_checked_without_a_limit_or_a_crash() {
    for depth in [129, 100_000] {
        let deep = payload(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert_eq!(content(&payload("{}"), &deep)[0].level, Level::Pass);
    }
}

#[test]
fn the_headline_of_a_letter_reads_like_a_sentence() {
    let now = Timestamp::from_micros(1_767_323_045_000_000);
    assert_eq!(
        headline(&letter(), now),
        "order.created  key 8812  v3  died 2m ago at inventory  deaths 1  replays 0"
    );
}
