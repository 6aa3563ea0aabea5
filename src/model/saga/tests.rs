//! Every order of answers, timers and persons: one outcome, nothing lost, nothing done left standing.

use std::time::Duration;

use proptest::prelude::*;

use super::machine::{Action, Answer, Signal, Verdict, apply, decide};
use super::manual::{Manual, act};
use super::*;
use crate::base::backoff::Backoff;

const PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_mins(1),
};

pub(crate) fn policy() -> SagaPolicy {
    let remote = SidePolicy::remote(Duration::from_secs(30), 3, PAUSE);
    let step = |name, compensation| StepPolicy {
        name,
        forward: remote,
        compensation,
    };
    SagaPolicy {
        steps: vec![
            step("reserve_stock", Some(remote)),
            step("charge", Some(remote)),
            StepPolicy {
                name: "confirm",
                forward: SidePolicy::local(),
                compensation: None,
            },
        ],
        deadline: Duration::from_mins(1),
        expires: None,
        query: PAUSE,
        queries_max: 3,
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

pub(crate) fn fresh() -> Saga {
    let policy = policy();
    let steps = policy.steps.iter().zip(1_i64..).map(|(step, no)| SagaStep {
        no,
        name: step.name.to_owned(),
        forward: StepState::Pending,
        compensation: if step.compensation.is_some() {
            StepState::Pending
        } else {
            StepState::Skipped
        },
        attempts: 0,
        queries: 0,
        timeout_at: None,
        last_error: None,
        conflict: None,
        forward_key: Some(format!("7:{}", step.name)),
        compensation_key: step
            .compensation
            .is_some()
            .then(|| format!("7:{}:undo", step.name)),
        event_id: None,
        updated_at: at(0),
    });
    Saga {
        saga_id: "s-7".into(),
        saga_type: "order".to_owned(),
        business_key: "7".to_owned(),
        state: SagaState::Running,
        version: 1,
        deadline_at: Some(at(60)),
        expires_at: None,
        due_at: Some(at(0)),
        failures: 0,
        last_error: None,
        leased_by: None,
        lease_until: None,
        attention: None,
        owner: None,
        evidence: None,
        updated_at: at(0),
        created_at: at(0),
        steps: steps.collect(),
    }
}

/// A saga under test, with the outcomes it had and the effects its services hold.
struct Run {
    saga: Saga,
    policy: SagaPolicy,
    outcomes: Vec<SagaState>,
}

impl Run {
    fn new() -> Self {
        Self {
            saga: fresh(),
            policy: policy(),
            outcomes: Vec::new(),
        }
    }

    fn signal(&mut self, signal: &Signal, now: i64) -> Verdict {
        let transition = apply(&self.saga, &self.policy, signal, at(now));
        if matches!(transition.verdict, Verdict::Known | Verdict::Refused(_)) {
            assert_eq!(
                Saga {
                    due_at: None,
                    ..transition.saga
                },
                Saga {
                    due_at: None,
                    ..self.saga.clone()
                },
                "what changes nothing changes nothing"
            );
            return transition.verdict;
        }
        self.saga = transition.saga;
        self.note();
        transition.verdict
    }

    fn answer(&mut self, step: i64, side: Side, answer: Answer, now: i64) -> Verdict {
        let event_id = None;
        self.signal(
            &Signal::Answered {
                step,
                side,
                answer,
                event_id,
            },
            now,
        )
    }

    /// Does what the machine asks for until it waits or wants an answer.
    fn advance(&mut self, now: i64) -> Action {
        for _ in 0..30 {
            let action = decide(&self.saga, at(now));
            let signal = match action {
                Action::Wait(_) | Action::Ask { .. } => return action,
                Action::Expire => Signal::TurnBack("its time is over".to_owned()),
                Action::TimeOut { step, side } => Signal::TimedOut { step, side },
                Action::Send { step, side }
                    if self.policy.side(step, side).is_some_and(|s| s.is_local) =>
                {
                    Signal::Answered {
                        step,
                        side,
                        answer: Answer::Succeeded,
                        event_id: None,
                    }
                }
                Action::Send { step, side } => Signal::Sent {
                    step,
                    side,
                    event_id: Some(EventId::new(format!("{step}:{}", side.word()))),
                },
            };
            assert_eq!(self.signal(&signal, now), Verdict::Moved, "{action:?}");
        }
        panic!("the machine does not come to rest: {:?}", self.saga);
    }

    /// What a person does: the coordinator sees it at its next pass, and not before.
    fn by_hand(&mut self, manual: &Manual, now: i64) -> Result<(), String> {
        self.saga = act(&self.saga, None, manual, at(now))?;
        self.note();
        Ok(())
    }

    fn note(&mut self) {
        if self.saga.is_finished() && self.outcomes.last() != Some(&self.saga.state) {
            self.outcomes.push(self.saga.state);
        }
    }

    fn states(&self) -> Vec<(StepState, StepState)> {
        let steps = self.saga.steps.iter();
        steps.map(|s| (s.forward, s.compensation)).collect()
    }
}

use Side::{Compensation, Forward};
use StepState::{Failed, InFlight, Pending, Skipped, Succeeded, Unknown};

/// Stock is reserved, and the charge is asked for.
fn charging() -> Run {
    let mut run = Run::new();
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    assert_eq!(run.states()[1], (InFlight, Pending));
    run
}

#[test]
fn every_step_done_completes_it() {
    let mut run = Run::new();
    assert_eq!(run.advance(0), Action::Wait(Some(at(30))));
    assert_eq!(run.states()[0], (InFlight, Pending));
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    assert_eq!(run.states()[1], (InFlight, Pending));
    run.answer(2, Forward, Answer::Succeeded, 2);
    assert_eq!(run.advance(2), Action::Wait(None));
    assert_eq!(run.saga.state, SagaState::Completed);
    assert_eq!(run.states(), [(Succeeded, Skipped); 3]);
    assert_eq!(run.saga.due_at, None);
    assert_eq!(run.answer(2, Forward, Answer::Succeeded, 3), Verdict::Known);
    assert!(matches!(
        run.signal(&Signal::TurnBack("cancelled".to_owned()), 4),
        Verdict::Refused(_)
    ));
}

#[test]
fn a_refused_charge_releases_the_stock_and_ends() {
    let mut run = Run::new();
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    run.answer(2, Forward, Answer::Failed("card refused".to_owned()), 2);
    run.advance(2);
    assert_eq!(run.saga.state, SagaState::Compensating);
    assert_eq!(
        run.states(),
        [(Succeeded, InFlight), (Failed, Skipped), (Skipped, Skipped)]
    );
    run.answer(1, Compensation, Answer::Succeeded, 3);
    assert_eq!(run.saga.state, SagaState::Compensated);
    assert_eq!(run.outcomes, [SagaState::Compensated]);
}

#[test]
fn an_unknown_outcome_is_asked_for_before_anything_is_decided() {
    let mut run = Run::new();
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    assert_eq!(
        run.advance(31),
        Action::Ask {
            step: 2,
            side: Forward
        }
    );
    assert_eq!(run.states()[1], (Unknown, Pending));
    run.answer(2, Forward, Answer::Away("502".to_owned()), 31);
    assert_eq!(run.advance(31), Action::Wait(Some(at(32))));
    for now in [40, 50] {
        assert!(matches!(run.advance(now), Action::Ask { .. }));
        run.answer(2, Forward, Answer::Away("502".to_owned()), now);
    }
    assert!(
        run.saga.needs_attention(),
        "a person is told, and it is asked on"
    );
    assert!(matches!(run.advance(100), Action::Ask { .. }));
    run.answer(2, Forward, Answer::Succeeded, 100);
    run.advance(100);
    assert_eq!(run.saga.state, SagaState::Completed);
    assert!(!run.saga.needs_attention());
}

#[test]
fn a_command_nobody_knows_of_is_sent_again_a_bounded_number_of_times() {
    let mut run = Run::new();
    let mut now = 0;
    for attempt in 1..=3 {
        run.advance(now);
        assert_eq!(run.saga.steps[0].attempts, attempt);
        now += 31;
        assert!(matches!(run.advance(now), Action::Ask { .. }));
        run.answer(1, Forward, Answer::NotFound, now);
        now += 61;
    }
    assert_eq!(run.states()[0], (Failed, Skipped));
    assert_eq!(run.saga.state, SagaState::Compensated);
}

/// The timeout fired and undoing began; then the success comes.
#[test]
fn s_01_a_success_after_compensation_is_undone_and_told() {
    let mut run = Run::new();
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    run.advance(31);
    run.signal(&Signal::TurnBack("the reservation ran out".to_owned()), 31);
    run.answer(2, Forward, Answer::NotFound, 31);
    run.advance(31);
    run.answer(1, Compensation, Answer::Succeeded, 32);
    assert_eq!(run.saga.state, SagaState::Compensated);

    assert_eq!(run.answer(2, Forward, Answer::Succeeded, 33), Verdict::Late);
    run.advance(33);
    assert_eq!(
        run.states()[1],
        (Succeeded, InFlight),
        "the refund is asked for"
    );
    assert!(run.saga.steps[1].conflict.is_some());
    run.answer(2, Compensation, Answer::Succeeded, 34);
    assert_eq!(run.saga.state, SagaState::Compensated);
    assert_eq!(run.outcomes, [SagaState::Compensated]);
    let told = run
        .saga
        .attention
        .clone()
        .expect("listed until a person saw it");
    assert!(told.starts_with("charge succeeded after"), "{told}");
    assert!(told.ends_with("it is given back"), "{told}");
    let seen = Manual::Handled {
        is_done: true,
        evidence: "the refund is on the statement".to_owned(),
    };
    run.by_hand(&seen, 35).expect("may be handled");
    assert!(!run.saga.needs_attention());
    assert_eq!(run.saga.state, SagaState::Compensated);
    assert!(run.saga.steps[1].conflict.is_some(), "the record stays");
}

/// Charged, and the answer lost; the order is cancelled. Until it is known, it is asked.
#[test]
fn s_01_a_charge_that_is_not_done_yet_is_asked_about_until_it_is_known() {
    let mut run = charging();
    run.signal(&Signal::TurnBack("the customer".to_owned()), 2);
    assert!(matches!(run.advance(2), Action::Ask { step: 2, .. }));
    run.answer(2, Forward, Answer::InFlight, 2);
    run.advance(2);
    assert_eq!(run.states()[1], (InFlight, Pending), "it may be done yet");
    assert_eq!(run.states()[0].1, InFlight, "the stock is not held up");
    run.answer(1, Compensation, Answer::Succeeded, 3);
    assert_eq!(run.saga.state, SagaState::Compensating);
    for now in [40, 80] {
        assert!(matches!(run.advance(now), Action::Ask { step: 2, .. }));
        run.answer(2, Forward, Answer::InFlight, now);
    }
    assert!(run.saga.needs_attention(), "told, and asked on");
    assert!(matches!(run.advance(200), Action::Ask { step: 2, .. }));
    // It has been told that nobody knows, so a person hears how it ended.
    assert_eq!(
        run.answer(2, Forward, Answer::Succeeded, 200),
        Verdict::Late
    );
    run.advance(200);
    assert_eq!(run.states()[1], (Succeeded, InFlight), "given back");
    run.answer(2, Compensation, Answer::Succeeded, 201);
    assert_eq!(run.outcomes, [SagaState::Compensated]);
    let told = run.saga.attention.as_deref().expect("listed");
    assert!(told.contains("given back"), "{told}");
}

#[test]
fn what_turned_round_is_asked_about_and_never_sent_again() {
    let mut run = charging();
    run.signal(&Signal::TurnBack("the customer".to_owned()), 2);
    run.advance(2);
    for _ in 0..3 {
        run.answer(2, Forward, Answer::Away("502".to_owned()), 2);
    }
    let before = run.saga.clone();
    let refused = run.by_hand(&Manual::Retry, 3).expect_err("refused");
    assert!(refused.contains("query what became of it"), "{refused}");
    assert_eq!(run.saga, before);
    assert!(run.saga.needs_attention());
    run.by_hand(&Manual::Query, 3).expect("may be asked");
    assert!(matches!(run.advance(3), Action::Ask { step: 2, .. }));
}

#[test]
fn a_command_about_to_be_sent_again_was_sent_before_when_the_saga_turns_round() {
    let cancelled = Signal::TurnBack("the customer".to_owned());
    let mut retried = charging();
    retried.by_hand(&Manual::Retry, 2).expect("may be retried");
    let mut missed = charging();
    missed.advance(31);
    missed.answer(2, Forward, Answer::NotFound, 31);
    for (mut run, now) in [(retried, 2), (missed, 31)] {
        assert_eq!(run.states()[1].0, Pending);
        run.signal(&cancelled, now);
        assert!(
            matches!(run.advance(now), Action::Ask { step: 2, .. }),
            "the first command may have been done"
        );
        assert_eq!(run.states()[2].0, Skipped, "this one was never sent");
    }
}

#[test]
fn s_02_an_undoing_that_failed_is_told_while_a_command_is_still_under_way() {
    let mut run = charging();
    run.signal(&Signal::TurnBack("the customer".to_owned()), 2);
    run.advance(2);
    run.answer(2, Forward, Answer::InFlight, 2);
    for now in [2, 64, 126] {
        run.advance(now);
        run.answer(2, Forward, Answer::InFlight, now);
        run.advance(now);
        run.answer(1, Compensation, Answer::Failed("409".to_owned()), now);
    }
    assert_eq!(run.saga.state, SagaState::CompensationFailed);
    let told = run.saga.attention.as_deref().expect("told");
    assert!(
        told.starts_with("reserve_stock could not be undone"),
        "{told}"
    );
    assert_eq!(run.states()[1].0, InFlight, "asked on all the same");
    assert!(run.saga.due_at.is_some());
}

/// What belongs to the saga is changed by the coordinator's pass alone.
#[test]
fn whatever_a_person_does_the_coordinator_looks_at_it_at_once() {
    let mut run = Run::new();
    run.by_hand(&Manual::Compensate, 0).expect("runs");
    assert_eq!(run.saga.state, SagaState::Compensated, "nothing was sent");
    assert_eq!(run.saga.due_at, Some(at(0)), "the order is still open");
    let mut run = charging();
    let not_done = Manual::Handled {
        is_done: false,
        evidence: "the processor has no such charge".to_owned(),
    };
    run.by_hand(&not_done, 2).expect("may be handled");
    assert_eq!(run.saga.due_at, Some(at(2)));
}

#[test]
fn the_state_of_a_newer_version_is_not_overwritten() {
    let mut run = charging();
    run.saga.state = SagaState::Unreadable;
    run.saga.due_at = Some(at(7));
    let before = run.saga.clone();
    for answer in [
        Answer::Succeeded,
        Answer::Failed("no".to_owned()),
        Answer::NotFound,
    ] {
        let verdict = run.answer(2, Forward, answer, 2);
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
    }
    assert_eq!(run.saga, before);
    let handled = Manual::Handled {
        is_done: true,
        evidence: "seen".to_owned(),
    };
    for manual in [Manual::Retry, Manual::Query, Manual::Compensate, handled] {
        let refused = act(&run.saga, Some(2), &manual, at(2)).expect_err("refused");
        assert!(refused.contains("newer version"), "{refused}");
    }
    let mia = Manual::Assign(Some("mia".to_owned()));
    let assigned = act(&run.saga, None, &mia, at(2)).expect("always");
    assert_eq!(assigned.due_at, before.due_at);
}

#[test]
fn an_undoing_of_what_is_meant_to_stand_is_a_conflict() {
    let mut run = charging();
    run.answer(2, Forward, Answer::Succeeded, 2);
    run.advance(2);
    assert_eq!(run.saga.state, SagaState::Completed);
    let verdict = run.answer(2, Compensation, Answer::Succeeded, 3);
    assert_eq!(
        verdict,
        Verdict::Conflict,
        "confirmed, and the money is back"
    );
    assert_eq!(run.saga.state, SagaState::Completed);
    let told = run.saga.attention.as_deref().expect("told");
    assert!(told.contains("charge was undone"), "{told}");
    // Of a step that was never done there is nothing to be undone: no news.
    let mut run = charging();
    run.answer(2, Forward, Answer::Failed("no".to_owned()), 2);
    let verdict = run.answer(2, Compensation, Answer::Succeeded, 3);
    assert_eq!(verdict, Verdict::Known);
}

/// Both inside one millisecond, in either order.
#[test]
fn s_01_timeout_and_success_at_the_same_instant_have_one_outcome() {
    for is_success_first in [true, false] {
        let mut run = Run::new();
        run.advance(0);
        run.answer(1, Forward, Answer::Succeeded, 1);
        run.advance(1);
        let turn = Signal::TurnBack("no answer".to_owned());
        if is_success_first {
            run.answer(2, Forward, Answer::Succeeded, 31);
            run.signal(&turn, 31);
        } else {
            run.signal(&turn, 31);
            run.answer(2, Forward, Answer::Succeeded, 31);
        }
        for _ in 0..3 {
            run.advance(31);
            for step in [2, 1] {
                run.answer(step, Compensation, Answer::Succeeded, 31);
            }
        }
        assert_eq!(run.outcomes, [SagaState::Compensated], "{is_success_first}");
        assert_eq!(run.states()[1], (Succeeded, Succeeded));
    }
}

#[test]
fn s_01_a_success_nothing_can_undo_is_a_conflict_for_a_person() {
    let mut run = Run::new();
    run.policy.steps[1].compensation = None;
    run.saga.steps[1].compensation = Skipped;
    run.saga.steps[1].compensation_key = None;
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    run.answer(2, Forward, Answer::Failed("refused".to_owned()), 2);
    run.advance(2);
    run.answer(1, Compensation, Answer::Succeeded, 3);
    assert_eq!(
        run.answer(2, Forward, Answer::Succeeded, 4),
        Verdict::Conflict
    );
    assert_eq!(run.saga.state, SagaState::Compensated, "decided once");
    assert!(run.saga.needs_attention());
    let handled = Manual::Handled {
        is_done: true,
        evidence: "refunded by hand, receipt 4711".to_owned(),
    };
    let after = act(&run.saga, None, &handled, at(5)).expect("may be handled");
    assert!(!after.needs_attention());
    assert_eq!(after.state, SagaState::Compensated);
    assert!(after.evidence.is_some());
}

#[test]
fn s_02_a_compensation_that_fails_is_retried_and_then_a_person_s() {
    let mut run = Run::new();
    run.policy.steps[1].compensation = Some(SidePolicy::remote(Duration::from_secs(30), 5, PAUSE));
    run.advance(0);
    for step in [1, 2] {
        run.saga.steps[2].forward = InFlight;
        run.answer(step, Forward, Answer::Succeeded, 1);
        run.advance(1);
    }
    run.answer(3, Forward, Answer::Failed("no carrier".to_owned()), 2);
    let mut now = 2;
    for _ in 0..5 {
        run.advance(now);
        assert_eq!(run.states()[1].1, InFlight);
        run.answer(2, Compensation, Answer::Failed("409".to_owned()), now);
        now += 61;
    }
    assert_eq!(run.states()[1], (Succeeded, Failed));
    assert_eq!(run.saga.steps[1].attempts, 5);
    run.advance(now);
    assert_eq!(
        run.states()[0].1,
        InFlight,
        "the stock is given back all the same"
    );
    run.answer(1, Compensation, Answer::Succeeded, now);
    assert_eq!(run.saga.state, SagaState::CompensationFailed);
    assert!(run.outcomes.is_empty(), "not a good end");
    assert!(
        run.saga
            .attention
            .as_deref()
            .is_some_and(|why| why.contains("charge"))
    );

    let again = act(&run.saga, None, &Manual::Retry, at(now)).expect("may be retried");
    assert_eq!(again.state, SagaState::Compensating);
    assert_eq!(again.steps[1].compensation, Pending);
    assert_eq!(again.steps[0].compensation, Succeeded, "only that step");
    run.saga = again;
    run.advance(now);
    run.answer(2, Compensation, Answer::Succeeded, now);
    assert_eq!(run.outcomes, [SagaState::Compensated]);
}

#[test]
fn s_05_a_stuck_step_is_asked_about_or_sent_again_and_counts_once() {
    let mut run = Run::new();
    run.advance(0);
    run.saga.steps[0].timeout_at = None;
    let asked = act(&run.saga, None, &Manual::Query, at(10_800)).expect("may be asked");
    assert!(matches!(
        decide(&asked, at(10_800)),
        Action::Ask { step: 1, .. }
    ));
    let retried = act(&run.saga, Some(1), &Manual::Retry, at(10_800)).expect("may be retried");
    run.saga = retried;
    run.advance(10_800);
    assert_eq!(
        run.answer(1, Forward, Answer::Succeeded, 10_801),
        Verdict::Moved
    );
    assert_eq!(
        run.answer(1, Forward, Answer::Succeeded, 10_801),
        Verdict::Known
    );
}

#[test]
fn a_person_can_only_do_what_fits() {
    let mut run = Run::new();
    assert!(act(&run.saga, None, &Manual::Query, at(0)).is_err());
    run.advance(0);
    run.answer(1, Forward, Answer::Succeeded, 1);
    run.advance(1);
    let back = act(&run.saga, None, &Manual::Compensate, at(2)).expect("runs");
    assert_eq!(back.state, SagaState::Compensating);
    assert_eq!(
        back.steps[1].forward, Unknown,
        "asked, not cancelled blindly"
    );
    assert!(act(&back, None, &Manual::Compensate, at(2)).is_err());
    let not_done = Manual::Handled {
        is_done: false,
        evidence: "the processor has no such charge".to_owned(),
    };
    let after = act(&run.saga, None, &not_done, at(2)).expect("may be handled");
    assert_eq!(after.state, SagaState::Compensating);
    assert_eq!(after.steps[1].forward, Failed);
    assert!(act(&run.saga, Some(9), &Manual::Retry, at(2)).is_err());
    let mia = Manual::Assign(Some("mia".to_owned()));
    assert_eq!(
        act(&run.saga, None, &mia, at(2))
            .expect("always")
            .owner
            .as_deref(),
        Some("mia")
    );
}

#[derive(Clone, Debug)]
enum Event {
    /// The service takes a command of its inbox, and this comes of it.
    Takes(usize, Effect),
    /// A result is delivered again.
    Repeats(usize),
    /// So much later.
    Passes(i64),
    Cancelled,
    ByHand(Manual),
    Asked(Lie),
}

/// What a service does with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Done,
    /// It does it and says nothing: its answer is lost, and only a question finds out.
    DoneSilently,
    Refused,
    /// It is consumed without an effect.
    Lost,
}

/// What a question may be told instead of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Away,
    /// By a replica that lags: only while commands are left, since else the saga is right to give up.
    NotFound,
}

