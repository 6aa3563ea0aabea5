//! Worlds for the tests of the console: hand-made snapshots under a clock that stands still.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;

use super::event::{Effect, Event};
use super::model::Model;
use super::pane::PaneId;
use super::theme::{Depth, Theme, ThemeName};
use super::update::update;
use super::view;
use super::world::{Fresh, World};
use crate::base::backoff::Backoff;
use crate::base::clock::Timestamp;
use crate::base::secret::SecretUrl;
use crate::config::{
    Context, DeadLetterPart, DispatcherSettings, Environment, InboxPart, OutboxPart, SagaPart,
    Service, Thresholds,
};
use crate::model::audit::{AuditEntry, AuditRecord};
use crate::model::count::Count;
use crate::model::dead_letter::{
    DeadLetter, DeadLetterDetail, DeadLetterGroup, DeadLetterGroups, DeadLetterStatus, Death,
    Whereabouts,
};
use crate::model::ids::{
    ClaimToken, DeadLetterId, EventId, FindingId, OperationId, SagaId, ScanId,
};
use crate::model::inbox::InboxRow;
use crate::model::message::{FieldTable, FieldValue, Message, Payload, Properties};
use crate::model::operation::{ItemState, Operation, OperationItem, OperationState, Verb};
use crate::model::outbox::{LeaseGroup, Leases, OutboxCounts, OutboxRow, OutboxState, Sequence};
use crate::model::page::Page;
use crate::model::saga::{Saga, SagaState, SagaStep, StepState};
use crate::model::scan::{
    Difference, Fact, Finding, FindingState, NotCompared, Progress, Scan, ScanState, Suggestion,
};
use crate::model::trouble::{LockWaits, RowGroup, RowTroubles};
use crate::observe::snapshot::{
    Asked, AuditSnapshot, BrokerOverview, CauseSnapshot, ConsumerFlow, DeadLetterFacts,
    DeadLetterSnapshot, DeadLetterView, Flow, FlowSnapshot, HealthSnapshot, LeaseSnapshot,
    NodeFacts, OpenSagas, OperationSnapshot, OutboxFacts, OutboxSnapshot, PerService, QueueFacts,
    QueueSnapshot, QueueView, Reading, Safety, SagaSnapshot, ScanSnapshot, ServerHealth,
    StoreFacts, Unread, Unseen,
};
use crate::operate::plan::{
    Access, ConfirmRules, Destination, Frozen, HeaderChange, Level, Plan, PreflightLine, Target,
};

/// 2026-01-02T14:02:11Z.
pub fn now() -> Timestamp {
    Timestamp::from_micros(1_767_362_531_000_000)
}

pub fn ago(seconds: u64) -> Timestamp {
    now().minus(Duration::from_secs(seconds))
}

fn service(name: &str, consumer: Option<(&str, &str)>, has_outbox: bool) -> Service {
    Service {
        name: name.into(),
        database: SecretUrl::new("sqlite::memory:".into()),
        outbox: has_outbox.then(|| OutboxPart {
            layout: "native".into(),
            table: None,
            exchange: "shop.events".into(),
        }),
        inbox: consumer.map(|(consumer, queue)| InboxPart {
            layout: "native".into(),
            table: None,
            consumer: consumer.into(),
            queue: queue.into(),
        }),
        dead_letters: consumer.map(|(_, queue)| DeadLetterPart {
            layout: "native".into(),
            table: None,
            queues: vec![format!("{queue}.dlq")],
        }),
        sagas: has_outbox.then(|| SagaPart {
            layout: "native".into(),
            table: None,
        }),
        journal: true,
    }
}

pub fn context(environment: Environment) -> Arc<Context> {
    Arc::new(Context {
        name: "shop".into(),
        environment,
        read_only: false,
        amqp: None,
        management: None,
        services: vec![
            service("orders", None, true),
            service("inventory", Some(("inventory", "inventory.orders")), true),
            service("notification", Some(("notification", "mail.orders")), false),
        ],
        rights: Verb::ALL.to_vec(),
        never_replay: vec!["order.cancelled".into()],
        inbox_retention: Some(Duration::from_hours(720)),
        ticket_pattern: None,
        unlock: Duration::from_mins(15),
        masked: Vec::new(),
        owners: Vec::new(),
        thresholds: Thresholds::default(),
        consumer: crate::config::ConsumerLimits::default(),
        drill: crate::config::DrillSettings::default(),
        retention: crate::config::RetentionSettings::default(),
        verdicts: crate::config::VerdictSettings::default(),
        on_death: None,
        scan: crate::config::ScanSettings::default(),
        dispatcher: DispatcherSettings {
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_mins(5),
            },
            ..DispatcherSettings::default()
        },
    })
}

