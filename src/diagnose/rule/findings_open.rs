//! What scans found and nobody has settled.

use super::counted;

use super::Rule;
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
    let Some(flow) = look.flow(sight) else {
        return;
    };
    let has_journal = sight.context.services.iter().any(|service| service.journal);
    let Some(open) = flow.findings_open else {
        if has_journal {
            look.blind(About::All, "findings of scans could not be read");
        }
        return;
    };
    if open.floor() == 0 {
        return;
    }
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
        .number("findings", open.floor()),
    );
}