fn events() -> impl Strategy<Value = Event> {
    let takes = |effect| (0_usize..4).prop_map(move |index| Event::Takes(index, effect));
    prop_oneof![
        4 => takes(Effect::Done),
        2 => takes(Effect::DoneSilently),
        1 => takes(Effect::Refused),
        1 => takes(Effect::Lost),
        1 => (0_usize..4).prop_map(Event::Repeats),
        2 => (1_i64..90).prop_map(Event::Passes),
        1 => Just(Event::Cancelled),
        2 => Just(Event::ByHand(Manual::Retry)),
        1 => Just(Event::ByHand(Manual::Query)),
        1 => Just(Event::ByHand(Manual::Compensate)),
        1 => Just(Event::Asked(Lie::Away)),
        1 => Just(Event::Asked(Lie::NotFound)),
    ]
}

/// A world of services around the machine: what they did, and result events on their way.
#[derive(Default)]
struct World {
    done: Vec<(i64, Side)>,
    refused: Vec<(i64, Side)>,
    said: Vec<(i64, Side, Answer)>,
    commands: Vec<(i64, Side)>,
    now: i64,
}

impl World {
    fn advance(&mut self, run: &mut Run, lie: Option<Lie>) {
        for _ in 0..40 {
            let before = run.saga.clone();
            let Action::Ask { step, side } = run.advance(self.now) else {
                self.sent(&before, run);
                return;
            };
            let said = self.asked(run, (step, side), lie);
            let is_away = matches!(said, Answer::Away(_));
            run.answer(step, side, said, self.now);
            self.sent(&before, run);
            if is_away {
                return;
            }
        }
    }

