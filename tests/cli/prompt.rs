//! The confirmation at a terminal: Enter alone never confirms.

use std::io::{Read as _, Write as _};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::stage::{DEAD, seeded};
use crate::{Home, binary};

/// Runs the binary on a terminal of its own, answers each prompt in turn, and returns what was shown
/// and the exit code.
fn converse(home: &Home, arguments: &[&str], answers: &[(&str, &str)]) -> (String, u32) {
    let pty = native_pty_system();
    let pair = pty.openpty(PtySize::default()).expect("a terminal");
    let mut command = CommandBuilder::new(binary());
    command.args(arguments);
    command.env_clear();
    command.env("HOME", home.shown());
    command.env("USER", "mia");
    command.env("TERM", "xterm");
    command.env("REDRIVE_CONFIG", home.path("redrive.toml"));
    let mut child = pair.slave.spawn_command(command).expect("starts");
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().expect("a reader");
    let mut writer = pair.master.take_writer().expect("a writer");
    let mut answers = answers.iter();
    let mut next = answers.next();
    let mut shown = Vec::new();
    let mut from = 0;
    let mut chunk = [0; 1024];
    // A terminal whose last process is gone ends with an error on Linux.
    while let Ok(n @ 1..) = reader.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..n]);
        let unseen = String::from_utf8_lossy(&shown[from..]).into_owned();
        if let Some((prompt, answer)) = next
            && unseen.contains(prompt)
        {
            from = shown.len();
            writeln!(writer, "{answer}").expect("typed");
            next = answers.next();
        }
    }
    let code = child.wait().expect("ends").exit_code();
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

#[test]
fn x_09_refusing_the_prompt_changes_nothing() {
    let home = seeded();
    for answer in ["", "n", "yes"] {
        let (shown, code) = converse(
            &home,
            &["discard", DEAD, "--apply"],
            &[("reason: ", "test data"), ("y to discard", answer)],
        );
        assert_eq!(code, 4, "{shown}");
        assert!(shown.contains("cancelled; nothing was changed"), "{shown}");
    }
    let open = home.run(&["dead", "-o", "json"]).exits(0).json();
    assert_eq!(open["items"].as_array().expect("list").len(), 2);
}

#[test]
fn a_person_at_a_terminal_is_asked_and_can_confirm() {
    let home = seeded();
    let (shown, code) = converse(
        &home,
        &["discard", DEAD, "--apply"],
        &[("reason: ", "test data"), ("y to discard", "y")],
    );
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("applied"), "{shown}");
}
