//! `redrive release TOKEN`: an expired lease back to pending.

use clap::Args;

use crate::model::ids::ClaimToken;
use crate::observe::snapshot::Unread;
use crate::operate::plan::Request;

use super::act::{self, Act};
use super::failure::{Failure, Outcome};
use super::session::Session;

/// Arguments of `release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Claim token as `redrive leases` prints it
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Service of the outbox; looked for when not given
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Confirmation.
    #[command(flatten)]
    pub act: Act,
}

pub(super) async fn run(session: &Session, args: &ReleaseArgs) -> Outcome {
    let service = match &args.service {
        Some(service) => service.clone(),
        None => service_of(session, &args.token).await?,
    };
    let request = Request::Release {
        service,
        claim_token: ClaimToken::new(&args.token),
    };
    act::run(session, &request, &args.act).await
}

async fn service_of(session: &Session, token: &str) -> Outcome<String> {
    let snapshot = session.services.observer.leases().await;
    let mut unread: Option<Unread> = None;
    for part in &snapshot.services {
        unread = unread.or_else(|| part.unread.clone());
        let groups = part.value.iter().flat_map(|leases| &leases.groups);
        let mut tokens = groups.filter_map(|group| group.claim_token.as_ref());
        if tokens.any(|found| found.as_str() == token) {
            return Ok(part.service.clone());
        }
    }
    match unread {
        Some(unread) => Err(unread.into()),
        None => Err(Failure::usage(format!(
            "no claim {token:?} in any outbox of {}; `redrive leases` lists them",
            session.context().name
        ))),
    }
}