pub fn theme() -> Theme {
    Theme::new(ThemeName::Dark, Depth::True, false)
}

/// A screen on which nothing was read yet.
pub fn model_of(environment: Environment, access: Access, pane: PaneId, size: (u16, u16)) -> Model {
    let world = World::new(context(environment), now(), access, theme());
    Model::new(world, pane, size)
}

pub fn model(pane: PaneId, size: (u16, u16)) -> Model {
    model_of(Environment::Staging, Access::Writable, pane, size)
}

fn reading<T>(value: T) -> Reading<T> {
    Reading {
        value: Some(Arc::new(value)),
        read_at: Some(now()),
        took_us: 1_800,
        problem: None,
        generation: 1_000_000,
        is_loading: false,
    }
}

fn part<T>(service: &str, value: T) -> PerService<T> {
    PerService {
        service: service.into(),
        value: Some(value),
        unread: None,
    }
}

pub fn unread<T>(service: &str, what: &str) -> PerService<T> {
    PerService {
        service: service.into(),
        value: None,
        unread: Some(Unread {
            what: format!("{what} of {service}"),
            reason: format!("database of {service} is not reachable: connection refused"),
            is_unreachable: true,
        }),
    }
}

fn server(name: &str, latency_us: u64) -> ServerHealth {
    ServerHealth {
        name: name.into(),
        is_up: Some(true),
        latency_us: Some(latency_us),
        detail: "MariaDB 10.11.19".into(),
    }
}

pub fn health() -> Fresh {
    Fresh::Health(reading(HealthSnapshot {
        databases: vec![server("db orders", 2_100), server("db inventory", 1_900)],
        skew_us: Some(20_000),
        clocks_asked: vec![Asked::anew()],
        broker: server("amqp", 4_000),
        management: server("mgmt", 11_000),
        management_asked: Some(Asked::anew()),
        flow: Flow::Open,
    }))
}

fn counts(pending: u64, failed: u64, expired: u64) -> OutboxCounts {
    OutboxCounts {
        pending: Count::Exact(pending),
        due: Count::Exact(pending.min(9)),
        sending: Count::Exact(3),
        failed: Count::Exact(failed),
        sent: Some(Count::About(9_800_000)),
        expired_leases: Some(Count::Exact(expired)),
        oldest_due_s: (pending > 0).then_some(4.0),
        oldest_pending_s: (pending > 0).then_some(5.0),
        sent_last_minute: Some(Count::Exact(7_200)),
        database_now: now(),
    }
}

fn consumer(service: &str, queue: &str, ready: u64, consumers: u64, dead: u64) -> ConsumerFlow {
    ConsumerFlow {
        service: service.into(),
        consumer: service.into(),
        queue: queue.into(),
        ready: Some(ready),
        consumers: Some(consumers),
        inbox_per_s: Some(if consumers == 0 { 0.0 } else { 118.4 }),
        lag_s: Some(if consumers == 0 { 1_080.0 } else { 0.2 }),
        dead_open: Some(Count::Exact(dead)),
        waiting: None,
    }
}

pub fn flow() -> Fresh {
    Fresh::Flow(reading(FlowSnapshot {
        outboxes: vec![
            part("orders", counts(12, 2, 2)),
            part("inventory", counts(0, 0, 0)),
        ],
        consumers: vec![
            consumer("inventory", "inventory.orders", 12_304, 0, 41),
            consumer("notification", "mail.orders", 3, 2, 0),
        ],
        published_per_s: Some(120.0),
        dead_open: Some(Count::Exact(41)),
        deaths_per_min: Some(3.0),
        sagas_attention: Some(Count::Exact(1)),
        operations_unknown: Some(Count::Exact(0)),
        operations_asked: vec![Asked::anew()],
        findings_open: Some(Count::Exact(3)),
        findings_asked: Some(Asked::anew()),
        unread: Vec::new(),
    }))
}

