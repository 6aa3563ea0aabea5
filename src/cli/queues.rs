//! `redrive queues`.

use clap::Args;

use crate::base::human::grouped;
use crate::model::count::Count;
use crate::model::filter::FilterKind;
use crate::observe::snapshot::{QueueSnapshot, QueueView};

use super::envelope::Answer;
use super::failure::Outcome;
use super::list::Listing;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `queues`.
#[derive(Debug, Args)]
pub struct QueuesArgs {
    /// Page of the broker's list, from 1; configured queues stand on the first
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub page: u32,
    /// Filter.
    #[command(flatten)]
    pub listing: Listing,
}

const COLUMNS: &[Column] = &[
    left("queue"),
    left("role"),
    left("type"),
    right("ready"),
    right("unacked"),
    right("consumers"),
    right("in"),
    right("out"),
    right("redelivered"),
    right("lag"),
    left("dead-letters to"),
    flexible("warnings"),
];

pub(super) async fn run(session: &Session, args: &QueuesArgs) -> Outcome {
    let filter = args.listing.filter(FilterKind::Queues)?;
    let mut answer = session.answer("queues");
    answer.table = Table::new(COLUMNS);
    let mut page = args.page;
    let mut seen = 0_u64;
    loop {
        let snapshot = session.services.observer.queues(page).await;
        if page == args.page {
            describe(&mut answer, &snapshot);
        }
        answer.unread.extend(snapshot.unread.iter().cloned());
        let mut is_empty = true;
        for queue in &snapshot.queues {
            is_empty = false;
            seen += 1;
            if filter.matches(queue, answer.as_of) && answer.items.len() < args.listing.wanted() {
                answer.item(queue)?;
                answer.table.push(cells(queue));
            }
        }
        let has_more = snapshot.total.is_some_and(|total| seen < total);
        answer.total = snapshot
            .total
            .filter(|_| filter.is_empty())
            .map(Count::Exact);
        answer.more = Some(has_more || answer.items.len() >= args.listing.wanted());
        if !args.listing.all || is_empty || !has_more || !snapshot.unread.is_empty() {
            answer
                .notes
                .insert(0, how_many(answer.items.len(), snapshot.total));
            break;
        }
        page += 1;
    }
    if answer
        .total
        .is_some_and(|total| total.floor() == answer.items.len() as u64)
    {
        answer.more = Some(false);
    }
    session.write(&answer)
}

/// Configured queues are shown even where the broker has none of them.
fn how_many(shown: usize, total: Option<u64>) -> String {
    let shown = shown as u64;
    let count = grouped(shown);
    match total {
        None => format!("{count} queues shown; how many there are is not known"),
        Some(total) if total < shown => {
            format!("{count} queues shown; the broker has {}", grouped(total))
        }
        Some(total) => format!("{count} of {} queues shown", grouped(total)),
    }
}

fn describe(answer: &mut Answer, snapshot: &QueueSnapshot) {
    if let Some(overview) = &snapshot.overview {
        answer.head.push(crate::base::text::safe(&overview.product));
        for node in overview.nodes.iter().flatten() {
            let alarms = [
                (node.memory_alarm, "MEMORY ALARM"),
                (node.disk_alarm, "DISK ALARM"),
            ];
            for (_, name) in alarms.iter().filter(|(alarm, _)| *alarm == Some(true)) {
                answer.head.push(format!(
                    "node {}: {name}",
                    crate::base::text::safe(&node.name)
                ));
            }
        }
        if let Some(problem) = &overview.nodes_problem {
            answer
                .notes
                .push(format!("nodes: {}", crate::base::text::safe(problem)));
        }
    }
    if snapshot.statistics_off {
        answer
            .notes
            .push("statistics are switched off on the broker: rates are not known".to_owned());
    }
}

fn cells(queue: &QueueView) -> Vec<Cell> {
    let facts = &queue.facts;
    let target = match (&facts.dead_letter_exchange, &facts.dead_letter_routing_key) {
        (None, _) => Cell::none(),
        (Some(exchange), Some(key)) if exchange.is_empty() => Cell::text(key),
        (Some(exchange), Some(key)) => Cell::text(format!("{exchange} / {key}")),
        (Some(exchange), None) if exchange.is_empty() => Cell::text("(default exchange)"),
        (Some(exchange), None) => Cell::text(exchange),
    };
    vec![
        Cell::text(&facts.name),
        Cell::text(&queue.role),
        facts.kind.as_ref().map_or_else(Cell::unknown, Cell::text),
        Cell::number(facts.ready),
        Cell::number(facts.unacked),
        Cell::number(facts.consumers),
        Cell::rate(facts.rate_in),
        Cell::rate(facts.rate_out),
        Cell::rate(facts.rate_redelivered),
        queue
            .lag_s
            .map_or_else(Cell::unknown, |lag| Cell::seconds(Some(lag))),
        target,
        Cell::text(queue.warnings.join("; ")),
    ]
}
