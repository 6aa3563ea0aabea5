//! The coordinator on SQLite: timers, questions, races, restarts.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::model::ids::{EventId, SagaId};
use crate::model::outbox::NewEvent;
use crate::model::saga::machine::Verdict;
use crate::model::saga::{SagaPolicy, SagaState, SidePolicy, StepPolicy, StepState};
use crate::pipeline::test_support::{Bench, new_event};
use crate::store::Value;

const NOTHING: Backoff = Backoff {
    base: Duration::ZERO,
    cap: Duration::ZERO,
};

/// Two remote steps whose services answer as told. Time-outs are over at once, so that no test waits.
struct Trip {
    policy: SagaPolicy,
    answers: Mutex<HashMap<String, Answer>>,
    /// Business keys whose command cannot be made.
    broken: Vec<String>,
    /// A key whose question is not answered before the notice.
    hanging: Option<String>,
    answered: tokio::sync::Notify,
}

impl Trip {
    fn new(timeout: Duration) -> Self {
        let remote = SidePolicy::remote(timeout, 2, NOTHING);
        let step = |name| StepPolicy {
            name,
            forward: remote,
            compensation: Some(remote),
        };
        Self {
            policy: SagaPolicy {
                steps: vec![step("book"), step("pay")],
                deadline: Duration::from_mins(1),
                expires: None,
                query: Backoff {
                    base: Duration::from_mins(1),
                    cap: Duration::from_mins(1),
                },
                queries_max: 1,
            },
            answers: Mutex::default(),
            broken: Vec::new(),
            hanging: None,
            answered: tokio::sync::Notify::new(),
        }
    }

    fn says(&self, key: &str, answer: Answer) {
        let mut answers = self.answers.lock().expect("not poisoned");
        answers.insert(key.to_owned(), answer);
    }
}

#[async_trait]
impl SagaDefinition for Trip {
    fn saga_type(&self) -> &'static str {
        "trip"
    }

    fn policy(&self) -> &SagaPolicy {
        &self.policy
    }

    fn command(&self, task: &Task<'_>) -> Result<Vec<NewEvent>, String> {
        if self.broken.contains(&task.saga.business_key) {
            return Err("no such hotel".to_owned());
        }
        let kind = format!("{}.{}", task.step.name, task.side.word());
        Ok(vec![new_event(
            &kind,
            &format!("{{\"key\":\"{}\"}}", task.key),
        )])
    }

    async fn query(&self, task: &Task<'_>) -> Answer {
        if self.hanging.as_deref() == Some(task.key) {
            self.answered.notified().await;
        }
        let answers = self.answers.lock().expect("not poisoned");
        answers.get(task.key).cloned().unwrap_or(Answer::NotFound)
    }
}

async fn begin(bench: &Bench, trip: &Trip, key: &str) -> SagaId {
    let saga_id = SagaId::generate();
    let mut tx = bench.store("orders").begin().await.expect("begins");
    let new = NewInstance {
        saga_id: saga_id.clone(),
        business_key: key.to_owned(),
        data: "{}".to_owned(),
    };
    assert_eq!(start(tx.as_mut(), trip, &new).await, Ok(true));
    tx.commit().await.expect("commits");
    saga_id
}

async fn say(bench: &Bench, trip: &Trip, key: &str, answer: Answer) -> Recorded {
    let mut tx = bench.store("orders").begin().await.expect("begins");
    let reply = Reply {
        key: key.to_owned(),
        answer,
        event_id: EventId::generate(),
    };
    let recorded = record(tx.as_mut(), trip, &reply).await.expect("records");
    tx.commit().await.expect("commits");
    recorded
}

async fn saga(bench: &Bench, id: &SagaId) -> Saga {
    let found = bench.store("orders").saga(id).await.expect("reads");
    found.expect("the saga")
}

fn coordinator(bench: &Bench, trip: &Arc<Trip>) -> Coordinator {
    let definitions: Definitions = vec![Arc::clone(trip) as Arc<dyn SagaDefinition>];
    let settings = CoordinatorSettings::default();
    Coordinator::new("orders", bench.store("orders"), definitions, settings).expect("valid")
}

