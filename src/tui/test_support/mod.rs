//! Worlds for the tests of the console: hand-made snapshots under a clock that stands still.

mod flow;
mod letters;
mod outbox;
mod plan;
mod records;

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
use crate::model::operation::Verb;
use crate::observe::snapshot::{PerService, Reading, ServerHealth, Unread};
use crate::operate::plan::Access;

pub use flow::{causes, causes_calm, flow, flow_calm, health};
pub use letters::{dead_letter_view, dead_letters, letter, message};
pub use outbox::{event_id, leases, outbox, outbox_row, outbox_rows, queues};
pub use plan::plan;
pub use records::{audit, operation, operations, run, sagas, scans};

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
