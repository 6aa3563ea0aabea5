//! The one filter language of the console and the command line:
//!
//! ```text
//! type:order.created age>10m key:8812 error~timeout payload.total>100 !owner:mia "two words"
//! ```
//!
//! Terms are separated by blanks and must all hold; `!` in front negates one. `:` is equality (`*`
//! stands for any run of characters), `~` is "contains" whatever the case, `> >= < <=` compare.
//! A value with blanks stands in `"…"`, where `\"`, `\\` and `\*` mean the character itself. A term
//! without a field is searched for in every text field.
//!
//! Numbers are compared as decimal text of any length, never as floating point (P-06). A field
//! without a value counts as the empty text and as no number: `owner:""` finds what nobody owns, and
//! `attempts>3` never holds for a layout that has no attempts.

mod decimal;
mod fields;
mod parse;
mod rows;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::base::clock::Timestamp;

use decimal::Decimal;

pub use fields::{Completion, FieldKind, FieldSpec, FilterKind};
pub use rows::InService;

/// A parsed filter: terms that must all hold. The empty filter matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    is_negated: bool,
    test: Test,
}

/// What a term asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// Found in any text field.
    Word(String),
    /// A named field (or payload path) compared with a value.
    Field {
        name: String,
        operator: Operator,
        /// Cut at its wildcards: one piece = no wildcard. Only `:` has several.
        pieces: Vec<String>,
    },
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    Contains,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Operator {
    /// Longest sign first, so that `>=` is not read as `>`.
    const ALL: [Self; 6] = [
        Self::GreaterOrEqual,
        Self::LessOrEqual,
        Self::Greater,
        Self::Less,
        Self::Equals,
        Self::Contains,
    ];

    const fn sign(self) -> &'static str {
        match self {
            Self::Equals => ":",
            Self::Contains => "~",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }

    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equals => order.is_eq(),
            Self::Contains => false,
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

/// Why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, column {column}, `{term}`: {problem}; {allowed}")]
pub struct FilterError {
    /// Where the term starts, in characters from 1.
    pub column: usize,
    /// The term as typed.
    pub term: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub allowed: String,
}

/// A row's value under one field name.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldText<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Several texts: a term holds when it holds for one.
    Any(Vec<Cow<'a, str>>),
    /// A decimal number.
    Number(String),
    /// An instant; compared by its age.
    At(Timestamp),
    /// Seconds.
    Seconds(f64),
}

/// A row that can be filtered.
pub trait Fields {
    /// Which fields it has.
    fn kind(&self) -> FilterKind;
    /// The value under one of its kind's field names; `None` when it has none or it is not known.
    fn field(&self, name: &str) -> Option<FieldText<'_>>;
    /// The payload's text, where the row carries its payload and that is text.
    fn payload(&self) -> Option<&str> {
        None
    }
}

/// What a store can select by itself. Everything else is tested row by row with
/// [`Filter::matches`], which is right to call for these terms too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushdown {
    /// `service:`.
    pub service: Option<String>,
    /// `state:` or `status:`.
    pub state: Option<String>,
    /// `type:`.
    pub event_type: Option<String>,
    /// `consumer:`.
    pub consumer: Option<String>,
    /// `class:`.
    pub error_class: Option<String>,
}