async fn execute(bench: &Bench, statement: &'static str, values: &[Value]) -> u64 {
    let mut tx = bench.store("orders").begin().await.expect("begins");
    let rows = tx.execute(statement, values).await.expect("executes");
    tx.commit().await.expect("commits");
    rows
}

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn results_move_a_saga_without_the_coordinator() {
    let bench = Bench::new().await;
    let trip = Trip::new(HOUR);
    let id = begin(&bench, &trip, "7").await;
    let sent = async || {
        bench
            .number("orders", "SELECT COUNT(*) FROM outbox_events")
            .await
    };
    assert_eq!(sent().await, 1, "the first command goes with the start");
    let taken = say(&bench, &trip, "trip-7:book", Answer::Succeeded).await;
    assert_eq!(taken, Recorded::Taken(Verdict::Moved, SagaState::Running));
    assert_eq!(sent().await, 2, "the next with the result");
    let again = say(&bench, &trip, "trip-7:book", Answer::Succeeded).await;
    assert_eq!(again, Recorded::Taken(Verdict::Known, SagaState::Running));
    say(&bench, &trip, "trip-7:pay", Answer::Succeeded).await;
    assert_eq!(saga(&bench, &id).await.state, SagaState::Completed);
    assert_eq!(sent().await, 2);
    let nobody = say(&bench, &trip, "trip-8:pay", Answer::Succeeded).await;
    assert_eq!(nobody, Recorded::NoSaga);
    let mut tx = bench.store("orders").begin().await.expect("begins");
    let twice = NewInstance {
        saga_id: SagaId::generate(),
        business_key: "7".to_owned(),
        data: String::new(),
    };
    assert_eq!(start(tx.as_mut(), &trip, &twice).await, Ok(false));
}

#[tokio::test]
async fn an_unknown_outcome_is_asked_for_and_a_restart_goes_on_from_the_rows() {
    let bench = Bench::new().await;
    let trip = Arc::new(Trip::new(Duration::ZERO));
    let id = begin(&bench, &trip, "7").await;
    trip.says("trip-7:book", Answer::Succeeded);
    trip.says("trip-7:pay", Answer::Away("502".to_owned()));
    for _ in 0..2 {
        let report = coordinator(&bench, &trip).run_once().await;
        let did = (report.get("asked"), report.get("moved"));
        assert_eq!(did, (1, 1), "{report:?}");
    }
    let stuck = saga(&bench, &id).await;
    assert_eq!(stuck.steps[0].forward, StepState::Succeeded);
    assert_eq!(stuck.steps[1].forward, StepState::Unknown);
    assert!(stuck.needs_attention(), "asked once, as often as allowed");
    // Nothing is due: the question's pause is a minute.
    assert!(coordinator(&bench, &trip).run_once().await.is_idle);

    execute(&bench, "UPDATE sagas SET due_at = 0", &[]).await;
    execute(&bench, "UPDATE saga_steps SET timeout_at = 0", &[]).await;
    trip.says("trip-7:pay", Answer::Succeeded);
    let report = coordinator(&bench, &trip).run_once().await;
    assert_eq!(report.get("completed"), 1, "{report:?}");
    let done = saga(&bench, &id).await;
    assert_eq!(done.state, SagaState::Completed);
    assert!(!done.needs_attention());
    assert_eq!(done.due_at, None);
}

