//! `redrive config`, and configurations that cannot be used.

use crate::Home;

#[test]
fn init_writes_a_commented_file_once() {
    let home = Home::new();
    let run = home.run(&["config", "init"]).exits(0);
    assert!(run.stdout.starts_with("wrote "), "{}", run.stdout);
    let first = std::fs::read_to_string(home.path("redrive.toml")).expect("written");
    let again = home.run(&["config", "init"]).exits(2);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    let second = std::fs::read_to_string(home.path("redrive.toml")).expect("still there");
    assert_eq!(first, second);
    home.run(&["config", "show"]).exits(0);
}

#[test]
fn path_says_which_file_is_read() {
    let home = Home::new();
    let expected = home.path("redrive.toml").display().to_string();
    let run = home.run(&["config", "path", "-o", "json"]).exits(2);
    assert_eq!(run.json()["items"][0]["path"], expected.as_str());
    home.write("redrive.toml", "");
    let run = home.run(&["config", "path"]).exits(0);
    assert_eq!(run.stdout.trim(), expected);
}

#[test]
fn show_says_where_each_value_comes_from() {
    let home = Home::with_config(
        "[contexts.a]\nenvironment = \"production\"\namqp = \"amqp://ops:${PW}@mq/%2f\"\n\
         [[contexts.a.services]]\nname = \"orders\"\ndatabase = \"sqlite:{dir}/a.db\"\njournal = true\n",
    );
    let run = home.run(&["config", "show", "-o", "json"]).exits(0);
    let shown = run.stdout.replace(&home.shown(), "DIR");
    let at = regex_free_time(&shown);
    insta::assert_snapshot!(at);
}

/// The answer with its own time taken out.
fn regex_free_time(json: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(json).expect("json");
    value["as_of"] = "AS_OF".into();
    serde_json::to_string_pretty(&value).expect("json")
}

#[test]
fn a_configuration_error_names_file_line_key_and_fix() {
    let home = Home::with_config("[contexts.a]\nenvironment = \"sandbox\"\nread_olny = true\n");
    let run = home.run(&["status"]).exits(2);
    assert!(run.stdout.is_empty());
    assert_eq!(
        run.stderr.replace(&home.shown(), "DIR"),
        "redrive: DIR/redrive.toml:3: contexts.a.read_olny: is not a known key; did you mean `read_only`?\n"
    );
}

#[test]
fn no_configuration_says_what_to_do() {
    let home = Home::new();
    let mut command = home.command(&["status"]);
    command.env_remove("REDRIVE_CONFIG");
    let run = crate::Run::of(command.output().expect("runs")).exits(2);
    assert!(run.stderr.contains("redrive config init"), "{}", run.stderr);
    assert!(run.stderr.contains("redrive demo"), "{}", run.stderr);
}

#[test]
fn an_unknown_context_lists_the_ones_there_are() {
    let home = Home::with_config(
        "[contexts.a]\nenvironment = \"sandbox\"\n\
         [[contexts.a.services]]\nname = \"orders\"\ndatabase = \"sqlite:{dir}/a.db\"\njournal = true\n",
    );
    let run = home.run(&["status", "--context", "b"]).exits(2);
    assert!(
        run.stderr.contains("there is no context \"b\""),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("name one with --context: a"),
        "{}",
        run.stderr
    );
}

#[test]
fn n_04_a_line_break_at_the_end_of_a_name_is_refused_at_the_start() {
    let home = Home::with_config(
        "[contexts.a]\nenvironment = \"sandbox\"\namqp = \"embedded:x\"\n\
         [[contexts.a.services]]\nname = \"orders\"\ndatabase = \"sqlite:{dir}/a.db\"\n\
         dead_letters = { queues = [\"${DLQ}\"] }\n",
    );
    let mut command = home.command(&["dead"]);
    command.env("DLQ", "orders.dlq\n");
    let run = crate::Run::of(command.output().expect("runs")).exits(2);
    assert!(
        run.stderr.contains("ends with a line break"),
        "{}",
        run.stderr
    );
}
