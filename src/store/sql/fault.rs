//! What went wrong inside this adapter, before it is told to the caller. Server numbers are
//! translated here and nowhere else; connection URLs and passwords never enter a message.

use std::time::Duration;

use sqlx::mysql::MySqlDatabaseError;

use crate::store::StoreError;

/// Result of a step of a call.
pub type SqlResult<T> = Result<T, Fault>;

/// A failed step.
#[derive(Debug)]
pub enum Fault {
    /// The driver or the server.
    Sql(sqlx::Error),
    /// A row, table or column is not what the mapping says.
    Mapping {
        /// Table, if known.
        table: String,
        /// What is wrong.
        problem: String,
    },
    /// The layout or configuration cannot answer this.
    Unsupported(String),
    /// Not allowed here.
    Denied(String),
    /// The server cannot be reached, told for a person.
    Unreachable(String),
    /// A concurrent writer was faster; repeating the transaction decides anew.
    Raced(String),
    /// Broken call, e.g. an illegal transition.
    Invalid(String),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// Kinds of database errors callers can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Deadlock, lock wait, busy.
    Contended,
    /// Not permitted, read-only.
    Denied,
    /// Table or column missing, database missing.
    Mapping,
    /// Not reachable.
    Unavailable,
    /// The server stopped the statement.
    TimedOut,
    /// A unique key has the value already.
    Duplicate,
    /// Anything else.
    Other,
}

/// The kind of a server's error number (MySQL and MariaDB).
pub const fn kind_of_number(number: u16) -> Kind {
    match number {
        1205 | 1213 | 1412 | 3572 => Kind::Contended,
        1044 | 1045 | 1142 | 1143 | 1227 | 1290 | 1370 | 1698 | 1792 | 1836 | 3118 => Kind::Denied,
        1049 | 1054 | 1146 => Kind::Mapping,
        // Disk full, a cluster node that is not ready, table full, a commit that was refused: whatever
        // the row, so none is to blame.
        1021
        | 1040
        | 1047
        | 1053
        | 1077..=1080
        | 1114
        | 1129
        | 1130
        | 1152
        | 1158..=1161
        | 1180
        | 1203
        | 1226
        | 1927
        | 2000..=2099 => Kind::Unavailable,
        1317 | 1969 | 3024 => Kind::TimedOut,
        1062 | 1586 => Kind::Duplicate,
        _ => Kind::Other,
    }
}

fn kind_of_sqlite(code: &str) -> Kind {
    // Extended codes carry the primary one in their low byte.
    let primary = code.parse::<i32>().unwrap_or(1) & 0xff;
    match (primary, code) {
        (_, "2067" | "1555") => Kind::Duplicate,
        (5 | 6, _) => Kind::Contended,
        (3 | 8 | 23, _) => Kind::Denied,
        (10 | 13 | 14, _) => Kind::Unavailable,
        (9, _) => Kind::TimedOut,
        _ => Kind::Other,
    }
}

/// The kind of a driver error.
pub fn kind_of(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Database(database) => {
            if let Some(mysql) = database.try_downcast_ref::<MySqlDatabaseError>() {
                return kind_of_number(mysql.number());
            }
            let message = database.message();
            if message.starts_with("no such table") || message.contains("no such column") {
                return Kind::Mapping;
            }
            kind_of_sqlite(&database.code().unwrap_or_default())
        }
        // A connection that broke in the middle of an answer reads as a protocol error.
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Kind::Unavailable,
        _ => Kind::Other,
    }
}

impl Fault {
    /// A row that cannot be read.
    pub fn unreadable(problem: String) -> Self {
        Self::Mapping {
            table: "a row".to_owned(),
            problem,
        }
    }

    /// A question the layout cannot answer.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }

    /// True when a unique key refused an insert.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Sql(error) if kind_of(error) == Kind::Duplicate)
    }

    /// True when a migration asks for a column or index that is there already.
    pub fn is_there_already(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(database)) = self else {
            return false;
        };
        match database.try_downcast_ref::<MySqlDatabaseError>() {
            // Duplicate column name, duplicate key name.
            Some(mysql) => matches!(mysql.number(), 1060 | 1061),
            None => database.message().starts_with("duplicate column name"),
        }
    }

    /// True when a table or column is not there.
    pub fn is_missing_table(&self) -> bool {
        matches!(self, Self::Sql(error) if kind_of(error) == Kind::Mapping)
    }

    /// True when a statement names an index that is not there.
    pub fn is_missing_index(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(database)) = self else {
            return false;
        };
        match database.try_downcast_ref::<MySqlDatabaseError>() {
            // Key does not exist in table.
            Some(mysql) => mysql.number() == 1176,
            None => database.message().starts_with("no such index"),
        }
    }

    /// True when the transaction was rolled back, or never began, because of another one: repeating
    /// it is harmless.
    pub fn is_contended(&self) -> bool {
        match self {
            Self::Raced(_) => true,
            Self::Sql(error) => kind_of(error) == Kind::Contended,
            _ => false,
        }
    }

    /// True when the server has ended the transaction, or may have: a deadlock, a broken connection, a statement
    /// that was stopped. A row that a key refused leaves it as it was.
    pub fn ends_transaction(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Sql(error) => matches!(
                kind_of(error),
                Kind::Contended | Kind::Unavailable | Kind::TimedOut
            ),
            _ => false,
        }
    }

    /// In words, without the service and the call.
    pub fn words(&self) -> String {
        match self {
            Self::Sql(error) => detail(error),
            Self::Mapping { table, problem } => format!("{table}: {problem}"),
            Self::Unsupported(words)
            | Self::Denied(words)
            | Self::Raced(words)
            | Self::Unreachable(words)
            | Self::Invalid(words) => words.clone(),
        }
    }

    /// Names the table in a mapping fault that does not yet.
    pub fn in_table(self, table: &str) -> Self {
        match self {
            Self::Mapping { table: t, problem } if t == "a row" => Self::Mapping {
                table: table.to_owned(),
                problem,
            },
            other => other,
        }
    }

    /// The port's error.
    pub fn into_store_error(
        self,
        service: &str,
        operation: &'static str,
        after: Duration,
    ) -> StoreError {
        let service = service.to_owned();
        match self {
            Self::Sql(error) => of_driver(&error, service, operation, after),
            Self::Mapping { table, problem } => StoreError::Mapping {
                service,
                table,
                problem,
            },
            Self::Unsupported(reason) => StoreError::Unsupported { service, reason },
            Self::Denied(detail) => StoreError::Denied {
                service,
                operation,
                detail,
            },
            Self::Unreachable(detail) => StoreError::Unavailable { service, detail },
            Self::Raced(detail) => StoreError::Contended {
                service,
                operation,
                detail,
            },
            Self::Invalid(detail) => StoreError::Failed {
                service,
                operation,
                detail,
            },
        }
    }
}