/// The coordinator has asked and is about to write that the step was not done; the success comes first.
#[tokio::test]
async fn s_01_an_answer_within_the_same_millisecond_wins_or_is_undone_but_never_both() {
    for is_answer_first in [true, false] {
        let bench = Bench::new().await;
        let trip = Arc::new(Trip::new(Duration::ZERO));
        let id = begin(&bench, &trip, "7").await;
        say(&bench, &trip, "trip-7:book", Answer::Succeeded).await;
        let mut tx = bench.store("orders").begin().await.expect("begins");
        let cancelled = cancel(tx.as_mut(), trip.as_ref(), "7", "customer").await;
        assert!(matches!(cancelled, Ok(Recorded::Taken(Verdict::Moved, _))));
        tx.commit().await.expect("commits");
        let worker = coordinator(&bench, &trip);
        let claim = worker
            .store
            .claim_sagas(&SagaClaimRequest {
                saga_type: "trip".to_owned(),
                rows_max: 1,
                lease: HOUR,
                by: "A".to_owned(),
            })
            .await
            .expect("claims");
        let work = claim.sagas[0].clone();
        let (asked, prepared) = worker.prepare(trip.as_ref(), work).await;
        assert_eq!(asked, 1, "what became of the payment");
        let prepared = prepared.unwrap_or_else(|(_, problem)| panic!("{problem}"));
        if is_answer_first {
            say(&bench, &trip, "trip-7:pay", Answer::Succeeded).await;
        }
        let moved = worker.commit(trip.as_ref(), &claim.token, &prepared).await;
        assert_eq!(
            matches!(moved, Ok(Moved::LostRace)),
            is_answer_first,
            "fenced by the version"
        );
        if !is_answer_first {
            let late = say(&bench, &trip, "trip-7:pay", Answer::Succeeded).await;
            assert!(
                matches!(late, Recorded::Taken(Verdict::Late, _)),
                "{late:?}"
            );
        }
        for step in ["pay", "book"] {
            let key = key_of("trip", "7", step, Side::Compensation);
            say(&bench, &trip, &key, Answer::Succeeded).await;
        }
        let over = saga(&bench, &id).await;
        assert_eq!(over.state, SagaState::Compensated);
        let undone = over
            .steps
            .iter()
            .filter(|s| s.compensation == StepState::Succeeded);
        assert_eq!(undone.count(), 2, "the payment is given back: {over:?}");
    }
}

#[tokio::test]
async fn s_04_sagas_that_cannot_be_moved_hold_up_no_other() {
    let bench = Bench::new().await;
    let good = Trip::new(Duration::ZERO);
    for n in 0..100 {
        begin(&bench, &good, &n.to_string()).await;
    }
    let mut trip = Trip::new(Duration::ZERO);
    trip.broken = (0..12).map(|n| n.to_string()).collect();
    for n in 0..100 {
        trip.says(&format!("trip-{n}:book"), Answer::Succeeded);
        trip.says(&format!("trip-{n}:pay"), Answer::Succeeded);
    }
    let trip = Arc::new(trip);
    let mut worker = coordinator(&bench, &trip);
    let (first, second) = (worker.run_once().await, worker.run_once().await);
    let total = |counter| first.get(counter) + second.get(counter);
    assert_eq!(total("completed"), 88, "{first:?} {second:?}");
    assert!(total("postponed") >= 12);
    let listed = bench.store("orders").sagas(20).await.expect("lists");
    let troubled: Vec<_> = listed
        .iter()
        .filter(|saga| saga.needs_attention())
        .collect();
    assert_eq!(troubled.len(), 12);
    for saga in &troubled {
        assert!(saga.failures >= 1);
        let why = saga.last_error.as_deref().expect("told");
        assert!(why.contains("no such hotel"), "{why}");
        assert!(saga.due_at.is_some(), "tried again later");
    }
    assert!(listed[..12].iter().all(Saga::needs_attention), "on top");
}

/// One service does not answer. Everything else that is due, and what falls due meanwhile, is done first.
#[tokio::test]
async fn s_04_a_question_that_hangs_stalls_no_other_saga() {
    let bench = Bench::new().await;
    let mut trip = Trip::new(Duration::ZERO);
    trip.hanging = Some("trip-0:book".to_owned());
    for n in 0..6 {
        trip.says(&format!("trip-{n}:book"), Answer::Succeeded);
        trip.says(&format!("trip-{n}:pay"), Answer::Succeeded);
    }
    let trip = Arc::new(trip);
    for n in 0..5 {
        begin(&bench, &trip, &n.to_string()).await;
    }
    // The question may take longer than the test: only an answer ends it.
    let settings = CoordinatorSettings {
        batch_rows: 2,
        lease: HOUR * 2,
        query_limit: HOUR,
        ..CoordinatorSettings::default()
    };
    let definitions: Definitions = vec![Arc::clone(&trip) as Arc<dyn SagaDefinition>];
    let worker = Coordinator::new("orders", bench.store("orders"), definitions, settings);
    let mut worker = worker.expect("valid");
    let completed = async |wanted| {
        let count = "SELECT COUNT(*) FROM sagas WHERE state = 'completed'";
        let all = async { while bench.number("orders", count).await != wanted {} };
        let done = tokio::time::timeout(Duration::from_secs(30), all).await;
        assert!(done.is_ok(), "never {wanted} completed");
    };
    let others = async {
        completed(4).await;
        begin(&bench, &trip, "5").await;
        completed(5).await;
        trip.answered.notify_one();
    };
    let (report, ()) = futures::join!(worker.run_once(), others);
    assert!(report.get("completed") >= 5, "{report:?}");
    worker.run_once().await;
    completed(6).await;
}

