//! Events that no queue takes.

use super::counted;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "unroutable",
    summary: "events of a type that no queue is bound for",
    window: None,
    recovers: "mend the binding, then replay the failed rows",
    explained_by: &[],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, troubles) in look.parts(&causes.troubles) {
        let mut types: Vec<(&str, u64, &str)> = Vec::new();
        for group in &troubles.failed {
            let Some(error) = group
                .error
                .as_deref()
                .filter(|e| e.starts_with("unroutable"))
            else {
                continue;
            };
            match types.iter_mut().find(|(of, ..)| *of == group.event_type) {
                Some((_, rows, _)) => *rows += group.rows,
                None => types.push((&group.event_type, group.rows, error)),
            }
        }
        for (event_type, rows, error) in types {
            let count = if troubles.is_cut {
                Count::AtLeast(rows)
            } else {
                Count::Exact(rows)
            };
            look.found(
                Found::new(
                    Severity::Critical,
                    format!("{service} {event_type}"),
                    vec![About::Outbox(service.to_owned())],
                    format!(
                        "{service}: {} {event_type} to no queue ({error}): not tried again",
                        counted(count, "event of type", "events of type")
                    ),
                    Evidence::at(
                        "outbox",
                        format!("state:failed {}", term("type", event_type)),
                    ),
                    format!("redrive outbox --state failed --filter 'type:{event_type}'"),
                )
                .number("events", rows)
                .number("event_type", event_type)
                .number("is_lower_bound", troubles.is_cut),
            );
        }
    }
}
