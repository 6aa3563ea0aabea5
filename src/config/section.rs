//! One table of the file, read key by key: every error names the line, the dotted key and the fix,
//! a key nobody asked for is an error with the nearest known one, and no value is ever repeated in
//! an error (it may be a secret).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::interpolate::{Fault, Missing, interpolate};
use super::{ConfigError, duration};

/// The file being read.
pub(super) struct Source<'a> {
    /// How errors call it.
    pub file: String,
    /// Its text, for line numbers.
    pub text: &'a str,
    /// Environment variables.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Where each key that was read stands: dotted key → `file:line`.
    pub origins: RefCell<BTreeMap<String, String>>,
}

impl Source<'_> {
    /// The line, from 1, of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        1 + before.matches('\n').count()
    }

    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.file, self.line(offset))
    }
}

/// A table of the file.
pub(super) struct Section<'a> {
    source: &'a Source<'a>,
    path: String,
    table: &'a DeTable<'a>,
    offset: usize,
    missing: Missing,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(source: &'a Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self::new(source, String::new(), table, 0, Missing::Refuse)
    }

    fn new(
        source: &'a Source<'a>,
        path: String,
        table: &'a DeTable<'a>,
        offset: usize,
        missing: Missing,
    ) -> Self {
        Self {
            source,
            path,
            table,
            offset,
            missing,
        }
    }

    /// The same table for a context that is only looked at: missing variables stay as written.
    pub(super) fn leniently(mut self) -> Self {
        self.missing = Missing::Keep;
        self
    }

    /// True when secrets of this part must not be fetched.
    pub(super) fn is_lenient(&self) -> bool {
        self.missing == Missing::Keep
    }

    /// Environment variables.
    pub(super) fn env(&self, name: &str) -> Option<String> {
        (self.source.env)(name)
    }

    /// The dotted key of `key` in this table.
    pub(super) fn dotted(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else if key.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// An error about `key`, at its line if it is there, else at the table's.
    pub(super) fn error(
        &self,
        key: &str,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> ConfigError {
        let offset = self
            .entry(key)
            .map_or(self.offset, |(name, _)| name.span().start);
        ConfigError {
            origin: self.source.place(offset),
            key: self.dotted(key),
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    fn entry(
        &self,
        key: &str,
    ) -> Option<(
        &'a Spanned<toml::de::DeString<'a>>,
        &'a Spanned<DeValue<'a>>,
    )> {
        self.table.iter().find(|(name, _)| name.as_ref() == key)
    }

    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let (name, value) = self.entry(key)?;
        self.source
            .origins
            .borrow_mut()
            .insert(self.dotted(key), self.source.place(name.span().start));
        Some(value)
    }

    fn wrong_type(&self, key: &str, wanted: &str, found: &DeValue<'_>) -> ConfigError {
        self.error(
            key,
            format!("must be {wanted}, not {}", type_word(found)),
            format!("change it to {wanted}"),
        )
    }

    /// True when the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    fn complete(&self, key: &str, raw: &str) -> Result<String, ConfigError> {
        match interpolate(raw, self.missing, self.source.env) {
            Ok((text, _)) => Ok(text),
            Err(Fault::Missing(name)) => Err(self.error(
                key,
                format!("environment variable {name} is not set"),
                format!("export {name}, or write `$$` for a dollar sign"),
            )),
            Err(Fault::Malformed) => Err(self.error(
                key,
                "has a `${` that is not `${NAME}`",
                "write `${NAME}`, or `$$` for a dollar sign",
            )),
        }
    }

    /// A text with its variables put in.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(raw)) => self.complete(key, raw).map(Some),
            Some(other) => Err(self.wrong_type(key, "a text", other)),
        }
    }

    /// A name: a text that is not empty and has no control characters or outer spaces (N-04).
    pub(super) fn name(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        self.check_name(key, &text)?;
        Ok(Some(text))
    }

    /// A name that must be there.
    pub(super) fn required_name(
        &self,
        key: &'static str,
        fix: &str,
    ) -> Result<String, ConfigError> {
        self.name(key)?
            .ok_or_else(|| self.error(key, "is missing", fix))
    }

    fn check_name(&self, key: &str, text: &str) -> Result<(), ConfigError> {
        let problem = if text.is_empty() {
            "is empty"
        } else if text.ends_with(['\n', '\r']) {
            "ends with a line break"
        } else if text.chars().any(char::is_control) {
            "has a control character in it"
        } else if text.trim() != text {
            "starts or ends with a space"
        } else if text.len() > 255 {
            "is longer than 255 bytes"
        } else {
            return Ok(());
        };
        Err(self.error(
            key,
            problem,
            "a broker or database would look for another name; write the name exactly \
             (a variable filled by a command often ends with a line break)",
        ))
    }

    /// A duration.
    pub(super) fn duration(&self, key: &'static str) -> Result<Option<Duration>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(raw)) => {
                let text = self.complete(key, raw)?;
                duration::parse(&text)
                    .map(Some)
                    .map_err(|problem| self.error(key, problem, duration::FORM))
            }
            Some(DeValue::Integer(_)) => Err(self.error(key, "has no unit", duration::FORM)),
            Some(other) => Err(self.wrong_type(key, "a duration such as \"30s\"", other)),
        }
    }

    /// A whole number within bounds.
    pub(super) fn integer(
        &self,
        key: &'static str,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Integer(number)) => u64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .filter(|number| bounds.contains(number))
                .map(Some)
                .ok_or_else(|| {
                    self.error(
                        key,
                        "is out of bounds",
                        format!("use {} to {}", bounds.start(), bounds.end()),
                    )
                }),
            Some(other) => Err(self.wrong_type(key, "a whole number", other)),
        }
    }

    /// True or false.
    pub(super) fn boolean(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_type(key, "true or false", other)),
        }
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
        let items = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::Array(items)) => items,
            Some(other) => return Err(self.wrong_type(key, "a list of texts", other)),
        };
        items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(raw) => self.complete(key, raw),
                other => Err(self.wrong_type(key, "a list of texts", other)),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    }

    /// A list of names.
    pub(super) fn names(&self, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
        let names = self.texts(key)?;
        for name in names.iter().flatten() {
            self.check_name(key, name)?;
        }
        Ok(names)
    }

    fn child(&self, path: String, table: &'a DeTable<'a>, offset: usize) -> Self {
        Self::new(self.source, path, table, offset, self.missing)
    }

    /// A table inside this one.
    pub(super) fn section(&self, key: &'static str) -> Result<Option<Self>, ConfigError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let offset = self
            .entry(key)
            .map_or(self.offset, |(name, _)| name.span().start);
        match value.get_ref() {
            DeValue::Table(table) => Ok(Some(self.child(self.dotted(key), table, offset))),
            other => Err(self.wrong_type(key, "a table", other)),
        }
    }

    /// A list of tables (`[[key]]`).
    pub(super) fn sections(&self, key: &'static str) -> Result<Vec<Self>, ConfigError> {
        let items = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(Vec::new()),
            Some(DeValue::Array(items)) => items,
            Some(other) => return Err(self.wrong_type(key, "a list of tables", other)),
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| match item.get_ref() {
                DeValue::Table(table) => Ok(self.child(
                    format!("{}[{index}]", self.dotted(key)),
                    table,
                    item.span().start,
                )),
                other => Err(self.wrong_type(key, "a list of tables", other)),
            })
            .collect()
    }

    /// Every entry of this table as a named table, in the order of the file.
    pub(super) fn named_sections(&self) -> Result<Vec<(String, Self)>, ConfigError> {
        let mut out = Vec::new();
        for (name, value) in self.table {
            let offset = name.span().start;
            match value.get_ref() {
                DeValue::Table(table) => out.push((
                    offset,
                    name.get_ref().to_string(),
                    self.child(self.dotted(name.get_ref()), table, offset),
                )),
                other => return Err(self.wrong_type(name.get_ref(), "a table", other)),
            }
        }
        out.sort_by_key(|(offset, ..)| *offset);
        Ok(out
            .into_iter()
            .map(|(_, name, section)| (name, section))
            .collect())
    }

    /// Refuses every key that is not one of `known`, before anything else is looked at: a key with a
    /// typing error would otherwise be told as a missing one.
    pub(super) fn only(&self, known: &[&'static str]) -> Result<(), ConfigError> {
        let unknown = self
            .table
            .keys()
            .filter(|name| !known.contains(&name.get_ref().as_ref()))
            .min_by_key(|name| name.span().start);
        let Some(name) = unknown else {
            return Ok(());
        };
        let near = similar::get_close_matches(name.get_ref().as_ref(), known, 1, 0.6);
        let fix = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys here: {}", known.join(", ")),
        };
        Err(self.error(name.get_ref(), "is not a known key", fix))
    }
}

fn type_word(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
