//! `docs/cli.md`, made from the same definitions as the parser; a test keeps the file equal.

use clap::CommandFactory as _;

use super::Cli;
use super::exit::Exit;

/// The reference as Markdown.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Command line\n\n\
         Made from the program itself: `UPDATE_DOCS=1 cargo test --test cli reference` writes this file.\n\n\
         Every answer has four forms (`-o table|json|ndjson|csv`). JSON is one object: `schema`, `kind`, `context`,\n\
         `as_of`, `complete`, `unread`, `items`; pages also have `more` and `total`. What could not be read stands in\n\
         `unread` with its reason, makes `complete` false and the exit code 5. `ndjson` prints one item a line and\n\
         `unread` on stderr. Times are RFC 3339 with microseconds, UTC; ages and durations are seconds with `_s`; a\n\
         value not known is `null`, never 0.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n",
    );
    for (exit, meaning) in Exit::ALL {
        let row = format!("| {} | {meaning} |\n", exit.code());
        out.push_str(&row);
    }
    let mut root = Cli::command().term_width(100);
    root.build();
    section(&mut root, &mut out);
    out
}

fn section(command: &mut clap::Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or("redrive").to_owned();
    out.push_str("\n## `");
    out.push_str(&name);
    out.push_str("`\n\n```text\n");
    let help = command.render_long_help().to_string();
    for line in help.trim_end().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str("```\n");
    for sub in command.get_subcommands_mut() {
        section(sub, out);
    }
}
