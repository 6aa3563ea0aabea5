//! What the language means, by example and by property; and the page of the manual made from it.

use std::collections::HashMap;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::model::ids::{ConsumerName, DeadLetterId, EventId};
use crate::model::message::{Message, Payload};

const NOW: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

fn ago(seconds: u64) -> Timestamp {
    NOW.minus(std::time::Duration::from_secs(seconds))
}

fn letter() -> crate::model::dead_letter::DeadLetter {
    crate::model::dead_letter::DeadLetter {
        dead_letter_id: DeadLetterId::new("d1"),
        consumer: ConsumerName::new("inventory"),
        event_id: Some(EventId::new("0197c3f2-7d2a")),
        aggregate_id: Some("8812".into()),
        aggregate_version: Some(3),
        event_type: Some("order.created".to_owned()),
        message_at: None,
        failed_queue: Some("inventory.orders".to_owned()),
        source_exchange: None,
        source_routing_key: None,
        dead_letter_queue: "inventory.orders.dlq".to_owned(),
        reason: Some("rejected".to_owned()),
        error_class: "decode: missing field sku".to_owned(),
        error_summary: Some("Missing field `sku` at line 1".to_owned()),
        stack_digest: None,
        delivery_count: None,
        retry_count: None,
        first_died_at: ago(4_320),
        last_died_at: ago(120),
        deaths: 2,
        replays: 0,
        last_replayed_at: None,
        producer_version: None,
        consumer_version: None,
        trace_id: None,
        replay_allowed: true,
        owner: None,
        status: crate::model::dead_letter::DeadLetterStatus::Open,
        note: None,
        version: 1,
        payload_bytes: 412,
        payload_sha256: "00".to_owned(),
        operation_id: None,
    }
}

fn detail(payload: &str) -> crate::model::dead_letter::DeadLetterDetail {
    crate::model::dead_letter::DeadLetterDetail {
        letter: letter(),
        message: Message {
            payload: Payload::new(payload),
            ..Message::default()
        },
        deaths: Vec::new(),
    }
}

fn is_match(filter: &str, row: &dyn Fields) -> bool {
    Filter::parse_for(row.kind(), filter)
        .unwrap_or_else(|error| panic!("{error}"))
        .matches(row, NOW)
}

#[rstest]
#[case("", true)]
#[case("type:order.created age>1m key:8812 error~SKU deaths>=2", true)]
#[case("type:order.*", true)]
#[case("type:*.created", true)]
#[case("type:*r*.c*", true)]
#[case("type:order", false)]
#[case("!type:order.*", false)]
#[case("age>2m", false)]
#[case("age>=2m", true)]
#[case("first>1h11m first<1h13m", true)]
#[case("owner:\"\"", true)]
#[case("!owner:mia", true)]
#[case("owner:mia", false)]
#[case("version:3 version<4 !version>3", true)]
#[case("version:3.0", true)]
#[case("id:0197c3f2*", true)]
#[case("allowed:yes status:open", true)]
#[case("missing FIELD", true)]
#[case("\"missing field\"", true)]
#[case("\"field missing\"", false)]
#[case("8812", true)]
#[case("!inventory", false)]
fn terms_are_anded(#[case] filter: &str, #[case] expected: bool) {
    assert_eq!(is_match(filter, &letter()), expected, "{filter}");
}

#[rstest]
#[case("payload.order_id:4634343214213523454", true)]
#[case("payload.order_id:4634343214213523455", false)]
#[case("payload.order_id>4634343214213523453", true)]
#[case("payload.huge:123456789012345678901234567890", true)]
#[case("payload.huge<123456789012345678901234567891", true)]
#[case("payload.f:1.1", true)]
#[case("payload.e>1E399", true)]
#[case("payload.neg:-9223372036854775808", true)]
#[case("payload.lines.0.sku:A-1", true)]
#[case("payload.lines.*.sku:B-2", true)]
#[case("payload.lines.*.sku:C-3", false)]
#[case("payload.note~ATTEMPT", true)]
#[case("payload.at>\"2026-01-01\"", true)]
#[case("payload.gone:null", true)]
#[case("payload.note>5", false)]
#[case("payload.absent:x", false)]
#[case("payload~4634343214213523454", true)]
fn p_06_paths_into_the_payload_are_exact(#[case] filter: &str, #[case] expected: bool) {
    let row = detail(
        r#"{"order_id":4634343214213523454,"neg":-9223372036854775808,
            "huge":123456789012345678901234567890,"f":1.10,"e":1E400,"note":"third attempt",
            "at":"2026-01-02T03:04:05Z","gone":null,"lines":[{"sku":"A-1"},{"sku":"B-2"}]}"#,
    );
    assert_eq!(is_match(filter, &row), expected, "{filter}");
}

