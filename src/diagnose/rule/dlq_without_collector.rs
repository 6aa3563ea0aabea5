//! A dead-letter queue that fills up, with nobody to collect it.

use super::number;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dlq_without_collector",
    summary: "a dead-letter queue has messages and no collector",
    window: Some(Window::KeepsFailing),
    recovers: "start the dead-letter collector",
    explained_by: &["server_unreachable", "queue_not_whole"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    for queue in look.queues(sight, "dlq") {
        let (name, facts) = (&queue.facts.name, &queue.facts);
        let (Some(ready), Some(consumers)) = (facts.ready, facts.consumers) else {
            if !queue.is_missing() {
                look.blind(
                    About::Queue(name.clone()),
                    format!("the depth of {name} is not known"),
                );
            }
            continue;
        };
        if ready == 0 || consumers > 0 {
            continue;
        }
        let collects = sight.context.services.iter().find(|service| {
            let letters = service.dead_letters.as_ref();
            letters.is_some_and(|letters| letters.queues.contains(name))
        });
        let mut about = vec![About::Queue(name.clone())];
        // What died of the work queue lies here, too.
        if let Some(inbox) = collects.and_then(|service| service.inbox.as_ref()) {
            about.push(About::Queue(inbox.queue.clone()));
        }
        let start = collects.map_or_else(
            || "redrive worker collector".to_owned(),
            |service| format!("redrive worker collector --service {}", service.name),
        );
        look.found(
            Found::new(
                Severity::Warning,
                name.clone(),
                about,
                format!(
                    "{name} has no collector: {} there that no list shows",
                    number(ready, "dead letter lies", "dead letters lie")
                ),
                Evidence::at("queues", term("queue", name)),
                start,
            )
            .number("ready", ready)
            .number("consumers", consumers),
        );
    }
}
