//! `redrive leases`.

use clap::Args;

use crate::model::filter::{FilterKind, InService};
use crate::observe::snapshot::Unread;

use super::failure::Outcome;
use super::list::Listing;
use super::session::Session;
use super::table::{Cell, Column, Table, left, right};

/// Arguments of `leases`.
#[derive(Debug, Args)]
pub struct LeasesArgs {
    /// Filter.
    #[command(flatten)]
    pub listing: Listing,
}

const COLUMNS: &[Column] = &[
    left("service"),
    left("claim"),
    right("rows"),
    right("left"),
    right("oldest"),
    right("attempts"),
    left("state"),
];

pub(super) async fn run(session: &Session, args: &LeasesArgs) -> Outcome {
    let filter = args.listing.filter(FilterKind::Leases)?;
    let snapshot = session.services.observer.leases().await;
    let mut answer = session.answer("leases");
    answer.table = Table::new(COLUMNS);
    let (mut shown, mut hidden) = (0_usize, false);
    for part in &snapshot.services {
        let Some(leases) = answer.part(part) else {
            continue;
        };
        let service = part.service.as_str();
        if let Some(reason) = &leases.not_answered {
            // No lease to show is not the same as no claims.
            answer.unread.push(Unread {
                what: format!("leases of {service}"),
                reason: reason.clone(),
                is_unreachable: false,
            });
        }
        hidden |= leases.truncated;
        if leases.truncated {
            answer.notes.push(format!(
                "{service}: more claimed rows than were read; counts are lower bounds"
            ));
        }
        for group in &leases.groups {
            let row = InService {
                service,
                row: group,
            };
            if !filter.matches(&row, answer.as_of) {
                continue;
            }
            if shown == args.listing.wanted() {
                hidden = true;
                break;
            }
            shown += 1;
            answer.item_of(service, group)?;
            let state = match group.left_s {
                Some(left) if left < 0.0 => Cell::text("EXPIRED"),
                Some(_) => Cell::text("held"),
                None => Cell::unknown(),
            };
            let cells = vec![
                Cell::text(service),
                Cell::optional(group.claim_token.as_ref().map(ToString::to_string)),
                Cell::number(Some(group.rows)),
                Cell::seconds(group.left_s),
                Cell::ago(group.oldest_created_at, answer.as_of),
                Cell::integer(group.attempts_max),
                state,
            ];
            answer.table.push(cells);
        }
    }
    answer.more = Some(hidden);
    answer.note_if_empty("no claims");
    if hidden {
        answer
            .notes
            .insert(0, format!("{shown} shown; there are more"));
    }
    session.write(&answer)
}
