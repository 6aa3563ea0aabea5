//! A team's pipeline that knows nothing of redrive: two databases, a broker, a publisher in Python,
//! and a consumer that rejects what it cannot read.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapin::Confirmation;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, BasicRejectOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, MySqlPool, Row};
use tokio::io::AsyncWriteExt as _;

use super::node::Node;
use super::redrive::Console;

/// Longest wait for a fact that must come.
pub const PATIENCE: Duration = Duration::from_mins(1);
pub const QUEUE: &str = "inventory.orders";
pub const DLQ: &str = "inventory.orders.dlq";
pub const SANDBOX: &str = "shop";
pub const PRODUCTION: &str = "shop-prod";
pub const OTHER_QUEUE: &str = "audit.orders";

/// One event of the shop.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: String,
    pub key: String,
    pub version: i64,
    pub encoding: &'static str,
    pub body: Vec<u8>,
}

impl Event {
    /// An order; without a sku the consumer of today cannot read it.
    pub fn order(number: i64, has_sku: bool) -> Self {
        let sku = if has_sku { r#","sku":"A-1""# } else { "" };
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            key: (8_800 + number).to_string(),
            version: 1,
            encoding: "identity",
            body: format!(r#"{{"order_id":4634343214213523454,"total":1.10{sku}}}"#).into_bytes(),
        }
    }
}

/// What the consumer saw of one delivery.
#[derive(Clone, Debug)]
pub struct Seen {
    pub properties: BasicProperties,
    pub body: Vec<u8>,
    pub exchange: String,
    pub is_accepted: bool,
}

impl Seen {
    pub fn message_id(&self) -> &str {
        self.properties
            .message_id()
            .as_ref()
            .map_or("", lapin::types::ShortString::as_str)
    }

    pub fn headers(&self) -> FieldTable {
        self.properties.headers().clone().unwrap_or_default()
    }
}

/// Where a shop's servers are; without database and virtual host.
#[derive(Clone, Debug)]
pub struct Servers {
    pub mariadb: String,
    pub amqp: String,
    pub management: String,
}

impl Servers {
    /// The servers all tests share.
    pub fn shared() -> Self {
        Self {
            mariadb: server("REDRIVE_TEST_MARIADB_URL"),
            amqp: server("REDRIVE_TEST_AMQP_URL"),
            management: server("REDRIVE_TEST_MANAGEMENT_URL"),
        }
    }

    /// A test's own servers.
    pub fn of(node: &Node) -> Self {
        Self {
            mariadb: node.variable("REDRIVE_TEST_MARIADB_URL"),
            amqp: node.variable("REDRIVE_TEST_AMQP_URL"),
            management: node.variable("REDRIVE_TEST_MANAGEMENT_URL"),
        }
    }
}

/// The pipeline.
pub struct Shop {
    pub orders: MySqlPool,
    pub inventory: MySqlPool,
    pub console: Console,
    pub config: PathBuf,
    pub vhost: String,
    pub servers: Servers,
    pub amqp_url: String,
    channel: Channel,
    connection: Connection,
    folder: tempfile::TempDir,
}

pub fn server(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this through tests/run"))
}

pub async fn python(arguments: &[&str], input: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/shop.py");
    let mut child = tokio::process::Command::new(server("REDRIVE_TEST_PYTHON"))
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(input.as_bytes())
        .await
        .expect("input is taken");
    drop(stdin);
    let out = child.wait_with_output().await.expect("python ends");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "shop.py {arguments:?}: {stderr}");
}

impl Shop {
    /// Opens a shop of its own for one story, native tables in both databases.
    pub async fn open(story: &str) -> Self {
        Self::open_on(story, Servers::shared()).await
    }

