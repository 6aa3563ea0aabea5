//! Three databases and a virtual host of one test, and the reference pipeline's context on them.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive::assembly::{Options, Services};
use redrive::base::secret::SecretUrl;
use redrive::broker::{Delivery, Outgoing, PublishOutcome};
use redrive::config::Context;
use redrive::model::ids::{ConsumerName, EventId, OperationId};
use redrive::model::message::{Message, Payload};
use redrive::model::operation::Operation;
use redrive::operate::Operator;
use redrive::operate::plan::{Confirmation, Request, Target};
use redrive::sandbox::{demo_context, topology};
use redrive::store::Store;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};

/// The consumer that fails, its queue, its DLQ.
pub const CONSUMER: &str = "inventory";
pub const QUEUE: &str = "inventory.orders";
pub const DLQ: &str = "inventory.orders.dlq";

static NEXT: AtomicU32 = AtomicU32::new(0);

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run tests/run, which starts the servers"))
}

/// Everything one test stands on.
pub struct Arena {
    pub services: Services,
    name: String,
    folder: tempfile::TempDir,
}

impl Arena {
    /// Runs a story on servers of its own, cleans up whatever happened, and only then fails.
    pub async fn run<F: Future<Output = ()>>(story: impl FnOnce(Arc<Self>) -> F) {
        let arena = Arc::new(Self::open().await);
        let result = AssertUnwindSafe(story(Arc::clone(&arena)))
            .catch_unwind()
            .await;
        arena.clean().await;
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    }

