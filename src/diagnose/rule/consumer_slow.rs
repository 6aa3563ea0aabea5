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
                // Rows of ten seconds say little of a burst that has just begun; what the queue lost since the last
                // look says more.
                let shrinks = sight
                    .before
                    .and_then(|before| before.shrinks_per_s(queue, ready, sight.at));
                let pace = going.into_iter().chain(shrinks).reduce(f64::max);
                pace.filter(|pace| *pace > 0.0)
                    .map(|pace| to_f64(ready) / pace)
            })
            .filter(|_| ready > 0);
        let is_behind = lag.is_some_and(|lag| lag > limit);
        // A consumer may be at one event for a while: it hangs when nothing has moved for as long as it may be behind.
        let stood = stood_s(sight, queue, ready);
        let is_hanging = is_still
            && consumer.consumers.is_some_and(|n| n > 0)
            && stood.is_some_and(|stood| stood > limit);
        if !(is_behind || is_hanging) {
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
            .number("stood_s", stood)
            .number("drain_s", drain),
        );
    }
}

/// Seconds for which a backlog has not become less: as far as this watch has seen it, or since its oldest event
/// was sent that the consumer has never seen.
fn stood_s(sight: &Sight<'_>, queue: &str, ready: u64) -> Option<f64> {
    let since = sight
        .before
        .and_then(|before| before.stood_since(queue, ready))
        .map(|since| sight.at.seconds_since(since));
    let unseen = sight.causes.into_iter().flat_map(|causes| &causes.unseen);
    let missing = unseen
        .filter_map(|part| part.value.as_ref())
        .flat_map(|unseen| &unseen.missing)
        .filter(|missing| missing.queue == queue && ready > 0)
        .map(|missing| missing.age_s);
    since.into_iter().chain(missing).reduce(f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "a time to drain is an estimate")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
