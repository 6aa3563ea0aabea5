//! Scans: each rule with its last run, and under it what it found. `S` starts a rule, `Esc` stops the one
//! that runs; Enter shows the evidence, `R` opens the plan a finding suggests.

use super::browser::{Facts, short_id};
use super::listing::{ListPane, Listing};
use super::{Ask, PaneId, PaneSpec};
use crate::base::human::{self, grouped};
use crate::model::count::Count;
use crate::model::filter::FilterKind;
use crate::model::scan::{Finding, Scan, ScanState};
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

mod row;

pub use row::{RuleRow, ScanRow, rows};

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Scans,
    number: '7',
    title: "Scans",
    short: "Scan",
    word: "scans",
    scope: Scope::Scans,
    feed: "scans",
    make: || Box::new(ListPane::<Scans>::default()),
};

/// Rules and their findings.
#[derive(Default)]
pub struct Scans;

/// Glyph and role of a rule by its last run.
fn standing(row: &RuleRow) -> (&'static str, Role) {
    match row.shown() {
        None => ("?", Role::Unknown),
        Some(scan) if scan.state == ScanState::Running => ("▶", Role::Accent),
        Some(scan) if scan.state != ScanState::Finished || !scan.not_compared.is_empty() => {
            ("?", Role::Unknown)
        }
        Some(_) if row.has_found() => ("✖", Role::Bad),
        Some(_) if row.open.is_none() && row.running.is_none() => ("?", Role::Unknown),
        Some(_) => ("✓", Role::Good),
    }
}

/// `part 2 of 4, 12 500`, `1 200 looked at`, `1 part not compared`, `never run`.
fn told(row: &RuleRow) -> String {
    let Some(scan) = row.shown() else {
        return "never run".to_owned();
    };
    let progress = &scan.progress;
    let looked_at = grouped(progress.examined);
    match scan.state {
        ScanState::Running => format!(
            "part {} of {}, {looked_at}",
            (progress.parts_done + 1).min(progress.parts.max(1)),
            progress.parts.max(1)
        ),
        ScanState::Finished => match scan.not_compared.len() {
            0 => format!("{looked_at} looked at"),
            1 => "1 part not compared".to_owned(),
            parts => format!("{parts} parts not compared"),
        },
        ScanState::Stopped | ScanState::Failed => {
            format!("{} after {looked_at}", scan.state.word())
        }
    }
}

fn open(row: &RuleRow) -> Span {
    match row.open {
        Some(Count::AtLeast(n)) => Span::new(format!("≥{n} open"), Role::Bad),
        Some(count) if count.is_zero() => Span::new("", Role::Dim),
        Some(count) => Span::new(format!("{count} open"), Role::Bad),
        None if row.shown().is_none() => Span::new("", Role::Dim),
        None => Span::new("? open", Role::Unknown),
    }
}

fn rule_cells(row: &RuleRow, world: &World) -> Vec<Span> {
    let (glyph, role) = standing(row);
    vec![
        Span::new(row.facts.name.clone(), Role::Strong),
        Span::new(format!("{glyph} {}", told(row)), role),
        Span::new(
            row.shown().map_or("–".to_owned(), |scan| {
                world.age(scan.finished_at.unwrap_or(scan.started_at))
            }),
            Role::Dim,
        ),
        Span::new("", Role::Dim),
        open(row),
        Span::new(row.facts.about.clone(), Role::Dim),
    ]
}

