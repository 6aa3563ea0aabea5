//! Every rule: silent on a healthy pipeline, says what is wrong, and knows when it could not see.

mod rules;
mod watching;

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::config::Context;
use crate::config::load::{Secrets, parse};
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterGroups;
use crate::model::outbox::{Leases, OutboxCounts};
use crate::model::saga::Saga;
use crate::model::trouble::{LockWaits, RowTroubles};
use crate::observe::snapshot::{
    Asked, BrokerOverview, CauseSnapshot, ConsumerFlow, Flow, FlowSnapshot, HealthSnapshot,
    NodeFacts, OpenSagas, PerService, QueueFacts, QueueSnapshot, QueueView, ServerHealth, Unread,
    Unseen,
};

use super::sight::Sight;

pub const NOW: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

const CONFIG: &str = r#"
[contexts.shop]
environment = "staging"
amqp = "amqp://ops:x@mq:5672/%2f"
management = "http://ops:x@mq:15672"
inbox_retention = "30d"
[[contexts.shop.services]]
name = "orders"
database = "mysql://ops:x@db/orders"
outbox = { exchange = "shop.events" }
sagas = { layout = "native" }
[[contexts.shop.services]]
name = "inventory"
database = "mysql://ops:x@db/inventory"
inbox = { consumer = "inventory", queue = "inventory.orders" }
dead_letters = { queues = ["inventory.orders.dlq"] }
"#;

/// What a look saw, as a test changes it.
#[derive(Clone)]
pub struct Scene {
    pub context: Context,
    pub at: Timestamp,
    pub health: Option<HealthSnapshot>,
    pub flow: Option<FlowSnapshot>,
    pub causes: Option<CauseSnapshot>,
}

impl Scene {
    /// All is well, and everything was seen.
    pub fn healthy() -> Self {
        let loaded = parse("f", CONFIG, &|_| None, Secrets::All).expect("a good configuration");
        Self {
            context: loaded.config.contexts.into_iter().next().expect("one"),
            at: NOW,
            health: Some(health()),
            flow: Some(flow()),
            causes: Some(causes()),
        }
    }

    pub fn sight(&self) -> Sight<'_> {
        Sight {
            context: &self.context,
            at: self.at,
            health: self.health.as_ref(),
            flow: self.flow.as_ref(),
            causes: self.causes.as_ref(),
            before: None,
        }
    }

    pub fn later(&mut self, seconds: u64) -> &mut Self {
        self.at = self.at.plus(Duration::from_secs(seconds));
        self
    }

    pub fn health(&mut self) -> &mut HealthSnapshot {
        self.health.as_mut().expect("seen")
    }

    pub fn causes(&mut self) -> &mut CauseSnapshot {
        self.causes.as_mut().expect("seen")
    }

    /// Counts of the orders' outbox.
    pub fn counts(&mut self) -> &mut OutboxCounts {
        let flow = self.flow.as_mut().expect("seen");
        let part = flow.outboxes.first_mut().expect("one");
        part.value.as_mut().expect("seen")
    }

    /// The inventory's hop.
    pub fn consumer(&mut self) -> &mut ConsumerFlow {
        let flow = self.flow.as_mut().expect("seen");
        flow.consumers.first_mut().expect("one")
    }

    /// The work queue, or the dead-letter queue.
    pub fn queue(&mut self, index: usize) -> &mut QueueView {
        let queues = &mut self.causes().queues.queues;
        queues.get_mut(index).expect("there")
    }

    pub fn troubles(&mut self) -> &mut RowTroubles {
        value(&mut self.causes().troubles)
    }

    pub fn letters(&mut self) -> &mut DeadLetterGroups {
        value(&mut self.causes().letters)
    }

    pub fn locks(&mut self) -> &mut LockWaits {
        value(&mut self.causes().locks).as_mut().expect("MySQL")
    }
}

pub fn value<T>(parts: &mut [PerService<T>]) -> &mut T {
    let part = parts.first_mut().expect("one");
    part.value.as_mut().expect("seen")
}

pub fn part<T>(service: &str, value: T) -> PerService<T> {
    PerService {
        service: service.to_owned(),
        value: Some(value),
        unread: None,
    }
}

/// Unfinished sagas, all that there are.
pub fn open<const N: usize>(sagas: [Saga; N]) -> OpenSagas {
    OpenSagas {
        sagas: sagas.into(),
        is_cut: false,
        asked: Asked::anew(),
    }
}

