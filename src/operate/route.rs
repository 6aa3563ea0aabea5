//! Where a replay goes: the failed queue by default, another queue or the original exchange only
//! when told, and who else would see it.

use futures::future::join_all;

use super::Desk;
use super::look::{self, Look};
use super::plan::{Destination, Level, PreflightLine};
use super::wording::{counted, moment};
use crate::base::text::safe;
use crate::broker::{Binding, QueueDepth};
use crate::config::Context;
use crate::model::dead_letter::DeadLetter;

/// A destination and what is to be said about it.
pub(super) struct Route {
    /// Where it goes.
    pub destination: Destination,
    /// Preflight lines.
    pub lines: Vec<PreflightLine>,
}

/// How somebody wants it sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish<'a> {
    /// Through the original exchange.
    pub through_exchange: bool,
    /// To this queue.
    pub to_queue: Option<&'a str>,
}

/// Finds the destination of a letter.
pub(super) async fn route(desk: &Desk, letter: &DeadLetter, wish: Wish<'_>) -> Route {
    if wish.through_exchange && wish.to_queue.is_none() {
        return through_exchange(desk, letter).await;
    }
    let context = &desk.ports.context;
    let Some(queue) = wish
        .to_queue
        .or(letter.failed_queue.as_deref())
        .or_else(|| configured_queue(context, letter))
    else {
        return nowhere(
            "nothing says in which queue it failed; name one with --to-queue",
            "destination_exists",
        );
    };
    let mut lines = Vec::new();
    if wish.through_exchange {
        lines.push(PreflightLine::new(
            "destination_exists",
            Level::Refusal,
            "through the exchange and to a queue exclude each other",
        ));
    }
    if let Some(line) = misspelt(queue) {
        lines.push(line);
        return Route {
            destination: to_queue(queue, None, letter),
            lines,
        };
    }
    let depth = look::queue(desk, queue).await;
    lines.extend(queue_lines(queue, &depth));
    lines.extend(dead_letter_queue(context, letter, queue));
    if wish.to_queue.is_some()
        && let Some(failed) = letter.failed_queue.as_deref().filter(|q| *q != queue)
    {
        lines.push(PreflightLine::new(
            "other_queue",
            Level::Warning,
            format!(
                "it failed in {}; the proof is still the inbox of {}",
                safe(failed),
                safe(letter.consumer.as_str())
            ),
        ));
    }
    let consumers = match &depth {
        Look::Found(depth) => Some(depth.consumers),
        Look::Absent | Look::Unread(_) | Look::NotConfigured(_) => None,
    };
    Route {
        destination: to_queue(queue, consumers, letter),
        lines,
    }
}

fn configured_queue<'a>(context: &'a Context, letter: &DeadLetter) -> Option<&'a str> {
    let service = context.service_of_consumer(&letter.consumer)?;
    service.inbox.as_ref().map(|inbox| inbox.queue.as_str())
}

fn nowhere(text: &str, check: &str) -> Route {
    Route {
        destination: Destination {
            exchange: String::new(),
            routing_key: String::new(),
            consumers: None,
            queues: vec![],
            text: "nowhere".to_owned(),
        },
        lines: vec![PreflightLine::new(check, Level::Refusal, text)],
    }
}

fn to_queue(queue: &str, consumers: Option<u64>, letter: &DeadLetter) -> Destination {
    let attached = consumers.map_or_else(
        || "consumers not known".to_owned(),
        |n| counted(n, "consumer", "consumers"),
    );
    let not_through = letter
        .source_exchange
        .as_deref()
        .filter(|exchange| !exchange.is_empty())
        .map(|exchange| format!("; not through {}: nobody else gets it", safe(exchange)))
        .unwrap_or_default();
    Destination {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        consumers,
        queues: vec![queue.to_owned()],
        text: format!("queue {} ({attached}){not_through}", safe(queue)),
    }
}

/// A name that cannot be meant: the default exchange drops it in silence.
fn misspelt(queue: &str) -> Option<PreflightLine> {
    if queue.trim().is_empty() {
        return Some(PreflightLine::new(
            "target_empty",
            Level::Refusal,
            "the target queue has no name",
        ));
    }
    (queue.trim() != queue).then(|| {
        PreflightLine::new(
            "target_space",
            Level::Refusal,
            format!(
                "the target queue's name begins or ends with a space: '{}'",
                safe(queue)
            ),
        )
    })
}

/// Whether the queue exists and is consumed.
pub(super) fn queue_lines(queue: &str, depth: &Look<QueueDepth>) -> Vec<PreflightLine> {
    let name = safe(queue);
    match depth {
        Look::Found(depth) => {
            let exists = PreflightLine::new(
                "destination_exists",
                Level::Pass,
                format!("queue {name} exists"),
            );
            let consumers = if depth.consumers == 0 {
                PreflightLine::new(
                    "consumers",
                    Level::Warning,
                    format!(
                        "queue {name} has 0 consumers, {} ready: it waits there until one starts",
                        crate::base::human::grouped(depth.ready)
                    ),
                )
            } else {
                PreflightLine::new(
                    "consumers",
                    Level::Pass,
                    counted(depth.consumers, "consumer", "consumers"),
                )
            };
            vec![exists, consumers]
        }
        Look::Absent => vec![PreflightLine::new(
            "destination_exists",
            Level::Refusal,
            format!("target queue {name} does not exist"),
        )],
        Look::Unread(why) => vec![PreflightLine::new(
            "unread",
            Level::Refusal,
            format!("queue {name} could not be asked: {why}"),
        )],
        Look::NotConfigured(why) => {
            vec![PreflightLine::new("no_broker", Level::Refusal, why.clone())]
        }
    }
}

