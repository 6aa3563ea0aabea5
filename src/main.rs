//! Error hooks, parse, choose a role, exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = color_eyre::install() {
        tracing::warn!(%error, "no error hooks");
    }
    redrive::cli::main()
}
