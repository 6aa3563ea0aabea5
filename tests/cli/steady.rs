//! Answers without what differs from run to run: times, made-up ids, measured seconds.

use std::collections::BTreeMap;

use serde_json::Value;

/// Texts whose content is made anew in every run.
const VOLATILE: [&str; 10] = [
    "problems",
    "sentence",
    "hash",
    "previous_hash",
    "plan_digest",
    "digest",
    "plan",
    "detail",
    "actor",
    "command_line",
];

/// A JSON answer made the same for every run; `home` becomes `DIR`.
pub fn steady(json: &Value, home: &str) -> String {
    let mut ids = Ids::default();
    let mut value = json.clone();
    walk("", &mut value, &mut ids, home);
    serde_json::to_string_pretty(&value).expect("json")
}

/// Made-up ids, numbered in the order they appear.
#[derive(Default)]
struct Ids {
    seen: BTreeMap<String, usize>,
}

impl Ids {
    fn name(&mut self, id: &str) -> String {
        let next = self.seen.len() + 1;
        format!("ID-{}", self.seen.entry(id.to_owned()).or_insert(next))
    }
}

fn walk(key: &str, value: &mut Value, ids: &mut Ids, home: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                walk(key, value, ids, home);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(key, item, ids, home)),
        Value::String(_) if VOLATILE.contains(&key) => *value = key.to_uppercase().into(),
        Value::String(text) => *text = steady_text(text, ids, home),
        Value::Number(_) if is_measured(key) => *value = 0.into(),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn is_measured(key: &str) -> bool {
    key.ends_with("_s") || key.ends_with("_us") || key.ends_with("_per_min")
}

fn steady_text(text: &str, ids: &mut Ids, home: &str) -> String {
    let text = text.replace(home, "DIR");
    let words = text.split(' ').map(|word| {
        let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
        if redrive::base::clock::Timestamp::parse_rfc3339(word).is_some() {
            "TIME".to_owned()
        } else if is_id(word) && !word.starts_with("0197c3f2-") {
            ids.name(word)
        } else {
            word.to_owned()
        }
    });
    let text = words.collect::<Vec<_>>().join(" ");
    if text.starts_with("SQLite ") {
        return "SQLite VERSION".to_owned();
    }
    text
}
