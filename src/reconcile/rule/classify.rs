//! Deciding: which class a key is of, by what is known of it so far, and what has to be asked for next.
//! Pure.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::base::text::cut_bytes;
use crate::config::ScanRule;
use crate::config::scanning::{ColumnRef, Condition, FINE, KEY, Operand, Template, TemplatePart};
use crate::model::scan::Fact;
use crate::store::Value;

/// The column that says when a row changed last; the grace time counts from the latest.
pub const CHANGED_AT: &str = "changed_at";
/// Bytes of a value that are kept as evidence.
const FACT_BYTES: usize = 200;

/// A row with its columns' names.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Names, shared by the rows of an answer.
    pub columns: Arc<Vec<String>>,
    /// Values in that order.
    pub values: Vec<Value>,
}

/// A value as it is compared and shown; `None`: NULL.
pub fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Int(n) => Some(n.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

impl Row {
    /// The first column: the key.
    pub fn first(&self) -> &Value {
        self.values.first().unwrap_or(&Value::Null)
    }

    /// A column; an empty name is the first one. `None`: there is no such column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        if column.is_empty() {
            return self.values.first();
        }
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at)
    }

    fn changed_at(&self) -> Option<Timestamp> {
        match self.get(CHANGED_AT)? {
            Value::Int(micros) => Some(Timestamp::from_micros(*micros)),
            _ => None,
        }
    }
}

/// What is known of an evidence for one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It has this row.
    Row(Row),
    /// It has none.
    Absent,
    /// It could not be read.
    Unread,
}

/// What a key is, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No class holds.
    Fine,
    /// The class at this place.
    Class(usize),
    /// This evidence has to be asked for first.
    Needs(String),
    /// What would decide could not be read.
    NotCompared,
}

/// Whether a condition holds.
enum Held {
    Yes,
    No,
    Needs(String),
    Unread,
}

/// One key and what is known of it.
#[derive(Clone, Debug)]
pub struct Case {
    row: Row,
    known: HashMap<String, Known>,
}

impl Case {
    /// A key of which only its row is known.
    pub fn new(row: Row) -> Self {
        Self {
            row,
            known: HashMap::new(),
        }
    }

    /// The key as text.
    pub fn key(&self) -> String {
        shown(self.row.first()).unwrap_or_default()
    }

    /// Adds evidence.
    pub fn learn(&mut self, of: &str, known: Known) {
        self.known.insert(of.to_owned(), known);
    }

    /// What a column holds. `Ok(None)`: its row is absent, it is NULL, or there is no such column.
    fn value(&self, column: &ColumnRef) -> Result<Option<&Value>, Held> {
        let Some(row) = self.row_of(&column.of)? else {
            return Ok(None);
        };
        Ok(row.get(&column.column).filter(|v| **v != Value::Null))
    }

    fn row_of(&self, of: &str) -> Result<Option<&Row>, Held> {
        if of == KEY {
            return Ok(Some(&self.row));
        }
        match self.known.get(of) {
            None => Err(Held::Needs(of.to_owned())),
            Some(Known::Unread) => Err(Held::Unread),
            Some(Known::Absent) => Ok(None),
            Some(Known::Row(row)) => Ok(Some(row)),
        }
    }

    /// What an evidence is looked up by. `Ok(None)`: there is nothing to look up.
    pub fn lookup(&self, by: &ColumnRef) -> Result<Option<Value>, Verdict> {
        match self.value(by) {
            Ok(value) => Ok(value.cloned()),
            Err(Held::Needs(of)) => Err(Verdict::Needs(of)),
            Err(_) => Err(Verdict::NotCompared),
        }
    }

    fn held(&self, condition: &Condition) -> Result<bool, Held> {
        Ok(match condition {
            Condition::Present(of) => self.row_of(of)?.is_some(),
            Condition::Absent(of) => self.row_of(of)?.is_none(),
            Condition::Is(column, operand) => self.is_equal(column, operand)? == Some(true),
            Condition::IsNot(column, operand) => self.is_equal(column, operand)? == Some(false),
            Condition::In(column, values) => {
                let value = self.value(column)?.and_then(shown);
                value.is_some_and(|value| values.contains(&value))
            }
        })
    }

