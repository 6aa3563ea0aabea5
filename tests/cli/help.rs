//! Help, completions and the reference are made from one definition.

use crate::Home;

#[test]
fn the_top_level_help_lists_every_command_and_exit_code() {
    let run = Home::new().run(&["--help"]).exits(0);
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn every_subcommand_explains_itself() {
    let home = Home::new();
    for command in [
        "status",
        "doctor",
        "outbox",
        "leases",
        "queues",
        "dead",
        "sagas",
        "operations",
        "audit",
        "replay",
        "repair",
        "release",
        "discard",
        "check",
        "migrate",
        "config",
        "worker",
        "demo",
        "completions",
    ] {
        let run = home.run(&[command, "--help"]).exits(0);
        assert!(run.stdout.contains("Usage: redrive"), "{command}");
    }
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    use clap::CommandFactory as _;
    redrive::cli::Cli::command().debug_assert();
}

#[test]
fn the_reference_in_docs_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md");
    let wanted = redrive::cli::reference::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/cli.md differs from the program; write it anew with \
         UPDATE_DOCS=1 cargo test --test cli reference"
    );
}

#[test]
fn completions_are_printed_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = home.run(&["completions", shell]).exits(0);
        assert!(run.stdout.contains("redrive"), "{shell}");
    }
}

#[test]
fn x_09_wrong_usage_has_its_own_code() {
    let home = Home::new();
    for arguments in [
        &["nonsense"][..],
        &["dead", "--limit", "0"],
        &["replay"],
        &["replay", "x", "--yes"],
        &["repair", "x"],
        &["worker", "plumber"],
    ] {
        let run = home.run(arguments).exits(2);
        assert!(run.stdout.is_empty(), "{}", run.stdout);
        assert!(run.stderr.contains("error:"), "{}", run.stderr);
    }
}
