//! Plain facts that are wrong, worst first. Not verdicts: no causes are guessed here.

use crate::base::human;
use crate::model::count::Count;
use crate::observe::snapshot::{ConsumerFlow, Flow, FlowSnapshot, HealthSnapshot, ServerHealth};
use crate::tui::pane::PaneId;
use crate::tui::theme::Role;
use crate::tui::world::World;

/// A due event that waits longer than this is worth knowing.
const DUE_WARN_S: f64 = 60.0;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What the cursor holds on to.
    pub id: String,
    /// `Bad`, `Warn` or `Unknown`.
    pub role: Role,
    /// One sentence.
    pub text: String,
    /// Where it can be seen.
    pub evidence: PaneId,
    /// The row there.
    pub target: Option<String>,
}

impl Fact {
    /// The sign in front of it.
    pub const fn glyph(&self) -> &'static str {
        match self.role {
            Role::Bad => "✖",
            Role::Unknown => "?",
            _ => "!",
        }
    }
}

fn fact(id: impl Into<String>, role: Role, text: String, evidence: PaneId) -> Fact {
    Fact {
        id: id.into(),
        role,
        text,
        evidence,
        target: None,
    }
}

/// Everything that is wrong, worst first.
pub fn facts(world: &World) -> Vec<Fact> {
    let mut out = Vec::new();
    if let Some(health) = world.readings.health.value.as_deref() {
        servers(health, world, &mut out);
    }
    if let Some(flow) = world.readings.flow.value.as_deref() {
        outboxes(flow, &mut out);
        for consumer in &flow.consumers {
            queue(consumer, &mut out);
            waiting(consumer, &mut out);
        }
        rest(flow, &mut out);
    }
    for worker in &world.workers {
        if let Some(problem) = &worker.problem {
            out.push(fact(
                format!("worker/{}/{}", worker.worker, worker.service),
                Role::Warn,
                format!("{} of {}: {problem}", worker.worker, worker.service),
                PaneId::Overview,
            ));
        }
    }
    out.sort_by_key(|fact| match fact.role {
        Role::Bad => 0,
        Role::Warn => 1,
        _ => 2,
    });
    out
}

