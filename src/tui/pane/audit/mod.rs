//! Audit: who did what, when, why, with what outcome; the chain can be checked.

use super::browser::{Facts, short_id};
use super::listing::{ListPane, Listing, Place};
use super::{Ask, PaneId, PaneSpec};
use crate::model::audit::AuditEntry;
use crate::model::filter::FilterKind;
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::json;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Audit,
    number: '9',
    title: "Audit",
    short: "Audit",
    word: "audit",
    scope: Scope::Audit,
    feed: "audit",
    make: || Box::new(ListPane::<Audit>::default()),
};

/// Entries of all journals.
#[derive(Default)]
pub struct Audit;

impl Listing for Audit {
    type Row = AuditEntry;
    const FEED: &'static str = "audit";
    const TITLE: &'static str = "Audit";
    const DETAIL: &'static str = "Audit entry";
    const NOTHING: &'static str = "nothing was done yet: every action leaves its entry here";
    const KIND: FilterKind = FilterKind::Audit;
    const COLUMNS: &'static [Column] = &[
        Column::number("#", 6, 0),
        Column::text("when", 8, 8, 0, 0),
        Column::number("ago", 6, 4),
        Column::text("service", 9, 9, 0, 5),
        Column::text("who", 8, 10, 1, 2),
        Column::text("action", 8, 9, 0, 0),
        Column::text("phase", 7, 8, 0, 1),
        Column::text("subject", 13, 13, 0, 2),
        Column::text("reason", 12, 24, 3, 1),
    ];

    fn parts(world: &World) -> Vec<(&str, &[AuditEntry])> {
        world
            .readings
            .audit
            .value
            .as_deref()
            .map(|value| {
                value
                    .services
                    .iter()
                    .filter_map(|part| {
                        Some((part.service.as_str(), part.value.as_ref()?.as_slice()))
                    })
                    .collect()
            })
            .unwrap_or_default()
    }

    fn id(service: &str, row: &AuditEntry) -> String {
        format!("{service}/{}", row.seq)
    }

    fn sort(rows: &mut [(&str, &AuditEntry, Place)], _world: &World) {
        rows.sort_by(|(_, a, _), (_, b, _)| b.at.cmp(&a.at).then(b.seq.cmp(&a.seq)));
    }

    fn summary(&self, world: &World) -> Line {
        let parts = Self::parts(world);
        let mut line = Line::new();
        for (service, entries) in &parts {
            if let Some(last) = entries.iter().map(|entry| entry.seq).max() {
                line.push(Span::new(format!("{service} "), Role::Dim));
                let word = if last == 1 { "entry" } else { "entries" };
                line.push(Span::new(format!("{last} {word}   "), Role::Text));
            }
        }
        line
    }

    fn cells(service: &str, row: &AuditEntry, world: &World) -> Vec<Span> {
        let record = &row.record;
        vec![
            Span::new(row.seq.to_string(), Role::Dim),
            Span::new(row.at.to_clock(), Role::Text),
            Span::new(world.age(row.at), Role::Dim),
            Span::new(service, Role::Dim),
            Span::new(record.actor.clone(), Role::Text),
            Span::new(record.action.clone(), Role::Strong),
            Span::new(
                record.phase.clone(),
                match record.phase.as_str() {
                    "refused" => Role::Bad,
                    "outcome" => Role::Good,
                    _ => Role::Dim,
                },
            ),
            Span::new(short_id(&record.subject), Role::Text),
            Span::new(record.reason.clone(), Role::Text),
        ]
    }

    fn detail(service: &str, row: &AuditEntry, world: &World) -> Vec<Line> {
        let record = &row.record;
        let mut facts = Facts::new(9);
        facts
            .add_as("entry", format!("{} of {service}", row.seq), Role::Strong)
            .add(
                "at",
                format!("{}   {} ago", row.at.to_rfc3339(), world.age(row.at)),
            )
            .add("who", record.actor.as_str())
            .add("what", format!("{} ({})", record.action, record.phase))
            .add("subject", record.subject.as_str())
            .add("reason", record.reason.as_str())
            .add_some(
                "operation",
                record.operation_id.as_ref().map(ToString::to_string),
            );
        facts.add("detail", "");
        match json::pretty(&record.detail, &[]) {
            Ok(lines) => {
                for line in lines {
                    facts.line(line);
                }
            }
            Err(_) => {
                facts.add("", record.detail.as_str());
            }
        }
        facts
            .add_as("before", row.previous_hash.as_str(), Role::Dim)
            .add_as("hash", row.hash.as_str(), Role::Dim);
        facts.take()
    }

    fn subject(row: &AuditEntry) -> Option<String> {
        Some(row.record.subject.clone())
    }

    fn journey(row: &AuditEntry) -> Option<String> {
        let operation = row.record.operation_id.as_ref().map(ToString::to_string);
        operation.or_else(|| Self::subject(row))
    }

    fn act(
        &mut self,
        action: Action,
        _selected: Option<(&str, &AuditEntry)>,
        _world: &World,
    ) -> Option<Vec<Ask>> {
        (action == Action::Verify).then(|| vec![Ask::VerifyAudit])
    }
}
