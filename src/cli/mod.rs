//! The command line: the same verbs as the console, for scripts. One file a subcommand; every answer
//! goes through [`envelope::Answer`], every write through `act`.

pub mod act;
pub mod audit;
pub mod check;
pub mod completions;
pub mod config;
pub mod console;
pub mod dead;
pub mod dead_show;
pub mod demo;
pub mod discard;
pub mod doctor;
pub mod drill;
pub mod envelope;
pub mod exit;
pub mod exporter;
pub mod failure;
pub mod findings;
pub mod leases;
pub mod list;
pub mod logging;
mod mask;
pub mod migrate;
pub mod operations;
pub mod outbox;
pub mod output;
pub mod plan_text;
pub mod queues;
pub mod reference;
pub mod release;
pub mod repair;
pub mod replay;
pub mod saga;
pub mod sagas;
pub mod scan;
pub mod session;
pub mod status;
pub mod table;
pub mod trace;
pub mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use console::ConsoleArgs;
use exit::Exit;
use failure::{Failure, Outcome};
use output::Format;
use session::Session;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  internal error, or the answer could not be written
  2  wrong usage, unknown id, unusable configuration
  3  findings: unhealthy, a failed check, a replay that died again
  4  refused by a guard; nothing was done
  5  a dependency is unreachable; the answer is not complete
  6  partly done
  7  outcome unknown";

/// The console for a stuck message pipeline: looks, explains, replays.
///
/// Without a subcommand it opens the console. Subcommands answer once and leave; those that write print
/// their plan and stop unless --apply is given.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    /// What holds for every subcommand.
    #[command(flatten)]
    pub global: Global,
    /// How the console looks.
    #[command(flatten)]
    pub look: ConsoleArgs,
    /// What to do; the console when there is none.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every subcommand.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere", next_display_order = 900)]
pub struct Global {
    /// Context of the configuration to use [default: its default_context]
    #[arg(
        long,
        short,
        global = true,
        value_name = "NAME",
        env = "REDRIVE_CONTEXT",
        hide_env_values = true
    )]
    pub context: Option<String>,
    /// Configuration file [default: $REDRIVE_CONFIG, then $XDG_CONFIG_HOME/redrive/redrive.toml, then ~/.config/redrive/redrive.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the answer on stdout
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub output: Format,
    /// Write nothing, whatever the context allows
    #[arg(long, global = true)]
    pub read_only: bool,
    /// Log level on stderr (a file for the console): off, error, warn, info, debug, trace [default: warn; info for `worker`]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = logging::level)]
    pub log_level: Option<tracing::level_filters::LevelFilter>,
}

/// Every subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Where the pipeline stands: health, flow, and what needs a person
    Status,
    /// What is wrong and why, the worst first, and who recovers it
    ///
    /// Looks three times, a refresh apart. Exit code 3: something is wrong. 5: nothing is wrong that could be
    /// looked at, but something could not. docs/runbook.md has a section for each verdict.
    Doctor(doctor::DoctorArgs),
    /// Outbox rows of one state, oldest due first
    Outbox(outbox::OutboxArgs),
    /// Claims and their leases, the most overdue first
    Leases(leases::LeasesArgs),
    /// Queues with depth, consumers, rates, lag and warnings
    Queues(queues::QueuesArgs),
    /// Dead letters: rows, causes, or one with everything known about it
    Dead(dead::DeadArgs),
    /// Sagas: those that need a person, then the stalest
    Sagas(sagas::SagasArgs),
    /// The story of one event, aggregate, saga or operation, over all services
    Trace(trace::TraceArgs),
    /// Operator actions and how they ended
    Operations(operations::OperationsArgs),
    /// The audit log, and whether its chain is whole
    Audit(audit::AuditArgs),
    /// Send a dead letter again under its own event id
    Replay(replay::ReplayArgs),
    /// Issue a new event, linked to a dead letter, with an edited payload
    Repair(repair::RepairArgs),
    /// Give an expired lease back to the dispatchers
    Release(release::ReleaseArgs),
    /// Give a dead letter up, or close it as already processed
    Discard(discard::DiscardArgs),
    /// Move a saga by hand: retry, query, compensate, handled, assign
    #[command(subcommand)]
    Saga(saga::SagaCommand),
    /// Compare what should agree, and look at what differs
    #[command(subcommand)]
    Scan(scan::ScanCommand),
    /// Reach every server; say what works, with which rights, and what is missing
    Check,
    /// Create the native tables in a service's database; dry by default
    Migrate(migrate::MigrateArgs),
    /// Write, show or find the configuration
    Config(config::ConfigArgs),
    /// Run the pipeline's workers until stopped
    Worker(worker::WorkerArgs),
    /// Serve metrics of the whole chain for Prometheus until stopped
    Exporter(exporter::ExporterArgs),
    /// Inject faults on purpose, in a sandbox, and see what became of them
    Drill(drill::DrillArgs),
    /// The console on an embedded pipeline with faults on purpose; nothing to install
    Demo(demo::DemoArgs),
    /// Print a shell's completion script
    Completions(completions::CompletionsArgs),
}

