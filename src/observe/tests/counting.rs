//! What a look counts: in how many statements, within which limit, and by which question.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::fakes::{Mode, World};
use crate::observe::Observer;

#[tokio::test(start_paused = true)]
async fn a_database_is_counted_in_one_statement_and_part_by_part_when_that_is_refused() {
    let world = World::new();
    let observer = Observer::new(world.ports.clone());
    let alone = || {
        let calls = &world.inventory.calls;
        [
            "outbox_counts",
            "inbox_recent",
            "waiting_summary",
            "dead_letter_counts",
        ]
        .map(|call| calls.of(call))
    };
    let look = || async {
        tokio::time::advance(world.ports.context.thresholds.refresh).await;
        observer.flow().await
    };
    let whole = look().await;
    assert_eq!((world.inventory.calls.of("numbers"), alone()), (1, [0; 4]));
    world.inventory.is_picky.store(true, Ordering::Relaxed);
    assert_eq!(look().await, whole, "nothing is missing");
    assert_eq!(alone(), [1; 4]);
    assert_eq!(
        world.orders.calls.of("outbox_counts"),
        0,
        "the other one answers as before"
    );

    world.inventory.set(Mode::Down);
    let before = alone();
    let flow = look().await;
    let unread = |part: &str| flow.unread.iter().any(|unread| unread.what == part);
    for part in ["outbox", "inbox", "waiting events", "dead letters"] {
        assert!(
            unread(&format!("{part} of inventory")),
            "{part}: {:?}",
            flow.unread
        );
    }
    world.inventory.is_picky.store(false, Ordering::Relaxed);
    let asked = alone();
    look().await;
    assert_eq!(
        alone(),
        asked,
        "a server that is away is not asked for each part"
    );
    assert!(
        before
            .iter()
            .zip(asked)
            .all(|(before, asked)| asked <= before + 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_database_that_hangs_costs_a_look_one_limit_whatever_is_counted() {
    let world = World::new();
    world.inventory.set(Mode::Hung);
    let observer = Observer::new(world.ports.clone());
    let limit = world.ports.context.thresholds.statement_timeout + Duration::from_millis(500);
    for _ in 0..8 {
        tokio::time::advance(world.ports.context.thresholds.refresh).await;
        let began = Instant::now();
        let flow = observer.flow().await;
        assert!(began.elapsed() <= limit, "{:?}", began.elapsed());
        let unread = |part: &str| flow.unread.iter().any(|unread| unread.what == part);
        for part in ["outbox", "inbox", "waiting events", "dead letters"] {
            assert!(unread(&format!("{part} of inventory")), "{part}");
        }
        assert!(flow.outboxes[0].value.is_some(), "the other one is shown");
    }
    world.inventory.set(Mode::Up);
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(observer.flow().await.unread, []);
}

#[tokio::test(start_paused = true)]
async fn who_looks_a_few_times_and_decides_has_answers_of_each_look() {
    let world = World::new();
    let observer = Observer::new(world.ports.clone());
    let slow = || {
        let calls = &world.orders.calls;
        [
            "sagas_open",
            "unfinished_operations",
            "open_findings",
            "probe",
        ]
        .map(|call| calls.of(call))
    };
    let look = || async {
        tokio::time::advance(world.ports.context.thresholds.refresh).await;
        let (health, flow, causes) =
            tokio::join!(observer.health(), observer.flow(), observer.causes());
        let sagas = causes.sagas.into_iter().find_map(|part| part.value);
        (
            flow.operations_asked,
            flow.findings_asked,
            health.clocks_asked,
            sagas.map(|sagas| sagas.asked),
        )
    };
    let first = look().await;
    assert!(!first.0.is_empty() && !first.2.is_empty() && first.3.is_some());
    assert_eq!(slow(), [1, 1, 1, 1]);
    assert_eq!(look().await, first, "the same answers, and they say so");
    assert_eq!(slow(), [1, 1, 1, 1]);
    observer.ask_anew();
    let anew = look().await;
    assert_eq!(slow(), [2, 2, 2, 2]);
    assert!(anew.0 != first.0 && anew.1 != first.1 && anew.2 != first.2 && anew.3 != first.3);
}
