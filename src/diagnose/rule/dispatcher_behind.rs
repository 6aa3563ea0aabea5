//! Dispatchers claim, but slower than events come.

use super::counted;
use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dispatcher_behind",
    summary: "dispatchers claim, but slower than events come",
    window: Some(Window::BeforeClaim),
    recovers: "more dispatchers, or a faster broker",
    explained_by: &[
        "server_unreachable",
        "broker_blocked",
        "locks_held",
        "dispatcher_not_claiming",
        "confirms_missing",
    ],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(flow) = look.flow(sight) else {
        return;
    };
    let limit = sight.limits().due.as_secs_f64() * 2.0;
    for (service, counts) in look.parts(&flow.outboxes) {
        let Some(due) = counts.oldest_due_s.filter(|due| *due > limit) else {
            continue;
        };
        look.found(
            Found::new(
                Severity::Warning,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                    About::Broker,
                ],
                format!(
                    "{service}: dispatchers are behind: {} due, the oldest for {}",
                    counted(counts.due, "event is", "events are"),
                    human::age(due)
                ),
                Evidence::at("outbox", "state:pending"),
                format!("redrive worker dispatcher --service {service}"),
            )
            .number("due", counts.due.floor())
            .number("oldest_due_s", due)
            .since_s(Some(due)),
        );
    }
}
