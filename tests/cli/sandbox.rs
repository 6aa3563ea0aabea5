//! Every answer on a sandbox with rows: one snapshot a kind of JSON, the exit codes of writes, and
//! what must never be done.

use crate::stage::{DEAD, PENDING, WILD, empty, seeded};
use crate::steady::steady;
use crate::{Home, Run};

fn snapshot(home: &Home, name: &str, run: &Run) {
    insta::assert_snapshot!(name, steady(&run.json(), &home.shown()));
}

#[test]
fn a_migration_is_dry_by_default_and_done_once() {
    let home = Home::with_config(
        "[contexts.a]\nenvironment = \"production\"\n[[contexts.a.services]]\nname = \"o\"\n\
         database = \"sqlite:{dir}/o.db\"\noutbox = { exchange = \"e\" }\n",
    );
    let dry = home
        .run(&["migrate", "--service", "o", "-o", "json"])
        .exits(0);
    let json = dry.json();
    let items = json["items"].as_array().expect("list");
    assert!(!items.is_empty());
    assert!(items.iter().all(|step| step["is_applied"] == false));
    let unnamed = home.run(&["migrate", "--service", "o", "--apply"]).exits(4);
    assert!(
        unnamed.stderr.contains("--context-name a"),
        "{}",
        unnamed.stderr
    );
    home.run(&[
        "migrate",
        "--service",
        "o",
        "--apply",
        "--read-only",
        "--context-name",
        "a",
    ])
    .exits(4);
    for expected in [true, false] {
        let run = home
            .run(&[
                "migrate",
                "--service",
                "o",
                "--apply",
                "--context-name",
                "a",
                "-o",
                "json",
            ])
            .exits(0);
        for step in run.json()["items"].as_array().expect("list") {
            assert_eq!(step["is_applied"], true);
            assert_eq!(step["applied_now"], expected);
        }
    }
    let unknown = home.run(&["migrate", "--service", "x"]).exits(2);
    assert!(
        unknown.stderr.contains("there are: o"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn x_02_every_list_of_nothing_is_valid_json_of_the_same_shape() {
    let home = empty();
    for list in ["outbox", "leases", "dead", "sagas", "operations", "audit"] {
        let run = home.run(&[list, "-o", "json"]).exits(0);
        let json = run.json();
        assert_eq!(json["schema"], "redrive/1", "{list}");
        assert_eq!(json["complete"], true, "{list}");
        assert_eq!(json["items"], serde_json::json!([]), "{list}");
        assert_eq!(
            home.run(&[list, "-o", "ndjson"]).exits(0).stdout,
            "",
            "{list}"
        );
        assert!(
            home.run(&[list, "-o", "csv"]).exits(0).stdout.contains(','),
            "{list}"
        );
    }
    let causes = home.run(&["dead", "--by", "cause", "-o", "json"]).exits(0);
    assert_eq!(causes.json()["items"], serde_json::json!([]));
}

#[test]
fn every_kind_of_look_has_its_shape() {
    let home = seeded();
    for (name, arguments) in [
        ("outbox", &["outbox"][..]),
        ("outbox_sending", &["outbox", "--state", "sending"]),
        ("leases", &["leases"]),
        ("dead_letters", &["dead", "--filter", "error~sku"]),
        ("dead_letter_causes", &["dead", "--by", "cause"]),
        ("dead_letter", &["dead", "show", DEAD]),
        ("sagas", &["sagas"]),
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "json"]);
        let run = home.run(&arguments).exits(0);
        snapshot(&home, name, &run);
    }
    // The embedded broker starts empty: the consumer's queue is not there, and that is said.
    let status = home.run(&["status", "-o", "json"]);
    snapshot(&home, "status", &status);
    let verdicts = home.run(&["doctor", "-o", "json"]);
    snapshot(&home, "verdicts", &verdicts);
    let rules = home.run(&["doctor", "--list", "-o", "json"]).exits(0);
    snapshot(&home, "verdict_rules", &rules);
    let queues = home.run(&["queues", "-o", "json"]);
    snapshot(&home, "queues", &queues);
    let check = home.run(&["check", "-o", "json"]).exits(3);
    assert_eq!(check.json()["kind"], "check");
    let reports = home.run(&["worker", "dispatcher", "--once", "-o", "json"]);
    snapshot(&home, "worker_reports", &reports);
}

#[test]
fn every_kind_of_scan_has_its_shape() {
    let home = seeded();
    let json = |arguments: &[&str], exit| {
        let whole = [&["scan"], arguments, &["-o", "json"]].concat();
        home.run(&whole).exits(exit)
    };
    snapshot(&home, "scan_rules", &json(&["list"], 0));
    let nobody = json(&["findings"], 0);
    assert_eq!(nobody.json()["items"], serde_json::json!([]));
    let dry = home.run(&["scan", "findings"]).exits(0);
    assert!(
        dry.stdout.contains("no scan was run yet"),
        "nobody looked is not none: {}",
        dry.stdout
    );
    // Nothing is written where nothing may be written.
    let aside = json(&["run", "dead-letters-unowned", "--read-only"], 3);
    assert_eq!(aside.json()["items"][0]["recorded"], false);
    assert_eq!(json(&["show"], 0).json()["items"], serde_json::json!([]));

    let ran = json(&["run", "dead-letters-unowned"], 3);
    snapshot(&home, "scan_runs", &ran);
    let id = ran.json()["items"][0]["scan_id"]
        .as_str()
        .expect("id")
        .to_owned();
    snapshot(&home, "scans", &json(&["show", &id], 0));
    let findings = json(&["findings", "--limit", "1"], 3);
    assert_eq!(
        findings.json()["total"]["n"],
        2,
        "a limit that was hit is shown (R-15)"
    );
    assert_eq!(findings.json()["more"], true);
    let text = home.run(&["scan", "findings", "--limit", "1"]).exits(3);
    assert!(text.stdout.contains("1 of 2 shown"), "{}", text.stdout);
    let one = findings.json()["items"][0]["finding_id"]
        .as_str()
        .expect("id")
        .to_owned();
    let filtered = json(&["findings", "--class", "nonsense"], 0);
    assert_eq!(filtered.json()["items"], serde_json::json!([]));
    json(&["note", &one, "--note", "looked at", "--apply"], 0);
    let noted = json(&["findings", &one], 3);
    assert_eq!(noted.json()["items"][0]["note"], "looked at");
    json(&["run", "nonsense"], 2);
    json(&["findings", "ffff"], 2);
    json(&["stop", &id], 4);

    let all = home.run(&["scan", "run", "all"]).exits(5);
    assert!(
        all.stdout.contains("nothing to compare"),
        "an empty outbox is not clean: {}",
        all.stdout
    );
}

#[test]
fn the_shape_of_a_finding_is_written_down() {
    let home = seeded();
    home.run(&["scan", "run", "sagas-overdue"]).exits(0);
    home.run(&["scan", "run", "dead-letters-unowned"]).exits(3);
    let found = home
        .run(&["scan", "findings", "-o", "json", "--limit", "2"])
        .exits(3);
    let mut json = found.json();
    // Both were found in one look: by subject, they always stand in the same order.
    let items = json["items"].as_array_mut().expect("a list");
    items.sort_by_key(|item| item["event_id"].to_string());
    items.truncate(1);
    insta::assert_snapshot!("findings", steady(&json, &home.shown()));
}

#[test]
fn p_10_no_control_character_of_a_message_reaches_the_terminal() {
    let home = seeded();
    for arguments in [
        &["dead"][..],
        &["dead", "show", WILD],
        &["dead", "-o", "json"],
        &["dead", "-o", "ndjson"],
    ] {
        let run = home.run(arguments).exits(0);
        let wild = run
            .stdout
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}'));
        assert_eq!(wild, None, "{arguments:?}: {:?}", run.stdout);
        assert!(run.stdout.contains("gone"), "{}", run.stdout);
    }
}

