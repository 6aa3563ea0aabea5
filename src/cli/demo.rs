//! `redrive demo`, and the console without a subcommand.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::assembly::{Options, Services};
use crate::base::tasks::Tasks;
use crate::pipeline::supervisor::Supervisor;
use crate::sandbox;

use super::failure::{Failure, Outcome};
use super::output::Format;
use super::session::{Session, actor};
use super::{ConsoleStart, Global, OpenConsole, status};

/// How long the demo's workers may take to stop.
const STOP: Duration = Duration::from_secs(5);

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Repeats a run: the same orders with the same faults
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// No console: run the pipeline for so many seconds, then print its status
    #[arg(long, value_name = "SECONDS")]
    pub headless: Option<u64>,
}

impl DemoArgs {
    /// True when no console is opened.
    pub(super) fn is_headless(&self) -> bool {
        self.headless.is_some()
    }
}

/// The console on the configured context.
pub(super) async fn console(global: &Global, open: OpenConsole) -> Outcome {
    let session = Session::open(global)?;
    open(ConsoleStart {
        contexts: session.contexts,
        services: session.services,
        is_demo: false,
    })
    .await
}

/// The whole pipeline in a temporary directory, with the console on it.
pub(super) async fn run(global: &Global, args: &DemoArgs, open: OpenConsole) -> Outcome {
    let directory = tempfile::Builder::new()
        .prefix("redrive-demo-")
        .tempdir()
        .map_err(|error| Failure::internal(format!("no temporary directory: {error}")))?;
    let context = Arc::new(sandbox::demo_context(directory.path()));
    let services = open_services(&context, global)?;
    // The pipeline has connections of its own: a read-only console must not stop it.
    let pipeline = Pipeline::start(&services, args.seed).await?;
    let outcome = match args.headless {
        Some(seconds) => headless(services, global.output, seconds).await,
        None => {
            open(ConsoleStart {
                contexts: vec![context.name.clone()],
                services,
                is_demo: true,
            })
            .await
        }
    };
    pipeline.stop().await;
    outcome
}

fn open_services(context: &Arc<crate::config::Context>, global: &Global) -> Outcome<Services> {
    Ok(Services::open(
        Arc::clone(context),
        Options {
            actor: actor(),
            read_only: global.read_only,
        },
    )?)
}

/// The demo's workers.
struct Pipeline {
    tasks: Tasks,
}

impl Pipeline {
    async fn start(services: &Services, seed: u64) -> Outcome<Self> {
        let ports = &services.ports;
        sandbox::prepare(ports).await.map_err(Failure::internal)?;
        let workers = sandbox::workers(ports, seed).map_err(Failure::internal)?;
        let tasks = Tasks::new();
        // Nobody reads the board here: the workers log their trouble themselves.
        drop(Supervisor::start(workers, &tasks));
        Ok(Self { tasks })
    }

    async fn stop(self) {
        if !self.tasks.stop(STOP).await {
            tracing::warn!("the demo's workers did not stop in time");
        }
    }
}

async fn headless(services: Services, format: Format, seconds: u64) -> Outcome {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let session = Session::of(services, format);
    status::run(&session).await
}
