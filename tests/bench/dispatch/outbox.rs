//! One service with an outbox, and events of 1 KiB in it, made by the database itself
//! (`INSERT .. SELECT` from its sequence tables): the same rows at every run.

use std::sync::Arc;

use color_eyre::eyre::{Result, WrapErr};
use redrive::assembly::{Options, Services};
use redrive::config::load;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};
use tempfile::TempDir;

use crate::figures::BATCH;
use crate::servers::Servers;

pub const EXCHANGE: &str = "bench.dispatch";
pub const QUEUE: &str = "bench.dispatch.orders";
pub const EVENT_TYPE: &str = "order.created";

/// Rows filled by one statement: keeps the undo log small.
const CHUNK: u64 = 50_000;

/// A database with our tables and a configuration that names it.
pub struct Outbox {
    folder: TempDir,
    pub url: String,
}

impl Outbox {
    /// A fresh database.
    pub async fn create(servers: &Servers, database: &str) -> Result<Self> {
        let mut server = MySqlConnection::connect(&servers.mariadb).await?;
        run(&mut server, &format!("DROP DATABASE IF EXISTS {database}")).await?;
        run(&mut server, &format!("CREATE DATABASE {database}")).await?;
        let url = servers.database(database);
        let folder = tempfile::tempdir()?;
        let config = format!(
            r#"[contexts.bench]
environment = "staging"
amqp = "{amqp}"
management = "{management}"
dispatcher = {{ batch_rows = {BATCH} }}

[[contexts.bench.services]]
name = "orders"
database = "{url}"
outbox = {{ layout = "native", exchange = "{EXCHANGE}" }}
"#,
            amqp = servers.amqp,
            management = servers.management,
        );
        std::fs::write(folder.path().join("redrive.toml"), config)?;
        let outbox = Self { folder, url };
        let services = outbox.services()?;
        services.migrate("orders", true).await?;
        services.close().await;
        Ok(outbox)
    }

    /// Connections of one more process, as it were.
    pub fn services(&self) -> Result<Services> {
        let config = load::load(Some(&self.folder.path().join("redrive.toml")), &|_| None)?;
        let context = Arc::new(config.context(None)?.clone());
        let options = Options {
            actor: "bench@localhost".to_owned(),
            read_only: false,
        };
        Ok(Services::open(context, options)?)
    }

    pub async fn connect(&self) -> Result<MySqlConnection> {
        let mut connection = MySqlConnection::connect(&self.url).await?;
        run(&mut connection, "SET time_zone = '+00:00'").await?;
        Ok(connection)
    }

    /// Due events of 1 KiB, three an aggregate; nothing else.
    pub async fn refill(&self, events: u64) -> Result<()> {
        let mut connection = self.connect().await?;
        run(&mut connection, "TRUNCATE TABLE outbox_events").await?;
        for from in (1..=events).step_by(usize::try_from(CHUNK)?) {
            let to = events.min(from + CHUNK - 1);
            run(
                &mut connection,
                &format!(
                    "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload) \
                     SELECT {id}, CONCAT('order-', seq DIV 3), seq MOD 3 + 1, '{EVENT_TYPE}', \
                     CONCAT('{{\"order_id\":', LPAD(seq, 10, '1'), ',\"note\":\"', REPEAT('x', 991), '\"}}') \
                     FROM seq_{from}_to_{to}",
                    id = uuid("event"),
                ),
            )
            .await?;
        }
        run(&mut connection, "ANALYZE TABLE outbox_events").await
    }

    /// Rows in a state.
    pub async fn count(&self, state: &str) -> Result<u64> {
        let mut connection = self.connect().await?;
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM outbox_events WHERE status = ?")
            .bind(state)
            .fetch_one(&mut connection)
            .await?;
        Ok(u64::try_from(count)?)
    }
}

/// A UUIDv7 whose time grows with `seq`, as a producer makes them; `kind` keeps ids apart.
pub fn uuid(kind: &str) -> String {
    let digest = format!("MD5(CONCAT('{kind}', seq))");
    format!(
        "LOWER(CONCAT(LPAD(HEX(seq), 8, '0'), '-c3f2-7', SUBSTR({digest}, 1, 3), \
         '-9', SUBSTR({digest}, 4, 3), '-', SUBSTR({digest}, 7, 12)))"
    )
}

pub async fn run(connection: &mut MySqlConnection, statement: &str) -> Result<()> {
    sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await
        .wrap_err_with(|| statement.chars().take(60).collect::<String>())?;
    Ok(())
}
