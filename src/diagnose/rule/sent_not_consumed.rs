//! Events that were sent and that their consumer has never seen.

use super::number;
use crate::base::human;
use crate::model::dead_letter::work_queue_of;
use crate::observe::snapshot::{CauseSnapshot, Missing};

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "sent_not_consumed",
    summary: "events were sent and never reached their consumer",
    window: Some(Window::NotConsumed),
    recovers: "the broker keeps them: the restart of the consumer, else a scan",
    explained_by: &[
        "server_unreachable",
        "queue_not_whole",
        "consumer_gone",
        "requeue_loop",
        "dlq_without_collector",
        "consumer_slow",
    ],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let mut missing: Vec<(&str, &Missing, u64, f64)> = Vec::new();
    let mut cut: Vec<&str> = Vec::new();
    for (service, unseen) in look.parts(&causes.unseen) {
        for unread in &unseen.unread {
            look.blind(About::Service(service.to_owned()), unread.reason.clone());
        }
        if unseen.is_cut {
            cut.push(service);
        }
        for event in &unseen.missing {
            let known = missing.iter_mut();
            let mut same =
                known.filter(|(of, other, ..)| *of == service && other.consumer == event.consumer);
            match same.next() {
                Some((_, _, count, oldest)) => {
                    *count += 1;
                    *oldest = oldest.max(event.age_s);
                }
                None => missing.push((service, event, 1, event.age_s)),
            }
        }
    }
    for (service, event, count, oldest) in missing {
        let queue = &event.queue;
        let held = held_by_broker(sight, causes, queue);
        let (severity, end) = match held {
            Some(0) => (Severity::Critical, "and its queue is empty".to_owned()),
            Some(held) => (
                Severity::Warning,
                format!(
                    "the broker holds {} for it",
                    number(held, "message", "messages")
                ),
            ),
            None => (
                Severity::Warning,
                "and what its queue holds is not known".to_owned(),
            ),
        };
        let found = Found::new(
            severity,
            format!("{service} {}", event.consumer),
            vec![
                About::Queue(queue.clone()),
                About::Service(service.to_owned()),
                About::Broker,
            ],
            format!(
                "{} has never seen {}{} of {service}, the oldest sent {} ago, {end}",
                event.consumer,
                if cut.contains(&service) {
                    "at least "
                } else {
                    ""
                },
                number(count, "event", "events"),
                human::age(oldest)
            ),
            Evidence::at("queues", term("queue", queue)),
            format!("redrive trace {}", event.event_id),
        )
        .number("events", count)
        .number("oldest_s", oldest)
        .number("held_by_broker", held)
        .number("event_id", event.event_id.as_str())
        .since_s(Some(oldest));
        look.found(if held == Some(0) {
            found.recovered_by("a person: nothing holds them any more; reconcile, then replay")
        } else {
            found
        });
    }
}

/// Messages in a queue, out at its consumers, or waiting for their next try; `None` when not known. The
/// queue itself tells its depth sooner than the management API.
fn held_by_broker(sight: &Sight<'_>, causes: &CauseSnapshot, queue: &str) -> Option<u64> {
    let own = sight.consumer(queue).and_then(|consumer| consumer.ready);
    let mut held = None;
    for view in &causes.queues.queues {
        let facts = &view.facts;
        let is_own = facts.name == queue;
        if is_own || work_queue_of(&facts.name) == Some(queue) {
            let ready = if is_own {
                facts.ready.max(own)
            } else {
                facts.ready
            };
            let unacked = if is_own {
                facts.unacked.unwrap_or(0)
            } else {
                0
            };
            let here = ready? + unacked;
            held = Some(held.unwrap_or(0) + here);
        }
    }
    held
}
