//! A broker of its own for one test: a fresh virtual host, or a fresh embedded broker.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive::base::secret::SecretUrl;
use redrive::broker::embedded::EmbeddedBroker;
use redrive::broker::rabbitmq::{Limits, RabbitBroker};
use redrive::broker::{Broker, Consumer, Delivery, NewQueue, Outgoing, PublishOutcome, Topology};
use redrive::model::message::{Message, Payload, Properties};
use tokio::io::AsyncWriteExt;
use url::Url;

/// Longest wait for a fact that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A broker for one test.
pub struct Arena {
    broker: Arc<dyn Broker>,
    vhost: Option<Vhost>,
}

impl Arena {
    /// An embedded broker.
    pub fn embedded() -> Self {
        Self {
            broker: EmbeddedBroker::new("contract"),
            vhost: None,
        }
    }

    /// A virtual host of the test server.
    pub async fn rabbitmq(test: &str) -> Self {
        let vhost = Vhost::create(&format!("redrive {test} {}", std::process::id())).await;
        Self {
            broker: vhost.broker(),
            vhost: Some(vhost),
        }
    }

    /// Runs a case, cleans up whatever happened, and only then fails.
    pub async fn run<F: Future<Output = ()>>(self, case: impl FnOnce(Arc<dyn Broker>) -> F) {
        let result = AssertUnwindSafe(case(Arc::clone(&self.broker)))
            .catch_unwind()
            .await;
        self.broker.close().await;
        if let Some(vhost) = self.vhost {
            vhost.delete().await;
        }
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A virtual host and the ways to reach it.
pub struct Vhost {
    pub name: String,
    http: reqwest::Client,
    management: Url,
    amqp: Url,
}

impl Vhost {
    /// Creates it, with all rights for the test user.
    pub async fn create(name: &str) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let management = Url::parse(&variable("REDRIVE_TEST_MANAGEMENT_URL")).expect("a URL");
        let amqp = Url::parse(&variable("REDRIVE_TEST_AMQP_URL")).expect("a URL");
        let http = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("an HTTP client");
        let vhost = Self {
            name: name.to_owned(),
            http,
            management,
            amqp,
        };
        let user = vhost.amqp.username().to_owned();
        vhost.put(&["vhosts", name], "{}").await;
        vhost.permit(&user, ".*").await;
        vhost
    }

    /// A broker connected as the test user.
    pub fn broker(&self) -> Arc<dyn Broker> {
        RabbitBroker::new(
            Some(&self.amqp_url(None)),
            Some(&SecretUrl::new(self.management.to_string())),
            Limits::default(),
        )
        .expect("valid URLs")
    }

    /// A broker connected as somebody else.
    pub fn broker_as(&self, user: &str, password: &str) -> Arc<dyn Broker> {
        RabbitBroker::new(
            Some(&self.amqp_url(Some((user, password)))),
            None,
            Limits::default(),
        )
        .expect("valid URLs")
    }

    /// A broker reached through another port of this machine, with a heartbeat of a second.
    pub fn broker_through(&self, port: u16, limits: Limits) -> Arc<dyn Broker> {
        let mut url = self.amqp.clone();
        url.set_path(&encoded(&self.name));
        url.set_port(Some(port)).expect("a host");
        url.set_query(Some("heartbeat=1"));
        RabbitBroker::new(Some(&SecretUrl::new(url.to_string())), None, limits).expect("valid URL")
    }

    /// Host and port of the message port.
    pub fn address(&self) -> (String, u16) {
        let host = self.amqp.host_str().expect("a host").to_owned();
        (host, self.amqp.port().unwrap_or(5672))
    }

    fn amqp_url(&self, account: Option<(&str, &str)>) -> SecretUrl {
        let mut url = self.amqp.clone();
        url.set_path(&encoded(&self.name));
        if let Some((user, password)) = account {
            url.set_username(user).expect("a host");
            url.set_password(Some(password)).expect("a host");
        }
        SecretUrl::new(url.to_string())
    }

    /// Lets `user` do everything but write to exchanges and queues that `write` does not match.
    pub async fn permit(&self, user: &str, write: &str) {
        let body = serde_json::json!({ "configure": ".*", "write": write, "read": ".*" });
        self.put(&["permissions", &self.name, user], &body.to_string())
            .await;
    }

    /// PUTs an object of the management API.
    pub async fn put(&self, path: &[&str], body: &str) {
        let request = self.http.put(self.url(path)).body(body.to_owned());
        self.send(request).await;
    }

    /// Deletes an object of the management API.
    pub async fn remove(&self, path: &[&str]) {
        self.send(self.http.delete(self.url(path))).await;
    }

    /// Deletes the virtual host with everything in it.
    pub async fn delete(self) {
        self.remove(&["vhosts", &self.name]).await;
    }

    async fn send(&self, request: reqwest::RequestBuilder) {
        let response = request
            .basic_auth(self.management.username(), self.management.password())
            .send()
            .await
            .expect("the management API answers");
        let status = response.status();
        let body = response.text().await.unwrap_or_default();
        assert!(status.is_success(), "{status}: {body}");
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.management.clone();
        let path: Vec<String> = path.iter().map(|part| encoded(part)).collect();
        url.set_path(&format!("api/{}", path.join("/")));
        url.set_username("").expect("a host");
        url.set_password(None).expect("a host");
        url
    }

    /// Publishes with a client in another language; every message must be confirmed.
    pub async fn publish_with_python(&self, messages: &serde_json::Value) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/publish.py");
        let mut child = tokio::process::Command::new(variable("REDRIVE_TEST_PYTHON"))
            .args([script, self.amqp_url(None).expose()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut input = child.stdin.take().expect("piped");
        input
            .write_all(messages.to_string().as_bytes())
            .await
            .expect("taken");
        drop(input);
        let output = child.wait_with_output().await.expect("python ends");
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Runs the broker's own tool.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        let output = tokio::process::Command::new(variable("REDRIVE_TEST_RABBITMQ_CTL"))
            .args(arguments)
            .output()
            .await
            .expect("rabbitmqctl starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "rabbitmqctl {arguments:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A variable `tests/run` sets. A missing server is a failure, never a silent skip.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run tests/run"))
}

/// A queue without anything special.
pub fn queue(name: &str) -> NewQueue {
    NewQueue {
        name: name.to_owned(),
        ..NewQueue::default()
    }
}

/// Declares queues and exchanges.
pub async fn declare(broker: &Arc<dyn Broker>, exchanges: &[&str], queues: Vec<NewQueue>) {
    let topology = Topology {
        exchanges: exchanges.iter().map(|&name| name.to_owned()).collect(),
        queues,
    };
    broker.declare(&topology).await.expect("declared");
}

/// A persistent message with an id.
pub fn message(exchange: &str, routing_key: &str, id: &str) -> Outgoing {
    Outgoing {
        exchange: exchange.to_owned(),
        routing_key: routing_key.to_owned(),
        message: Message {
            properties: Properties {
                message_id: Some(id.to_owned()),
                delivery_mode: Some(2),
                ..Properties::default()
            },
            payload: Payload::new(id.as_bytes()),
        },
    }
}

/// Publishes and waits for the outcomes.
pub async fn publish(broker: &Arc<dyn Broker>, messages: Vec<Outgoing>) -> Vec<PublishOutcome> {
    let publisher = broker.publisher().await.expect("a publisher");
    publisher.publish(messages, PATIENCE).await
}

/// Publishes messages that must all be confirmed.
pub async fn confirmed(broker: &Arc<dyn Broker>, messages: Vec<Outgoing>) {
    let outcomes = publish(broker, messages).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| *outcome == PublishOutcome::Confirmed),
        "{outcomes:?}"
    );
}

/// A subscription.
pub async fn consume(broker: &Arc<dyn Broker>, queue: &str, prefetch: u16) -> Box<dyn Consumer> {
    broker
        .consumer(queue, prefetch)
        .await
        .expect("a subscription")
}

/// The next message, which must come.
pub async fn next(consumer: &mut Box<dyn Consumer>) -> Delivery {
    tokio::time::timeout(PATIENCE, consumer.next())
        .await
        .expect("a message comes")
        .expect("the subscription lives")
}

/// Takes `count` messages, acknowledges them, and gives their ids in order.
pub async fn take(broker: &Arc<dyn Broker>, queue: &str, count: usize) -> Vec<String> {
    let mut consumer = consume(broker, queue, 500).await;
    let mut ids = Vec::new();
    let mut last = 0;
    while ids.len() < count {
        let delivery = next(&mut consumer).await;
        last = delivery.tag;
        ids.push(delivery.message.properties.message_id.unwrap_or_default());
        if ids.len().is_multiple_of(250) {
            consumer.ack(last, true).await.expect("acknowledged");
        }
    }
    if count > 0 && !count.is_multiple_of(250) {
        consumer.ack(last, true).await.expect("acknowledged");
    }
    consumer.close().await;
    ids
}

/// Asks until the broker has counted `ready` messages.
pub async fn ready(broker: &Arc<dyn Broker>, queue: &str, ready: u64) {
    let waiting = async {
        loop {
            let depth = broker.depth(queue).await.expect("a depth").expect("exists");
            if depth.ready == ready {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("{queue} never had {ready} messages"));
}