pub fn flow_calm() -> Fresh {
    Fresh::Flow(reading(FlowSnapshot {
        outboxes: vec![part("orders", counts(0, 0, 0))],
        consumers: vec![consumer("inventory", "inventory.orders", 0, 2, 0)],
        published_per_s: Some(0.0),
        dead_open: Some(Count::Exact(0)),
        deaths_per_min: Some(0.0),
        sagas_attention: None,
        operations_unknown: None,
        operations_asked: Vec::new(),
        findings_open: Some(Count::Exact(0)),
        findings_asked: Some(Asked::anew()),
        unread: Vec::new(),
    }))
}

/// The same reading, made some seconds earlier.
pub fn read_ago(fresh: Fresh, seconds: u64) -> Fresh {
    match fresh {
        Fresh::Flow(reading) => Fresh::Flow(Reading {
            read_at: Some(ago(seconds)),
            ..reading
        }),
        Fresh::Causes(reading) => Fresh::Causes(Reading {
            read_at: Some(ago(seconds)),
            ..reading
        }),
        other => other,
    }
}

fn value<T: Clone>(reading: &Reading<T>) -> T {
    reading.value.as_deref().cloned().expect("read")
}

/// What explains [`flow`].
pub fn causes() -> Fresh {
    let (Fresh::Leases(leases), Fresh::Queues(queues)) = (leases(2), queues(2)) else {
        unreachable!("each is of its kind");
    };
    let (Fresh::DeadLetters(letters), Fresh::Sagas(sagas)) = (dead_letters(9), sagas(9)) else {
        unreachable!("each is of its kind");
    };
    let letters = value(&letters).services.into_iter().map(|part| PerService {
        service: part.service,
        value: part.value.map(|facts| facts.groups),
        unread: part.unread,
    });
    let failed = RowGroup {
        event_type: "order.created.v9".into(),
        error: Some("unroutable: 312 NO_ROUTE".into()),
        rows: 2,
        sample: event_id(7),
    };
    Fresh::Causes(reading(CauseSnapshot {
        leases: value(&leases).services,
        troubles: vec![part(
            "orders",
            RowTroubles {
                failed: vec![failed],
                ..RowTroubles::default()
            },
        )],
        locks: vec![part("orders", Some(LockWaits::default()))],
        letters: letters.collect(),
        sagas: value(&sagas)
            .services
            .into_iter()
            .map(|part| PerService {
                service: part.service,
                value: part.value.map(|sagas| OpenSagas {
                    sagas: sagas.into(),
                    is_cut: false,
                    asked: Asked::anew(),
                }),
                unread: part.unread,
            })
            .collect(),
        horizons: vec![part("inventory", None)],
        queues: value(&queues),
        unseen: vec![part("orders", Unseen::default())],
        landed: Vec::new(),
    }))
}

/// Nothing to explain.
pub fn causes_calm() -> Fresh {
    Fresh::Causes(reading(CauseSnapshot {
        leases: vec![part("orders", Leases::default())],
        troubles: vec![part("orders", RowTroubles::default())],
        locks: vec![part("orders", None)],
        letters: Vec::new(),
        sagas: Vec::new(),
        horizons: Vec::new(),
        queues: QueueSnapshot::default(),
        unseen: Vec::new(),
        landed: Vec::new(),
    }))
}

pub fn event_id(n: u64) -> EventId {
    EventId::new(format!("0197c3f2-7d2a-7c4e-9b1a-{n:012x}"))
}

pub fn outbox_row(n: u64, state: OutboxState) -> OutboxRow {
    OutboxRow {
        event_id: event_id(n),
        aggregate_id: Some(format!("{}", 8_800 + n).as_str().into()),
        aggregate_version: Some(1),
        event_type: "order.created".into(),
        state,
        attempts: Some(i64::from(state == OutboxState::Failed) * 8),
        next_attempt_at: Some(ago(4 + n)),
        claim_token: None,
        lease_until: None,
        last_error: (state == OutboxState::Failed)
            .then(|| "unroutable: 312 NO_ROUTE for order.created.v9".into()),
        created_at: Some(ago(5 + n)),
        sent_at: None,
    }
}

fn facts(service: &str) -> StoreFacts {
    StoreFacts {
        service: service.into(),
        product: "mariadb".into(),
        outbox_layout: Some("native".into()),
        consumer: None,
        has_dead_letters: false,
        has_sagas: true,
        has_journal: true,
        is_fenced: true,
        outbox_replay: Safety::Safe,
        release: Safety::Safe,
    }
}

