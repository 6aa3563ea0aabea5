//! A plan as a dialog shows it.

use super::{event_id, now};
use crate::config::Environment;
use crate::model::ids::{ClaimToken, DeadLetterId, OperationId};
use crate::model::operation::Verb;
use crate::operate::plan::{
    ConfirmRules, Destination, Frozen, HeaderChange, Level, Plan, PreflightLine, Target,
};

fn target() -> Target {
    Target::DeadLetter {
        service: "inventory".into(),
        dead_letter_id: DeadLetterId::new("dl-1"),
    }
}

/// The plan of a replay that nothing forbids.
pub fn plan() -> Plan {
    let pass = |check: &str, text: &str| PreflightLine {
        check: check.into(),
        level: Level::Pass,
        text: text.into(),
    };
    Plan {
        operation_id: OperationId::new("0197c3f2-0be0-7c4e-9b1a-000000000001"),
        verb: Verb::Replay,
        context: "shop".into(),
        environment: Environment::Staging,
        service: "inventory".into(),
        made_at: now(),
        headline: "order.created  key 8812  v3  died 2m ago at inventory  deaths 1  replays 0".into(),
        event_id: Some(event_id(1)),
        consumer: Some("inventory".into()),
        target: Some(target()),
        destination: Some(Destination {
            exchange: String::new(),
            routing_key: "inventory.orders".into(),
            consumers: Some(2),
            queues: vec!["inventory.orders".into()],
            text: "queue inventory.orders (2 consumers); not through shop.events: notification already has it".into(),
        }),
        payload: Some("412 B  sha256 9f2c…  equals the outbox row".into()),
        headers_kept: 6,
        header_changes: vec![
            HeaderChange {
                action: "remove".into(),
                field: "x-death".into(),
                original: Some("[…]".into()),
                becomes: None,
            },
            HeaderChange {
                action: "clear".into(),
                field: "expiration".into(),
                original: Some("60000".into()),
                becomes: None,
            },
        ],
        preflight: vec![
            pass("replay_allowed", "replay allowed"),
            pass("inbox_absent", "inventory inbox has no row: first effect"),
            pass("inbox_retention", "2m old, inbox keeps 30d"),
            PreflightLine {
                check: "sequence_later".into(),
                level: Level::Warning,
                text: "v4 of this key waits behind it".into(),
            },
        ],
        diff: None,
        command_line: format!(
            "redrive replay {} --consumer inventory --context shop --reason … --apply",
            event_id(1)
        ),
        confirm: ConfirmRules::default(),
        digest: "9f2c".repeat(16),
        frozen: Frozen::Release {
            claim_token: ClaimToken::new("t"),
        },
    }
}
