//! Claimed rows whose lease is over, and nobody takes them back.

use super::{counted, number};
use crate::base::human;
use crate::model::count::Count;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "lease_expired",
    summary: "rows lie under a lease that is over, and no reaper takes them back",
    window: Some(Window::BeforeSend),
    recovers: "the reaper, when the lease is over",
    explained_by: &["server_unreachable", "locks_held"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let grace = sight.limits().lease.as_secs_f64();
    for (service, leases) in look.parts(&causes.leases) {
        let over: Vec<_> = leases
            .groups
            .iter()
            .filter(|group| group.left_s.is_some_and(|left| left < -grace))
            .collect();
        let Some(worst) = over.first() else { continue };
        let rows: u64 = over.iter().map(|group| group.rows).sum();
        let rows = if leases.truncated {
            Count::AtLeast(rows)
        } else {
            Count::Exact(rows)
        };
        let overdue = worst.left_s.map_or(0.0, |left| -left);
        let next = worst.claim_token.as_ref().map_or_else(
            || format!("redrive worker reaper --service {service}"),
            |token| format!("redrive release {token} --reason … --apply"),
        );
        // Whether they went out before their dispatcher ended is told by who has seen them, if anybody has.
        let mut landed = causes.landed.iter().filter(|part| part.service == service);
        let landed = landed.find_map(|part| part.value.as_ref());
        let sent = landed.filter(|landed| landed.seen > 0);
        let window = sent.map_or(Window::BeforeSend, |_| Window::BeforeSentMark);
        let end = sent.map_or_else(String::new, |landed| {
            format!(
                "; {} of {} looked for had been sent: a consumer has seen them",
                landed.seen, landed.followed
            )
        });
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                ],
                format!(
                    "{service}: {} under {}, over for {}, and no reaper takes them back{end}",
                    counted(rows, "row lies", "rows lie"),
                    number(over.len() as u64, "lease", "leases"),
                    human::age(overdue)
                ),
                Evidence::of("leases"),
                next,
            )
            .number("rows", rows.floor())
            .number("claims", over.len())
            .number("overdue_s", overdue)
            .number("seen_by_a_consumer", landed.map(|landed| landed.seen))
            .in_window(window)
            .since_s(Some(overdue)),
        );
    }
}
