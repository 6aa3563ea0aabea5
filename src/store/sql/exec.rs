//! A small executor over the two typed drivers: statements with bound [`Value`]s in, rows of [`Value`]s
//! out. A [`Session`] that is dropped in the middle of something is cut off from its pool, so that no
//! half-open transaction is ever handed to the next user.

use std::sync::Arc;

use futures::{Stream, TryStreamExt as _};
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Executor as _, MySql, Row as _, Sqlite,
    TypeInfo as _, ValueRef as _,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::base::clock::Timestamp;
use crate::model::count::Count;
use crate::store::Value;

use super::dialect::Dialect;
use super::fault::{Fault, SqlResult};
use super::pool::Kept;

/// Room for a packet's own bytes.
const PACKET_SLACK: usize = 1024;

/// A connection and where it belongs.
pub(super) enum Borrowed {
    /// MySQL, MariaDB.
    MySql(PoolConnection<MySql>),
    /// SQLite.
    Sqlite(PoolConnection<Sqlite>),
}

/// One borrowed connection.
pub struct Session {
    pub(super) connection: Option<Borrowed>,
    /// True between statements outside a transaction: only then may the pool have it back.
    pub(super) is_clean: bool,
    /// False once a statement failed: the pool has to ask whether it is still alive.
    is_well: bool,
    /// What the server takes in one statement; 0: unknown or no limit.
    packet_bytes_max: u64,
    /// Where it is kept when it comes back well, and its place there; dropped last.
    home: Option<(Arc<Kept>, OwnedSemaphorePermit)>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_clean {
            match (self.connection.take(), &self.home) {
                (Some(Borrowed::MySql(session)), Some((kept, _))) if self.is_well => {
                    kept.put(session);
                }
                // The pool takes it back, or closes it.
                (connection, _) => drop(connection),
            }
            return;
        }
        // Dropping a detached connection closes its socket; the server rolls back.
        match self.connection.take() {
            Some(Borrowed::MySql(connection)) => drop(connection.detach()),
            Some(Borrowed::Sqlite(connection)) => drop(connection.detach()),
            None => {}
        }
    }
}

impl Session {
    /// A session of SQLite.
    pub(super) const fn of_sqlite(connection: PoolConnection<Sqlite>) -> Self {
        Self {
            connection: Some(Borrowed::Sqlite(connection)),
            is_clean: true,
            is_well: true,
            packet_bytes_max: 0,
            home: None,
        }
    }

    /// A session of MySQL or MariaDB that takes so much in one statement (0: not known), and where it is
    /// kept afterwards.
    pub(super) const fn of_mysql(
        connection: PoolConnection<MySql>,
        packet_bytes_max: u64,
        home: (Arc<Kept>, OwnedSemaphorePermit),
    ) -> Self {
        Self {
            connection: Some(Borrowed::MySql(connection)),
            is_clean: true,
            is_well: true,
            packet_bytes_max,
            home: Some(home),
        }
    }

    /// The dialect it speaks.
    pub const fn dialect(&self) -> Dialect {
        match self.connection {
            Some(Borrowed::Sqlite(_)) => Dialect::Sqlite,
            Some(Borrowed::MySql(_)) | None => Dialect::MySql,
        }
    }

    /// Runs a statement; returns the rows it matched.
    pub async fn execute(&mut self, statement: &str, values: &[Value]) -> SqlResult<u64> {
        self.check_size(statement, values)?;
        let was_clean = std::mem::replace(&mut self.is_clean, false);
        let sql = AssertSqlSafe(statement.to_owned());
        let matched = match self.connection.as_mut() {
            Some(Borrowed::MySql(c)) => (&mut **c)
                .execute((sql, Some(mysql_arguments(values)?)))
                .await
                .map(|done| done.rows_affected()),
            Some(Borrowed::Sqlite(c)) => (&mut **c)
                .execute((sql, Some(sqlite_arguments(values)?)))
                .await
                .map(|done| done.rows_affected()),
            None => Err(sqlx::Error::PoolClosed),
        };
        // A statement that failed by itself leaves the session as it was.
        self.is_clean = was_clean;
        self.is_well &= matched.is_ok();
        Ok(matched?)
    }

    /// A server that gets more than it takes closes the connection, which looks like an outage; a row that
    /// is too big never fits, so it is said here.
    fn check_size(&self, statement: &str, values: &[Value]) -> SqlResult<()> {
        let bound: usize = values
            .iter()
            .map(|value| match value {
                Value::Null | Value::Int(_) => 8,
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
            })
            .sum();
        let bytes = (statement.len() + bound + PACKET_SLACK) as u64;
        if self.packet_bytes_max > 0 && bytes > self.packet_bytes_max {
            return Err(Fault::Invalid(format!(
                "{bytes} bytes do not fit the server's max_allowed_packet of {} bytes: raise it",
                self.packet_bytes_max
            )));
        }
        Ok(())
    }

