//! The broker takes no messages: an alarm, or it said so.

use crate::observe::snapshot::Flow;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "broker_blocked",
    summary: "the broker takes no messages: a memory or disk alarm",
    window: Some(Window::BeforeClaim),
    recovers: "free memory or disk on the node; dispatchers go on by themselves",
    explained_by: &["server_unreachable"],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let told = sight.causes.filter(|causes| {
        let overview = causes.queues.overview.as_ref();
        overview.is_some_and(|overview| overview.nodes.is_some())
    });
    let alarms = told.map(|causes| causes.queues.alarms());
    let blocked = match sight.health.map(|health| &health.flow) {
        Some(Flow::Blocked(reason)) => Some(reason.clone()),
        Some(Flow::Open) => None,
        Some(Flow::Unknown) | None => {
            // Alarms tell it too; without either nobody knows.
            if alarms.is_none() {
                look.blind(
                    About::Broker,
                    "the broker did not tell whether it takes messages",
                );
            }
            None
        }
    };
    let raised: Vec<String> = alarms
        .into_iter()
        .flatten()
        .filter(|alarm| alarm.contains("publishing is blocked"))
        .collect();
    if blocked.is_none() && raised.is_empty() {
        return;
    }
    let why = if raised.is_empty() {
        blocked.unwrap_or_default()
    } else {
        raised.join("; ")
    };
    look.found(
        Found::new(
            Severity::Critical,
            "broker",
            vec![About::Broker],
            format!("the broker takes no messages: {why}"),
            Evidence::of("queues"),
            "redrive queues",
        )
        .number("alarms", raised.len()),
    );
}
