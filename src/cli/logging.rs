//! Logs: stderr for commands, a file for the console. Only our own modules may go below `info`: an
//! AMQP client that traces its frames would write the password into the log.

use std::path::PathBuf;

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::failure::{Failure, Outcome};
use super::{Cli, Command};

/// Lines that wait to be written; more are dropped. The default of 128 000 takes 4 MiB from the start.
const LINES_MAX: usize = 4_096;
/// Days of log files that are kept.
const LOG_FILES_MAX: usize = 7;

/// Reads a level from a flag.
pub(super) fn level(text: &str) -> Result<LevelFilter, String> {
    text.parse()
        .map_err(|_| "use off, error, warn, info, debug or trace".to_owned())
}

/// Starts logging as the arguments say; the log ends when the guard is dropped.
pub(super) fn start(cli: &Cli) -> Outcome<Option<WorkerGuard>> {
    let (is_console, default) = match &cli.command {
        None => (true, LevelFilter::INFO),
        Some(Command::Demo(args)) => (!args.is_headless(), LevelFilter::INFO),
        Some(Command::Worker(_)) => (false, LevelFilter::INFO),
        // Workers of a drill complain on purpose; what became of it is in the answer.
        Some(Command::Drill(_)) => (false, LevelFilter::ERROR),
        Some(_) => (false, LevelFilter::WARN),
    };
    let env = std::env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.is_empty());
    let wanted = match (cli.global.log_level, env) {
        (Some(level), _) => EnvFilter::default().add_directive(level.into()),
        (None, Some(text)) => EnvFilter::try_new(text)
            .map_err(|error| Failure::usage(format!("RUST_LOG cannot be used: {error}")))?,
        (None, None) => EnvFilter::default().add_directive(default.into()),
    };
    // What lapin logs also comes back as an error and is told once by us; "no such queue" is even an
    // answer. Other libraries may say at most what a person can use.
    let ours = filter_fn(|event| {
        let target = event.target();
        target.starts_with("redrive")
            || (*event.level() <= tracing::Level::INFO && !target.starts_with("lapin"))
    });
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(true);
    let (guard, started) = if is_console {
        // A console whose state directory cannot be written still opens; it just keeps no log.
        let Some(file) = log_file() else {
            return Ok(None);
        };
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(LINES_MAX)
            .finish(file);
        let layer = layer.with_writer(writer).with_filter(wanted.and(ours));
        (
            Some(guard),
            tracing_subscriber::registry().with(layer).try_init(),
        )
    } else {
        let layer = layer
            .with_writer(std::io::stderr)
            .with_filter(wanted.and(ours));
        (None, tracing_subscriber::registry().with(layer).try_init())
    };
    started.map_err(|error| Failure::internal(format!("logging: {error}")))?;
    Ok(guard)
}

/// `$XDG_STATE_HOME/redrive/`, else `~/.local/state/redrive/`: one file a day.
fn log_file() -> Option<tracing_appender::rolling::RollingFileAppender> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state =
        set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    let directory = state.join("redrive");
    // The appender complains on stderr about a directory it would only make later.
    std::fs::create_dir_all(&directory).ok()?;
    tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix("redrive")
        .filename_suffix("log")
        .max_log_files(LOG_FILES_MAX)
        .build(directory)
        .ok()
}
