//! What makes a class: conditions over the key's row and evidence, and sentences with their columns.

use super::KEY;

/// How a condition is written.
pub(super) const FORM: &str = "write `NAME present`, `NAME absent`, `NAME.column = value`, \
     `NAME.column != value` or `NAME.column in value, value`; a value may be NAME.column or 'quoted'";

/// A column of the key's row or of an evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRef {
    /// `key`, or the evidence's name.
    pub of: String,
    /// The column; empty: the first one, which is the key.
    pub column: String,
}

impl ColumnRef {
    /// Reads `NAME.column`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let (of, column) = text
            .split_once('.')
            .ok_or_else(|| format!("names no column: {text}"))?;
        let column_of = Self {
            of: named(of, known)?,
            column: column.to_owned(),
        };
        if column.is_empty() {
            return Err(format!("names no column of {of}"));
        }
        Ok(column_of)
    }
}

fn named(of: &str, known: &[&str]) -> Result<String, String> {
    if of == KEY || known.contains(&of) {
        return Ok(of.to_owned());
    }
    let near = similar::get_close_matches(of, known, 1, 0.6);
    Err(match near.first() {
        Some(near) => format!("names the evidence {of}; did you mean {near}?"),
        None => format!("names the evidence {of}, which the rule does not have"),
    })
}

/// What a column is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Another column.
    Column(ColumnRef),
    /// A value, compared as text.
    Value(String),
}

/// One condition. An absent row has no columns: neither `=` nor `!=` holds for it. A column that is NULL
/// is not equal to anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is a row.
    Present(String),
    /// There is none.
    Absent(String),
    /// Equal.
    Is(ColumnRef, Operand),
    /// Not equal.
    IsNot(ColumnRef, Operand),
    /// One of these.
    In(ColumnRef, Vec<String>),
}

impl Condition {
    /// Reads a condition about the key's row and the evidence in `known`.
    ///
    /// # Errors
    /// Says what is wrong, to be put after the condition.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let words = words(text)?;
        let shown: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        match shown.as_slice() {
            [of, "present"] => Ok(Self::Present(named(of, known)?)),
            [of, "absent"] => Ok(Self::Absent(named(of, known)?)),
            [column, sign @ ("=" | "!="), _] => {
                let column = ColumnRef::parse(column, known)?;
                let (value, is_quoted) = words
                    .get(2)
                    .ok_or_else(|| "compares with nothing".to_owned())?;
                let is_column = value
                    .split_once('.')
                    .is_some_and(|(of, _)| of == KEY || known.contains(&of));
                let operand = if is_column && !is_quoted {
                    Operand::Column(ColumnRef::parse(value, known)?)
                } else {
                    Operand::Value(value.clone())
                };
                Ok(if *sign == "=" {
                    Self::Is(column, operand)
                } else {
                    Self::IsNot(column, operand)
                })
            }
            [column, "in", values @ ..] if !values.is_empty() => {
                let column = ColumnRef::parse(column, known)?;
                let values = values
                    .iter()
                    .map(|value| value.trim_end_matches(',').to_owned())
                    .collect();
                Ok(Self::In(column, values))
            }
            _ => Err("is no condition".to_owned()),
        }
    }

    /// The evidence it is about, in the order it is needed.
    pub fn needs(&self) -> Vec<&str> {
        match self {
            Self::Present(of) | Self::Absent(of) => vec![of],
            Self::Is(column, operand) | Self::IsNot(column, operand) => match operand {
                Operand::Column(other) => vec![&column.of, &other.of],
                Operand::Value(_) => vec![&column.of],
            },
            Self::In(column, _) => vec![&column.of],
        }
    }
}

/// Words, and whether each was quoted.
fn words(text: &str) -> Result<Vec<(String, bool)>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (word, after) = quoted
                .split_once('\'')
                .ok_or_else(|| "has a ' that is not closed".to_owned())?;
            out.push((word.to_owned(), true));
            rest = after.trim_start_matches(',').trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            out.push((word.to_owned(), false));
            rest = after.trim_start();
        }
    }
    Ok(out)
}

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Words.
    Text(String),
    /// A column's value.
    Column(ColumnRef),
}

/// A sentence with columns in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its pieces in order.
    pub parts: Vec<TemplatePart>,
}

impl Template {
    /// Reads a sentence: `{key}` is the key, `{NAME.column}` a column.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| "has a { that is not closed".to_owned())?;
            let column = if name == KEY {
                ColumnRef {
                    of: KEY.to_owned(),
                    column: String::new(),
                }
            } else {
                ColumnRef::parse(name, known)?
            };
            parts.push(TemplatePart::Column(column));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The evidence it shows.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Column(column) => Some(column.of.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// True for `redrive VERB …` with one of these verbs.
    pub(super) fn begins_with_one_of(&self, verbs: &[&str]) -> bool {
        let Some(TemplatePart::Text(start)) = self.parts.first() else {
            return false;
        };
        let mut words = start.split_whitespace();
        words.next() == Some("redrive") && words.next().is_some_and(|verb| verbs.contains(&verb))
    }
}
