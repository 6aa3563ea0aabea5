//! A whole pipeline for tests: SQLite files in a temporary directory and the in-process broker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tempfile::TempDir;

use crate::base::clock::Clock;
use crate::broker::embedded::EmbeddedBroker;
use crate::broker::{
    Binding, Broker, BrokerError, BrokerOverview, BrokerResult, Consumer, Delivery, Flow, Outgoing,
    PublishOutcome, Publisher, QueueDepth, QueueFacts, QueuePage, Topology,
};
use crate::config::{Context, Service};
use crate::model::dead_letter::{DeadLetter, DeadLetterQuery, DeadLetterStatus};
use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldTable, Message, Payload, Properties};
use crate::model::outbox::NewEvent;
use crate::ports::Ports;
use crate::sandbox::{demo_context, tables, topology};
use crate::store::Store;
use crate::store::sql::SqlStore;

/// Databases with tables, a broker with queues.
pub(crate) struct Bench {
    _directory: TempDir,
    pub(crate) ports: Ports,
    pub(crate) broker: Arc<EmbeddedBroker>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Context)) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut context = demo_context(directory.path());
        change(&mut context);
        let context = Arc::new(context);
        let broker = EmbeddedBroker::new("test");
        let stores = context
            .services
            .iter()
            .map(|service| open(&context, service))
            .collect();
        let ports = Ports {
            alerts: None,
            context,
            stores,
            broker: Some(broker.clone()),
            clock: Clock::System,
        };
        for (service, store) in ports.iter() {
            store.migrate(true).await.expect("migrates");
            store
                .create_business_tables(tables::of(&service.name))
                .await
                .expect("business tables");
        }
        broker.declare(&topology()).await.expect("declares");
        Self {
            _directory: directory,
            ports,
            broker,
        }
    }

    pub(crate) fn service(&self, name: &str) -> &Service {
        self.ports.context.service(name).expect("a service")
    }

    pub(crate) fn store(&self, name: &str) -> Arc<dyn Store> {
        Arc::clone(self.ports.store(name).expect("a store"))
    }

    pub(crate) fn connected(&self, name: &str) -> (Arc<dyn Store>, Arc<dyn Broker>) {
        (self.store(name), self.broker.clone())
    }

    pub(crate) async fn append(&self, service: &str, event: &NewEvent) {
        let mut tx = self.store(service).begin().await.expect("begins");
        tx.append(event).await.expect("appends");
        tx.commit().await.expect("commits");
    }

    pub(crate) async fn ready(&self, queue: &str) -> u64 {
        let depth = self.broker.depth(queue).await.expect("answers");
        depth.expect("the queue").ready
    }

    /// Puts messages into a queue.
    pub(crate) async fn put(&self, queue: &str, messages: Vec<Message>) {
        let publisher = self.broker.publisher().await.expect("publisher");
        let count = messages.len();
        let out = messages
            .into_iter()
            .map(|message| Outgoing {
                exchange: String::new(),
                routing_key: queue.to_owned(),
                message,
            })
            .collect();
        let outcomes = publisher.publish(out, Duration::from_secs(5)).await;
        assert_eq!(outcomes, vec![PublishOutcome::Confirmed; count]);
    }

    /// Takes every message of a queue.
    pub(crate) async fn take(&self, queue: &str) -> Vec<Delivery> {
        let mut consumer = self.broker.consumer(queue, 0).await.expect("consumer");
        let mut taken = Vec::new();
        for _ in 0..self.ready(queue).await {
            let delivery = consumer.next().await.expect("a message");
            consumer.ack(delivery.tag, false).await.expect("acks");
            taken.push(delivery);
        }
        taken
    }

    pub(crate) async fn open_letters(&self, service: &str) -> Vec<DeadLetter> {
        let query = DeadLetterQuery {
            status: DeadLetterStatus::Open,
            consumer: None,
            event_type: None,
            error_class: None,
            after: None,
            limit: 500,
        };
        let page = self.store(service).dead_letter_page(&query).await;
        page.expect("a page").rows
    }

    /// Runs a statement of the test's own.
    pub(crate) async fn execute(&self, service: &str, statement: &'static str) {
        let mut tx = self.store(service).begin().await.expect("begins");
        tx.execute(statement, &[]).await.expect("runs");
        tx.commit().await.expect("commits");
    }

    /// A number a statement selects.
    pub(crate) async fn number(&self, service: &str, statement: &'static str) -> i64 {
        let mut tx = self.store(service).begin().await.expect("begins");
        let row = tx.fetch_one(statement, &[]).await.expect("reads");
        tx.rollback().await.expect("rolls back");
        match row.as_deref() {
            Some([crate::store::Value::Int(n)]) => *n,
            other => panic!("not a number: {other:?}"),
        }
    }
}

fn open(context: &Context, service: &Service) -> Arc<dyn Store> {
    SqlStore::connect(service, &context.thresholds, false).expect("opens")
}

