//! Feeds over time: pace, pause, late answers, hung servers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::fakes::{Mode, World};
use super::looking::outbox_view;
use crate::base::tasks::Tasks;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::outbox::OutboxState;
use crate::observe::snapshot::Reading;
use crate::observe::{DeadLettersView, FEEDS, Feeds, Observer, Views};

pub(super) fn views(active: &[&'static str]) -> Views {
    Views {
        generation: 1,
        is_paused: false,
        active: active.to_vec(),
        outbox: outbox_view(),
        dead_letters: DeadLettersView {
            service: None,
            status: DeadLetterStatus::Open,
            consumer: None,
            event_type: None,
            error_class: None,
            payload: None,
            after: None,
            limit: 100,
        },
        dead_letter: None,
        queues_page: 1,
    }
}

struct Console {
    world: World,
    feeds: Feeds,
    tasks: Tasks,
}

impl Console {
    fn open(active: &[&'static str]) -> Self {
        Self::over(World::new(), active)
    }

    fn over(world: World, active: &[&'static str]) -> Self {
        let tasks = Tasks::new();
        let observer = Arc::new(Observer::new(world.ports.clone()));
        let feeds = Feeds::start(observer, views(active), &tasks);
        Self {
            world,
            feeds,
            tasks,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Views)) {
        self.feeds.views.send_modify(|views| {
            views.generation += 1;
            change(views);
        });
    }
}

/// Waits until a reading is as wanted; the paused clock runs on by itself meanwhile.
async fn until<T>(feed: &watch::Receiver<Reading<T>>, wanted: impl Fn(&Reading<T>) -> bool) {
    let mut feed = feed.clone();
    tokio::time::timeout(Duration::from_mins(5), feed.wait_for(|r| wanted(r)))
        .await
        .expect("it comes")
        .expect("the feed lives");
}

/// Runs the paused clock on by `by`: whenever every task rests, it jumps to the next timer.
async fn let_pass(by: Duration) {
    let never = tokio::time::timeout(by, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

#[tokio::test(start_paused = true)]
async fn only_what_is_looked_at_is_read() {
    let console = Console::open(&[]);
    until(&console.feeds.flow, |reading| reading.value.is_some()).await;
    until(&console.feeds.health, |reading| reading.value.is_some()).await;
    let_pass(Duration::from_secs(10)).await;
    let calls = &console.world.inventory.calls;
    assert_eq!((calls.of("outbox_page"), calls.of("audit_page")), (0, 0));
    // Causes are looked for every five seconds, whoever looks.
    for part in ["leases", "row_troubles", "lock_waits", "sent_recently"] {
        assert_eq!(calls.of(part), 2, "{part}");
    }
    assert!(
        (9..=11).contains(&calls.of("numbers")),
        "{}",
        calls.of("numbers")
    );
    assert!(
        (2..=3).contains(&calls.of("probe")),
        "its other reads tell that it is up: {}",
        calls.of("probe")
    );
    let asked = &console.world.orders.calls;
    let slow = [asked.of("sagas_open"), asked.of("unfinished_operations")];
    assert!(
        slow.iter().all(|calls| (2..=3).contains(calls)),
        "what waits for a person is asked every five refreshes: {slow:?}"
    );

    console.change(|views| views.active = FEEDS.to_vec());
    until(&console.feeds.outbox, |reading| reading.value.is_some()).await;
    until(&console.feeds.queues, |reading| reading.value.is_some()).await;
    until(&console.feeds.audit, |reading| reading.value.is_some()).await;
    until(&console.feeds.leases, |reading| reading.value.is_some()).await;
    until(&console.feeds.sagas, |reading| reading.value.is_some()).await;
    until(&console.feeds.operations, |reading| reading.value.is_some()).await;
    until(&console.feeds.dead_letters, |reading| {
        reading.value.is_some()
    })
    .await;
    let health = console.feeds.health.borrow().value.clone().expect("read");
    assert_eq!(
        health.management.is_up,
        Some(true),
        "merged from its own read"
    );
    assert!(
        console.tasks.stop(Duration::from_secs(1)).await,
        "feeds end when told"
    );
}

#[tokio::test(start_paused = true)]
async fn paused_reads_nothing_and_goes_on_afterwards() {
    let console = Console::open(FEEDS);
    until(&console.feeds.outbox, |reading| reading.value.is_some()).await;
    console.change(|views| views.is_paused = true);
    // What was under way ends; then it is still.
    let_pass(Duration::from_secs(1)).await;
    let (orders, broker) = (
        console.world.orders.calls.total(),
        console.world.broker.calls.total(),
    );
    let_pass(Duration::from_mins(10)).await;
    assert_eq!(console.world.orders.calls.total(), orders);
    assert_eq!(console.world.broker.calls.total(), broker);
    console.change(|views| views.is_paused = false);
    until(&console.feeds.outbox, |reading| reading.generation == 3).await;
    assert!(console.world.orders.calls.total() > orders);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_older_question_is_dropped() {
    let world = World::new();
    let gate = Arc::new(Semaphore::new(0));
    *world.inventory.page_gate.lock().unwrap() = Some(Arc::clone(&gate));
    let console = Console::over(world, &["outbox"]);
    let calls = &console.world.inventory.calls;
    while calls.of("numbers") == 0 {
        tokio::task::yield_now().await;
    }
    // The first page is under way when the operator asks for failed rows.
    console.change(|views| views.outbox.state = OutboxState::Failed);
    gate.add_permits(100);
    let mut feed = console.feeds.outbox.clone();
    let first = feed
        .wait_for(|reading| reading.value.is_some())
        .await
        .expect("alive")
        .clone();
    let facts = first.value.expect("a value");
    let facts = facts.services[1].value.as_ref().expect("read");
    assert_eq!(facts.state, OutboxState::Failed, "never the pending page");
    assert_eq!(first.generation, 2);
    assert_eq!(calls.most_together("outbox_page"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_view_change_elsewhere_reads_nothing_and_carries_the_generation() {
    let console = Console::open(&["outbox", "queues"]);
    until(&console.feeds.outbox, |reading| reading.value.is_some()).await;
    until(&console.feeds.queues, |reading| reading.value.is_some()).await;
    let before = console.world.orders.calls.of("outbox_page");
    console.change(|views| views.queues_page = 2);
    until(&console.feeds.outbox, |reading| reading.generation == 2).await;
    until(&console.feeds.queues, |reading| {
        reading.generation == 2 && !reading.is_loading
    })
    .await;
    assert_eq!(console.world.orders.calls.of("outbox_page"), before);
}

#[tokio::test(start_paused = true)]
async fn a_dead_context_keeps_its_last_value_next_to_the_problem() {
    let console = Console::open(&["leases"]);
    until(&console.feeds.leases, |reading| reading.value.is_some()).await;
    let read_at = console.feeds.leases.borrow().read_at;
    console.world.orders.set(Mode::Down);
    console.world.inventory.set(Mode::Down);
    until(&console.feeds.leases, |reading| reading.problem.is_some()).await;
    let reading = console.feeds.leases.borrow().clone();
    assert!(reading.value.is_some(), "the last good value stays");
    assert_eq!(reading.read_at, read_at, "with its own age");
    let problem = reading.problem.expect("a problem");
    assert!(
        problem.contains("orders") && problem.contains("inventory"),
        "{problem}"
    );

    console.world.orders.set(Mode::Up);
    console.world.inventory.set(Mode::Up);
    until(&console.feeds.leases, |reading| reading.problem.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn t_12_a_hung_server_holds_up_only_its_own_part() {
    let console = Console::open(&["leases", "queues"]);
    until(&console.feeds.leases, |reading| reading.value.is_some()).await;
    console.world.orders.set(Mode::Hung);
    console.world.inventory.set(Mode::Hung);
    *console.world.broker.management.lock().unwrap() = Ok(Mode::Hung);
    until(&console.feeds.leases, |reading| reading.problem.is_some()).await;
    // The broker's message port answers: queues go on, by passive declares.
    until(&console.feeds.queues, |reading| {
        reading
            .value
            .as_ref()
            .is_some_and(|v| !v.unread.is_empty() && !v.queues.is_empty())
    })
    .await;
    until(&console.feeds.health, |reading| {
        reading.value.as_ref().is_some_and(|v| {
            v.broker.is_up == Some(true) && v.databases.iter().all(|d| d.is_up == Some(false))
        })
    })
    .await;
    for name in ["leases", "probe", "numbers", "sagas_open"] {
        assert!(
            console.world.orders.calls.most_together(name) <= 1,
            "{name}"
        );
    }
    assert!(
        console.tasks.stop(Duration::from_secs(1)).await,
        "reads are dropped at the end"
    );
}

#[tokio::test(start_paused = true)]
async fn what_did_not_change_is_announced_once_a_second_at_most() {
    let console = Console::open(&["leases"]);
    until(&console.feeds.leases, |reading| reading.value.is_some()).await;
    let first = console.feeds.leases.borrow().value.clone().expect("read");
    let mut feed = console.feeds.leases.clone();
    feed.mark_unchanged();
    let mut announced = 0;
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while tokio::time::timeout_at(until, feed.changed()).await.is_ok() {
        announced += 1;
        let value = feed.borrow_and_update().value.clone().expect("kept");
        assert!(
            Arc::ptr_eq(&value, &first),
            "an equal value stays the same one"
        );
    }
    assert!(announced <= 20, "{announced} in 20 s");
}

#[tokio::test(start_paused = true)]
async fn the_history_grows_with_the_flow() {
    let console = Console::open(&[]);
    let_pass(Duration::from_secs(3)).await;
    let history = console.feeds.history.borrow().clone();
    assert!(!history.is_empty());
    assert_eq!(
        history.published_per_s.back(),
        Some(&Some(4.0)),
        "two outboxes, 120 a minute each"
    );
    assert_eq!(history.oldest_pending_s.back(), Some(&Some(4.0)));
}
