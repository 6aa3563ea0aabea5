//! `redrive status`: the Overview without a screen. Exit code 3 when something needs a person.

use serde::Serialize;

use crate::assembly::Flow;
use crate::base::human;
use crate::base::text::safe;
use crate::model::count::Count;
use crate::model::waiting::WaitingSummary;
use crate::observe::snapshot::{FlowSnapshot, HealthSnapshot, ServerHealth, Unread};

use super::envelope::Answer;
use super::exit::Exit;
use super::failure::Outcome;
use super::outbox::counts_line;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// The one item of the answer.
#[derive(Serialize)]
struct Status<'a> {
    /// Names of what needs a person, in sentences.
    problems: &'a [String],
    health: &'a HealthSnapshot,
    flow: &'a FlowSnapshot,
}

const SERVERS: &[Column] = &[
    left("server"),
    left("state"),
    right("latency"),
    flexible("detail"),
];

pub(super) async fn run(session: &Session) -> Outcome {
    let observer = &session.services.observer;
    let (health, flow) = tokio::join!(observer.health(), observer.flow());
    let mut answer = session.answer("status");
    answer.unread.extend(flow.unread.iter().cloned());
    for part in &flow.outboxes {
        answer.part(part);
    }
    for server in servers(&health).filter(|server| server.is_up == Some(false)) {
        if !answer
            .unread
            .iter()
            .any(|unread| unread.what == server.name)
        {
            answer.unread.push(Unread {
                what: server.name.clone(),
                reason: server.detail.clone(),
                is_unreachable: true,
            });
        }
    }
    let skew_max = session.context().thresholds.clock_skew;
    let problems = problems(&health, &flow, skew_max);
    if !problems.is_empty() {
        answer.exit = Exit::Findings;
    }
    answer.item(&Status {
        problems: &problems,
        health: &health,
        flow: &flow,
    })?;
    lines(&mut answer, session, &flow, &problems);
    answer.table = Table::new(SERVERS);
    for server in servers(&health) {
        answer.table.push(vec![
            Cell::text(&server.name),
            match server.is_up {
                Some(true) => Cell::text("up"),
                Some(false) => Cell::text("DOWN"),
                None => Cell::unknown(),
            },
            server
                .latency_us
                .map_or_else(Cell::unknown, |us| Cell::text(latency(us))),
            Cell::text(&server.detail),
        ]);
    }
    session.write(&answer)
}

fn servers(health: &HealthSnapshot) -> impl Iterator<Item = &ServerHealth> {
    health
        .databases
        .iter()
        .chain([&health.broker, &health.management])
}

fn latency(us: u64) -> String {
    if us < 1_000 {
        format!("{us}µs")
    } else {
        format!("{}ms", us / 1_000)
    }
}

/// What needs a person. Only what is known: an unread part is told as unread, not as healthy.
fn problems(
    health: &HealthSnapshot,
    flow: &FlowSnapshot,
    skew_max: std::time::Duration,
) -> Vec<String> {
    let some = |count: Option<Count>| count.filter(|count| count.floor() > 0);
    let mut out = Vec::new();
    if let Flow::Blocked(reason) = &health.flow {
        out.push(format!("the broker takes no messages: {}", safe(reason)));
    }
    if let Some(skew) = health.skew_us
        && u128::from(skew.unsigned_abs()) > skew_max.as_micros()
    {
        #[expect(
            clippy::cast_precision_loss,
            reason = "shown in seconds with one decimal"
        )]
        let skew_s = skew as f64 / 1e6;
        out.push(format!("a database clock is {skew_s:+.1}s away from ours"));
    }
    for part in &flow.outboxes {
        let Some(counts) = &part.value else { continue };
        let service = safe(&part.service);
        if let Some(expired) = some(counts.expired_leases) {
            out.push(format!(
                "{service}: {} under an expired lease",
                counted(expired, "row")
            ));
        }
        if let Some(failed) = some(Some(counts.failed)) {
            out.push(format!(
                "{service}: {} gave up",
                counted(failed, "outbox row")
            ));
        }
    }
    for hop in &flow.consumers {
        if hop.consumers == Some(0) {
            let ready = hop.ready.map_or_else(|| "?".to_owned(), human::grouped);
            out.push(format!(
                "{} has no consumer, {ready} ready",
                safe(&hop.queue)
            ));
        }
    }
    if let Some(dead) = some(flow.dead_open) {
        out.push(format!("{} open", counted(dead, "dead letter")));
    }
    if let Some(sagas) = flow.sagas_attention.filter(|n| *n > 0) {
        let sagas = counted(Count::Exact(sagas), "saga");
        out.push(format!("{sagas} overdue, or failed to compensate"));
    }
    if let Some(unknown) = flow.operations_unknown.filter(|n| n.floor() > 0) {
        let operations = counted(unknown, "operation");
        out.push(format!("{operations} with an unknown outcome"));
    }
    if let Some(findings) = some(flow.findings_open) {
        out.push(format!("{} of scans open", counted(findings, "finding")));
    }
    out
}

/// `1 row`, `≥ 10 000 rows`.
fn counted(count: Count, noun: &str) -> String {
    let plural = if count == Count::Exact(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn lines(answer: &mut Answer, session: &Session, flow: &FlowSnapshot, problems: &[String]) {
    let context = session.context();
    answer.head.push(format!(
        "{}  {}{}",
        safe(&context.name),
        context.environment.word(),
        if session.read_only { "  read-only" } else { "" }
    ));
    for problem in problems {
        answer.head.push(format!("! {problem}"));
    }
    for part in &flow.outboxes {
        if let Some(counts) = &part.value {
            answer
                .head
                .push(format!("outbox {}", counts_line(&part.service, counts)));
        }
    }
    let number = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), human::grouped);
    for hop in &flow.consumers {
        let lag = hop.lag_s.map_or_else(|| "?".to_owned(), human::age);
        answer.head.push(format!(
            "consumer {}: {} ready in {}, {} consumers, lag {lag}",
            safe(&hop.consumer),
            number(hop.ready),
            safe(&hop.queue),
            number(hop.consumers),
        ));
    }
    for hop in &flow.consumers {
        if let Some(told) = hop.waiting.as_ref().and_then(WaitingSummary::told) {
            let consumer = safe(&hop.consumer);
            answer.head.push(format!("waiting {consumer}: {told}"));
        }
    }
    let dead = flow
        .dead_open
        .map_or_else(|| "?".to_owned(), |n| n.to_string());
    answer.head.push(format!("dead letters: {dead} open"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> ServerHealth {
        ServerHealth {
            name: name.into(),
            is_up: Some(true),
            latency_us: Some(1_200),
            detail: String::new(),
        }
    }

    #[test]
    fn only_what_is_known_is_a_problem() {
        let health = HealthSnapshot {
            databases: vec![server("db orders")],
            skew_us: Some(-3_000_000),
            broker: server("amqp"),
            management: server("mgmt"),
            flow: Flow::Unknown,
        };
        let flow = FlowSnapshot::default();
        let skew = std::time::Duration::from_secs(2);
        assert_eq!(
            problems(&health, &flow, skew),
            ["a database clock is -3.0s away from ours"]
        );
        let flow = FlowSnapshot {
            dead_open: Some(Count::AtLeast(10_000)),
            ..flow
        };
        assert_eq!(
            problems(&health, &flow, std::time::Duration::from_mins(1)),
            ["≥ 10 000 dead letters open"]
        );
    }
}
