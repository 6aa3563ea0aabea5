//! The differences between databases, decided once from the URL: how a statement says "now", how a
//! time is read, written and compared, and how an index is forced. Nothing else asks which database
//! it is.
//!
//! Times cross the wire as microseconds since the epoch. MySQL and MariaDB keep them as `DATETIME(6)`
//! in UTC sessions, SQLite as `INTEGER` microseconds.

use crate::mapping::Identifier;

/// A family of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL 8 and MariaDB 10.6 or newer.
    MySql,
    /// SQLite 3.42 or newer.
    Sqlite,
}

impl Dialect {
    /// The folder of its migrations and the name in snapshots.
    #[cfg(test)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// The database's clock, as a column stores it. SQLite's clock has milliseconds.
    pub const fn now(self) -> &'static str {
        match self {
            Self::MySql => "NOW(6)",
            Self::Sqlite => "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000)",
        }
    }

    /// Now plus a bound number of microseconds (may be negative), as a column stores it.
    pub const fn now_plus(self) -> &'static str {
        match self {
            Self::MySql => "(NOW(6) + INTERVAL ? MICROSECOND)",
            Self::Sqlite => "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?)",
        }
    }

    /// A bound number of microseconds since the epoch, as a column stores it. Typed, so that an index
    /// on the column can be used.
    pub const fn bound_time(self) -> &'static str {
        match self {
            Self::MySql => "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND)",
            Self::Sqlite => "?",
        }
    }

    /// Microseconds since the epoch of an expression that is a time as stored.
    pub fn micros(self, expression: &str) -> String {
        match self {
            Self::MySql => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {expression})"),
            Self::Sqlite => format!("CAST({expression} AS INTEGER)"),
        }
    }

    /// Makes the planner take `index`. MariaDB takes `ref` on the status alone and walks from the
    /// start of the backlog without it (perf.md section 3).
    pub fn force(self, index: Option<&Identifier>) -> String {
        match (self, index) {
            (Self::MySql, Some(index)) => format!(" FORCE INDEX ({})", index.quoted()),
            (Self::Sqlite, Some(index)) => format!(" INDEXED BY {}", index.quoted()),
            (_, None) => String::new(),
        }
    }

    /// Locks the rows a transaction is about to decide on. SQLite locks the whole database when the
    /// transaction begins.
    pub const fn for_update(self) -> &'static str {
        match self {
            Self::MySql => " FOR UPDATE",
            Self::Sqlite => "",
        }
    }

    /// Begins a writing transaction.
    pub const fn begin(self) -> &'static str {
        match self {
            Self::MySql => "START TRANSACTION",
            Self::Sqlite => "BEGIN IMMEDIATE",
        }
    }
}
