//! A look as gauges, one function for each part of the chain.

use crate::diagnose::Severity;
use crate::model::count::Count;
use crate::model::operation::Verb;
use crate::model::saga::{Saga, SagaState};
use crate::model::scan::{Scan, ScanState};
use crate::observe::snapshot::{Flow, QueueView};

use super::look::Look;
use super::page::Page;

/// Parts that could not be read are told up to so many, so that labels stay few.
const UNREAD_MAX: usize = 50;

/// Verdicts are told one by one up to so many.
const VERDICTS_MAX: usize = 50;

/// Fills in one part of a page.
pub type Part = fn(&Look, &mut Page);

/// Every part, in the order of the chain.
pub const PARTS: &[Part] = &[
    servers,
    unread,
    outboxes,
    queues,
    broker,
    consumers,
    dead_letters,
    replays,
    sagas,
    verdicts,
    findings,
];

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn float(n: u64) -> f64 {
    n as f64
}

#[expect(clippy::cast_precision_loss, reason = "lists are short")]
const fn len(n: usize) -> f64 {
    n as f64
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn floor(count: Count) -> f64 {
    float(count.floor())
}

fn is_capped(count: Count) -> f64 {
    flag(matches!(count, Count::AtLeast(_)))
}

fn servers(look: &Look, page: &mut Page) {
    let health = &look.health;
    let all = health
        .databases
        .iter()
        .chain([&health.broker, &health.management]);
    for server in all {
        let labels = [("server", server.name.as_str())];
        page.set("redrive_up", &labels, server.is_up.map(flag));
        let latency = server.latency_us.map(|us| float(us) / 1e6);
        page.set("redrive_server_latency_seconds", &labels, latency);
    }
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a skew")]
    let skew = health.skew_us.map(|us| us as f64 / 1e6);
    page.set("redrive_clock_skew_seconds", &[], skew);
}

fn unread(look: &Look, page: &mut Page) {
    let mut what: Vec<&str> = look.unread().iter().map(|u| u.what.as_str()).collect();
    what.sort_unstable();
    what.dedup();
    for what in what.into_iter().take(UNREAD_MAX) {
        page.set("redrive_unread", &[("what", what)], Some(1.0));
    }
}

fn outboxes(look: &Look, page: &mut Page) {
    for part in &look.flow.outboxes {
        let Some(counts) = &part.value else { continue };
        let service = ("service", part.service.as_str());
        for (state, count) in [
            ("pending", counts.pending),
            ("due", counts.due),
            ("sending", counts.sending),
            ("failed", counts.failed),
        ] {
            let labels = [service, ("state", state)];
            page.set("redrive_outbox_rows", &labels, Some(floor(count)));
            page.set(
                "redrive_outbox_rows_capped",
                &labels,
                Some(is_capped(count)),
            );
        }
        let sent = counts.sent.map(floor);
        page.set("redrive_outbox_sent_rows_estimate", &[service], sent);
        let due = known_none(counts.due).or(counts.oldest_due_s);
        page.set("redrive_outbox_oldest_due_seconds", &[service], due);
        let pending = known_none(counts.pending).or(counts.oldest_pending_s);
        page.set("redrive_outbox_oldest_pending_seconds", &[service], pending);
        let expired = counts.expired_leases.map(floor);
        page.set("redrive_outbox_expired_leases", &[service], expired);
        let published = counts.published_last_minute().map(|n| floor(n) / 60.0);
        page.set("redrive_outbox_published_per_second", &[service], published);
    }
}

/// Of nothing the oldest is 0 old, when it is known that there is nothing.
fn known_none(count: Count) -> Option<f64> {
    count.is_zero().then_some(0.0)
}

fn queues(look: &Look, page: &mut Page) {
    // Queues of others are not ours to watch, and there may be thousands.
    for queue in look
        .queues
        .queues
        .iter()
        .filter(|queue| queue.role != "other")
    {
        one_queue(queue, page);
    }
}

fn one_queue(queue: &QueueView, page: &mut Page) {
    let facts = &queue.facts;
    let labels = [
        ("queue", facts.name.as_str()),
        ("role", queue.role.as_str()),
    ];
    page.set("redrive_queue_ready", &labels, facts.ready.map(float));
    page.set("redrive_queue_unacked", &labels, facts.unacked.map(float));
    page.set("redrive_queue_bytes", &labels, facts.bytes.map(float));
    page.set(
        "redrive_queue_consumers",
        &labels,
        facts.consumers.map(float),
    );
    let members = facts.members.as_ref().map(Vec::len);
    page.set("redrive_queue_members", &labels, members.map(len));
    let online = facts.members_online.as_ref().map(Vec::len);
    let missing = members
        .zip(online)
        .map(|(all, online)| len(all.saturating_sub(online)));
    page.set("redrive_queue_members_missing", &labels, missing);
    page.set("redrive_queue_in_per_second", &labels, facts.rate_in);
    page.set("redrive_queue_out_per_second", &labels, facts.rate_out);
    page.set("redrive_queue_acked_per_second", &labels, facts.rate_ack);
    page.set(
        "redrive_queue_redelivered_per_second",
        &labels,
        facts.rate_redelivered,
    );
    page.set("redrive_queue_head_age_seconds", &labels, facts.head_age_s);
    page.set(
        "redrive_queue_warnings",
        &labels,
        Some(len(queue.warnings.len())),
    );
}

fn broker(look: &Look, page: &mut Page) {
    let nodes = look
        .queues
        .overview
        .iter()
        .flat_map(|o| o.nodes.iter().flatten());
    for node in nodes {
        for (alarm, is_on) in [
            ("memory", node.memory_alarm),
            ("disk", node.disk_alarm),
            ("down", node.is_running.map(|is_running| !is_running)),
        ] {
            let labels = [("node", node.name.as_str()), ("alarm", alarm)];
            page.set("redrive_broker_alarm", &labels, is_on.map(flag));
        }
    }
    let blocked = match &look.health.flow {
        Flow::Open => Some(0.0),
        Flow::Blocked(_) => Some(1.0),
        Flow::Unknown => None,
    };
    page.set("redrive_broker_blocked", &[], blocked);
}

fn consumers(look: &Look, page: &mut Page) {
    for consumer in &look.flow.consumers {
        let labels = [
            ("service", consumer.service.as_str()),
            ("consumer", consumer.consumer.as_str()),
            ("queue", consumer.queue.as_str()),
        ];
        page.set(
            "redrive_consumer_lag_messages",
            &labels,
            consumer.ready.map(float),
        );
        page.set("redrive_consumer_lag_seconds", &labels, consumer.lag_s);
        page.set(
            "redrive_consumer_processed_per_second",
            &labels,
            consumer.inbox_per_s,
        );
        let waiting = consumer.waiting.as_ref();
        let count = waiting.map(|waiting| floor(waiting.count));
        page.set("redrive_consumer_waiting_events", &labels, count);
        let oldest = waiting.and_then(|waiting| known_none(waiting.count).or(waiting.oldest_s));
        page.set("redrive_consumer_waiting_oldest_seconds", &labels, oldest);
    }
}

fn dead_letters(look: &Look, page: &mut Page) {
    for part in &look.letters {
        let Some(groups) = &part.value else { continue };
        let service = ("service", part.service.as_str());
        for (status, count) in [("open", groups.open), ("replaying", groups.replaying)] {
            let labels = [service, ("status", status)];
            page.set("redrive_dead_letters", &labels, count.map(floor));
            page.set("redrive_dead_letters_capped", &labels, count.map(is_capped));
        }
        let oldest = groups.open.and_then(known_none).or(groups.oldest_open_s);
        page.set("redrive_dead_letters_oldest_seconds", &[service], oldest);
        let deaths = groups.deaths_last_minute.map(floor);
        page.set("redrive_dead_letters_per_minute", &[service], deaths);
        let causes = (!groups.truncated).then(|| len(groups.groups.len()));
        page.set("redrive_dead_letter_causes", &[service], causes);
    }
}

fn replays(look: &Look, page: &mut Page) {
    for part in &look.operations.services {
        let Some(operations) = &part.value else {
            continue;
        };
        let replays = operations
            .iter()
            .filter(|operation| operation.verb == Verb::Replay);
        let mut outcomes: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
        for item in replays.flat_map(|operation| &operation.items) {
            *outcomes.entry(item.state.word()).or_default() += 1;
        }
        for (outcome, count) in outcomes {
            let labels = [("service", part.service.as_str()), ("outcome", outcome)];
            page.set("redrive_replay_items", &labels, Some(float(count)));
        }
    }
    let unknown = look.flow.operations_unknown.map(floor);
    page.set("redrive_operations_unknown", &[], unknown);
}

fn sagas(look: &Look, page: &mut Page) {
    for part in &look.sagas.services {
        let Some(sagas) = &part.value else { continue };
        let service = [("service", part.service.as_str())];
        let count = |is_meant: &dyn Fn(&&Saga) -> bool| {
            Some(len(sagas.iter().filter(|saga| is_meant(saga)).count()))
        };
        let is_open = |saga: &&Saga| !saga.is_finished();
        let is_full =
            sagas.len() >= look.page_rows as usize && sagas.iter().all(|s| !s.is_finished());
        page.set("redrive_sagas_open", &service, count(&is_open));
        page.set("redrive_sagas_capped", &service, Some(flag(is_full)));
        let is_overdue =
            |saga: &&Saga| is_open(saga) && saga.deadline_at.is_some_and(|at| at < look.at);
        page.set("redrive_sagas_overdue", &service, count(&is_overdue));
        let needs_attention = |saga: &&Saga| saga.needs_attention();
        page.set("redrive_sagas_attention", &service, count(&needs_attention));
        let has_failed = |saga: &&Saga| saga.state == SagaState::CompensationFailed;
        page.set(
            "redrive_sagas_compensation_failed",
            &service,
            count(&has_failed),
        );
    }
}

fn verdicts(look: &Look, page: &mut Page) {
    let Some(diagnosis) = &look.diagnosis else {
        return;
    };
    for severity in [Severity::Critical, Severity::Warning, Severity::Unseen] {
        let said = diagnosis.verdicts.iter();
        let count = said.filter(|verdict| verdict.severity == severity).count();
        let labels = [("severity", severity.word())];
        page.set("redrive_verdicts", &labels, Some(len(count)));
    }
    page.set(
        "redrive_verdicts_blind",
        &[],
        Some(len(diagnosis.blind.len())),
    );
    for verdict in diagnosis.verdicts.iter().take(VERDICTS_MAX) {
        let labels = [
            ("verdict", verdict.id),
            ("severity", verdict.severity.word()),
            ("subject", verdict.subject.as_str()),
        ];
        let age = look.at.seconds_since(verdict.since).max(0.0);
        page.set("redrive_verdict_age_seconds", &labels, Some(age));
    }
}

fn findings(look: &Look, page: &mut Page) {
    let Some(scans) = &look.scans else { return };
    page.set("redrive_findings_open", &[], scans.open.map(floor));
    page.set(
        "redrive_findings_open_capped",
        &[],
        scans.open.map(is_capped),
    );
    // Newest first: the first of a rule that came to its end is its last run.
    let mut told: Vec<&str> = Vec::new();
    let is_over = |scan: &&Scan| scan.state == ScanState::Finished;
    for scan in scans.scans.iter().filter(is_over) {
        if told.contains(&scan.rule.as_str()) {
            continue;
        }
        told.push(&scan.rule);
        let labels = [("rule", scan.rule.as_str())];
        let age = scan
            .finished_at
            .map(|at| look.at.seconds_since(at).max(0.0));
        page.set("redrive_scan_age_seconds", &labels, age);
        let missing = Some(len(scan.not_compared.len()));
        page.set("redrive_scan_not_compared", &labels, missing);
    }
}