#[test]
fn a_masked_value_is_in_no_answer() {
    let home = seeded();
    for format in ["json", "table", "ndjson"] {
        let run = home.run(&["dead", "show", DEAD, "-o", format]).exits(0);
        assert!(!run.stdout.contains("a@b.example"), "{}", run.stdout);
        assert!(
            run.stdout.contains("12345678901234567890.10"),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn r_15_a_page_says_how_much_of_the_whole_it_is() {
    let home = seeded();
    let run = home.run(&["dead", "--limit", "1"]).exits(0);
    assert!(run.stdout.contains("1 of 2 shown"), "{}", run.stdout);
    let json = home
        .run(&["dead", "--limit", "1", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(json["more"], true);
    assert_eq!(json["total"]["n"], 2);
    let all = home
        .run(&["dead", "--limit", "1", "--all", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(all["more"], false);
    assert_eq!(all["items"].as_array().expect("list").len(), 2);
}

#[test]
fn a_wrong_filter_says_where_and_what_is_allowed() {
    let home = empty();
    let run = home.run(&["outbox", "--filter", "colour:red"]).exits(2);
    assert!(run.stderr.contains("colour:red"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn x_09_a_replay_without_apply_changes_nothing_and_says_so() {
    let home = seeded();
    let before = home.run(&["dead", "-o", "json"]).exits(0).json();
    // No queue: the plan is refused, and says so with its own code.
    let plan = home.run(&["replay", DEAD, "-o", "json"]).exits(4);
    snapshot(&home, "plan_refused", &plan);
    let shown = home.run(&["replay", DEAD]).exits(4);
    assert!(
        shown.stdout.contains("nothing was changed"),
        "{}",
        shown.stdout
    );
    let applied = home
        .run(&["replay", DEAD, "--apply", "--yes", "--reason", "x"])
        .exits(4);
    assert!(applied.stdout.contains("refused"), "{}", applied.stdout);
    let after = home.run(&["dead", "-o", "json"]).exits(0).json();
    assert_eq!(before["items"], after["items"]);
}

#[test]
fn x_09_refusals_and_unknown_ids_have_their_own_codes() {
    let home = seeded();
    let unknown = home
        .run(&["discard", "0197c3f2-0000-7000-8000-000000000000"])
        .exits(2);
    assert!(
        unknown.stderr.contains("0197c3f2-0000"),
        "{}",
        unknown.stderr
    );
    // stdin is no terminal here: nobody can be asked, and nothing hangs.
    let unasked = home
        .run(&["discard", DEAD, "--apply", "--reason", "x"])
        .exits(2);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let reasonless = home.run(&["discard", DEAD, "--apply", "--yes"]).exits(2);
    assert!(
        reasonless.stderr.contains("--reason"),
        "{}",
        reasonless.stderr
    );
    home.run(&[
        "--read-only",
        "discard",
        DEAD,
        "--apply",
        "--yes",
        "--reason",
        "x",
    ])
    .exits(4);
    let worker = home.run(&["--read-only", "worker", "--once"]).exits(4);
    assert!(worker.stderr.contains("read-only"), "{}", worker.stderr);
}

#[test]
fn a_discard_is_planned_applied_recorded_and_audited() {
    let home = seeded();
    let plan = home.run(&["discard", DEAD, "-o", "json"]).exits(0);
    snapshot(&home, "plan_discard", &plan);
    let applied = home
        .run(&[
            "discard",
            DEAD,
            "--apply",
            "--yes",
            "--reason",
            "test data",
            "-o",
            "json",
        ])
        .exits(0);
    snapshot(&home, "applied_discard", &applied);
    let again = home.run(&["discard", DEAD, "--apply", "--yes", "--reason", "twice"]);
    assert_ne!(again.code, 0, "{}{}", again.stdout, again.stderr);

    let operations = home.run(&["operations", "-o", "json"]).exits(0);
    snapshot(&home, "operations", &operations);
    let id = operations.json()["items"][0]["operation_id"]
        .as_str()
        .expect("id")
        .to_owned();
    let shown = home
        .run(&["operations", "show", &id, "-o", "json"])
        .exits(0);
    snapshot(&home, "operation", &shown);
    home.run(&["operations", "show", "nothing"]).exits(2);
    let audit = home.run(&["audit", "list", "-o", "json"]).exits(0);
    snapshot(&home, "audit", &audit);
    let verified = home.run(&["audit", "verify", "-o", "json"]).exits(0);
    assert_eq!(verified.json()["kind"], "audit_verify");
}

#[test]
fn production_wants_its_name_typed() {
    let home = seeded();
    let text = std::fs::read_to_string(home.path("redrive.toml")).expect("read");
    home.write(
        "redrive.toml",
        &text.replace("\"sandbox\"", "\"production\""),
    );
    let apply = ["discard", DEAD, "--apply", "--yes", "--reason", "test data"];
    let unnamed = home.run(&apply).exits(2);
    assert!(
        unnamed.stderr.contains("--context-name box"),
        "{}",
        unnamed.stderr
    );
    let named = |name| {
        let mut arguments = apply.to_vec();
        arguments.extend(["--context-name", name]);
        home.run(&arguments)
    };
    named("shop").exits(4);
    named("box").exits(0);
    home.run(&["audit", "verify"]).exits(0);
}

#[test]
fn a_repair_shows_its_diff_before_anything_is_written() {
    let home = seeded();
    home.write(
        "payload.json",
        r#"{"order":8812,"sku":"SKU-TEA","total":12345678901234567890.10}"#,
    );
    // Its consumer's queue is not there: refused, with the whole plan.
    let plan = home
        .run(&[
            "repair",
            DEAD,
            "--payload-file",
            "payload.json",
            "-o",
            "json",
        ])
        .exits(4);
    let diff = plan.json()["items"][0]["diff"]
        .as_str()
        .expect("diff")
        .to_owned();
    assert!(diff.contains("SKU-TEA"), "{diff}");
    assert!(diff.contains("12345678901234567890.10"), "{diff}");
    let missing = home
        .run(&["repair", DEAD, "--payload-file", "nowhere.json"])
        .exits(2);
    assert!(
        missing.stderr.contains("nowhere.json"),
        "{}",
        missing.stderr
    );
    let editor = home.run(&["repair", DEAD, "--editor"]).exits(2);
    assert!(
        editor.stderr.contains("--payload-file"),
        "{}",
        editor.stderr
    );
}

#[test]
fn an_expired_lease_is_released_once() {
    let home = seeded();
    let leases = home.run(&["leases", "-o", "json"]).exits(0).json();
    let token = leases["items"][0]["claim_token"]
        .as_str()
        .expect("token")
        .to_owned();
    home.run(&["release", &token]).exits(0);
    let apply = [
        "release",
        &token,
        "--apply",
        "--yes",
        "--reason",
        "worker is gone",
    ];
    home.run(&apply).exits(0);
    let again = home.run(&apply);
    assert_eq!(again.code, 2, "{}{}", again.stdout, again.stderr);
    let rows = home
        .run(&["outbox", "--filter", "key:8812", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(rows["items"].as_array().expect("list").len(), 2);
    assert!(rows.to_string().contains(PENDING));
}

#[test]
fn a_consumer_outside_a_sandbox_has_no_handler_here() {
    let home = seeded();
    let text = std::fs::read_to_string(home.path("redrive.toml")).expect("read");
    home.write("redrive.toml", &text.replace("\"sandbox\"", "\"staging\""));
    let run = home.run(&["worker", "consumer"]).exits(2);
    assert!(run.stderr.contains("handler"), "{}", run.stderr);
}

#[test]
fn a_worker_drains_and_leaves_when_told_to() {
    let home = seeded();
    let mut child = home
        .command(&["worker", "dispatcher", "collector"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    // It has its signal handlers once it says that it is starting.
    while !line.contains("starting") {
        line.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut stderr, &mut line).expect("reads"),
            0
        );
    }
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(killed.expect("runs").success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).expect("reads");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(0), "{rest}");
    assert!(rest.contains("stopped"), "{rest}");
}

#[test]
fn the_demo_runs_without_a_screen() {
    let home = Home::new();
    let run = home.run(&["demo", "--headless", "3", "-o", "json"]);
    let json = run.json();
    assert_eq!(json["kind"], "status");
    assert_eq!(json["context"], "demo");
    assert_eq!(json["complete"], true, "{}{}", run.stdout, run.stderr);
    assert!(run.code == 0 || run.code == 3, "{}", run.code);
}
