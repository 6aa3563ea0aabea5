//! A sandbox of its own for one test: a fresh vhost and four fresh databases on the servers of
//! `tests/run`, and the program with a configuration for them.

use std::fmt::Write as _;
use std::process::Stdio;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use tokio::process::Command;

use super::node::Node;

const SERVICES: [(&str, &str); 4] = [
    ("orders", "orders.results"),
    ("inventory", "inventory.orders"),
    ("payment", "payment.orders"),
    ("notification", "notification.orders"),
];

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this through tests/run"))
}

/// What a run answered.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub json: Value,
    pub stderr: String,
}

impl Answer {
    /// The report of one drill.
    pub fn drill(&self, number: u64) -> &Value {
        self.json["items"]
            .as_array()
            .and_then(|items| items.iter().find(|item| item["number"] == number))
            .unwrap_or_else(|| panic!("no drill {number}: {self:#?}"))
    }

    /// What the drill did, one step a line.
    pub fn steps(&self, number: u64) -> String {
        let steps = self.drill(number)["steps"].as_array().expect("steps");
        let line = |step: &Value| {
            format!(
                "{:8.3} {}",
                step["at_s"].as_f64().unwrap_or(-1.0),
                step["what"]
            )
        };
        steps.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The claims that did not hold, one a line, and the reason.
    pub fn damage(&self, number: u64) -> String {
        let drill = self.drill(number);
        let mut out = drill["reason"].as_str().unwrap_or_default().to_owned();
        for check in drill["checks"].as_array().expect("checks") {
            if check["holds"] == false {
                write!(
                    out,
                    "\n{}: expected {}, found {}",
                    check["claim"], check["expected"], check["found"]
                )
                .expect("a String takes everything");
            }
        }
        out
    }
}

/// Runs the program.
pub async fn redrive(arguments: &[&str], failpoints: &str) -> Answer {
    let home = tempfile::tempdir().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_redrive"))
        .env_clear()
        .env("HOME", home.path())
        .env("USER", "mia")
        .env("PATH", variable("PATH"))
        .env("FAILPOINTS", failpoints)
        .args(["--output", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the binary runs");
    Answer {
        code: out.status.code().unwrap_or(-1),
        json: serde_json::from_slice(&out.stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// A sandbox on real servers.
pub struct Arena {
    name: String,
    folder: tempfile::TempDir,
    amqp: String,
    management: String,
    /// What the drills may do to the broker.
    drill: String,
}

impl Arena {
    pub async fn open() -> Self {
        let (amqp, management) = ("REDRIVE_TEST_AMQP_URL", "REDRIVE_TEST_MANAGEMENT_URL");
        Self::with(variable(amqp), variable(management), String::new()).await
    }

    /// On a broker of the test's own, which drills may control.
    pub async fn on(node: &Node, quorum: bool) -> Self {
        let control = node.variable("REDRIVE_TEST_CONTROL");
        Self::with(
            node.variable("REDRIVE_TEST_AMQP_URL"),
            node.variable("REDRIVE_TEST_MANAGEMENT_URL"),
            format!("[contexts.shop.drill]\ncontrol = [{control:?}]\nquorum = {quorum}\n"),
        )
        .await
    }

    async fn with(amqp: String, management: String, drill: String) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let name = format!("drill_{}", uuid::Uuid::now_v7().simple());
        for (service, _) in SERVICES {
            sql(&format!(
                "CREATE DATABASE {name}_{service} CHARACTER SET utf8mb4"
            ))
            .await;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let arena = Self {
            name,
            folder,
            amqp,
            management,
            drill,
        };
        let user = arena.amqp().username().to_owned();
        arena
            .manage(reqwest::Method::PUT, &["vhosts", &arena.name], "{}")
            .await;
        let rights = r#"{"configure":".*","write":".*","read":".*"}"#;
        arena
            .manage(
                reqwest::Method::PUT,
                &["permissions", &arena.name, &user],
                rights,
            )
            .await;
        std::fs::write(arena.config(), arena.text()).expect("a configuration");
        arena
    }

    fn amqp(&self) -> url::Url {
        url::Url::parse(&self.amqp).expect("a URL")
    }

    async fn manage(&self, method: reqwest::Method, path: &[&str], body: &str) {
        management(&self.management, method, path, body).await;
    }

    fn config(&self) -> std::path::PathBuf {
        self.folder.path().join("redrive.toml")
    }

    fn text(&self) -> String {
        let mut amqp = self.amqp();
        amqp.set_path(&utf8_percent_encode(&self.name, NON_ALPHANUMERIC).to_string());
        let (management, drill) = (&self.management, &self.drill);
        let mariadb = variable("REDRIVE_TEST_MARIADB_URL");
        let mut text = format!(
            "default_context = \"shop\"\n[contexts.shop]\nenvironment = \"sandbox\"\n\
             amqp = \"{amqp}\"\nmanagement = \"{management}\"\n{drill}"
        );
        for (service, queue) in SERVICES {
            let sagas = if service == "orders" {
                "sagas = { layout = \"native\" }\n"
            } else {
                ""
            };
            write!(
                text,
                "[[contexts.shop.services]]\nname = \"{service}\"\n\
                 database = \"{mariadb}/{name}_{service}\"\n\
                 outbox = {{ layout = \"native\", exchange = \"shop.events\" }}\n\
                 inbox = {{ layout = \"native\", consumer = \"{service}\", queue = \"{queue}\" }}\n\
                 dead_letters = {{ layout = \"native\", queues = [\"{queue}.dlq\"] }}\n{sagas}",
                mariadb = mariadb.trim_end_matches('/'),
                name = self.name,
            )
            .expect("a String takes everything");
        }
        text
    }

    /// Runs drills, with guards taken away as `failpoints` says.
    pub async fn drill(&self, drills: &[&str], failpoints: &str) -> Answer {
        let config = self.config();
        let mut arguments = vec!["--config", config.to_str().expect("a path"), "drill", "run"];
        arguments.extend(drills);
        redrive(&arguments, failpoints).await
    }

    pub async fn close(self) {
        for (service, _) in SERVICES {
            sql(&format!("DROP DATABASE {}_{service}", self.name)).await;
        }
        self.manage(reqwest::Method::DELETE, &["vhosts", &self.name], "")
            .await;
    }
}

async fn sql(statement: &str) {
    let options: MySqlConnectOptions = variable("REDRIVE_TEST_MARIADB_URL").parse().expect("a URL");
    let mut connection = options.connect().await.expect("connects");
    connection
        .execute(AssertSqlSafe(statement.to_owned()))
        .await
        .expect("runs");
}

async fn management(server: &str, method: reqwest::Method, path: &[&str], body: &str) {
    let mut url = url::Url::parse(server).expect("a URL");
    let account = (
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
    let answer = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("an HTTP client")
        .request(method, url)
        .basic_auth(account.0, Some(account.1))
        .header("content-type", "application/json")
        .body(body.to_owned())
        .send()
        .await
        .expect("the management API answers");
    assert!(
        answer.status().is_success(),
        "{path:?}: {}",
        answer.status()
    );
}
