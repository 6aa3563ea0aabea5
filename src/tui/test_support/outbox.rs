//! Outbox rows, their leases and the queues they go to.

use super::flow::counts;
use super::{ago, part, reading};
use crate::model::ids::{ClaimToken, EventId};
use crate::model::outbox::{LeaseGroup, Leases, OutboxRow, OutboxState};
use crate::model::page::Page;
use crate::observe::snapshot::{
    BrokerOverview, LeaseSnapshot, NodeFacts, OutboxFacts, OutboxSnapshot, QueueFacts,
    QueueSnapshot, QueueView, Safety, StoreFacts,
};
use crate::tui::world::Fresh;

pub fn event_id(n: u64) -> EventId {
    EventId::new(format!("0197c3f2-7d2a-7c4e-9b1a-{n:012x}"))
}

pub fn outbox_row(n: u64, state: OutboxState) -> OutboxRow {
    OutboxRow {
        event_id: event_id(n),
        aggregate_id: Some(format!("{}", 8_800 + n).as_str().into()),
        aggregate_version: Some(1),
        event_type: "order.created".into(),
        state,
        attempts: Some(i64::from(state == OutboxState::Failed) * 8),
        next_attempt_at: Some(ago(4 + n)),
        claim_token: None,
        lease_until: None,
        last_error: (state == OutboxState::Failed)
            .then(|| "unroutable: 312 NO_ROUTE for order.created.v9".into()),
        created_at: Some(ago(5 + n)),
        sent_at: None,
    }
}

fn facts(service: &str) -> StoreFacts {
    StoreFacts {
        service: service.into(),
        product: "mariadb".into(),
        outbox_layout: Some("native".into()),
        consumer: None,
        has_dead_letters: false,
        has_sagas: true,
        has_journal: true,
        is_fenced: true,
        outbox_replay: Safety::Safe,
        release: Safety::Safe,
    }
}

pub fn outbox_rows(rows: Vec<OutboxRow>, state: OutboxState) -> Fresh {
    let n = u64::try_from(rows.len()).expect("small");
    Fresh::Outbox(reading(OutboxSnapshot {
        services: vec![part(
            "orders",
            OutboxFacts {
                facts: facts("orders"),
                counts: counts(n, 2, 2),
                page: Page { rows, next: None },
                state,
            },
        )],
    }))
}

pub fn outbox(n: u64) -> Fresh {
    outbox_rows(
        (1..=n)
            .map(|n| outbox_row(n, OutboxState::Pending))
            .collect(),
        OutboxState::Pending,
    )
}

pub fn leases(n: u32) -> Fresh {
    let group = |i: u32| LeaseGroup {
        claim_token: Some(ClaimToken::new(format!("0197c3f2-aaaa-7c4e-9b1a-{i:012x}"))),
        rows: 20,
        lease_until: Some(ago(12)),
        left_s: Some(f64::from(i) * 10.0 - 22.0),
        oldest_created_at: Some(ago(60)),
        attempts_max: Some(i64::from(i % 3)),
        sample: vec![event_id(u64::from(i)), event_id(u64::from(i) + 1)],
    };
    Fresh::Leases(reading(LeaseSnapshot {
        services: vec![part(
            "orders",
            Leases {
                groups: (1..=n).map(group).collect(),
                truncated: n > 100,
                not_answered: (n == 0).then(|| "this layout has no lease".into()),
            },
        )],
    }))
}

pub fn queues(n: u64) -> Fresh {
    let queue = |i: u64| QueueView {
        facts: QueueFacts {
            name: match i {
                1 => "inventory.orders".into(),
                2 => "inventory.orders.dlq".into(),
                3 => "注文🧾.\u{202e}dlq".into(),
                i => format!("other.{i}"),
            },
            kind: (i != 4).then(|| "quorum".into()),
            state: (i != 4).then(|| if i == 5 { "minority" } else { "running" }.into()),
            is_durable: Some(true),
            ready: (i != 4).then_some(if i == 1 { 12_304 } else { 0 }),
            unacked: (i != 4).then_some(0),
            bytes: Some(4_096),
            consumers: (i != 4).then_some(u64::from(i != 1)),
            rate_in: (i != 4).then_some(120.0),
            rate_out: (i != 4).then_some(if i == 1 { 0.0 } else { 119.5 }),
            rate_ack: Some(0.0),
            rate_redelivered: Some(0.0),
            head_age_s: None,
            members: Some(vec![
                "rabbit@mq1".into(),
                "rabbit@mq2".into(),
                "rabbit@mq3".into(),
            ]),
            members_online: Some(vec!["rabbit@mq1".into(), "rabbit@mq2".into()]),
            dead_letter_exchange: (i == 1).then(|| "shop.dead".into()),
            dead_letter_routing_key: None,
            policy: None,
            delivery_limit: Some(5),
        },
        consumer: (i == 1).then(|| "inventory".into()),
        role: match i {
            1 => "work",
            2 => "dlq",
            _ => "other",
        }
        .into(),
        lag_s: (i == 1).then_some(1_080.0),
        lag_source: (i == 1).then(|| "rate".into()),
        warnings: if i == 3 {
            vec!["dead-letters to nothing".into()]
        } else {
            Vec::new()
        },
    };
    Fresh::Queues(reading(QueueSnapshot {
        queues: (1..=n).map(queue).collect(),
        total: Some(n),
        overview: Some(BrokerOverview {
            product: "RabbitMQ 3.10.8".into(),
            nodes: Some(vec![NodeFacts {
                name: "rabbit@mq1".into(),
                is_running: Some(true),
                memory_alarm: Some(n > 100),
                disk_alarm: Some(false),
            }]),
            nodes_problem: None,
            latency_us: 11_000,
        }),
        statistics_off: false,
        unread: Vec::new(),
    }))
}
