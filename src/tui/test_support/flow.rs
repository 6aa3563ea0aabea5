//! Health, counts and causes, as the Overview shows them.

use super::{dead_letters, event_id, leases, now, part, queues, reading, sagas, server, value};
use crate::model::count::Count;
use crate::model::outbox::{Leases, OutboxCounts};
use crate::model::trouble::{LockWaits, RowGroup, RowTroubles};
use crate::observe::snapshot::{
    Asked, CauseSnapshot, ConsumerFlow, Flow, FlowSnapshot, HealthSnapshot, OpenSagas, PerService,
    QueueSnapshot, Unseen,
};
use crate::tui::world::Fresh;

pub fn health() -> Fresh {
    Fresh::Health(reading(HealthSnapshot {
        databases: vec![server("db orders", 2_100), server("db inventory", 1_900)],
        skew_us: Some(20_000),
        clocks_asked: vec![Asked::anew()],
        broker: server("amqp", 4_000),
        management: server("mgmt", 11_000),
        management_asked: Some(Asked::anew()),
        flow: Flow::Open,
    }))
}

pub fn counts(pending: u64, failed: u64, expired: u64) -> OutboxCounts {
    OutboxCounts {
        pending: Count::Exact(pending),
        due: Count::Exact(pending.min(9)),
        sending: Count::Exact(3),
        failed: Count::Exact(failed),
        sent: Some(Count::About(9_800_000)),
        expired_leases: Some(Count::Exact(expired)),
        oldest_due_s: (pending > 0).then_some(4.0),
        oldest_pending_s: (pending > 0).then_some(5.0),
        sent_last_minute: Some(Count::Exact(7_200)),
        database_now: now(),
    }
}

fn consumer(service: &str, queue: &str, ready: u64, consumers: u64, dead: u64) -> ConsumerFlow {
    ConsumerFlow {
        service: service.into(),
        consumer: service.into(),
        queue: queue.into(),
        ready: Some(ready),
        consumers: Some(consumers),
        inbox_per_s: Some(if consumers == 0 { 0.0 } else { 118.4 }),
        lag_s: Some(if consumers == 0 { 1_080.0 } else { 0.2 }),
        dead_open: Some(Count::Exact(dead)),
        waiting: None,
    }
}

pub fn flow() -> Fresh {
    Fresh::Flow(reading(FlowSnapshot {
        outboxes: vec![
            part("orders", counts(12, 2, 2)),
            part("inventory", counts(0, 0, 0)),
        ],
        consumers: vec![
            consumer("inventory", "inventory.orders", 12_304, 0, 41),
            consumer("notification", "mail.orders", 3, 2, 0),
        ],
        published_per_s: Some(120.0),
        dead_open: Some(Count::Exact(41)),
        deaths_per_min: Some(3.0),
        sagas_attention: Some(Count::Exact(1)),
        operations_unknown: Some(Count::Exact(0)),
        operations_asked: vec![Asked::anew()],
        findings_open: Some(Count::Exact(3)),
        findings_asked: Some(Asked::anew()),
        unread: Vec::new(),
    }))
}

pub fn flow_calm() -> Fresh {
    Fresh::Flow(reading(FlowSnapshot {
        outboxes: vec![part("orders", counts(0, 0, 0))],
        consumers: vec![consumer("inventory", "inventory.orders", 0, 2, 0)],
        published_per_s: Some(0.0),
        dead_open: Some(Count::Exact(0)),
        deaths_per_min: Some(0.0),
        sagas_attention: None,
        operations_unknown: None,
        operations_asked: Vec::new(),
        findings_open: Some(Count::Exact(0)),
        findings_asked: Some(Asked::anew()),
        unread: Vec::new(),
    }))
}

/// What explains [`flow`].
pub fn causes() -> Fresh {
    let (Fresh::Leases(leases), Fresh::Queues(queues)) = (leases(2), queues(2)) else {
        unreachable!("each is of its kind");
    };
    let (Fresh::DeadLetters(letters), Fresh::Sagas(sagas)) = (dead_letters(9), sagas(9)) else {
        unreachable!("each is of its kind");
    };
    let letters = value(&letters).services.into_iter().map(|part| PerService {
        service: part.service,
        value: part.value.map(|facts| facts.groups),
        unread: part.unread,
    });
    let failed = RowGroup {
        event_type: "order.created.v9".into(),
        error: Some("unroutable: 312 NO_ROUTE".into()),
        rows: 2,
        sample: event_id(7),
    };
    Fresh::Causes(reading(CauseSnapshot {
        leases: value(&leases).services,
        troubles: vec![part(
            "orders",
            RowTroubles {
                failed: vec![failed],
                ..RowTroubles::default()
            },
        )],
        locks: vec![part("orders", Some(LockWaits::default()))],
        letters: letters.collect(),
        sagas: value(&sagas)
            .services
            .into_iter()
            .map(|part| PerService {
                service: part.service,
                value: part.value.map(|sagas| OpenSagas {
                    sagas: sagas.into(),
                    is_cut: false,
                    asked: Asked::anew(),
                }),
                unread: part.unread,
            })
            .collect(),
        horizons: vec![part("inventory", None)],
        queues: value(&queues),
        unseen: vec![part("orders", Unseen::default())],
        landed: Vec::new(),
    }))
}

/// Nothing to explain.
pub fn causes_calm() -> Fresh {
    Fresh::Causes(reading(CauseSnapshot {
        leases: vec![part("orders", Leases::default())],
        troubles: vec![part("orders", RowTroubles::default())],
        locks: vec![part("orders", None)],
        letters: Vec::new(),
        sagas: Vec::new(),
        horizons: Vec::new(),
        queues: QueueSnapshot::default(),
        unseen: Vec::new(),
        landed: Vec::new(),
    }))
}