pub fn outbox_rows(rows: Vec<OutboxRow>, state: OutboxState) -> Fresh {
    let n = u64::try_from(rows.len()).expect("small");
    Fresh::Outbox(reading(OutboxSnapshot {
        services: vec![part(
            "orders",
            OutboxFacts {
                facts: facts("orders"),
                counts: counts(n, 2, 2),
                page: Page { rows, next: None },
                state,
            },
        )],
    }))
}

pub fn outbox(n: u64) -> Fresh {
    outbox_rows(
        (1..=n)
            .map(|n| outbox_row(n, OutboxState::Pending))
            .collect(),
        OutboxState::Pending,
    )
}

pub fn leases(n: u32) -> Fresh {
    let group = |i: u32| LeaseGroup {
        claim_token: Some(ClaimToken::new(format!("0197c3f2-aaaa-7c4e-9b1a-{i:012x}"))),
        rows: 20,
        lease_until: Some(ago(12)),
        left_s: Some(f64::from(i) * 10.0 - 22.0),
        oldest_created_at: Some(ago(60)),
        attempts_max: Some(i64::from(i % 3)),
        sample: vec![event_id(u64::from(i)), event_id(u64::from(i) + 1)],
    };
    Fresh::Leases(reading(LeaseSnapshot {
        services: vec![part(
            "orders",
            Leases {
                groups: (1..=n).map(group).collect(),
                truncated: n > 100,
                not_answered: (n == 0).then(|| "this layout has no lease".into()),
            },
        )],
    }))
}

pub fn queues(n: u64) -> Fresh {
    let queue = |i: u64| QueueView {
        facts: QueueFacts {
            name: match i {
                1 => "inventory.orders".into(),
                2 => "inventory.orders.dlq".into(),
                3 => "注文🧾.\u{202e}dlq".into(),
                i => format!("other.{i}"),
            },
            kind: (i != 4).then(|| "quorum".into()),
            state: (i != 4).then(|| if i == 5 { "minority" } else { "running" }.into()),
            is_durable: Some(true),
            ready: (i != 4).then_some(if i == 1 { 12_304 } else { 0 }),
            unacked: (i != 4).then_some(0),
            bytes: Some(4_096),
            consumers: (i != 4).then_some(u64::from(i != 1)),
            rate_in: (i != 4).then_some(120.0),
            rate_out: (i != 4).then_some(if i == 1 { 0.0 } else { 119.5 }),
            rate_ack: Some(0.0),
            rate_redelivered: Some(0.0),
            head_age_s: None,
            members: Some(vec![
                "rabbit@mq1".into(),
                "rabbit@mq2".into(),
                "rabbit@mq3".into(),
            ]),
            members_online: Some(vec!["rabbit@mq1".into(), "rabbit@mq2".into()]),
            dead_letter_exchange: (i == 1).then(|| "shop.dead".into()),
            dead_letter_routing_key: None,
            policy: None,
            delivery_limit: Some(5),
        },
        consumer: (i == 1).then(|| "inventory".into()),
        role: match i {
            1 => "work",
            2 => "dlq",
            _ => "other",
        }
        .into(),
        lag_s: (i == 1).then_some(1_080.0),
        lag_source: (i == 1).then(|| "rate".into()),
        warnings: if i == 3 {
            vec!["dead-letters to nothing".into()]
        } else {
            Vec::new()
        },
    };
    Fresh::Queues(reading(QueueSnapshot {
        queues: (1..=n).map(queue).collect(),
        total: Some(n),
        overview: Some(BrokerOverview {
            product: "RabbitMQ 3.10.8".into(),
            nodes: Some(vec![NodeFacts {
                name: "rabbit@mq1".into(),
                is_running: Some(true),
                memory_alarm: Some(n > 100),
                disk_alarm: Some(false),
            }]),
            nodes_problem: None,
            latency_us: 11_000,
        }),
        statistics_off: false,
        unread: Vec::new(),
    }))
}

