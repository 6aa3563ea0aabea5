//! What a signal changes.

use crate::base::clock::Timestamp;
use crate::model::ids::EventId;
use crate::model::saga::{Saga, SagaPolicy, SagaState, Side, StepState};

use super::settle::{again, as_count, calm, cut, reset, set, settle, turn_round};
use super::{Answer, Signal, Transition, Verdict, due};

/// What `signal` changes.
pub fn apply(saga: &Saga, policy: &SagaPolicy, signal: &Signal, now: Timestamp) -> Transition {
    let mut change = Change {
        saga: saga.clone(),
        policy,
        now,
    };
    let verdict = match signal {
        _ if saga.state == SagaState::Unreadable => Verdict::Refused(NEWER.to_owned()),
        Signal::Sent {
            step,
            side,
            event_id,
        } => change.sent(*step, *side, event_id.as_ref()),
        Signal::TimedOut { step, side } => change.timed_out(*step, *side),
        Signal::Answered {
            step,
            side,
            answer,
            event_id,
        } => change.answered((*step, *side), answer, event_id.as_ref()),
        Signal::TurnBack(why) => change.turn_back(why),
    };
    if matches!(verdict, Verdict::Moved | Verdict::Late) {
        settle(&mut change.saga);
    }
    let mut saga = change.saga;
    if !matches!(verdict, Verdict::Refused(_)) {
        saga.due_at = due(&saga, now);
    }
    Transition { saga, verdict }
}

struct Change<'a> {
    saga: Saga,
    policy: &'a SagaPolicy,
    now: Timestamp,
}

