//! `redrive demo`: the console on a pipeline of its own, with faults on purpose.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::assembly::{Options, Services};
use crate::base::tasks::Tasks;
use crate::pipeline::supervisor::Supervisor;
use crate::sandbox;
use crate::tui::Script;

use super::console::ConsoleArgs;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Format;
use super::session::{Session, actor};
use super::{Global, console, status};

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
    /// How the console looks.
    #[command(flatten)]
    pub look: ConsoleArgs,
}

impl DemoArgs {
    /// True when no console is opened.
    pub(super) fn is_headless(&self) -> bool {
        self.headless.is_some()
    }
}

/// The whole pipeline in a temporary directory, with the console on it.
pub(super) async fn run(global: &Global, args: &DemoArgs) -> Outcome {
    if !args.is_headless() {
        console::check_terminal()?;
    }
    let directory = tempfile::Builder::new()
        .prefix("redrive-demo-")
        .tempdir()
        .map_err(|error| Failure::internal(format!("no temporary directory: {error}")))?;
    let context = Arc::new(sandbox::demo_context(directory.path()));
    // The pipeline has sessions of its own: a read-only console must not stop it.
    let pipeline_side = Services::open(Arc::clone(&context), options(false))?;
    let services = pipeline_side.beside(options(global.read_only))?;
    let pipeline = Pipeline::start(&pipeline_side, args.seed).await?;
    let outcome = if let Some(seconds) = args.headless {
        headless(services, global.output, seconds).await
    } else {
        let contexts = vec![context.name.clone()];
        let mut options = args.look.options(contexts, Some(Script::demo()));
        options.drill = console::embedded_drill();
        console::open(services, options).await.map(|_| Exit::Fine)
    };
    pipeline.stop().await;
    pipeline_side.close().await;
    outcome
}

fn options(read_only: bool) -> Options {
    Options {
        actor: actor(),
        read_only,
    }
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