pub fn letter(n: u64) -> DeadLetter {
    let is_other = n.is_multiple_of(7);
    DeadLetter {
        dead_letter_id: DeadLetterId::new(format!("dl-{n}")),
        consumer: "inventory".into(),
        event_id: Some(event_id(n)),
        aggregate_id: Some(format!("{}", 8_811 + n).as_str().into()),
        aggregate_version: Some(3),
        event_type: Some(
            if is_other {
                "order.cancelled"
            } else {
                "order.created"
            }
            .into(),
        ),
        message_at: Some(ago(180)),
        failed_queue: Some("inventory.orders".into()),
        source_exchange: Some("shop.events".into()),
        source_routing_key: Some("order.created".into()),
        dead_letter_queue: "inventory.orders.dlq".into(),
        reason: Some("rejected".into()),
        error_class: if is_other {
            "lock wait timeout"
        } else {
            "decode: missing field `sku`"
        }
        .into(),
        error_summary: Some(if is_other {
            "lock wait timeout exceeded; try restarting transaction".into()
        } else {
            "missing field `sku` at line 1 column 58".into()
        }),
        stack_digest: None,
        delivery_count: Some(1),
        retry_count: Some(3),
        first_died_at: ago(120 + n),
        last_died_at: ago(120 + n),
        deaths: 1 + i64::from(n == 2),
        replays: i64::from(n == 2),
        last_replayed_at: None,
        producer_version: Some("4.2.0".into()),
        consumer_version: None,
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        replay_allowed: n != 3,
        owner: is_other.then(|| "mia".into()),
        status: DeadLetterStatus::Open,
        note: None,
        version: 1,
        payload_bytes: 58,
        payload_sha256: message().payload.sha256(),
        operation_id: None,
    }
}

pub fn dead_letters(n: u64) -> Fresh {
    let rows: Vec<DeadLetter> = (1..=n).map(letter).collect();
    let group = |event_type: &str, class: &str, count: u64, owner: Option<&str>| DeadLetterGroup {
        consumer: "inventory".into(),
        event_type: Some(event_type.into()),
        error_class: class.into(),
        count,
        first_died_at: ago(4_320),
        last_died_at: ago(120),
        owner: owner.map(Into::into),
        note: None,
    };
    let mut groups = Vec::new();
    if n > 0 {
        groups.push(group(
            "order.created",
            "decode: missing field `sku`",
            n - n / 7,
            None,
        ));
    }
    if n >= 7 {
        groups.push(group(
            "order.cancelled",
            "lock wait timeout",
            n / 7,
            Some("mia"),
        ));
    }
    Fresh::DeadLetters(reading(DeadLetterSnapshot {
        services: vec![part(
            "inventory",
            DeadLetterFacts {
                groups: DeadLetterGroups {
                    groups,
                    open: Some(Count::Exact(n)),
                    replaying: Some(Count::Exact(0)),
                    oldest_open_s: (n > 0).then_some(4_320.0),
                    deaths_last_minute: Some(Count::Exact(0)),
                    truncated: false,
                },
                page: Page { rows, next: None },
                queued: vec![("inventory.orders.dlq".into(), Some(n / 10))],
            },
        )],
    }))
}

pub fn message() -> Message {
    Message {
        properties: Properties {
            content_type: Some("application/json".into()),
            message_id: Some(event_id(1).to_string()),
            kind: Some("order.created".into()),
            delivery_mode: Some(2),
            expiration: Some("60000".into()),
            headers: [
                (
                    "traceparent".to_owned(),
                    FieldValue::text("00-4bf9-00f0-01"),
                ),
                ("tenant".to_owned(), FieldValue::text("eu\u{1b}[31m-1")),
                ("x-death".to_owned(), FieldValue::Array(vec![])),
            ]
            .into_iter()
            .collect::<FieldTable>(),
            ..Properties::default()
        },
        payload: Payload::new(
            br#"{"order_id":4634343214213523454,"total":1.10,"lines":[{"n":1}]}"#.to_vec(),
        ),
    }
}

pub fn dead_letter_view(n: u64, message: Message) -> Fresh {
    let letter = letter(n);
    let mut sent = outbox_row(n, OutboxState::Sent);
    sent.sent_at = Some(ago(178));
    let mut later = outbox_row(n + 1, OutboxState::Pending);
    later.aggregate_version = Some(4);
    Fresh::DeadLetter(reading(Some(DeadLetterView {
        service: "inventory".into(),
        detail: DeadLetterDetail {
            deaths: vec![Death {
                no: 1,
                died_at: letter.last_died_at,
                queue: Some("inventory.orders".into()),
                reason: Some("rejected".into()),
                error: letter.error_summary.clone(),
                operation_id: None,
            }],
            letter: letter.clone(),
            message,
        },
        whereabouts: Whereabouts::Table,
        inboxes: vec![
            part("inventory", None),
            part(
                "notification",
                Some(InboxRow {
                    consumer: "notification".into(),
                    event_id: event_id(n),
                    processed_at: ago(177),
                    payload_sha256: None,
                }),
            ),
        ],
        original: Some(("orders".into(), letter.payload_sha256)),
        sequence: Sequence {
            rows: vec![sent, later],
            truncated: false,
            not_answered: None,
        },
        siblings: Vec::new(),
        unread: Vec::new(),
    })))
}

