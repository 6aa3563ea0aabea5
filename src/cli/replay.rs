//! `redrive replay EVENT`: the same event again, to the consumer that failed.

use clap::Args;

use crate::model::ids::ConsumerName;
use crate::operate::plan::Request;

use super::act::{self, Act};
use super::failure::Outcome;
use super::session::Session;

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Event id (or the start of one that is unique) of a dead letter or a failed outbox row
    #[arg(value_name = "EVENT")]
    pub event: String,
    /// The consumer that failed, when several did
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
    /// Through the original exchange instead of straight to the failed queue: others may get it too
    #[arg(long, conflicts_with = "to_queue")]
    pub through_exchange: bool,
    /// To this queue instead
    #[arg(long, value_name = "QUEUE")]
    pub to_queue: Option<String>,
    /// Go on although this check refuses; name each one as the plan does
    #[arg(long = "override", value_name = "CHECK")]
    pub overrides: Vec<String>,
    /// Confirmation.
    #[command(flatten)]
    pub act: Act,
}

pub(super) async fn run(session: &Session, args: &ReplayArgs) -> Outcome {
    let consumer = args.consumer.as_deref().map(ConsumerName::from);
    let operator = &session.services.operator;
    let target = operator.resolve(&args.event, consumer.as_ref()).await?;
    let request = Request::Replay {
        target,
        through_exchange: args.through_exchange,
        to_queue: args.to_queue.clone(),
        overrides: args.overrides.clone(),
    };
    act::run(session, &request, &args.act).await
}
