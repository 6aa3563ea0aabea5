//! RabbitMQ: AMQP 0-9-1 by lapin, the management API by HTTP. Making a broker reaches nothing;
//! connections open when first used and again by themselves.
//!
//! Three connections, each opened only when something needs it: publishing, consuming, asking. A
//! refused question or a slow subscription thus never disturbs a publish (B-12), and the management
//! API has no part in any of them (M-10).

mod address;
mod ask;
mod codec;
mod consume;
mod fault;
mod link;
mod management;
mod publish;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::base::crash::CrashPoints;
use crate::base::secret::SecretUrl;
use crate::base::tasks::Tasks;
use crate::broker::{
    Binding, Broker, BrokerError, BrokerOverview, BrokerResult, Consumer, Flow, Publisher,
    QueueDepth, QueueFacts, QueuePage, Topology,
};
use crate::config::ConfigError;

use address::{AmqpAddress, ManagementAddress};
use ask::AskChannel;
use consume::RabbitConsumer;
use link::{Link, Live};
use management::Management;
use publish::RabbitPublisher;

/// How long an exchange that was found is taken to exist: a publish asks only now and then.
const EXCHANGE_KNOWN: Duration = Duration::from_secs(30);
/// Exchanges remembered at most.
const EXCHANGES_MAX: usize = 1024;
/// Frame size RabbitMQ offers unless it was configured otherwise.
const FRAME_MAX_DEFAULT: u32 = 131_072;

/// Bounds of everything that waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Opening a connection.
    pub connect: Duration,
    /// One question, declaration, acknowledgement.
    pub operation: Duration,
    /// One answer of the management API, from request to last byte.
    pub http: Duration,
    /// Messages in flight on one channel.
    pub in_flight_max: usize,
    /// For drills.
    pub crash_points: CrashPoints,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            operation: Duration::from_secs(5),
            http: Duration::from_secs(3),
            // From 256 on, lapin's throughput does not grow any more.
            in_flight_max: 1024,
            crash_points: CrashPoints::new(false),
        }
    }
}

/// A RabbitMQ virtual host.
pub struct RabbitBroker {
    name: String,
    vhost: String,
    amqp: Option<Amqp>,
    management: Option<Management>,
    tasks: Tasks,
    limits: Limits,
}

/// What the message port needs.
struct Amqp {
    user: Option<String>,
    frame_max: u32,
    publishing: Arc<Publishing>,
    consuming: Link,
    asking: Link,
    ask: AskChannel,
}

/// The publishing connection and what is known of its exchanges.
struct Publishing {
    link: Link,
    ask: AskChannel,
    /// The connection's account, unless the broker decides that (EXTERNAL).
    user: Option<String>,
    known: Mutex<HashMap<String, Instant>>,
}

impl RabbitBroker {
    /// Checks both URLs; reaches nothing. Without `amqp` only the management API answers, for virtual
    /// host `/`; without `management` only what AMQP can tell.
    ///
    /// # Errors
    /// A URL that cannot be used. Its text is not in the error: it may hold a password.
    #[expect(
        clippy::new_ret_no_self,
        reason = "callers know brokers by the port only"
    )]
    pub fn new(
        amqp: Option<&SecretUrl>,
        management: Option<&SecretUrl>,
        limits: Limits,
    ) -> Result<Arc<dyn Broker>, ConfigError> {
        install_crypto();
        let tasks = Tasks::new();
        let connect_ms = u64::try_from(limits.connect.as_millis()).unwrap_or(u64::MAX);
        let address = amqp
            .map(|url| AmqpAddress::parse(url, connect_ms))
            .transpose()?;
        let vhost = address
            .as_ref()
            .map_or_else(|| "/".to_owned(), |address| address.uri.vhost.clone());
        let management = management
            .map(|url| Management::new(ManagementAddress::parse(url)?, &vhost, limits.http))
            .transpose()?;
        let place = match (&address, &management) {
            (Some(address), _) => address.place(),
            (None, Some(management)) => management.place(),
            (None, None) => "no broker".to_owned(),
        };
        Ok(Arc::new(Self {
            name: format!("{place} vhost {vhost}"),
            vhost,
            amqp: address.map(|address| Amqp::new(&address, limits, &tasks)),
            management,
            tasks,
            limits,
        }))
    }

    fn amqp(&self) -> BrokerResult<&Amqp> {
        self.amqp.as_ref().ok_or_else(|| {
            BrokerError::NotConfigured("no amqp URL is configured for this context".to_owned())
        })
    }

    fn management(&self) -> BrokerResult<&Management> {
        self.management.as_ref().ok_or_else(|| {
            BrokerError::NotConfigured(
                "no management URL is configured for this context".to_owned(),
            )
        })
    }
}

