//! A queue that cannot be trusted: not there, without its majority, or in a state nobody knows to be good (M-09).

use crate::observe::snapshot::QueueView;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "queue_not_whole",
    summary: "a queue is missing, without members, or in a state that is not known to be good",
    window: Some(Window::NotConsumed),
    recovers: "bring the node or the queue back; the broker keeps what it confirmed",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    nodes(sight, look);
    let mut queues = look.queues(sight, "work");
    queues.extend(look.queues(sight, "dlq"));
    for queue in queues {
        if queue.is_missing() {
            missing(queue, look);
        } else if queue.is_told() {
            members(queue, look);
            state(queue, look);
        } else {
            let reason = format!(
                "the broker tells nothing about {} but its depth",
                queue.facts.name
            );
            look.blind(About::Queue(queue.facts.name.clone()), reason);
        }
    }
}

fn nodes(sight: &Sight<'_>, look: &mut Look) {
    let overview = sight
        .causes
        .and_then(|causes| causes.queues.overview.as_ref());
    let Some(nodes) = overview.and_then(|overview| overview.nodes.as_ref()) else {
        look.blind(About::Management, "the nodes of the broker are not known");
        return;
    };
    for node in nodes {
        match node.is_running {
            Some(true) => {}
            Some(false) => look.found(Found::new(
                Severity::Critical,
                format!("node {}", node.name),
                vec![About::Broker, About::Management],
                format!("node {} of the broker is down", node.name),
                Evidence::of("queues"),
                "redrive queues",
            )),
            // Not told is not known to be good.
            None => look.found(Found::new(
                Severity::Unseen,
                format!("node {}", node.name),
                vec![About::Broker, About::Management],
                format!("nobody tells whether node {} of the broker runs", node.name),
                Evidence::of("queues"),
                "redrive check",
            )),
        }
    }
}

fn about(queue: &QueueView) -> Vec<About> {
    vec![About::Queue(queue.facts.name.clone())]
}

fn missing(queue: &QueueView, look: &mut Look) {
    let name = &queue.facts.name;
    look.found(Found::new(
        Severity::Critical,
        name.clone(),
        about(queue),
        format!("queue {name} does not exist on this broker: what is sent to it is returned"),
        Evidence::at("queues", term("queue", name)),
        "redrive check",
    ));
}

fn members(queue: &QueueView, look: &mut Look) {
    let Some((missing, all)) = queue.members_missing() else {
        return;
    };
    if missing.is_empty() {
        return;
    }
    let name = &queue.facts.name;
    let up = all.saturating_sub(missing.len());
    let is_lost = up * 2 <= all;
    let (severity, end) = if is_lost {
        (
            Severity::Critical,
            "no majority: it confirms nothing and delivers nothing",
        )
    } else {
        (Severity::Warning, "one more and it stops")
    };
    let mut about = about(queue);
    if is_lost {
        about.push(About::Broker);
    }
    look.found(
        Found::new(
            severity,
            name.clone(),
            about,
            format!(
                "{name} has {up} of {all} members online, {} missing: {end}",
                missing.join(", ")
            ),
            Evidence::at("queues", term("queue", name)),
            "redrive queues",
        )
        .number("members", all)
        .number("online", up),
    );
}

fn state(queue: &QueueView, look: &mut Look) {
    let name = &queue.facts.name;
    let Some(state) = queue.facts.state.as_deref() else {
        return;
    };
    // `flow` slows publishers down; only states known to be good pass in silence.
    if matches!(state, "running" | "idle" | "flow") {
        return;
    }
    // A lost majority says more than the word for it.
    if look.found.iter().any(|found| found.subject == *name) {
        return;
    }
    let is_bad = matches!(
        state,
        "down" | "minority" | "crashed" | "stopped" | "terminated"
    );
    let words = if is_bad {
        ""
    } else {
        ", which is not known to be good"
    };
    look.found(Found::new(
        if is_bad {
            Severity::Critical
        } else {
            Severity::Warning
        },
        name.clone(),
        about(queue),
        format!("{name} is in state {state}{words}"),
        Evidence::at("queues", term("queue", name)),
        "redrive queues",
    ));
}