#[test]
fn p_04_p_09_odd_payloads_have_no_paths_and_do_no_harm() {
    for payload in [
        "[".repeat(100_000),
        "{\"note\":\"a\\u0000b\"}".to_owned(),
        "{\"s\":\"\\ud800\"}".to_owned(),
        "not json".to_owned(),
    ] {
        assert!(!is_match("payload.s:x", &detail(&payload)));
    }
    assert!(
        !is_match("payload.total>1", &letter()),
        "a list row carries no payload"
    );
    let filter = Filter::parse("key:1 payload.total>1 !payload~x").expect("a filter");
    assert_eq!(filter.row_terms().to_string(), "key:1");
    let payload = filter.payload_terms().map(|terms| terms.to_string());
    assert_eq!(payload.as_deref(), Some("payload.total>1 !payload~x"));
    assert_eq!(filter.row_terms().payload_terms(), None);
}

#[rstest]
#[case("consumr:inventory", 1, "did you mean consumer?")]
#[case("type:a  attempt>3", 9, "did you mean attempts?")]
#[case("http://mq", 1, "quote it")]
#[case("age>10", 1, "ms, s, m, h, d or w")]
#[case("age:10m", 1, "age>10m")]
#[case("deaths>many", 1, "deaths>100")]
#[case("type>a", 1, "type~")]
#[case("!", 1, "!owner:mia")]
#[case("error:\"lock", 1, "end the text with")]
#[case("error:\"lock\"x", 1, "put a blank after it")]
#[case("status=open", 1, "write status:open")]
fn an_error_names_place_and_remedy(#[case] text: &str, #[case] column: usize, #[case] has: &str) {
    let error = Filter::parse(text).expect_err(text);
    assert_eq!(error.column, column, "{error}");
    assert!(error.to_string().contains(has), "{error}");
}

#[rstest]
#[case("status:bogus", false)]
#[case("owner:mia status:Open", true)]
#[case("status:re*", true)]
#[case("!status:open", true)]
#[case("!status:closed", false)]
#[case("status~pla", true)]
#[case("status:\"\"", true)]
#[case("type:whatever", true)]
fn a_word_that_no_row_can_have_is_refused_once_it_is_typed(
    #[case] text: &str,
    #[case] is_fine: bool,
) {
    // While it is typed it may still become one.
    assert!(Filter::parse_for(FilterKind::DeadLetters, text).is_ok());
    match Filter::parse_whole(FilterKind::DeadLetters, text) {
        Ok(_) => assert!(is_fine, "{text}"),
        Err(error) => {
            assert!(!is_fine, "{error}");
            assert!(error.to_string().contains("discarded"), "{error}");
        }
    }
}

#[test]
fn a_field_of_another_kind_is_refused_with_the_fields_of_this_one() {
    assert!(Filter::parse("lag>5m").is_ok());
    let error = Filter::parse_for(FilterKind::Outbox, "lag>5m").expect_err("queues only");
    assert!(error.allowed.contains("attempts"), "{error}");
}

#[test]
fn a_name_compares_the_same_way_in_every_kind() {
    let mut kinds = HashMap::new();
    for spec in FilterKind::ALL.into_iter().flat_map(Filter::known_fields) {
        assert_eq!(
            *kinds.entry(spec.name).or_insert(spec.kind),
            spec.kind,
            "{}",
            spec.name
        );
    }
}

#[test]
fn what_a_store_can_select_is_taken_out() {
    let filter = Filter::parse(
        "service:orders status:open type:order.* consumer:inventory class:\"lock wait\" !state:x a",
    );
    assert_eq!(
        filter.expect("a filter").pushdown(),
        Pushdown {
            service: Some("orders".to_owned()),
            state: Some("open".to_owned()),
            event_type: None,
            consumer: Some("inventory".to_owned()),
            error_class: Some("lock wait".to_owned()),
        }
    );
}

#[test]
fn the_service_comes_from_around_the_row() {
    let row = letter();
    let in_service = InService {
        service: "inventory",
        row: &row,
    };
    assert!(is_match("service:inventory deaths:2", &in_service));
    assert!(!is_match("service:orders", &in_service));
}

