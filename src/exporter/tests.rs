//! Looks as pages: what is known is there, what is not is absent, and the files that are loaded into a
//! monitoring system name nothing else.

use std::collections::BTreeSet;

use super::*;
use crate::diagnose::{About, Blind, Evidence, Severity, Verdict};
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetterGroup, DeadLetterGroups};
use crate::model::ids::{ClaimToken, ConsumerName, OperationId, SagaId, ScanId};
use crate::model::operation::{ItemState, Operation, OperationItem, OperationState, Verb};
use crate::model::outbox::OutboxCounts;
use crate::model::saga::{Saga, SagaState};
use crate::model::scan::{NotCompared, Progress, Scan, ScanState};
use crate::model::waiting::WaitingSummary;
use crate::observe::snapshot::{
    BrokerOverview, ConsumerFlow, Flow, FlowSnapshot, HealthSnapshot, NodeFacts, OperationSnapshot,
    PerService, QueueFacts, QueueSnapshot, QueueView, SagaSnapshot, ScanSnapshot, ServerHealth,
    Unread,
};

const NOW: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

fn server(name: &str, is_up: Option<bool>) -> ServerHealth {
    ServerHealth {
        name: name.to_owned(),
        is_up,
        latency_us: is_up.filter(|up| *up).map(|_| 2_000),
        detail: "mysql://ops:S3CRET-42@db".to_owned(),
    }
}

fn known<T>(service: &str, value: T) -> PerService<T> {
    PerService {
        service: service.to_owned(),
        value: Some(value),
        unread: None,
    }
}

fn unread(what: &str) -> Unread {
    Unread {
        what: what.to_owned(),
        reason: "database of orders is not reachable".to_owned(),
        is_unreachable: true,
    }
}

fn missing<T>(service: &str, what: &str) -> PerService<T> {
    PerService {
        service: service.to_owned(),
        value: None,
        unread: Some(unread(what)),
    }
}

fn counts() -> OutboxCounts {
    OutboxCounts {
        pending: Count::AtLeast(10_000),
        due: Count::Exact(12),
        sending: Count::Exact(3),
        failed: Count::Exact(0),
        sent: Some(Count::About(9_000_000)),
        expired_leases: Some(Count::Exact(2)),
        oldest_due_s: Some(4.0),
        oldest_pending_s: Some(5.0),
        sent_last_minute: Some(Count::Exact(120)),
        database_now: NOW,
    }
}

fn queue(name: &str, role: &str) -> QueueView {
    let members = |n: usize| Some((0..n).map(|i| format!("rabbit@{i}")).collect());
    QueueView {
        facts: QueueFacts {
            name: name.to_owned(),
            ready: Some(12_304),
            unacked: Some(7),
            bytes: Some(4_096),
            consumers: Some(0),
            rate_in: Some(120.0),
            rate_out: Some(0.0),
            rate_ack: Some(0.0),
            rate_redelivered: Some(0.0),
            head_age_s: Some(1_080.0),
            members: members(3),
            members_online: members(2),
            ..QueueFacts::default()
        },
        consumer: None,
        role: role.to_owned(),
        lag_s: Some(1_080.0),
        lag_source: Some("head".to_owned()),
        warnings: vec!["no consumer".to_owned()],
    }
}

fn saga() -> Saga {
    Saga {
        saga_id: SagaId::new("s-1"),
        saga_type: "order".to_owned(),
        business_key: "8812".to_owned(),
        state: SagaState::CompensationFailed,
        version: 1,
        deadline_at: Some(NOW.minus(Duration::from_mins(1))),
        expires_at: None,
        due_at: None,
        failures: 0,
        last_error: None,
        leased_by: None,
        lease_until: None,
        attention: None,
        owner: None,
        evidence: None,
        updated_at: NOW,
        created_at: NOW,
        steps: Vec::new(),
    }
}

fn replay() -> Operation {
    Operation {
        operation_id: OperationId::new("op-1"),
        verb: Verb::Replay,
        state: OperationState::Finished,
        actor: "mia@desk".to_owned(),
        reason: "because".to_owned(),
        ticket: None,
        plan_digest: String::new(),
        plan: "{}".to_owned(),
        created_at: NOW,
        finished_at: Some(NOW),
        items: vec![OperationItem {
            no: 1,
            event_id: None,
            consumer: None,
            dead_letter_id: None,
            state: ItemState::Consumed,
            token: ClaimToken::new("t"),
            lease_until: None,
            published_at: None,
            updated_at: NOW,
            evidence: None,
            deaths_before: 1,
            new_event_id: None,
        }],
    }
}

