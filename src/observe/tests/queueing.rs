//! Queues: what is told, what is asked instead, what is warned of.

use rstest::rstest;

use super::fakes::{Mode, World};
use crate::base::clock::Timestamp;
use crate::broker::{Binding, BrokerError, QueueFacts};
use crate::model::filter::{Filter, FilterKind};
use crate::observe::Observer;
use crate::observe::snapshot::{QueueSnapshot, QueueView};

/// A healthy work queue as the management API tells it.
fn work() -> QueueFacts {
    QueueFacts {
        name: "inventory.orders".to_owned(),
        kind: Some("quorum".to_owned()),
        state: Some("running".to_owned()),
        ready: Some(0),
        consumers: Some(1),
        dead_letter_exchange: Some("shop.dlx".to_owned()),
        ..QueueFacts::default()
    }
}

fn binding() -> Binding {
    Binding {
        source: "shop.dlx".to_owned(),
        destination: "inventory.orders.dlq".to_owned(),
        is_to_queue: true,
        routing_key: "#".to_owned(),
    }
}

async fn look(world: &World, facts: Vec<QueueFacts>) -> QueueSnapshot {
    *world.broker.facts.lock().unwrap() = facts;
    Observer::new(world.ports.clone()).queues(1).await
}

fn queue<'a>(snapshot: &'a QueueSnapshot, name: &str) -> &'a QueueView {
    let found = snapshot
        .queues
        .iter()
        .find(|queue| queue.facts.name == name);
    found.unwrap_or_else(|| panic!("{name} in {snapshot:?}"))
}

#[tokio::test(start_paused = true)]
async fn m_10_without_management_the_configured_queues_are_asked_themselves() {
    for mode in [Mode::Down, Mode::Hung] {
        let world = World::new();
        world.broker.queue_depth("inventory.orders", 12_304, 0);
        *world.broker.management.lock().unwrap() = Ok(mode);
        let snapshot = look(&world, Vec::new()).await;
        let own = queue(&snapshot, "inventory.orders");
        assert_eq!(
            (own.facts.ready, own.facts.consumers),
            (Some(12_304), Some(0))
        );
        assert_eq!(own.facts.unacked, None, "not told is not zero");
        assert_eq!(
            (own.role.as_str(), own.consumer.as_deref()),
            ("work", Some("inventory"))
        );
        assert_eq!(own.warnings, ["no consumer, 12304 ready"]);
        assert_eq!(own.lag_s, None, "nothing tells how far it lags");
        assert_eq!(queue(&snapshot, "inventory.orders.dlq").role, "dlq");
        assert!(!snapshot.unread.is_empty() && snapshot.unread.iter().all(|u| u.is_unreachable));
    }
}

#[tokio::test]
async fn m_03_with_statistics_off_depth_is_asked_and_nothing_is_judged() {
    let world = World::new();
    world.broker.queue_depth("inventory.orders", 7, 1);
    *world.broker.statistics_off.lock().unwrap() = true;
    let bare = |name: &str| QueueFacts {
        name: name.to_owned(),
        kind: Some("quorum".to_owned()),
        state: Some("running".to_owned()),
        ..QueueFacts::default()
    };
    let snapshot = look(&world, vec![bare("another"), bare("inventory.orders")]).await;
    assert!(snapshot.statistics_off);
    let own = queue(&snapshot, "inventory.orders");
    assert_eq!(own.facts.ready, Some(7));
    assert_eq!(
        own.warnings,
        [] as [&str; 0],
        "no verdict from missing data"
    );
    assert_eq!(
        snapshot.queues[0].facts.name, "inventory.orders",
        "configured queues come first"
    );
    assert_eq!(queue(&snapshot, "another").facts.ready, None);
}

#[tokio::test]
async fn m_01_m_02_a_queue_without_numbers_is_shown_without_numbers() {
    let world = World::new();
    let fresh = QueueFacts {
        name: "fresh.q".to_owned(),
        kind: Some("classic".to_owned()),
        ..QueueFacts::default()
    };
    let snapshot = look(&world, vec![fresh, work()]).await;
    let fresh = queue(&snapshot, "fresh.q");
    assert_eq!(
        (fresh.facts.ready, fresh.facts.consumers, fresh.lag_s),
        (None, None, None)
    );
    assert_eq!(fresh.warnings, [] as [&str; 0]);
    let filter = Filter::parse_for(FilterKind::Queues, "ready<1").expect("a filter");
    assert!(
        !filter.matches(fresh, Timestamp::from_micros(0)),
        "unknown is not zero"
    );
}

#[tokio::test]
async fn a_configured_queue_that_is_missing_is_still_a_row() {
    let world = World::new();
    world.broker.depths.lock().unwrap().clear();
    let snapshot = look(&world, Vec::new()).await;
    assert_eq!(
        queue(&snapshot, "inventory.orders").warnings,
        ["does not exist on this broker"]
    );
}

