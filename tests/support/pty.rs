//! The real binary on a pseudo terminal, with a terminal emulator that shows what a person would see.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// The console ignores guarded keys that come faster than a person's.
const HUMAN_GAP: Duration = Duration::from_millis(60);
/// A plan must have been on screen for a moment before it can be confirmed.
pub const READ_THE_PLAN: Duration = Duration::from_millis(600);
/// A debug build on a busy machine takes its time; a hang is longer.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// What leaves the alternate screen.
pub const LEAVE_SCREEN: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Where a frame begins and where it is whole.
const BEGIN_FRAME: &[u8] = b"\x1b[?2026h";
const END_FRAME: &[u8] = b"\x1b[?2026l";

/// Columns and rows of a terminal.
pub type Size = (u16, u16);

/// A console on its terminal.
pub struct Console {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    pub screen: vt100::Parser,
    /// The beginning of a frame whose end has not come yet: it is not on the screen.
    part: Vec<u8>,
    /// Every byte written, as text.
    pub written: String,
    input: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
}

const fn pty_size((cols, rows): Size) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

/// How many bytes can be shown: those before a frame, or a whole frame.
fn ready(bytes: &[u8]) -> Option<usize> {
    let find = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let length = match find(BEGIN_FRAME) {
        Some(0) => find(END_FRAME)? + END_FRAME.len(),
        Some(before) => before,
        None => {
            // Its end may be the beginning of the mark.
            let kept = (1..BEGIN_FRAME.len())
                .rev()
                .find(|n| bytes.ends_with(&BEGIN_FRAME[..*n]));
            bytes.len() - kept.unwrap_or(0)
        }
    };
    (length > 0).then_some(length)
}

impl Console {
    /// Starts `redrive` with the arguments. Of the environment of the tests it gets only what finds
    /// programs and files; `PWD` among `environment` is where it starts.
    pub fn start(size: Size, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let pty = native_pty_system().openpty(pty_size(size)).expect("a pty");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_redrive"));
        command.args(arguments);
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env("USER", "mia");
        for (name, value) in environment {
            if *name == "PWD" {
                command.cwd(value);
            }
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
            screen: vt100::Parser::new(size.1, size.0, 0),
            part: Vec::new(),
            written: String::new(),
        }
    }

    /// What stands on the screen.
    pub fn shown(&self) -> String {
        self.screen.screen().contents()
    }

    /// Shows whole frames only, as a terminal with synchronized output does.
    fn take(&mut self, bytes: &[u8]) {
        self.written.push_str(&String::from_utf8_lossy(bytes));
        self.part.extend_from_slice(bytes);
        while let Some(length) = ready(&self.part) {
            let rest = self.part.split_off(length);
            self.screen.process(&self.part);
            self.part = rest;
        }
    }

    /// Reads until the fact is there; how long that took.
    pub fn wait(&mut self, what: &str, fact: impl Fn(&Self) -> bool) -> Duration {
        let from = Instant::now();
        let deadline = from + PATIENCE;
        while !fact(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => panic!("no {what} ({error}); on screen:\n{}", self.shown()),
            }
        }
        from.elapsed()
    }

    /// Waits until the text stands on the screen.
    pub fn wait_for(&mut self, text: &str) -> Duration {
        self.wait(text, |console| console.shown().contains(text))
    }

    /// Waits until the sequence was written, wherever it went.
    pub fn wait_written(&mut self, sequence: &str) {
        self.wait(&format!("{sequence:?}"), |console| {
            console.written.contains(sequence)
        });
    }

    /// Types as a person does: the console ignores guarded keys that come faster (T-10). What is
    /// written meanwhile is read, as a terminal would.
    pub fn press(&mut self, keys: &str) {
        self.press_after(HUMAN_GAP, keys);
    }

    /// Types after a longer look at the screen.
    pub fn press_after(&mut self, pause: Duration, keys: &str) {
        let typed_at = Instant::now() + pause;
        while let Some(left) = typed_at.checked_duration_since(Instant::now()) {
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it has ended; on screen:\n{}", self.shown())
                }
            }
        }
        self.input.write_all(keys.as_bytes()).expect("written");
        self.input.flush().expect("flushed");
    }

    /// Gives the terminal another size: it forgets what it showed, the console draws anew.
    pub fn resize(&mut self, size: Size) {
        self.master.resize(pty_size(size)).expect("resized");
        self.screen = vt100::Parser::new(size.1, size.0, 0);
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().expect("a pid");
        let pid = Pid::from_raw(i32::try_from(pid).expect("small")).expect("not zero");
        kill_process(pid, signal).expect("signalled");
    }

    /// Waits for the end; the terminal must have been given back.
    pub fn end(mut self) -> u32 {
        self.wait_written(LEAVE_SCREEN);
        self.wait_written(SHOW_CURSOR);
        self.child.wait().expect("ends").exit_code()
    }
}
