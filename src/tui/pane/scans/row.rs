//! The rows of the Scans pane: rules, each followed by its findings.

use serde::Serialize;

use crate::model::count::Count;
use crate::model::filter::{FieldText, Fields, FilterKind};
use crate::model::scan::{Finding, Scan};
use crate::observe::snapshot::ScanSnapshot;
use crate::reconcile::RuleFacts;

/// A rule and its last run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleRow {
    /// The rule.
    #[serde(flatten)]
    pub facts: RuleFacts,
    /// Its last run that is kept.
    pub last: Option<Scan>,
    /// Its run from here.
    pub running: Option<Scan>,
    /// Its findings that are open; `None`: not known.
    pub open: Option<Count>,
}

impl RuleRow {
    /// The run that is shown.
    pub fn shown(&self) -> Option<&Scan> {
        self.running.as_ref().or(self.last.as_ref())
    }

    /// True when something it found is still there.
    pub fn has_found(&self) -> bool {
        let at_its_end = self.shown().is_some_and(|scan| scan.progress.found > 0);
        self.open.map_or(at_its_end, |open| open.floor() > 0)
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ScanRow {
    /// A rule.
    Rule(Box<RuleRow>),
    /// What it found.
    Finding(Box<Finding>),
}

impl ScanRow {
    /// Its identity.
    pub fn id(&self) -> String {
        match self {
            Self::Rule(rule) => format!("rule/{}", rule.facts.name),
            Self::Finding(finding) => finding.finding_id.to_string(),
        }
    }

    /// The rule it is, or belongs to.
    pub fn rule(&self) -> &str {
        match self {
            Self::Rule(rule) => &rule.facts.name,
            Self::Finding(finding) => &finding.rule,
        }
    }

    /// True for a rule of which no run is known.
    pub fn is_never_run(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.shown().is_none())
    }
}

/// Every rule, each with its findings under it; findings of a rule that is gone stand last.
pub fn rows(
    rules: &[RuleFacts],
    kept: Option<&ScanSnapshot>,
    running: Option<&Scan>,
) -> Vec<ScanRow> {
    let findings: &[Finding] = kept.map_or(&[], |kept| &kept.findings);
    let total = kept.and_then(|kept| kept.open).map(Count::floor);
    // A page of findings has a limit: what stands on it is all of them, or no more than a lower bound.
    let counted = |own: usize| {
        let own = own as u64;
        match total {
            Some(total) if total <= findings.len() as u64 => Some(Count::Exact(own)),
            _ => (own > 0).then_some(Count::AtLeast(own)),
        }
    };
    let mut rows = Vec::new();
    for facts in rules {
        let own = findings.iter().filter(|finding| finding.rule == facts.name);
        let last = kept.and_then(|kept| kept.scans.iter().find(|scan| scan.rule == facts.name));
        rows.push(ScanRow::Rule(Box::new(RuleRow {
            last: last.cloned(),
            running: running.filter(|scan| scan.rule == facts.name).cloned(),
            open: counted(own.clone().count()),
            facts: facts.clone(),
        })));
        rows.extend(own.map(|finding| ScanRow::Finding(Box::new(finding.clone()))));
    }
    let known = |finding: &&Finding| rules.iter().any(|facts| facts.name == finding.rule);
    let others = findings.iter().filter(|finding| !known(finding));
    rows.extend(others.map(|finding| ScanRow::Finding(Box::new(finding.clone()))));
    rows
}

impl Fields for ScanRow {
    fn kind(&self) -> FilterKind {
        FilterKind::Findings
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        let text = |text: &str| Some(FieldText::Text(text.to_owned().into()));
        match (name, self) {
            ("rule", row) => text(row.rule()),
            ("class", Self::Finding(finding)) => text(&finding.difference.class),
            ("subject", Self::Finding(finding)) => text(&finding.difference.subject),
            ("service", Self::Finding(finding)) => text(&finding.difference.service),
            ("what", Self::Finding(finding)) => text(&finding.difference.summary),
            ("owner", Self::Finding(finding)) => text(finding.owner.as_deref().unwrap_or("")),
            ("note", Self::Finding(finding)) => text(finding.note.as_deref().unwrap_or("")),
            ("id", Self::Finding(finding)) => text(finding.finding_id.as_str()),
            ("age", Self::Finding(finding)) => Some(FieldText::At(finding.first_seen_at)),
            _ => None,
        }
    }
}
