//! `redrive audit [list|verify]`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::base::human::grouped;
use crate::model::filter::{FilterKind, InService};
use crate::observe::snapshot::Unread;

use super::exit::Exit;
use super::failure::Outcome;
use super::list::Listing;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    /// What to do; `list` when there is none
    #[command(subcommand)]
    pub what: Option<AuditCommand>,
    /// Filter and paging of `list`.
    #[command(flatten)]
    pub listing: Listing,
}

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Entries, newest first
    List {
        /// Filter and paging.
        #[command(flatten)]
        listing: Listing,
    },
    /// Check the whole chain of every journal
    Verify,
}

const ENTRIES: &[Column] = &[
    left("service"),
    right("seq"),
    left("at"),
    left("actor"),
    left("action"),
    left("phase"),
    left("subject"),
    flexible("reason"),
];

const CHAINS: &[Column] = &[
    left("service"),
    left("chain"),
    right("entries"),
    left("fault"),
];

pub(super) async fn run(session: &Session, args: &AuditArgs) -> Outcome {
    match &args.what {
        None => list(session, &args.listing).await,
        Some(AuditCommand::List { listing }) => list(session, listing).await,
        Some(AuditCommand::Verify) => verify(session).await,
    }
}

async fn list(session: &Session, listing: &Listing) -> Outcome {
    let filter = listing.filter(FilterKind::Audit)?;
    let limit = listing.limit_of_all();
    let snapshot = session.services.observer.audit(limit).await;
    let mut answer = session.answer("audit");
    answer.table = Table::new(ENTRIES);
    let mut more = false;
    for part in &snapshot.services {
        let Some(entries) = answer.part(part) else {
            continue;
        };
        let service = part.service.as_str();
        more |= listing.is_full(entries.len());
        for entry in entries {
            if !filter.matches(
                &InService {
                    service,
                    row: entry,
                },
                answer.as_of,
            ) {
                continue;
            }
            answer.item_of(service, entry)?;
            answer.table.push(vec![
                Cell::text(service),
                Cell::integer(Some(entry.seq)),
                Cell::time(entry.at),
                Cell::text(&entry.record.actor),
                Cell::text(&entry.record.action),
                Cell::text(&entry.record.phase),
                Cell::text(&entry.record.subject),
                Cell::text(&entry.record.reason),
            ]);
        }
    }
    answer.more = Some(more);
    if more {
        answer.notes.push(format!(
            "the newest {limit} of each journal; --limit N or --all reads more"
        ));
    }
    answer.note_if_empty("none");
    session.write(&answer)
}

async fn verify(session: &Session) -> Outcome {
    let mut answer = session.answer("audit_verify");
    answer.table = Table::new(CHAINS);
    for (service, result) in session.services.operator.verify_audit().await {
        let (is_whole, entries, fault) = match result {
            Ok(Ok(entries)) => (Some(true), u64::try_from(entries).ok(), None),
            Ok(Err(fault)) => {
                answer.exit = Exit::Findings;
                (Some(false), None, Some(fault.to_string()))
            }
            Err(error) => {
                answer.unread.push(Unread {
                    what: format!("audit log of {service}"),
                    reason: error.to_string(),
                    is_unreachable: error.is_unreachable(),
                });
                (None, None, None)
            }
        };
        answer.item(&json!({
            "service": service, "is_whole": is_whole, "entries": entries, "fault": fault,
        }))?;
        answer.notes.extend(entries.map(|n| {
            format!(
                "{service}: {} entries, each follows the one before",
                grouped(n)
            )
        }));
        answer.table.push(vec![
            Cell::text(&service),
            match is_whole {
                Some(true) => Cell::text("whole"),
                Some(false) => Cell::text("BROKEN"),
                None => Cell::unknown(),
            },
            Cell::number(entries),
            Cell::optional(fault),
        ]);
    }
    // A broken chain is worse news than another journal that could not be read.
    let exit = session.write(&answer)?;
    Ok(if answer.exit == Exit::Findings {
        Exit::Findings
    } else {
        exit
    })
}
