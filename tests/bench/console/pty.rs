//! The release binary on a terminal of its own: keys in, screens out, both with their time.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, bail, eyre};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::context::Home;

/// Opens each pane in turn: every key changes the screen.
pub const PANES: [&str; 8] = ["2", "3", "4", "5", "6", "8", "9", "1"];

pub const ROWS: u16 = 36;
pub const COLUMNS: u16 = 120;

/// Reads that were not taken yet; a console that writes more than that has failed its figure anyway.
const READS_MAX: usize = 4096;

/// What the program wrote at once.
pub struct Burst {
    /// When it arrived.
    pub at: Instant,
    pub bytes: usize,
    /// Whether anything on the screen is different now, the cursor included.
    pub changed: bool,
    /// Whether anything below the top line is different: clock and ages up there change by themselves.
    pub changed_below_top: bool,
}

/// The program, its terminal, and what stands on it.
pub struct Console {
    child: Box<dyn Child + Send + Sync>,
    /// Closing it would hang up.
    _master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    reads: Receiver<(Instant, Vec<u8>)>,
    screen: vt100::Parser,
    pub started: Instant,
}

impl Console {
    /// Starts the program with the configuration in `home` and nothing else of this environment.
    pub fn start(home: &Home) -> Result<Self> {
        let size = PtySize {
            rows: ROWS,
            cols: COLUMNS,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system()
            .openpty(size)
            .map_err(|error| eyre!("{error:#}"))?;
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_redrive"));
        command.arg("--config");
        command.arg(home.config());
        command.cwd(home.path());
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env("HOME", home.path());
        let mut reader = pair
            .master
            .try_clone_reader()
            .map_err(|error| eyre!("{error:#}"))?;
        let keyboard = pair
            .master
            .take_writer()
            .map_err(|error| eyre!("{error:#}"))?;
        let (sender, reads) = sync_channel(READS_MAX);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender
                    .send((Instant::now(), buffer[..length].to_vec()))
                    .is_err()
                {
                    break;
                }
            }
        });
        let started = Instant::now();
        let child = pair
            .slave
            .spawn_command(command)
            .map_err(|error| eyre!("{error:#}"))?;
        Ok(Self {
            child,
            _master: pair.master,
            keyboard,
            reads,
            screen: vt100::Parser::new(ROWS, COLUMNS, 0),
            started,
        })
    }

    /// The next thing written, if any comes before `deadline`.
    pub fn next_burst(&mut self, deadline: Instant) -> Result<Option<Burst>> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.reads.recv_timeout(left) {
            Ok((at, bytes)) => self.show(at, &bytes).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the console ended: {}", self.text().trim())
            }
        }
    }

    /// Waits until the screen shows `what`; when that was.
    pub fn wait_for(&mut self, what: &str, patience: Duration) -> Result<Instant> {
        let deadline = Instant::now() + patience;
        let mut at = Instant::now();
        while !self.text().contains(what) {
            match self.next_burst(deadline)? {
                Some(burst) => at = burst.at,
                None => bail!(
                    "no {what:?} within {patience:?} on this screen:\n{}",
                    self.text()
                ),
            }
        }
        Ok(at)
    }

    /// Takes in whatever is written during `time`.
    pub fn rest(&mut self, time: Duration) -> Result<Vec<Burst>> {
        let deadline = Instant::now() + time;
        let mut bursts = Vec::new();
        while let Some(burst) = self.next_burst(deadline)? {
            bursts.push(burst);
        }
        Ok(bursts)
    }

    /// Presses keys; when that was.
    pub fn press(&mut self, keys: &str) -> Result<Instant> {
        let at = Instant::now();
        self.keyboard.write_all(keys.as_bytes())?;
        self.keyboard.flush()?;
        Ok(at)
    }

    /// What can be read on the screen.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// A file of the process in `/proc`.
    pub fn process_file(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.process_path(name)?)?)
    }

    /// Tells the kernel to forget which pages of memory the process has touched.
    pub fn forget_touched(&self) -> Result<()> {
        Ok(std::fs::write(self.process_path("clear_refs")?, "1")?)
    }

    fn process_path(&self, name: &str) -> Result<String> {
        let pid = self.child.process_id();
        let pid = pid.ok_or_else(|| eyre!("the console has ended"))?;
        Ok(format!("/proc/{pid}/{name}"))
    }

    fn show(&mut self, at: Instant, bytes: &[u8]) -> Result<Burst> {
        let before = self.screen.screen().clone();
        self.screen.process(bytes);
        self.answer(bytes)?;
        let now = self.screen.screen();
        let rows = |screen: &vt100::Screen| {
            screen
                .rows_formatted(0, COLUMNS)
                .skip(1)
                .collect::<Vec<_>>()
        };
        Ok(Burst {
            at,
            bytes: bytes.len(),
            changed: now.state_formatted() != before.state_formatted(),
            changed_below_top: rows(now) != rows(&before),
        })
    }

    /// What a terminal answers when it is asked what it is, or where its cursor stands.
    fn answer(&mut self, bytes: &[u8]) -> Result<()> {
        let asks = |question: &[u8]| bytes.windows(question.len()).any(|part| part == question);
        if asks(b"\x1b[c") {
            self.press("\x1b[?62;22c")?;
        }
        if asks(b"\x1b[6n") {
            let (row, column) = self.screen.screen().cursor_position();
            self.press(&format!("\x1b[{};{}R", row + 1, column + 1))?;
        }
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Best effort: it may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