/// Parses the arguments and runs what they say.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Fine
            };
            return match error.print() {
                Ok(()) => exit.into(),
                Err(io) => output::report(&Failure::from(io)).into(),
            };
        }
    };
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => output::report(&failure).into(),
    }
}

fn run(cli: Cli) -> Outcome {
    let _log = logging::start(&cli)?;
    // A console only looks: one thread beside that of the screen is enough, and a second would be woken
    // at every answer, and cost more than the looking does.
    let worker_threads = if cli.command.is_none() { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: Cli) -> Outcome {
    let global = cli.global;
    match cli.command {
        None => console::run(&global, &cli.look).await,
        Some(_) if cli.look != ConsoleArgs::default() => Err(Failure::usage(
            "--theme, --pane and --no-mouse belong to the console; a subcommand has no use for them",
        )),
        Some(Command::Demo(args)) => demo::run(&global, &args).await,
        Some(Command::Drill(args)) => drill::run(&global, &args).await,
        Some(Command::Doctor(args)) if args.list => doctor::list(global.output),
        Some(Command::Config(args)) => config::run(&global, &args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(command) => {
            let session = Session::open(&global)?;
            let outcome = in_context(&session, command).await;
            session.close().await;
            outcome
        }
    }
}

/// Runs a subcommand that needs a context.
async fn in_context(session: &Session, command: Command) -> Outcome {
    match command {
        Command::Status => status::run(session).await,
        Command::Doctor(_) => doctor::run(session).await,
        Command::Outbox(args) => outbox::run(session, &args).await,
        Command::Leases(args) => leases::run(session, &args).await,
        Command::Queues(args) => queues::run(session, &args).await,
        Command::Dead(args) => dead::run(session, &args).await,
        Command::Sagas(args) => sagas::run(session, &args).await,
        Command::Trace(args) => trace::run(session, &args).await,
        Command::Operations(args) => operations::run(session, &args).await,
        Command::Audit(args) => audit::run(session, &args).await,
        Command::Replay(args) => replay::run(session, &args).await,
        Command::Repair(args) => repair::run(session, &args).await,
        Command::Release(args) => release::run(session, &args).await,
        Command::Discard(args) => discard::run(session, &args).await,
        Command::Saga(command) => saga::run(session, &command).await,
        Command::Scan(command) => scan::run(session, &command).await,
        Command::Check => check::run(session).await,
        Command::Migrate(args) => migrate::run(session, &args).await,
        Command::Exporter(args) => exporter::run(session, &args).await,
        Command::Worker(args) => worker::run(session, &args).await,
        Command::Config(_) | Command::Demo(_) | Command::Drill(_) | Command::Completions(_) => {
            Err(Failure::internal("this command opens its own context"))
        }
    }
}
