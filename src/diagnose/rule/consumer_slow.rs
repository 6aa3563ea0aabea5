//! A consumer that is further and further behind.

use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "consumer_slow",
    summary: "a consumer is slower than its producers, with the time to drain",
    window: Some(Window::NotConsumed),
    recovers: "more consumers, or a faster one",
    explained_by: &[
        "server_unreachable",
        "broker_blocked",
        "queue_not_whole",
        "consumer_gone",
        "requeue_loop",
    ],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(flow) = look.flow(sight) else {
        return;
    };
    let limit = sight.limits().lag.as_secs_f64();
    for consumer in &flow.consumers {
        let queue = &consumer.queue;
        let Some(ready) = consumer.ready else {
            look.blind(
                About::Queue(queue.clone()),
                format!("the depth of {queue} is not known"),
            );
            continue;
        };
        let facts = sight.queue(queue).map(|queue| &queue.facts);
        let coming = facts.and_then(|facts| facts.rate_in);
        // The statistics are seconds old and averaged; inbox rows are counted. The faster one is true of a
        // queue that was filled at once.
        let going = match (facts.and_then(|facts| facts.rate_ack), consumer.inbox_per_s) {
            (Some(acked), Some(seen)) => Some(acked.max(seen)),
            (acked, seen) => acked.or(seen),
        };
        let is_still = going.is_some_and(|going| going <= 0.0);
        let lag = facts
            .and_then(|facts| facts.head_age_s)
            .or_else(|| {
                going
                    .filter(|going| *going > 0.0)
                    .map(|going| to_f64(ready) / going)
            })
            .filter(|_| ready > 0);
        let is_behind = lag.is_some_and(|lag| lag > limit);
        let is_hanging = is_still && ready > 0 && consumer.consumers.is_some_and(|n| n > 0);
        if !(is_behind || is_hanging && has_stood(sight, queue, ready)) {
            continue;
        }
        let drain = match (coming, going) {
            (Some(coming), Some(going)) if going > coming => Some(to_f64(ready) / (going - coming)),
            _ => None,
        };
        let end = match (drain, is_still) {
            (Some(drain), _) => format!("drained in {}", human::age(drain)),
            (None, true) => "nothing is being consumed".to_owned(),
            (None, false) if coming.is_some() => "not drained at this pace".to_owned(),
            (None, false) => "how long that takes is not known".to_owned(),
        };
        let behind = lag.map_or_else(String::new, |lag| format!(", {} behind", human::age(lag)));
        look.found(
            Found::new(
                Severity::Warning,
                queue.clone(),
                vec![About::Queue(queue.clone()), About::Broker],
                format!(
                    "{} is slower than its producers: {} ready in {queue}{behind}, {end}",
                    consumer.consumer,
                    human::grouped(ready)
                ),
                Evidence::at("queues", term("queue", queue)),
                "redrive queues",
            )
            .number("ready", ready)
            .number("consumers", consumer.consumers)
            .number("in_per_s", coming)
            .number("out_per_s", going)
            .number("lag_s", lag)
            .number("drain_s", drain),
        );
    }
}

/// A queue nobody takes from: as deep as in the look before, or deeper.
fn has_stood(sight: &Sight<'_>, queue: &str, ready: u64) -> bool {
    let before = sight.before.and_then(|before| before.ready(queue));
    before.is_some_and(|before| before > 0 && ready >= before)
}

#[expect(clippy::cast_precision_loss, reason = "a time to drain is an estimate")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