fn of_driver(
    error: &sqlx::Error,
    service: String,
    operation: &'static str,
    after: Duration,
) -> StoreError {
    let detail = detail(error);
    match kind_of(error) {
        Kind::Contended => StoreError::Contended {
            service,
            operation,
            detail,
        },
        Kind::Denied => StoreError::Denied {
            service,
            operation,
            detail,
        },
        Kind::Mapping => StoreError::Mapping {
            service,
            table: missing_name(&detail),
            problem: format!("{detail}; `redrive check` lists what is missing"),
        },
        Kind::Unavailable => StoreError::Unavailable { service, detail },
        Kind::TimedOut => StoreError::TimedOut {
            service,
            operation,
            after,
        },
        Kind::Duplicate | Kind::Other => StoreError::Failed {
            service,
            operation,
            detail,
        },
    }
}

/// The table a server misses, out of its words: `Table 'shop.outbox_events' doesn't exist` and
/// `no such table: outbox_events`.
fn missing_name(words: &str) -> String {
    let quoted = words
        .strip_prefix("Table '")
        .and_then(|rest| rest.split_once('\''))
        .map(|(name, _)| name.rsplit('.').next().unwrap_or(name));
    quoted
        .or_else(|| words.strip_prefix("no such table: "))
        .unwrap_or("a mapped table")
        .to_owned()
}

/// Access denied at the log-in.
const WRONG_ACCOUNT: u16 = 1045;

/// The driver's words in one line, cut, and without anything of the connection's URL.
fn detail(error: &sqlx::Error) -> String {
    let words = match error {
        sqlx::Error::Database(database) => {
            match database.try_downcast_ref::<MySqlDatabaseError>() {
                Some(mysql) if mysql.number() == WRONG_ACCOUNT => format!(
                    "wrong user or password: {} (error {WRONG_ACCOUNT})",
                    mysql.message()
                ),
                Some(mysql) => format!("{} (error {})", mysql.message(), mysql.number()),
                None => database.message().to_owned(),
            }
        }
        sqlx::Error::PoolTimedOut => {
            "no session in time: the server does not answer, or all its sessions are busy"
                .to_owned()
        }
        sqlx::Error::PoolClosed => "the connection was closed".to_owned(),
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the server closed the connection".to_owned()
        }
        sqlx::Error::Io(io) => io.to_string(),
        other => other.to_string(),
    };
    let line = crate::base::text::safe(&words);
    crate::base::text::cut_bytes(&line, 500).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(1213, Kind::Contended)]
    #[case(1205, Kind::Contended)]
    #[case(1142, Kind::Denied)]
    #[case(1792, Kind::Denied)]
    #[case(1146, Kind::Mapping)]
    #[case(1054, Kind::Mapping)]
    #[case(2002, Kind::Unavailable)]
    #[case(1021, Kind::Unavailable)]
    #[case(1047, Kind::Unavailable)]
    #[case(1114, Kind::Unavailable)]
    #[case(1180, Kind::Unavailable)]
    #[case(3024, Kind::TimedOut)]
    #[case(1969, Kind::TimedOut)]
    #[case(1062, Kind::Duplicate)]
    #[case(1366, Kind::Other)]
    #[case(1153, Kind::Other)]
    fn server_numbers_have_kinds(#[case] number: u16, #[case] kind: Kind) {
        assert_eq!(kind_of_number(number), kind);
    }

    #[test]
    fn a_closed_connection_is_said_in_words() {
        let error = sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "expected to read 4 bytes, got 0 bytes at EOF",
        ));
        assert_eq!(detail(&error), "the server closed the connection");
    }

    #[rstest]
    #[case(
        "Table 'shop.outbox_events' doesn't exist (error 1146)",
        "outbox_events"
    )]
    #[case("no such table: outbox_events", "outbox_events")]
    #[case("Unknown column 'x' in 'field list'", "a mapped table")]
    fn a_missing_table_is_named(#[case] words: &str, #[case] name: &str) {
        assert_eq!(missing_name(words), name);
    }
}