#[tokio::test]
async fn m_06_the_reason_of_a_refusal_is_kept_once() {
    let world = World::new();
    let denied = BrokerError::Denied("401: wrong password".to_owned());
    *world.broker.management.lock().unwrap() = Err(denied);
    let snapshot = look(&world, Vec::new()).await;
    let [unread] = snapshot.unread.as_slice() else {
        panic!("one reason: {:?}", snapshot.unread);
    };
    assert!(unread.reason.contains("wrong password"));
}

#[rstest]
#[case(|_: &mut QueueFacts| {}, "")]
#[case(|f: &mut QueueFacts| f.state = Some("minority".into()), "state minority")]
#[case(|f: &mut QueueFacts| f.state = Some("some_new_state".into()), "state some_new_state")]
#[case(|f: &mut QueueFacts| f.state = None, "")]
#[case(|f: &mut QueueFacts| { f.consumers = Some(0); f.ready = Some(5); }, "no consumer, 5 ready")]
#[case(|f: &mut QueueFacts| f.dead_letter_exchange = None, "dead-letters to nothing: a rejected message is lost")]
#[case(
    |f: &mut QueueFacts| { f.dead_letter_exchange = None; f.delivery_limit = Some(20); },
    "dead-letters to nothing: a rejected message, or one delivered 20 times, is lost"
)]
#[case(
    |f: &mut QueueFacts| f.dead_letter_exchange = Some("gone".into()),
    "dead-letters to nothing: exchange gone does not exist"
)]
#[case(
    |f: &mut QueueFacts| f.dead_letter_exchange = Some("empty".into()),
    "dead-letters to nothing: no queue is bound to exchange empty"
)]
#[case(
    |f: &mut QueueFacts| {
        f.members = Some(vec!["a".into(), "b".into(), "c".into()]);
        f.members_online = Some(vec!["a".into()]);
    },
    "1 of 3 members online, b, c missing: no majority, the queue is stopped"
)]
#[case(
    |f: &mut QueueFacts| { f.rate_redelivered = Some(900.0); f.rate_out = Some(1000.0); },
    "900/s of 1000/s are redeliveries: a requeue loop"
)]
#[tokio::test]
async fn m_09_what_is_wrong_is_said_and_only_that(
    #[case] change: fn(&mut QueueFacts),
    #[case] warning: &str,
) {
    let world = World::new();
    world.broker.bindings.lock().unwrap().extend([
        ("shop.dlx".to_owned(), vec![binding()]),
        ("empty".to_owned(), Vec::new()),
    ]);
    let mut facts = work();
    change(&mut facts);
    let snapshot = look(&world, vec![facts]).await;
    assert_eq!(
        queue(&snapshot, "inventory.orders").warnings.join("; "),
        warning
    );
}

#[rstest]
#[case(Some(0), None, None, Some((0.0, "empty")))]
#[case(Some(10), Some(1080.0), Some(5.0), Some((1080.0, "head")))]
#[case(Some(10), Some(-1.0), None, Some((0.0, "head")))]
#[case(Some(10), None, Some(5.0), Some((2.0, "rate")))]
#[case(Some(10), None, Some(0.0), None)]
#[case(Some(10), None, None, None)]
#[case(None, None, Some(5.0), None)]
fn a_lag_is_estimated_only_from_what_is_known(
    #[case] ready: Option<u64>,
    #[case] head_age_s: Option<f64>,
    #[case] rate_ack: Option<f64>,
    #[case] expected: Option<(f64, &str)>,
) {
    let facts = QueueFacts {
        ready,
        rate_ack,
        head_age_s,
        ..QueueFacts::default()
    };
    assert_eq!(crate::observe::queue_view::estimate_lag(&facts), expected);
}

#[tokio::test]
async fn later_pages_do_not_repeat_the_configured_queues() {
    let world = World::new();
    let other = QueueFacts {
        name: "zzz".to_owned(),
        ..QueueFacts::default()
    };
    *world.broker.facts.lock().unwrap() = vec![work(), other];
    let snapshot = Observer::new(world.ports.clone()).queues(2).await;
    let names: Vec<&str> = snapshot
        .queues
        .iter()
        .map(|q| q.facts.name.as_str())
        .collect();
    assert_eq!(names, ["zzz"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_queue_is_emptied_by_time_and_not_by_a_consumer() {
    let world = World::new();
    let retry = |consumers| QueueFacts {
        name: "inventory.orders.retry.5000".to_owned(),
        ready: Some(12),
        consumers: Some(consumers),
        ..work()
    };
    let other = QueueFacts {
        name: "somebody.else.retry.5000".to_owned(),
        ..retry(0)
    };
    let snapshot = look(&world, vec![work(), retry(0), other.clone()]).await;
    let waiting = queue(&snapshot, &retry(0).name);
    assert_eq!(waiting.role, "retry");
    assert_eq!(waiting.warnings, Vec::<String>::new());
    assert_eq!(queue(&snapshot, &other.name).role, "other");
    let snapshot = look(&world, vec![work(), retry(1)]).await;
    let told = &queue(&snapshot, &retry(1).name).warnings;
    assert_eq!(
        told,
        &["has a consumer: messages are taken before their time"]
    );
}
