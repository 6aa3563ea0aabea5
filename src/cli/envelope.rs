//! The one JSON object every command answers with (product.md section 8), and the other three forms
//! of the same answer.

use serde::Serialize;
use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::digest::hex;
use crate::model::count::Count;
use crate::observe::snapshot::{PerService, Unread};

use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;

/// Name and version of the schema. A field may be added under the same number; none is renamed.
pub const SCHEMA: &str = "redrive/1";

/// What a command answers, in every form.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the items are, e.g. `dead_letters`.
    pub kind: &'static str,
    /// Context, where there is one.
    pub context: Option<String>,
    /// When it was read, on our clock.
    pub as_of: Timestamp,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// The items.
    pub items: Vec<Value>,
    /// For pages: whether there is more than was read.
    pub more: Option<bool>,
    /// For pages: how many there are in all, as far as known.
    pub total: Option<Count>,
    /// For what is judged: looks it was judged by.
    pub looks: Option<u32>,
    /// Lines above the table.
    pub head: Vec<String>,
    /// The items for people.
    pub table: Table,
    /// Lines under the table.
    pub notes: Vec<String>,
    /// The exit code, if everything could be read.
    pub exit: Exit,
    /// True: the exit code, whatever could be read.
    pub is_exit_fixed: bool,
}

#[derive(Serialize)]
struct Envelope<'a> {
    schema: &'static str,
    kind: &'a str,
    context: &'a Option<String>,
    as_of: Timestamp,
    complete: bool,
    unread: &'a [Unread],
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    looks: Option<u32>,
    items: &'a [Value],
}

impl Answer {
    /// An empty answer.
    pub fn new(kind: &'static str, context: Option<&str>, as_of: Timestamp) -> Self {
        Self {
            kind,
            context: context.map(str::to_owned),
            as_of,
            unread: Vec::new(),
            items: Vec::new(),
            more: None,
            total: None,
            looks: None,
            head: Vec::new(),
            table: Table::default(),
            notes: Vec::new(),
            exit: Exit::Fine,
            is_exit_fixed: false,
        }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn item(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        self.items.push(serde_json::to_value(item)?);
        Ok(())
    }

    /// Adds an item with the service it was read from as its first field.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn item_of(&mut self, service: &str, item: &impl Serialize) -> Result<(), Failure> {
        let mut fields = serde_json::Map::new();
        fields.insert("service".to_owned(), Value::from(service));
        match serde_json::to_value(item)? {
            Value::Object(rest) => fields.extend(rest),
            other => {
                fields.insert("value".to_owned(), other);
            }
        }
        self.items.push(Value::Object(fields));
        Ok(())
    }

    /// The value of a service's part; what is missing is noted as unread.
    pub fn part<'a, T>(&mut self, part: &'a PerService<T>) -> Option<&'a T> {
        if let Some(unread) = &part.unread
            && !self.unread.contains(unread)
        {
            self.unread.push(unread.clone());
        }
        part.value.as_ref()
    }

    /// Says `words` when the list is empty and everything was read: what could not be read is not
    /// none.
    pub fn note_if_empty(&mut self, words: &str) {
        if self.items.is_empty() && self.unread.is_empty() {
            self.notes.insert(0, words.to_owned());
        }
    }

    /// The exit code, given what could not be read.
    pub fn exit(&self) -> Exit {
        if self.unread.is_empty() || self.is_exit_fixed {
            self.exit
        } else {
            Exit::Unreachable
        }
    }

    /// The JSON object, indented for people when `is_pretty`.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn json(&self, is_pretty: bool) -> Result<String, Failure> {
        let envelope = Envelope {
            schema: SCHEMA,
            kind: self.kind,
            context: &self.context,
            as_of: self.as_of,
            complete: self.unread.is_empty(),
            unread: &self.unread,
            more: self.more,
            total: self.total,
            looks: self.looks,
            items: &self.items,
        };
        let text = if is_pretty {
            serde_json::to_string_pretty(&envelope)?
        } else {
            serde_json::to_string(&envelope)?
        };
        Ok(terminal_safe(&text) + "\n")
    }

    /// One item a line.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn ndjson(&self) -> Result<String, Failure> {
        let mut out = String::new();
        for item in &self.items {
            out.push_str(&terminal_safe(&serde_json::to_string(item)?));
            out.push('\n');
        }
        Ok(out)
    }

    /// For people.
    pub fn text(&self, columns: Option<usize>) -> String {
        let mut lines = self.head.clone();
        if !self.head.is_empty() && !self.table.is_empty() {
            lines.push(String::new());
        }
        if !self.table.is_empty() || self.head.is_empty() {
            lines.extend(self.table.lines(columns));
        }
        let unread = self.unread_lines();
        let has_tail = !self.notes.is_empty() || !unread.is_empty();
        if has_tail && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(self.notes.iter().cloned());
        lines.extend(unread);
        lines.push(String::new());
        lines.join("\n")
    }

    /// One line for everything that could not be read.
    pub fn unread_lines(&self) -> Vec<String> {
        let line = |u: &Unread| {
            let text = format!("unread: {}: {}", u.what, u.reason);
            crate::base::text::safe(&text)
        };
        self.unread.iter().map(line).collect()
    }
}

/// The same JSON with every character escaped that a terminal could act on or that could hide: JSON
/// leaves DEL, C1 and bidirectional overrides as they are (P-10).
fn terminal_safe(json: &str) -> String {
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let is_harmful = c != '\n' && {
            let mut one = [0; 4];
            crate::base::text::safe(c.encode_utf8(&mut one)) != one_str(&one, c)
        };
        if is_harmful {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str("\\u");
                out.push_str(&hex(&unit.to_be_bytes()));
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn one_str(bytes: &[u8; 4], c: char) -> &str {
    bytes
        .get(..c.len_utf8())
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer::new(
            "dead_letters",
            Some("shop"),
            Timestamp::from_micros(1_767_323_045_678_901),
        )
    }

    #[test]
    fn x_02_an_empty_answer_is_one_object() {
        assert_eq!(
            answer().json(false).expect("json"),
            "{\"schema\":\"redrive/1\",\"kind\":\"dead_letters\",\"context\":\"shop\",\
             \"as_of\":\"2026-01-02T03:04:05.678901Z\",\"complete\":true,\"unread\":[],\"items\":[]}\n"
        );
        assert_eq!(answer().ndjson().expect("ndjson"), "");
    }

    #[test]
    fn what_could_not_be_read_makes_the_answer_incomplete() {
        let mut answer = answer();
        answer.unread.push(Unread {
            what: "outbox of orders".into(),
            reason: "down".into(),
            is_unreachable: true,
        });
        assert_eq!(answer.exit(), Exit::Unreachable);
        let json = answer.json(false).expect("json");
        assert!(json.contains("\"complete\":false"), "{json}");
        assert!(answer.text(None).contains("unread: outbox of orders: down"));
    }

    #[test]
    fn p_10_json_cannot_act_on_a_terminal_and_stays_equal() {
        let mut answer = answer();
        let wild = "\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\u{202e}\u{e0001} 注文";
        answer
            .item(&serde_json::json!({ "error": wild }))
            .expect("item");
        let json = answer.json(false).expect("json");
        assert!(!json.contains(['\u{1b}', '\u{9b}', '\u{7f}', '\u{202e}', '\u{e0001}']));
        assert!(json.contains("注文"));
        let back: Value = serde_json::from_str(&json).expect("valid");
        assert_eq!(back["items"][0]["error"], wild);
    }
}