impl Amqp {
    fn new(address: &AmqpAddress, limits: Limits, tasks: &Tasks) -> Self {
        let user = address.known_user();
        let link = |purpose| Link::new(purpose, address.uri.clone(), limits, tasks.clone());
        Self {
            frame_max: address.uri.query.frame_max.unwrap_or(FRAME_MAX_DEFAULT),
            publishing: Arc::new(Publishing {
                link: link("publish"),
                ask: AskChannel::default(),
                user: user.clone(),
                known: Mutex::default(),
            }),
            consuming: link("consume"),
            asking: link("ask"),
            ask: AskChannel::default(),
            user,
        }
    }
}

impl Publishing {
    /// True when the exchange exists, as far as it was asked for lately.
    async fn has_exchange(&self, live: &Live, name: &str, until: Instant) -> BrokerResult<bool> {
        if name.is_empty() {
            return Ok(true);
        }
        let now = Instant::now();
        let is_known = self
            .known()
            .get(name)
            .is_some_and(|asked| now.saturating_duration_since(*asked) < EXCHANGE_KNOWN);
        if is_known {
            return Ok(true);
        }
        let is_there = self.ask.has_exchange(live, name, until).await?;
        if is_there {
            let mut known = self.known();
            if known.len() >= EXCHANGES_MAX {
                known.clear();
            }
            known.insert(name.to_owned(), now);
        }
        Ok(is_there)
    }

    fn forget_exchange(&self, name: &str) {
        self.known().remove(name);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Broker for RabbitBroker {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn probe(&self) -> BrokerResult<Duration> {
        let amqp = self.amqp()?;
        let until = Instant::now() + self.limits.operation;
        let live = amqp.asking.get(until).await?;
        let began = Instant::now();
        // Every virtual host has it; asking is one round trip.
        amqp.ask.has_exchange(&live, "amq.direct", until).await?;
        Ok(began.elapsed())
    }

    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>> {
        let amqp = self.amqp()?;
        let until = Instant::now() + self.limits.operation;
        amqp.publishing.link.get(until).await?;
        Ok(Box::new(RabbitPublisher::new(
            Arc::clone(&amqp.publishing),
            self.tasks.clone(),
            self.limits,
        )))
    }

    async fn consumer(&self, queue: &str, prefetch: u16) -> BrokerResult<Box<dyn Consumer>> {
        let link = &self.amqp()?.consuming;
        let consumer = RabbitConsumer::open(link, queue, prefetch, self.limits.operation);
        Ok(Box::new(consumer.await?))
    }

    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>> {
        let amqp = self.amqp()?;
        ask::depth(&amqp.asking, &amqp.ask, queue, self.limits.operation).await
    }

    async fn declare(&self, topology: &Topology) -> BrokerResult<()> {
        // Many small questions: a queue of a cluster takes longer than one answer.
        let limit = self.limits.operation * 4;
        ask::declare(&self.amqp()?.asking, topology, limit).await
    }

    fn flow(&self) -> Flow {
        self.amqp
            .as_ref()
            .map_or(Flow::Unknown, |amqp| amqp.publishing.link.flow())
    }

    async fn overview(&self) -> BrokerResult<BrokerOverview> {
        self.management()?.overview().await
    }

    async fn queues(&self, page: u32, page_size: u32) -> BrokerResult<QueuePage> {
        self.management()?.queues(page, page_size).await
    }

    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        self.management()?.queue(name).await
    }

    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        self.management()?.bindings(exchange).await
    }

    fn user(&self) -> Option<String> {
        self.amqp.as_ref()?.user.clone()
    }

    fn frame_max(&self) -> u32 {
        self.amqp.as_ref().map_or(0, |amqp| {
            amqp.publishing
                .link
                .live()
                .map_or(amqp.frame_max, |live| live.frame_max())
        })
    }

    async fn close(&self) {
        if let Some(amqp) = &self.amqp {
            tokio::join!(
                amqp.consuming.close(),
                amqp.asking.close(),
                amqp.publishing.link.close()
            );
        }
        if !self.tasks.stop(self.limits.operation).await {
            tracing::debug!(vhost = self.vhost, "a publish was still running at close");
        }
    }
}

/// TLS of both clients uses ring. Somebody else may have chosen before: theirs stands.
fn install_crypto() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[cfg(test)]
mod tests;
