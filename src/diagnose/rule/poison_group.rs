//! Many dead letters of one cause.

use super::counted;
use crate::base::human;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "poison_group",
    summary: "many dead letters of one type have one cause",
    window: Some(Window::KeepsFailing),
    recovers: "a person: fix the consumer or the payload, then replay, repair or discard",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let limit = sight.limits().poison;
    for (service, letters) in look.parts(&causes.letters) {
        for group in letters.groups.iter().filter(|group| group.count >= limit) {
            let count = if letters.truncated {
                Count::AtLeast(group.count)
            } else {
                Count::Exact(group.count)
            };
            let event_type = group
                .event_type
                .as_deref()
                .unwrap_or("events without a type");
            let last = sight.at.seconds_since(group.last_died_at).max(0.0);
            look.found(
                Found::new(
                    Severity::Critical,
                    format!("{} {event_type} {}", group.consumer, group.error_class),
                    vec![About::Service(service.to_owned())],
                    format!(
                        "{} cannot process {event_type}: {} by {}, the last {} ago",
                        group.consumer,
                        counted(count, "dead letter", "dead letters"),
                        group.error_class,
                        human::age(last)
                    ),
                    Evidence::at("dead_letters", term("consumer", group.consumer.as_str())),
                    format!(
                        "redrive dead --by cause --filter 'consumer:{}'",
                        group.consumer
                    ),
                )
                .number("dead_letters", group.count)
                .number("is_lower_bound", letters.truncated)
                .number("last_s", last)
                .number("open", letters.open.map(Count::floor))
                .since_s(Some(sight.at.seconds_since(group.first_died_at))),
            );
        }
    }
}
