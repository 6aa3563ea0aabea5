//! What redrive asks of a message broker: destinations, records, confirmations, positions and
//! backlog (design invariant 12). AMQP words stay in `rabbitmq`; they arrive here as typed facts.
//!
//! `rabbitmq` and `embedded` pass the same suite in `contract`.

pub mod deaths;
pub mod embedded;
pub mod rabbitmq;
pub mod topic;
pub mod wire;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::model::message::Message;

/// Why a broker did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// Not reachable, or the connection broke.
    #[error("broker is not reachable: {0}")]
    Unavailable(String),
    /// No answer in time.
    #[error("{operation} did not answer within {after:?}")]
    TimedOut {
        /// What was asked.
        operation: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// Queue or exchange does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The account may not do that, or its credentials are wrong: says which (M-06).
    #[error("{0}")]
    Denied(String),
    /// Nothing is configured to answer this.
    #[error("{0}")]
    NotConfigured(String),
    /// The other side is not what it should be, e.g. HTML instead of the management API.
    #[error("{0}")]
    Protocol(String),
}

impl BrokerError {
    /// True when the same call may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TimedOut { .. })
    }
}

/// Result of a broker call.
pub type BrokerResult<T> = Result<T, BrokerError>;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// `""` is the default exchange: the routing key names the queue.
    pub exchange: String,
    /// Routing key.
    pub routing_key: String,
    /// Properties and bytes.
    pub message: Message,
}

/// What became of one published message. Nothing is ever guessed (B-01, B-03, B-04).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "detail")]
pub enum PublishOutcome {
    /// Stored and routed to at least one queue.
    Confirmed,
    /// No queue took it: the broker's code and words, e.g. `312 NO_ROUTE`.
    Returned(String),
    /// The broker refused it (queue full, limit, quorum lost).
    Nacked,
    /// Certainly not sent, and the message is to blame: too large for a frame (H-10), exchange not
    /// found (B-03), user-id (H-01), not permitted, …: sending it again changes nothing.
    Refused(String),
    /// Certainly not sent, and the message is not to blame: no connection, an alarm (B-06), no time left.
    Unsent(String),
    /// No confirm before the deadline or the connection: it may or may not be stored.
    Unknown(String),
}

/// Whether the broker takes messages now (B-06).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "flow", content = "reason")]
pub enum Flow {
    /// It does.
    Open,
    /// It said it will not read for now, and why.
    Blocked(String),
    /// Not connected.
    Unknown,
}

/// Publishes with confirms, many at a time. Survives a closed channel and a lost connection: the
/// next call reconnects; messages of the broken call come back as `Unknown`, never invented.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Publishes all (pipelined, persistent as the messages say, mandatory) and waits for their
    /// confirms at most `deadline`. One outcome a message, in order. Never fails as a whole: a broker
    /// that cannot be reached yields `Unsent` for what was certainly not sent, else `Unknown`.
    async fn publish(&self, messages: Vec<Outgoing>, deadline: Duration) -> Vec<PublishOutcome>;
    /// Whether the broker takes messages now.
    fn flow(&self) -> Flow;
}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Acknowledge with this, on the consumer that gave it.
    pub tag: u64,
    /// Delivered before.
    pub is_redelivered: bool,
    /// Exchange it was published to.
    pub exchange: String,
    /// Routing key it was published with.
    pub routing_key: String,
    /// Properties and bytes.
    pub message: Message,
}

/// A subscription to one queue. When its channel or connection is lost, [`Consumer::next`] returns
/// the error once; the caller opens a new one (with backoff). Tags of a lost one are worthless: the
/// messages come again (B-07, B-14).
#[async_trait]
pub trait Consumer: Send {
    /// The next message; waits for ever.
    ///
    /// # Cancel safety
    /// Cancel safe: a message that was not returned is still in order for the next call.
    async fn next(&mut self) -> BrokerResult<Delivery>;
    /// Acknowledges one, or all up to it.
    async fn ack(&mut self, tag: u64, up_to: bool) -> BrokerResult<()>;
    /// Refuses one: back to the queue, or on to where the queue dead-letters.
    async fn reject(&mut self, tag: u64, requeue: bool) -> BrokerResult<()>;
    /// Ends the subscription; unacknowledged messages go back.
    async fn close(self: Box<Self>);
}

/// What a queue answers for itself, at once and exactly (passive declare).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueDepth {
    /// Messages ready for delivery.
    pub ready: u64,
    /// Consumers.
    pub consumers: u64,
}

