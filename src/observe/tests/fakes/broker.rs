//! A broker whose two ports fail on their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::{Calls, Mode};
use crate::broker::{
    Binding, Broker, BrokerError, BrokerOverview, BrokerResult, Consumer, Flow, Publisher,
    QueueDepth, QueueFacts, QueuePage, Topology,
};

/// A broker whose two ports fail on their own.
pub(in crate::observe::tests) struct FakeBroker {
    pub(in crate::observe::tests) amqp: Mutex<Mode>,
    pub(in crate::observe::tests) management: Mutex<Result<Mode, BrokerError>>,
    pub(in crate::observe::tests) depths: Mutex<BTreeMap<String, QueueDepth>>,
    pub(in crate::observe::tests) facts: Mutex<Vec<QueueFacts>>,
    pub(in crate::observe::tests) bindings: Mutex<BTreeMap<String, Vec<Binding>>>,
    pub(in crate::observe::tests) statistics_off: Mutex<bool>,
    pub(in crate::observe::tests) calls: Calls,
}

impl FakeBroker {
    pub(in crate::observe::tests) fn new() -> Arc<Self> {
        Arc::new(Self {
            amqp: Mutex::new(Mode::Up),
            management: Mutex::new(Ok(Mode::Up)),
            depths: Mutex::default(),
            facts: Mutex::default(),
            bindings: Mutex::default(),
            statistics_off: Mutex::new(false),
            calls: Calls::default(),
        })
    }

    pub(in crate::observe::tests) fn queue_depth(&self, queue: &str, ready: u64, consumers: u64) {
        let depth = QueueDepth { ready, consumers };
        self.depths.lock().unwrap().insert(queue.to_owned(), depth);
    }

    async fn by_amqp<T>(&self, value: T) -> BrokerResult<T> {
        let _running = self.calls.enter("amqp");
        let mode = *self.amqp.lock().unwrap();
        by(mode, value).await
    }

    async fn by_management<T>(&self, value: T) -> BrokerResult<T> {
        let _running = self.calls.enter("management");
        let mode = self.management.lock().unwrap().clone()?;
        by(mode, value).await
    }
}

async fn by<T>(mode: Mode, value: T) -> BrokerResult<T> {
    match mode {
        Mode::Up => Ok(value),
        Mode::Down => Err(BrokerError::Unavailable("connection refused".to_owned())),
        Mode::Hung => std::future::pending().await,
    }
}

#[async_trait]
impl Broker for FakeBroker {
    fn name(&self) -> String {
        "vhost /".to_owned()
    }
    async fn probe(&self) -> BrokerResult<Duration> {
        self.by_amqp(Duration::from_millis(4)).await
    }
    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>> {
        Err(BrokerError::NotConfigured("unused".to_owned()))
    }
    async fn consumer(&self, _: &str, _: u16) -> BrokerResult<Box<dyn Consumer>> {
        Err(BrokerError::NotConfigured("unused".to_owned()))
    }
    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>> {
        let depth = self.depths.lock().unwrap().get(queue).copied();
        self.by_amqp(depth).await
    }
    async fn declare(&self, _: &Topology) -> BrokerResult<()> {
        Ok(())
    }
    fn flow(&self) -> Flow {
        Flow::Open
    }
    async fn overview(&self) -> BrokerResult<BrokerOverview> {
        self.by_management(BrokerOverview {
            product: "RabbitMQ 3.10.8".to_owned(),
            latency_us: 11_000,
            ..BrokerOverview::default()
        })
        .await
    }
    async fn queues(&self, _: u32, _: u32) -> BrokerResult<QueuePage> {
        let queues = self.facts.lock().unwrap().clone();
        let page = QueuePage {
            total: Some(queues.len() as u64),
            queues,
            statistics_off: *self.statistics_off.lock().unwrap(),
        };
        self.by_management(page).await
    }
    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        let facts = self.facts.lock().unwrap().clone();
        self.by_management(facts.into_iter().find(|f| f.name == name))
            .await
    }
    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        let bindings = self.bindings.lock().unwrap().get(exchange).cloned();
        let bindings = self.by_management(bindings).await?;
        bindings.ok_or_else(|| BrokerError::NotFound(format!("no exchange {exchange}")))
    }
    fn user(&self) -> Option<String> {
        Some("ops".to_owned())
    }
    fn frame_max(&self) -> u32 {
        0
    }
    async fn close(&self) {}
}
