//! Pages by key: each is read from just after the last row of the one before, with one row more than it shows,
//! which tells that another follows.

use crate::model::page::{Cursor, Page};
use crate::store::Value;

use super::exec::{Row, limit, text};
use super::fault::SqlResult;

/// Binds the row a page starts after, as `at < ? OR (at = ? AND id < ?)` wants it; the first page has none.
pub fn bind_after(after: Option<&Cursor>, values: &mut Vec<Value>) {
    if let Some(after) = after {
        let at = Value::Int(after.at.micros());
        values.extend([at.clone(), at, text(&after.id)]);
    }
}

/// How many rows a page of so many reads at most.
pub fn one_more(rows_max: u32) -> Value {
    limit(u64::from(rows_max.max(1)) + 1)
}

/// The page among the rows that were read with [`one_more`]; `key` is where the one after a row starts.
pub fn page_of<T>(
    found: &[Row],
    rows_max: u32,
    read: impl Fn(&Row) -> SqlResult<T>,
    key: impl Fn(&T) -> Cursor,
) -> SqlResult<Page<T>> {
    let shown = found.iter().take(rows_max.max(1) as usize);
    let rows = shown.map(read).collect::<SqlResult<Vec<_>>>()?;
    let is_more = found.len() > rows.len();
    let next = rows.last().filter(|_| is_more).map(key);
    Ok(Page { rows, next })
}
