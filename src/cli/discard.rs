//! `redrive discard EVENT`: a dead letter given up, or closed as already processed.

use clap::Args;

use crate::model::ids::ConsumerName;
use crate::operate::plan::Request;

use super::act::{self, Act};
use super::failure::Outcome;
use super::session::Session;

/// Arguments of `discard`.
#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// Event id (or the start of one that is unique) of a dead letter
    #[arg(value_name = "EVENT")]
    pub event: String,
    /// The consumer that failed, when several did
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
    /// Close it as already processed instead of given up
    #[arg(long)]
    pub resolved: bool,
    /// Confirmation.
    #[command(flatten)]
    pub act: Act,
}

pub(super) async fn run(session: &Session, args: &DiscardArgs) -> Outcome {
    let consumer = args.consumer.as_deref().map(ConsumerName::from);
    let operator = &session.services.operator;
    let target = operator.resolve(&args.event, consumer.as_ref()).await?;
    let request = Request::Discard {
        target,
        is_resolved: args.resolved,
    };
    act::run(session, &request, &args.act).await
}