pub fn sagas(n: i64) -> Fresh {
    let step = |no, name: &str, forward, compensation| SagaStep {
        no,
        name: name.into(),
        forward,
        compensation,
        attempts: if compensation == StepState::Failed {
            5
        } else {
            1
        },
        timeout_at: (forward == StepState::InFlight).then(|| now().plus(Duration::from_secs(20))),
        last_error: (compensation == StepState::Failed).then(|| "refund refused: 409".into()),
        forward_key: None,
        compensation_key: None,
        event_id: None,
        queries: 0,
        conflict: None,
        updated_at: ago(120),
    };
    let reserved = |back| step(1, "reserve_stock", StepState::Succeeded, back);
    let charge = |i: i64| SagaStep {
        forward_key: Some(format!("order-{i}:charge")),
        compensation_key: Some(format!("order-{i}:charge:undo")),
        event_id: Some(event_id(1)),
        ..step(2, "charge", StepState::InFlight, StepState::Pending)
    };
    let saga = |i: i64| Saga {
        saga_id: SagaId::new(format!("0197c3f2-5a6a-7c4e-9b1a-{i:012x}")),
        saga_type: "order".into(),
        business_key: format!("ord-{i}"),
        state: match i {
            2 => SagaState::CompensationFailed,
            3 => SagaState::Completed,
            4 => SagaState::Compensating,
            _ => SagaState::Running,
        },
        version: 4,
        deadline_at: Some(if i == 1 {
            ago(30)
        } else {
            now().plus(Duration::from_mins(5))
        }),
        expires_at: (i == 5).then(|| now().plus(Duration::from_hours(1))),
        due_at: match i {
            2 | 3 => None,
            5 => Some(ago(40)),
            _ => Some(now().plus(Duration::from_secs(20))),
        },
        failures: i64::from(i == 6) * 3,
        last_error: (i == 6).then(|| "saga 6: its data is no order".into()),
        leased_by: (i == 1).then(|| "saga 4711".into()),
        lease_until: (i == 1).then(|| now().plus(Duration::from_secs(20))),
        attention: match i {
            1 => Some("the outcome of charge is not known, asked 3 times: no answer".into()),
            2 => Some("charge could not be undone in 5 tries: refund refused: 409".into()),
            _ => None,
        },
        owner: (i == 2).then(|| "mia".into()),
        evidence: (i == 4).then(|| "bank receipt 4711".into()),
        updated_at: ago(u64::try_from(i * 40).expect("positive")),
        created_at: ago(900),
        steps: match i {
            1 => vec![
                reserved(StepState::Pending),
                SagaStep {
                    forward: StepState::Unknown,
                    queries: 3,
                    last_error: Some("no answer".into()),
                    ..charge(i)
                },
                step(3, "confirm", StepState::Pending, StepState::Skipped),
            ],
            2 => vec![
                reserved(StepState::Succeeded),
                step(2, "charge", StepState::Succeeded, StepState::Failed),
                step(3, "ship", StepState::Failed, StepState::Skipped),
            ],
            3 => vec![reserved(StepState::Skipped)],
            4 => vec![
                reserved(StepState::Pending),
                SagaStep {
                    forward: StepState::Succeeded,
                    compensation: StepState::InFlight,
                    conflict: Some("succeeded after the saga had turned round".into()),
                    ..charge(i)
                },
                step(3, "confirm", StepState::Skipped, StepState::Skipped),
            ],
            _ => vec![reserved(StepState::Pending), charge(i)],
        },
    };
    Fresh::Sagas(reading(SagaSnapshot {
        services: vec![part("orders", (1..=n).map(saga).collect())],
    }))
}

