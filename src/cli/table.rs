//! Tables for people, and the same cells as CSV for spreadsheets. Untrusted text is made safe in the
//! table (P-10); CSV has the raw values.

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::text::{cut, safe, width};
use crate::model::count::Count;

/// One value: as a person reads it and as a program does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    shown: String,
    raw: String,
}

/// Shown where a value is not known: never as zero.
const UNKNOWN: &str = "?";
/// Shown where there is no value.
const NONE: &str = "–";

impl Cell {
    /// Text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self {
            shown: safe(text.as_ref()),
            raw: text.as_ref().to_owned(),
        }
    }

    /// Text that may be absent.
    pub fn optional(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(Self::none, Self::text)
    }

    /// No value.
    pub fn none() -> Self {
        Self {
            shown: NONE.to_owned(),
            raw: String::new(),
        }
    }

    /// A value that is not known.
    pub fn unknown() -> Self {
        Self {
            shown: UNKNOWN.to_owned(),
            raw: String::new(),
        }
    }

    /// A whole number; `None` is not known.
    pub fn number(number: Option<u64>) -> Self {
        number.map_or_else(Self::unknown, |number| Self {
            shown: human::grouped(number),
            raw: number.to_string(),
        })
    }

    /// A signed number that a layout may not have.
    pub fn integer(number: Option<i64>) -> Self {
        number.map_or_else(Self::none, |number| Self::text(number.to_string()))
    }

    /// A count with its quality; `None` is not known.
    pub fn count(count: Option<Count>) -> Self {
        count.map_or_else(Self::unknown, |count| Self {
            shown: count.to_string(),
            raw: count.floor().to_string(),
        })
    }

    /// A rate a second.
    pub fn rate(rate: Option<f64>) -> Self {
        rate.map_or_else(Self::unknown, |rate| Self {
            shown: format!("{rate:.1}/s"),
            raw: rate.to_string(),
        })
    }

    /// Seconds; `None` is no value.
    pub fn seconds(seconds: Option<f64>) -> Self {
        seconds.map_or_else(Self::none, |seconds| Self {
            shown: human::age(seconds),
            raw: seconds.to_string(),
        })
    }

    /// How long ago an instant was; CSV has the instant.
    pub fn ago(at: Option<Timestamp>, now: Timestamp) -> Self {
        at.map_or_else(Self::none, |at| Self {
            shown: human::age(now.seconds_since(at)),
            raw: at.to_rfc3339(),
        })
    }

    /// An instant.
    pub fn time(at: Timestamp) -> Self {
        Self::text(at.to_rfc3339())
    }
}

/// A column: its heading, and how it may be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    name: &'static str,
    is_right: bool,
    is_flexible: bool,
}

/// A column of text.
pub const fn left(name: &'static str) -> Column {
    Column {
        name,
        is_right: false,
        is_flexible: false,
    }
}

/// A column of numbers.
pub const fn right(name: &'static str) -> Column {
    Column {
        name,
        is_right: true,
        is_flexible: false,
    }
}

/// A column that is cut when the terminal is too narrow.
pub const fn flexible(name: &'static str) -> Column {
    Column {
        name,
        is_right: false,
        is_flexible: true,
    }
}

/// Rows under headings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row; one cell a column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned lines, cut to `columns` of a terminal where it is one.
    pub fn lines(&self, columns: Option<usize>) -> Vec<String> {
        if self.columns.is_empty() {
            return Vec::new();
        }
        let widths = self.widths(columns);
        let head = self.columns.iter().map(|column| column.name.to_owned());
        let mut out = vec![self.line(head, &widths)];
        out.extend(
            self.rows
                .iter()
                .map(|row| self.line(row.iter().map(|cell| cell.shown.clone()), &widths)),
        );
        out
    }

    fn line(&self, cells: impl Iterator<Item = String>, widths: &[usize]) -> String {
        let mut out = String::new();
        for ((cell, room), column) in cells.zip(widths).zip(self.columns) {
            if !out.is_empty() {
                out.push_str("  ");
            }
            let cell = cut(&cell, *room);
            let pad = " ".repeat(room.saturating_sub(width(&cell)));
            if column.is_right {
                out.push_str(&pad);
                out.push_str(&cell);
            } else {
                out.push_str(&cell);
                out.push_str(&pad);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(c.name)).collect();
        for row in &self.rows {
            for (room, cell) in widths.iter_mut().zip(row) {
                *room = (*room).max(width(&cell.shown));
            }
        }
        let Some(columns) = columns else {
            return widths;
        };
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let mut excess = total.saturating_sub(columns);
        for (room, column) in widths.iter_mut().zip(self.columns).rev() {
            if column.is_flexible && excess > 0 {
                // Ten columns still say something.
                let taken = excess.min(room.saturating_sub(10));
                *room -= taken;
                excess -= taken;
            }
        }
        widths
    }

    /// RFC 4180: headings, then rows, every field quoted that needs it.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut record = |fields: &mut dyn Iterator<Item = &str>| {
            let fields: Vec<_> = fields.map(quoted).collect();
            out.push_str(&fields.join(","));
            out.push_str("\r\n");
        };
        record(&mut self.columns.iter().map(|column| column.name));
        for row in &self.rows {
            record(&mut row.iter().map(|cell| cell.raw.as_str()));
        }
        out
    }
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[left("event"), right("n"), flexible("error")];

    fn table() -> Table {
        let mut table = Table::new(COLUMNS);
        table.push(vec![
            Cell::text("注文🧾"),
            Cell::number(Some(12_304)),
            Cell::text("\u{1b}[2J, \"gone\" and a long story after it"),
        ]);
        table.push(vec![Cell::none(), Cell::number(None), Cell::text("x")]);
        table
    }

    #[test]
    fn p_10_columns_align_and_control_characters_are_visible() {
        assert_eq!(
            table().lines(Some(40)),
            [
                "event        n  error",
                "注文🧾  12 304  ␛[2J, \"gone\" and a long…",
                "–            ?  x",
            ]
        );
    }

    #[test]
    fn csv_has_raw_values_and_quotes() {
        assert_eq!(
            table().csv(),
            "event,n,error\r\n注文🧾,12304,\"\u{1b}[2J, \"\"gone\"\" and a long story after it\"\r\n,,x\r\n"
        );
    }
}