    /// The same on other servers.
    pub async fn open_on(story: &str, servers: Servers) -> Self {
        let suffix = format!("{story}_{}", uuid::Uuid::now_v7().simple());
        let mariadb = servers.mariadb.clone();
        let database = |service: &str| format!("{service}_{}", &suffix[..suffix.len().min(50)]);
        let vhost = format!("story/{suffix}");
        let amqp = servers.amqp.trim_end_matches("%2f").trim_end_matches('/');
        python(&["declare", amqp, &servers.management, &vhost], "").await;
        let amqp_url = format!("{amqp}/{}", vhost.replace('/', "%2f"));
        let (connection, channel) = connect(&amqp_url).await;
        let orders = create(&mariadb, &database("orders")).await;
        let inventory = create(&mariadb, &database("inventory")).await;
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("redrive.toml");
        let text = config_text(
            &amqp_url,
            &servers,
            &database("orders"),
            &database("inventory"),
        );
        std::fs::write(&config, text).expect("a configuration");
        let console = Console::new(config.clone(), folder.path());
        for service in ["orders", "inventory"] {
            console
                .run(&["migrate", "--service", service, "--apply"])
                .await;
        }
        // The business effect: no unique key, so that a second effect would be seen.
        sqlx::query(
            "CREATE TABLE effects (event_id VARCHAR(64) NOT NULL, at DATETIME(6) NOT NULL)",
        )
        .execute(&inventory)
        .await
        .expect("a business table");
        Self {
            orders,
            inventory,
            console,
            config,
            vhost,
            servers,
            amqp_url,
            channel,
            connection,
            folder,
        }
    }

    /// Another connection, after the broker was away.
    pub async fn reconnect(&mut self) {
        (self.connection, self.channel) = connect(&self.amqp_url).await;
    }

    /// A channel on a connection of its own.
    pub async fn channel(&self) -> (Connection, Channel) {
        connect(&self.amqp_url).await
    }

    /// The consumer's queue again, as a classic one that keeps what is persistent.
    pub async fn make_queue_classic(&self) {
        self.delete_queue(QUEUE).await;
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let mut arguments = FieldTable::default();
        let exchange = AMQPValue::LongString("shop.dead".into());
        arguments.insert("x-dead-letter-exchange".into(), exchange);
        self.channel
            .queue_declare(QUEUE.into(), durable, arguments)
            .await
            .expect("declared");
    }

    /// Opens a shop with dead letters of these events in its table; what the consumer saw of them.
    pub async fn with_dead_letters(story: &str, events: &[Event]) -> (Self, Vec<Seen>) {
        let shop = Self::open(story).await;
        shop.publish(events).await;
        let seen = shop.consume_at_least(events.len(), false).await;
        let died = seen.iter().filter(|seen| !seen.is_accepted).count();
        shop.collect(died).await;
        (shop, seen)
    }

