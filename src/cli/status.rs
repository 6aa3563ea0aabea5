//! `redrive status`: the Overview without a screen, in one look. Exit code 3 when that finds something wrong;
//! `redrive doctor` looks longer and says more.

use serde::Serialize;

use crate::base::human;
use crate::base::text::safe;
use crate::diagnose::glance;
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
    /// What one look finds wrong, in the sentences of the verdicts.
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
    // Each on the heap: together they are more than a stack should hold.
    let (health, flow, causes) = tokio::join!(
        Box::pin(observer.health()),
        Box::pin(observer.flow()),
        Box::pin(observer.causes())
    );
    let mut answer = session.answer("status");
    answer.looks = Some(1);
    for unread in flow.unread.iter().cloned().chain(causes.unread()) {
        if !answer.unread.iter().any(|known| known.what == unread.what) {
            answer.unread.push(unread);
        }
    }
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
    let verdicts = glance(observer, &health, &flow, &causes);
    let problems: Vec<String> = verdicts
        .into_iter()
        .map(|verdict| verdict.sentence)
        .collect();
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

fn lines(answer: &mut Answer, session: &Session, flow: &FlowSnapshot, problems: &[String]) {
    let context = session.context();
    answer.head.push(format!(
        "{}  {}{}",
        safe(&context.name),
        context.environment.word(),
        if session.read_only { "  read-only" } else { "" }
    ));
    for problem in problems {
        answer.head.push(format!("! {}", safe(problem)));
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