/// Everything is known.
fn whole() -> Look {
    let node = NodeFacts {
        name: "rabbit@0".to_owned(),
        is_running: Some(true),
        memory_alarm: Some(false),
        disk_alarm: Some(true),
    };
    let group = DeadLetterGroup {
        consumer: ConsumerName::new("inventory"),
        event_type: Some("order.created".to_owned()),
        error_class: "decode".to_owned(),
        count: 38,
        first_died_at: NOW,
        last_died_at: NOW,
        owner: None,
        note: None,
    };
    Look {
        at: NOW,
        took_s: 0.2,
        page_rows: 100,
        health: HealthSnapshot {
            databases: vec![server("db orders", Some(true))],
            skew_us: Some(-3_000_000),
            clocks_asked: Vec::new(),
            broker: server("amqp", Some(true)),
            management: server("mgmt", None),
            management_asked: None,
            flow: Flow::Open,
        },
        flow: FlowSnapshot {
            outboxes: vec![known("orders", counts())],
            consumers: vec![ConsumerFlow {
                service: "inventory".to_owned(),
                consumer: "inventory".to_owned(),
                queue: "inventory.orders".to_owned(),
                ready: Some(12_304),
                consumers: Some(0),
                inbox_per_s: Some(0.0),
                lag_s: Some(1_080.0),
                dead_open: Some(Count::Exact(41)),
                waiting: Some(WaitingSummary {
                    count: Count::Exact(3),
                    oldest_s: Some(240.0),
                    untried_s: None,
                    next_deadline_s: None,
                }),
            }],
            operations_unknown: Some(Count::Exact(1)),
            unread: vec![unread("facts of inventory.orders")],
            ..FlowSnapshot::default()
        },
        queues: QueueSnapshot {
            queues: vec![queue("inventory.orders", "work"), queue("others", "other")],
            total: Some(2),
            overview: Some(BrokerOverview {
                nodes: Some(vec![node]),
                ..BrokerOverview::default()
            }),
            ..QueueSnapshot::default()
        },
        letters: vec![known(
            "inventory",
            DeadLetterGroups {
                groups: vec![group],
                open: Some(Count::Exact(41)),
                replaying: Some(Count::Exact(0)),
                oldest_open_s: Some(4_320.0),
                deaths_last_minute: Some(Count::Exact(2)),
                truncated: false,
            },
        )],
        sagas: SagaSnapshot {
            services: vec![known("orders", vec![saga()])],
        },
        operations: OperationSnapshot {
            services: vec![known("inventory", vec![replay()])],
        },
        scans: Some(ScanSnapshot {
            scans: vec![
                scan(ScanState::Running, 1),
                scan(ScanState::Finished, 90),
                scan(ScanState::Finished, 900),
            ],
            open: Some(Count::AtLeast(200)),
            ..ScanSnapshot::default()
        }),
        causes_unread: Vec::new(),
        diagnosis: Some(Diagnosis {
            verdicts: vec![verdict()],
            blind: vec![Blind {
                about: About::Management,
                reason: "not permitted".to_owned(),
            }],
        }),
    }
}

fn scan(state: ScanState, minutes: u64) -> Scan {
    Scan {
        scan_id: ScanId::new(format!("scan-{minutes}")),
        rule: "sent-not-consumed".to_owned(),
        state,
        actor: "mia@desk".to_owned(),
        started_at: NOW.minus(Duration::from_mins(minutes + 1)),
        finished_at: Some(NOW.minus(Duration::from_mins(minutes))),
        lease_until: None,
        rows_read: 1,
        not_compared: vec![NotCompared {
            what: "inbox of inventory".to_owned(),
            reason: "not reachable".to_owned(),
            is_unreachable: true,
        }],
        progress: Progress::default(),
    }
}

fn verdict() -> Verdict {
    Verdict {
        id: "consumer_gone",
        severity: Severity::Critical,
        subject: "inventory.orders".to_owned(),
        sentence: "inventory has stopped consuming".to_owned(),
        numbers: serde_json::Map::new(),
        window: None,
        recovers: "restart the consumer",
        evidence: Evidence::of("queues"),
        next: "redrive queues".to_owned(),
        since: NOW.minus(Duration::from_mins(3)),
        unseen: None,
        explains: Vec::new(),
    }
}

/// Nothing answers.
fn nothing() -> Look {
    let down = |name: &str| server(name, Some(false));
    Look {
        health: HealthSnapshot {
            databases: vec![down("db orders")],
            skew_us: None,
            clocks_asked: Vec::new(),
            broker: down("amqp"),
            management: down("mgmt"),
            management_asked: None,
            flow: Flow::Unknown,
        },
        flow: FlowSnapshot {
            outboxes: vec![missing("orders", "outbox of orders")],
            unread: vec![unread("outbox of orders")],
            ..FlowSnapshot::default()
        },
        queues: QueueSnapshot {
            unread: vec![unread("queue list")],
            ..QueueSnapshot::default()
        },
        letters: vec![missing("inventory", "dead letters of inventory")],
        sagas: SagaSnapshot {
            services: vec![missing("orders", "sagas of orders")],
        },
        operations: OperationSnapshot {
            services: vec![missing("inventory", "operations of inventory")],
        },
        scans: Some(ScanSnapshot {
            unread: vec![unread("scans of orders")],
            ..ScanSnapshot::default()
        }),
        causes_unread: vec![unread("locks of orders")],
        diagnosis: None,
        ..whole()
    }
}

