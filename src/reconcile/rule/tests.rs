//! Classification of keys, from evidence that comes bit by bit.

use std::sync::Arc;

use rstest::rstest;

use super::classify::{Case, Known, Row, Verdict};
use crate::base::clock::Timestamp;
use crate::config::ScanRule;
use crate::config::scanning::pack;
use crate::store::Value;

fn rule() -> ScanRule {
    let text = r#"
[[rules]]
name = "r"
service = "a"
keys = "SELECT id, state, amount, changed_at FROM t WHERE id > :after ORDER BY id LIMIT :rows"
[[rules.evidence]]
name = "stock"
service = "a"
sql = "SELECT id, state, amount FROM s WHERE id IN (:keys)"
[[rules.evidence]]
name = "letter"
service = "a"
by = "stock.state"
sql = "SELECT id, state FROM l WHERE id IN (:keys)"
[[rules.classes]]
class = "fine"
when = ["key.state = done", "stock.amount = key.amount"]
[[rules.classes]]
class = "other_amount"
when = ["key.state = done", "stock.amount != key.amount"]
says = "{key}: {stock.amount} is not {key.amount} ({letter.state})"
[[rules.classes]]
class = "no_stock"
when = ["key.state in done, new", "stock absent"]
"#;
    pack("r.toml", text, &["a"]).expect("reads").remove(0)
}

fn row(columns: &[&str], values: Vec<Value>) -> Row {
    Row {
        columns: Arc::new(columns.iter().map(|c| (*c).to_owned()).collect()),
        values,
    }
}

fn case(state: &str) -> Case {
    let state = Value::Text(state.to_owned());
    Case::new(row(
        &["id", "state", "amount", "changed_at"],
        vec![Value::Int(7), state, Value::Int(10), Value::Int(1_000_000)],
    ))
}

fn stock(amount: Value) -> Known {
    let columns = ["id", "state", "amount"];
    let values = vec![Value::Int(7), Value::Text("x".to_owned()), amount];
    Known::Row(row(&columns, values))
}

#[test]
fn evidence_is_asked_for_only_when_a_class_needs_it() {
    let rule = rule();
    let mut case = case("cancelled");
    assert_eq!(case.verdict(&rule), Verdict::Fine, "its own row decides");
    case = self::case("done");
    assert_eq!(case.verdict(&rule), Verdict::Needs("stock".to_owned()));
    case.learn("stock", stock(Value::Text("10".to_owned())));
    assert_eq!(
        case.verdict(&rule),
        Verdict::Class(0),
        "texts and numbers compare"
    );
}

#[rstest]
#[case(stock(Value::Int(9)), Verdict::Needs("letter".to_owned()))]
#[case(stock(Value::Null), Verdict::Needs("letter".to_owned()))]
#[case(Known::Absent, Verdict::Class(2))]
#[case(Known::Unread, Verdict::NotCompared)]
fn what_is_absent_unread_or_null_is_not_the_same(#[case] known: Known, #[case] expected: Verdict) {
    let mut case = case("done");
    case.learn("stock", known);
    assert_eq!(case.verdict(&rule()), expected);
}

#[test]
fn a_finding_shows_what_was_looked_at_and_what_was_not_there() {
    let rule = rule();
    let mut case = case("done");
    case.learn("stock", stock(Value::Int(9)));
    case.learn("letter", Known::Absent);
    assert_eq!(case.verdict(&rule), Verdict::Class(1));
    let says = rule.classes[1].says.as_ref().expect("says");
    assert_eq!(case.rendered(says), "7: 9 is not 10 (?)");
    assert_eq!(case.changed_at(), Some(Timestamp::from_micros(1_000_000)));
    let facts: Vec<(String, Option<String>)> = case
        .facts()
        .into_iter()
        .map(|fact| (fact.name, fact.value))
        .collect();
    let named = |name: &str| facts.iter().find(|(of, _)| of == name).cloned();
    assert_eq!(
        named("key.changed_at"),
        Some((
            "key.changed_at".to_owned(),
            Some("1970-01-01T00:00:01.000000Z".to_owned())
        ))
    );
    assert_eq!(named("letter"), Some(("letter".to_owned(), None)));
    assert_eq!(
        named("stock.amount"),
        Some(("stock.amount".to_owned(), Some("9".to_owned())))
    );
}
