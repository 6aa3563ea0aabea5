//! `redrive exporter`: metrics for Prometheus, until stopped.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::base::tasks::Tasks;
use crate::exporter;

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output;
use super::session::Session;

/// How long a scrape in hand is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `exporter`.
#[derive(Debug, Args)]
pub struct ExporterArgs {
    /// Where to answer scrapes; port 0 takes a free one. There is no password: keep it on loopback, or
    /// behind something that has one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    pub listen: SocketAddr,
    /// Seconds between two looks, however many scrapers there are
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
}

pub(super) async fn run(session: &Session, args: &ExporterArgs) -> Outcome {
    let internal = |error: std::io::Error| Failure::internal(format!("signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(internal)?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Failure::usage(format!(
            "cannot listen on {}: {error}; choose another address with --listen",
            args.listen
        ))
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::internal(format!("the listener has no address: {error}")))?;
    output::say(&format!("serving http://{address}/metrics"))?;
    if !address.ip().is_loopback() {
        output::say("others can read it: there is no password")?;
    }
    let tasks = Tasks::new();
    let every = Duration::from_secs(args.every);
    exporter::start(session.services.observer.clone(), listener, every, &tasks);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    tasks.stop(PATIENCE).await;
    Ok(Exit::Fine)
}
