//! `redrive completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::exit::Exit;
use super::failure::Outcome;
use super::{Cli, output};

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    pub shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redrive", &mut script);
    output::raw(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}