    /// Runs a statement and collects its rows. Every statement here has a LIMIT.
    pub async fn fetch(&mut self, statement: &str, values: &[Value]) -> SqlResult<Vec<Row>> {
        let was_clean = std::mem::replace(&mut self.is_clean, false);
        let sql = AssertSqlSafe(statement.to_owned());
        let rows = match self.connection.as_mut() {
            Some(Borrowed::MySql(c)) => {
                let rows = (&mut **c).fetch((sql, Some(mysql_arguments(values)?)));
                read_all(rows, mysql_row).await
            }
            Some(Borrowed::Sqlite(c)) => {
                let rows = (&mut **c).fetch((sql, Some(sqlite_arguments(values)?)));
                read_all(rows, sqlite_row).await
            }
            None => Err(sqlx::Error::PoolClosed),
        };
        self.is_clean = was_clean;
        self.is_well &= rows.is_ok();
        rows?
    }

    /// The first row, if there is one.
    pub async fn fetch_optional(
        &mut self,
        statement: &str,
        values: &[Value],
    ) -> SqlResult<Option<Row>> {
        Ok(self.fetch(statement, values).await?.into_iter().next())
    }

    /// Runs a statement by the text protocol: transaction control, session settings, DDL.
    pub async fn control(&mut self, statement: &str) -> SqlResult<()> {
        let was_clean = std::mem::replace(&mut self.is_clean, false);
        let sql = AssertSqlSafe(statement.to_owned());
        let done = match self.connection.as_mut() {
            Some(Borrowed::MySql(c)) => (&mut **c).execute(sql).await.map(|_| ()),
            Some(Borrowed::Sqlite(c)) => (&mut **c).execute(sql).await.map(|_| ()),
            None => Err(sqlx::Error::PoolClosed),
        };
        self.is_clean = was_clean;
        self.is_well &= done.is_ok();
        Ok(done?)
    }

    /// Begins a writing transaction. From here to [`Session::commit`] or [`Session::rollback`] a drop
    /// closes the connection.
    pub async fn begin(&mut self) -> SqlResult<()> {
        let begin = self.dialect().begin();
        self.control(begin).await?;
        self.is_clean = false;
        Ok(())
    }

    /// Commits. The session stays unclean when the answer is lost, so that it is not used again.
    pub async fn commit(&mut self) -> SqlResult<()> {
        self.control("COMMIT").await?;
        self.is_clean = true;
        Ok(())
    }

    /// Rolls back.
    pub async fn rollback(&mut self) -> SqlResult<()> {
        self.control("ROLLBACK").await?;
        self.is_clean = true;
        Ok(())
    }
}

/// Takes rows as they come, so that an answer is in memory once. All of them are taken, also after one that cannot
/// be read: the session is at its end as it was before.
async fn read_all<R>(
    mut rows: impl Stream<Item = Result<R, sqlx::Error>> + Unpin,
    read: fn(&R) -> SqlResult<Row>,
) -> Result<SqlResult<Vec<Row>>, sqlx::Error> {
    let mut all = Ok(Vec::new());
    while let Some(row) = rows.try_next().await? {
        if let Ok(read_so_far) = &mut all {
            match read(&row) {
                Ok(row) => read_so_far.push(row),
                Err(fault) => all = Err(fault),
            }
        }
    }
    Ok(all)
}

