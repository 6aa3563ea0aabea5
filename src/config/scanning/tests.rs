//! Rules as they are read, and what is said about wrong ones.

use rstest::rstest;

use super::*;

const GOOD: &str = r#"
[[rules]]
name = "stuck"
service = "orders"
keys = "SELECT id, state FROM orders WHERE id > :after ORDER BY id LIMIT :rows"
[[rules.evidence]]
name = "stock"
service = "inventory"
sql = "SELECT id, state FROM stock WHERE id IN (:keys)"
[[rules.evidence]]
name = "sent"
service = "orders"
by = "key.id"
sql = "SELECT aggregate_id, event_id FROM outbox_events WHERE aggregate_id IN (:texts)"
[[rules.classes]]
class = "fine"
when = ["key.state = done"]
[[rules.classes]]
class = "never_emitted"
when = ["key.state in new, 'half done'", "sent absent", "stock.state != key.state"]
says = "order {key} was never told: {stock.state}"
suggest = "redrive outbox --filter key:{key}"
"#;

const SERVICES: [&str; 2] = ["orders", "inventory"];

fn read(text: &str) -> Result<Vec<ScanRule>, ConfigError> {
    pack("rules.toml", text, &SERVICES)
}

#[test]
fn a_rule_is_read_whole() {
    let rules = read(GOOD).expect("reads");
    let [rule] = rules.as_slice() else {
        panic!("one rule: {rules:?}");
    };
    assert_eq!(rule.key, KeyKind::Number);
    assert_eq!(
        rule.keys.pieces,
        [
            Piece::Text("SELECT id, state FROM orders WHERE id > ".to_owned()),
            Piece::Slot(Slot::After),
            Piece::Text(" ORDER BY id LIMIT ".to_owned()),
            Piece::Slot(Slot::Rows),
        ]
    );
    let conditions = &rule.classes.get(1).expect("two classes").when;
    assert_eq!(
        conditions.first(),
        Some(&Condition::In(
            ColumnRef {
                of: "key".to_owned(),
                column: "state".to_owned()
            },
            vec!["new".to_owned(), "half done".to_owned()]
        ))
    );
    let needs: Vec<&str> = conditions.iter().flat_map(Condition::needs).collect();
    assert_eq!(needs, ["key", "sent", "stock", "key"]);
}

/// Each mistake is told with its line, its key and the fix.
#[rstest]
#[case(
    "LIMIT :rows",
    "LIMIT 10",
    "rules.toml:5: rules[0].keys: does not use :rows; end it with LIMIT :rows"
)]
#[case(
    "id > :after",
    "id > :key",
    "rules.toml:5: rules[0].keys: uses :key, which nobody fills"
)]
#[case("id > :after", "id > ?", "rules.toml:5: rules[0].keys: has a `?`")]
#[case(
    "LIMIT :rows\"",
    "LIMIT :rows; DROP TABLE x\"",
    "is more than one statement"
)]
#[case(
    "SELECT id, state FROM stock",
    "DELETE FROM stock",
    "rules.toml:9: rules[0].evidence[0].sql: is not a query"
)]
#[case(
    "SELECT id, state FROM stock WHERE id IN (:keys)",
    "WITH x AS (SELECT 1) DELETE FROM stock WHERE id IN (:keys)",
    "has the word \"delete\""
)]
#[case(
    "id IN (:keys)",
    "id IN (:keys) AND sleep(9)",
    "has the word \"sleep\""
)]
#[case("id IN (:keys)", "id IN (:keys) FOR SHARE", "locks rows")]
#[case(
    "id IN (:keys)",
    "id IN (:keys) AND id > :after",
    "uses :after, which has no value here; use :keys"
)]
#[case(
    "service = \"inventory\"",
    "service = \"stock\"",
    "\"stock\" is no service of the context; use one of: orders, inventory"
)]
#[case("name = \"sent\"", "name = \"stock\"", "\"stock\" is taken")]
#[case(
    "by = \"key.id\"",
    "by = \"sent.id\"",
    "names the evidence sent, which the rule does not have"
)]
#[case(
    "\"sent absent\"",
    "\"sentt absent\"",
    "names the evidence sentt; did you mean sent?"
)]
#[case(
    "\"sent absent\"",
    "\"sent is away\"",
    "\"sent is away\" is no condition; write `NAME present`"
)]
#[case(
    "when = [\"key.state = done\"]",
    "when = []",
    "says nothing, so every key would be of this class"
)]
#[case(
    "class = \"never_emitted\"",
    "class = \"fine\"",
    "names nothing that could be found"
)]
#[case(
    "{stock.state}",
    "{stok.state}",
    "names the evidence stok; did you mean stock?"
)]
#[case(
    "redrive outbox",
    "rm -rf",
    "is no command that plans or shows something; begin with `redrive`"
)]
fn a_wrong_rule_is_told_with_its_place_and_the_fix(
    #[case] right: &str,
    #[case] wrong: &str,
    #[case] told: &str,
) {
    let text = GOOD.replacen(right, wrong, 1);
    let error = read(&text).expect_err("is refused").to_string();
    assert!(error.contains(told), "{error}");
}

#[test]
fn quotes_and_comments_hide_what_looks_like_a_slot() {
    let text = "SELECT a, ':keys; \\' ?' FROM `into` -- update :x\nWHERE a IN (:keys) /* ? */;";
    let sql = RuleSql::parse(text, &[Slot::Keys]).expect("reads");
    let slots = sql.pieces.iter().filter(|p| matches!(p, Piece::Slot(_)));
    assert_eq!(slots.count(), 1);
}

/// The example of the manual is a configuration that can be used.
#[test]
fn the_example_of_the_manual_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let rules = page
        .split("```toml\n")
        .find(|block| block.starts_with("[[contexts.shop.scan.rules]]"))
        .and_then(|block| block.split("```").next())
        .expect("the example");
    let text = format!(
        "[contexts.shop]\nenvironment = \"sandbox\"\n{rules}\n\
         [[contexts.shop.services]]\nname = \"orders\"\ndatabase = \"sqlite::memory:\"\n\
         outbox = {{ exchange = \"e\" }}\n\
         [[contexts.shop.services]]\nname = \"inventory\"\ndatabase = \"sqlite::memory:\"\n\
         inbox = {{ consumer = \"inventory\", queue = \"inventory.orders\" }}\n"
    );
    let loaded =
        crate::config::load::parse("m", &text, &|_| None, crate::config::load::Secrets::All);
    let context = loaded.expect("valid").config.contexts.remove(0);
    assert_eq!(context.scan.rules.len(), 1);
    assert_eq!(context.scan.grace, ScanSettings::default().grace);
}
