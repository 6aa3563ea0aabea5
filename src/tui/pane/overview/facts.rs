//! What is wrong, worst first: the verdicts, then what this process knows of itself and what is not known.

use crate::diagnose::{Severity, Verdict};
use crate::tui::pane::PaneId;
use crate::tui::theme::Role;
use crate::tui::world::World;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What the cursor holds on to.
    pub id: String,
    /// `Bad`, `Warn` or `Unknown`.
    pub role: Role,
    /// One sentence.
    pub text: String,
    /// A second line: window, who recovers it, since when.
    pub more: Option<String>,
    /// Where it can be seen.
    pub evidence: PaneId,
    /// The row or filter there.
    pub target: Option<String>,
}

impl Fact {
    /// The sign in front of it.
    pub const fn glyph(&self) -> &'static str {
        match self.role {
            Role::Bad => Severity::Critical.sign(),
            Role::Unknown => Severity::Unseen.sign(),
            _ => Severity::Warning.sign(),
        }
    }
}

/// Everything that is wrong, worst first.
pub fn facts(world: &World) -> Vec<Fact> {
    let verdicts = world.verdicts.iter().map(|verdict| of(verdict, world));
    let mut out: Vec<Fact> = verdicts.collect();
    let firsts = out.iter().filter(|fact| fact.role != Role::Unknown).count();
    let workers = world.workers.iter().filter_map(|worker| {
        let problem = worker.problem.as_ref()?;
        Some(plain(
            format!("worker/{}/{}", worker.worker, worker.service),
            Role::Warn,
            format!("{} of {}: {problem}", worker.worker, worker.service),
        ))
    });
    let workers: Vec<Fact> = workers.collect();
    out.splice(firsts..firsts, workers);
    out.extend(not_known(world));
    out.extend(findings_not_known(world));
    out
}

fn of(verdict: &Verdict, world: &World) -> Fact {
    let mut more: Vec<String> = Vec::new();
    if let Some(window) = verdict.window {
        more.push(format!("window: {}", window.words()));
    }
    if let Some(reason) = &verdict.unseen {
        more.push(format!("not seen again: {reason}"));
    }
    more.push(format!("recovers: {}", verdict.recovers));
    more.push(format!("since {}", world.age(verdict.since)));
    Fact {
        id: format!("{}/{}", verdict.id, verdict.subject),
        role: match verdict.severity {
            Severity::Critical => Role::Bad,
            Severity::Warning => Role::Warn,
            Severity::Unseen => Role::Unknown,
        },
        text: verdict.sentence.clone(),
        more: Some(more.join(" · ")),
        evidence: PaneId::from_word(verdict.evidence.pane).unwrap_or_default(),
        target: verdict.evidence.filter.clone(),
    }
}

fn plain(id: String, role: Role, text: String) -> Fact {
    Fact {
        id,
        role,
        text,
        more: None,
        evidence: PaneId::Overview,
        target: None,
    }
}

/// What is missing for a server that is away, which is said once, by name.
fn not_known(world: &World) -> Option<Fact> {
    let mut what: Vec<String> = Vec::new();
    for feed in ["flow", "causes"] {
        for unread in world.readings.standing(feed).unread {
            if unread.is_unreachable && !what.contains(&unread.what) {
                what.push(unread.what);
            }
        }
    }
    (!what.is_empty()).then(|| {
        let text = format!("not known meanwhile: {}", what.join(", "));
        plain("unread/down".to_owned(), Role::Unknown, text)
    })
}

/// Findings are kept, and nobody could count them: that is not *none*. Why is said elsewhere where there is
/// a reason; without one the tables are older than scans.
fn findings_not_known(world: &World) -> Option<Fact> {
    let flow = world.readings.flow.value.as_deref()?;
    let is_kept = world.context.services.iter().any(|service| service.journal);
    let is_told = flow
        .unread
        .iter()
        .any(|unread| unread.what.starts_with("findings"));
    let is_unknown = is_kept && flow.findings_open.is_none() && !is_told;
    is_unknown.then(|| {
        let text = "findings of scans are not known: `redrive migrate` makes their tables";
        let mut fact = plain("unread/findings".to_owned(), Role::Unknown, text.to_owned());
        fact.evidence = PaneId::Scans;
        fact
    })
}

/// `+0.02s`
pub fn skew_text(skew_us: i64) -> String {
    let us = skew_us.unsigned_abs();
    let sign = match us {
        0..10_000 => "",
        _ if skew_us < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}.{:02}s", us / 1_000_000, us % 1_000_000 / 10_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::observe::snapshot::Unread;
    use crate::tui::test_support::{flow_calm, fresh, model, shown};
    use crate::tui::world::Fresh;

    /// The Overview of a calm pipeline whose findings nobody could count, for this reason or without one.
    fn overview(unread: Vec<Unread>) -> String {
        let mut model = model(PaneId::Overview, (120, 36));
        let Fresh::Flow(mut reading) = flow_calm() else {
            panic!("counts");
        };
        let mut flow = reading.value.as_deref().cloned().expect("a value");
        flow.findings_open = None;
        flow.unread = unread;
        reading.value = Some(Arc::new(flow));
        fresh(&mut model, Fresh::Flow(reading));
        shown(&model)
    }

    #[test]
    fn findings_that_nobody_could_count_are_not_none() {
        let text = overview(Vec::new());
        assert!(text.contains("? findings of scans are not known"), "{text}");
        let text = overview(vec![Unread {
            what: "findings of orders".to_owned(),
            reason: "connection refused".to_owned(),
            is_unreachable: true,
        }]);
        assert!(
            text.contains("? not known meanwhile: findings of orders"),
            "{text}"
        );
        assert!(!text.contains("redrive migrate"), "{text}");
    }
}
