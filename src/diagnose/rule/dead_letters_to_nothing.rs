//! A queue whose rejected messages are lost.

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dead_letters_to_nothing",
    summary: "a queue that dead-letters to nothing: what its consumer rejects is lost",
    window: Some(Window::KeepsFailing),
    recovers: "a person: give the queue a dead-letter exchange before anything else",
    explained_by: &["server_unreachable", "queue_not_whole"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    for queue in look.queues(sight, "work") {
        let (name, facts) = (&queue.facts.name, &queue.facts);
        if !queue.is_told() {
            let reason = format!("the broker tells nothing about {name} but its depth");
            look.blind(About::Queue(name.clone()), reason);
            continue;
        }
        let exchange = facts.dead_letter_exchange.as_deref().unwrap_or_default();
        let part = format!("bindings of {exchange}");
        let mut unread = sight.causes.iter().flat_map(|causes| &causes.queues.unread);
        if let Some(unread) = unread.find(|unread| unread.what == part) {
            look.blind(About::Queue(name.clone()), unread.reason.clone());
            continue;
        }
        let Some(warning) = queue.dead_letters_to_nothing() else {
            continue;
        };
        look.found(Found::new(
            Severity::Warning,
            name.clone(),
            vec![About::Queue(name.clone())],
            format!("{name} {warning}"),
            Evidence::at("queues", term("queue", name)),
            "redrive check",
        ));
    }
}
