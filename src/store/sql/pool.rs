//! The sessions of one database: how many, which are kept, and what is asked before one is used again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions as _, Connection as _, MySql, MySqlPool, SqlitePool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::base::tls;

use super::exec::Session;
use super::fault::{Fault, SqlResult};

/// A pool of one product.
pub enum Pool {
    /// MySQL, MariaDB.
    MySql(Box<MySqlSessions>),
    /// SQLite.
    Sqlite(SqlitePool),
}

/// A session that was kept for longer is asked first whether it is still alive.
const TRUSTED: Duration = Duration::from_secs(3);
/// A session nobody needed for so long goes back to the pool when another is taken; the pool closes it.
const KEPT: Duration = Duration::from_mins(5);

/// Sessions of a MySQL or MariaDB server. Those that come back well are kept beside the pool: the pool
/// asks each that comes back whether it is alive, a round trip and a task more for every statement of
/// a console that nobody touches.
pub struct MySqlSessions {
    pool: MySqlPool,
    options: MySqlConnectOptions,
    /// As many as the pool has sessions. Who has one finds a kept session or room in the pool, and never
    /// waits in the pool for a session that is kept here.
    permits: Arc<Semaphore>,
    /// One first connection at a time.
    gate: tokio::sync::Mutex<()>,
    /// The server's `max_allowed_packet`; 0 until known.
    packet_bytes_max: Arc<AtomicU64>,
    kept: Arc<Kept>,
}

/// A session, and since when it rests.
type Resting = (Instant, PoolConnection<MySql>);

/// Sessions that came back well, the last one on top; `None` once closed.
pub(super) struct Kept(Mutex<Option<Vec<Resting>>>);

impl Kept {
    fn sessions(&self) -> MutexGuard<'_, Option<Vec<Resting>>> {
        // Nothing that can panic runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that came back last.
    fn take(&self) -> Option<Resting> {
        let mut sessions = self.sessions();
        let sessions = sessions.as_mut()?;
        let last = sessions.pop()?;
        sessions.retain(|(since, _)| since.elapsed() < KEPT);
        Some(last)
    }

    /// Keeps a session; one that comes back after the end goes to its pool.
    pub(super) fn put(&self, session: PoolConnection<MySql>) {
        if let Some(sessions) = self.sessions().as_mut() {
            sessions.push((Instant::now(), session));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Going back to a pool takes a runtime, which may be gone.
        for (_, session) in self.sessions().take().into_iter().flatten() {
            drop(session.detach());
        }
    }
}

impl MySqlSessions {
    /// Sessions of `pool`, at most `max`.
    pub fn new(
        pool: MySqlPool,
        options: MySqlConnectOptions,
        max: u32,
        packet_bytes_max: Arc<AtomicU64>,
    ) -> Self {
        Self {
            pool,
            options,
            permits: Arc::new(Semaphore::new(max as usize)),
            gate: tokio::sync::Mutex::new(()),
            packet_bytes_max,
            kept: Arc::new(Kept(Mutex::new(Some(Vec::new())))),
        }
    }

    /// Takes a session, bounded by the pool's acquire timeout.
    async fn session(&self) -> Result<Session, sqlx::Error> {
        let limit = self.pool.options().get_acquire_timeout();
        let permit = tokio::time::timeout(limit, Arc::clone(&self.permits).acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        while let Some((since, mut session)) = self.kept.take() {
            if since.elapsed() < TRUSTED {
                return Ok(self.borrowed(permit, session));
            }
            match tokio::time::timeout(limit, session.ping()).await {
                Ok(Ok(())) => return Ok(self.borrowed(permit, session)),
                // Dead: its socket is closed, and its place in the pool is free.
                Ok(Err(_)) => drop(session.detach()),
                Err(_) => {
                    drop(session.detach());
                    return Err(sqlx::Error::PoolTimedOut);
                }
            }
        }
        Ok(self.borrowed(permit, self.connect().await?))
    }

    fn borrowed(&self, permit: OwnedSemaphorePermit, session: PoolConnection<MySql>) -> Session {
        let packet_bytes_max = self.packet_bytes_max.load(Ordering::Relaxed);
        Session::of_mysql(session, packet_bytes_max, (Arc::clone(&self.kept), permit))
    }

    /// Takes a session of the pool. While that is empty one connection is tried first: the pool itself
    /// would try a refusing server ten times and more before it says so, and then not why.
    async fn connect(&self) -> Result<PoolConnection<MySql>, sqlx::Error> {
        if self.pool.size() == 0 {
            let _one_at_a_time = self.gate.lock().await;
            if self.pool.size() == 0 {
                self.options.connect().await?.close().await?;
            }
        }
        self.pool.acquire().await
    }

    /// A refused handshake, with the server's name and the fix; any other error as it is.
    fn told(&self, error: sqlx::Error) -> Fault {
        if matches!(error, sqlx::Error::Database(_)) {
            return Fault::Sql(error);
        }
        let place = format!("{}:{}", self.options.get_host(), self.options.get_port());
        match tls::explained(&error.to_string(), &place) {
            Some(told) => Fault::Unreachable(told),
            None => Fault::Sql(error),
        }
    }
}

impl Pool {
    /// Takes a session from the pool, connecting if needed; bounded by the pool's acquire timeout.
    pub async fn session(&self) -> SqlResult<Session> {
        match self {
            Self::MySql(sessions) => sessions.session().await.map_err(|e| sessions.told(e)),
            Self::Sqlite(pool) => Ok(Session::of_sqlite(pool.acquire().await?)),
        }
    }

    /// Closes it; waits for sessions to come back.
    pub async fn close(&self) {
        match self {
            Self::MySql(sessions) => {
                drop(sessions.kept.sessions().take());
                sessions.pool.close().await;
            }
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}
