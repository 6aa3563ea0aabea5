//! `redrive config init|show|path`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::config::load::{Secrets, default_path, find, load_with};
use crate::config::{init, show};

use super::Global;
use super::envelope::Answer;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output;
use super::session::{env, now};
use super::table::{Cell, Column, Table, left};

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do with the configuration
    #[command(subcommand)]
    pub what: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a commented configuration; an existing file is left as it is
    Init {
        /// File to write [default: where redrive looks first]
        #[arg(value_name = "FILE")]
        path: Option<PathBuf>,
    },
    /// Print every value in force and where it came from; secrets are ***, and are not fetched
    Show,
    /// Print which file is read
    Path,
}

const SETTINGS: &[Column] = &[left("key"), left("value"), left("from")];

pub(super) fn run(global: &Global, args: &ConfigArgs) -> Outcome {
    match &args.what {
        ConfigCommand::Init { path } => write(global, path.as_ref()),
        ConfigCommand::Show => settings(global),
        ConfigCommand::Path => path(global),
    }
}

fn write(global: &Global, path: Option<&PathBuf>) -> Outcome {
    let path = path
        .or(global.config.as_ref())
        .cloned()
        .or_else(|| default_path(&env))
        .ok_or_else(|| Failure::usage("neither XDG_CONFIG_HOME nor HOME is set; name a file"))?;
    init::write(&path)?;
    let mut answer = Answer::new("config_path", None, now());
    let shown = path.display().to_string();
    answer.item(&json!({ "path": shown }))?;
    answer.head = vec![
        format!("wrote {shown}"),
        "edit it, then run `redrive check`".to_owned(),
    ];
    output::answer(global.output, &answer)
}

fn settings(global: &Global) -> Outcome {
    let loaded = load_with(global.config.as_deref(), &env, Secrets::None)?;
    let mut answer = Answer::new("config", None, now());
    answer.table = Table::new(SETTINGS);
    for setting in show::settings(&loaded) {
        if let Some(only) = &global.context
            && setting.key.starts_with("contexts.")
            && !setting.key.starts_with(&format!("contexts.{only}."))
        {
            continue;
        }
        answer.item(&setting)?;
        answer.table.push(vec![
            Cell::text(&setting.key),
            Cell::optional(setting.value.as_ref()),
            Cell::text(&setting.origin),
        ]);
    }
    output::answer(global.output, &answer)
}

fn path(global: &Global) -> Outcome {
    let path = find(global.config.as_deref(), &env)?;
    let mut answer = Answer::new("config_path", None, now());
    let shown = path.display().to_string();
    answer.item(&json!({ "path": shown }))?;
    answer.head = vec![shown];
    if !path.exists() {
        answer.notes = vec!["it does not exist".to_owned()];
        answer.exit = Exit::Usage;
    }
    output::answer(global.output, &answer)
}
