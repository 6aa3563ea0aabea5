//! A vhost and four databases of the soak's own, and the configuration of its processes.

use std::fmt::Write as _;
use std::path::PathBuf;

use color_eyre::eyre::{Result, WrapErr, ensure, eyre};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive::assembly::{Options, Services};
use redrive::config::load;
use redrive::sandbox;
use sqlx::{AssertSqlSafe, Connection, Executor as _, MySqlConnection};

use super::Addresses;

/// Services with the queue each reads.
pub const SERVICES: [(&str, &str); 4] = [
    ("orders", "orders.results"),
    ("inventory", "inventory.orders"),
    ("payment", "payment.orders"),
    ("notification", "notification.orders"),
];
/// What is ordered.
pub const SKU: &str = "SKU-SOAK";
const STOCK: &str = "INSERT INTO stock (sku, on_hand, reserved) VALUES (?, 1000000000, 0)";

pub struct Arena {
    name: String,
    mariadb: String,
    amqp: String,
    management: String,
    folder: tempfile::TempDir,
}

impl Arena {
    pub async fn open(addresses: &Addresses) -> Result<Self> {
        drop(rustls::crypto::ring::default_provider().install_default());
        let name = format!("soak_{}", uuid::Uuid::now_v7().simple());
        let mut amqp = url::Url::parse(&addresses.amqp)?;
        let user = amqp.username().to_owned();
        amqp.set_path(&encoded(&name));
        let arena = Self {
            mariadb: addresses.mariadb.trim_end_matches('/').to_owned(),
            amqp: amqp.to_string(),
            management: addresses.management.clone(),
            folder: tempfile::tempdir()?,
            name,
        };
        for (service, _) in SERVICES {
            let database = arena.database(service);
            arena
                .sql(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"))
                .await?;
        }
        arena
            .manage(reqwest::Method::PUT, &["vhosts", &arena.name], "{}")
            .await?;
        let rights = r#"{"configure":".*","write":".*","read":".*"}"#;
        arena
            .manage(
                reqwest::Method::PUT,
                &["permissions", &arena.name, &user],
                rights,
            )
            .await?;
        std::fs::write(arena.config(), arena.text())?;
        Ok(arena)
    }

    pub fn database(&self, service: &str) -> String {
        format!("{}_{service}", self.name)
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("redrive.toml")
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A session on the server; tables are named with their database.
    pub async fn connect(&self) -> Result<MySqlConnection> {
        MySqlConnection::connect(&self.mariadb)
            .await
            .wrap_err("the database server")
    }

    async fn sql(&self, statement: &str) -> Result<()> {
        let mut session = self.connect().await?;
        session.execute(AssertSqlSafe(statement.to_owned())).await?;
        session.close().await?;
        Ok(())
    }

    /// Tables, queues and stock, as the sandbox makes them.
    pub async fn prepare(&self) -> Result<()> {
        let config = load::load(Some(&self.config()), &|_| None)?;
        let context = std::sync::Arc::new(config.context(None)?.clone());
        let options = Options {
            actor: "soak@localhost".to_owned(),
            read_only: false,
        };
        let services = Services::open(context, options)?;
        let prepared = sandbox::prepare_bare(&services.ports, false).await;
        services.close().await;
        prepared.map_err(|error| eyre!(error))?;
        let stock = STOCK.replace("stock", &format!("{}.stock", self.database("inventory")));
        let mut session = self.connect().await?;
        sqlx::query(AssertSqlSafe(stock))
            .bind(SKU)
            .execute(&mut session)
            .await?;
        session.close().await?;
        Ok(())
    }

    fn text(&self) -> String {
        let (amqp, management) = (&self.amqp, &self.management);
        // A claim that nobody completes comes back after eight seconds.
        let mut text = format!(
            r#"default_context = "soak"
[contexts.soak]
environment = "sandbox"
amqp = "{amqp}"
management = "{management}"
[contexts.soak.thresholds]
statement_timeout = "2500ms"
[contexts.soak.dispatcher]
batch_rows = 200
lease = "8s"
send_deadline = "2s"
attempts_max = 100
backoff_base = "100ms"
backoff_cap = "2s"
idle = "50ms"
reap_every = "500ms"
[contexts.soak.consumer]
prefetch = 100
lanes = 6
retry_delays = ["500ms", "1s", "2s", "4s", "8s"]
"#
        );
        for (service, queue) in SERVICES {
            let database = format!("{}/{}", self.mariadb, self.database(service));
            let sagas = if service == "orders" {
                "sagas = { layout = \"native\" }"
            } else {
                ""
            };
            let part = format!(
                r#"
[[contexts.soak.services]]
name = "{service}"
database = "{database}"
outbox = {{ layout = "native", exchange = "shop.events" }}
inbox = {{ layout = "native", consumer = "{service}", queue = "{queue}" }}
dead_letters = {{ layout = "native", queues = ["{queue}.dlq"] }}
{sagas}
"#
            );
            text.push_str(&part);
        }
        text
    }

    async fn manage(&self, method: reqwest::Method, path: &[&str], body: &str) -> Result<()> {
        let mut url = url::Url::parse(&self.management)?;
        let account = (
            url.username().to_owned(),
            url.password().unwrap_or_default().to_owned(),
        );
        let no_host = |()| eyre!("the management URL has no host");
        url.set_username("").map_err(no_host)?;
        url.set_password(None).map_err(no_host)?;
        let mut whole = "api".to_owned();
        for part in path {
            write!(whole, "/{}", encoded(part))?;
        }
        url.set_path(&whole);
        let answer = reqwest::Client::builder()
            .no_proxy()
            .build()?
            .request(method, url)
            .basic_auth(account.0, Some(account.1))
            .header("content-type", "application/json")
            .body(body.to_owned())
            .send()
            .await?;
        ensure!(answer.status().is_success(), "{whole}: {}", answer.status());
        Ok(())
    }

    pub async fn close(self) -> Result<()> {
        for (service, _) in SERVICES {
            self.sql(&format!("DROP DATABASE {}", self.database(service)))
                .await?;
        }
        self.manage(reqwest::Method::DELETE, &["vhosts", &self.name], "")
            .await
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
