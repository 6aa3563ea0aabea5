//! Events the dispatcher gave up for another reason than their route.

use super::counted;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dispatch_failed",
    summary: "events the dispatcher gave up: refused, too large, attempts used up",
    window: None,
    recovers: "a person: mend the reason, then replay the failed rows",
    explained_by: &[],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, troubles) in look.parts(&causes.troubles) {
        let other = troubles.failed.iter().filter(|group| {
            !group
                .error
                .as_deref()
                .is_some_and(|error| error.starts_with("unroutable"))
        });
        let groups: Vec<_> = other.collect();
        let Some(largest) = groups.first() else {
            continue;
        };
        let rows: u64 = groups.iter().map(|group| group.rows).sum();
        let count = if troubles.is_cut {
            Count::AtLeast(rows)
        } else {
            Count::Exact(rows)
        };
        let error = largest.error.as_deref().unwrap_or("no error was kept");
        look.found(
            Found::new(
                Severity::Warning,
                service,
                vec![About::Outbox(service.to_owned())],
                format!(
                    "{service}: {} at dispatch, most of type {}: {error}",
                    counted(count, "event failed", "events failed"),
                    largest.event_type
                ),
                Evidence::at("outbox", "state:failed"),
                "redrive outbox --state failed",
            )
            .number("events", rows)
            .number("causes", groups.len()),
        );
    }
}