impl Change<'_> {
    fn sent(&mut self, no: i64, side: Side, event_id: Option<&EventId>) -> Verdict {
        let (now, limits) = (self.now, self.policy.side(no, side).copied());
        let Some((step, limits)) = self.saga.step_mut(no).zip(limits) else {
            return no_such(no, side);
        };
        if step.state(side) != StepState::Pending {
            return Verdict::Refused(format!(
                "step {no} is {} on its {} side: nothing is to be sent",
                step.state(side).word(),
                side.word()
            ));
        }
        set(step, side, StepState::InFlight, now);
        step.attempts += 1;
        step.queries = 0;
        step.timeout_at = Some(now.plus(limits.timeout));
        if event_id.is_some() {
            step.event_id = event_id.cloned();
        }
        Verdict::Moved
    }

    fn timed_out(&mut self, no: i64, side: Side) -> Verdict {
        let now = self.now;
        let Some(step) = self.saga.step_mut(no) else {
            return no_such(no, side);
        };
        if step.state(side) != StepState::InFlight {
            return Verdict::Known;
        }
        set(step, side, StepState::Unknown, now);
        step.timeout_at = Some(now);
        Verdict::Moved
    }

    fn answered(
        &mut self,
        (no, side): (i64, Side),
        answer: &Answer,
        event_id: Option<&EventId>,
    ) -> Verdict {
        let Some(step) = self.saga.step(no) else {
            return no_such(no, side);
        };
        let state = step.state(side);
        let verdict = match (side, answer) {
            (Side::Forward, Answer::Succeeded) => self.done(no, state),
            (Side::Compensation, Answer::Succeeded) => self.undone(no, state),
            (Side::Forward, Answer::Failed(why)) => self.refused(no, state, why),
            (Side::Compensation, Answer::Failed(why)) => self.not_undone(no, state, why),
            (_, Answer::NotFound | Answer::InFlight | Answer::Away(_)) if !state.is_open() => {
                Verdict::Known
            }
            (Side::Forward, Answer::NotFound) => self.never_arrived(no),
            (Side::Compensation, Answer::NotFound) => {
                self.not_undone(no, state, "the service does not know of it")
            }
            (_, Answer::InFlight) => self.still_in_flight(no, side),
            (_, Answer::Away(why)) => self.ask_again(no, side, why),
        };
        if let (Verdict::Moved | Verdict::Late, Some(event_id), Some(step)) =
            (&verdict, event_id, self.saga.step_mut(no))
        {
            step.event_id = Some(event_id.clone());
        }
        verdict
    }

    /// The forward side succeeded.
    fn done(&mut self, no: i64, state: StepState) -> Verdict {
        if state == StepState::Succeeded {
            return Verdict::Known;
        }
        let (now, has_undo) = (
            self.now,
            self.policy
                .step(no)
                .is_some_and(|step| step.compensation.is_some()),
        );
        let (saga_state, patience) = (self.saga.state, self.policy.queries_max);
        let Some(step) = self.saga.step_mut(no) else {
            return no_such(no, Side::Forward);
        };
        // Settled as not done before, or told to a person: the answer is late. Else it is the one that
        // is waited for.
        let is_late =
            saga_state != SagaState::Running && (!state.is_open() || step.queries >= patience);
        set(step, Side::Forward, StepState::Succeeded, now);
        reset(step);
        if saga_state == SagaState::Running {
            calm(&mut self.saga);
            return Verdict::Moved;
        }
        step.compensation = if has_undo {
            StepState::Pending
        } else {
            StepState::Skipped
        };
        if is_late || !has_undo {
            let then = if has_undo {
                "it is given back"
            } else {
                "nothing undoes it"
            };
            let conflict = format!(
                "succeeded after the saga had turned round (it was {}): {then}",
                state.word()
            );
            let told = format!("{} {conflict}", step.name);
            step.conflict = Some(conflict);
            self.tell(&told);
        }
        if has_undo {
            self.saga.state = SagaState::Compensating;
        }
        match (is_late, has_undo) {
            (false, _) => Verdict::Moved,
            (true, true) => Verdict::Late,
            // What was decided stays decided, unless the saga still waited for it.
            (true, false) if state.is_open() => Verdict::Moved,
            (true, false) => Verdict::Conflict,
        }
    }

    /// The forward side was refused.
    fn refused(&mut self, no: i64, state: StepState, why: &str) -> Verdict {
        match state {
            StepState::Failed | StepState::Skipped => return Verdict::Known,
            StepState::Succeeded => {
                return self
                    .contradicted(no, &format!("said failed after it had succeeded: {why}"));
            }
            StepState::Pending | StepState::InFlight | StepState::Unknown => {}
        }
        self.not_done(no, why);
        if self.saga.state == SagaState::Running {
            turn_round(&mut self.saga, self.now);
        }
        Verdict::Moved
    }

    /// Settles a forward side as not done.
    fn not_done(&mut self, no: i64, why: &str) {
        let now = self.now;
        if let Some(step) = self.saga.step_mut(no) {
            set(step, Side::Forward, StepState::Failed, now);
            step.compensation = StepState::Skipped;
            step.timeout_at = None;
            step.last_error = Some(cut(why));
        }
    }

    fn never_arrived(&mut self, no: i64) -> Verdict {
        if self.saga.state != SagaState::Running {
            self.not_done(no, "not done when the saga turned round");
            return Verdict::Moved;
        }
        let (now, limits) = (self.now, self.policy.side(no, Side::Forward).copied());
        let Some((step, limits)) = self.saga.step_mut(no).zip(limits) else {
            return no_such(no, Side::Forward);
        };
        if step.attempts < limits.attempts_max {
            again(step, Side::Forward, limits.backoff, now);
            return Verdict::Moved;
        }
        let attempts = step.attempts;
        self.not_done(no, &format!("not found after {attempts} commands"));
        turn_round(&mut self.saga, self.now);
        Verdict::Moved
    }

    /// The service cannot have missed the command, so it is waited for, also once the saga has turned
    /// round: it may be done yet and its result be lost, so it stays a question until it is answered.
    fn still_in_flight(&mut self, no: i64, side: Side) -> Verdict {
        let (now, limits) = (self.now, self.policy.side(no, side).copied());
        let Some((step, limits)) = self.saga.step_mut(no).zip(limits) else {
            return no_such(no, side);
        };
        set(step, side, StepState::InFlight, now);
        step.queries += 1;
        // A message that lies in a dead-letter queue for hours is not asked about every few seconds.
        let pause = self.policy.query.ceiling(as_count(step.queries));
        step.timeout_at = Some(now.plus(limits.timeout.max(pause)));
        self.tell_if_asked_often(
            no,
            "it has not been done yet; its message may be a dead letter",
        );
        Verdict::Moved
    }

    fn ask_again(&mut self, no: i64, side: Side, why: &str) -> Verdict {
        let (now, pause) = (self.now, self.policy.query);
        let Some(step) = self.saga.step_mut(no) else {
            return no_such(no, side);
        };
        set(step, side, StepState::Unknown, now);
        step.queries += 1;
        step.timeout_at = Some(now.plus(pause.ceiling(as_count(step.queries))));
        step.last_error = Some(cut(why));
        self.tell_if_asked_often(no, why);
        Verdict::Moved
    }

    fn tell_if_asked_often(&mut self, no: i64, why: &str) {
        let limit = self.policy.queries_max;
        let told = self
            .saga
            .step(no)
            .filter(|step| step.queries >= limit)
            .map(|step| format!("no outcome of {} after {limit} questions: {why}", step.name));
        if let Some(told) = told {
            self.tell(&told);
        }
    }

    /// The compensating side succeeded.
    fn undone(&mut self, no: i64, state: StepState) -> Verdict {
        let is_done = self
            .saga
            .step(no)
            .is_some_and(|step| step.forward == StepState::Succeeded);
        // There was nothing to undo; but of a completed saga every step is meant to stand.
        if state == StepState::Succeeded || (state == StepState::Skipped && !is_done) {
            return Verdict::Known;
        }
        if !matches!(
            self.saga.state,
            SagaState::Compensating | SagaState::CompensationFailed
        ) {
            return self.contradicted(no, "was undone although the saga did not ask for it");
        }
        let now = self.now;
        if let Some(step) = self.saga.step_mut(no) {
            set(step, Side::Compensation, StepState::Succeeded, now);
            step.timeout_at = None;
            step.queries = 0;
            step.last_error = None;
        }
        calm(&mut self.saga);
        Verdict::Moved
    }

    /// The compensating side was refused, or never arrived: bounded tries, then a person.
    fn not_undone(&mut self, no: i64, state: StepState, why: &str) -> Verdict {
        match state {
            StepState::Failed | StepState::Skipped => return Verdict::Known,
            StepState::Succeeded => {
                return self
                    .contradicted(no, &format!("said not undone after it was undone: {why}"));
            }
            StepState::Pending | StepState::InFlight | StepState::Unknown => {}
        }
        let (now, limits) = (self.now, self.policy.side(no, Side::Compensation).copied());
        let Some(step) = self.saga.step_mut(no) else {
            return no_such(no, Side::Compensation);
        };
        step.last_error = Some(cut(why));
        match limits {
            Some(limits) if step.attempts < limits.attempts_max => {
                again(step, Side::Compensation, limits.backoff, now);
            }
            _ => {
                set(step, Side::Compensation, StepState::Failed, now);
                step.timeout_at = None;
            }
        }
        Verdict::Moved
    }

    fn contradicted(&mut self, no: i64, what: &str) -> Verdict {
        let mut told = String::new();
        if let Some(step) = self.saga.step_mut(no) {
            told = format!("{} {what}", step.name);
            step.conflict = Some(cut(what));
        }
        self.tell(&told);
        Verdict::Conflict
    }

    fn tell(&mut self, why: &str) {
        self.saga.attention = Some(cut(why));
    }

    fn turn_back(&mut self, why: &str) -> Verdict {
        match self.saga.state {
            SagaState::Running => {}
            SagaState::Compensating | SagaState::CompensationFailed | SagaState::Compensated => {
                return Verdict::Known;
            }
            SagaState::Completed | SagaState::Unreadable => {
                return Verdict::Refused(format!("the saga is {}", self.saga.state.word()));
            }
        }
        let held_up = self.saga.current().map(|(step, _)| step.no);
        if let Some(step) = held_up.and_then(|no| self.saga.step_mut(no)) {
            step.last_error = Some(cut(why));
        }
        turn_round(&mut self.saga, self.now);
        Verdict::Moved
    }
}

/// Why nothing is done to a saga whose state cannot be read: to move it would be to overwrite it.
pub const NEWER: &str = "the saga's state is a word of a newer version: let that version move it";

fn no_such(no: i64, side: Side) -> Verdict {
    Verdict::Refused(format!("the saga has no {} side of step {no}", side.word()))
}
