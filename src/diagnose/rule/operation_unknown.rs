//! Operator actions whose outcome nobody knows.

use super::{Rule, counted, of_journals};
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "operation_unknown",
    summary: "an operator action has no known outcome",
    window: None,
    recovers: "the next console that looks: by the inbox row or the next death",
    explained_by: &["server_unreachable"],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let blind = "operations could not be read";
    let Some(unknown) = of_journals(sight, look, |flow| flow.operations_unknown, blind) else {
        return;
    };
    look.found(
        Found::new(
            Severity::Warning,
            "operations",
            vec![About::All],
            format!(
                "{} an unknown outcome: what it sends may have been sent",
                counted(unknown, "operation has", "operations have")
            ),
            Evidence::of("operations"),
            "redrive operations",
        )
        .number("operations", unknown.floor())
        .rests_on(
            sight
                .flow
                .into_iter()
                .flat_map(|flow| flow.operations_asked.clone()),
        ),
    );
}
