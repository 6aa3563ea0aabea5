//! `redrive outbox`.

use clap::{Args, ValueEnum};

use crate::model::count::Count;
use crate::model::filter::FilterKind;
use crate::model::outbox::{OutboxCounts, OutboxRow, OutboxState};
use crate::observe::OutboxView;
use crate::observe::snapshot::{OutboxFacts, PerService};

use super::failure::{Failure, Outcome};
use super::list::{Listing, collect};
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `outbox`.
#[derive(Debug, Args)]
pub struct OutboxArgs {
    /// State of the rows
    #[arg(long, value_enum)]
    pub state: Option<StateWord>,
    /// Only this service's outbox
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Filter and paging.
    #[command(flatten)]
    pub listing: Listing,
}

/// A state that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateWord {
    /// Waits for a dispatcher
    Pending,
    /// Claimed by a dispatcher
    Sending,
    /// Confirmed and marked
    Sent,
    /// Given up: a dead letter on the outbox side
    Failed,
}

impl From<StateWord> for OutboxState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Pending => Self::Pending,
            StateWord::Sending => Self::Sending,
            StateWord::Sent => Self::Sent,
            StateWord::Failed => Self::Failed,
        }
    }
}

const COLUMNS: &[Column] = &[
    left("service"),
    left("event"),
    left("type"),
    left("key"),
    right("v"),
    left("state"),
    right("attempts"),
    right("next"),
    right("age"),
    flexible("last error"),
];

pub(super) async fn run(session: &Session, args: &OutboxArgs) -> Outcome {
    let filter = args.listing.filter(FilterKind::Outbox)?;
    let pushed = filter.pushdown();
    let row_filter = filter.row_terms();
    let state = match (args.state, pushed.state.as_deref()) {
        (Some(word), _) => word.into(),
        (None, Some(word)) => OutboxState::ALL
            .into_iter()
            .find(|state| state.word() == word)
            .unwrap_or(OutboxState::Pending),
        (None, None) => OutboxState::Pending,
    };
    let service = args.service.clone().or(pushed.service);
    if let Some(name) = &service {
        known_outbox(session, name)?;
    }
    let view = OutboxView {
        service: service.clone(),
        state,
        event_type: pushed.event_type,
        event: None,
        payload: filter.payload_terms(),
        after: None,
        limit: args.listing.page_rows(session.context()),
    };
    let snapshot = session.services.observer.outbox(&view).await;
    let mut answer = session.answer("outbox");
    answer.table = Table::new(COLUMNS);
    let mut first = Vec::new();
    let mut total = Some(Count::Exact(0));
    for part in &snapshot.services {
        if service.as_ref().is_some_and(|only| *only != part.service) {
            continue;
        }
        let Some(facts) = answer.part(part) else {
            total = None;
            continue;
        };
        answer.head.push(counts_line(&part.service, &facts.counts));
        total = total
            .zip(count_of(&facts.counts, state))
            .map(|(a, b)| a.plus(b));
        first.push((part.service.clone(), facts.page.clone()));
    }
    let next = async |name: &str, after| {
        let view = OutboxView {
            service: Some(name.to_owned()),
            after: Some(after),
            ..view.clone()
        };
        let snapshot = session.services.observer.outbox(&view).await;
        Ok(facts_of(snapshot.services, name)?.page)
    };
    let collected = collect(&args.listing, &row_filter, answer.as_of, first, next).await?;
    for (service, row) in &collected.rows {
        answer.item_of(service, row)?;
        let cells = cells(service, row, answer.as_of);
        answer.table.push(cells);
    }
    collected.describe(&mut answer, &filter, total);
    session.write(&answer)
}

fn known_outbox(session: &Session, name: &str) -> Outcome<()> {
    let has = |service: &&crate::config::Service| service.outbox.is_some();
    let names = session.context().services.iter().filter(has);
    let names: Vec<_> = names.map(|service| service.name.as_str()).collect();
    if names.contains(&name) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "no service {name:?} with an outbox; there are: {}",
        names.join(", ")
    )))
}

/// One service's part of a snapshot; unread ends the command, because half a list would lie.
fn facts_of(parts: Vec<PerService<OutboxFacts>>, name: &str) -> Outcome<OutboxFacts> {
    let part = parts.into_iter().find(|part| part.service == name);
    match part {
        Some(PerService {
            value: Some(facts), ..
        }) => Ok(facts),
        Some(PerService {
            unread: Some(unread),
            ..
        }) => Err(unread.into()),
        _ => Err(Failure::internal(format!(
            "outbox of {name} is missing from the snapshot"
        ))),
    }
}

fn count_of(counts: &OutboxCounts, state: OutboxState) -> Option<Count> {
    match state {
        OutboxState::Pending => Some(counts.pending),
        OutboxState::Sending => Some(counts.sending),
        OutboxState::Failed => Some(counts.failed),
        OutboxState::Sent => counts.sent,
        OutboxState::Unknown => None,
    }
}

/// `orders: 12 pending (3 due, oldest 4s), 2 sending (0 expired), 1 failed, ~9 800 sent`.
pub(super) fn counts_line(service: &str, counts: &OutboxCounts) -> String {
    let oldest = counts
        .oldest_due_s
        .map(|s| format!(", oldest {}", crate::base::human::age(s)))
        .unwrap_or_default();
    let known =
        |count: Option<Count>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!(
        "{}: {} pending ({} due{oldest}), {} sending ({} expired), {} failed, {} sent",
        crate::base::text::safe(service),
        counts.pending,
        counts.due,
        counts.sending,
        known(counts.expired_leases),
        counts.failed,
        known(counts.sent),
    )
}

fn cells(service: &str, row: &OutboxRow, now: crate::base::clock::Timestamp) -> Vec<Cell> {
    let due_in = row
        .next_attempt_at
        .filter(|_| row.state == OutboxState::Pending);
    vec![
        Cell::text(service),
        Cell::text(row.event_id.as_str()),
        Cell::text(&row.event_type),
        Cell::optional(row.aggregate_id.as_ref().map(ToString::to_string)),
        Cell::integer(row.aggregate_version),
        Cell::text(row.state.word()),
        Cell::integer(row.attempts),
        Cell::seconds(due_in.map(|at| at.seconds_since(now))),
        Cell::ago(row.created_at, now),
        Cell::optional(row.last_error.as_ref()),
    ]
}
