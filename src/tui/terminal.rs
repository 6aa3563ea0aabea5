//! The terminal's modes: taken at the start, given back whatever happens — the end, an error, a
//! panic anywhere, a signal, Ctrl-Z.

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{ExecutableCommand, QueueableCommand};
use tokio::sync::Notify;

use super::TuiError;

/// True while the terminal is ours.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// True once any thread or task has panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
/// Wakes the loop when a task has panicked: it ends, for nobody knows what is broken.
static PANICKED: Notify = Notify::const_new();
static HOOK: Once = Once::new();

/// Checks that there is a terminal to draw on.
///
/// # Errors
/// [`TuiError::NoTerminal`] says what to use instead (exit code 2).
pub fn check_tty() -> Result<(), TuiError> {
    check(
        io::stdin().is_terminal() && io::stdout().is_terminal(),
        std::env::var("TERM").ok().as_deref(),
    )
}

fn check(is_terminal: bool, term: Option<&str>) -> Result<(), TuiError> {
    let why = match term {
        _ if !is_terminal => "standard input or output is not a terminal",
        None | Some("") => "TERM is empty",
        Some("dumb") => "TERM is dumb",
        Some(_) => return Ok(()),
    };
    Err(TuiError::NoTerminal(why))
}

/// The terminal in our hands; gives it back when dropped.
pub struct Guard {
    has_mouse: bool,
}

impl Guard {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal did not do it; it is given back as it was.
    pub fn take(has_mouse: bool) -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                HAS_PANICKED.store(true, Ordering::SeqCst);
                // First the terminal, then the words: they must not vanish with the other screen.
                restore();
                before(info);
                PANICKED.notify_one();
            }));
        });
        let guard = Self { has_mouse };
        guard.enter()?;
        Ok(guard)
    }

    /// Takes the terminal again after it was given back.
    ///
    /// # Errors
    /// The terminal did not do it.
    pub fn enter(&self) -> io::Result<()> {
        if IS_TAKEN.swap(true, Ordering::SeqCst) {
            // Somebody stopped us without asking, and the shell may have set other modes since:
            // they are set anew, which crossterm does only when it thinks they are not.
            disable_raw_mode()?;
        }
        enable_raw_mode()?;
        let mut out = io::stdout();
        out.queue(EnterAlternateScreen)?
            .queue(Hide)?
            .queue(EnableBracketedPaste)?;
        if self.has_mouse {
            out.queue(EnableMouseCapture)?;
        }
        out.flush()
    }

    /// Gives the terminal back for a while.
    pub fn leave(&self) {
        restore();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, once. Every step is tried: a lost terminal fails them all, and that is
/// no reason to leave the others undone.
pub fn restore() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    let steps = [
        out.execute(DisableMouseCapture).is_ok(),
        out.execute(DisableBracketedPaste).is_ok(),
        write!(out, "{}", super::screen::reset()).is_ok(),
        out.execute(LeaveAlternateScreen).is_ok(),
        out.execute(Show).is_ok(),
        disable_raw_mode().is_ok(),
        out.flush().is_ok(),
    ];
    if steps.contains(&false) {
        tracing::debug!(terminal.restored = false, "the terminal is gone");
    }
}

/// Waits until something, anywhere, has panicked.
pub async fn panicked() {
    while !HAS_PANICKED.load(Ordering::SeqCst) {
        PANICKED.notified().await;
    }
}

/// Stops this process, as Ctrl-Z does: with everybody of its group when the key was pressed, so that
/// the shell gets the terminal back; returns when it goes on.
pub fn stop(with_group: bool) -> bool {
    use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
    let stopped = if with_group {
        kill_current_process_group(Signal::STOP)
    } else {
        kill_process(getpid(), Signal::STOP)
    };
    stopped.is_ok()
}

/// OSC 52: text for the clipboard of the terminal one sits at, also over SSH.
pub fn clipboard(text: &str) -> String {
    use base64::Engine as _;
    format!(
        "\x1b]52;c;{}\x07",
        base64::engine::general_purpose::STANDARD.encode(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_08_without_a_terminal_it_says_what_to_use() {
        for (is_terminal, term) in [
            (false, Some("xterm")),
            (true, None),
            (true, Some("")),
            (true, Some("dumb")),
        ] {
            let error = check(is_terminal, term).expect_err("refused");
            assert!(
                error
                    .to_string()
                    .starts_with("no terminal: use `redrive status -o json`"),
                "{error}"
            );
            assert_eq!(error.exit_code(), 2);
        }
        assert!(check(true, Some("xterm")).is_ok());
    }

    #[test]
    fn an_id_reaches_the_clipboard_as_osc_52() {
        assert_eq!(clipboard("0197"), "\x1b]52;c;MDE5Nw==\x07");
    }
}