/// Queue facts from the management API. `None` = not told, which is not zero (M-01, M-02).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueFacts {
    /// Name as the broker spells it.
    pub name: String,
    /// `classic`, `quorum`, `stream`, or what a newer broker says (M-09).
    pub kind: Option<String>,
    /// `running`, `idle`, `flow`, `down`, … as it is.
    pub state: Option<String>,
    /// Survives a restart.
    pub is_durable: Option<bool>,
    /// Ready.
    pub ready: Option<u64>,
    /// Delivered, not acknowledged.
    pub unacked: Option<u64>,
    /// Bytes of both.
    pub bytes: Option<u64>,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Published a second.
    pub rate_in: Option<f64>,
    /// Delivered (and got) a second.
    pub rate_out: Option<f64>,
    /// Acknowledged a second.
    pub rate_ack: Option<f64>,
    /// Redelivered a second.
    pub rate_redelivered: Option<f64>,
    /// Seconds since the head message's own timestamp; needs a broker that tells it.
    pub head_age_s: Option<f64>,
    /// Members of a quorum queue.
    pub members: Option<Vec<String>>,
    /// Members that are online.
    pub members_online: Option<Vec<String>>,
    /// Exchange it dead-letters to, by argument or policy; `Some("")` is the default exchange.
    pub dead_letter_exchange: Option<String>,
    /// Routing key it dead-letters with.
    pub dead_letter_routing_key: Option<String>,
    /// Policy in force.
    pub policy: Option<String>,
    /// Per-delivery limit, by argument or policy.
    pub delivery_limit: Option<i64>,
}

/// A page of queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueuePage {
    /// Queues by name.
    pub queues: Vec<QueueFacts>,
    /// All there are, if told.
    pub total: Option<u64>,
    /// True when statistics are switched off on the broker (M-03).
    pub statistics_off: bool,
}

/// A broker node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeFacts {
    /// Name.
    pub name: String,
    /// Up.
    pub is_running: Option<bool>,
    /// Memory alarm.
    pub memory_alarm: Option<bool>,
    /// Disk alarm.
    pub disk_alarm: Option<bool>,
}

/// The broker as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BrokerOverview {
    /// e.g. `RabbitMQ 3.10.8`.
    pub product: String,
    /// Nodes; `None` when the account may not see them (M-06), with the reason in `nodes_problem`.
    pub nodes: Option<Vec<NodeFacts>>,
    /// Why nodes are not known.
    pub nodes_problem: Option<String>,
    /// Round trip in microseconds.
    pub latency_us: u64,
}

/// What an exchange is bound to: for the blast radius of a publish through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// Exchange.
    pub source: String,
    /// Queue (or exchange).
    pub destination: String,
    /// True when the destination is a queue.
    pub is_to_queue: bool,
    /// Binding key.
    pub routing_key: String,
}

/// A queue to be declared by the sandbox or a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewQueue {
    /// Name.
    pub name: String,
    /// Replicated, with a delivery limit.
    pub is_quorum: bool,
    /// Where it dead-letters to: exchange and routing key.
    pub dead_letter: Option<(String, String)>,
    /// Delivery limit (quorum).
    pub delivery_limit: Option<i64>,
    /// Messages it keeps at most; more are refused (`reject-publish`).
    pub max_length: Option<i64>,
    /// Milliseconds a message lives in it.
    pub message_ttl_ms: Option<i64>,
    /// Exchange and binding keys.
    pub bindings: Vec<(String, String)>,
}

/// What to declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Durable topic exchanges.
    pub exchanges: Vec<String>,
    /// Durable queues.
    pub queues: Vec<NewQueue>,
}

/// A message broker. Cheap to clone behind an `Arc`; connects when first used and again by itself.
#[async_trait]
pub trait Broker: Send + Sync {
    /// The virtual host or name it stands for, for screens and errors (N-03).
    fn name(&self) -> String;
    /// Reaches the broker on its message port; round trip.
    async fn probe(&self) -> BrokerResult<Duration>;
    /// A publisher with its own channel.
    async fn publisher(&self) -> BrokerResult<Box<dyn Publisher>>;
    /// A subscription with its own channel and prefetch.
    async fn consumer(&self, queue: &str, prefetch: u16) -> BrokerResult<Box<dyn Consumer>>;
    /// Depth of one queue; `None` when it does not exist. Uses a connection of its own, so that a
    /// refused question disturbs no publish (B-12).
    async fn depth(&self, queue: &str) -> BrokerResult<Option<QueueDepth>>;
    /// Declares exchanges, queues and bindings.
    async fn declare(&self, topology: &Topology) -> BrokerResult<()>;
    /// Whether the broker takes messages now, as far as an open connection tells.
    fn flow(&self) -> Flow;

    /// Version and nodes, by the management API.
    async fn overview(&self) -> BrokerResult<BrokerOverview>;
    /// A page of queues (from 1), by name.
    async fn queues(&self, page: u32, page_size: u32) -> BrokerResult<QueuePage>;
    /// One queue, by the management API.
    async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>>;
    /// Bindings from one exchange.
    async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>>;
    /// User name publishes are made under (a message with another user-id is refused, H-01).
    fn user(&self) -> Option<String>;
    /// Largest frame the connection may carry, for the header size check (H-10); 0 = no limit.
    fn frame_max(&self) -> u32;
    /// Closes connections.
    async fn close(&self);
}