fn servers(health: &HealthSnapshot, world: &World, out: &mut Vec<Fact>) {
    let down = |server: &ServerHealth, what: String, evidence| {
        (server.is_up == Some(false)).then(|| {
            // Down is more than not reachable (a wrong password, say), and that is told by its own words.
            let text = if server.detail.contains("is not reachable") {
                server.detail.clone()
            } else {
                format!("{what} cannot be used: {}", server.detail)
            };
            fact(format!("down/{}", server.name), Role::Bad, text, evidence)
        })
    };
    for database in &health.databases {
        let name = database.name.strip_prefix("db ").unwrap_or(&database.name);
        out.extend(down(
            database,
            format!("database of {name}"),
            PaneId::Outbox,
        ));
    }
    out.extend(down(&health.broker, "the broker".into(), PaneId::Queues));
    out.extend(down(
        &health.management,
        "the management API".into(),
        PaneId::Queues,
    ));
    if let Flow::Blocked(why) = &health.flow {
        out.push(fact(
            "blocked",
            Role::Bad,
            format!("the broker takes no messages: blocked: {why}"),
            PaneId::Queues,
        ));
    }
    if let Some(skew) = health.skew_us {
        let limit = i64::try_from(world.context.thresholds.clock_skew.as_micros());
        if limit.is_ok_and(|limit| skew.saturating_abs() > limit) {
            out.push(fact(
                "skew",
                Role::Warn,
                format!(
                    "a database's clock is {} off ours: ages are wrong by that, leases are not",
                    skew_text(skew)
                ),
                PaneId::Leases,
            ));
        }
    }
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

fn outboxes(flow: &FlowSnapshot, out: &mut Vec<Fact>) {
    for part in &flow.outboxes {
        let service = &part.service;
        let Some(counts) = &part.value else { continue };
        match counts.expired_leases {
            Some(expired) if !expired.is_zero() => out.push(fact(
                format!("expired/{service}"),
                Role::Bad,
                format!("{service}: {expired} claimed rows with an expired lease"),
                PaneId::Leases,
            )),
            _ => {}
        }
        if !counts.failed.is_zero() {
            let mut failed = fact(
                format!("failed/{service}"),
                Role::Warn,
                format!("{service}: {} events failed at dispatch", counts.failed),
                PaneId::Outbox,
            );
            failed.target = Some("state:failed".to_owned());
            out.push(failed);
        }
        if let Some(due) = counts.oldest_due_s.filter(|due| *due > DUE_WARN_S) {
            out.push(fact(
                format!("due/{service}"),
                Role::Warn,
                format!(
                    "{service}: the oldest due event waits {}, {} due",
                    human::age(due),
                    counts.due
                ),
                PaneId::Outbox,
            ));
        }
    }
}

fn queue(consumer: &ConsumerFlow, out: &mut Vec<Fact>) {
    if consumer.consumers != Some(0) {
        return;
    }
    let mut found = match consumer.ready {
        Some(ready) if ready > 0 => fact(
            format!("consumer/{}", consumer.queue),
            Role::Bad,
            format!(
                "{} has 0 consumers, {} ready{}",
                consumer.queue,
                human::grouped(ready),
                consumer
                    .lag_s
                    .map_or_else(String::new, |lag| format!(", lag {}", human::age(lag)))
            ),
            PaneId::Queues,
        ),
        ready => fact(
            format!("consumer/{}", consumer.queue),
            Role::Warn,
            format!(
                "{} has 0 consumers, {} ready",
                consumer.queue,
                ready.map_or("?".to_owned(), human::grouped)
            ),
            PaneId::Queues,
        ),
    };
    found.target = Some(consumer.queue.clone());
    out.push(found);
}

/// Events that wait for an earlier one: their gap closes by itself, or they become dead letters.
fn waiting(consumer: &ConsumerFlow, out: &mut Vec<Fact>) {
    let Some(summary) = &consumer.waiting else {
        return;
    };
    if let Some(told) = summary.told() {
        let mut found = fact(
            format!("waiting/{}", consumer.consumer),
            Role::Warn,
            format!("{}: {told}", consumer.consumer),
            PaneId::DeadLetters,
        );
        found.target = Some(format!("consumer:{}", consumer.consumer));
        out.push(found);
    }
}

fn rest(flow: &FlowSnapshot, out: &mut Vec<Fact>) {
    match flow.dead_open {
        Some(open) if !open.is_zero() => out.push(fact(
            "dead",
            Role::Warn,
            if open == Count::Exact(1) {
                "1 dead letter is open".to_owned()
            } else {
                format!("{open} dead letters are open")
            },
            PaneId::DeadLetters,
        )),
        _ => {}
    }
    if let Some(n) = flow.sagas_attention.filter(|n| *n > 0) {
        out.push(fact(
            "sagas",
            Role::Warn,
            if n == 1 {
                "1 saga is overdue or failed to compensate".to_owned()
            } else {
                format!("{n} sagas are overdue or failed to compensate")
            },
            PaneId::Sagas,
        ));
    }
    if let Some(n) = flow.operations_unknown.filter(|n| n.floor() > 0) {
        let (word, sent) = if n == Count::Exact(1) {
            ("operation has", "it")
        } else {
            ("operations have", "they")
        };
        out.push(fact(
            "operations",
            Role::Warn,
            format!("{n} {word} an unknown outcome: {sent} may have been sent"),
            PaneId::Operations,
        ));
    }
    if let Some(n) = flow.findings_open.filter(|n| n.floor() > 0) {
        let word = if n == Count::Exact(1) {
            "finding of a scan is open"
        } else {
            "findings of scans are open"
        };
        out.push(fact(
            "findings",
            Role::Warn,
            format!("{n} {word}"),
            PaneId::Scans,
        ));
    }
    // A server that is down is said once, by name; here it is only said what is missing for it.
    let (down, other): (Vec<_>, Vec<_>) = flow
        .unread
        .iter()
        .partition(|unread| unread.reason.contains("is not reachable"));
    if !down.is_empty() {
        let what: Vec<&str> = down.iter().map(|unread| unread.what.as_str()).collect();
        out.push(fact(
            "unread/down",
            Role::Unknown,
            format!("not known meanwhile: {}", what.join(", ")),
            PaneId::Overview,
        ));
    }
    for unread in other {
        out.push(fact(
            format!("unread/{}", unread.what),
            Role::Unknown,
            format!("{} is not known: {}", unread.what, unread.reason),
            PaneId::Overview,
        ));
    }
}
