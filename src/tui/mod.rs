//! The console.
//!
//! ```text
//!  feeds (observe) ── watch ──▶ ┐                                    ┌▶ Effect::Plan, Apply (operate)
//!  outcomes ───────── mpsc ───▶ ├▶ Event ▶ update(Model) ▶ effects ──┼▶ Effect::Watch       (observe)
//!  keys, resize ───── stream ─▶ ┘            │                       └▶ Effect::Terminal    (this loop)
//!                                 dirty and nothing waiting ▶ view(&Model)   at most 30 a second
//! ```
//!
//! One owner of the state, no `.await` on anything that can hang between a key and its frame: a
//! database that does not answer is a line on the screen, not a frozen one.

pub mod dialog;
pub mod effect;
pub mod event;
pub mod hint;
pub mod keymap;
pub mod layout;
pub mod model;
pub mod pane;
mod run;
pub mod screen;
pub mod terminal;
#[cfg(test)]
mod test_support;
pub mod theme;
pub mod update;
pub mod view;
pub mod widget;
pub mod world;

use std::ffi::OsString;

use tokio::sync::watch;

use crate::pipeline::Report;

pub use hint::Script;
pub use model::Exit;
pub use pane::PaneId;
pub use run::run;
pub use theme::ThemeName;

/// How the console is opened.
#[derive(Debug)]
pub struct Options {
    /// The palette.
    pub theme: ThemeName,
    /// No colour, whatever the terminal can do. `NO_COLOR` is looked at besides.
    pub no_color: bool,
    /// The pane shown first.
    pub pane: PaneId,
    /// The guided line of the demo.
    pub hints: Option<Script>,
    /// Whether the mouse is used.
    pub mouse: bool,
    /// Reports of workers that run in this process.
    pub workers: Option<watch::Receiver<Vec<Report>>>,
    /// Contexts the command bar offers; choosing one ends the console with [`Exit::Context`].
    pub contexts: Vec<String>,
    /// What runs a drill: a program and its arguments before the drill's number. `None`: not from here.
    pub drill: Option<Vec<OsString>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            theme: ThemeName::default(),
            no_color: false,
            pane: PaneId::default(),
            hints: None,
            mouse: true,
            workers: None,
            contexts: Vec::new(),
            drill: None,
        }
    }
}

/// Why the console could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// There is nothing to draw on.
    #[error("no terminal: use `redrive status -o json` ({0})")]
    NoTerminal(&'static str),
    /// The terminal did not do what it was asked, or is gone.
    #[error("the terminal is lost: {0}")]
    Lost(#[from] std::io::Error),
    /// A part of the program panicked; what it said is above.
    #[error("a part of redrive panicked; the words above say where")]
    Panicked,
}

impl TuiError {
    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoTerminal(_) => 2,
            Self::Lost(_) | Self::Panicked => 1,
        }
    }
}