/// A dead-letter queue as target is almost always a slip.
fn dead_letter_queue(context: &Context, letter: &DeadLetter, queue: &str) -> Option<PreflightLine> {
    let is_configured = context
        .services
        .iter()
        .filter_map(|service| service.dead_letters.as_ref())
        .any(|part| part.queues.iter().any(|dlq| dlq == queue));
    let why = if letter.dead_letter_queue == queue {
        "is the queue it was dead-lettered to"
    } else if is_configured {
        "is a dead-letter queue"
    } else {
        return None;
    };
    Some(PreflightLine::new(
        "target_is_dlq",
        Level::Overridable,
        format!("{} {why}", safe(queue)),
    ))
}

async fn through_exchange(desk: &Desk, letter: &DeadLetter) -> Route {
    let (Some(exchange), Some(key)) = (
        letter.source_exchange.as_deref().filter(|e| !e.is_empty()),
        letter.source_routing_key.as_deref(),
    ) else {
        return nowhere(
            "its original exchange and routing key are not known; send it to the failed queue",
            "destination_exists",
        );
    };
    let bindings = look::bindings(desk, exchange).await;
    let mut lines = Vec::new();
    let mut queues = Vec::new();
    match &bindings {
        Look::Found(bindings) => {
            queues = bound_queues(bindings);
            lines.push(exchange_line(exchange, key, bindings));
            lines.extend(blast_radius(desk, letter, &queues).await);
        }
        Look::Absent => lines.push(PreflightLine::new(
            "destination_exists",
            Level::Refusal,
            format!("exchange {} does not exist", safe(exchange)),
        )),
        Look::Unread(why) => lines.push(PreflightLine::new(
            "unread_bindings",
            Level::Overridable,
            format!("who else gets a copy could not be read: {why}"),
        )),
        Look::NotConfigured(why) => {
            lines.push(PreflightLine::new("no_broker", Level::Refusal, why.clone()));
        }
    }
    let list = if queues.is_empty() {
        "its bindings are not known".to_owned()
    } else {
        format!(
            "bound queues that may get a copy: {}",
            safe(&queues.join(", "))
        )
    };
    Route {
        destination: Destination {
            exchange: exchange.to_owned(),
            routing_key: key.to_owned(),
            consumers: None,
            text: format!("exchange {} with key {}; {list}", safe(exchange), safe(key)),
            queues,
        },
        lines,
    }
}

/// Every queue bound at all: the exchange's type decides by which key, and is not known here, so
/// this errs on the side of too many.
fn bound_queues(bindings: &[Binding]) -> Vec<String> {
    let mut queues: Vec<_> = bindings
        .iter()
        .filter(|binding| binding.is_to_queue)
        .map(|binding| binding.destination.clone())
        .collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

fn exchange_line(exchange: &str, key: &str, bindings: &[Binding]) -> PreflightLine {
    let name = safe(exchange);
    if bindings.is_empty() {
        return PreflightLine::new(
            "destination_exists",
            Level::Refusal,
            format!("exchange {name} is bound to nothing: the message would come back"),
        );
    }
    let onward = bindings.iter().filter(|b| !b.is_to_queue).count();
    if onward > 0 {
        return PreflightLine::new(
            "destination_exists",
            Level::Warning,
            format!(
                "exchange {name} is bound to {onward} other exchanges too: queues behind them are not listed"
            ),
        );
    }
    PreflightLine::new(
        "destination_exists",
        Level::Pass,
        format!("exchange {name} exists; key {}", safe(key)),
    )
}

/// Which other consumers would see it, and which of them already have it.
async fn blast_radius(desk: &Desk, letter: &DeadLetter, queues: &[String]) -> Vec<PreflightLine> {
    let readers = desk.ports.context.services.iter().filter_map(|service| {
        let inbox = service.inbox.as_ref()?;
        (queues.contains(&inbox.queue) && inbox.consumer != letter.consumer)
            .then_some(&inbox.consumer)
    });
    let looks = join_all(readers.map(|consumer| async move {
        (
            consumer,
            look::inbox(desk, consumer, letter.event_id.as_ref()).await,
        )
    }))
    .await;
    looks
        .into_iter()
        .map(|(consumer, look)| {
            let (level, text) = match look {
                Look::Found(row) => (
                    Level::Pass,
                    format!(
                        "{consumer} has it since {}: it will skip it",
                        moment(row.processed_at)
                    ),
                ),
                Look::Absent => (
                    Level::Warning,
                    format!("{consumer} has no inbox row: it will take effect there too"),
                ),
                Look::Unread(why) | Look::NotConfigured(why) => (
                    Level::Warning,
                    format!("{consumer} may get it a second time: {why}"),
                ),
            };
            PreflightLine::new("blast_radius", level, text)
        })
        .collect()
}