    async fn open() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let name = format!(
            "acting_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::SeqCst)
        );
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut context = demo_context(folder.path());
        "acting".clone_into(&mut context.name);
        // Messages of the cases are as old as they are.
        context.inbox_retention = None;
        // A console that was killed is known to be dead after three seconds.
        context.thresholds.publish_deadline = Duration::from_secs(1);
        context.thresholds.statement_timeout = Duration::from_secs(1);
        for service in &mut context.services {
            let database = format!("{name}_{}", service.name);
            sql(&format!("CREATE DATABASE {database}")).await;
            service.database = SecretUrl::new(database_url(&database));
        }
        management(reqwest::Method::PUT, &["vhosts", &name], "{}").await;
        let user = url::Url::parse(&variable("REDRIVE_TEST_AMQP_URL")).expect("a URL");
        management(
            reqwest::Method::PUT,
            &["permissions", &name, user.username()],
            r#"{"configure":".*","write":".*","read":".*"}"#,
        )
        .await;
        context.amqp = Some(SecretUrl::new(amqp_url(&name)));
        context.management = Some(SecretUrl::new(variable("REDRIVE_TEST_MANAGEMENT_URL")));
        let arena = Self {
            services: services(&Arc::new(context), "mia@desk"),
            name,
            folder,
        };
        for (_, store) in arena.services.ports.iter() {
            store.migrate(true).await.expect("migrates");
        }
        arena.broker().declare(&topology()).await.expect("declares");
        arena
    }

    /// Another console on the same servers.
    pub fn console(&self, actor: &str) -> Services {
        services(&self.services.ports.context, actor)
    }

    /// A console that is connected to the broker as another user, without the right to impersonate.
    pub async fn console_as_other_user(&self) -> Services {
        let user = format!("{}_ops", self.name);
        let rights = r#"{"configure":"","write":".*","read":".*"}"#;
        let account = r#"{"password":"pw","tags":""}"#;
        management(reqwest::Method::PUT, &["users", &user], account).await;
        management(
            reqwest::Method::PUT,
            &["permissions", &self.name, &user],
            rights,
        )
        .await;
        let mut url = url::Url::parse(&amqp_url(&self.name)).expect("a URL");
        url.set_username(&user).expect("a host");
        url.set_password(Some("pw")).expect("a host");
        let mut context = self.services.ports.context.as_ref().clone();
        context.amqp = Some(SecretUrl::new(url.to_string()));
        services(&Arc::new(context), "relay@ops")
    }

    /// Deletes what [`Arena::console_as_other_user`] made.
    pub async fn delete_other_user(&self) {
        let user = format!("{}_ops", self.name);
        management(reqwest::Method::DELETE, &["users", &user], "").await;
    }

    pub fn operator(&self) -> &Operator {
        &self.services.operator
    }

    pub fn broker(&self) -> &Arc<dyn redrive::broker::Broker> {
        self.services.ports.broker.as_ref().expect("a broker")
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        self.services.ports.store(CONSUMER).expect("a store")
    }

    /// Lets a consumer reject a message into the DLQ and the collector write it down.
    pub async fn dies(&self, message: Message) -> Target {
        let id = message.properties.message_id.clone().expect("an id");
        self.put(QUEUE, message).await;
        let mut consumer = self.broker().consumer(QUEUE, 1).await.expect("subscribes");
        let delivery = consumer.next().await.expect("the message");
        consumer.reject(delivery.tag, false).await.expect("rejects");
        consumer.close().await;
        self.collect().await;
        let consumer = ConsumerName::new(CONSUMER);
        let target = self.operator().resolve(&id, Some(&consumer)).await;
        target.expect("a dead letter")
    }

    /// Passes of the collector until it has something.
    async fn collect(&self) {
        let names = ["collector".to_owned()];
        let workers = self.services.workers(&names, None).expect("workers");
        for mut worker in workers {
            if worker.service() == CONSUMER {
                let mut passes = 0;
                while worker.run_once().await.is_idle {
                    passes += 1;
                    assert!(passes < 200, "the dead letter does not arrive");
                }
            }
            worker.drain().await;
        }
    }

    pub async fn put(&self, queue: &str, message: Message) {
        let publisher = self.broker().publisher().await.expect("publisher");
        let out = Outgoing {
            exchange: String::new(),
            routing_key: queue.to_owned(),
            message,
        };
        let outcomes = publisher.publish(vec![out], Duration::from_secs(5)).await;
        assert_eq!(outcomes, [PublishOutcome::Confirmed]);
    }

    /// Takes `count` messages of a queue, and sees that there are no more.
    pub async fn take(&self, queue: &str, count: usize) -> Vec<Delivery> {
        let mut consumer = self.broker().consumer(queue, 0).await.expect("subscribes");
        let mut taken = Vec::new();
        while taken.len() < count {
            let delivery = consumer.next().await.expect("a message");
            consumer.ack(delivery.tag, false).await.expect("acks");
            taken.push(delivery);
        }
        consumer.close().await;
        let depth = self.broker().depth(queue).await.expect("answers");
        assert_eq!(depth.expect("the queue").ready, 0, "one more in {queue}");
        taken
    }

    /// The consumer's transaction.
    pub async fn processed(&self, message: &Message) {
        let id = EventId::new(message.properties.message_id.clone().expect("an id"));
        let mut tx = self.store().begin().await.expect("begins");
        tx.inbox_insert(&ConsumerName::new(CONSUMER), &id, &message.payload.sha256())
            .await
            .expect("inserts");
        tx.commit().await.expect("commits");
    }

    pub async fn operation(&self, id: &OperationId) -> Operation {
        let operation = self.store().operation(id).await.expect("reads");
        operation.expect("the operation")
    }

    pub async fn assert_chain_verifies(&self) {
        let verified = self.store().audit_verify().await.expect("reads");
        assert!(verified.is_ok(), "{verified:?}");
    }

    /// Deletes a queue as an administrator does.
    pub async fn delete_queue(&self, queue: &str) {
        let path = ["queues", self.name.as_str(), queue];
        management(reqwest::Method::DELETE, &path, "").await;
    }

    /// Runs the binary against this context.
    pub fn redrive(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env_remove("FAILPOINTS")
            .envs(environment.iter().copied());
        command.output().expect("starts")
    }

    fn config(&self) -> PathBuf {
        use std::fmt::Write as _;
        let context = &self.services.ports.context;
        let mut text = format!(
            "default_context = \"acting\"\n[contexts.acting]\nenvironment = \"sandbox\"\namqp = {:?}\nmanagement = {:?}\n\
             [contexts.acting.thresholds]\npublish_deadline = \"1s\"\nstatement_timeout = \"1s\"\n",
            amqp_url(&self.name),
            variable("REDRIVE_TEST_MANAGEMENT_URL"),
        );
        for service in &context.services {
            let inbox = service.inbox.as_ref().expect("an inbox");
            write!(
                text,
                "[[contexts.acting.services]]\nname = {name:?}\ndatabase = {database:?}\n\
                 outbox = {{ layout = \"native\", exchange = \"shop.events\" }}\n\
                 inbox = {{ layout = \"native\", consumer = {name:?}, queue = {queue:?} }}\n\
                 dead_letters = {{ layout = \"native\", queues = [\"{queue}.dlq\"] }}\n",
                name = service.name,
                database = service.database.expose(),
                queue = inbox.queue,
            )
            .expect("a String takes everything");
        }
        let path = self.folder.path().join("redrive.toml");
        std::fs::write(&path, text).expect("writes");
        path
    }

    async fn clean(&self) {
        self.broker().close().await;
        for (_, store) in self.services.ports.iter() {
            store.close().await;
        }
        for service in &self.services.ports.context.services {
            sql(&format!("DROP DATABASE {}_{}", self.name, service.name)).await;
        }
        management(reqwest::Method::DELETE, &["vhosts", &self.name], "").await;
    }
}

