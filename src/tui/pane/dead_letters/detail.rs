//! The tabs of one dead letter: why, payload, headers, deaths, inbox, sequence.

use super::{Tab, ViewAs};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::model::dead_letter::{DeadLetter, DeadLetterStatus, Whereabouts};
use crate::model::outbox::OutboxState;
use crate::observe::snapshot::DeadLetterView;
use crate::tui::pane::browser::{Facts, short_id};
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span, line};
use crate::tui::world::World;

/// The text of a tab.
pub fn lines(view: &DeadLetterView, tab: Tab, view_as: ViewAs, world: &World) -> Vec<Line> {
    let mut out = Vec::new();
    for unread in &view.unread {
        out.push(vec![
            Span::new("✖ ", Role::Bad),
            Span::new(format!("{}: {}", unread.what, unread.reason), Role::Bad),
        ]);
    }
    out.extend(match tab {
        Tab::Why => why(view, world),
        Tab::Payload => super::payload::payload(view, view_as, world),
        Tab::Headers => headers(view),
        Tab::Deaths => deaths(view, world),
        Tab::Inbox => inbox(view, world),
        Tab::Sequence => sequence(view, world),
    });
    out
}

/// What the list knows, while the rest is being read.
pub fn waiting(letter: &DeadLetter, world: &World) -> Vec<Line> {
    let problems = world.problems("dead_letter");
    let mut facts = Facts::new(10);
    facts.line(headline(letter, world));
    for problem in &problems {
        facts.add_as("problem", format!("✖ {problem}"), Role::Bad);
    }
    if problems.is_empty() {
        facts.add_as("", "reading …", Role::Dim);
    }
    facts.take()
}

fn stamp(at: Timestamp, world: &World) -> String {
    format!("{} ({})", at.to_clock(), world.age(at))
}

/// `inventory rejected it 1 time, last 14:00:09 (2m)`.
fn headline(letter: &DeadLetter, world: &World) -> Line {
    let verb = match letter.reason.as_deref() {
        Some("rejected") => "rejected it",
        Some("expired") => "let it expire",
        Some("delivery_limit") => "failed on it up to the delivery limit",
        _ => "failed on it",
    };
    vec![
        Span::new(letter.consumer.to_string(), Role::Strong),
        Span::new(
            format!(
                " {verb} {} time{}, last {}",
                letter.deaths,
                if letter.deaths == 1 { "" } else { "s" },
                stamp(letter.last_died_at, world)
            ),
            Role::Text,
        ),
    ]
}

fn why(view: &DeadLetterView, world: &World) -> Vec<Line> {
    let letter = &view.detail.letter;
    let mut facts = Facts::new(11);
    facts.line(headline(letter, world));
    if let Some(error) = &letter.error_summary {
        facts.add_as("error", error.as_str(), Role::Bad);
    }
    facts
        .add("class", letter.error_class.as_str())
        .add_or(
            "event id",
            letter.event_id.as_ref().map(ToString::to_string),
        )
        .add_or(
            "event",
            letter.event_type.as_ref().map(|event_type| {
                format!(
                    "{event_type}  key {}  v{}",
                    letter.aggregate_id.as_ref().map_or("?", |key| key.as_str()),
                    letter
                        .aggregate_version
                        .map_or("?".into(), |version| version.to_string())
                )
            }),
        )
        .add_or(
            "failed in",
            letter.failed_queue.as_ref().map(|queue| {
                format!(
                    "queue {queue}, reason {}",
                    letter.reason.as_deref().unwrap_or("?")
                )
            }),
        );
    let (place, role) = match view.whereabouts {
        Whereabouts::Table => ("in the table only: collected", Role::Text),
        Whereabouts::Queue => ("in the DLQ only: not collected yet", Role::Warn),
        Whereabouts::Both => ("in the table and still in the DLQ", Role::Warn),
        Whereabouts::Differ => ("in both, with different bytes", Role::Bad),
        Whereabouts::Unknown => ("in the table; the DLQ was not looked at", Role::Dim),
    };
    facts.add_as(
        "where",
        format!("{place} ({})", letter.dead_letter_queue),
        role,
    );
    let (replay, replay_role) = super::view::replay_word(letter, world);
    facts.add_as("replay", replay, replay_role);
    if letter.replays > 0 {
        let after = letter.last_replayed_at.map(|at| {
            let lived = letter.last_died_at.seconds_since(at);
            // A broker tells a death's whole second only.
            if lived > -1.0 {
                format!(
                    ", last death {} after the replay",
                    human::age(lived.max(0.0))
                )
            } else {
                format!(", last {} ago", world.age(at))
            }
        });
        facts.add_as(
            "replayed",
            format!(
                "{} {}{}",
                letter.replays,
                if letter.replays == 1 { "time" } else { "times" },
                after.unwrap_or_default()
            ),
            Role::Warn,
        );
    }
    match &view.original {
        Some((service, digest)) if *digest == letter.payload_sha256 => {
            facts.add_as(
                "original",
                format!("outbox of {service}, same payload"),
                Role::Good,
            );
        }
        Some((service, _)) => {
            facts.add_as(
                "original",
                format!("✖ outbox of {service} has the same id with OTHER content"),
                Role::Bad,
            );
        }
        None => {
            facts.add_as("original", "not found in an outbox", Role::Unknown);
        }
    }
    facts
        .add_some(
            "published",
            letter.source_exchange.as_ref().map(|exchange| {
                format!(
                    "exchange {}, routing key {}",
                    if exchange.is_empty() {
                        "(default)"
                    } else {
                        exchange
                    },
                    letter.source_routing_key.as_deref().unwrap_or("?")
                )
            }),
        )
        .add_some("deliveries", letter.delivery_count.map(|n| n.to_string()))
        .add_some("retries", letter.retry_count.map(|n| n.to_string()))
        .add_some(
            "versions",
            match (&letter.producer_version, &letter.consumer_version) {
                (None, None) => None,
                (producer, consumer) => Some(format!(
                    "producer {}, consumer {}",
                    producer.as_deref().unwrap_or("?"),
                    consumer.as_deref().unwrap_or("?")
                )),
            },
        )
        .add_some("trace", letter.trace_id.clone())
        .add_some(
            "stack",
            letter.stack_digest.as_ref().map(|d| format!("sha256 {d}")),
        )
        .add_some("owner", letter.owner.clone())
        .add_some("note", letter.note.clone())
        .add_some(
            "operation",
            letter.operation_id.as_ref().map(ToString::to_string),
        );
    facts.take()
}