#[test]
fn completions_offer_names_then_values() {
    let texts = |typed| -> Vec<String> {
        Filter::completions(FilterKind::DeadLetters, typed)
            .into_iter()
            .map(|completion| completion.text)
            .collect()
    };
    assert_eq!(texts("age>1m !con"), ["age>1m !consumer:"]);
    assert_eq!(
        texts("status:re"),
        [
            "status:replaying",
            "status:replayed",
            "status:resolved",
            "status:repaired"
        ]
    );
    assert_eq!(texts("error:\"a b"), Vec::<String>::new());
    assert_eq!(
        texts("key:1 ").len(),
        Filter::known_fields(FilterKind::DeadLetters).len()
    );
}

/// The page of the manual, made from the tables.
fn reference() -> String {
    let mut out = String::from(
        "# Filters\n\n\
         Made from the program itself: `UPDATE_DOCS=1 cargo test --lib model::filter` writes this file.\n\n\
         The same language behind `/` in the console and `--filter` on the command line:\n\n\
         ```text\n\
         type:order.created age>10m key:8812 error~timeout payload.total>100 !owner:mia \"two words\"\n\
         ```\n\n\
         | write | it holds when |\n|---|---|\n\
         | `field:value` | equal; `*` stands for any run of characters; `field:\"\"` finds what has none |\n\
         | `field~value` | contains, whatever the case |\n\
         | `field>value`, `>=`, `<`, `<=` | numbers, exactly and at any length; ages as `10m`, `1h30m`, `2d` |\n\
         | `payload.a.b:value` | the value under a path in a JSON payload; `*` is every element, `0` the first |\n\
         | `word`, `\"two words\"` | some text of the row contains it |\n\
         | `!term` | the term does not hold |\n\n\
         All terms must hold. In quotes, `\\\"`, `\\\\` and `\\*` mean the character itself. A value that is not known\n\
         is no number: `attempts>3` never holds for a layout without attempts. A payload that\n\
         is no JSON, or nested too deep to be read, has no paths: terms on it do not hold.\n",
    );
    for kind in FilterKind::ALL {
        let head = format!("\n## {kind:?}\n\n| field | compares as | |\n|---|---|---|\n");
        out += &head;
        for spec in Filter::known_fields(kind) {
            let compares = match spec.kind {
                FieldKind::Text if spec.values.is_empty() => "text".to_owned(),
                FieldKind::Text => spec.values.join(", "),
                FieldKind::Number => "number".to_owned(),
                FieldKind::Age => "length of time".to_owned(),
                FieldKind::Payload => "what is found there".to_owned(),
            };
            let row = format!("| `{}` | {compares} | {} |\n", spec.name, spec.help);
            out += &row;
        }
    }
    out
}

#[test]
fn the_manual_lists_every_field() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/filter.md");
    let made = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &made).expect("docs/filter.md is written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/filter.md is old: UPDATE_DOCS=1 cargo test --lib model::filter"
    );
}

fn term() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "[a-z0-9.*]{1,8}",
        Just("\"a \\\"b\\\" \\\\ \\* *\"".to_owned()),
        "\"[^\"\\\\]{0,8}\"",
    ];
    prop_oneof![
        (
            r"!?",
            "(type|key|payload|payload\\.a\\.\\*\\.b)",
            "[:~]",
            value
        )
            .prop_map(|(not, name, op, value)| format!("{not}{name}{op}{value}")),
        (r"!?", "(attempts|deaths)", "(:|>|>=|<|<=)", "-?[0-9]{1,30}")
            .prop_map(|(not, name, op, value)| format!("{not}{name}{op}{value}")),
        (
            r"!?",
            "(age|due)",
            "(>|>=|<|<=)",
            "[0-9]{1,3}(ms|s|m|h|d|w)"
        )
            .prop_map(|(not, name, op, value)| format!("{not}{name}{op}{value}")),
        "!?[a-z\u{e9}#/]{1,6}",
    ]
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,60}") {
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }
    }

    #[test]
    fn parsing_never_panics_on_its_own_alphabet(text in "[!:~<>=\"\\\\* a-d0-9.]{0,40}") {
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }
        Filter::completions(FilterKind::Outbox, &text);
    }

    #[test]
    fn a_shown_filter_reads_back_equal(terms in prop::collection::vec(term(), 0..6)) {
        let text = terms.join(" ");
        let filter = Filter::parse(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let shown = filter.to_string();
        prop_assert_eq!(Filter::parse(&shown), Ok(filter), "shown as {}", shown);
    }
}
