//! a password is in no output, whatever goes wrong.

use crate::{Home, Run};

const SECRET: &str = "S3CRET-42";

/// Servers that are not there, with the password in every URL.
const CONFIG: &str = "\
[contexts.a]
environment = \"staging\"
amqp = \"amqp://ops:${PW}@127.0.0.1:1/%2f\"
management = \"http://ops:${PW}@127.0.0.1:1\"
thresholds = { statement_timeout = \"500ms\" }
[[contexts.a.services]]
name = \"orders\"
database = \"mysql://ops:${PW}@127.0.0.1:1/orders\"
outbox = { exchange = \"shop.events\" }
inbox = { consumer = \"orders\", queue = \"orders.q\" }
dead_letters = { queues = [\"orders.dlq\"] }
sagas = {}
";

#[test]
fn x_05_no_output_has_the_password() {
    let home = Home::with_config(CONFIG);
    for arguments in [
        &["status", "-o", "json"][..],
        &["check"],
        &["check", "-o", "json"],
        &["outbox"],
        &["leases", "-o", "ndjson"],
        &["queues"],
        &["dead", "-o", "csv"],
        &["sagas"],
        &["operations"],
        &["audit", "verify"],
        &["migrate", "--service", "orders"],
        &["replay", "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1"],
        &["trace", "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1"],
        &["config", "show", "-o", "json"],
        &["worker", "dispatcher", "--once", "-o", "json"],
    ] {
        let mut command = home.command(arguments);
        command
            .env("PW", SECRET)
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "1");
        let run = Run::of(command.output().expect("runs"));
        assert!(
            !run.stdout.contains(SECRET),
            "{arguments:?}: {}",
            run.stdout
        );
        assert!(
            !run.stderr.contains(SECRET),
            "{arguments:?}: {}",
            run.stderr
        );
        if arguments.first() != Some(&"config") {
            assert_eq!(run.code, 5, "{arguments:?}: {}{}", run.stdout, run.stderr);
        }
    }
}

#[test]
fn x_08_stdout_is_one_json_document_even_with_debug_logs() {
    let home = Home::with_config(CONFIG);
    let mut command = home.command(&["status", "-o", "json"]);
    command
        .env("PW", SECRET)
        .env("RUST_LOG", "debug")
        .env("LANG", "tr_TR");
    let run = Run::of(command.output().expect("runs")).exits(5);
    let json = run.json();
    assert_eq!(json["complete"], false);
    assert!(!json["unread"].as_array().expect("list").is_empty());
}