impl Filter {
    /// Reads a filter whose fields belong to at least one kind of row.
    ///
    /// # Errors
    /// [`FilterError`] names the column, the term and what is allowed there.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text, None)
    }

    /// Reads a filter for one kind of row.
    ///
    /// # Errors
    /// As [`Filter::parse`], and for a field that this kind does not have.
    pub fn parse_for(kind: FilterKind, text: &str) -> Result<Self, FilterError> {
        parse::parse(text, Some(kind))
    }

    /// Reads a filter that is typed to its end.
    ///
    /// # Errors
    /// As [`Filter::parse_for`], and for a value that the field can never have.
    pub fn parse_whole(kind: FilterKind, text: &str) -> Result<Self, FilterError> {
        parse::parse_whole(text, kind)
    }

    /// The fields of a kind of row, in the order help shows them.
    pub const fn known_fields(kind: FilterKind) -> &'static [FieldSpec] {
        fields::known(kind)
    }

    /// What may follow at the end of `typed`.
    pub fn completions(kind: FilterKind, typed: &str) -> Vec<Completion> {
        fields::completions(kind, typed)
    }

    /// True when it matches everything.
    pub const fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms that a list row can answer. A row matches when these do and [`Self::payload_terms`] do.
    pub fn row_terms(&self) -> Self {
        self.part(|term| !term.needs_payload())
    }

    /// The terms that need the payload, which list rows do not carry; `None` when there are none.
    pub fn payload_terms(&self) -> Option<Self> {
        Some(self.part(Term::needs_payload)).filter(|part| !part.is_empty())
    }

    fn part(&self, is_wanted: impl Fn(&Term) -> bool) -> Self {
        let terms = self.terms.iter().filter(|term| is_wanted(term));
        Self {
            terms: terms.cloned().collect(),
        }
    }

    /// Whether every term holds for `row` at the instant `now` (ages are measured from it).
    pub fn matches(&self, row: &dyn Fields, now: Timestamp) -> bool {
        self.terms
            .iter()
            .all(|term| term.test.holds(row, now) != term.is_negated)
    }

    /// The terms a store can select by: equalities without wildcard that are not negated. Of two on
    /// one field the first is given.
    pub fn pushdown(&self) -> Pushdown {
        let mut out = Pushdown::default();
        for term in self.terms.iter().filter(|term| !term.is_negated) {
            let Some((name, value)) = term.test.whole_value() else {
                continue;
            };
            let slot = match name {
                "service" => &mut out.service,
                "state" | "status" => &mut out.state,
                "type" => &mut out.event_type,
                "consumer" => &mut out.consumer,
                "class" => &mut out.error_class,
                _ => continue,
            };
            slot.get_or_insert_with(|| value.to_owned());
        }
        out
    }
}

impl Term {
    fn needs_payload(&self) -> bool {
        matches!(&self.test, Test::Field { name, .. } if fields::is_payload(name))
    }
}

impl Test {
    /// Field and value of an equality without a wildcard.
    fn whole_value(&self) -> Option<(&str, &str)> {
        match self {
            Self::Field {
                name,
                operator: Operator::Equals,
                pieces,
            } => match pieces.as_slice() {
                [value] => Some((name, value)),
                _ => None,
            },
            _ => None,
        }
    }

    fn holds(&self, row: &dyn Fields, now: Timestamp) -> bool {
        match self {
            Self::Word(word) => has_word(row, word),
            Self::Field {
                name,
                operator,
                pieces,
            } => {
                if fields::is_payload(name) {
                    return payload_holds(row.payload(), name, *operator, pieces);
                }
                match row.field(name) {
                    None => text_holds("", *operator, pieces),
                    Some(FieldText::Text(text)) => text_holds(&text, *operator, pieces),
                    Some(FieldText::Any(texts)) if texts.is_empty() => {
                        text_holds("", *operator, pieces)
                    }
                    Some(FieldText::Any(texts)) => {
                        texts.iter().any(|text| text_holds(text, *operator, pieces))
                    }
                    Some(FieldText::Number(number)) => number_holds(&number, *operator, pieces),
                    Some(FieldText::At(at)) => {
                        seconds_hold(now.seconds_since(at), *operator, pieces)
                    }
                    Some(FieldText::Seconds(seconds)) => seconds_hold(seconds, *operator, pieces),
                }
            }
        }
    }
}

