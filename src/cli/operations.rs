//! `redrive operations [list|show ID]`. Both look for proof of what is unfinished first, so that an
//! operation interrupted by a crash is resolved by the next look.

use clap::{Args, Subcommand};

use crate::model::filter::{FilterKind, InService};
use crate::model::ids::OperationId;
use crate::model::operation::{ItemState, Operation};
use crate::observe::operation_shown;
use crate::observe::snapshot::Unread;

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::list::Listing;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `operations`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OperationsArgs {
    /// What to do; `list` when there is none
    #[command(subcommand)]
    pub what: Option<OperationsCommand>,
    /// Filter and paging of `list`.
    #[command(flatten)]
    pub listing: Listing,
}

/// What to do with operations.
#[derive(Debug, Subcommand)]
pub enum OperationsCommand {
    /// Operations, newest first
    List {
        /// Filter and paging.
        #[command(flatten)]
        listing: Listing,
    },
    /// One operation with its plan and items
    Show {
        /// Operation id
        #[arg(value_name = "ID")]
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    left("service"),
    left("operation"),
    left("verb"),
    left("state"),
    left("items"),
    right("age"),
    left("actor"),
    flexible("reason"),
];

const ITEMS: &[Column] = &[
    right("no"),
    left("event"),
    left("consumer"),
    left("state"),
    left("new event"),
    flexible("evidence"),
];

pub(super) async fn run(session: &Session, args: &OperationsArgs) -> Outcome {
    match &args.what {
        None => list(session, &args.listing).await,
        Some(OperationsCommand::List { listing }) => list(session, listing).await,
        Some(OperationsCommand::Show { id }) => show(session, id).await,
    }
}

/// Looks for proof once. A read-only session cannot write what it finds and leaves it to another.
async fn prove(session: &Session, unread: &mut Vec<Unread>) {
    if session.read_only {
        return;
    }
    if let Err(error) = session.services.operator.prove_once().await {
        unread.push(Unread {
            what: "proof of unfinished operations".to_owned(),
            reason: error.to_string(),
            is_unreachable: error.is_unreachable(),
        });
    }
}

async fn list(session: &Session, listing: &Listing) -> Outcome {
    let filter = listing.filter(FilterKind::Operations)?;
    let mut answer = session.answer("operations");
    prove(session, &mut answer.unread).await;
    let limit = listing.limit_of_all();
    let snapshot = session.services.observer.operations(limit).await;
    answer.table = Table::new(COLUMNS);
    let (mut more, mut unknown) = (false, 0_usize);
    for part in &snapshot.services {
        let Some(operations) = answer.part(part) else {
            continue;
        };
        let service = part.service.as_str();
        more |= listing.is_full(operations.len());
        for operation in operations {
            let row = InService {
                service,
                row: operation,
            };
            if !filter.matches(&row, answer.as_of) {
                continue;
            }
            unknown += usize::from(has_unknown(operation));
            answer.item_of(service, operation)?;
            let cells = vec![
                Cell::text(service),
                Cell::text(operation.operation_id.as_str()),
                Cell::text(operation.verb.word()),
                Cell::text(operation.state.word()),
                Cell::text(summary(operation)),
                Cell::ago(Some(operation.created_at), answer.as_of),
                Cell::text(&operation.actor),
                Cell::text(&operation.reason),
            ];
            answer.table.push(cells);
        }
    }
    answer.more = Some(more);
    if more {
        answer.notes.push(format!(
            "the newest {limit} of each journal; --limit N or --all reads more"
        ));
    }
    answer.note_if_empty("none");
    if unknown > 0 {
        answer.notes.push(format!(
            "{unknown} with an unknown outcome: each look searches the inbox for proof; sending again is safe, the event id is the same"
        ));
    }
    session.write(&answer)
}

fn has_unknown(operation: &Operation) -> bool {
    let unknown = |state| matches!(state, ItemState::Unknown | ItemState::Publishing);
    operation.items.iter().any(|item| unknown(item.state))
}

/// `consumed`, or `3 consumed, 1 unknown`.
fn summary(operation: &Operation) -> String {
    if let [item] = operation.items.as_slice() {
        return item.state.word().to_owned();
    }
    let counts = ItemState::ALL.into_iter().filter_map(|state| {
        let n = operation
            .items
            .iter()
            .filter(|item| item.state == state)
            .count();
        (n > 0).then(|| format!("{n} {}", state.word()))
    });
    counts.collect::<Vec<_>>().join(", ")
}

async fn show(session: &Session, id: &str) -> Outcome {
    let mut answer = session.answer("operation");
    prove(session, &mut answer.unread).await;
    let id = OperationId::new(id);
    for (service, store) in session
        .services
        .ports
        .iter()
        .filter(|(service, _)| service.journal)
    {
        let found = match store.operation(&id).await {
            Ok(Some(operation)) => operation_shown(store, operation).await.map(Some),
            other => other,
        };
        match found {
            Ok(None) => {}
            Ok(Some(operation)) => {
                answer.item_of(&service.name, &operation)?;
                describe(&mut answer, &service.name, &operation);
                answer.exit = Exit::of_items(operation.items.iter().map(|item| item.state), false);
                // Found: what another journal could not answer does not matter any more.
                answer
                    .unread
                    .retain(|unread| !unread.what.starts_with("journal of "));
                return session.write(&answer);
            }
            Err(error) => answer.unread.push(Unread {
                what: format!("journal of {}", service.name),
                reason: error.to_string(),
                is_unreachable: error.is_unreachable(),
            }),
        }
    }
    if answer.unread.is_empty() {
        return Err(Failure::usage(format!(
            "no operation {id} in any journal of {}; `redrive operations` lists them",
            session.context().name
        )));
    }
    session.write(&answer)
}

fn describe(answer: &mut super::envelope::Answer, service: &str, operation: &Operation) {
    let safe = crate::base::text::safe;
    answer.head = vec![
        format!(
            "{} {} in {}",
            operation.verb.word(),
            operation.operation_id,
            safe(service)
        ),
        format!("state    {}", operation.state.word()),
        format!(
            "by       {} at {}",
            safe(&operation.actor),
            operation.created_at
        ),
        format!("reason   {}", safe(&operation.reason)),
    ];
    if let Some(ticket) = &operation.ticket {
        answer.head.push(format!("ticket   {}", safe(ticket)));
    }
    if let Some(at) = operation.finished_at {
        answer.head.push(format!("finished {at}"));
    }
    answer
        .head
        .push(format!("plan     {}", operation.plan_digest));
    answer.table = Table::new(ITEMS);
    for item in &operation.items {
        answer.table.push(vec![
            Cell::integer(Some(item.no)),
            Cell::optional(item.event_id.as_ref().map(ToString::to_string)),
            Cell::optional(item.consumer.as_ref().map(ToString::to_string)),
            Cell::text(item.state.word()),
            Cell::optional(item.new_event_id.as_ref().map(ToString::to_string)),
            Cell::optional(item.evidence.as_ref()),
        ]);
    }
}
