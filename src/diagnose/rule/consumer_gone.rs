//! A queue nobody consumes.

use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "consumer_gone",
    summary: "a queue has no consumer",
    window: Some(Window::NotConsumed),
    recovers: "restart the consumer; the broker keeps the messages",
    explained_by: &["server_unreachable", "queue_not_whole"],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(flow) = look.flow(sight) else {
        return;
    };
    for consumer in &flow.consumers {
        let queue = &consumer.queue;
        let Some(attached) = consumer.consumers else {
            look.blind(
                About::Queue(queue.clone()),
                format!("consumers of {queue} are not known"),
            );
            continue;
        };
        if attached > 0 {
            continue;
        }
        let behind = consumer
            .lag_s
            .filter(|lag| *lag > 0.0)
            .map_or_else(String::new, |lag| format!(", lag {}", human::age(lag)));
        let ready = consumer
            .ready
            .map_or_else(|| "?".to_owned(), human::grouped);
        let severity = if consumer.ready.is_none_or(|ready| ready > 0) {
            Severity::Critical
        } else {
            Severity::Warning
        };
        look.found(
            Found::new(
                severity,
                queue.clone(),
                vec![About::Queue(queue.clone())],
                format!(
                    "{} has stopped consuming: {queue} has 0 consumers, {ready} ready{behind}",
                    consumer.consumer
                ),
                Evidence::at("queues", term("queue", queue)),
                "redrive queues",
            )
            .number("ready", consumer.ready)
            .number("consumers", 0)
            .number("lag_s", consumer.lag_s),
        );
    }
}
