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
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                ],
                format!(
                    "{service}: {} under {}, over for {}, and no reaper takes them back",
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
            .since_s(Some(overdue)),
        );
    }
}
