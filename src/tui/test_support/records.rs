//! What is kept of what was done: sagas, operations, scans and the audit log.

use std::time::Duration;

use super::{ago, event_id, now, part, reading};
use crate::model::audit::{AuditEntry, AuditRecord};
use crate::model::count::Count;
use crate::model::ids::{ClaimToken, DeadLetterId, FindingId, OperationId, SagaId, ScanId};
use crate::model::operation::{ItemState, Operation, OperationItem, OperationState, Verb};
use crate::model::saga::{Saga, SagaState, SagaStep, StepState};
use crate::model::scan::{
    Difference, Fact, Finding, FindingState, NotCompared, Progress, Scan, ScanState, Suggestion,
};
use crate::observe::snapshot::{AuditSnapshot, OperationSnapshot, SagaSnapshot, ScanSnapshot};
use crate::tui::world::Fresh;

pub fn sagas(n: i64) -> Fresh {
    let step = |no, name: &str, forward, compensation| SagaStep {
        no,
        name: name.into(),
        forward,
        compensation,
        attempts: if compensation == StepState::Failed {
            5
        } else {
            1
        },
        timeout_at: (forward == StepState::InFlight).then(|| now().plus(Duration::from_secs(20))),
        last_error: (compensation == StepState::Failed).then(|| "refund refused: 409".into()),
        forward_key: None,
        compensation_key: None,
        event_id: None,
        queries: 0,
        conflict: None,
        updated_at: ago(120),
    };
    let reserved = |back| step(1, "reserve_stock", StepState::Succeeded, back);
    let charge = |i: i64| SagaStep {
        forward_key: Some(format!("order-{i}:charge")),
        compensation_key: Some(format!("order-{i}:charge:undo")),
        event_id: Some(event_id(1)),
        ..step(2, "charge", StepState::InFlight, StepState::Pending)
    };
    let saga = |i: i64| Saga {
        saga_id: SagaId::new(format!("0197c3f2-5a6a-7c4e-9b1a-{i:012x}")),
        saga_type: "order".into(),
        business_key: format!("ord-{i}"),
        state: match i {
            2 => SagaState::CompensationFailed,
            3 => SagaState::Completed,
            4 => SagaState::Compensating,
            _ => SagaState::Running,
        },
        version: 4,
        deadline_at: Some(if i == 1 {
            ago(30)
        } else {
            now().plus(Duration::from_mins(5))
        }),
        expires_at: (i == 5).then(|| now().plus(Duration::from_hours(1))),
        due_at: match i {
            2 | 3 => None,
            5 => Some(ago(40)),
            _ => Some(now().plus(Duration::from_secs(20))),
        },
        failures: i64::from(i == 6) * 3,
        last_error: (i == 6).then(|| "saga 6: its data is no order".into()),
        leased_by: (i == 1).then(|| "saga 4711".into()),
        lease_until: (i == 1).then(|| now().plus(Duration::from_secs(20))),
        attention: match i {
            1 => Some("the outcome of charge is not known, asked 3 times: no answer".into()),
            2 => Some("charge could not be undone in 5 tries: refund refused: 409".into()),
            _ => None,
        },
        owner: (i == 2).then(|| "mia".into()),
        evidence: (i == 4).then(|| "bank receipt 4711".into()),
        updated_at: ago(u64::try_from(i * 40).expect("positive")),
        created_at: ago(900),
        steps: match i {
            1 => vec![
                reserved(StepState::Pending),
                SagaStep {
                    forward: StepState::Unknown,
                    queries: 3,
                    last_error: Some("no answer".into()),
                    ..charge(i)
                },
                step(3, "confirm", StepState::Pending, StepState::Skipped),
            ],
            2 => vec![
                reserved(StepState::Succeeded),
                step(2, "charge", StepState::Succeeded, StepState::Failed),
                step(3, "ship", StepState::Failed, StepState::Skipped),
            ],
            3 => vec![reserved(StepState::Skipped)],
            4 => vec![
                reserved(StepState::Pending),
                SagaStep {
                    forward: StepState::Succeeded,
                    compensation: StepState::InFlight,
                    conflict: Some("succeeded after the saga had turned round".into()),
                    ..charge(i)
                },
                step(3, "confirm", StepState::Skipped, StepState::Skipped),
            ],
            _ => vec![reserved(StepState::Pending), charge(i)],
        },
    };
    Fresh::Sagas(reading(SagaSnapshot {
        services: vec![part("orders", (1..=n).map(saga).collect())],
    }))
}

pub fn operation(n: i64, state: ItemState) -> Operation {
    Operation {
        operation_id: OperationId::new(format!("0197c3f2-0be0-7c4e-9b1a-{n:012x}")),
        verb: Verb::Replay,
        state: match state {
            ItemState::Unknown => OperationState::Unknown,
            state if state.is_final() => OperationState::Finished,
            _ => OperationState::Running,
        },
        actor: "mia@desk".into(),
        reason: "sku made optional in 4.2.1".into(),
        ticket: None,
        plan_digest: "9f2c".repeat(16),
        plan: r#"{"verb":"replay","headline":"order.created  key 8812  v3"}"#.into(),
        created_at: ago(60 + u64::try_from(n).expect("positive")),
        finished_at: state.is_final().then(|| ago(58)),
        items: vec![OperationItem {
            no: 1,
            event_id: Some(event_id(1)),
            consumer: Some("inventory".into()),
            dead_letter_id: Some(DeadLetterId::new("dl-1")),
            state,
            token: ClaimToken::new("t"),
            lease_until: None,
            published_at: Some(ago(59)),
            updated_at: ago(58),
            evidence: Some(match state {
                ItemState::Consumed => "inbox row of inventory at 14:01:12".into(),
                ItemState::DiedAgain => "death 2 at 14:01:12: missing field `sku`".into(),
                _ => "confirmed by the broker".into(),
            }),
            deaths_before: 1,
            new_event_id: None,
        }],
    }
}

