//! A script against a real broker: the sandbox's services on SQLite and RabbitMQ, its workers in a
//! process of their own, every answer by exit code.

use std::process::{Child, Stdio};

use redrive::assembly::{Options, Services};
use redrive::config::load::load;
use serde_json::Value;

use crate::{Home, Run};

const CONFIG: &str = r#"
[contexts.box]
environment = "sandbox"
amqp = "{amqp}"
management = "{management}"
thresholds = { proof_deadline = "25s" }
[[contexts.box.services]]
name = "orders"
database = "sqlite:{dir}/orders.db"
outbox = { exchange = "shop.events" }
inbox = { consumer = "orders", queue = "orders.results" }
dead_letters = { queues = ["orders.results.dlq"] }
sagas = {}
[[contexts.box.services]]
name = "inventory"
database = "sqlite:{dir}/inventory.db"
outbox = { exchange = "shop.events" }
inbox = { consumer = "inventory", queue = "inventory.orders" }
dead_letters = { queues = ["inventory.orders.dlq"] }
[[contexts.box.services]]
name = "payment"
database = "sqlite:{dir}/payment.db"
outbox = { exchange = "shop.events" }
inbox = { consumer = "payment", queue = "payment.orders" }
dead_letters = { queues = ["payment.orders.dlq"] }
[[contexts.box.services]]
name = "notification"
database = "sqlite:{dir}/notification.db"
outbox = { exchange = "shop.events" }
inbox = { consumer = "notification", queue = "notification.orders" }
dead_letters = { queues = ["notification.orders.dlq"] }
"#;

/// A virtual host that goes with the test.
struct Vhost {
    name: String,
    runtime: tokio::runtime::Runtime,
}

fn variable(name: &str) -> url::Url {
    let text = std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run tests/run, which starts the servers"));
    url::Url::parse(&text).expect("a URL")
}

impl Vhost {
    fn create() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let vhost = Self {
            name: format!("redrive-cli-{}", std::process::id()),
            runtime: tokio::runtime::Runtime::new().expect("runtime"),
        };
        vhost.send(reqwest::Method::PUT, &["vhosts", &vhost.name], "{}");
        let management = variable("REDRIVE_TEST_MANAGEMENT_URL");
        let permissions = r#"{"configure":".*","write":".*","read":".*"}"#;
        let path = ["permissions", &vhost.name, management.username()];
        vhost.send(reqwest::Method::PUT, &path, permissions);
        vhost
    }

    fn send(&self, method: reqwest::Method, path: &[&str], body: &str) {
        let management = variable("REDRIVE_TEST_MANAGEMENT_URL");
        let mut url = management.clone();
        url.set_path(&format!("api/{}", path.join("/")));
        url.set_username("").expect("a host");
        url.set_password(None).expect("a host");
        self.runtime.block_on(async {
            let client = reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("a client");
            let response = client
                .request(method, url)
                .basic_auth(management.username(), management.password())
                .body(body.to_owned())
                .send()
                .await
                .expect("the management API answers");
            assert!(response.status().is_success(), "{}", response.status());
        });
    }

    /// A home with the sandbox on this virtual host, prepared with its past.
    fn home(&self) -> Home {
        let mut amqp = variable("REDRIVE_TEST_AMQP_URL");
        amqp.set_path(&self.name);
        let management = variable("REDRIVE_TEST_MANAGEMENT_URL");
        let config = CONFIG
            .replace("{amqp}", amqp.as_str())
            .replace("{management}", management.as_str());
        let home = Home::with_config(&config);
        self.runtime.block_on(async {
            let config = load(Some(&home.path("redrive.toml")), &|_| None).expect("valid");
            let context = config.context(None).expect("one").clone();
            let services = Services::open(context.into(), Options::default()).expect("opens");
            redrive::sandbox::prepare(&services.ports)
                .await
                .expect("prepared");
            services.close().await;
        });
        home
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        self.send(reqwest::Method::DELETE, &["vhosts", &self.name], "");
    }
}

/// The workers in a process of their own, ended with the test.
struct Workers(Child);

impl Workers {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["worker"]);
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts"),
        )
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ends");
    }
}

/// An open dead letter of inventory by its class.
fn dead(home: &Home, class: &str) -> Value {
    let run = home
        .run(&["dead", "--service", "inventory", "-o", "json", "--all"])
        .exits(0);
    let json = run.json();
    let letters = json["items"].as_array().expect("list");
    let found = letters.iter().find(|letter| {
        letter["error_class"]
            .as_str()
            .is_some_and(|c| c.contains(class))
            && letter["replay_allowed"] == true
            && letter["replays"] == 0
    });
    found
        .unwrap_or_else(|| panic!("no letter of class {class}"))
        .clone()
}

fn replay(home: &Home, id: &str) -> Run {
    home.run(&[
        "replay",
        id,
        "--consumer",
        "inventory",
        "--reason",
        "sku made optional in 4.2.1",
        "--apply",
        "--yes",
        "--wait",
        "30s",
        "-o",
        "json",
    ])
}

#[test]
fn a_script_replays_repairs_and_proves_on_a_real_broker() {
    let vhost = Vhost::create();
    let home = vhost.home();
    let _workers = Workers::start(&home);

    // Consumed: the rollout can read it now.
    let letter = dead(&home, "missing field");
    let id = letter["event_id"].as_str().expect("id");
    let plan = home
        .run(&["replay", id, "--consumer", "inventory"])
        .exits(0);
    assert!(
        plan.stdout.contains("nothing was changed"),
        "{}",
        plan.stdout
    );
    let applied = replay(&home, id).exits(0).json();
    assert_eq!(applied["items"][0]["state"], "consumed");
    assert_eq!(applied["items"][0]["event_id"], id);

    // x_09: twice is refused, and nothing is sent.
    let again = replay(&home, id);
    assert!(
        again.code == 4 || again.code == 2,
        "{}{}",
        again.stdout,
        again.stderr
    );

    // It dies again: nobody made the sku known.
    let letter = dead(&home, "unknown sku");
    let id = letter["event_id"].as_str().expect("id");
    let died = replay(&home, id).exits(3).json();
    assert_eq!(died["items"][0]["state"], "died_again");

    // A repair with another sku is applied, and its new event is consumed.
    let shown = home
        .run(&["dead", "show", id, "-o", "json"])
        .exits(0)
        .json();
    let payload = shown["items"][0]["detail"]["message"]["payload"]["data"]
        .as_str()
        .expect("text");
    home.write("payload.json", &payload.replace("SKU-404", "SKU-TEA"));
    let repaired = home
        .run(&[
            "repair",
            id,
            "--consumer",
            "inventory",
            "--payload-file",
            "payload.json",
            "--reason",
            "wrong sku",
            "--apply",
            "--yes",
            "-o",
            "json",
        ])
        .exits(0)
        .json();
    assert_eq!(repaired["items"][0]["state"], "applied");
    let new = repaired["items"][0]["new_event_id"]
        .as_str()
        .expect("new event");
    assert_ne!(new, id);

    let operations = home.run(&["operations", "-o", "json"]).exits(0).json();
    assert!(operations["items"].as_array().expect("list").len() >= 3);
    home.run(&["audit", "verify"]).exits(0);
}