/// A part that could not be read.
pub fn unread<T>(service: &str, is_unreachable: bool) -> PerService<T> {
    PerService {
        service: service.to_owned(),
        value: None,
        unread: Some(Unread {
            what: format!("part of {service}"),
            reason: if is_unreachable {
                format!("database of {service} is not reachable: connection refused")
            } else {
                format!("look on {service} is not permitted: SELECT command denied")
            },
            is_unreachable,
        }),
    }
}

pub fn server(name: &str, is_up: bool) -> ServerHealth {
    ServerHealth {
        name: name.to_owned(),
        is_up: Some(is_up),
        latency_us: is_up.then_some(2_000),
        detail: if is_up { "up" } else { "connection refused" }.to_owned(),
    }
}

fn health() -> HealthSnapshot {
    HealthSnapshot {
        databases: vec![server("db orders", true), server("db inventory", true)],
        skew_us: Some(20_000),
        clocks_asked: Vec::new(),
        broker: server("amqp", true),
        management: server("mgmt", true),
        management_asked: None,
        flow: Flow::Open,
    }
}

fn flow() -> FlowSnapshot {
    FlowSnapshot {
        outboxes: vec![part(
            "orders",
            OutboxCounts {
                pending: Count::Exact(12),
                due: Count::Exact(2),
                sending: Count::Exact(3),
                failed: Count::Exact(0),
                sent: Some(Count::About(1_000)),
                expired_leases: Some(Count::Exact(0)),
                oldest_due_s: Some(1.0),
                oldest_pending_s: Some(1.0),
                sent_last_minute: Some(Count::Exact(120)),
                database_now: NOW,
            },
        )],
        consumers: vec![ConsumerFlow {
            service: "inventory".to_owned(),
            consumer: "inventory".to_owned(),
            queue: "inventory.orders".to_owned(),
            ready: Some(3),
            consumers: Some(2),
            inbox_per_s: Some(10.0),
            lag_s: Some(0.2),
            dead_open: Some(Count::Exact(0)),
            waiting: None,
        }],
        published_per_s: Some(2.0),
        dead_open: Some(Count::Exact(0)),
        deaths_per_min: Some(0.0),
        sagas_attention: Some(Count::Exact(0)),
        operations_unknown: Some(Count::Exact(0)),
        operations_asked: Vec::new(),
        findings_open: Some(Count::Exact(0)),
        findings_asked: None,
        unread: Vec::new(),
    }
}

fn queue(name: &str, role: &str, dead_letter_exchange: Option<&str>) -> QueueView {
    let members = || Some(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    QueueView {
        facts: QueueFacts {
            name: name.to_owned(),
            kind: Some("quorum".to_owned()),
            state: Some("running".to_owned()),
            is_durable: Some(true),
            ready: Some(0),
            unacked: Some(0),
            consumers: Some(1),
            rate_in: Some(10.0),
            rate_out: Some(10.0),
            rate_ack: Some(10.0),
            rate_redelivered: Some(0.0),
            members: members(),
            members_online: members(),
            dead_letter_exchange: dead_letter_exchange.map(str::to_owned),
            ..QueueFacts::default()
        },
        consumer: None,
        role: role.to_owned(),
        lag_s: Some(0.0),
        lag_source: None,
        warnings: Vec::new(),
    }
}

fn causes() -> CauseSnapshot {
    CauseSnapshot {
        leases: vec![part("orders", Leases::default())],
        troubles: vec![part("orders", RowTroubles::default())],
        locks: vec![part("orders", Some(LockWaits::default()))],
        letters: vec![part(
            "inventory",
            DeadLetterGroups {
                open: Some(Count::Exact(0)),
                replaying: Some(Count::Exact(0)),
                deaths_last_minute: Some(Count::Exact(0)),
                ..DeadLetterGroups::default()
            },
        )],
        sagas: vec![part("orders", open([]))],
        horizons: vec![part("inventory", None)],
        queues: QueueSnapshot {
            queues: vec![
                queue("inventory.orders", "work", Some("shop.dead")),
                queue("inventory.orders.dlq", "dlq", None),
            ],
            total: Some(2),
            overview: Some(BrokerOverview {
                product: "RabbitMQ 3.10.8".to_owned(),
                nodes: Some(vec![NodeFacts {
                    name: "rabbit@mq1".to_owned(),
                    is_running: Some(true),
                    memory_alarm: Some(false),
                    disk_alarm: Some(false),
                }]),
                nodes_problem: None,
                latency_us: 5_000,
            }),
            statistics_off: false,
            unread: Vec::new(),
        },
        unseen: vec![part(
            "orders",
            Unseen {
                followed: 40,
                ..Unseen::default()
            },
        )],
        landed: Vec::new(),
    }
}
