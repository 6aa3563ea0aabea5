//! The vocabulary a layout is written in: one table as a source of events, in TOML.
//!
//! * `fields`: logical name → `"column"` or `{ col = "column", as = "codec" }`. Codecs taken so far:
//!   `text`, `int`, `json`, `bytes`, `time` (UTC: `DATETIME(6)` on MySQL and MariaDB, microseconds
//!   since the epoch on SQLite).
//! * `state`: ordered rules `{ is = "pending", when = { status = "WORD" } }`; the words are
//!   `pending`, `claimed`, `done`, `dead`.
//! * `indexes`: the names our migrations give the keys; a live server is asked for its own.
//! * `replay`, `release`: `how = "update" | "none"`, `from`, `set` with literals, `$now`, `$null`;
//!   `safety = "safe" | "duplicates" | "needs-app" | "unsupported"`, `because` for people.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::identifier::Identifier;

/// What a table is to the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Events to be sent.
    Outbox,
    /// Events consumed.
    Inbox,
    /// Events nobody tries again.
    Deadletter,
    /// Saga instances.
    Saga,
}

/// How a column's value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// Characters.
    #[default]
    Text,
    /// A whole number.
    Int,
    /// JSON text.
    Json,
    /// Bytes.
    Bytes,
    /// An instant in UTC.
    Time,
}

/// Where a logical field is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Field {
    /// A text column.
    Column(Identifier),
    /// A column that needs decoding.
    Coded(CodedField),
}

/// A column with its codec.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodedField {
    /// Its name.
    pub col: Identifier,
    /// How it is stored.
    #[serde(rename = "as", default)]
    pub codec: Codec,
}

impl Field {
    /// The column's name.
    pub const fn column(&self) -> &Identifier {
        match self {
            Self::Column(name) => name,
            Self::Coded(coded) => &coded.col,
        }
    }

    /// How it is stored.
    pub const fn codec(&self) -> Codec {
        match self {
            Self::Column(_) => Codec::Text,
            Self::Coded(coded) => coded.codec,
        }
    }
}

/// A state as the vocabulary names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateName {
    /// Waits.
    Pending,
    /// Held by a dispatcher.
    Claimed,
    /// Sent, or consumed.
    Done,
    /// Nobody will try again by itself.
    Dead,
}

/// One rule: a row whose columns hold these words is in this state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRule {
    /// The state.
    pub is: StateName,
    /// Field → word; empty: always.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
}

/// How an action is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// One guarded UPDATE.
    Update,
    /// Not at all.
    #[default]
    None,
}

/// What an action risks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SafetyWord {
    /// Fenced.
    Safe,
    /// A consumer may see the event twice.
    Duplicates,
    /// Nothing happens until the application acts.
    NeedsApp,
    /// Cannot be done.
    #[default]
    Unsupported,
}

/// A value an action writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum SetValue {
    /// A number.
    Int(i64),
    /// A word, `$now` or `$null`.
    Word(String),
}

/// An operator's action on a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// How.
    #[serde(default)]
    pub how: How,
    /// States it may start from.
    #[serde(default)]
    pub from: Vec<StateName>,
    /// Field → value.
    #[serde(default)]
    pub set: BTreeMap<String, SetValue>,
    /// What it risks.
    #[serde(default)]
    pub safety: SafetyWord,
    /// Why, for the console.
    #[serde(default)]
    pub because: String,
}

/// One table of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// What it is.
    pub kind: Kind,
    /// Databases the layout exists on.
    pub db: Vec<String>,
    /// Its name, unless a configuration overrides it.
    pub table: Identifier,
    /// Logical field → column.
    #[serde(default)]
    pub fields: BTreeMap<String, Field>,
    /// Rules, first match wins.
    #[serde(default)]
    pub state: Vec<StateRule>,
    /// Logical key → index name of our migrations.
    #[serde(default)]
    pub indexes: BTreeMap<String, Identifier>,
    /// Replay.
    #[serde(default)]
    pub replay: Action,
    /// Release.
    #[serde(default)]
    pub release: Action,
}

impl Source {
    /// The column of a field.
    pub fn column(&self, field: &str) -> Option<&Identifier> {
        self.fields.get(field).map(Field::column)
    }
}
