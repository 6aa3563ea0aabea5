//! Events are due, and nobody claims them.

use super::counted;
use crate::base::human;
use crate::diagnose::sight::due_since;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dispatcher_not_claiming",
    summary: "events are due and no dispatcher claims them",
    window: Some(Window::BeforeClaim),
    recovers: "a dispatcher: its next scan takes what is due",
    explained_by: &["server_unreachable", "broker_blocked", "locks_held"],
    pace: Pace::Counts,
    look,
};

/// Two reads of one instant differ by less.
const SAME_S: f64 = 0.5;

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(flow) = look.flow(sight) else {
        return;
    };
    let limit = sight.limits().due.as_secs_f64();
    for (service, counts) in look.parts(&flow.outboxes) {
        let Some(due) = counts.oldest_due_s.filter(|due| *due > limit) else {
            continue;
        };
        let expired = counts.expired_leases.map_or(0, Count::floor);
        let is_claimed = counts.sending.floor() > expired;
        // A claim takes the oldest: while that stays the same, nothing was claimed.
        let has_moved = sight
            .before
            .and_then(|before| before.due_since(service))
            .zip(due_since(counts))
            .is_some_and(|(before, now)| now.seconds_since(before) > SAME_S);
        if is_claimed || has_moved {
            continue;
        }
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                    About::Broker,
                ],
                format!(
                    "{service}: no dispatcher claims: {} due, the oldest for {}, nothing is being sent",
                    counted(counts.due, "event is", "events are"),
                    human::age(due)
                ),
                Evidence::at("outbox", "state:pending"),
                format!("redrive worker dispatcher --service {service}"),
            )
            .number("due", counts.due.floor())
            .number("oldest_due_s", due)
            .number("sending", counts.sending.floor())
            .since_s(Some(due)),
        );
    }
}