pub(crate) fn new_event(event_type: &str, payload: &str) -> NewEvent {
    NewEvent {
        event_id: EventId::generate(),
        aggregate_id: AggregateId::new("8812"),
        aggregate_version: 1,
        event_type: event_type.to_owned(),
        schema_version: 1,
        payload: Payload::new(payload.as_bytes().to_vec()),
        headers: FieldTable::new(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    }
}

pub(crate) fn message(id: Option<&str>, kind: &str, payload: &[u8]) -> Message {
    Message {
        properties: Properties {
            message_id: id.map(str::to_owned),
            kind: Some(kind.to_owned()),
            ..Properties::default()
        },
        payload: Payload::new(payload.to_vec()),
    }
}

/// Runs before a batch is published, e.g. to let another dispatcher interfere.
pub(crate) type Hook = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The broker with faults: a hook before each publish, and acknowledgements that are lost.
pub(crate) struct Meddler {
    pub(crate) inner: Arc<EmbeddedBroker>,
    pub(crate) before_publish: Option<Hook>,
    /// Acknowledgements that get lost with their connection from now on.
    pub(crate) acks_lost: Arc<std::sync::atomic::AtomicI64>,
    /// The account may not declare queues.
    pub(crate) refuses_to_declare: bool,
}

impl Meddler {
    pub(crate) fn new(inner: &Arc<EmbeddedBroker>) -> Self {
        Self {
            inner: Arc::clone(inner),
            before_publish: None,
            acks_lost: Arc::default(),
            refuses_to_declare: false,
        }
    }
}

struct MeddlingPublisher {
    inner: Box<dyn Publisher>,
    hook: Option<Hook>,
}

#[async_trait]
impl Publisher for MeddlingPublisher {
    async fn publish(&self, messages: Vec<Outgoing>, deadline: Duration) -> Vec<PublishOutcome> {
        if let Some(hook) = &self.hook {
            hook().await;
        }
        self.inner.publish(messages, deadline).await
    }
    fn flow(&self) -> Flow {
        self.inner.flow()
    }
}

struct MeddlingConsumer {
    inner: Box<dyn Consumer>,
    acks_lost: Arc<std::sync::atomic::AtomicI64>,
}

#[async_trait]
impl Consumer for MeddlingConsumer {
    async fn next(&mut self) -> BrokerResult<Delivery> {
        self.inner.next().await
    }
    async fn ack(&mut self, tag: u64, up_to: bool) -> BrokerResult<()> {
        if self
            .acks_lost
            .fetch_sub(1, std::sync::atomic::Ordering::SeqCst)
            > 0
        {
            return Err(BrokerError::Unavailable("connection lost".to_owned()));
        }
        self.inner.ack(tag, up_to).await
    }
    async fn reject(&mut self, tag: u64, requeue: bool) -> BrokerResult<()> {
        self.inner.reject(tag, requeue).await
    }
    async fn close(self: Box<Self>) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Broker for Meddler {
    fn name(&self) -> String {
        self.inner.name()
    }
    async fn probe(&self) -> BrokerResult<Duration> {
        self.inner.probe().await
    }
    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>> {
        Ok(Box::new(MeddlingPublisher {
            inner: self.inner.publisher().await?,
            hook: self.before_publish.clone(),
        }))
    }
    async fn consumer(&self, queue: &str, prefetch: u16) -> BrokerResult<Box<dyn Consumer>> {
        Ok(Box::new(MeddlingConsumer {
            inner: self.inner.consumer(queue, prefetch).await?,
            acks_lost: Arc::clone(&self.acks_lost),
        }))
    }
    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>> {
        self.inner.depth(queue).await
    }
    async fn declare(&self, topology: &Topology) -> BrokerResult<()> {
        if self.refuses_to_declare {
            return Err(BrokerError::Denied("may not declare".to_owned()));
        }
        self.inner.declare(topology).await
    }
    fn flow(&self) -> Flow {
        self.inner.flow()
    }
    async fn overview(&self) -> BrokerResult<BrokerOverview> {
        self.inner.overview().await
    }
    async fn queues(&self, page: u32, page_size: u32) -> BrokerResult<QueuePage> {
        self.inner.queues(page, page_size).await
    }
    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        self.inner.queue(name).await
    }
    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        self.inner.bindings(exchange).await
    }
    fn user(&self) -> Option<String> {
        self.inner.user()
    }
    fn frame_max(&self) -> u32 {
        self.inner.frame_max()
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

/// True in a process that runs nothing but this test; elsewhere it is run in one, and must pass there. For what is
/// the process's, as a crash point is: `cargo test` runs all tests of a binary in one process.
#[cfg(feature = "drill")]
pub(crate) fn is_alone(module: &str, test: &str) -> bool {
    const ALONE: &str = "REDRIVE_TEST_ALONE";
    let path = module.split_once("::").map_or(module, |(_, path)| path);
    let name = format!("{path}::{test}");
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        return true;
    }
    let program = std::env::current_exe().expect("this very program");
    let run = std::process::Command::new(program)
        .args(["--exact", &name, "--nocapture"])
        .env(ALONE, &name)
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&run.stdout);
    let problems = String::from_utf8_lossy(&run.stderr);
    // A name that no test has passes as well: with nothing run.
    let is_run = told.contains("1 passed");
    assert!(run.status.success() && is_run, "{told}\n{problems}");
    false
}
