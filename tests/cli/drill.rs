//! `redrive drill`: it injects faults, so it is refused wherever that could hurt.

use crate::Home;

/// Four services of the sandbox's own names, in a context that is marked as something else, and one
/// that is a sandbox with other services.
const CONFIG: &str = r#"
[contexts.shop]
environment = "staging"
amqp = "embedded:shop"
[[contexts.shop.services]]
name = "orders"
database = "sqlite:{dir}/orders.db"
outbox = { exchange = "shop.events" }

[contexts.box]
environment = "sandbox"
amqp = "embedded:box"
[[contexts.box.services]]
name = "billing"
database = "sqlite:{dir}/billing.db"
outbox = { exchange = "shop.events" }
"#;

#[test]
fn what_is_not_a_sandbox_is_refused_with_4_and_left_alone() {
    let home = Home::with_config(CONFIG);
    for words in [
        &["drill", "run", "1"][..],
        &["drill", "run", "all"],
        &["drill", "place", "--first", "1", "--sku", "SKU-1"],
    ] {
        let arguments = [&["--context", "shop"], words].concat();
        let run = home.run(&arguments).exits(4);
        assert!(run.stderr.contains("shop"), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains("sandbox"), "{words:?}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{words:?}");
    }
    assert!(!home.path("orders.db").exists(), "no database was made");
}

#[test]
fn a_sandbox_that_is_read_only_or_has_other_services_is_refused_too() {
    let home = Home::with_config(CONFIG);
    let other = home
        .run(&["--context", "box", "drill", "run", "1"])
        .exits(4);
    assert!(
        other
            .stderr
            .contains("orders, inventory, payment and notification"),
        "{}",
        other.stderr
    );
    let read_only = home
        .run(&["--context", "box", "--read-only", "drill", "run", "1"])
        .exits(4);
    assert!(
        read_only.stderr.contains("read-only"),
        "{}",
        read_only.stderr
    );
}

#[test]
fn a_drill_nobody_knows_is_wrong_usage_and_the_list_needs_no_configuration() {
    let home = Home::new();
    let unknown = home.run(&["drill", "run", "no-such"]).exits(2);
    assert!(
        unknown.stderr.contains("redrive drill list"),
        "{}",
        unknown.stderr
    );
    let list = home.run(&["drill", "list", "-o", "json"]).exits(0).json();
    assert_eq!(list["items"][0]["name"], "before-outbox");
}
