//! Pools and what every session is set to: UTC, strict mode, utf8mb4, short lock waits, READ
//! COMMITTED for writing, read-only with a statement limit for looking. Opening reaches nothing.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};

use crate::base::secret::SecretUrl;
use crate::config::ConfigError;

use super::dialect::Dialect;
use super::pool::{MySqlSessions, Pool};
use super::version::{Product, Server};

/// Sessions that look: enough for three feeds at once, few enough not to be noticed.
const READ_SESSIONS: u32 = 3;
/// Sessions that write: a consumer's lanes hold one each while they work (at most 6), and two are left to
/// the other workers. Two claimers saturate two cores (perf.md section 3).
const WRITE_SESSIONS: u32 = 8;

/// The pools of one database.
pub struct Pools {
    /// The dialect of the URL.
    pub dialect: Dialect,
    /// Read-only sessions.
    pub read: Pool,
    /// Writing sessions; absent for a read-only store (invariant 9).
    pub write: Option<Pool>,
    /// The server, known from the first session on.
    pub server: Arc<OnceLock<Server>>,
    /// Deleted with the store: the folder behind `sqlite::memory:`.
    _temporary: Option<tempfile::TempDir>,
}

/// Opens lazily.
///
/// # Errors
/// A [`ConfigError`] for a URL no driver takes; it never repeats the URL.
pub fn open(
    service: &str,
    url: &SecretUrl,
    statement_timeout: Duration,
    read_only: bool,
) -> Result<Pools, ConfigError> {
    let fail = |problem: &str, fix: &str| ConfigError {
        origin: format!("service {service}"),
        key: "database".to_owned(),
        problem: problem.to_owned(),
        fix: fix.to_owned(),
    };
    match url.scheme() {
        "mysql" | "mariadb" => {
            let options = MySqlConnectOptions::from_str(url.expose()).map_err(|_| {
                fail(
                    "is not a usable URL",
                    "write mysql://user:password@host:3306/database, special characters of user and password percent-encoded",
                )
            })?;
            Ok(open_mysql(options, statement_timeout, read_only))
        }
        "sqlite" => open_sqlite(url.expose(), statement_timeout, read_only).map_err(|problem| {
            fail(
                &problem,
                "write sqlite:/path/to/file.db, or sqlite::memory: for a database that is gone afterwards",
            )
        }),
        other => Err(fail(
            &format!("has the scheme `{other}`, which no database driver takes"),
            "use mysql:// (MySQL, MariaDB) or sqlite:",
        )),
    }
}

fn open_mysql(options: MySqlConnectOptions, statement_timeout: Duration, read_only: bool) -> Pools {
    let options = options
        .charset("utf8mb4")
        .timezone(Some("+00:00".to_owned()))
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .disable_statement_logging();
    let server = Arc::new(OnceLock::new());
    let packet_bytes_max = Arc::new(AtomicU64::new(0));
    let pool = |max: u32, is_reader: bool| {
        let server = Arc::clone(&server);
        let packet = Arc::clone(&packet_bytes_max);
        let pool = MySqlPoolOptions::new()
            .max_connections(max)
            .min_connections(0)
            .acquire_timeout(statement_timeout)
            .idle_timeout(Duration::from_mins(5))
            .after_connect(move |connection, _| {
                let (server, packet) = (Arc::clone(&server), Arc::clone(&packet));
                Box::pin(async move {
                    set_up_mysql(connection, &server, &packet, statement_timeout, is_reader).await
                })
            })
            .connect_lazy_with(options.clone());
        let packet = Arc::clone(&packet_bytes_max);
        Pool::MySql(Box::new(MySqlSessions::new(
            pool,
            options.clone(),
            max,
            packet,
        )))
    };
    Pools {
        dialect: Dialect::MySql,
        read: pool(READ_SESSIONS, true),
        write: (!read_only).then(|| pool(WRITE_SESSIONS, false)),
        server,
        _temporary: None,
    }
}

async fn set_up_mysql(
    connection: &mut MySqlConnection,
    server: &OnceLock<Server>,
    packet_bytes_max: &AtomicU64,
    statement_timeout: Duration,
    is_reader: bool,
) -> Result<(), sqlx::Error> {
    let row = connection
        .fetch_one("SELECT VERSION(), CAST(@@max_allowed_packet AS SIGNED)")
        .await?;
    let version: String = row.try_get_unchecked(0)?;
    let packet: i64 = row.try_get_unchecked(1)?;
    packet_bytes_max.store(u64::try_from(packet).unwrap_or(0), Ordering::Relaxed);
    let found = Server::parse_mysql(&version).unwrap_or(Server {
        product: Product::MySql,
        version: (0, 0, 0),
        shown: format!("unknown server {version:.40}"),
    });
    // A named time zone may not be loaded, so the offset is written. The strict mode is ours:
    // a server without it would cut payloads in silence (P-07).
    connection
        .execute(
            "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,\
             NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
             innodb_lock_wait_timeout = 2, lock_wait_timeout = 5",
        )
        .await?;
    connection
        .execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .await?;
    if is_reader {
        connection
            .execute("SET SESSION TRANSACTION READ ONLY")
            .await?;
        let limit = match found.product {
            Product::MariaDb => format!(
                "SET SESSION max_statement_time = {:.3}",
                statement_timeout.as_secs_f64()
            ),
            Product::MySql | Product::Sqlite => format!(
                "SET SESSION max_execution_time = {}",
                statement_timeout.as_millis().max(1)
            ),
        };
        connection.execute(sqlx::AssertSqlSafe(limit)).await?;
    }
    // The first session wins; a server does not change under a pool without closing its sessions.
    server.get_or_init(|| found);
    Ok(())
}

fn open_sqlite(url: &str, statement_timeout: Duration, read_only: bool) -> Result<Pools, String> {
    let path = url
        .strip_prefix("sqlite:")
        .unwrap_or(url)
        .trim_start_matches("//");
    let (file, temporary) = if path.starts_with(":memory:") || path.is_empty() {
        let directory =
            tempfile::tempdir().map_err(|e| format!("needs a temporary directory: {e}"))?;
        (directory.path().join("redrive.db"), Some(directory))
    } else {
        (PathBuf::from(path), None)
    };
    let server = Arc::new(OnceLock::new());
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(!read_only)
        .busy_timeout(statement_timeout.min(Duration::from_secs(5)))
        .foreign_keys(false)
        .disable_statement_logging();
    let options = if read_only {
        options.read_only(true)
    } else {
        // NORMAL under WAL survives a killed process, not a power cut.
        options
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
    };
    let pool = |max: u32, is_reader: bool| {
        let server = Arc::clone(&server);
        let pool = SqlitePoolOptions::new()
            .max_connections(max)
            .min_connections(0)
            .acquire_timeout(statement_timeout)
            .after_connect(move |connection, _| {
                let server = Arc::clone(&server);
                Box::pin(async move {
                    let version: String = connection
                        .fetch_one("SELECT sqlite_version()")
                        .await?
                        .try_get(0)?;
                    if is_reader {
                        connection.execute("PRAGMA query_only = 1").await?;
                    }
                    if let Some(found) = Server::parse_sqlite(&version) {
                        server.get_or_init(|| found);
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(options.clone());
        Pool::Sqlite(pool)
    };
    Ok(Pools {
        dialect: Dialect::Sqlite,
        read: pool(READ_SESSIONS, true),
        // SQLite has one writer at a time: one session queues here instead of failing there.
        write: (!read_only).then(|| pool(1, false)),
        server,
        _temporary: temporary,
    })
}
