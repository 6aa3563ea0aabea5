//! Rows read, as the database counts them: the sum of its `Handler_read_*` counters.

use color_eyre::eyre::{Result, WrapErr};
use sqlx::{Connection, MySqlConnection, Row};

/// Reads the counters of all sessions on a connection of its own.
pub struct Counters {
    connection: MySqlConnection,
    /// What looking at the counters adds to them.
    own_cost: u64,
}

impl Counters {
    pub async fn open(url: &str) -> Result<Self> {
        let connection = MySqlConnection::connect(url).await.wrap_err("counters")?;
        let mut counters = Self {
            connection,
            own_cost: 0,
        };
        // The first reads prepare the statement; after them each costs the same.
        let mut totals = [0; 4];
        for total in &mut totals {
            *total = counters.total().await?;
        }
        counters.own_cost = totals[3] - totals[2];
        Ok(counters)
    }

    /// What `work` gives, and the rows read by every session meanwhile.
    pub async fn reads_of<T>(&mut self, work: impl Future<Output = T>) -> Result<(T, u64)> {
        let before = self.total().await?;
        let value = work.await;
        let after = self.total().await?;
        Ok((value, (after - before).saturating_sub(self.own_cost)))
    }

    async fn total(&mut self) -> Result<u64> {
        let rows = sqlx::query("SHOW GLOBAL STATUS LIKE 'Handler\\_read\\_%'")
            .fetch_all(&mut self.connection)
            .await?;
        sum(&rows)
    }
}

/// Rows read by one session since it began, and the cost of looking, as in [`Counters`].
pub async fn session_reads(connection: &mut MySqlConnection) -> Result<u64> {
    let rows = sqlx::query("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'")
        .fetch_all(connection)
        .await?;
    sum(&rows)
}

/// `Handler_read_retry` counts attempts, not rows; everything else is a row or a look-up of one.
fn sum(rows: &[sqlx::mysql::MySqlRow]) -> Result<u64> {
    let mut total = 0;
    for row in rows {
        let name: String = row.try_get(0)?;
        let value: String = row.try_get(1)?;
        if name != "Handler_read_retry" {
            total += value.parse::<u64>()?;
        }
    }
    Ok(total)
}
