//! Rows of a statement somebody else wrote: columns by name, values as whole numbers and texts. Rows
//! are taken one by one, so that a statement that returns too many costs no memory.

use futures::TryStreamExt as _;
use sqlx::mysql::MySqlRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Column as _, Executor as _, Row as _, TypeInfo as _, ValueRef as _};

use crate::base::digest::hex;
use crate::store::Value;

use super::exec::{Borrowed, Session, mysql_arguments, sqlite_arguments};
use super::fault::{Fault, SqlResult};

type Named = (Vec<String>, Vec<Vec<Value>>);

impl Session {
    /// Runs a statement and collects its rows with their columns' names. A session whose answer was not
    /// read to its end is not given back to the pool.
    pub async fn fetch_named(
        &mut self,
        statement: &str,
        values: &[Value],
        rows_max: usize,
    ) -> SqlResult<Named> {
        let mut out: Named = (Vec::new(), Vec::new());
        let sql = AssertSqlSafe(statement.to_owned());
        self.is_clean = false;
        match self.connection.as_mut() {
            Some(Borrowed::MySql(c)) => {
                let mut rows = (&mut **c).fetch((sql, Some(mysql_arguments(values)?)));
                while let Some(row) = rows.try_next().await? {
                    let names = row.columns().iter().map(|c| c.name().to_owned());
                    take(&mut out, names, mysql_values(&row)?, rows_max)?;
                }
            }
            Some(Borrowed::Sqlite(c)) => {
                let mut rows = (&mut **c).fetch((sql, Some(sqlite_arguments(values)?)));
                while let Some(row) = rows.try_next().await? {
                    let names = row.columns().iter().map(|c| c.name().to_owned());
                    take(&mut out, names, sqlite_values(&row)?, rows_max)?;
                }
            }
            None => return Err(sqlx::Error::PoolClosed.into()),
        }
        self.is_clean = true;
        Ok(out)
    }
}

fn take(
    out: &mut Named,
    names: impl Iterator<Item = String>,
    row: Vec<Value>,
    rows_max: usize,
) -> SqlResult<()> {
    if out.0.is_empty() {
        out.0.extend(names);
    }
    if out.1.len() == rows_max {
        return Err(Fault::unsupported(format!(
            "the query returned more than {rows_max} rows: give it a LIMIT, or one row a key"
        )));
    }
    out.1.push(row);
    Ok(())
}

fn readable(bytes: Vec<u8>) -> Value {
    Value::Text(String::from_utf8(bytes).unwrap_or_else(|error| hex(error.as_bytes())))
}

fn mysql_values(row: &MySqlRow) -> SqlResult<Vec<Value>> {
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
                kind if kind.contains("INT") || kind == "BOOLEAN" => {
                    Ok(Value::Int(row.try_get_unchecked(index)?))
                }
                "DATETIME" | "TIMESTAMP" | "DATE" => {
                    let bytes: Vec<u8> = row.try_get_unchecked(index)?;
                    instant(&bytes).map(Value::Int).ok_or_else(|| {
                        Fault::unreadable(format!(
                            "column {} holds no instant",
                            row.column(index).name()
                        ))
                    })
                }
                kind @ ("TIME" | "FLOAT" | "DOUBLE") => {
                    Err(inexact(row.column(index).name(), kind))
                }
                _ => Ok(readable(row.try_get_unchecked(index)?)),
            }
        })
        .collect()
}

fn sqlite_values(row: &SqliteRow) -> SqlResult<Vec<Value>> {
    (0..row.len())
        .map(|index| {
            let raw = row.try_get_raw(index)?;
            if raw.is_null() {
                return Ok(Value::Null);
            }
            let info = raw.type_info();
            match info.name() {
                "INTEGER" => Ok(Value::Int(row.try_get_unchecked(index)?)),
                kind @ "REAL" => Err(inexact(row.column(index).name(), kind)),
                "TEXT" => Ok(Value::Text(row.try_get_unchecked(index)?)),
                _ => Ok(readable(row.try_get_unchecked(index)?)),
            }
        })
        .collect()
}

fn inexact(column: &str, kind: &str) -> Fault {
    Fault::unsupported(format!(
        "column {column} is a {kind}: select it as a whole number, a decimal or a text"
    ))
}

/// Microseconds since the epoch of an instant in the binary protocol: its length, then year, month, day,
/// and, unless they are zero, time and microseconds. Sessions are UTC.
fn instant(bytes: &[u8]) -> Option<i64> {
    let part = |at: usize| bytes.get(at).copied().map(u32::from);
    let year = i32::from(u16::from_le_bytes([*bytes.get(1)?, *bytes.get(2)?]));
    let date = chrono::NaiveDate::from_ymd_opt(year, part(3)?, part(4)?)?;
    let micros = match bytes.get(8..12) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    };
    let time = |at| part(at).unwrap_or(0);
    let at = date.and_hms_micro_opt(time(5), time(6), time(7), micros)?;
    Some(at.and_utc().timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::instant;

    #[test]
    fn an_instant_of_the_wire_has_microseconds() {
        let wire = [11, 0xea, 0x07, 1, 2, 3, 4, 5, 0x35, 0x5c, 0x0a, 0];
        assert_eq!(instant(&wire), Some(1_767_323_045_678_965));
        assert_eq!(instant(&[4, 0xea, 0x07, 1, 2]), Some(1_767_312_000_000_000));
        assert_eq!(instant(&[0]), None);
    }
}