pub fn operation(n: i64, state: ItemState) -> Operation {
    Operation {
        operation_id: OperationId::new(format!("0197c3f2-0be0-7c4e-9b1a-{n:012x}")),
        verb: Verb::Replay,
        state: match state {
            ItemState::Unknown => OperationState::Unknown,
            state if state.is_final() => OperationState::Finished,
            _ => OperationState::Running,
        },
        actor: "mia@desk".into(),
        reason: "sku made optional in 4.2.1".into(),
        ticket: None,
        plan_digest: "9f2c".repeat(16),
        plan: r#"{"verb":"replay","headline":"order.created  key 8812  v3"}"#.into(),
        created_at: ago(60 + u64::try_from(n).expect("positive")),
        finished_at: state.is_final().then(|| ago(58)),
        items: vec![OperationItem {
            no: 1,
            event_id: Some(event_id(1)),
            consumer: Some("inventory".into()),
            dead_letter_id: Some(DeadLetterId::new("dl-1")),
            state,
            token: ClaimToken::new("t"),
            lease_until: None,
            published_at: Some(ago(59)),
            updated_at: ago(58),
            evidence: Some(match state {
                ItemState::Consumed => "inbox row of inventory at 14:01:12".into(),
                ItemState::DiedAgain => "death 2 at 14:01:12: missing field `sku`".into(),
                _ => "confirmed by the broker".into(),
            }),
            deaths_before: 1,
            new_event_id: None,
        }],
    }
}

pub fn operations(n: i64) -> Fresh {
    let states = [
        ItemState::Published,
        ItemState::Consumed,
        ItemState::DiedAgain,
        ItemState::Unknown,
        ItemState::Unroutable,
    ];
    Fresh::Operations(reading(OperationSnapshot {
        services: vec![part(
            "inventory",
            states
                .into_iter()
                .cycle()
                .zip(1..=n)
                .map(|(state, n)| operation(n, state))
                .collect(),
        )],
    }))
}

/// A run of a rule.
pub fn run(rule: &str, state: ScanState, found: u64) -> Scan {
    Scan {
        scan_id: ScanId::new("0197c3f2-5ca0-7c4e-9b1a-000000000001"),
        rule: rule.into(),
        state,
        actor: "mia@desk".into(),
        started_at: ago(310),
        finished_at: (state != ScanState::Running).then(|| ago(300)),
        lease_until: None,
        rows_read: 3_600,
        not_compared: if rule == "other-content" {
            vec![NotCompared {
                what: "inbox of payment".into(),
                reason: "database of payment is not reachable: connection refused".into(),
                is_unreachable: true,
            }]
        } else {
            vec![]
        },
        progress: Progress {
            parts: 3,
            parts_done: if state == ScanState::Running { 1 } else { 3 },
            part: None,
            cursor: None,
            examined: 1_200,
            in_flight: 4,
            explained: [(
                "waits in queue inventory.orders (oldest 18m)".to_owned(),
                40,
            )]
            .into(),
            found,
            cleared: 0,
            notes: vec!["looked back 7d from the start".into()],
        },
    }
}

fn found(n: u64) -> Finding {
    let id = event_id(n);
    Finding {
        finding_id: FindingId::new(format!("0197c3f2-f1d0-7c4e-9b1a-{n:012x}")),
        rule: "sent-not-consumed".into(),
        scan_id: ScanId::new("0197c3f2-5ca0-7c4e-9b1a-000000000001"),
        state: FindingState::Open,
        first_seen_at: ago(3_600 + n),
        last_seen_at: ago(300),
        owner: n.is_multiple_of(3).then(|| "mia".into()),
        note: (n == 3).then(|| "asked the warehouse".into()),
        difference: Difference {
            class: "sent_not_consumed".into(),
            subject: format!("inventory {id}"),
            service: "orders".into(),
            summary:
                "order.created was sent, and inventory has neither an inbox row nor a dead letter"
                    .into(),
            event_id: Some(id.clone()),
            consumer: Some("inventory".into()),
            since: Some(ago(4_000)),
            at: Some(ago(4_010)),
            facts: vec![
                Fact::new("type", "order.created"),
                Fact {
                    name: "inbox".into(),
                    value: None,
                },
            ],
            suggestion: Some(Suggestion {
                verb: "replay".into(),
                target: id.to_string(),
                service: "orders".into(),
                command: format!("redrive replay {id} --consumer inventory"),
            }),
        },
    }
}

pub fn scans(n: i64) -> Fresh {
    let n = u64::try_from(n).unwrap_or(0);
    let scans = if n == 0 {
        vec![]
    } else {
        vec![
            run("sent-not-consumed", ScanState::Finished, n),
            run("version-gaps", ScanState::Finished, 0),
            run("other-content", ScanState::Finished, 0),
            run("inbox-without-outbox", ScanState::Stopped, 0),
        ]
    };
    Fresh::Scans(reading(ScanSnapshot {
        scans,
        findings: (1..=n).map(found).collect(),
        open: Some(Count::Exact(n)),
        unread: vec![],
    }))
}

