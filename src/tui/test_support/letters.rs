//! Dead letters: rows, groups and one in detail.

use super::{ago, event_id, outbox_row, part, reading};
use crate::model::count::Count;
use crate::model::dead_letter::{
    DeadLetter, DeadLetterDetail, DeadLetterGroup, DeadLetterGroups, DeadLetterStatus, Death,
    Whereabouts,
};
use crate::model::ids::DeadLetterId;
use crate::model::inbox::InboxRow;
use crate::model::message::{FieldTable, FieldValue, Message, Payload, Properties};
use crate::model::outbox::{OutboxState, Sequence};
use crate::model::page::Page;
use crate::observe::snapshot::{DeadLetterFacts, DeadLetterSnapshot, DeadLetterView};
use crate::tui::world::Fresh;

pub fn letter(n: u64) -> DeadLetter {
    let is_other = n.is_multiple_of(7);
    DeadLetter {
        dead_letter_id: DeadLetterId::new(format!("dl-{n}")),
        consumer: "inventory".into(),
        event_id: Some(event_id(n)),
        aggregate_id: Some(format!("{}", 8_811 + n).as_str().into()),
        aggregate_version: Some(3),
        event_type: Some(
            if is_other {
                "order.cancelled"
            } else {
                "order.created"
            }
            .into(),
        ),
        message_at: Some(ago(180)),
        failed_queue: Some("inventory.orders".into()),
        source_exchange: Some("shop.events".into()),
        source_routing_key: Some("order.created".into()),
        dead_letter_queue: "inventory.orders.dlq".into(),
        reason: Some("rejected".into()),
        error_class: if is_other {
            "lock wait timeout"
        } else {
            "decode: missing field `sku`"
        }
        .into(),
        error_summary: Some(if is_other {
            "lock wait timeout exceeded; try restarting transaction".into()
        } else {
            "missing field `sku` at line 1 column 58".into()
        }),
        stack_digest: None,
        delivery_count: Some(1),
        retry_count: Some(3),
        first_died_at: ago(120 + n),
        last_died_at: ago(120 + n),
        deaths: 1 + i64::from(n == 2),
        replays: i64::from(n == 2),
        last_replayed_at: None,
        producer_version: Some("4.2.0".into()),
        consumer_version: None,
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        replay_allowed: n != 3,
        owner: is_other.then(|| "mia".into()),
        status: DeadLetterStatus::Open,
        note: None,
        version: 1,
        payload_bytes: 58,
        payload_sha256: message().payload.sha256(),
        operation_id: None,
    }
}

pub fn dead_letters(n: u64) -> Fresh {
    let rows: Vec<DeadLetter> = (1..=n).map(letter).collect();
    let group = |event_type: &str, class: &str, count: u64, owner: Option<&str>| DeadLetterGroup {
        consumer: "inventory".into(),
        event_type: Some(event_type.into()),
        error_class: class.into(),
        count,
        first_died_at: ago(4_320),
        last_died_at: ago(120),
        owner: owner.map(Into::into),
        note: None,
    };
    let mut groups = Vec::new();
    if n > 0 {
        groups.push(group(
            "order.created",
            "decode: missing field `sku`",
            n - n / 7,
            None,
        ));
    }
    if n >= 7 {
        groups.push(group(
            "order.cancelled",
            "lock wait timeout",
            n / 7,
            Some("mia"),
        ));
    }
    Fresh::DeadLetters(reading(DeadLetterSnapshot {
        services: vec![part(
            "inventory",
            DeadLetterFacts {
                groups: DeadLetterGroups {
                    groups,
                    open: Some(Count::Exact(n)),
                    replaying: Some(Count::Exact(0)),
                    oldest_open_s: (n > 0).then_some(4_320.0),
                    deaths_last_minute: Some(Count::Exact(0)),
                    truncated: false,
                },
                page: Page { rows, next: None },
                queued: vec![("inventory.orders.dlq".into(), Some(n / 10))],
            },
        )],
    }))
}

pub fn message() -> Message {
    Message {
        properties: Properties {
            content_type: Some("application/json".into()),
            message_id: Some(event_id(1).to_string()),
            kind: Some("order.created".into()),
            delivery_mode: Some(2),
            expiration: Some("60000".into()),
            headers: [
                (
                    "traceparent".to_owned(),
                    FieldValue::text("00-4bf9-00f0-01"),
                ),
                ("tenant".to_owned(), FieldValue::text("eu\u{1b}[31m-1")),
                ("x-death".to_owned(), FieldValue::Array(vec![])),
            ]
            .into_iter()
            .collect::<FieldTable>(),
            ..Properties::default()
        },
        payload: Payload::new(
            br#"{"order_id":4634343214213523454,"total":1.10,"lines":[{"n":1}]}"#.to_vec(),
        ),
    }
}

pub fn dead_letter_view(n: u64, message: Message) -> Fresh {
    let letter = letter(n);
    let mut sent = outbox_row(n, OutboxState::Sent);
    sent.sent_at = Some(ago(178));
    let mut later = outbox_row(n + 1, OutboxState::Pending);
    later.aggregate_version = Some(4);
    Fresh::DeadLetter(reading(Some(DeadLetterView {
        service: "inventory".into(),
        detail: DeadLetterDetail {
            deaths: vec![Death {
                no: 1,
                died_at: letter.last_died_at,
                queue: Some("inventory.orders".into()),
                reason: Some("rejected".into()),
                error: letter.error_summary.clone(),
                operation_id: None,
            }],
            letter: letter.clone(),
            message,
        },
        whereabouts: Whereabouts::Table,
        inboxes: vec![
            part("inventory", None),
            part(
                "notification",
                Some(InboxRow {
                    consumer: "notification".into(),
                    event_id: event_id(n),
                    processed_at: ago(177),
                    payload_sha256: None,
                }),
            ),
        ],
        original: Some(("orders".into(), letter.payload_sha256)),
        sequence: Sequence {
            rows: vec![sent, later],
            truncated: false,
            not_answered: None,
        },
        siblings: Vec::new(),
        unread: Vec::new(),
    })))
}