    fn asked(&self, run: &Run, of: (i64, Side), lie: Option<Lie>) -> Answer {
        let limits = run.policy.side(of.0, of.1).map(|side| side.attempts_max);
        let has_tries = run.saga.state == SagaState::Running
            && run.saga.step(of.0).map(|step| step.attempts) < limits;
        if lie == Some(Lie::Away) {
            Answer::Away("502".to_owned())
        } else if self.done.contains(&of) {
            Answer::Succeeded
        } else if self.refused.contains(&of) {
            Answer::Failed("no".to_owned())
        } else if self.commands.contains(&of) && !(has_tries && lie == Some(Lie::NotFound)) {
            Answer::InFlight
        } else {
            Answer::NotFound
        }
    }

    /// Notes commands the machine sent.
    fn sent(&mut self, before: &Saga, run: &Run) {
        for (old, new) in before.steps.iter().zip(&run.saga.steps) {
            for side in [Forward, Compensation] {
                let limits = run.policy.side(new.no, side);
                if old.state(side) == Pending
                    && new.state(side) == InFlight
                    && limits.is_some_and(|limits| !limits.is_local)
                {
                    self.commands.push((new.no, side));
                }
            }
        }
    }

    /// A service takes a command: it does it once per key, whatever it is told how often.
    fn work(&mut self, run: &mut Run, index: usize, effect: Effect) {
        if self.commands.is_empty() {
            return;
        }
        let of = self.commands.remove(index % self.commands.len());
        let was_done = self.done.contains(&of);
        let answer = match effect {
            Effect::Lost => return,
            // Whoever has refused says so again.
            Effect::DoneSilently if !was_done && !self.refused.contains(&of) => {
                self.done.push(of);
                return;
            }
            Effect::Refused | Effect::DoneSilently if !was_done => {
                if of.1 == Forward {
                    self.refused.push(of);
                }
                Answer::Failed("no".to_owned())
            }
            Effect::Done | Effect::DoneSilently | Effect::Refused => {
                if !was_done {
                    self.done.push(of);
                }
                Answer::Succeeded
            }
        };
        let (step, side) = of;
        self.said.push((step, side, answer.clone()));
        run.answer(step, side, answer, self.now);
        self.advance(run, None);
    }

