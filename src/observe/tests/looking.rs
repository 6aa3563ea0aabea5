//! One look at a context, with parts of it dead, slow or wrong.

use std::time::Duration;

use tokio::time::Instant;

use super::fakes::{Mode, NOW, World};
use crate::broker::BrokerError;
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail, DeadLetterStatus, Whereabouts};
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId};
use crate::model::message::{FieldTable, Message, Payload};
use crate::model::outbox::{OutboxEvent, OutboxState};
use crate::model::trouble::SentEvent;
use crate::observe::{CheckLevel, DeadLettersView, Observer, OutboxView};

pub(super) fn outbox_view() -> OutboxView {
    OutboxView {
        service: None,
        state: OutboxState::Pending,
        event_type: None,
        event: None,
        payload: None,
        after: None,
        limit: 100,
    }
}

pub(super) fn dead_letters_view() -> DeadLettersView {
    DeadLettersView {
        service: None,
        status: DeadLetterStatus::Open,
        consumer: None,
        event_type: None,
        error_class: None,
        payload: None,
        after: None,
        limit: 100,
    }
}

fn letter() -> DeadLetterDetail {
    let payload = Payload::new(br#"{"order":1}"#.as_slice());
    DeadLetterDetail {
        letter: DeadLetter {
            dead_letter_id: DeadLetterId::new("d1"),
            consumer: ConsumerName::new("inventory"),
            event_id: Some(EventId::new("0197c3f2-7d2a")),
            aggregate_id: Some(AggregateId::new("8812")),
            aggregate_version: None,
            event_type: None,
            message_at: None,
            failed_queue: None,
            source_exchange: None,
            source_routing_key: None,
            dead_letter_queue: "inventory.orders.dlq".to_owned(),
            reason: None,
            error_class: "decode".to_owned(),
            error_summary: None,
            stack_digest: None,
            delivery_count: None,
            retry_count: None,
            first_died_at: NOW,
            last_died_at: NOW,
            deaths: 1,
            replays: 0,
            last_replayed_at: None,
            producer_version: None,
            consumer_version: None,
            trace_id: None,
            replay_allowed: true,
            owner: None,
            status: DeadLetterStatus::Open,
            note: None,
            version: 1,
            payload_bytes: 11,
            payload_sha256: payload.sha256(),
            operation_id: None,
        },
        message: Message {
            payload,
            ..Message::default()
        },
        deaths: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_service_is_named_and_the_others_are_shown() {
    let world = World::new();
    world.orders.set(Mode::Down);
    let observer = Observer::new(world.ports.clone());

    let outbox = observer.outbox(&outbox_view()).await;
    let [orders, inventory] = outbox.services.as_slice() else {
        panic!("two outboxes: {outbox:?}");
    };
    let unread = orders.unread.as_ref().expect("orders is down");
    assert!(orders.value.is_none() && unread.is_unreachable);
    assert!(unread.what.ends_with("of orders"), "{unread:?}");
    assert!(unread.reason.contains("connection refused"), "{unread:?}");
    let facts = inventory.value.as_ref().expect("inventory is up");
    assert_eq!(
        facts.counts.failed,
        Count::AtLeast(10_000),
        "a capped count stays capped"
    );
    assert_eq!(facts.page.rows.len(), 1);

    let flow = observer.flow().await;
    assert_eq!(flow.published_per_s, None, "one outbox cannot tell");
    assert_eq!(
        flow.dead_open,
        Some(Count::Exact(41)),
        "orders has no dead letters"
    );
    assert_eq!(
        flow.sagas_attention, None,
        "the sagas are in the dead database"
    );
    assert_eq!(flow.deaths_per_min, Some(2.0));
    assert!(
        flow.unread
            .iter()
            .all(|unread| unread.what.ends_with("of orders"))
    );

    let health = observer.health().await;
    assert_eq!(health.databases[0].is_up, Some(false));
    assert_eq!(health.databases[1].is_up, Some(true));
    assert_eq!(health.skew_us, Some(20_000));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_others_is_probed_at_a_slower_pace_and_at_once_after_a_failure() {
    let world = World::new();
    let observer = Observer::new(world.ports.clone());
    let refresh = observer.ports().context.thresholds.refresh;
    let look = async || {
        tokio::time::advance(refresh).await;
        observer.flow().await;
        observer.health().await
    };
    for _ in 0..5 {
        assert_eq!(look().await.databases[0].is_up, Some(true));
    }
    assert_eq!(world.orders.calls.of("probe"), 1, "others answered");
    look().await;
    assert_eq!(world.orders.calls.of("probe"), 2, "the kept one is old");

    world.orders.set(Mode::Down);
    let health = look().await;
    assert_eq!(health.databases[0].is_up, Some(false), "not the kept one");
    assert_eq!(health.databases[1].is_up, Some(true));

    // Nothing else is read of it: each look probes.
    world.inventory.set(Mode::Up);
    let before = world.inventory.calls.of("probe");
    for _ in 0..4 {
        tokio::time::advance(refresh * 2).await;
        observer.health().await;
    }
    assert_eq!(world.inventory.calls.of("probe"), before + 4);
}

#[tokio::test(start_paused = true)]
async fn a_hung_service_costs_the_others_its_limit_and_no_more() {
    let world = World::new();
    world.orders.set(Mode::Hung);
    let observer = Observer::new(world.ports.clone());
    let started = Instant::now();
    let leases = observer.leases().await;
    let limit = world.ports.context.thresholds.statement_timeout + Duration::from_millis(500);
    assert!(started.elapsed() <= limit, "{:?}", started.elapsed());
    assert!(
        leases.services[0]
            .unread
            .as_ref()
            .is_some_and(|u| u.is_unreachable)
    );
    assert!(leases.services[1].value.is_some());

    // The statement that hung is left alone for a while; a second look costs nothing.
    let started = Instant::now();
    let again = observer.leases().await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    let reason = &again.services[0]
        .unread
        .as_ref()
        .expect("still unread")
        .reason;
    assert!(reason.contains("next try within"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn q_18_a_dead_database_is_tried_less_and_less_and_recovers_alone() {
    let world = World::new();
    world.orders.set(Mode::Down);
    let observer = Observer::new(world.ports.clone());
    let second = Duration::from_secs(1);
    let mut last_try = Instant::now();
    let mut shortest = Duration::MAX;
    let started = Instant::now();
    while started.elapsed() < Duration::from_mins(10) {
        let before = world.orders.calls.total();
        tokio::join!(observer.leases(), observer.sagas());
        let tries = world.orders.calls.total() - before;
        if tries > 0 && before > 0 {
            assert!(tries == 1, "only one read tries: {tries}");
            shortest = shortest.min(last_try.elapsed());
            last_try = Instant::now();
        }
        tokio::time::advance(second / 4).await;
    }
    let tries = world.orders.calls.total();
    assert!(shortest >= second, "tried again after {shortest:?}");
    assert!((18..=50).contains(&tries), "{tries} tries in 10 minutes");

    world.orders.set(Mode::Up);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(observer.leases().await.services[0].value.is_some());
    assert!(observer.sagas().await.services[0].value.is_some());
}

#[tokio::test(start_paused = true)]
async fn m_10_a_hung_management_api_shows_as_down_and_the_rest_as_it_is() {
    let world = World::new();
    *world.broker.management.lock().unwrap() = Ok(Mode::Hung);
    let observer = Observer::new(world.ports.clone());
    let health = observer.health().await;
    assert_eq!(health.broker.is_up, Some(true));
    assert_eq!(health.management.is_up, Some(false));
    assert!(
        health.management.detail.contains("did not answer"),
        "{:?}",
        health.management
    );
    let flow = observer.flow().await;
    assert_eq!(
        flow.consumers[0].ready,
        Some(0),
        "depth comes from the message port"
    );
}

#[tokio::test(start_paused = true)]
async fn m_06_a_refused_account_is_told_in_the_brokers_words() {
    let world = World::new();
    let words = "401: user needs tag monitoring";
    *world.broker.management.lock().unwrap() = Err(BrokerError::Denied(words.to_owned()));
    let observer = Observer::new(world.ports.clone());
    let health = observer.health().await;
    assert_eq!(health.broker.is_up, Some(true));
    assert_eq!(health.management.detail, words);
    // No tight retry: the next looks do not ask again.
    let asked = world.broker.calls.of("management");
    observer.health().await;
    assert_eq!(world.broker.calls.of("management"), asked);
}

#[tokio::test]
async fn a_dead_letter_is_shown_with_all_that_is_known_about_it() {
    let world = World::new();
    let detail = letter();
    let digest = detail.letter.payload_sha256.clone();
    *world.orders.original.lock().unwrap() = Some(OutboxEvent {
        row: super::fakes::row(OutboxState::Sent),
        schema_version: None,
        payload: detail.message.payload.clone(),
        headers: FieldTable::default(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    });
    *world.inventory.letter.lock().unwrap() = Some(detail);
    let observer = Observer::new(world.ports.clone());
    let id = DeadLetterId::new("d1");
    let view = observer.dead_letter("inventory", &id).await;
    let view = view.expect("readable").expect("there");
    assert_eq!(view.original, Some(("orders".to_owned(), digest)));
    assert_eq!(view.whereabouts, Whereabouts::Table);
    assert!(
        matches!(view.inboxes.as_slice(), [inbox] if inbox.value.as_ref().is_some_and(Option::is_some))
    );
    assert!(view.siblings.is_empty(), "it is not its own sibling");
    assert_eq!(view.unread, []);

    assert_eq!(observer.dead_letter("orders", &id).await, Ok(None));
    assert!(observer.dead_letter("billing", &id).await.is_err());
}

#[tokio::test]
async fn b_10_nobody_peeks_to_find_out_where_a_letter_lies() {
    let world = World::new();
    world.broker.queue_depth("inventory.orders.dlq", 3, 0);
    *world.inventory.letter.lock().unwrap() = Some(letter());
    let observer = Observer::new(world.ports.clone());
    let view = observer
        .dead_letter("inventory", &DeadLetterId::new("d1"))
        .await;
    let view = view.expect("readable").expect("there");
    assert_eq!(view.whereabouts, Whereabouts::Unknown);
    assert_eq!(view.unread, [], "not looking is a decision, not a failure");

    *world.broker.amqp.lock().unwrap() = Mode::Down;
    let view = observer
        .dead_letter("inventory", &DeadLetterId::new("d1"))
        .await;
    let view = view.expect("readable").expect("there");
    assert_eq!(view.whereabouts, Whereabouts::Unknown);
    assert!(matches!(view.unread.as_slice(), [depth] if depth.is_unreachable));
}

#[tokio::test]
async fn a_letter_without_ids_says_so_instead_of_showing_nothing() {
    let world = World::new();
    let mut detail = letter();
    detail.letter.event_id = None;
    detail.letter.aggregate_id = None;
    *world.inventory.letter.lock().unwrap() = Some(detail);
    let observer = Observer::new(world.ports.clone());
    let view = observer
        .dead_letter("inventory", &DeadLetterId::new("d1"))
        .await;
    let view = view.expect("readable").expect("there");
    assert!(
        view.inboxes[0]
            .unread
            .as_ref()
            .is_some_and(|u| u.reason.contains("no event id"))
    );
    assert!(view.sequence.not_answered.is_some());
    assert_eq!(view.unread, [], "nothing was there to be read");
    assert_eq!(view.original, None);
}

#[tokio::test]
async fn an_unknown_depth_of_a_dlq_is_not_an_empty_dlq() {
    let world = World::new();
    *world.broker.amqp.lock().unwrap() = Mode::Down;
    let observer = Observer::new(world.ports.clone());
    let snapshot = observer.dead_letters(&dead_letters_view()).await;
    let facts = snapshot.services[0]
        .value
        .as_ref()
        .expect("the table is there");
    assert_eq!(facts.queued, [("inventory.orders.dlq".to_owned(), None)]);
}

#[tokio::test]
async fn check_names_every_port_queue_and_exchange() {
    let world = World::new();
    let observer = Observer::new(world.ports.clone());
    let lines = observer.check_broker().await;
    let finding = |subject: &str| {
        let line = lines.iter().find(|line| line.subject == subject);
        line.map(|line| (line.level, line.finding.as_str()))
    };
    assert_eq!(
        finding("amqp").map(|(level, _)| level),
        Some(CheckLevel::Ok)
    );
    assert!(finding("amqp").is_some_and(|(_, text)| text.contains("vhost / reached as ops")));
    assert_eq!(
        finding("exchange shop.events").map(|(l, _)| l),
        Some(CheckLevel::Problem)
    );
    assert_eq!(
        finding("queue inventory.orders").map(|(l, _)| l),
        Some(CheckLevel::Ok)
    );
    assert_eq!(
        finding("feeding of inventory.orders.dlq").map(|(l, _)| l),
        Some(CheckLevel::Warning)
    );
    *world.broker.amqp.lock().unwrap() = Mode::Down;
    let lines = observer.check_broker().await;
    assert!(
        lines
            .iter()
            .any(|line| line.subject == "amqp" && line.level == CheckLevel::Unreachable)
    );
}

#[test]
fn what_a_backlog_hides_is_not_shown_as_nothing() {
    let counts = |due| crate::model::outbox::OutboxCounts {
        oldest_due_s: due,
        sent_last_minute: Some(Count::Exact(0)),
        ..super::fakes::counts()
    };
    assert_eq!(counts(None).published_last_minute(), Some(Count::Exact(0)));
    assert_eq!(
        counts(Some(4.0)).published_last_minute(),
        Some(Count::Exact(0))
    );
    assert_eq!(counts(Some(61.0)).published_last_minute(), None);
}

#[tokio::test]
async fn an_event_that_a_consumer_has_is_not_asked_for_again() {
    let world = World::new();
    let sent = |id: &str| SentEvent {
        event_id: EventId::new(id),
        event_type: "order.created".to_owned(),
        exchange: Some(String::new()),
        routing_key: Some("inventory.orders".to_owned()),
        age_s: 3_000.0,
    };
    *world.orders.sent.lock().unwrap() = vec![sent("e-1"), sent("e-2")];
    *world.inventory.seen.lock().unwrap() = vec![EventId::new("e-1")];
    let observer = Observer::new(world.ports.clone());
    let missing = async || {
        let causes = observer.causes().await;
        let parts = causes.unseen.into_iter().filter_map(|part| part.value);
        let missing = parts.flat_map(|part| part.missing);
        missing
            .map(|missing| missing.event_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(missing().await, ["e-2"]);
    // Asked for again as long as somebody lacks one; what was found stays found.
    *world.inventory.seen.lock().unwrap() = vec![EventId::new("e-2")];
    assert_eq!(missing().await, [""; 0]);
    assert_eq!(world.inventory.calls.of("seen_by"), 2);
    assert_eq!(missing().await, [""; 0]);
    assert_eq!(world.inventory.calls.of("seen_by"), 2);
    // Another event is asked for.
    world.orders.sent.lock().unwrap().push(sent("e-3"));
    assert_eq!(missing().await, ["e-3"]);
}
