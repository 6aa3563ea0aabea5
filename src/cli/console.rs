//! The console: without a subcommand, and in the demo.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::assembly::Services;
use crate::tui::{self, Exit as Left, Options, PaneId, Script, ThemeName};

use super::Global;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::session::Session;

/// How the console looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Console")]
pub struct ConsoleArgs {
    /// Palette; NO_COLOR switches colours off whatever this says
    #[arg(long, value_enum, value_name = "THEME")]
    pub theme: Option<ThemeWord>,
    /// Pane to open first, by name or number, e.g. dead_letters or 5
    #[arg(long, value_name = "PANE", value_parser = pane)]
    pub pane: Option<PaneId>,
    /// Leave the mouse to the terminal
    #[arg(long)]
    pub no_mouse: bool,
}

/// A palette by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThemeWord {
    /// For dark backgrounds
    Dark,
    /// For light backgrounds
    Light,
    /// The terminal's own 16 colours
    Ansi,
    /// No colour
    Mono,
}

impl From<ThemeWord> for ThemeName {
    fn from(word: ThemeWord) -> Self {
        match word {
            ThemeWord::Dark => Self::Dark,
            ThemeWord::Light => Self::Light,
            ThemeWord::Ansi => Self::Ansi,
            ThemeWord::Mono => Self::Mono,
        }
    }
}

fn pane(word: &str) -> Result<PaneId, String> {
    PaneId::from_word(word).ok_or_else(|| {
        let words: Vec<_> = tui::pane::PANES.iter().map(|spec| spec.word).collect();
        format!("use one of: {}", words.join(", "))
    })
}

impl ConsoleArgs {
    /// Options of the console on these contexts.
    pub(super) fn options(&self, contexts: Vec<String>, hints: Option<Script>) -> Options {
        Options {
            theme: self.theme.map(ThemeName::from).unwrap_or_default(),
            pane: self.pane.unwrap_or_default(),
            mouse: !self.no_mouse,
            hints,
            contexts,
            ..Options::default()
        }
    }
}

/// The console on the configured context, and on the next one when another is chosen in it.
pub(super) async fn run(global: &Global, args: &ConsoleArgs) -> Outcome {
    check_terminal()?;
    let mut global = global.clone();
    loop {
        let session = Session::open(&global)?;
        let mut options = args.options(session.contexts, None);
        options.drill = drill(&global, &session.services.ports.context.name);
        match open(session.services, options).await? {
            Left::Context(name) => global.context = Some(name),
            Left::Quit | Left::Stopped => return Ok(Exit::Fine),
        }
    }
}

/// How the console runs a drill: this program again, in the same context.
fn drill(global: &Global, context: &str) -> Option<Vec<OsString>> {
    let mut words = vec![std::env::current_exe().ok()?.into_os_string()];
    if let Some(config) = &global.config {
        words.extend([OsString::from("--config"), config.clone().into_os_string()]);
    }
    words.extend(["--context", context, "--output", "json", "drill", "run"].map(OsString::from));
    Some(words)
}

/// How the demo's console runs a drill: on an embedded pipeline of its own, beside the one on screen.
pub(super) fn embedded_drill() -> Option<Vec<OsString>> {
    let mut words = vec![std::env::current_exe().ok()?.into_os_string()];
    words.extend(["--output", "json", "drill", "run", "--embedded"].map(OsString::from));
    Some(words)
}

/// Says that there is no terminal before anything is opened (T-08).
pub(super) fn check_terminal() -> Outcome<()> {
    tui::terminal::check_tty().map_err(|error| failure(&error))
}

/// Opens the console; the terminal is given back in every case.
pub(super) async fn open(services: Services, options: Options) -> Outcome<Left> {
    Box::pin(tui::run(services, options))
        .await
        .map_err(|error| failure(&error))
}

fn failure(error: &tui::TuiError) -> Failure {
    let exit = if error.exit_code() == Exit::Usage.code() {
        Exit::Usage
    } else {
        Exit::Internal
    };
    Failure::new(exit, error.to_string())
}
