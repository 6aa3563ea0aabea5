//! A database, the broker or its management API cannot be reached.

use crate::observe::snapshot::ServerHealth;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "server_unreachable",
    summary: "a database, the broker or its management API cannot be reached",
    window: None,
    recovers: "whoever runs that server",
    explained_by: &[],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(health) = sight.health else {
        look.blind(About::All, "the servers were not asked");
        return;
    };
    for database in &health.databases {
        let service = database.name.strip_prefix("db ").unwrap_or(&database.name);
        let about = vec![
            About::Service(service.to_owned()),
            About::Outbox(service.to_owned()),
            About::Sagas(service.to_owned()),
        ];
        let what = format!("the database of {service}");
        look.found
            .extend(down(database, &what, about, Severity::Critical, "outbox"));
    }
    look.found.extend(down(
        &health.broker,
        "the broker",
        vec![About::Broker],
        Severity::Critical,
        "queues",
    ));
    let management = down(
        &health.management,
        "the management API",
        vec![About::Management],
        Severity::Warning,
        "queues",
    );
    look.found
        .extend(management.map(|found| found.rests_on(health.management_asked)));
}

fn down(
    server: &ServerHealth,
    what: &str,
    about: Vec<About>,
    severity: Severity,
    pane: &'static str,
) -> Option<Found> {
    (server.is_up == Some(false)).then(|| {
        Found::new(
            severity,
            server.name.clone(),
            about,
            format!("{what} cannot be used: {}", server.detail),
            Evidence::of(pane),
            "redrive check",
        )
    })
}
