//! What scans found and nobody has settled.

use super::{Rule, counted, of_journals};
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "findings_open",
    summary: "a scan found tables that disagree",
    window: None,
    recovers: "a person: the finding's evidence, then what it suggests",
    explained_by: &["server_unreachable"],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let blind = "findings of scans could not be read";
    let Some(open) = of_journals(sight, look, |flow| flow.findings_open, blind) else {
        return;
    };
    look.found(
        Found::new(
            Severity::Warning,
            "findings",
            vec![About::All],
            format!(
                "{} open",
                counted(open, "finding of a scan is", "findings of scans are")
            ),
            Evidence::of("scans"),
            "redrive scan findings",
        )
        .number("findings", open.floor())
        .rests_on(sight.flow.and_then(|flow| flow.findings_asked)),
    );
}
