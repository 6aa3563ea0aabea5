//! Servers that belong to one test, which may starve, kill and restart them: `tests/run` starts them
//! beside the ones all tests share, and they end with the test.

use std::collections::HashMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Printed by the child when the servers are up.
const READY: &str = "redrive-node-ready";
/// The only node, or the first of a cluster.
pub const FIRST: &str = "rabbitmq-1";
/// The database server.
pub const DATABASE: &str = "mariadb";

/// What a test wants for itself.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// RabbitMQ nodes, in one cluster.
    pub nodes: usize,
    /// A MariaDB too; else the shared one is used.
    pub database: bool,
    /// Servers that speak TLS as well, under an authority of their own.
    pub tls: bool,
    /// More lines for `rabbitmq.conf`.
    pub conf: &'a str,
}

impl Wanted<'static> {
    /// One plain node.
    pub const NODE: Self = Self {
        nodes: 1,
        database: false,
        tls: false,
        conf: "",
    };
}

/// The servers; they stop when the child's standard input closes.
pub struct Node {
    child: Child,
    variables: HashMap<String, String>,
}

impl Node {
    /// One plain node.
    pub async fn start() -> Self {
        Self::start_with(Wanted::NODE).await
    }

    /// What is wanted.
    pub async fn start_with(wanted: Wanted<'_>) -> Self {
        let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run");
        let script = format!("env | grep ^REDRIVE_TEST_; echo {READY}; exec cat");
        let mut command = Command::new(run);
        command
            .args(["--servers-only", "sh", "-c", &script])
            .env("REDRIVE_TEST_CLUSTER", wanted.nodes.to_string())
            .env("REDRIVE_TEST_WITH_TLS", u8::from(wanted.tls).to_string())
            .env("REDRIVE_TEST_RABBITMQ_CONF", wanted.conf);
        for others in [
            "AMQP_URL",
            "MANAGEMENT_URL",
            "RABBITMQ_CTL",
            "CONTROL",
            "AMQPS_URL",
            "HTTPS_URL",
            "CA",
            "ENV_FILE",
            "WITH_MYSQL",
        ] {
            command.env_remove(format!("REDRIVE_TEST_{others}"));
        }
        if wanted.database {
            command.env_remove("REDRIVE_TEST_MARIADB_URL");
        }
        let mut child = command
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
        panic!("tests/run --servers-only ended before its servers were ready");
    }

    /// Runs the first node's own tool and gives what it printed.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        self.control(&[&["ctl", FIRST, "--quiet"], arguments].concat())
            .await
    }

    /// `kill -9`; returns when they are gone.
    pub async fn kill(&self, servers: &[&str]) {
        self.control(&[&["kill"], servers].concat()).await;
    }

    /// Starts what was killed, on the same data and ports; returns when all are ready.
    pub async fn restart(&self, servers: &[&str]) {
        self.control(&[&["start"], servers].concat()).await;
    }

    /// Runs `tests/servers/control.sh` on these servers.
    pub async fn control(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.variable("REDRIVE_TEST_CONTROL"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .await
            .expect("the control program starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "control {arguments:?}: {told}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// What `tests/run` says about these servers.
    pub fn variable(&self, name: &str) -> String {
        self.variables
            .get(name)
            .unwrap_or_else(|| panic!("tests/run gave no {name}"))
            .clone()
    }

    /// Stops them and waits until they are gone.
    pub async fn stop(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().await.expect("tests/run ends");
    }
}
