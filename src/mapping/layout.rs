//! A layout: the sources of one preset, read and checked once.

use serde::Deserialize;

use super::identifier::Identifier;
use super::source::{Action, Codec, How, Kind, SafetyWord, SetValue, Source, StateName};

/// A layout that cannot be used: names the preset and the entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout {layout}: {problem}")]
pub struct LayoutError {
    /// Which.
    pub layout: String,
    /// What is wrong.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    outbox: Option<Source>,
    inbox: Option<Source>,
    dead_letters: Option<Source>,
    sagas: Option<Source>,
}

/// One preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in configurations.
    pub name: String,
    /// Its outbox.
    pub outbox: Option<OutboxLayout>,
    /// Its inbox.
    pub inbox: Option<InboxLayout>,
    /// Its dead-letter table; the columns are ours.
    pub dead_letters: Option<Identifier>,
    /// Its saga table; the columns are ours.
    pub sagas: Option<Identifier>,
}

/// The words a status column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWords {
    /// Waits.
    pub pending: String,
    /// Claimed.
    pub sending: String,
    /// Confirmed and marked.
    pub sent: String,
    /// Given up.
    pub failed: String,
}

/// An outbox table: which column plays which part. `None`: this layout has no such column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxLayout {
    /// Layout's name, for reasons shown to people.
    pub layout: String,
    /// Table.
    pub table: Identifier,
    /// Identity of an event.
    pub id: Identifier,
    /// Kind of the aggregate, where the table wants one.
    pub source: Option<Identifier>,
    /// Aggregate.
    pub key: Identifier,
    /// Version in the aggregate's sequence.
    pub seq: Option<Identifier>,
    /// Event type.
    pub event_type: Identifier,
    /// Version of the payload's shape.
    pub schema_version: Option<Identifier>,
    /// Bytes to send.
    pub payload: Identifier,
    /// Extra headers with types.
    pub headers: Option<Identifier>,
    /// Exchange override.
    pub destination: Option<Identifier>,
    /// Routing key override.
    pub routing_key: Option<Identifier>,
    /// Trace id.
    pub trace_id: Option<Identifier>,
    /// Cause.
    pub causation_id: Option<Identifier>,
    /// Status word.
    pub status: Identifier,
    /// What the status column holds.
    pub words: StateWords,
    /// Attempts.
    pub attempts: Identifier,
    /// When it may be claimed.
    pub due_at: Identifier,
    /// Claim token.
    pub token: Option<Identifier>,
    /// Lease.
    pub lease_until: Option<Identifier>,
    /// Last error.
    pub last_error: Option<Identifier>,
    /// Written by the business transaction.
    pub created_at: Identifier,
    /// When it was marked sent.
    pub sent_at: Option<Identifier>,
    /// Last change, where the table wants it kept.
    pub updated_at: Option<Identifier>,
    /// Index names of our own migrations, until the server's are known.
    pub indexes: OutboxIndexes,
    /// A failed row back to pending.
    pub replay: ColumnAction,
    /// A claimed row back to pending.
    pub release: ColumnAction,
}

/// Which index serves which question; `None`: the question is not asked of this table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxIndexes {
    /// (status, due): claims, pending and failed pages.
    pub due: Option<Identifier>,
    /// (status, lease): leases.
    pub lease: Option<Identifier>,
    /// (status, created): newest first, oldest age.
    pub created: Option<Identifier>,
    /// (aggregate, …): look-ups by aggregate.
    pub key: Option<Identifier>,
}

/// An action with its columns found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnAction {
    /// False: cannot be done.
    pub is_possible: bool,
    /// Column and what it gets, in a fixed order.
    pub set: Vec<(Identifier, ColumnValue)>,
    /// What it risks.
    pub safety: SafetyWord,
    /// Why.
    pub because: String,
}

/// What a column gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    /// A number.
    Int(i64),
    /// A word, bound as a value.
    Word(String),
    /// The database's clock.
    Now,
    /// NULL.
    Null,
}

/// An inbox table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxLayout {
    /// Layout's name.
    pub layout: String,
    /// Table.
    pub table: Identifier,
    /// Event id.
    pub id: Identifier,
    /// Consumer; `None`: the table belongs to one consumer.
    pub consumer: Option<Identifier>,
    /// When it was consumed.
    pub processed_at: Identifier,
    /// Digest of what was consumed.
    pub payload_sha256: Option<Identifier>,
    /// Index on (consumer, processed) or (processed).
    pub done_index: Option<Identifier>,
}