fn services(context: &Arc<Context>, actor: &str) -> Services {
    let options = Options {
        actor: actor.to_owned(),
        read_only: false,
    };
    Services::open(Arc::clone(context), options).expect("opens")
}

fn database_url(database: &str) -> String {
    let server = variable("REDRIVE_TEST_MARIADB_URL");
    format!("{}/{database}", server.trim_end_matches('/'))
}

fn amqp_url(vhost: &str) -> String {
    let mut url = url::Url::parse(&variable("REDRIVE_TEST_AMQP_URL")).expect("a URL");
    url.set_path(&utf8_percent_encode(vhost, NON_ALPHANUMERIC).to_string());
    url.to_string()
}

async fn sql(statement: &str) {
    let url = url::Url::parse(&variable("REDRIVE_TEST_MARIADB_URL")).expect("a URL");
    let options: sqlx::mysql::MySqlConnectOptions = url.as_str().parse().expect("a URL");
    let mut connection = options.connect().await.expect("connects");
    connection
        .execute(AssertSqlSafe(statement.to_owned()))
        .await
        .expect("runs");
}

async fn management(method: reqwest::Method, path: &[&str], body: &str) {
    let mut url = url::Url::parse(&variable("REDRIVE_TEST_MANAGEMENT_URL")).expect("a URL");
    let (user, password) = (
        url.username().to_owned(),
        url.password().unwrap_or_default().to_owned(),
    );
    url.set_username("").expect("a host");
    url.set_password(None).expect("a host");
    let path: Vec<_> = path
        .iter()
        .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string())
        .collect();
    url.set_path(&format!("api/{}", path.join("/")));
    let http = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("an HTTP client");
    let answer = http
        .request(method, url)
        .basic_auth(user, Some(password))
        .header("content-type", "application/json")
        .body(body.to_owned())
        .send()
        .await
        .expect("the management API answers");
    assert!(answer.status().is_success(), "{}", answer.status());
}

/// A message as a publisher of ours sends it.
pub fn message(payload: &str) -> Message {
    let mut message = Message {
        payload: Payload::new(payload.as_bytes().to_vec()),
        ..Message::default()
    };
    let properties = &mut message.properties;
    properties.message_id = Some(EventId::generate().to_string());
    properties.kind = Some("order.created".to_owned());
    properties.content_type = Some("application/json".to_owned());
    properties.delivery_mode = Some(2);
    message
}

pub fn replay(target: &Target) -> Request {
    Request::Replay {
        target: target.clone(),
        through_exchange: false,
        to_queue: None,
        overrides: vec![],
    }
}

pub fn because(reason: &str) -> Confirmation {
    Confirmation {
        reason: reason.to_owned(),
        ..Confirmation::default()
    }
}
