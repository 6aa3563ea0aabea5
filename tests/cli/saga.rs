//! `redrive saga …`: dry by default, audited when applied, refused when it does not fit.

use crate::stage::seeded;
use crate::{Home, Run};

const APPLY: [&str; 4] = ["--reason", "the processor is back", "--apply", "--yes"];

fn saga(home: &Home, words: &[&str]) -> Run {
    let mut all = vec!["saga"];
    all.extend(words);
    home.run(&all)
}

fn state(home: &Home) -> serde_json::Value {
    let json = home.run(&["sagas", "-o", "json"]).exits(0).json();
    json["items"][0].clone()
}

#[test]
fn a_verb_is_dry_until_it_is_applied_and_then_in_the_audit_log() {
    let home = seeded();
    let plan = saga(&home, &["retry", "saga-1"]).exits(0);
    for wanted in [
        "saga retry",
        "order 8812",
        "undoing reserve_stock is sent again",
        "nothing was changed",
        "redrive saga retry saga-1 --service orders",
    ] {
        assert!(plan.stdout.contains(wanted), "{wanted}: {}", plan.stdout);
    }
    assert_eq!(state(&home)["state"], "compensation_failed");

    let words = [&["retry", "saga-1", "-o", "json"], APPLY.as_slice()].concat();
    let applied = saga(&home, &words).exits(0).json();
    assert_eq!(applied["kind"], "applied");
    assert_eq!(applied["items"][0]["verb"], "saga_retry");
    assert_eq!(applied["items"][0]["state"], "applied");
    let after = state(&home);
    assert_eq!(after["state"], "compensating");
    assert_eq!(after["steps"][0]["compensation"], "pending");
    let audit = home.run(&["audit", "-o", "json"]).exits(0).json();
    assert_eq!(audit["items"][0]["action"], "saga_retry");
    assert_eq!(audit["items"][0]["subject"], "saga-1");
    home.run(&["audit", "verify"]).exits(0);
}

#[test]
fn handled_needs_evidence_and_assign_an_owner() {
    let home = seeded();
    saga(&home, &["handled", "saga-1"]).exits(2);
    saga(&home, &["handled", "saga-1", "--evidence", " "]).exits(2);
    saga(&home, &["assign", "saga-1"]).exits(2);
    let words = [&["assign", "saga-1", "--owner", "mia"], APPLY.as_slice()].concat();
    saga(&home, &words).exits(0);
    assert_eq!(state(&home)["owner"], "mia");
    let words = [
        &["handled", "saga-1", "--evidence", "receipt 4711"],
        APPLY.as_slice(),
    ]
    .concat();
    saga(&home, &words).exits(0);
    let after = state(&home);
    assert_eq!(after["state"], "compensated");
    assert_eq!(after["evidence"], "receipt 4711");
    let words = [&["assign", "saga-1", "--owner", "-"], APPLY.as_slice()].concat();
    saga(&home, &words).exits(0);
    assert_eq!(state(&home)["owner"], serde_json::Value::Null);
}

#[test]
fn what_does_not_fit_is_refused_and_what_is_not_there_is_wrong_usage() {
    let home = seeded();
    let refused = saga(&home, &["compensate", "saga-1"]).exits(4);
    assert!(
        refused.stdout.contains("turned round already"),
        "{}",
        refused.stdout
    );
    saga(&home, &["query", "saga-1"]).exits(4);
    let unknown = saga(&home, &["retry", "saga-2"]).exits(2);
    assert!(unknown.stderr.contains("no saga"), "{}", unknown.stderr);
    let elsewhere = saga(&home, &["retry", "saga-1", "--service", "inventory"]).exits(2);
    assert!(
        elsewhere.stderr.contains("keeps sagas"),
        "{}",
        elsewhere.stderr
    );
    let read_only = [&["retry", "saga-1", "--read-only"], APPLY.as_slice()].concat();
    saga(&home, &read_only).exits(4);
    saga(&home, &["retry", "saga-1", "--apply", "--yes"]).exits(2);
    assert_eq!(state(&home)["state"], "compensation_failed");
}

/// Outside a sandbox this program knows no kind of saga: a coordinator that was asked for would do
/// nothing for ever.
#[test]
fn a_coordinator_without_a_definition_is_refused_by_name_and_left_out_otherwise() {
    let home = Home::with_config(
        "[contexts.a]\nenvironment = \"staging\"\namqp = \"embedded:a\"\n[[contexts.a.services]]\nname = \"orders\"\n\
         database = \"sqlite:{dir}/orders.db\"\noutbox = { exchange = \"e\" }\nsagas = {}\n",
    );
    let migrate = ["migrate", "--service", "orders", "--apply"];
    home.run(&migrate).exits(0);
    let named = home.run(&["worker", "saga", "--once"]).exits(2);
    for part in ["the sagas of orders", "pipeline::saga_coordinator"] {
        assert!(named.stderr.contains(part), "{part}: {}", named.stderr);
    }
    let all = home
        .run(&["worker", "--once", "-o", "json"])
        .exits(0)
        .json();
    let workers: Vec<_> = all["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| item["worker"].as_str().expect("a name"))
        .collect();
    assert!(workers.contains(&"dispatcher"), "{workers:?}");
    assert!(!workers.contains(&"saga"), "{workers:?}");
}
