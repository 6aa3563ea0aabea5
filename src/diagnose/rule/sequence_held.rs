//! Later events of an aggregate that wait for one that does not come.

use super::{counted, number};
use crate::base::human;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "sequence_held",
    summary: "events wait behind an earlier one of their aggregate that is dead or missing",
    window: Some(Window::KeepsFailing),
    recovers: "a person: bring the earlier event through, the others follow by themselves",
    explained_by: &["server_unreachable", "broker_blocked"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    at_dispatch(sight, look);
    at_consumers(sight, look);
}

/// Rows put off because an earlier one is not sent. While none has failed, that one is only late.
fn at_dispatch(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, troubles) in look.parts(&causes.troubles) {
        let held = troubles.retried.iter().filter(|group| {
            group
                .error
                .as_deref()
                .is_some_and(|error| error.starts_with("held:"))
        });
        let rows: u64 = held.map(|group| group.rows).sum();
        let failed: u64 = troubles.failed.iter().map(|group| group.rows).sum();
        if rows == 0 || failed == 0 {
            continue;
        }
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                ],
                format!(
                    "{service}: {} held behind an earlier one of their aggregate; {} at dispatch",
                    number(rows, "event is", "events are"),
                    number(failed, "event has failed", "events have failed")
                ),
                Evidence::at("outbox", "state:failed"),
                "redrive outbox --state failed",
            )
            .in_window(Window::BeforeClaim)
            .number("held", rows)
            .number("failed", failed),
        );
    }
}

/// Events parked at a consumer: their gap closes by itself, or they become dead letters.
fn at_consumers(sight: &Sight<'_>, look: &mut Look) {
    let Some(flow) = look.flow(sight) else {
        return;
    };
    let limit = sight.limits().waiting.as_secs_f64();
    for consumer in &flow.consumers {
        let Some(waiting) = &consumer.waiting else {
            let part = format!("waiting events of {}", consumer.service);
            if let Some(unread) = flow.unread.iter().find(|unread| unread.what == part) {
                look.blind(About::Queue(consumer.queue.clone()), unread.reason.clone());
            }
            continue;
        };
        let Some(oldest) = waiting.oldest_s.filter(|oldest| *oldest > limit) else {
            continue;
        };
        let dead = consumer.dead_open.filter(|dead| dead.floor() > 0);
        let (severity, end) = match dead {
            Some(dead) => (
                Severity::Critical,
                format!(
                    "; {} open here",
                    counted(dead, "dead letter is", "dead letters are")
                ),
            ),
            None => (Severity::Warning, String::new()),
        };
        look.found(
            Found::new(
                severity,
                consumer.consumer.clone(),
                vec![
                    About::Queue(consumer.queue.clone()),
                    About::Service(consumer.service.clone()),
                ],
                format!(
                    "{}: {} for an earlier version, the oldest for {}{end}",
                    consumer.consumer,
                    counted(waiting.count, "event waits", "events wait"),
                    human::age(oldest)
                ),
                Evidence::at("dead_letters", term("consumer", &consumer.consumer)),
                format!("redrive dead --filter 'consumer:{}'", consumer.consumer),
            )
            .number("waiting", waiting.count.floor())
            .number("oldest_s", oldest)
            .number("next_dead_letter_s", waiting.next_deadline_s)
            .number("dead_open", dead.map(Count::floor))
            .since_s(Some(oldest)),
        );
    }
}