pub fn audit(n: i64) -> Fresh {
    let entry = |seq: i64| AuditEntry {
        seq,
        at: ago(u64::try_from((n - seq) * 20 + 4).expect("positive")),
        record: AuditRecord {
            actor: "mia@desk".into(),
            action: "replay".into(),
            phase: match seq % 3 {
                0 => "refused",
                1 => "intent",
                _ => "outcome",
            }
            .into(),
            operation_id: Some(OperationId::new("0197c3f2-0be0-7c4e-9b1a-000000000001")),
            subject: event_id(1).to_string(),
            reason: "sku made optional in 4.2.1".into(),
            detail: r#"{"headers":{"remove":["x-death"]}}"#.into(),
        },
        previous_hash: "0".repeat(64),
        hash: "9f2c".repeat(16),
    };
    Fresh::Audit(reading(AuditSnapshot {
        services: vec![part("inventory", (1..=n).rev().map(entry).collect())],
    }))
}

pub fn target() -> Target {
    Target::DeadLetter {
        service: "inventory".into(),
        dead_letter_id: DeadLetterId::new("dl-1"),
    }
}

/// The plan of a replay that nothing forbids.
pub fn plan() -> Plan {
    let pass = |check: &str, text: &str| PreflightLine {
        check: check.into(),
        level: Level::Pass,
        text: text.into(),
    };
    Plan {
        operation_id: OperationId::new("0197c3f2-0be0-7c4e-9b1a-000000000001"),
        verb: Verb::Replay,
        context: "shop".into(),
        environment: Environment::Staging,
        service: "inventory".into(),
        made_at: now(),
        headline: "order.created  key 8812  v3  died 2m ago at inventory  deaths 1  replays 0".into(),
        event_id: Some(event_id(1)),
        consumer: Some("inventory".into()),
        target: Some(target()),
        destination: Some(Destination {
            exchange: String::new(),
            routing_key: "inventory.orders".into(),
            consumers: Some(2),
            queues: vec!["inventory.orders".into()],
            text: "queue inventory.orders (2 consumers); not through shop.events: notification already has it".into(),
        }),
        payload: Some("412 B  sha256 9f2c…  equals the outbox row".into()),
        headers_kept: 6,
        header_changes: vec![
            HeaderChange {
                action: "remove".into(),
                field: "x-death".into(),
                original: Some("[…]".into()),
                becomes: None,
            },
            HeaderChange {
                action: "clear".into(),
                field: "expiration".into(),
                original: Some("60000".into()),
                becomes: None,
            },
        ],
        preflight: vec![
            pass("replay_allowed", "replay allowed"),
            pass("inbox_absent", "inventory inbox has no row: first effect"),
            pass("inbox_retention", "2m old, inbox keeps 30d"),
            PreflightLine {
                check: "sequence_later".into(),
                level: Level::Warning,
                text: "v4 of this key waits behind it".into(),
            },
        ],
        diff: None,
        command_line: format!(
            "redrive replay {} --consumer inventory --context shop --reason … --apply",
            event_id(1)
        ),
        confirm: ConfirmRules::default(),
        digest: "9f2c".repeat(16),
        frozen: Frozen::Release {
            claim_token: ClaimToken::new("t"),
        },
    }
}

/// Sends an event and lets some time pass, as between two keys of a person.
pub fn send(model: &mut Model, event: Event) -> Vec<Effect> {
    model.world.now = model.world.now.plus(Duration::from_millis(400));
    update(model, event)
}

pub fn key(model: &mut Model, c: char) -> Vec<Effect> {
    send(model, key_event(KeyCode::Char(c)))
}

pub fn press(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    send(model, key_event(code))
}

pub fn key_event(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

pub fn typed(model: &mut Model, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| key(model, c)).collect()
}

/// Sends a reading without letting time pass.
pub fn fresh(model: &mut Model, fresh: Fresh) {
    update(model, Event::Fresh(vec![fresh]));
}

pub fn draw(model: &Model) -> Buffer {
    let mut buf = Buffer::empty(model.screen());
    view::draw(model, &mut buf);
    buf
}

/// What is on screen, as text; wide clusters keep their columns.
pub fn shown(model: &Model) -> String {
    text_of(&draw(model))
}

pub fn text_of(buf: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buf.area.height {
        let row: String = (0..buf.area.width)
            .filter_map(|x| buf.cell((x, y)).map(ratatui::buffer::Cell::symbol))
            .collect();
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}
