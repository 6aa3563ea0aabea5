//! A RabbitMQ node that belongs to one test, which may starve or kill it. It ends with the test.

use std::collections::HashMap;
use std::process::Stdio;

use redrive::base::secret::SecretUrl;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::arena::variable;

/// Printed by the child when the servers are up.
const READY: &str = "redrive-node-ready";

/// The node; its servers stop when the child's standard input closes.
pub struct Node {
    child: Child,
    variables: HashMap<String, String>,
}

impl Node {
    /// Starts a node with `tests/run`, beside the servers all tests share.
    pub async fn start() -> Self {
        let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run");
        let command = format!("env | grep ^REDRIVE_TEST_; echo {READY}; exec cat");
        let mut child = Command::new(run)
            .args(["--servers-only", "sh", "-c", &command])
            // Only the broker is wanted: the database is the shared one.
            .env(
                "REDRIVE_TEST_MARIADB_URL",
                variable("REDRIVE_TEST_MARIADB_URL"),
            )
            .env_remove("REDRIVE_TEST_AMQP_URL")
            .env_remove("REDRIVE_TEST_MANAGEMENT_URL")
            .env_remove("REDRIVE_TEST_RABBITMQ_CTL")
            .env_remove("REDRIVE_TEST_ENV_FILE")
            .env_remove("REDRIVE_TEST_WITH_MYSQL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(false)
            .spawn()
            .expect("tests/run starts");
        let output = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let mut variables = HashMap::new();
        while let Some(line) = lines.next_line().await.expect("text") {
            if line == READY {
                return Self { child, variables };
            }
            if let Some((name, value)) = line.split_once('=') {
                variables.insert(name.to_owned(), value.to_owned());
            }
        }
        panic!("tests/run --servers-only ended before its broker was ready");
    }

    /// Its AMQP URL.
    pub fn amqp(&self) -> SecretUrl {
        SecretUrl::new(self.variable("REDRIVE_TEST_AMQP_URL"))
    }

    /// Its management URL.
    pub fn management(&self) -> SecretUrl {
        SecretUrl::new(self.variable("REDRIVE_TEST_MANAGEMENT_URL"))
    }

    /// Runs its own tool.
    pub async fn ctl(&self, arguments: &[&str]) {
        let status = Command::new(self.variable("REDRIVE_TEST_RABBITMQ_CTL"))
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .await
            .expect("rabbitmqctl starts");
        assert!(status.success(), "rabbitmqctl {arguments:?}");
    }

    /// Stops it and waits until it is gone.
    pub async fn stop(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().await.expect("tests/run ends");
    }

    fn variable(&self, name: &str) -> String {
        self.variables
            .get(name)
            .unwrap_or_else(|| panic!("tests/run gave no {name}"))
            .clone()
    }
}
