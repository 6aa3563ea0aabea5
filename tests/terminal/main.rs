//! The real binary on a real pseudo terminal: it draws, it gives the terminal back whatever happens,
//! and without a terminal it says so.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they expected by failing"
)]

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// A debug build on a busy machine takes its time; a hang is longer.
const HUMAN_GAP: Duration = Duration::from_millis(60);
/// A plan must have been on screen for a moment before it can be confirmed.
const READ_THE_PLAN: Duration = Duration::from_millis(600);
const PATIENCE: Duration = Duration::from_mins(1);
const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

struct Console {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    input: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    written: String,
}

impl Console {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (columns, rows) = (100, 30);
        let pty = native_pty_system()
            .openpty(PtySize {
                rows,
                cols: columns,
                pixel_width: 0,
                pixel_height: 0,
            })
            .expect("a pty");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_redrive"));
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        if let Some((_, folder)) = environment.iter().find(|(name, _)| *name == "PWD") {
            command.cwd(folder);
        }
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pty.slave.spawn_command(command).expect("starts");
        drop(pty.slave);
        let mut reader = pty.master.try_clone_reader().expect("a reader");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            while let Ok(n) = reader.read(&mut bytes) {
                if n == 0 || sender.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            input: pty.master.take_writer().expect("a writer"),
            master: pty.master,
            output,
            screen: vt100::Parser::new(rows, columns, 0),
            written: String::new(),
        }
    }

    /// Reads until the fact is there.
    fn wait(&mut self, what: &str, fact: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !fact(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => {
                    self.screen.process(&bytes);
                    self.written.push_str(&String::from_utf8_lossy(&bytes));
                }
                Err(error) => panic!(
                    "no {what} ({error}); on screen:\n{}",
                    self.screen.screen().contents()
                ),
            }
        }
    }

    fn wait_for(&mut self, text: &str) {
        self.wait(text, |console| {
            console.screen.screen().contents().contains(text)
        });
    }

    fn wait_written(&mut self, sequence: &str) {
        self.wait(&format!("{sequence:?}"), |console| {
            console.written.contains(sequence)
        });
    }

    /// Types as a person does: the console ignores guarded keys that come faster (T-10). What is
    /// written meanwhile is read, as a terminal would.
    fn press(&mut self, keys: &str) {
        self.press_after(HUMAN_GAP, keys);
    }

    fn press_after(&mut self, pause: Duration, keys: &str) {
        let typed_at = Instant::now() + pause;
        while let Some(left) = typed_at.checked_duration_since(Instant::now()) {
            if let Ok(bytes) = self.output.recv_timeout(left) {
                self.screen.process(&bytes);
                self.written.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        self.input.write_all(keys.as_bytes()).expect("written");
        self.input.flush().expect("flushed");
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().expect("a pid");
        let pid = Pid::from_raw(i32::try_from(pid).expect("small")).expect("not zero");
        kill_process(pid, signal).expect("signalled");
    }

    /// Waits until the kernel has stopped the process: a `CONT` that comes before its stop is lost, and
    /// a shell sends none before.
    fn wait_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.process_id().expect("a pid"));
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

    fn end(mut self) -> u32 {
        self.wait_written(LEAVE_SCREEN);
        self.wait_written(SHOW_CURSOR);
        self.child.wait().expect("ends").exit_code()
    }
}

#[test]
fn t_05_quitting_and_being_terminated_give_the_terminal_back() {
    let mut console = Console::start(&["demo"], &[]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("all causes");
    console.press("q");
    assert_eq!(console.end(), 0);

    for signal in [Signal::TERM, Signal::HUP] {
        let mut console = Console::start(&["demo"], &[]);
        console.wait_for("Health");
        console.signal(signal);
        console.end();
    }
}

#[test]
fn mouse_copy_and_export_work_on_a_real_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let mut console = Console::start(&["demo", "--seed", "7"], &[("PWD", path)]);
    console.wait_for("Health");
    // A click on the tab `5 Dead letters` (columns and rows count from 1 on the wire).
    console.press("\x1b[<0;48;2M\x1b[<0;48;2m");
    console.wait_for("all causes");
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
    let mut console = Console::start(&["demo", "--seed", "7"], &[editor]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("all causes");
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
    let mut console = Console::start(&["demo", "--seed", "7"], &[crash]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("all causes");
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
    let mut console = Console::start(&["demo"], &[]);
    console.wait_for("Health");
    console.signal(Signal::TSTP);
    console.wait_written(LEAVE_SCREEN);
    console.wait_stopped();
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
    let mut console = Console::start(&["demo"], &[]);
    console.wait_for("Health");
    for (columns, rows) in [(40, 10), (1, 1), (100, 30)] {
        console
            .master
            .resize(PtySize {
                rows,
                cols: columns,
                pixel_width: 0,
                pixel_height: 0,
            })
            .expect("resized");
        console.screen = vt100::Parser::new(rows, columns, 0);
        if columns == 40 {
            console.wait_for("terminal too small (needs 60×15)");
        }
    }
    console.wait_for("Health");
    console.press("q");
    assert_eq!(console.end(), 0);
}

#[test]
fn t_15_no_color_means_none() {
    let mut console = Console::start(&["demo"], &[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]);
    console.wait_for("Health");
    console.press("5");
    console.wait_for("all causes");
    console.press("q");
    console.wait_written(LEAVE_SCREEN);
    for start in ["\x1b[0;3", "\x1b[0;9", ";38;", ";48;"] {
        assert!(!console.written.contains(start), "{start:?}");
    }
    console.end();
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