pub fn operations(n: i64) -> Fresh {
    let states = [
        ItemState::Published,
        ItemState::Consumed,
        ItemState::DiedAgain,
        ItemState::Unknown,
        ItemState::Unroutable,
    ];
    Fresh::Operations(reading(OperationSnapshot {
        services: vec![part(
            "inventory",
            states
                .into_iter()
                .cycle()
                .zip(1..=n)
                .map(|(state, n)| operation(n, state))
                .collect(),
        )],
    }))
}

/// A run of a rule.
pub fn run(rule: &str, state: ScanState, found: u64) -> Scan {
    Scan {
        scan_id: ScanId::new("0197c3f2-5ca0-7c4e-9b1a-000000000001"),
        rule: rule.into(),
        state,
        actor: "mia@desk".into(),
        started_at: ago(310),
        finished_at: (state != ScanState::Running).then(|| ago(300)),
        lease_until: None,
        rows_read: 3_600,
        not_compared: if rule == "other-content" {
            vec![NotCompared {
                what: "inbox of payment".into(),
                reason: "database of payment is not reachable: connection refused".into(),
                is_unreachable: true,
            }]
        } else {
            vec![]
        },
        progress: Progress {
            parts: 3,
            parts_done: if state == ScanState::Running { 1 } else { 3 },
            part: None,
            cursor: None,
            examined: 1_200,
            in_flight: 4,
            explained: [(
                "waits in queue inventory.orders (oldest 18m)".to_owned(),
                40,
            )]
            .into(),
            found,
            cleared: 0,
            notes: vec!["looked back 7d from the start".into()],
        },
    }
}

fn found(n: u64) -> Finding {
    let id = event_id(n);
    Finding {
        finding_id: FindingId::new(format!("0197c3f2-f1d0-7c4e-9b1a-{n:012x}")),
        rule: "sent-not-consumed".into(),
        scan_id: ScanId::new("0197c3f2-5ca0-7c4e-9b1a-000000000001"),
        state: FindingState::Open,
        first_seen_at: ago(3_600 + n),
        last_seen_at: ago(300),
        owner: n.is_multiple_of(3).then(|| "mia".into()),
        note: (n == 3).then(|| "asked the warehouse".into()),
        difference: Difference {
            class: "sent_not_consumed".into(),
            subject: format!("inventory {id}"),
            service: "orders".into(),
            summary:
                "order.created was sent, and inventory has neither an inbox row nor a dead letter"
                    .into(),
            event_id: Some(id.clone()),
            consumer: Some("inventory".into()),
            since: Some(ago(4_000)),
            at: Some(ago(4_010)),
            facts: vec![
                Fact::new("type", "order.created"),
                Fact {
                    name: "inbox".into(),
                    value: None,
                },
            ],
            suggestion: Some(Suggestion {
                verb: "replay".into(),
                target: id.to_string(),
                service: "orders".into(),
                command: format!("redrive replay {id} --consumer inventory"),
            }),
        },
    }
}

pub fn scans(n: i64) -> Fresh {
    let n = u64::try_from(n).unwrap_or(0);
    let scans = if n == 0 {
        vec![]
    } else {
        vec![
            run("sent-not-consumed", ScanState::Finished, n),
            run("version-gaps", ScanState::Finished, 0),
            run("other-content", ScanState::Finished, 0),
            run("inbox-without-outbox", ScanState::Stopped, 0),
        ]
    };
    Fresh::Scans(reading(ScanSnapshot {
        scans,
        findings: (1..=n).map(found).collect(),
        open: Some(Count::Exact(n)),
        unread: vec![],
    }))
}

pub fn audit(n: i64) -> Fresh {
    let entry = |seq: i64| AuditEntry {
        seq,
        at: ago(u64::try_from((n - seq) * 20 + 4).expect("positive")),
        record: AuditRecord {
            actor: "mia@desk".into(),
            action: "replay".into(),
            phase: match seq % 3 {
                0 => "refused",
                1 => "intent",
                _ => "outcome",
            }
            .into(),
            operation_id: Some(OperationId::new("0197c3f2-0be0-7c4e-9b1a-000000000001")),
            subject: event_id(1).to_string(),
            reason: "sku made optional in 4.2.1".into(),
            detail: r#"{"headers":{"remove":["x-death"]}}"#.into(),
        },
        previous_hash: "0".repeat(64),
        hash: "9f2c".repeat(16),
    };
    Fresh::Audit(reading(AuditSnapshot {
        services: vec![part("inventory", (1..=n).rev().map(entry).collect())],
    }))
}
