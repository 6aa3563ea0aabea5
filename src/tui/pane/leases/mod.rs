//! Leases: claimed rows by claim token, the most overdue first. An expired lease is loud.

use std::cmp::Ordering;

use super::browser::{Facts, short_id};
use super::listing::{ListPane, Listing, Place};
use super::{Ask, PaneId, PaneSpec};
use crate::base::human;
use crate::model::filter::FilterKind;
use crate::model::outbox::LeaseGroup;
use crate::operate::plan::Request;
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Leases,
    number: '3',
    title: "Leases",
    short: "Lease",
    word: "leases",
    scope: Scope::Leases,
    feed: "leases",
    make: || Box::new(ListPane::<Leases>::default()),
};

/// Claims of all outboxes.
#[derive(Default)]
pub struct Leases;

/// True when the time is up.
fn is_expired(group: &LeaseGroup) -> bool {
    group.left_s.is_some_and(|left| left < 0.0)
}

impl Listing for Leases {
    type Row = LeaseGroup;
    const FEED: &'static str = "leases";
    const TITLE: &'static str = "Leases";
    const DETAIL: &'static str = "Claim";
    const NOTHING: &'static str = "✓ no row is claimed";
    const KIND: FilterKind = FilterKind::Leases;
    const COLUMNS: &'static [Column] = &[
        Column::text("claim", 13, 13, 0, 0),
        Column::text("service", 8, 12, 1, 1),
        Column::number("rows", 7, 0),
        Column::number("lease", 17, 0),
        Column::number("held", 8, 3),
        Column::number("oldest row", 10, 2),
        Column::number("tries", 5, 1),
        Column::text("some events", 13, 30, 2, 4),
    ];

    fn parts(world: &World) -> Vec<(&str, &[LeaseGroup])> {
        world
            .readings
            .leases
            .value
            .as_deref()
            .map(|value| {
                value
                    .services
                    .iter()
                    .filter_map(|part| {
                        Some((
                            part.service.as_str(),
                            part.value.as_ref()?.groups.as_slice(),
                        ))
                    })
                    .collect()
            })
            .unwrap_or_default()
    }

    fn id(service: &str, row: &LeaseGroup) -> String {
        match &row.claim_token {
            Some(token) => format!("{service}/{token}"),
            None => format!("{service}/-"),
        }
    }

    fn sort(rows: &mut [(&str, &LeaseGroup, Place)], _world: &World) {
        rows.sort_by(|(_, a, _), (_, b, _)| {
            a.left_s
                .partial_cmp(&b.left_s)
                .unwrap_or(Ordering::Equal)
                .then_with(|| a.claim_token.cmp(&b.claim_token))
        });
    }

    fn summary(&self, world: &World) -> Line {
        let Some(value) = world.readings.leases.value.as_deref() else {
            return Line::new();
        };
        let mut line = Line::new();
        let groups = || {
            value
                .services
                .iter()
                .filter_map(|part| part.value.as_ref())
                .flat_map(|leases| &leases.groups)
        };
        let expired = groups().filter(|group| is_expired(group)).count();
        if expired > 0 {
            line.push(Span::new(format!("✖ {expired} expired   "), Role::Bad));
        }
        let at_least = if value
            .services
            .iter()
            .filter_map(|part| part.value.as_ref())
            .any(|leases| leases.truncated)
        {
            "≥ "
        } else {
            ""
        };
        line.push(Span::new(
            format!(
                "{at_least}{} claims, {at_least}{} rows",
                groups().count(),
                human::grouped(groups().map(|group| group.rows).sum())
            ),
            Role::Text,
        ));
        for part in &value.services {
            if let Some(why) = part.value.as_ref().and_then(|l| l.not_answered.as_ref()) {
                line.push(Span::new(
                    format!("   {}: {why}", part.service),
                    Role::Unknown,
                ));
            }
        }
        line
    }

    fn cells(service: &str, row: &LeaseGroup, world: &World) -> Vec<Span> {
        let lease = match row.left_s {
            Some(left) if left < 0.0 => {
                Span::new(format!("✖ over by {}", human::age(-left)), Role::Bad)
            }
            Some(left) if left < 5.0 => Span::new(format!("{} left", human::age(left)), Role::Warn),
            Some(left) => Span::new(format!("{} left", human::age(left)), Role::Text),
            None => Span::new("?", Role::Unknown),
        };
        vec![
            match &row.claim_token {
                Some(token) => Span::new(short_id(token.as_str()), Role::Strong),
                None => Span::new("no token", Role::Unknown),
            },
            Span::new(service, Role::Text),
            Span::new(rows(service, row, world), Role::Text),
            lease,
            held(row, world),
            match row.oldest_created_at {
                Some(at) => Span::new(world.age(at), Role::Text),
                None => Span::new("?", Role::Unknown),
            },
            match row.attempts_max {
                Some(n) => Span::new(n.to_string(), if n > 1 { Role::Warn } else { Role::Text }),
                None => Span::new("?", Role::Unknown),
            },
            Span::new(
                row.sample
                    .iter()
                    .map(|id| short_id(id.as_str()))
                    .collect::<Vec<_>>()
                    .join(" "),
                Role::Dim,
            ),
        ]
    }

    fn detail(service: &str, row: &LeaseGroup, world: &World) -> Vec<Line> {
        let lease = human::duration(world.context.dispatcher.lease);
        let mut facts = Facts::new(12);
        facts
            .add_or(
                "claim token",
                row.claim_token.as_ref().map(ToString::to_string),
            )
            .add("service", service)
            .add("rows", rows(service, row, world))
            .add_or(
                "lease until",
                row.lease_until
                    .map(|at| format!("{}, by the database's clock", at.to_rfc3339())),
            );
        match row.left_s {
            Some(left) if left < 0.0 => {
                facts.add_as(
                    "expired",
                    format!(
                        "{} ago: its dispatcher stopped or takes longer than the lease of {lease}",
                        human::age(-left)
                    ),
                    Role::Bad,
                );
                facts.add_as(
                    "who recovers",
                    "the reaper, or L: its rows go back to pending, fenced by the token",
                    Role::Warn,
                );
            }
            Some(left) => {
                facts.add("time left", human::age(left));
            }
            None => {
                facts.add_as("time left", "?", Role::Unknown);
            }
        }
        facts
            .add_or(
                "oldest row",
                row.oldest_created_at
                    .map(|at| format!("{}   {} ago", at.to_rfc3339(), world.age(at))),
            )
            .add_or("attempts", row.attempts_max.map(|n| format!("at most {n}")));
        for (index, id) in row.sample.iter().enumerate() {
            facts.add(if index == 0 { "events" } else { "" }, id.as_str());
        }
        let shown = u64::try_from(row.sample.len()).unwrap_or(u64::MAX);
        if row.rows > shown {
            facts.add_as("", format!("and {} more", row.rows - shown), Role::Dim);
        }
        facts.take()
    }

    fn subject(row: &LeaseGroup) -> Option<String> {
        row.claim_token.as_ref().map(ToString::to_string)
    }

    /// A claim has no journey; the first of its rows has.
    fn journey(row: &LeaseGroup) -> Option<String> {
        row.sample.first().map(ToString::to_string)
    }

    fn act(
        &mut self,
        action: Action,
        selected: Option<(&str, &LeaseGroup)>,
        _world: &World,
    ) -> Option<Vec<Ask>> {
        if action != Action::Release {
            return None;
        }
        Some(match selected {
            Some((service, group)) => match (&group.claim_token, is_expired(group)) {
                (Some(token), true) => vec![Ask::Plan(Request::Release {
                    service: service.to_owned(),
                    claim_token: token.clone(),
                })],
                (Some(_), false) => vec![Ask::Explain(
                    "this lease has not expired: its dispatcher may be sending now".into(),
                )],
                (None, _) => vec![Ask::Explain(
                    "this layout has no claim token: nothing can be released safely".into(),
                )],
            },
            None => vec![Ask::Explain("no claim is under the cursor".into())],
        })
    }

    fn allows(
        &self,
        action: Action,
        selected: Option<(&str, &LeaseGroup)>,
        _world: &World,
    ) -> bool {
        action != Action::Release
            || selected.is_some_and(|(_, group)| is_expired(group) && group.claim_token.is_some())
    }
}

/// How many rows the claim has; a lower bound when not every claimed row was looked at.
fn rows(service: &str, row: &LeaseGroup, world: &World) -> String {
    let is_cut = world.readings.leases.value.as_deref().is_some_and(|value| {
        value
            .services
            .iter()
            .filter(|part| part.service == service)
            .any(|part| part.value.as_ref().is_some_and(|leases| leases.truncated))
    });
    let at_least = if is_cut { "≥ " } else { "" };
    format!("{at_least}{}", human::grouped(row.rows))
}

/// How long the claim has been held, if it was made with the configured lease: batch time against
/// lease length. `~` because a renewed lease looks younger than it is.
fn held(row: &LeaseGroup, world: &World) -> Span {
    let lease = world.context.dispatcher.lease.as_secs_f64();
    match row.left_s {
        Some(left) if left <= lease => {
            let held = lease - left;
            let role = if held > lease {
                Role::Bad
            } else if held > lease * 0.7 {
                Role::Warn
            } else {
                Role::Dim
            };
            Span::new(format!("~{}", human::age(held)), role)
        }
        _ => Span::new("?", Role::Unknown),
    }
}