    /// `None`: there is no row to compare. A row whose column is NULL is not equal to anything.
    fn is_equal(&self, column: &ColumnRef, operand: &Operand) -> Result<Option<bool>, Held> {
        if self.row_of(&column.of)?.is_none() {
            return Ok(None);
        }
        let left = self.value(column)?.and_then(shown);
        let right = match operand {
            Operand::Value(value) => Some(value.clone()),
            Operand::Column(other) => {
                if self.row_of(&other.of)?.is_none() {
                    return Ok(None);
                }
                self.value(other)?.and_then(shown)
            }
        };
        Ok(Some(left.is_some() && left == right))
    }

    fn holds(&self, condition: &Condition) -> Held {
        match self.held(condition) {
            Ok(true) => Held::Yes,
            Ok(false) => Held::No,
            Err(held) => held,
        }
    }

    /// The first class whose conditions all hold, or what has to be known first. A finding's sentence and
    /// suggestion need their evidence as well.
    pub fn verdict(&self, rule: &ScanRule) -> Verdict {
        for (index, class) in rule.classes.iter().enumerate() {
            let mut is_all = true;
            for condition in &class.when {
                match self.holds(condition) {
                    Held::Yes => {}
                    Held::No => {
                        is_all = false;
                        break;
                    }
                    Held::Needs(of) => return Verdict::Needs(of),
                    Held::Unread => return Verdict::NotCompared,
                }
            }
            if !is_all {
                continue;
            }
            if class.class != FINE {
                let sentences = class.says.iter().chain(&class.suggest);
                for of in sentences.flat_map(Template::needs) {
                    if of != KEY && !self.known.contains_key(of) {
                        return Verdict::Needs(of.to_owned());
                    }
                }
            }
            return Verdict::Class(index);
        }
        Verdict::Fine
    }

    fn rows(&self) -> impl Iterator<Item = (&str, &Row)> {
        let mut known: Vec<_> = self
            .known
            .iter()
            .filter_map(|(of, known)| match known {
                Known::Row(row) => Some((of.as_str(), row)),
                Known::Absent | Known::Unread => None,
            })
            .collect();
        known.sort_by_key(|(of, _)| *of);
        std::iter::once((KEY, &self.row)).chain(known)
    }

    /// The last transition of everything that was looked at (C-01).
    pub fn changed_at(&self) -> Option<Timestamp> {
        self.rows().filter_map(|(_, row)| row.changed_at()).max()
    }

    /// A sentence with its columns; what is not there is `?`.
    pub fn rendered(&self, template: &Template) -> String {
        let parts = template.parts.iter().map(|part| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Column(column) => match self.value(column) {
                Ok(Some(value)) => shown(value).unwrap_or_else(|| "?".to_owned()),
                Ok(None) | Err(_) => "?".to_owned(),
            },
        });
        parts.collect()
    }

    /// Everything that was looked at, for people.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        for (of, row) in self.rows() {
            for (column, value) in row.columns.iter().zip(&row.values) {
                let value = match value {
                    Value::Int(micros) if column == CHANGED_AT => {
                        Some(Timestamp::from_micros(*micros).to_rfc3339())
                    }
                    value => shown(value).map(|text| cut_bytes(&text, FACT_BYTES).to_owned()),
                };
                facts.push(Fact {
                    name: format!("{of}.{column}"),
                    value,
                });
            }
        }
        let mut absent: Vec<_> = self
            .known
            .iter()
            .filter(|(_, known)| **known == Known::Absent)
            .map(|(of, _)| Fact {
                name: of.clone(),
                value: None,
            })
            .collect();
        absent.sort_by(|a, b| a.name.cmp(&b.name));
        facts.extend(absent);
        facts
    }
}
