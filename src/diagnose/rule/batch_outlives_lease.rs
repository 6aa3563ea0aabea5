//! Rows came back because their lease ran out before their batch ended.

use super::number;
use crate::base::human;
use crate::model::outbox::LEASE_OVER;
use crate::model::trouble::RowGroup;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "batch_outlives_lease",
    summary: "leases run out before batches end, or dispatchers die",
    window: Some(Window::BeforeSend),
    recovers: "the reaper gave them back; a longer lease or a smaller batch ends it",
    explained_by: &[
        "server_unreachable",
        "broker_blocked",
        "locks_held",
        "lease_expired",
    ],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let lease = sight.context.dispatcher.lease;
    for (service, troubles) in look.parts(&causes.troubles) {
        let reaped = |group: &&RowGroup| {
            let error = group.error.as_deref().unwrap_or_default();
            error.starts_with(LEASE_OVER)
        };
        let rows: u64 = troubles.retried.iter().filter(reaped).map(|g| g.rows).sum();
        if rows == 0 {
            continue;
        }
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
                    "{service}: {} back because the lease ran out: batches outlive it ({}), or their dispatcher \
                     died",
                    number(rows, "row came", "rows came"),
                    human::duration(lease)
                ),
                Evidence::at("outbox", "state:pending"),
                "redrive leases",
            )
            .number("rows", rows)
            .number("lease_s", lease.as_secs_f64()),
        );
    }
}
