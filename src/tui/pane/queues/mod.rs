//! Queues: depth, consumers, rates, lag, where they dead-letter to, and the broker's alarms.

use super::browser::Facts;
use super::listing::{ListPane, Listing, Place};
use super::{Ask, PaneId, PaneSpec};
use crate::base::human;
use crate::model::filter::FilterKind;
use crate::observe::Views;
use crate::observe::snapshot::{BrokerOverview, Flow, QueueView};
use crate::tui::keymap::{Action, Scope};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span};
use crate::tui::widget::table::Column;
use crate::tui::world::World;

/// Registration.
pub const SPEC: PaneSpec = PaneSpec {
    id: PaneId::Queues,
    number: '4',
    title: "Queues",
    short: "Queue",
    word: "queues",
    scope: Scope::Queues,
    feed: "queues",
    make: || Box::new(ListPane::<Queues>::default()),
};

/// Queues of the broker, a page from 1.
pub struct Queues {
    page: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Self { page: 1 }
    }
}

/// `120/s`, or `?`.
pub(crate) fn rate(value: Option<f64>) -> Span {
    match value {
        Some(value) if value.abs() < f64::EPSILON => Span::new("0/s", Role::Dim),
        Some(value) if value < 9.95 => Span::new(format!("{value:.1}/s"), Role::Text),
        Some(value) => Span::new(format!("{value:.0}/s"), Role::Text),
        None => Span::new("?", Role::Unknown),
    }
}

fn count(value: Option<u64>) -> Span {
    match value {
        Some(0) => Span::new("0", Role::Dim),
        Some(n) => Span::new(human::grouped(n), Role::Text),
        None => Span::new("?", Role::Unknown),
    }
}

/// True for a queue that nobody empties although somebody should.
fn is_abandoned(queue: &QueueView) -> bool {
    queue.role == "work"
        && queue.facts.consumers == Some(0)
        && queue.facts.ready.is_some_and(|ready| ready > 0)
}