/// Names of the metrics that have a value on a page.
fn names(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect()
}

#[test]
fn a_whole_look_has_every_metric_and_only_those_of_the_table() {
    let page = rendered(&whole(), NOW.plus(Duration::from_secs(7)));
    let table: BTreeSet<&str> = METRICS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&page), table);
    assert!(page.ends_with("# EOF\n"), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn m_09_what_could_not_be_read_is_absent_and_not_zero() {
    let page = rendered(&nothing(), NOW);
    let expected = [
        "redrive_look_age_seconds",
        "redrive_look_duration_seconds",
        "redrive_unread",
        "redrive_up",
    ];
    assert_eq!(names(&page), expected.into_iter().collect());
    for line in [
        "redrive_up{server=\"db orders\"} 0",
        "redrive_up{server=\"amqp\"} 0",
        "redrive_unread{what=\"outbox of orders\"} 1",
        "redrive_unread{what=\"scans of orders\"} 1",
        "redrive_unread{what=\"locks of orders\"} 1",
        "redrive_unread{what=\"dead letters of inventory\"} 1",
    ] {
        assert!(
            page.lines().any(|other| other.starts_with(line)),
            "{line}\n{page}"
        );
    }
}

#[test]
fn a_verdict_has_its_age_and_a_rule_its_last_whole_run() {
    let page = rendered(&whole(), NOW);
    for line in [
        "redrive_verdicts{severity=\"critical\"} 1",
        "redrive_verdicts{severity=\"warning\"} 0",
        "redrive_verdicts_blind 1",
        "redrive_verdict_age_seconds{verdict=\"consumer_gone\",severity=\"critical\",subject=\"inventory.orders\"} 180",
        "redrive_findings_open 200",
        "redrive_findings_open_capped 1",
        "redrive_scan_age_seconds{rule=\"sent-not-consumed\"} 5400",
        "redrive_scan_not_compared{rule=\"sent-not-consumed\"} 1",
    ] {
        let is_told = page.lines().any(|other| other.starts_with(line));
        assert!(is_told, "{line}\n{page}");
    }
    // Nothing was said yet is not that all is well.
    assert!(!rendered(&nothing(), NOW).contains("redrive_verdicts"));
}

#[test]
fn a_capped_count_is_said_to_be_one() {
    let page = rendered(&whole(), NOW);
    let has = |line: &str| page.lines().any(|other| other.starts_with(line));
    assert!(has(
        "redrive_outbox_rows{service=\"orders\",state=\"pending\"} 10000"
    ));
    assert!(has(
        "redrive_outbox_rows_capped{service=\"orders\",state=\"pending\"} 1"
    ));
    assert!(has(
        "redrive_outbox_rows_capped{service=\"orders\",state=\"due\"} 0"
    ));
}

#[test]
fn pages_have_no_secrets_and_no_queues_of_others() {
    for look in [whole(), nothing()] {
        let page = rendered(&look, NOW);
        assert!(!page.contains("S3CRET-42"), "{page}");
        assert!(!page.contains("queue=\"others\""), "{page}");
    }
}

#[test]
fn labels_are_bounded() {
    let mut look = nothing();
    look.flow.unread = (0..500).map(|n| unread(&format!("part {n}"))).collect();
    look.flow.unread.push(unread(&"x".repeat(10_000)));
    let page = rendered(&look, NOW);
    let told = page
        .lines()
        .filter(|line| line.starts_with("redrive_unread{"));
    assert_eq!(told.count(), 50);
    assert!(page.lines().all(|line| line.len() < 400));
}

fn read(name: &str) -> String {
    let path = format!("{}/docs/monitoring/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("readable")
}

/// Every name that looks like one of ours.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices("redrive_")
        .filter(|(at, _)| !text[..*at].ends_with(is_part))
        .map(|(at, _)| text[at..].chars().take_while(|c| is_part(*c)).collect())
        .collect()
}

#[test]
fn rules_and_dashboard_name_only_what_the_exporter_serves() {
    let page = rendered(&whole(), NOW);
    let served = names(&page);
    for file in ["redrive.rules.yml", "redrive.dashboard.json"] {
        let text = read(file);
        let unknown: Vec<String> = named(&text)
            .into_iter()
            .filter(|name| !served.contains(name.as_str()))
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "{file}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("redrive.dashboard.json")).expect("JSON");
    assert!(
        dashboard["panels"]
            .as_array()
            .is_some_and(|all| all.len() >= 10)
    );
}

#[test]
fn every_metric_is_described() {
    let text = read("metrics.md");
    let missing: Vec<&str> = METRICS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