/// `1767323045 (2026-01-02 03:04:05Z)`: AMQP counts whole seconds. What is no time of ours, such as
/// milliseconds, stays a number.
fn readable(seconds: u64) -> String {
    let at = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000_000))
        .and_then(|micros| Timestamp::from_micros(micros).to_datetime())
        .map(|at| at.format("%Y-%m-%d %H:%M:%SZ").to_string())
        .filter(|text| text.starts_with(|c: char| c.is_ascii_digit()) && text.len() == 20);
    at.map_or_else(|| seconds.to_string(), |at| format!("{seconds} ({at})"))
}

fn headers(view: &DeadLetterView) -> Vec<Line> {
    let properties = &view.detail.message.properties;
    let mut facts = Facts::new(24);
    facts.line(line(
        "properties and headers as the message lay in the DLQ, with their AMQP types",
        Role::Dim,
    ));
    let text = |value: &Option<String>| value.clone();
    for (name, value) in [
        ("content_type", text(&properties.content_type)),
        ("content_encoding", text(&properties.content_encoding)),
        (
            "delivery_mode",
            properties.delivery_mode.map(|n| n.to_string()),
        ),
        ("priority", properties.priority.map(|n| n.to_string())),
        ("correlation_id", text(&properties.correlation_id)),
        ("reply_to", text(&properties.reply_to)),
        ("expiration", text(&properties.expiration)),
        ("message_id", text(&properties.message_id)),
        ("timestamp", properties.timestamp.map(readable)),
        ("type", text(&properties.kind)),
        ("user_id", text(&properties.user_id)),
        ("app_id", text(&properties.app_id)),
        ("cluster_id", text(&properties.cluster_id)),
    ] {
        facts.add_some(name, value);
    }
    facts.line(line(
        format!("headers ({})", properties.headers.len()),
        Role::Accent,
    ));
    for (name, value) in properties.headers.iter() {
        let is_broker_owned = name == "x-death"
            || name.starts_with("x-first-death-")
            || name.starts_with("x-last-death-")
            || name == "x-delivery-count"
            || name == "x-acquired-count";
        facts.add_as(
            name,
            value.display(),
            if is_broker_owned {
                Role::Dim
            } else {
                Role::Text
            },
        );
    }
    facts.take()
}

fn deaths(view: &DeadLetterView, world: &World) -> Vec<Line> {
    let all = &view.detail.deaths;
    let mut out = vec![vec![
        Span::new(
            match view.detail.letter.deaths {
                1 => "1 death recorded".to_owned(),
                n => format!("{n} deaths recorded"),
            },
            Role::Text,
        ),
        Span::new(
            if i64::try_from(all.len()).is_ok_and(|n| n < view.detail.letter.deaths) {
                format!(", the newest {} shown", all.len())
            } else {
                String::new()
            },
            Role::Dim,
        ),
    ]];
    for death in all {
        out.push(vec![
            Span::new(format!("{:>3}  ", death.no), Role::Dim),
            Span::new(
                format!(
                    "{}  {:>6} ago  ",
                    death.died_at.to_clock(),
                    world.age(death.died_at)
                ),
                Role::Text,
            ),
            Span::new(
                format!(
                    "{} in {}",
                    death.reason.as_deref().unwrap_or("?"),
                    death.queue.as_deref().unwrap_or("?")
                ),
                Role::Strong,
            ),
            Span::new(
                death.operation_id.as_ref().map_or_else(String::new, |id| {
                    format!("  after replay {}", short_id(id.as_str()))
                }),
                Role::Warn,
            ),
        ]);
        if let Some(error) = &death.error {
            out.push(vec![
                Span::new("     ", Role::Dim),
                Span::new(error.clone(), Role::Removed),
            ]);
        }
    }
    out
}

