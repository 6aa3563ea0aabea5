//! Claims and sent marks wait for locks that somebody else holds.

use super::number;
use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "locks_held",
    summary: "claims wait for locks that somebody else holds",
    window: Some(Window::BeforeClaim),
    recovers: "whoever holds the locks: commit, roll back, or end that session",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let limits = sight.limits();
    for (service, locks) in look.parts(&causes.locks) {
        let Some(locks) = locks else { continue };
        let waits = locks
            .longest_s
            .filter(|s| *s > limits.lock_wait.as_secs_f64());
        let holds = locks
            .oldest_holder_s
            .filter(|s| *s > limits.transaction.as_secs_f64());
        let late = sight
            .oldest_due_s(service)
            .filter(|due| *due > limits.due.as_secs_f64());
        let sentence = match (waits, holds, late) {
            (Some(wait), holder, _) => {
                let holder = holder.map_or_else(String::new, |s| {
                    format!("; a transaction has held row locks for {}", human::age(s))
                });
                format!(
                    "{service}: {} for a lock, the longest {}{holder}",
                    number(locks.waiting, "statement waits", "statements wait"),
                    human::age(wait)
                )
            }
            // Claims pass over locked rows: nothing waits, and nothing is claimed.
            (None, Some(held), Some(due)) => format!(
                "{service}: a transaction has held row locks for {}, and the oldest due event waits {}",
                human::age(held),
                human::age(due)
            ),
            _ => continue,
        };
        let session = locks.holder.map_or_else(
            || "redrive outbox".to_owned(),
            |id| format!("KILL {id}  -- on the database of {service}"),
        );
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                ],
                sentence,
                Evidence::of("outbox"),
                session,
            )
            .number("waiting", locks.waiting)
            .number("longest_s", locks.longest_s)
            .number("holder_s", locks.oldest_holder_s)
            .number("session", locks.holder)
            .since_s(waits.or(holds)),
        );
    }
}