    /// Writes the events to the outbox as sent, and publishes them as the shop does.
    pub async fn publish(&self, events: &[Event]) {
        let mut lines = String::new();
        for event in events {
            sqlx::query(
                "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type,
                 payload, status, attempts, sent_at) VALUES (?, ?, ?, 'order.created', ?, 'sent', 1, NOW(6))",
            )
            .bind(&event.id)
            .bind(&event.key)
            .bind(event.version)
            .bind(String::from_utf8_lossy(&event.body).as_ref())
            .execute(&self.orders)
            .await
            .expect("an outbox row");
            lines.push_str(&Self::line(event));
        }
        self.publish_lines(&lines).await;
    }

    /// Publishes without a row in the outbox.
    pub async fn publish_again(&self, event: &Event) {
        self.publish_lines(&Self::line(event)).await;
    }

    fn line(event: &Event) -> String {
        let line = serde_json::json!({
            "id": event.id, "type": "order.created", "key": event.key, "version": event.version,
            "encoding": event.encoding, "body": STANDARD.encode(&event.body),
        });
        format!("{line}\n")
    }

    async fn publish_lines(&self, lines: &str) {
        python(&["publish", &self.amqp_url], lines).await;
    }

    /// Puts messages into a queue with these properties, each confirmed.
    pub async fn put(&self, queue: &str, messages: &[(BasicProperties, &[u8])]) {
        self.channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .expect("confirms");
        for (properties, body) in messages {
            let options = BasicPublishOptions {
                mandatory: true,
                ..BasicPublishOptions::default()
            };
            let confirm = self
                .channel
                .basic_publish("".into(), queue.into(), options, body, properties.clone())
                .await
                .expect("published")
                .await
                .expect("an outcome");
            assert!(
                matches!(confirm, Confirmation::Ack(None)),
                "routed and confirmed: {confirm:?}"
            );
        }
    }

    /// A number of the inventory's database.
    pub async fn count(&self, statement: &'static str) -> i64 {
        let row = sqlx::query(statement).fetch_one(&self.inventory).await;
        row.expect("a row").get(0)
    }

    /// Name of the inventory's database.
    pub fn database(&self) -> String {
        let options = self.inventory.connect_options();
        options.get_database().unwrap_or_default().to_owned()
    }

    /// Changes the inventory's database.
    pub async fn change(&self, statement: &'static str) {
        sqlx::query(statement)
            .execute(&self.inventory)
            .await
            .expect("changed");
    }

    /// Consumes until the queue is empty. Without a sku an event is rejected, unless `is_fixed`.
    pub async fn consume(&self, is_fixed: bool) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(message) = self.get(QUEUE).await {
            let delivery = message.delivery;
            let is_accepted = is_fixed || delivery.data.windows(5).any(|part| part == b"\"sku\"");
            let properties = delivery.properties.clone();
            if is_accepted {
                let id = properties.message_id().as_ref().expect("an id").to_string();
                take_effect(&self.inventory, &id, &delivery.data).await;
                delivery
                    .acker
                    .ack(BasicAckOptions::default())
                    .await
                    .expect("an ack");
            } else {
                let reject = BasicRejectOptions { requeue: false };
                delivery.acker.reject(reject).await.expect("a rejection");
            }
            seen.push(Seen {
                properties,
                body: delivery.data,
                exchange: delivery.exchange.to_string(),
                is_accepted,
            });
        }
        seen
    }

    /// Takes everything that is ready in a queue, and acknowledges it.
    pub async fn take(&self, queue: &str) -> Vec<Seen> {
        let mut taken = Vec::new();
        while let Some(message) = self.get(queue).await {
            let delivery = message.delivery;
            let acked = delivery.acker.ack(BasicAckOptions::default()).await;
            acked.expect("an ack");
            taken.push(Seen {
                properties: delivery.properties.clone(),
                body: delivery.data,
                exchange: delivery.exchange.to_string(),
                is_accepted: true,
            });
        }
        taken
    }

    async fn get(&self, queue: &str) -> Option<lapin::message::BasicGetMessage> {
        self.channel
            .basic_get(queue.into(), BasicGetOptions::default())
            .await
            .expect("a queue that can be read")
    }

    /// Waits for messages to arrive and consumes them.
    pub async fn consume_at_least(&self, n: usize, is_fixed: bool) -> Vec<Seen> {
        self.arrives(QUEUE, n).await;
        self.consume(is_fixed).await
    }

    /// Messages ready in a queue.
    pub async fn depth(&self, queue: &str) -> usize {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let declared = self
            .channel
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await
            .expect("a queue that is there");
        usize::try_from(declared.message_count()).expect("a small number")
    }

    /// Waits until a queue holds exactly `n` messages.
    pub async fn arrives(&self, queue: &str, n: usize) {
        until(&format!("{n} in {queue}"), || async move {
            self.depth(queue).await == n
        })
        .await;
    }

    pub async fn delete_queue(&self, queue: &str) {
        self.channel
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await
            .expect("deleted");
    }

    /// Lets the collector take `n` dead letters.
    pub async fn collect(&self, n: usize) {
        self.arrives(DLQ, n).await;
        until(&format!("{n} collected"), || async {
            self.console.run(&["worker", "collector", "--once"]).await;
            self.depth(DLQ).await == 0
        })
        .await;
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How often an event took effect.
    pub async fn effects(&self, event: &Event) -> i64 {
        self.number("SELECT COUNT(*) FROM effects WHERE event_id = ?", &event.id)
            .await
    }

    async fn number(&self, statement: &'static str, id: &str) -> i64 {
        let row = sqlx::query(statement)
            .bind(id)
            .fetch_one(&self.inventory)
            .await;
        row.expect("a row").get(0)
    }

    /// Status of an event's dead letter.
    pub async fn status(&self, event: &Event) -> String {
        let statement = "SELECT CAST(status AS CHAR) FROM dead_letters WHERE event_id = ?";
        let row = sqlx::query(statement)
            .bind(&event.id)
            .fetch_one(&self.inventory)
            .await;
        row.expect("a dead letter").get(0)
    }

    /// Removes what the story made on the shared servers.
    pub async fn close(self) {
        drop(self.connection.close(200, "OK".into()).await);
        for pool in [&self.orders, &self.inventory] {
            let options = pool.connect_options();
            let name = options.get_database().unwrap_or_default();
            let drop = format!("DROP DATABASE `{name}`");
            sqlx::query(AssertSqlSafe(drop))
                .execute(pool)
                .await
                .expect("dropped");
            pool.close().await;
        }
        python(&["remove", &self.servers.management, &self.vhost], "").await;
        self.folder.close().expect("removed");
    }
}