#[tokio::test]
async fn a_saga_in_a_newer_version_s_state_is_put_off_and_not_overwritten() {
    let bench = Bench::new().await;
    let trip = Arc::new(Trip::new(Duration::ZERO));
    let id = begin(&bench, &trip, "7").await;
    let pause = "UPDATE sagas SET state = 'paused', due_at = 0";
    execute(&bench, pause, &[]).await;
    let report = coordinator(&bench, &trip).run_once().await;
    assert_eq!(report.get("postponed"), 1, "{report:?}");
    let listed = saga(&bench, &id).await;
    let why = listed.last_error.clone().expect("told");
    assert!(why.contains("newer version"), "{why}");
    assert!(listed.needs_attention());

    let mut tx = bench.store("orders").begin().await.expect("begins");
    let reply = Reply {
        key: "trip-7:book".to_owned(),
        answer: Answer::Succeeded,
        event_id: EventId::generate(),
    };
    let recorded = record(tx.as_mut(), trip.as_ref(), &reply).await;
    assert!(
        matches!(recorded, Err(SagaError::Program { .. })),
        "a result is kept for the version that knows the state: {recorded:?}"
    );
    let written = tx.saga_move(&listed, &listed, None).await;
    assert!(written.is_err(), "whoever tries");
    tx.rollback().await.expect("rolls back");
    let paused = "SELECT COUNT(*) FROM sagas WHERE state = 'paused'";
    assert_eq!(bench.number("orders", paused).await, 1);
}

/// Three hours in flight; the operator's console takes it over while the old owner comes back.
#[tokio::test]
async fn s_05_the_owner_that_comes_back_is_fenced_off() {
    let bench = Bench::new().await;
    let trip = Arc::new(Trip::new(Duration::ZERO));
    let id = begin(&bench, &trip, "7").await;
    let worker = coordinator(&bench, &trip);
    let request = SagaClaimRequest {
        saga_type: "trip".to_owned(),
        rows_max: 5,
        lease: Duration::ZERO,
        by: "gone".to_owned(),
    };
    let store = bench.store("orders");
    let old = store.claim_sagas(&request).await.expect("claims");
    let held = saga(&bench, &id).await;
    assert_eq!(held.leased_by.as_deref(), Some("gone"));
    trip.says("trip-7:book", Answer::Succeeded);
    let (_, prepared) = worker.prepare(trip.as_ref(), old.sagas[0].clone()).await;
    let prepared = prepared.unwrap_or_else(|(_, problem)| panic!("{problem}"));

    // The lease is over, so another takes it, asks, and moves it.
    let report = coordinator(&bench, &trip).run_once().await;
    assert!(report.get("moved") >= 1, "{report:?}");
    let commands = bench
        .number("orders", "SELECT COUNT(*) FROM outbox_events")
        .await;
    let late = worker.commit(trip.as_ref(), &old.token, &prepared).await;
    assert!(matches!(late, Ok(Moved::LostRace)));
    let after = bench
        .number("orders", "SELECT COUNT(*) FROM outbox_events")
        .await;
    assert_eq!(after, commands, "the late success sent nothing twice");
    let put_off = store.postpone_saga(&old.token, &id, "late", HOUR).await;
    assert_eq!(put_off, Ok(Guarded::LostRace));
}

#[tokio::test]
async fn a_lease_shorter_than_a_question_is_refused() {
    let bench = Bench::new().await;
    let settings = CoordinatorSettings {
        lease: Duration::from_secs(1),
        ..CoordinatorSettings::default()
    };
    let refused = Coordinator::new(
        "orders",
        bench.store("orders"),
        Definitions::new(),
        settings,
    );
    assert!(refused.is_err_and(|why| why.contains("too late")));
}