impl Layout {
    /// Reads a preset.
    ///
    /// # Errors
    /// [`LayoutError`] names what is missing or cannot be said yet.
    pub fn parse(name: &str, text: &str) -> Result<Self, LayoutError> {
        let fail = |problem: String| LayoutError {
            layout: name.to_owned(),
            problem,
        };
        let sources: Sources = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
        let kind_of = |source: Option<Source>, kind: Kind| match source {
            Some(source) if source.kind != kind => {
                Err(fail(format!("{} is not a {kind:?}", source.table)))
            }
            other => Ok(other),
        };
        let outbox = kind_of(sources.outbox, Kind::Outbox)?
            .map(|source| outbox(name, &source).map_err(fail))
            .transpose()?;
        let inbox = kind_of(sources.inbox, Kind::Inbox)?
            .map(|source| inbox(name, &source).map_err(fail))
            .transpose()?;
        Ok(Self {
            name: name.to_owned(),
            outbox,
            inbox,
            dead_letters: kind_of(sources.dead_letters, Kind::Deadletter)?.map(|s| s.table),
            sagas: kind_of(sources.sagas, Kind::Saga)?.map(|s| s.table),
        })
    }
}

fn required(source: &Source, field: &str) -> Result<Identifier, String> {
    source
        .column(field)
        .cloned()
        .ok_or_else(|| format!("{}: field `{field}` is missing", source.table))
}

fn required_time(source: &Source, field: &str) -> Result<Identifier, String> {
    let column = required(source, field)?;
    match source.fields.get(field).map(super::source::Field::codec) {
        Some(Codec::Time) => Ok(column),
        _ => Err(format!(
            "{}: field `{field}` must be written {{ col = \"{column}\", as = \"time\" }}",
            source.table
        )),
    }
}

fn optional(source: &Source, field: &str) -> Option<Identifier> {
    source.column(field).cloned()
}

fn word(source: &Source, state: StateName) -> Result<String, String> {
    source
        .state
        .iter()
        .find(|rule| rule.is == state)
        .and_then(|rule| match rule.when.iter().next() {
            Some((field, word)) if field == "status" && rule.when.len() == 1 => Some(word.clone()),
            _ => None,
        })
        .ok_or_else(|| {
            format!(
                "{}: state {state:?} needs one rule {{ when = {{ status = \"WORD\" }} }}",
                source.table
            )
        })
}

fn action(source: &Source, action: &Action) -> Result<ColumnAction, String> {
    let set = action
        .set
        .iter()
        .map(|(field, value)| {
            let value = match value {
                SetValue::Int(n) => ColumnValue::Int(*n),
                SetValue::Word(word) if word == "$now" => ColumnValue::Now,
                SetValue::Word(word) if word == "$null" => ColumnValue::Null,
                SetValue::Word(word) if word.starts_with('$') => {
                    return Err(format!("{}: value {word} is not known", source.table));
                }
                SetValue::Word(word) => ColumnValue::Word(word.clone()),
            };
            Ok((required(source, field)?, value))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let is_possible = action.how == How::Update && action.safety != SafetyWord::Unsupported;
    if is_possible && set.is_empty() {
        return Err(format!(
            "{}: an update sets at least one field",
            source.table
        ));
    }
    Ok(ColumnAction {
        is_possible,
        set,
        safety: action.safety,
        because: action.because.clone(),
    })
}

fn outbox(layout: &str, source: &Source) -> Result<OutboxLayout, String> {
    Ok(OutboxLayout {
        layout: layout.to_owned(),
        table: source.table.clone(),
        id: required(source, "id")?,
        source: optional(source, "source"),
        key: required(source, "key")?,
        seq: optional(source, "seq"),
        event_type: required(source, "type")?,
        schema_version: optional(source, "schema_version"),
        payload: required(source, "payload")?,
        headers: optional(source, "headers"),
        destination: optional(source, "destination"),
        routing_key: optional(source, "routing_key"),
        trace_id: optional(source, "trace_id"),
        causation_id: optional(source, "causation_id"),
        status: required(source, "status")?,
        words: StateWords {
            pending: word(source, StateName::Pending)?,
            sending: word(source, StateName::Claimed)?,
            sent: word(source, StateName::Done)?,
            failed: word(source, StateName::Dead)?,
        },
        attempts: required(source, "attempts")?,
        due_at: required_time(source, "due_at")?,
        token: optional(source, "owner"),
        lease_until: optional(source, "claimed_until"),
        last_error: optional(source, "error"),
        created_at: required_time(source, "created_at")?,
        sent_at: optional(source, "done_at"),
        updated_at: optional(source, "updated_at"),
        indexes: OutboxIndexes {
            due: source.indexes.get("due").cloned(),
            lease: source.indexes.get("lease").cloned(),
            created: source.indexes.get("created").cloned(),
            key: source.indexes.get("key").cloned(),
        },
        replay: action(source, &source.replay)?,
        release: action(source, &source.release)?,
    })
}

fn inbox(layout: &str, source: &Source) -> Result<InboxLayout, String> {
    Ok(InboxLayout {
        layout: layout.to_owned(),
        table: source.table.clone(),
        id: required(source, "id")?,
        consumer: optional(source, "group"),
        processed_at: required_time(source, "done_at")?,
        payload_sha256: optional(source, "payload_sha256"),
        done_index: source.indexes.get("done").cloned(),
    })
}