impl Listing for Queues {
    type Row = QueueView;
    const FEED: &'static str = "queues";
    const TITLE: &'static str = "Queues";
    const DETAIL: &'static str = "Queue";
    const NOTHING: &'static str = "no queues: the broker told of none";
    const KIND: FilterKind = FilterKind::Queues;
    const COLUMNS: &'static [Column] = &[
        Column::text("queue", 18, 26, 2, 0),
        Column::text("role", 5, 5, 0, 5),
        Column::text("type", 7, 7, 0, 7),
        Column::number("ready", 7, 0),
        Column::number("unacked", 7, 3),
        Column::number("cons", 4, 0),
        Column::number("in", 7, 2),
        Column::number("out", 7, 2),
        Column::number("redel", 6, 4),
        Column::number("lag", 7, 0),
        Column::text("warning", 13, 30, 3, 1),
    ];

    fn parts(world: &World) -> Vec<(&str, &[QueueView])> {
        world
            .readings
            .queues
            .value
            .as_deref()
            .map(|value| vec![("", value.queues.as_slice())])
            .unwrap_or_default()
    }

    fn id(_service: &str, row: &QueueView) -> String {
        row.facts.name.clone()
    }

    fn sort(_rows: &mut [(&str, &QueueView, Place)], _world: &World) {}

    fn summary(&self, world: &World) -> Line {
        let mut line = Line::new();
        if let Some(health) = world.readings.health.value.as_deref() {
            match &health.flow {
                Flow::Blocked(why) => {
                    line.push(Span::new(format!("✖ broker blocked: {why}   "), Role::Bad));
                }
                Flow::Unknown => line.push(Span::new("flow ?   ", Role::Unknown)),
                Flow::Open => {}
            }
        }
        let Some(value) = world.readings.queues.value.as_deref() else {
            return line;
        };
        if value.statistics_off {
            line.push(Span::new(
                "! broker statistics are switched off   ",
                Role::Warn,
            ));
        }
        match &value.overview {
            Some(overview) => line.extend(broker(overview)),
            None => line.push(Span::new("broker ?", Role::Unknown)),
        }
        let shown = value.queues.len();
        match value.total {
            Some(total) if total > u64::try_from(shown).unwrap_or(u64::MAX) || self.page > 1 => {
                line.push(Span::new(
                    format!(
                        "   page {}, {shown} of {} queues",
                        self.page,
                        human::grouped(total)
                    ),
                    Role::Text,
                ));
            }
            _ => {}
        }
        line
    }

    fn cells(_service: &str, row: &QueueView, _world: &World) -> Vec<Span> {
        let facts = &row.facts;
        let is_abandoned = is_abandoned(row);
        let bad = |mut span: Span| {
            if is_abandoned {
                span.role = Role::Bad;
            }
            span
        };
        let state_is_odd = facts
            .state
            .as_deref()
            .is_some_and(|state| !matches!(state, "running" | "idle"));
        let mut warnings = row.warnings.clone();
        if state_is_odd && let Some(state) = &facts.state {
            warnings.insert(0, format!("state {state}"));
        }
        vec![
            Span::new(facts.name.clone(), Role::Strong),
            Span::new(
                row.role.clone(),
                if row.role == "dlq" {
                    Role::Warn
                } else {
                    Role::Dim
                },
            ),
            match &facts.kind {
                Some(kind) => Span::new(kind.clone(), Role::Dim),
                None => Span::new("?", Role::Unknown),
            },
            bad(count(facts.ready)),
            count(facts.unacked),
            bad(count(facts.consumers)),
            rate(facts.rate_in),
            rate(facts.rate_out),
            match facts.rate_redelivered {
                Some(value) if value > 0.0 => Span::new(format!("{value:.1}/s"), Role::Warn),
                value => rate(value),
            },
            match row.lag_s {
                Some(lag) => Span::new(
                    human::age(lag),
                    if lag > 300.0 {
                        Role::Bad
                    } else if lag > 30.0 {
                        Role::Warn
                    } else {
                        Role::Text
                    },
                ),
                None => Span::new("?", Role::Unknown),
            },
            Span::new(
                if is_abandoned && warnings.is_empty() {
                    "✖ no consumer".to_owned()
                } else if warnings.is_empty() {
                    String::new()
                } else {
                    format!("! {}", warnings.join("; "))
                },
                if is_abandoned { Role::Bad } else { Role::Warn },
            ),
        ]
    }

    fn detail(_service: &str, row: &QueueView, _world: &World) -> Vec<Line> {
        let facts = &row.facts;
        let mut out = Facts::new(14);
        out.add_as("queue", facts.name.as_str(), Role::Strong);
        for warning in &row.warnings {
            out.add_as("warning", format!("! {warning}"), Role::Warn);
        }
        out.add(
            "role",
            match &row.consumer {
                Some(consumer) => format!("{}, read by {consumer}", row.role),
                None => row.role.clone(),
            },
        )
        .add_or("type", facts.kind.clone())
        .add_or("state", facts.state.clone())
        .add_or("ready", facts.ready.map(human::grouped))
        .add_or("unacked", facts.unacked.map(human::grouped))
        .add_or("bytes", facts.bytes.map(human::bytes))
        .add_or("consumers", facts.consumers.map(human::grouped))
        .add_or(
            "lag",
            row.lag_s.map(|lag| {
                let how = match row.lag_source.as_deref() {
                    Some("head") => "age of the head message",
                    Some("rate") => "ready / rate out",
                    _ => "estimated",
                };
                format!("{} ({how})", human::age(lag))
            }),
        )
        .add_or("head age", facts.head_age_s.map(human::age));
        for (label, value) in [
            ("in", facts.rate_in),
            ("out", facts.rate_out),
            ("acked", facts.rate_ack),
            ("redelivered", facts.rate_redelivered),
        ] {
            let span = rate(value);
            out.add_as(label, span.text, span.role);
        }
        if let Some(members) = &facts.members {
            let online = facts.members_online.as_ref();
            let text = match online {
                Some(online) => format!("{} of {} online", online.len(), members.len()),
                None => format!("{}, online ?", members.len()),
            };
            let is_short = online.is_some_and(|online| online.len() < members.len());
            out.add_as(
                "members",
                text,
                if is_short { Role::Bad } else { Role::Text },
            );
            for member in members {
                let is_on = online.is_some_and(|online| online.contains(member));
                out.add_as(
                    "",
                    format!("{} {member}", if is_on { "✓" } else { "✖" }),
                    if is_on { Role::Text } else { Role::Bad },
                );
            }
        }
        match (&facts.dead_letter_exchange, &facts.dead_letter_routing_key) {
            (Some(exchange), key) => {
                let exchange = if exchange.is_empty() {
                    "the default exchange"
                } else {
                    exchange
                };
                let key = key.as_ref().map_or_else(
                    || "the message's own routing key".to_owned(),
                    |key| format!("routing key {key}"),
                );
                out.add("dead-letters to", format!("{exchange}, {key}"));
            }
            (None, _) => {
                out.add_as(
                    "dead-letters to",
                    "nothing told: what it rejects may be lost",
                    if row.role == "work" {
                        Role::Warn
                    } else {
                        Role::Dim
                    },
                );
            }
        }
        out.add_some("policy", facts.policy.clone());
        out.add_some(
            "delivery limit",
            facts.delivery_limit.map(|n| n.to_string()),
        );
        out.take()
    }

    fn subject(row: &QueueView) -> Option<String> {
        Some(row.facts.name.clone())
    }

    /// Looking into a queue would count as a delivery: which events lie there is not known.
    fn journey(_row: &QueueView) -> Option<String> {
        None
    }

    fn act(
        &mut self,
        action: Action,
        _selected: Option<(&str, &QueueView)>,
        world: &World,
    ) -> Option<Vec<Ask>> {
        match action {
            Action::NextPage => {
                let has_more = world.readings.queues.value.as_deref().is_some_and(|value| {
                    !value.queues.is_empty()
                        && value.total.is_some_and(|total| {
                            total
                                > u64::try_from(value.queues.len())
                                    .unwrap_or(u64::MAX)
                                    .saturating_mul(u64::from(self.page))
                        })
                });
                if !has_more {
                    return Some(vec![Ask::Explain("this is the last page".into())]);
                }
                self.page = self.page.saturating_add(1);
                Some(vec![Ask::Watch])
            }
            Action::FirstPage if self.page > 1 => {
                self.page = 1;
                Some(vec![Ask::Watch])
            }
            _ => None,
        }
    }

    fn allows(
        &self,
        action: Action,
        _selected: Option<(&str, &QueueView)>,
        _world: &World,
    ) -> bool {
        action != Action::FirstPage || self.page > 1
    }

    fn watch(&self, views: &mut Views) {
        views.queues_page = self.page;
    }
}

/// Product and alarms of the nodes.
fn broker(overview: &BrokerOverview) -> Line {
    let mut line = vec![Span::new(overview.product.clone(), Role::Text)];
    match &overview.nodes {
        Some(nodes) => {
            for node in nodes {
                if node.is_running == Some(false) {
                    line.push(Span::new(format!("   ✖ {} is down", node.name), Role::Bad));
                }
                if node.memory_alarm == Some(true) {
                    line.push(Span::new(
                        format!("   ✖ memory alarm on {}", node.name),
                        Role::Bad,
                    ));
                }
                if node.disk_alarm == Some(true) {
                    line.push(Span::new(
                        format!("   ✖ disk alarm on {}", node.name),
                        Role::Bad,
                    ));
                }
            }
            line.push(Span::new(
                format!(
                    "   {} node{}",
                    nodes.len(),
                    if nodes.len() == 1 { "" } else { "s" }
                ),
                Role::Dim,
            ));
        }
        None => line.push(Span::new(
            format!(
                "   nodes ?{}",
                overview
                    .nodes_problem
                    .as_ref()
                    .map_or_else(String::new, |why| format!(": {why}"))
            ),
            Role::Unknown,
        )),
    }
    line
}
