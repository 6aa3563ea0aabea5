//! A database and a broker that answer, refuse or hang as a test says.

mod broker;
mod ports;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::clock::{Clock, Timestamp};
use crate::base::secret::SecretUrl;
use crate::config::{
    Context, DeadLetterPart, DispatcherSettings, Environment, InboxPart, OutboxPart, SagaPart,
    Service, Thresholds,
};
use crate::model::ids::ConsumerName;
use crate::ports::Ports;
use crate::store::Store;

pub(super) use broker::FakeBroker;
pub(super) use store::{FakeStore, counts, row};

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

/// How a fake server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Up,
    Down,
    Hung,
}

/// Counts calls and how many of one kind were ever under way together.
#[derive(Default)]
pub(super) struct Calls {
    by_name: Mutex<BTreeMap<&'static str, (usize, usize, usize)>>,
    total: AtomicUsize,
}

struct Running<'a>(&'a Calls, &'static str);

impl Calls {
    fn enter(&self, name: &'static str) -> Running<'_> {
        self.total.fetch_add(1, Ordering::SeqCst);
        let mut calls = self.by_name.lock().unwrap();
        let (count, running, most) = calls.entry(name).or_default();
        *count += 1;
        *running += 1;
        *most = (*most).max(*running);
        Running(self, name)
    }

    pub(super) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    pub(super) fn of(&self, name: &str) -> usize {
        self.by_name.lock().unwrap().get(name).map_or(0, |c| c.0)
    }

    pub(super) fn most_together(&self, name: &str) -> usize {
        self.by_name.lock().unwrap().get(name).map_or(0, |c| c.2)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.by_name.lock().unwrap().get_mut(self.1) {
            entry.1 -= 1;
        }
    }
}

/// Two services, `orders` (outbox, sagas) and `inventory` (outbox, inbox, dead letters), on fakes.
pub(super) struct World {
    pub(super) orders: Arc<FakeStore>,
    pub(super) inventory: Arc<FakeStore>,
    pub(super) broker: Arc<FakeBroker>,
    pub(super) ports: Ports,
}

impl World {
    pub(super) fn new() -> Self {
        let (orders, inventory) = (FakeStore::new("orders"), FakeStore::new("inventory"));
        let broker = FakeBroker::new();
        broker.queue_depth("inventory.orders", 0, 1);
        broker.queue_depth("inventory.orders.dlq", 0, 1);
        let stores: Vec<Arc<dyn Store>> = vec![orders.clone(), inventory.clone()];
        let ports = Ports {
            alerts: None,
            context: Arc::new(context()),
            stores,
            broker: Some(broker.clone()),
            clock: Clock::fixed(NOW),
        };
        Self {
            orders,
            inventory,
            broker,
            ports,
        }
    }
}

fn outbox() -> OutboxPart {
    OutboxPart {
        layout: "native".to_owned(),
        table: None,
        exchange: "shop.events".to_owned(),
    }
}

fn context() -> Context {
    let service = |name: &str| Service {
        name: name.to_owned(),
        database: SecretUrl::new("sqlite::memory:".to_owned()),
        outbox: Some(outbox()),
        inbox: None,
        dead_letters: None,
        sagas: None,
        journal: true,
    };
    let mut orders = service("orders");
    orders.sagas = Some(SagaPart {
        layout: "native".to_owned(),
        table: None,
    });
    let mut inventory = service("inventory");
    inventory.inbox = Some(InboxPart {
        layout: "native".to_owned(),
        table: None,
        consumer: ConsumerName::new("inventory"),
        queue: "inventory.orders".to_owned(),
    });
    inventory.dead_letters = Some(DeadLetterPart {
        layout: "native".to_owned(),
        table: None,
        queues: vec!["inventory.orders.dlq".to_owned()],
    });
    Context {
        name: "shop".to_owned(),
        environment: Environment::Sandbox,
        read_only: false,
        amqp: Some(SecretUrl::new("amqp://ops@mq/%2f".to_owned())),
        management: Some(SecretUrl::new("http://ops@mq:15672".to_owned())),
        services: vec![orders, inventory],
        rights: Vec::new(),
        never_replay: Vec::new(),
        inbox_retention: None,
        ticket_pattern: None,
        unlock: Duration::from_mins(10),
        masked: Vec::new(),
        owners: Vec::new(),
        thresholds: Thresholds::default(),
        dispatcher: DispatcherSettings::default(),
        consumer: crate::config::ConsumerLimits::default(),
        drill: crate::config::DrillSettings::default(),
        retention: crate::config::RetentionSettings::default(),
        verdicts: crate::config::VerdictSettings::default(),
        on_death: None,
        scan: crate::config::ScanSettings::default(),
    }
}
