//! The loop around a worker that panics, recovers and is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::*;

struct Fickle {
    passes: u64,
    drained: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Fickle {
    fn name(&self) -> &'static str {
        "fickle"
    }
    fn service(&self) -> &'static str {
        "orders"
    }
    async fn run_once(&mut self) -> Report {
        self.passes += 1;
        assert_ne!(self.passes, 2, "second pass fails");
        let mut report = Report::new("fickle", "orders");
        report.add("sent", 2);
        report.is_idle = true;
        report
    }
    async fn drain(&mut self) {
        self.drained.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_panic_is_a_problem_and_the_loop_goes_on_until_it_is_stopped_and_drained() {
    let drained = Arc::new(AtomicU64::new(0));
    let tasks = Tasks::new();
    let worker = Fickle {
        passes: 0,
        drained: Arc::clone(&drained),
    };
    let mut board = Supervisor::start(vec![Box::new(worker)], &tasks);
    let seen = board
        .wait_for(|all| all[0].problem_since.is_some())
        .await
        .expect("runs")[0]
        .clone();
    assert!(
        seen.last
            .expect("a pass")
            .problem
            .expect("told")
            .contains("second pass fails"),
    );
    let seen = board
        .wait_for(|all| all[0].passes >= 3 && all[0].problem_since.is_none())
        .await
        .expect("runs")[0]
        .clone();
    assert_eq!(seen.totals, [("sent".to_owned(), 4)]);
    assert!(tasks.stop(Duration::from_secs(1)).await);
    assert_eq!(drained.load(Ordering::SeqCst), 1);
    assert_eq!(board.borrow()[0].state, LoopState::Stopped);
}

/// Cannot do its work until `mended`; tells when it tried.
struct Cut {
    mended: Arc<std::sync::atomic::AtomicBool>,
    tries: Arc<std::sync::Mutex<Vec<tokio::time::Instant>>>,
}

#[async_trait]
impl Worker for Cut {
    fn name(&self) -> &'static str {
        "cut"
    }
    fn service(&self) -> &'static str {
        "orders"
    }
    async fn run_once(&mut self) -> Report {
        self.tries
            .lock()
            .expect("not poisoned")
            .push(tokio::time::Instant::now());
        let mut report = Report::new("cut", "orders");
        report.is_idle = self.mended.load(Ordering::SeqCst);
        if !report.is_idle {
            report.problem = Some("database of orders is not reachable".to_owned());
        }
        report
    }
    async fn drain(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn q_18_a_database_that_is_away_is_tried_less_and_less_and_found_again() {
    let (mended, tries) = (Arc::default(), Arc::default());
    let worker = Cut {
        mended: Arc::clone(&mended),
        tries: Arc::clone(&tries),
    };
    let tasks = Tasks::new();
    let mut board = Supervisor::start(vec![Box::new(worker)], &tasks);
    board
        .wait_for(|all| all[0].passes >= 20)
        .await
        .expect("runs");
    let tried = tries.lock().expect("not poisoned").clone();
    let wait = |from: usize, to: usize| tried[to] - tried[from];
    assert!(
        wait(0, 19) >= Duration::from_secs(19),
        "once a second at most"
    );
    assert!(wait(9, 19) > wait(0, 5), "less and less");
    let longest = tried.windows(2).map(|w| w[1] - w[0]).max();
    assert!(longest <= Some(Duration::from_secs(11)), "{longest:?}");
    mended.store(true, Ordering::SeqCst);
    board
        .wait_for(|all| all[0].problem_since.is_none() && all[0].passes > 1)
        .await
        .expect("recovers alone");
    assert!(tasks.stop(Duration::from_secs(1)).await);
}

/// Takes long to give back what it holds.
struct Thorough;

#[async_trait]
impl Worker for Thorough {
    fn name(&self) -> &'static str {
        "thorough"
    }
    fn service(&self) -> &'static str {
        "orders"
    }
    async fn run_once(&mut self) -> Report {
        let mut report = Report::new("thorough", "orders");
        report.is_idle = true;
        report
    }
    async fn drain(&mut self) {
        sleep(Duration::from_secs(40)).await;
    }
    fn drain_limit(&self) -> Duration {
        Duration::from_mins(1)
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_waited_for_as_long_as_it_says_its_drain_may_take() {
    let tasks = Tasks::new();
    let mut board = Supervisor::start(vec![Box::new(Thorough)], &tasks);
    board.wait_for(|all| all[0].passes > 0).await.expect("runs");
    assert!(tasks.stop(Duration::from_mins(2)).await);
    assert_eq!(board.borrow()[0].state, LoopState::Stopped);
}

/// Waits for a server with a pause of its own, as a subscription does, and goes idle meanwhile.
struct Paced {
    mended: Arc<std::sync::atomic::AtomicBool>,
    is_hurried: bool,
    /// Never tries by itself again.
    is_told: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Paced {
    fn name(&self) -> &'static str {
        "paced"
    }
    fn service(&self) -> &'static str {
        "orders"
    }
    async fn run_once(&mut self) -> Report {
        let mut report = Report::new("paced", "orders");
        report.is_idle = true;
        let is_well = std::mem::take(&mut self.is_hurried) && self.mended.load(Ordering::SeqCst);
        report.problem = (!is_well).then(|| "queue not read".to_owned());
        report
    }
    fn try_again(&mut self) {
        self.is_hurried = true;
        self.is_told.fetch_add(1, Ordering::SeqCst);
    }
    async fn drain(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn q_18_the_first_worker_that_is_well_again_spares_the_others_the_rest_of_their_pause() {
    let mended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cut = || Cut {
        mended: Arc::clone(&mended),
        tries: Arc::default(),
    };
    let mut workers: Vec<Box<dyn Worker>> = vec![Box::new(Paced {
        mended: Arc::clone(&mended),
        is_hurried: false,
        is_told: Arc::default(),
    })];
    workers.extend((0..6).map(|_| Box::new(cut()) as Box<dyn Worker>));
    let tasks = Tasks::new();
    let mut board = Supervisor::start(workers, &tasks);
    // So many failures that pauses are long.
    board
        .wait_for(|all| all.iter().skip(1).all(|status| status.passes >= 12))
        .await
        .expect("runs");
    mended.store(true, Ordering::SeqCst);
    board
        .wait_for(|all| all.iter().any(|status| status.problem_since.is_none()))
        .await
        .expect("one recovers alone");
    let first = Instant::now();
    let mut well = [false; 7];
    board
        .wait_for(|all| {
            for (well, status) in well.iter_mut().zip(all) {
                *well |= status.problem_since.is_none();
            }
            well.iter().all(|well| *well)
        })
        .await
        .expect("the others follow");
    let took = first.elapsed();
    assert!(took <= Duration::from_secs(2), "{took:?}");
    assert!(tasks.stop(Duration::from_secs(1)).await);
}

/// Ill for two seconds, well for one pass, and so on.
struct Flapping {
    began: Instant,
}

#[async_trait]
impl Worker for Flapping {
    fn name(&self) -> &'static str {
        "flapping"
    }
    fn service(&self) -> &'static str {
        "payment"
    }
    async fn run_once(&mut self) -> Report {
        let mut report = Report::new("flapping", "payment");
        report.is_idle = true;
        report.problem = (self.began.elapsed() < Duration::from_secs(2)).then(|| "ill".to_owned());
        if report.problem.is_none() {
            self.began = Instant::now();
        }
        report
    }
    async fn drain(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_well_and_ill_in_turns_hurry_another_once_a_second_at_most() {
    let told: Arc<AtomicU64> = Arc::default();
    let mut workers: Vec<Box<dyn Worker>> = vec![Box::new(Paced {
        mended: Arc::default(),
        is_hurried: false,
        is_told: Arc::clone(&told),
    })];
    let flapping = || Flapping {
        began: Instant::now(),
    };
    workers.extend((0..20).map(|_| Box::new(flapping()) as Box<dyn Worker>));
    let tasks = Tasks::new();
    let board = Supervisor::start(workers, &tasks);
    sleep(Duration::from_mins(1)).await;
    let told = told.load(Ordering::SeqCst);
    assert!((20..=60).contains(&told), "{told}");
    assert!(tasks.stop(Duration::from_secs(1)).await);
    drop(board);
}
