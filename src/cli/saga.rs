//! `redrive saga …`: move a saga by hand. Nothing is sent from here: the rows are changed, and the
//! coordinator acts on them.

use clap::{Args, Subcommand};

use crate::operate::plan::{Request, SagaWish};

use super::act::{self, Act};
use super::failure::{Failure, Outcome};
use super::session::Session;

/// What to do to a saga.
#[derive(Debug, Subcommand)]
pub enum SagaCommand {
    /// Send the command of the step that holds it up again, under the same idempotency key
    Retry(Retried),
    /// Ask the step's service what became of it
    Query(Retried),
    /// Turn a running saga round: what was done is undone
    Compensate(Compensated),
    /// Say that a person saw to the step, and what shows it
    Handled(Handled),
    /// Say who looks after it
    Assign(Assigned),
}

/// Which saga.
#[derive(Debug, Args)]
pub struct Which {
    /// Saga id as `redrive sagas` prints it, or its first 8 characters
    #[arg(value_name = "SAGA")]
    pub saga: String,
    /// Service that keeps it; looked for when not given
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Confirmation.
    #[command(flatten)]
    pub act: Act,
}

/// Arguments of `saga retry` and `saga query`.
#[derive(Debug, Args)]
pub struct Retried {
    /// Which saga.
    #[command(flatten)]
    pub which: Which,
    /// Step by its number [default: the one that holds it up]
    #[arg(long, value_name = "NO")]
    pub step: Option<i64>,
}

/// Arguments of `saga compensate`.
#[derive(Debug, Args)]
pub struct Compensated {
    /// Which saga.
    #[command(flatten)]
    pub which: Which,
}

/// Arguments of `saga handled`.
#[derive(Debug, Args)]
pub struct Handled {
    /// Which saga.
    #[command(flatten)]
    pub which: Which,
    /// Step by its number [default: the one that holds it up]
    #[arg(long, value_name = "NO")]
    pub step: Option<i64>,
    /// What shows it: a receipt, a ticket, a name
    #[arg(long, value_name = "TEXT")]
    pub evidence: String,
    /// You made sure that the step is not done: the saga turns round
    #[arg(long)]
    pub not_done: bool,
}

/// Arguments of `saga assign`.
#[derive(Debug, Args)]
pub struct Assigned {
    /// Which saga.
    #[command(flatten)]
    pub which: Which,
    /// Who looks after it; - for nobody
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub owner: String,
}

pub(super) async fn run(session: &Session, command: &SagaCommand) -> Outcome {
    let (which, step, wish) = match command {
        SagaCommand::Retry(args) => (&args.which, args.step, SagaWish::Retry),
        SagaCommand::Query(args) => (&args.which, args.step, SagaWish::Query),
        SagaCommand::Compensate(args) => (&args.which, None, SagaWish::Compensate),
        SagaCommand::Handled(args) => {
            let evidence = told("--evidence", &args.evidence)?;
            let wish = SagaWish::Handled {
                is_done: !args.not_done,
                evidence: Some(evidence),
            };
            (&args.which, args.step, wish)
        }
        SagaCommand::Assign(args) => {
            let owner = told("--owner", &args.owner)?;
            (&args.which, None, SagaWish::Assign { owner: Some(owner) })
        }
    };
    let operator = &session.services.operator;
    let (service, saga_id) = operator
        .resolve_saga(&which.saga, which.service.as_deref())
        .await?;
    let request = Request::Saga {
        service,
        saga_id,
        step,
        wish,
    };
    act::run(session, &request, &which.act).await
}

fn told(flag: &str, text: &str) -> Outcome<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::usage(format!("{flag} says nothing")));
    }
    Ok(text.to_owned())
}
