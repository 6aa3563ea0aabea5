//! `redrive sagas`.

use clap::Args;

use crate::model::filter::{FilterKind, InService};
use crate::model::saga::{Saga, StepState};

use super::failure::Outcome;
use super::list::Listing;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `sagas`.
#[derive(Debug, Args)]
pub struct SagasArgs {
    /// Filter.
    #[command(flatten)]
    pub listing: Listing,
}

const COLUMNS: &[Column] = &[
    left("service"),
    left("saga"),
    left("type"),
    left("key"),
    left("state"),
    left("steps"),
    right("changed"),
    right("deadline"),
    left("owner"),
    flexible("look"),
];

pub(super) async fn run(session: &Session, args: &SagasArgs) -> Outcome {
    let filter = args.listing.filter(FilterKind::Sagas)?;
    let snapshot = session.services.observer.sagas().await;
    let mut answer = session.answer("sagas");
    answer.table = Table::new(COLUMNS);
    let mut more = false;
    for part in &snapshot.services {
        let Some(sagas) = answer.part(part) else {
            continue;
        };
        let service = part.service.as_str();
        for saga in sagas {
            if !filter.matches(&InService { service, row: saga }, answer.as_of) {
                continue;
            }
            if answer.items.len() == args.listing.wanted() {
                more = true;
                break;
            }
            answer.item_of(service, saga)?;
            let cells = vec![
                Cell::text(service),
                Cell::text(saga.saga_id.as_str()),
                Cell::text(&saga.saga_type),
                Cell::text(&saga.business_key),
                Cell::text(saga.state.word()),
                Cell::text(track(saga)),
                Cell::ago(Some(saga.updated_at), answer.as_of),
                Cell::seconds(saga.deadline_at.map(|at| at.seconds_since(answer.as_of))),
                Cell::optional(saga.owner.as_ref()),
                Cell::optional(saga.attention.as_ref().or(saga.last_error.as_ref())),
            ];
            answer.table.push(cells);
        }
    }
    answer.more = Some(more);
    answer.note_if_empty("none");
    if more {
        answer
            .notes
            .push(format!("{} shown; there are more", answer.items.len()));
    }
    session.write(&answer)
}

/// Steps as one line: `✓ reserve_stock  ✖ charge ↩✓`. Signs, not colours, carry the meaning.
fn track(saga: &Saga) -> String {
    let sign = |state: StepState| match state {
        StepState::Pending => "·",
        StepState::InFlight => "▶",
        StepState::Succeeded => "✓",
        StepState::Failed => "✖",
        StepState::Unknown => "?",
        StepState::Skipped => "–",
    };
    let steps = saga.steps.iter().map(|step| {
        let back = match step.compensation {
            StepState::Pending | StepState::Skipped => String::new(),
            state => format!(" ↩{}", sign(state)),
        };
        format!("{} {}{back}", sign(step.forward), step.name)
    });
    steps.collect::<Vec<_>>().join("  ")
}