    fn happens(&mut self, run: &mut Run, event: &Event) {
        match event {
            Event::Takes(index, effect) => self.work(run, *index, *effect),
            Event::Repeats(_) if self.said.is_empty() => {}
            Event::Repeats(index) => {
                let (step, side, answer) = self.said[index % self.said.len()].clone();
                run.answer(step, side, answer, self.now);
                self.advance(run, None);
            }
            Event::Passes(seconds) => {
                self.now += seconds;
                self.advance(run, None);
            }
            Event::Cancelled => {
                run.signal(&Signal::TurnBack("cancelled".to_owned()), self.now);
                self.advance(run, None);
            }
            // The coordinator's pass comes with what happens next. A refusal is an answer as well.
            Event::ByHand(manual) => drop(run.by_hand(manual, self.now)),
            Event::Asked(lie) => {
                self.now += 31;
                self.advance(run, Some(*lie));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_there_is_one_outcome_and_nothing_is_lost(events in prop::collection::vec(events(), 0..40)) {
        let mut run = Run::new();
        let mut world = World::default();
        world.advance(&mut run, None);
        for event in events {
            world.happens(&mut run, &event);
        }
        // Every command on its way arrives, every question is answered, until nothing moves.
        for _ in 0..200 {
            world.now += 61;
            world.advance(&mut run, None);
            world.work(&mut run, 0, Effect::Done);
            if run.saga.state == SagaState::CompensationFailed {
                run.by_hand(&Manual::Retry, world.now).expect("a failed compensation can be retried");
                world.advance(&mut run, None);
            }
        }
        prop_assert!(run.saga.is_finished(), "{:?}", run.saga);
        prop_assert_eq!(decide(&run.saga, at(world.now)), Action::Wait(None));
        let mut outcomes = run.outcomes.clone();
        outcomes.dedup();
        prop_assert_eq!(outcomes, vec![run.saga.state], "one outcome");
        for step in run.saga.steps.iter().filter(|step| step.no < 3) {
            let did = world.done.contains(&(step.no, Forward));
            let undid = world.done.contains(&(step.no, Compensation));
            if run.saga.state == SagaState::Completed {
                prop_assert!(did && !undid, "{:?}", step);
            } else {
                prop_assert_eq!(did, undid, "left standing: {:?}", run.saga);
            }
        }
    }
}