fn has_word(row: &dyn Fields, word: &str) -> bool {
    fields::known(row.kind())
        .iter()
        .filter(|spec| spec.kind != FieldKind::Age)
        .filter_map(|spec| row.field(spec.name))
        .any(|value| match value {
            FieldText::Text(text) => contains(&text, word),
            FieldText::Any(texts) => texts.iter().any(|text| contains(text, word)),
            FieldText::Number(number) => number == word,
            FieldText::At(_) | FieldText::Seconds(_) => false,
        })
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

/// `*` between the pieces stands for any run of characters.
fn is_match(text: &str, pieces: &[String]) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_none_or(|only| only == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for piece in middle {
        // The leftmost place is as good as any: what follows only gets more room.
        match rest.split_once(piece.as_str()) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

fn text_holds(text: &str, operator: Operator, pieces: &[String]) -> bool {
    let value = pieces.first().map_or("", String::as_str);
    match operator {
        Operator::Equals => is_match(text, pieces),
        Operator::Contains => contains(text, value),
        Operator::Greater | Operator::GreaterOrEqual | Operator::Less | Operator::LessOrEqual => {
            match (Decimal::parse(text), Decimal::parse(value)) {
                (Some(left), Some(right)) => operator.holds(left.cmp(&right)),
                // Times in payloads (RFC 3339) order as text; a number and a word have no order.
                (None, None) if !text.is_empty() => operator.holds(text.cmp(value)),
                _ => false,
            }
        }
    }
}

fn number_holds(number: &str, operator: Operator, pieces: &[String]) -> bool {
    if let (Operator::Equals, [value]) = (operator, pieces)
        && let (Some(left), Some(right)) = (Decimal::parse(number), Decimal::parse(value))
    {
        return left == right;
    }
    text_holds(number, operator, pieces)
}

fn seconds_hold(seconds: f64, operator: Operator, pieces: &[String]) -> bool {
    pieces
        .first()
        .and_then(|value| parse::duration_s(value))
        .and_then(|limit| seconds.partial_cmp(&limit))
        .is_some_and(|order| operator.holds(order))
}

/// `payload` alone looks at the whole text, `payload.a.b` at the values under that path; a path
/// segment `*` means every element. Text that is no JSON (or nested too deep for the parser, P-09)
/// has no paths.
fn payload_holds(payload: Option<&str>, name: &str, operator: Operator, pieces: &[String]) -> bool {
    let Some(text) = payload else {
        return false;
    };
    let Some(path) = name.strip_prefix("payload.") else {
        return text_holds(text, operator, pieces);
    };
    let Ok(root) = serde_json::from_str::<Json>(text) else {
        return false;
    };
    let mut found = vec![&root];
    for segment in path.split('.') {
        found = found
            .into_iter()
            .flat_map(|value| children(value, segment))
            .collect();
    }
    found.into_iter().any(|value| match value {
        Json::Null => text_holds("null", operator, pieces),
        Json::Bool(flag) => text_holds(if *flag { "true" } else { "false" }, operator, pieces),
        Json::Number(number) => number_holds(&number.to_string(), operator, pieces),
        Json::String(text) => text_holds(text, operator, pieces),
        Json::Array(_) | Json::Object(_) => text_holds(&value.to_string(), operator, pieces),
    })
}

fn children<'a>(value: &'a Json, segment: &str) -> Vec<&'a Json> {
    match value {
        Json::Object(map) => match map.get(segment) {
            Some(child) => vec![child],
            None if segment == "*" => map.values().collect(),
            None => Vec::new(),
        },
        Json::Array(items) if segment == "*" => items.iter().collect(),
        Json::Array(items) => segment
            .parse::<usize>()
            .ok()
            .and_then(|index| items.get(index))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// The same filter in its shortest form; reading it back gives an equal filter.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            if term.is_negated {
                f.write_str("!")?;
            }
            match &term.test {
                Test::Word(word) => f.write_str(&parse::quoted_word(word))?,
                Test::Field {
                    name,
                    operator,
                    pieces,
                } => write!(
                    f,
                    "{name}{}{}",
                    operator.sign(),
                    parse::quoted_value(pieces)
                )?,
            }
        }
        Ok(())
    }
}
