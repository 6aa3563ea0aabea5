//! Messages that are given back and delivered again at once.

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "requeue_loop",
    summary: "a hot requeue loop: the same messages are delivered again and again",
    window: Some(Window::KeepsFailing),
    recovers: "a person: find the failing event, fix the error handling of the consumer",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

/// Fewer redeliveries a second may be a restart.
const LOOP_PER_S: f64 = 1.0;

fn look(sight: &Sight<'_>, look: &mut Look) {
    for queue in look.queues(sight, "work") {
        let (name, facts) = (&queue.facts.name, &queue.facts);
        let (Some(again), Some(out)) = (facts.rate_redelivered, facts.rate_out) else {
            // A queue nothing has happened in has no rates; one the broker tells nothing about is blind.
            if !queue.is_told() {
                look.blind(
                    About::Queue(name.clone()),
                    format!("rates of {name} are not known"),
                );
            }
            continue;
        };
        // What a restart gave back is delivered again and acknowledged: that is no loop.
        let is_done_with = facts.rate_ack.is_some_and(|acked| acked >= again);
        if again < LOOP_PER_S || again * 2.0 <= out || is_done_with {
            continue;
        }
        look.found(
            Found::new(
                Severity::Critical,
                name.clone(),
                vec![About::Queue(name.clone())],
                format!(
                    "{name} is in a requeue loop: {again:.0}/s of {out:.0}/s delivered were delivered before"
                ),
                Evidence::at("queues", term("queue", name)),
                "redrive queues",
            )
            .number("redelivered_per_s", again)
            .number("delivered_per_s", out)
            .number("acknowledged_per_s", facts.rate_ack)
            .number("ready", facts.ready)
            .number("unacked", facts.unacked),
        );
    }
}
