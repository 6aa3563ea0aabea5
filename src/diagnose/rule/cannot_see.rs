//! What this console cannot see, so that an empty list is never taken for all clear.

use crate::observe::snapshot::CauseSnapshot;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "cannot_see",
    summary: "this console cannot see something: a right, a table or an answer is missing",
    window: None,
    recovers: "whoever gives this account its rights or runs what `redrive check` finds missing",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let flow = sight
        .flow
        .map(|flow| flow.unread.clone())
        .unwrap_or_default();
    let is_down = sight.health.is_some_and(|health| {
        let mut servers = health
            .databases
            .iter()
            .chain([&health.broker, &health.management]);
        servers.any(|server| server.is_up == Some(false))
    });
    let mut told: Vec<String> = Vec::new();
    for unread in causes.unread().into_iter().chain(flow) {
        // That a server is away is said by name; a queue that is not there is no lack of rights.
        let is_elsewhere =
            (unread.is_unreachable && is_down) || unread.reason.contains("does not exist");
        if is_elsewhere || told.contains(&unread.reason) {
            continue;
        }
        told.push(unread.reason.clone());
        let text = format!("{} cannot be seen: {}", unread.what, unread.reason);
        let is_late = unread.is_unreachable;
        let found = unseen(unread.what, About::All, text);
        look.found(if is_late {
            found.recovered_by(
                "whoever runs that server or gives this account its rights: the reason says which",
            )
        } else {
            found
        });
    }
    if let Some(problem) = nodes_problem(causes) {
        let text = format!("alarms of the nodes cannot be seen: {problem}");
        look.found(unseen("nodes".to_owned(), About::Management, text));
    }
    if causes.queues.statistics_off {
        let text = "broker statistics are switched off: rates and lags cannot be seen".to_owned();
        look.found(unseen("statistics".to_owned(), About::Management, text));
    }
    hidden(sight, causes, look);
}

fn nodes_problem(causes: &CauseSnapshot) -> Option<&str> {
    let overview = causes.queues.overview.as_ref()?;
    match (&overview.nodes, overview.nodes_problem.as_deref()) {
        (None, problem) => Some(problem.unwrap_or("the broker did not tell why")),
        (Some(nodes), _) if nodes.is_empty() => Some("the list of nodes is empty"),
        _ => None,
    }
}

/// Queues that are there, by the message port, and that the management API does not tell about: this
/// account sees less than there is, and an empty list would look like all clear.
fn hidden(sight: &Sight<'_>, causes: &CauseSnapshot, look: &mut Look) {
    let is_asked = causes.queues.total.is_some() || causes.queues.overview.is_some();
    if sight.context.management.is_none() || !is_asked {
        return;
    }
    let queues = causes.queues.queues.iter();
    let hidden: Vec<&str> = queues
        .filter(|queue| queue.role != "other" && !queue.is_told() && !queue.is_missing())
        .map(|queue| queue.facts.name.as_str())
        .collect();
    if hidden.is_empty() {
        return;
    }
    let text = format!(
        "the management API does not show {}, which {} there: the account sees less than there is",
        hidden.join(", "),
        if hidden.len() == 1 { "is" } else { "are" }
    );
    look.found(unseen("queues".to_owned(), About::Management, text).number("hidden", hidden.len()));
}

fn unseen(subject: String, about: About, text: String) -> Found {
    Found::new(
        Severity::Unseen,
        subject,
        vec![about],
        text,
        Evidence::of("overview"),
        "redrive check",
    )
}