/// The subject with its long ids cut in the middle, so that its end is seen too.
fn short(subject: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let words = subject.split(' ').map(|word| {
        if is_id(word) {
            short_id(word)
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<String>>().join(" ")
}

fn finding_cells(finding: &Finding, world: &World) -> Vec<Span> {
    let difference = &finding.difference;
    vec![
        Span::new(format!("  {}", difference.class), Role::Warn),
        Span::new(short(&difference.subject), Role::Text),
        Span::new(world.age(finding.first_seen_at), Role::Text),
        Span::new(world.age(finding.last_seen_at), Role::Dim),
        Span::new(
            finding.owner.clone().unwrap_or_else(|| "–".to_owned()),
            Role::Text,
        ),
        Span::new(difference.summary.clone(), Role::Text),
    ]
}

fn rule_detail(row: &RuleRow, world: &World) -> Vec<Line> {
    let mut facts = Facts::new(12);
    facts
        .add_as("rule", row.facts.name.as_str(), Role::Strong)
        .add("compares", row.facts.about.as_str())
        .add(
            "from",
            if row.facts.is_built_in {
                "built in: the tables alone"
            } else {
                "SQL of the configuration"
            },
        );
    let Some(scan) = row.shown() else {
        facts.add_as(
            "",
            "never run: what it would find is not known; S runs it",
            Role::Unknown,
        );
        return facts.take();
    };
    scan_lines(scan, &mut facts, world);
    facts.take()
}

fn scan_lines(scan: &Scan, facts: &mut Facts, world: &World) {
    let progress = &scan.progress;
    facts
        .add(
            "last run",
            format!(
                "{}, started {} ago by {}",
                scan.state.word(),
                world.age(scan.started_at),
                scan.actor
            ),
        )
        .add(
            "looked at",
            format!(
                "{}, {} rows read",
                grouped(progress.examined),
                grouped(scan.rows_read)
            ),
        )
        .add("found", grouped(progress.found))
        .add(
            "in flight",
            format!(
                "{}: changed less than {} ago",
                grouped(progress.in_flight),
                human::duration(world.context.scan.grace)
            ),
        );
    if let Some(part) = &progress.part {
        facts.add("part", part.as_str());
    }
    for (why, count) in &progress.explained {
        facts.add("explained", format!("{} {why}", grouped(*count)));
    }
    for missing in &scan.not_compared {
        facts.add_as(
            "not compared",
            format!("{}: {}", missing.what, missing.reason),
            Role::Unknown,
        );
    }
    for note in &progress.notes {
        facts.add_as("note", note.as_str(), Role::Dim);
    }
    if matches!(scan.state, ScanState::Stopped | ScanState::Failed) {
        facts.add_as(
            "next",
            format!("redrive scan run --resume {}", scan.scan_id),
            Role::Accent,
        );
    }
}

fn finding_detail(finding: &Finding, world: &World) -> Vec<Line> {
    let difference = &finding.difference;
    let mut facts = Facts::new(12);
    facts
        .add_as("what", difference.summary.as_str(), Role::Strong)
        .add("class", difference.class.as_str())
        .add("subject", difference.subject.as_str())
        .add("service", difference.service.as_str())
        .add(
            "seen",
            format!(
                "first {} ago, last {} ago, by scan {}",
                world.age(finding.first_seen_at),
                world.age(finding.last_seen_at),
                short_id(finding.scan_id.as_str())
            ),
        )
        .add("owner", finding.owner.as_deref().unwrap_or("–"))
        .add_some("note", finding.note.clone());
    if let Some(since) = difference.since {
        facts.add(
            "changed",
            format!("{}   {} ago", since.to_rfc3339(), world.age(since)),
        );
    }
    if let Some(suggestion) = &difference.suggestion {
        facts.add_as("next", suggestion.command.as_str(), Role::Accent);
        if suggestion.verb == "replay" {
            facts.add_as("", "R opens its plan", Role::Dim);
        }
    }
    facts.line(Line::new());
    for fact in &difference.facts {
        match &fact.value {
            Some(value) => facts.add(&fact.name, value.as_str()),
            None => facts.add_as(&fact.name, "not there", Role::Warn),
        };
    }
    facts.take()
}

/// Opens what a finding suggests: the plan of a replay, or the pane its subject is shown in.
fn suggested(finding: &Finding) -> Ask {
    let Some(suggestion) = &finding.difference.suggestion else {
        return Ask::Explain("nothing is suggested for it: see its evidence".to_owned());
    };
    let target = suggestion.target.clone();
    if suggestion.verb == "replay" {
        return Ask::Resolve(target);
    }
    if suggestion.verb.starts_with("saga") {
        return Ask::Go(
            PaneId::Sagas,
            Some(format!("{}/{target}", suggestion.service)),
        );
    }
    Ask::Explain(format!("next: {}", suggestion.command))
}

impl Listing for Scans {
    type Row = ScanRow;
    const FEED: &'static str = "scans";
    const TITLE: &'static str = "Scans";
    const DETAIL: &'static str = "Evidence";
    const NOTHING: &'static str = "no rule fits the filter";
    const KIND: FilterKind = FilterKind::Findings;
    const COLUMNS: &'static [Column] = &[
        Column::text("rule, class", 24, 26, 0, 0),
        Column::text("last run, subject", 24, 32, 1, 0),
        Column::number("ran, first", 10, 1),
        Column::number("last", 6, 2),
        Column::text("owner", 9, 12, 0, 1),
        Column::text("what", 30, 90, 3, 3),
    ];

    fn parts(world: &World) -> Vec<(&str, &[ScanRow])> {
        if world.readings.scans.value.is_none() && world.scanning.is_none() {
            return Vec::new();
        }
        vec![("", world.scans.as_slice())]
    }

    fn id(_service: &str, row: &ScanRow) -> String {
        row.id()
    }

    fn summary(&self, world: &World) -> Line {
        let mut line = Line::new();
        if let Some(scan) = &world.scanning {
            line.push(Span::new(
                format!("▶ {} is running, Esc stops it   ", scan.rule),
                Role::Accent,
            ));
        }
        let Some(value) = world.readings.scans.value.as_deref() else {
            return line;
        };
        match value.open {
            Some(count) if count.is_zero() => {
                line.push(Span::new("no open finding   ", Role::Dim));
            }
            Some(Count::Exact(1)) => line.push(Span::new("1 open finding   ", Role::Bad)),
            Some(count) => line.push(Span::new(format!("{count} open findings   "), Role::Bad)),
            None if world.context.services.iter().any(|service| service.journal) => {
                line.push(Span::new("? open findings not known   ", Role::Unknown));
            }
            None => line.push(Span::new("? findings are not kept here   ", Role::Unknown)),
        }
        let never = world.scans.iter().filter(|row| row.is_never_run()).count();
        match never {
            0 => {}
            1 => line.push(Span::new("? 1 rule never run", Role::Unknown)),
            _ => line.push(Span::new(
                format!("? {never} rules never run"),
                Role::Unknown,
            )),
        }
        line
    }

    fn cells(_service: &str, row: &ScanRow, world: &World) -> Vec<Span> {
        match row {
            ScanRow::Rule(rule) => rule_cells(rule, world),
            ScanRow::Finding(finding) => finding_cells(finding, world),
        }
    }

    fn detail(_service: &str, row: &ScanRow, world: &World) -> Vec<Line> {
        match row {
            ScanRow::Rule(rule) => rule_detail(rule, world),
            ScanRow::Finding(finding) => finding_detail(finding, world),
        }
    }

    fn subject(row: &ScanRow) -> Option<String> {
        Some(match row {
            ScanRow::Rule(rule) => rule.facts.name.clone(),
            ScanRow::Finding(finding) => finding.finding_id.to_string(),
        })
    }

    fn journey(row: &ScanRow) -> Option<String> {
        match row {
            ScanRow::Finding(finding) => finding
                .difference
                .event_id
                .as_ref()
                .map(ToString::to_string),
            ScanRow::Rule(_) => None,
        }
    }

    fn act(
        &mut self,
        action: Action,
        selected: Option<(&str, &ScanRow)>,
        world: &World,
    ) -> Option<Vec<Ask>> {
        match action {
            // The key that leaves everything else also leaves a scan, before anything is closed.
            Action::Back if world.scanning.is_some() => Some(vec![Ask::StopScan]),
            Action::Scan => {
                let (_, row) = selected?;
                Some(vec![match &world.scanning {
                    Some(scan) => Ask::Explain(format!(
                        "{} is still running: one at a time; Esc stops it",
                        scan.rule
                    )),
                    None => Ask::Scan(row.rule().to_owned()),
                }])
            }
            Action::Replay => Some(vec![match selected? {
                (_, ScanRow::Finding(finding)) => suggested(finding),
                (_, ScanRow::Rule(_)) => {
                    Ask::Explain("R opens the plan of a finding; S runs a rule".to_owned())
                }
            }]),
            _ => None,
        }
    }

    fn allows(&self, action: Action, selected: Option<(&str, &ScanRow)>, world: &World) -> bool {
        match action {
            Action::Scan => selected.is_some() && world.scanning.is_none(),
            Action::Replay => matches!(
                selected,
                Some((_, ScanRow::Finding(finding))) if finding.difference.suggestion.is_some()
            ),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
