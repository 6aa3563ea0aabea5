//! The real binary on a real pseudo terminal: it draws, it gives the terminal back whatever happens,
//! and without a terminal it says so.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they expected by failing"
)]

#[path = "../support/pty.rs"]
mod pty;

mod colours;
mod drills;

use std::time::Instant;

use pty::{Console, LEAVE_SCREEN, PATIENCE, READ_THE_PLAN};
use rustix::process::Signal;

const ENTER_SCREEN: &str = "\x1b[?1049h";
/// What most terminals have at least.
const SIZE: pty::Size = (100, 30);

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Console {
    Console::start(SIZE, arguments, environment)
}

/// Waits until the kernel has stopped the process: a `CONT` that comes before its stop is lost, and
/// a shell sends none before.
fn wait_stopped(console: &Console) {
    let stat = format!("/proc/{}/stat", console.child.process_id().expect("a pid"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(&stat).expect("the process is there");
        let state = text.rsplit(") ").next().expect("a state");
        if state.starts_with('T') {
            return;
        }
        assert!(Instant::now() < deadline, "not stopped: {text}");
        std::thread::yield_now();
    }
}

#[test]
fn t_05_quitting_and_being_terminated_give_the_terminal_back() {
    let mut console = start(&["demo"], &[]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("all causes");
    console.press("q");
    assert_eq!(console.end(), 0);

    for signal in [Signal::TERM, Signal::HUP] {
        let mut console = start(&["demo"], &[]);
        console.wait_for("Health");
        console.signal(signal);
        console.end();
    }
}

#[test]
fn mouse_copy_and_export_work_on_a_real_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let mut console = start(&["demo", "--seed", "7"], &[("PWD", path)]);
    console.wait_for("Health");
    // A click on the tab `5 Dead letters` (columns and rows count from 1 on the wire).
    console.press("\x1b[<0;48;2M\x1b[<0;48;2m");
    console.wait_for("allowed");
    console.press("\t");
    console.press("y");
    console.wait_written("\x1b]52;c;");
    console.press("x");
    console.wait_for(".json");
    console.press("q");
    assert_eq!(console.end(), 0);
    let files: Vec<_> = std::fs::read_dir(path)
        .expect("the folder")
        .flatten()
        .collect();
    assert_eq!(files.len(), 1, "one export");
    let text = std::fs::read_to_string(files[0].path()).expect("readable");
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(rows.to_string().contains("order.created"), "{text}");
}

#[test]
fn a_repair_goes_through_the_editor_and_back_to_its_diff() {
    let editor = ("EDITOR", "sed -i s/order/reorder/");
    let mut console = start(&["demo", "--seed", "7"], &[editor]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("allowed");
    console.press("\t");
    console.press("E");
    console.wait_written(LEAVE_SCREEN);
    console.wait_for("Repair");
    console.wait_for("reorder");
    console.press("\t");
    console.press("wrong field");
    console.wait_for("wrong field");
    console.press("\r");
    console.press_after(READ_THE_PLAN, "y");
    console.wait_for("applied");
    console.press("\x1b");
    console.press("q");
    assert_eq!(console.end(), 0);
}

/// The crash point stands in a task of the operate layer: what panics there must not leave the
/// operator with a dead screen, and its words must be on the screen that is left.
#[test]
fn t_05_a_panic_in_a_task_gives_the_terminal_back_and_says_what_broke() {
    let crash = (
        "FAILPOINTS",
        "replay.before_publish=panic(injected by a test)",
    );
    let mut console = start(&["demo", "--seed", "7"], &[crash]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("allowed");
    console.press("\t");
    console.press("R");
    console.wait_for("same as");
    console.press("\t");
    console.press("a test");
    console.wait_for("a test");
    console.press("\r");
    console.press_after(READ_THE_PLAN, "y");
    console.wait_written("injected by a test");
    assert_ne!(console.end(), 0);
}

#[test]
fn t_09_a_stopped_console_comes_back_whole() {
    let mut console = start(&["demo"], &[]);
    console.wait_for("Health");
    console.signal(Signal::TSTP);
    console.wait_written(LEAVE_SCREEN);
    wait_stopped(&console);
    console.written.clear();
    console.screen = vt100::Parser::new(30, 100, 0);
    console.signal(Signal::CONT);
    console.wait_written(ENTER_SCREEN);
    console.wait_for("Health");
    console.wait_for("Overview");
    console.press("q");
    assert_eq!(console.end(), 0);
}

#[test]
fn t_03_a_resize_is_followed_and_a_tiny_terminal_says_so() {
    let mut console = start(&["demo"], &[]);
    console.wait_for("Health");
    for (columns, rows) in [(40, 10), (1, 1), (100, 30)] {
        console.resize((columns, rows));
        if columns == 40 {
            console.wait_for("terminal too small (needs 60×15)");
        }
    }
    console.wait_for("Health");
    console.press("q");
    assert_eq!(console.end(), 0);
}

#[test]
fn t_08_without_a_terminal_nothing_is_drawn_and_the_code_is_2() {
    for term in ["xterm", "dumb", ""] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_redrive"))
            .arg("demo")
            .env("TERM", term)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(2), "TERM={term:?}");
        assert!(output.stdout.is_empty());
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            words.contains("no terminal: use `redrive status -o json`"),
            "{words}"
        );
    }
}