fn inbox(view: &DeadLetterView, world: &World) -> Vec<Line> {
    let failed = &view.detail.letter.consumer;
    let mut out = vec![line(
        "who has processed this event, by their own inbox rows",
        Role::Dim,
    )];
    for part in &view.inboxes {
        let consumer = world
            .context
            .service(&part.service)
            .and_then(|service| service.inbox.as_ref())
            .map_or_else(|| part.service.clone(), |inbox| inbox.consumer.to_string());
        let is_failed = consumer == failed.as_str();
        let (text, role) = match (&part.value, &part.unread) {
            (_, Some(unread)) => (format!("? {}", unread.reason), Role::Unknown),
            (Some(Some(row)), None) => {
                let same = match &row.payload_sha256 {
                    Some(digest) if *digest == view.detail.letter.payload_sha256 => "",
                    Some(_) => ", with OTHER content",
                    None => "",
                };
                (
                    format!(
                        "✓ processed {}{same}{}",
                        stamp(row.processed_at, world),
                        if is_failed {
                            ": a replay would do nothing; D with resolve closes it"
                        } else {
                            ""
                        }
                    ),
                    if same.is_empty() && !is_failed {
                        Role::Good
                    } else {
                        Role::Warn
                    },
                )
            }
            (Some(None), None) => (
                if is_failed {
                    "– no row: a replay will be its first effect".to_owned()
                } else {
                    "– no row".to_owned()
                },
                if is_failed { Role::Strong } else { Role::Text },
            ),
            (None, None) => ("?".to_owned(), Role::Unknown),
        };
        out.push(vec![
            Span::new(format!("{consumer:<18} "), Role::Strong),
            Span::new(text, role),
        ]);
    }
    if view.inboxes.is_empty() {
        out.push(line("? no inbox is configured", Role::Unknown));
    }
    out
}

/// `dead`, or `dead, replayed` for a letter that waits for nobody any more.
fn fate(word: &str, status: DeadLetterStatus) -> (String, Role) {
    match status {
        DeadLetterStatus::Open => (word.to_owned(), Role::Bad),
        closed => (format!("{word}, {}", closed.word()), Role::Dim),
    }
}

fn sequence(view: &DeadLetterView, world: &World) -> Vec<Line> {
    let letter = &view.detail.letter;
    let key = letter.aggregate_id.as_ref().map_or("?", |key| key.as_str());
    let mut out = vec![line(
        format!("events of key {key}, in the order of their versions"),
        Role::Dim,
    )];
    if let Some(why) = &view.sequence.not_answered {
        out.push(line(format!("? {why}"), Role::Unknown));
    }
    for row in &view.sequence.rows {
        let is_this = letter.event_id.as_ref() == Some(&row.event_id);
        // Dead at several consumers: the letter that still needs somebody is told.
        let is_row = |sibling: &&DeadLetter| sibling.event_id.as_ref() == Some(&row.event_id);
        let dead = view
            .siblings
            .iter()
            .filter(is_row)
            .min_by_key(|sibling| sibling.status != DeadLetterStatus::Open);
        let (state, role) = match row.state {
            _ if is_this => fate("this dead letter", letter.status),
            _ if dead.is_some_and(|dead| dead.status == DeadLetterStatus::Open) => {
                ("dead too".to_owned(), Role::Bad)
            }
            OutboxState::Failed => ("failed at dispatch".to_owned(), Role::Bad),
            OutboxState::Sent => (
                format!(
                    "sent {}{}",
                    row.sent_at.map_or("?".into(), |at| stamp(at, world)),
                    dead.map_or_else(String::new, |dead| format!(", {}", dead.status.word()))
                ),
                Role::Text,
            ),
            state => (state.word().to_owned(), Role::Warn),
        };
        out.push(vec![
            Span::new(if is_this { "▸ " } else { "  " }, Role::Accent),
            Span::new(
                format!(
                    "v{:<4}",
                    row.aggregate_version
                        .map_or("?".into(), |version| version.to_string())
                ),
                Role::Strong,
            ),
            Span::new(format!("{:<22} ", row.event_type), Role::Text),
            Span::new(format!("{}  ", short_id(row.event_id.as_str())), Role::Dim),
            Span::new(state, role),
        ]);
    }
    if view.sequence.truncated {
        out.push(line("… more exist than were read", Role::Warn));
    }
    for sibling in &view.siblings {
        let is_listed = sibling
            .event_id
            .as_ref()
            .is_some_and(|id| view.sequence.rows.iter().any(|row| row.event_id == *id));
        if !is_listed && sibling.dead_letter_id != letter.dead_letter_id {
            let (fate, role) = fate("dead", sibling.status);
            out.push(vec![
                Span::new(format!("  {fate}  "), role),
                Span::new(
                    format!(
                        "{} at {}  {}",
                        sibling.event_type.as_deref().unwrap_or("?"),
                        sibling.consumer,
                        sibling
                            .event_id
                            .as_ref()
                            .map_or("no event id".into(), |id| short_id(id.as_str()))
                    ),
                    Role::Text,
                ),
            ]);
        }
    }
    out
}
