//! The script most teams begin with: PyMySQL and pika, one row after the other, `SELECT .. FOR UPDATE`,
//! publish with confirm, mark, commit. A Python without one of them is reported, never guessed.

use std::time::Duration;

use color_eyre::eyre::{Result, WrapErr, bail, eyre};
use tokio::process::Command;

use crate::outbox::{EXCHANGE, Outbox};
use crate::report::note;
use crate::servers::Servers;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/bench/dispatch/per_row.py"
);

/// A Python that can run it; `None`, and a note why.
pub async fn python() -> Option<String> {
    let Ok(python) = std::env::var("REDRIVE_TEST_PYTHON") else {
        note("no Python with pika (REDRIVE_TEST_PYTHON is not set): the script is not measured");
        return None;
    };
    let mut imports = Command::new(&python);
    imports.args(["-c", "import pika, pymysql"]);
    match imports.output().await {
        Ok(done) if done.status.success() => Some(python),
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stderr);
            let why = why.lines().last().unwrap_or("no reason");
            note(&format!("the script is not measured: {why}"));
            None
        }
        Err(error) => {
            note(&format!("the script is not measured: {python}: {error}"));
            None
        }
    }
}

/// Sends every due row; how long it took.
pub async fn run(
    python: &str,
    servers: &Servers,
    outbox: &Outbox,
    events: u64,
) -> Result<Duration> {
    let done = Command::new(python)
        .args([SCRIPT, &outbox.url, &servers.amqp, EXCHANGE])
        .output()
        .await
        .wrap_err("the script")?;
    if !done.status.success() {
        bail!("the script: {}", String::from_utf8_lossy(&done.stderr));
    }
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut words = said.split_whitespace();
    let mut next = || {
        words
            .next()
            .ok_or_else(|| eyre!("the script said {said:?}"))
    };
    let (sent, seconds): (u64, f64) = (next()?.parse()?, next()?.parse()?);
    if sent != events {
        bail!("the script sent {sent} of {events}");
    }
    Ok(Duration::from_secs_f64(seconds))
}
