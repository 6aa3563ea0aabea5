//! `redrive repair EVENT`: a new event, linked to the dead letter, with an edited payload.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::model::ids::ConsumerName;
use crate::model::message::Payload;
use crate::operate::plan::Request;

use super::act::{self, Act};
use super::failure::{Failure, Outcome};
use super::session::{Session, env};

/// Arguments of `repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Event id (or the start of one that is unique) of a dead letter
    #[arg(value_name = "EVENT")]
    pub event: String,
    /// The consumer that failed, when several did
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
    /// File with the new payload; - is stdin
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "editor",
        conflicts_with = "editor"
    )]
    pub payload_file: Option<PathBuf>,
    /// Edit the stored payload in $VISUAL or $EDITOR
    #[arg(long)]
    pub editor: bool,
    /// Confirmation.
    #[command(flatten)]
    pub act: Act,
}

pub(super) async fn run(session: &Session, args: &RepairArgs) -> Outcome {
    let consumer = args.consumer.as_deref().map(ConsumerName::from);
    let operator = &session.services.operator;
    let target = operator.resolve(&args.event, consumer.as_ref()).await?;
    let payload = match &args.payload_file {
        Some(path) => read(path)?,
        None => edit(&operator.payload(&target).await?).await?,
    };
    let request = Request::Repair { target, payload };
    act::run(session, &request, &args.act).await
}

fn read(path: &Path) -> Outcome<Payload> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
        return Ok(Payload::new(bytes));
    }
    std::fs::read(path)
        .map(Payload::new)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
}

/// Lets a person edit the payload; what is not changed is not a repair.
async fn edit(stored: &Payload) -> Outcome<Payload> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "--editor needs a terminal; use --payload-file FILE",
        ));
    }
    let editor = env("VISUAL")
        .or_else(|| env("EDITOR"))
        .filter(|editor| !editor.trim().is_empty())
        .ok_or_else(|| {
            Failure::usage("neither VISUAL nor EDITOR is set; set one or use --payload-file FILE")
        })?;
    let internal = |error: std::io::Error| Failure::internal(format!("payload file: {error}"));
    // Only the owner may read it: a payload is somebody's data.
    let file = tempfile::Builder::new()
        .prefix("redrive-repair-")
        .suffix(".json")
        .tempfile()
        .map_err(internal)?;
    std::fs::write(file.path(), stored.bytes()).map_err(internal)?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status = tokio::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .await
        .map_err(|error| Failure::usage(format!("cannot run {program}: {error}")))?;
    if !status.success() {
        return Err(Failure::usage(format!(
            "{program} ended with {status}; nothing was changed"
        )));
    }
    let edited = std::fs::read(file.path()).map_err(internal)?;
    let edited = as_saved(stored.bytes(), edited);
    if edited == stored.bytes() {
        return Err(Failure::usage(
            "the payload was not changed; to send it as it is use `redrive replay`",
        ));
    }
    Ok(Payload::new(edited))
}

/// Most editors end a file with a line break; one that the payload did not have is theirs.
fn as_saved(stored: &[u8], mut edited: Vec<u8>) -> Vec<u8> {
    if !stored.ends_with(b"\n") && edited.ends_with(b"\n") {
        edited.pop();
        if edited.ends_with(b"\r") {
            edited.pop();
        }
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::as_saved;

    #[test]
    fn the_editors_own_line_break_is_taken_off() {
        assert_eq!(as_saved(b"{}", b"{\"a\":1}\n".to_vec()), b"{\"a\":1}");
        assert_eq!(as_saved(b"{}\n", b"{\"a\":1}\n".to_vec()), b"{\"a\":1}\n");
        assert_eq!(as_saved(b"{}", b"{}\r\n".to_vec()), b"{}");
    }
}