/// Binds values.
pub(super) fn mysql_arguments(values: &[Value]) -> SqlResult<MySqlArguments> {
    let mut arguments = MySqlArguments::default();
    for value in values {
        match value {
            Value::Null => arguments.add(None::<String>),
            Value::Int(n) => arguments.add(n),
            Value::Text(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Binds values.
pub(super) fn sqlite_arguments(values: &[Value]) -> SqlResult<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match value {
            Value::Null => arguments.add(None::<String>),
            Value::Int(n) => arguments.add(*n),
            Value::Text(text) => arguments.add(text.clone()),
            Value::Bytes(bytes) => arguments.add(bytes.clone()),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

fn mysql_row(row: &MySqlRow) -> SqlResult<Row> {
    (0..row.len())
        .map(|index| {
            let raw = row.try_get_raw(index)?;
            if raw.is_null() {
                return Ok(Value::Null);
            }
            let info = raw.type_info();
            match info.name() {
                "NULL" => Ok(Value::Null),
                "BIGINT UNSIGNED" => Ok(Value::Int(
                    i64::try_from(row.try_get_unchecked::<u64, _>(index)?).unwrap_or(i64::MAX),
                )),
                "BOOLEAN" | "TINYINT" | "TINYINT UNSIGNED" | "SMALLINT" | "SMALLINT UNSIGNED"
                | "MEDIUMINT" | "MEDIUMINT UNSIGNED" | "INT" | "INT UNSIGNED" | "BIGINT" => {
                    Ok(Value::Int(row.try_get_unchecked(index)?))
                }
                kind @ ("DATETIME" | "TIMESTAMP" | "DATE" | "TIME" | "FLOAT" | "DOUBLE") => {
                    Err(Fault::unsupported(format!(
                        "column {} is a {kind}: select it as a whole number or a text",
                        row.column(index).name()
                    )))
                }
                _ => Ok(Value::Bytes(row.try_get_unchecked(index)?)),
            }
        })
        .collect::<SqlResult<Vec<_>>>()
        .map(Row)
}

fn sqlite_row(row: &SqliteRow) -> SqlResult<Row> {
    (0..row.len())
        .map(|index| {
            let raw = row.try_get_raw(index)?;
            if raw.is_null() {
                return Ok(Value::Null);
            }
            let info = raw.type_info();
            match info.name() {
                "INTEGER" => Ok(Value::Int(row.try_get_unchecked(index)?)),
                "REAL" => Err(Fault::unsupported(format!(
                    "column {} is a float: select it as a whole number or a text",
                    row.column(index).name()
                ))),
                "TEXT" => Ok(Value::Text(row.try_get_unchecked(index)?)),
                _ => Ok(Value::Bytes(row.try_get_unchecked(index)?)),
            }
        })
        .collect::<SqlResult<Vec<_>>>()
        .map(Row)
}

/// One row, by position in the statement's column list. MySQL tells text from bytes only by
/// collation, so the reader says what it wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub Vec<Value>);

impl Row {
    fn value(&self, index: usize) -> SqlResult<&Value> {
        self.0
            .get(index)
            .ok_or_else(|| Fault::unreadable(format!("column {} is missing", index + 1)))
    }

    /// A whole number or NULL. Decimals come as digits.
    pub fn int_or_null(&self, index: usize) -> SqlResult<Option<i64>> {
        match self.value(index)? {
            Value::Null => Ok(None),
            Value::Int(n) => Ok(Some(*n)),
            Value::Text(text) => parse_int(text.as_bytes(), index).map(Some),
            Value::Bytes(bytes) => parse_int(bytes, index).map(Some),
        }
    }

    /// A whole number.
    pub fn int(&self, index: usize) -> SqlResult<i64> {
        self.int_or_null(index)?
            .ok_or_else(|| Fault::unreadable(format!("column {} is NULL", index + 1)))
    }

    /// A count.
    pub fn count(&self, index: usize) -> SqlResult<u64> {
        Ok(u64::try_from(self.int(index)?).unwrap_or(0))
    }

    /// A count that is negative when there are more rows than `cap`.
    pub fn capped(&self, index: usize, cap: u64) -> SqlResult<Count> {
        let counted = self.int(index)?;
        Ok(u64::try_from(counted).map_or(Count::AtLeast(cap), Count::Exact))
    }

    /// A text or NULL.
    pub fn text_or_null(&self, index: usize) -> SqlResult<Option<String>> {
        match self.value(index)? {
            Value::Null => Ok(None),
            Value::Int(n) => Ok(Some(n.to_string())),
            Value::Text(text) => Ok(Some(text.clone())),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err(Fault::unreadable(format!(
                    "column {} is not UTF-8",
                    index + 1
                ))),
            },
        }
    }

    /// A text.
    pub fn text(&self, index: usize) -> SqlResult<String> {
        self.text_or_null(index)?
            .ok_or_else(|| Fault::unreadable(format!("column {} is NULL", index + 1)))
    }

    /// Bytes as they are stored; NULL is empty.
    pub fn bytes(&self, index: usize) -> SqlResult<Vec<u8>> {
        match self.value(index)? {
            Value::Null => Ok(Vec::new()),
            Value::Int(n) => Ok(n.to_string().into_bytes()),
            Value::Text(text) => Ok(text.clone().into_bytes()),
            Value::Bytes(bytes) => Ok(bytes.clone()),
        }
    }

    /// As [`Row::bytes`], given away: a payload is not copied.
    pub fn take_bytes(&mut self, index: usize) -> SqlResult<Vec<u8>> {
        let taken = self.0.get_mut(index);
        match taken.map(|value| std::mem::replace(value, Value::Null)) {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            Some(Value::Text(text)) => Ok(text.into_bytes()),
            Some(Value::Int(n)) => Ok(n.to_string().into_bytes()),
            Some(Value::Null) => Ok(Vec::new()),
            None => Err(Fault::unreadable(format!(
                "column {} is missing",
                index + 1
            ))),
        }
    }

    /// Microseconds since the epoch, or NULL.
    pub fn time_or_null(&self, index: usize) -> SqlResult<Option<Timestamp>> {
        Ok(self.int_or_null(index)?.map(Timestamp::from_micros))
    }

    /// Microseconds since the epoch.
    pub fn time(&self, index: usize) -> SqlResult<Timestamp> {
        Ok(Timestamp::from_micros(self.int(index)?))
    }
}

fn parse_int(bytes: &[u8], index: usize) -> SqlResult<i64> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Fault::unreadable(format!("column {} is not a whole number", index + 1)))
}

/// A bound text.
pub fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

/// A bound text or NULL.
pub fn text_or_null(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_owned()))
}

/// A bound number or NULL.
pub fn int_or_null(n: Option<i64>) -> Value {
    n.map_or(Value::Null, Value::Int)
}

/// A bound limit.
pub fn limit(n: u64) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A bound duration in microseconds.
pub fn micros(duration: std::time::Duration) -> Value {
    Value::Int(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}