/// Inbox row and effect in one transaction: the second delivery of an event changes nothing.
pub async fn take_effect(inventory: &MySqlPool, event_id: &str, body: &[u8]) {
    let mut tx = inventory.begin().await.expect("begins");
    let inserted = sqlx::query(
        "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at)
         VALUES ('inventory', ?, ?, NOW(6))",
    )
    .bind(event_id)
    .bind(redrive::base::digest::sha256_hex(body))
    .execute(&mut *tx)
    .await;
    match inserted {
        Ok(_) => {
            sqlx::query("INSERT INTO effects VALUES (?, NOW(6))")
                .bind(event_id)
                .execute(&mut *tx)
                .await
                .expect("an effect");
            tx.commit().await.expect("commits");
        }
        Err(error)
            if error
                .as_database_error()
                .is_some_and(sqlx::error::DatabaseError::is_unique_violation) =>
        {
            tx.rollback().await.expect("rolls back");
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits for a fact, looking again every 50 ms.
pub async fn until<F: Future<Output = bool>>(what: &str, fact: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let looking = async {
        while !fact().await {
            ticks.tick().await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, looking).await;
    assert!(in_time.is_ok(), "{what}: not within {PATIENCE:?}");
}

pub async fn create(server: &str, database: &str) -> MySqlPool {
    let connect = |url: String| async move {
        MySqlPoolOptions::new()
            .max_connections(2)
            .connect(&url)
            .await
    };
    let admin = connect(server.to_owned())
        .await
        .expect("the database server is there");
    let statement = format!("CREATE DATABASE `{database}` CHARACTER SET utf8mb4");
    sqlx::query(AssertSqlSafe(statement))
        .execute(&admin)
        .await
        .expect("created");
    admin.close().await;
    connect(format!("{server}/{database}"))
        .await
        .expect("connects")
}

async fn connect(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default())
        .await
        .expect("the broker is there");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

/// Two contexts on the same servers: one to play with, and one as careful as production.
fn config_text(amqp: &str, servers: &Servers, orders: &str, inventory: &str) -> String {
    let Servers {
        mariadb,
        management,
        ..
    } = servers;
    let context = |name: &str, rules: &str| {
        format!(
            r#"
[contexts.{name}]
{rules}
amqp = "{amqp}"
management = "{management}"
[contexts.{name}.thresholds]
# A reservation outlives publish_deadline + 8 statement_timeouts: short, so that stories end.
publish_deadline = "3s"
statement_timeout = "500ms"
[[contexts.{name}.services]]
name = "orders"
database = "{mariadb}/{orders}"
outbox = {{ layout = "native", exchange = "shop.events" }}
[[contexts.{name}.services]]
name = "inventory"
database = "{mariadb}/{inventory}"
inbox = {{ layout = "native", consumer = "inventory", queue = "{QUEUE}" }}
outbox = {{ layout = "native", exchange = "shop.events" }}
dead_letters = {{ layout = "native", queues = ["{DLQ}"] }}
"#
        )
    };
    [
        "default_context = \"shop\"".to_owned(),
        context(SANDBOX, "environment = \"sandbox\""),
        context(
            PRODUCTION,
            "environment = \"production\"\nticket_pattern = \"OPS-####\"",
        ),
    ]
    .concat()
}
