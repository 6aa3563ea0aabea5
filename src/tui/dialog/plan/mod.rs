//! The dialog of an action: the whole plan, what a confirmation needs, and after it the progress
//! and the proof.
//!
//! Cancel has the focus; Enter never confirms. `y` confirms only outside of a text field, when the
//! dialog has been on screen for a while, and when no other key comes right after it: text that
//! streams in cannot confirm (T-10).

mod text;
mod view;

use std::time::Duration;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::clock::Timestamp;
use crate::model::operation::{Operation, Verb};
use crate::operate::plan::{
    Applied, Confirmation, Level, OperateError, Plan, PreflightLine, Request, SagaWish,
};
use crate::tui::event::Job;
use crate::tui::keymap::Action;
use crate::tui::widget::doc::Doc;
use crate::tui::widget::field::Field;
use crate::tui::world::World;

/// How long a plan must have been on screen before it can be confirmed.
pub const SHOWN_MIN: Duration = Duration::from_millis(300);
/// How long it must be quiet after `y`: a person's keys are further apart than a stream's.
pub const QUIET: Duration = Duration::from_millis(60);

/// A text field of the confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Why.
    Reason,
    /// A ticket.
    Ticket,
    /// The context's name.
    ContextName,
    /// The number of events.
    Count,
    /// An extra word.
    Word,
    /// The evidence or owner.
    Told,
}

/// Where the dialog stands.
#[derive(Debug)]
pub enum Stage {
    /// The plan is being made.
    Planning,
    /// No plan could be made.
    NoPlan(String),
    /// Waits for a confirmation.
    Ready(Box<Plan>),
    /// Being applied.
    Applying(Box<Plan>),
    /// Applied; proof is awaited or there.
    Done {
        /// What was confirmed.
        plan: Box<Plan>,
        /// What was done.
        applied: Applied,
        /// Its latest record.
        operation: Option<Box<Operation>>,
    },
    /// Nothing was done.
    Refused {
        /// What was confirmed.
        plan: Box<Plan>,
        /// Why.
        problem: String,
    },
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanStep {
    /// Nothing more.
    Stay,
    /// Close it.
    Close,
    /// Plan something else.
    Replan(Request),
    /// Ask which refusal is to be ignored.
    Override(Vec<PreflightLine>),
}

/// A plan in its dialog.
#[derive(Debug)]
pub struct PlanDialog {
    /// What was asked for.
    pub request: Request,
    /// Which answers are its own.
    pub job: Job,
    /// Where it stands.
    pub stage: Stage,
    shown_at: Timestamp,
    /// 0 is Cancel, then the fields.
    focus: usize,
    fields: Vec<(Asked, Field)>,
    armed_at: Option<Timestamp>,
    problem: Option<String>,
    doc: Doc,
}

impl PlanDialog {
    /// A dialog whose plan is being made.
    pub fn new(request: Request, job: Job, now: Timestamp) -> Self {
        Self {
            request,
            job,
            stage: Stage::Planning,
            shown_at: now,
            focus: 0,
            fields: Vec::new(),
            armed_at: None,
            problem: None,
            doc: Doc::default(),
        }
    }

    /// Asks for another plan in the same dialog; what was typed stays.
    pub fn replan(&mut self, request: Request, job: Job) {
        self.request = request;
        self.job = job;
        self.stage = Stage::Planning;
        self.armed_at = None;
        self.focus = 0;
        self.problem = None;
    }

    /// The verb asked for.
    pub const fn verb(&self) -> Verb {
        match &self.request {
            Request::Replay { .. } => Verb::Replay,
            Request::Repair { .. } => Verb::Repair,
            Request::Release { .. } => Verb::Release,
            Request::Discard { .. } => Verb::Discard,
            Request::Saga { wish, .. } => wish.verb(),
        }
    }

    /// True when keys are text.
    pub fn is_in_field(&self) -> bool {
        self.focus > 0 && matches!(self.stage, Stage::Ready(_))
    }

    /// True while a plan waits for its confirmation.
    pub const fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    /// The operation shown, when it was applied.
    pub fn operation(&self) -> Option<(&Applied, Option<&Operation>)> {
        match &self.stage {
            Stage::Done {
                applied, operation, ..
            } => Some((applied, operation.as_deref())),
            _ => None,
        }
    }

    /// Takes the plan.
    pub fn planned(&mut self, result: Result<Box<Plan>, OperateError>, now: Timestamp) {
        self.shown_at = now;
        match result {
            Ok(plan) => {
                let rules = &plan.confirm;
                let mut asked = Vec::new();
                if rules.told.is_some() {
                    asked.push(Asked::Told);
                }
                asked.push(Asked::Reason);
                if rules.ticket_pattern.is_some() {
                    asked.push(Asked::Ticket);
                }
                if rules.context_name.is_some() {
                    asked.push(Asked::ContextName);
                }
                if rules.count.is_some() {
                    asked.push(Asked::Count);
                }
                if rules.word.is_some() {
                    asked.push(Asked::Word);
                }
                let typed = std::mem::take(&mut self.fields);
                self.fields = asked
                    .into_iter()
                    .map(|asked| {
                        let kept = typed
                            .iter()
                            .find(|(other, _)| *other == asked)
                            .map(|(_, field)| field.clone());
                        (asked, kept.unwrap_or_default())
                    })
                    .collect();
                self.doc.rewind();
                self.stage = Stage::Ready(plan);
            }
            Err(error) => self.stage = Stage::NoPlan(error.to_string()),
        }
    }

    /// Takes what applying did.
    pub fn applied(&mut self, result: Result<Applied, OperateError>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Planning);
        let (Stage::Applying(plan) | Stage::Ready(plan)) = stage else {
            self.stage = stage;
            return;
        };
        self.stage = match result {
            Ok(applied) => Stage::Done {
                plan,
                applied,
                operation: None,
            },
            Err(error) => Stage::Refused {
                plan,
                problem: error.to_string(),
            },
        };
    }

    /// Takes an operation that moved on; `true` when it is this one.
    pub fn moved(&mut self, moved: &Operation) -> bool {
        match &mut self.stage {
            Stage::Done {
                applied, operation, ..
            } if applied.operation_id == moved.operation_id => {
                *operation = Some(Box::new(moved.clone()));
                true
            }
            _ => false,
        }
    }

    /// Takes a key that is text.
    pub fn key(&mut self, key: KeyEvent) {
        self.problem = None;
        if let Some((_, field)) = self
            .focus
            .checked_sub(1)
            .and_then(|i| self.fields.get_mut(i))
        {
            field.key(key);
        }
    }

    /// Takes pasted text: only a text field does.
    pub fn paste(&mut self, text: &str) {
        self.disarm();
        if let Some((_, field)) = self
            .focus
            .checked_sub(1)
            .and_then(|i| self.fields.get_mut(i))
        {
            field.paste(text);
        }
    }

    /// A key came: a confirmation that was waiting for quiet does not happen.
    pub fn disarm(&mut self) {
        if self.armed_at.take().is_some() {
            self.problem =
                Some("keys came faster than a person types: press y once, on its own".to_owned());
        }
    }

    /// When a waiting confirmation is due.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.armed_at.map(|at| at.plus(QUIET))
    }

    /// The confirmed plan, once it has been quiet since `y`.
    pub fn take_confirmed(&mut self, now: Timestamp) -> Option<(Box<Plan>, Confirmation)> {
        if self.due_at().is_none_or(|due| now < due) {
            return None;
        }
        self.armed_at = None;
        let Stage::Ready(plan) = &self.stage else {
            return None;
        };
        let plan = plan.clone();
        let confirmation = self.confirmation();
        self.stage = Stage::Applying(plan.clone());
        Some((plan, confirmation))
    }

    fn value(&self, asked: Asked) -> Option<String> {
        self.fields
            .iter()
            .find(|(other, _)| *other == asked)
            .map(|(_, field)| field.value().trim().to_owned())
    }

    fn confirmation(&self) -> Confirmation {
        Confirmation {
            reason: self.value(Asked::Reason).unwrap_or_default(),
            ticket: self.value(Asked::Ticket),
            context_name: self.value(Asked::ContextName),
            count: self
                .value(Asked::Count)
                .and_then(|text| text.replace(' ', "").parse().ok()),
            word: self.value(Asked::Word),
            told: self.value(Asked::Told),
        }
    }

    /// What is missing before it can be confirmed, and the field to go to.
    fn missing(&self, plan: &Plan) -> Option<(String, usize)> {
        let rules = &plan.confirm;
        let given = self.confirmation();
        self.fields
            .iter()
            .enumerate()
            .find_map(|(index, (asked, field))| {
                let problem = match asked {
                    Asked::Reason => given
                        .reason
                        .is_empty()
                        .then(|| "a reason is needed".to_owned()),
                    Asked::Ticket => {
                        let like = rules.ticket_pattern.as_deref().unwrap_or("?");
                        let ticket = given.ticket.as_deref().unwrap_or_default();
                        if field.is_blank() {
                            Some(format!("a ticket like {like} is needed"))
                        } else if rules.takes_ticket(ticket) {
                            None
                        } else {
                            Some(format!("a ticket like {like} is needed, this is none"))
                        }
                    }
                    // Real bytes are compared: a look-alike is another name (N-07).
                    Asked::ContextName => (given.context_name != rules.context_name)
                        .then(|| "type the context's name exactly".to_owned()),
                    Asked::Count => rules
                        .count
                        .filter(|count| given.count != Some(*count))
                        .map(|count| format!("type {count}, the number of events")),
                    Asked::Word => (given.word != rules.word)
                        .then(|| format!("type the word {}", rules.word.as_deref().unwrap_or("?"))),
                    Asked::Told => field.is_blank().then(|| {
                        format!("the {} is needed", rules.told.as_deref().unwrap_or("text"))
                    }),
                }?;
                Some((problem, index + 1))
            })
    }

    fn confirm(&mut self, is_burst: bool, now: Timestamp) {
        let Stage::Ready(plan) = &self.stage else {
            return;
        };
        if is_burst {
            self.problem =
                Some("keys came faster than a person types: press y once, on its own".to_owned());
        } else if now < self.shown_at.plus(SHOWN_MIN) {
            self.problem = Some("read it first: y works in a moment".to_owned());
        } else if let Some(line) = plan.refusals().next() {
            self.problem = Some(format!("refused ({}): {}", line.check, line.text));
        } else if let Some((problem, focus)) = self.missing(plan) {
            self.problem = Some(problem);
            self.focus = focus;
        } else {
            self.problem = None;
            self.armed_at = Some(now);
        }
    }

    /// Does what a key asks.
    pub fn act(&mut self, action: Action, is_burst: bool, now: Timestamp) -> PlanStep {
        let is_ready = self.is_ready();
        match action {
            Action::Back if self.is_in_field() => {
                self.focus = 0;
            }
            // An action on its way cannot be called back by a key; its dialog can be left.
            Action::Back => return PlanStep::Close,
            Action::NextFocus if is_ready => {
                self.focus = (self.focus + 1) % (self.fields.len() + 1);
            }
            Action::PreviousFocus if is_ready => {
                self.focus = (self.focus + self.fields.len()) % (self.fields.len() + 1);
            }
            Action::PageDown => self.doc.page_by(1),
            Action::PageUp => self.doc.page_by(-1),
            Action::Confirm => self.confirm(is_burst, now),
            Action::ThroughExchange if is_ready => {
                if let Request::Replay {
                    target,
                    through_exchange,
                    to_queue,
                    overrides,
                } = &self.request
                {
                    return PlanStep::Replan(Request::Replay {
                        target: target.clone(),
                        through_exchange: !through_exchange,
                        to_queue: to_queue.clone(),
                        overrides: overrides.clone(),
                    });
                }
            }
            Action::Resolve if is_ready => match &self.request {
                Request::Replay { target, .. }
                | Request::Discard {
                    target,
                    is_resolved: false,
                } => {
                    return PlanStep::Replan(Request::Discard {
                        target: target.clone(),
                        is_resolved: true,
                    });
                }
                _ => {}
            },
            Action::NotDone if is_ready => {
                if let Some(request) = self.other_outcome() {
                    return PlanStep::Replan(request);
                }
            }
            Action::Override if is_ready => {
                let lines = self.overridable();
                if lines.is_empty() {
                    self.problem = Some("nothing here can be overridden".to_owned());
                } else {
                    return PlanStep::Override(lines);
                }
            }
            _ => {}
        }
        PlanStep::Stay
    }

    /// The same about a saga with the other outcome: a person made sure that it is not done.
    fn other_outcome(&self) -> Option<Request> {
        match &self.request {
            Request::Saga {
                service,
                saga_id,
                step,
                wish: SagaWish::Handled { is_done, evidence },
            } => Some(Request::Saga {
                service: service.clone(),
                saga_id: saga_id.clone(),
                step: *step,
                wish: SagaWish::Handled {
                    is_done: !is_done,
                    evidence: evidence.clone(),
                },
            }),
            _ => None,
        }
    }

    /// Refusals that may be ignored when told in words.
    pub fn overridable(&self) -> Vec<PreflightLine> {
        match (&self.stage, &self.request) {
            (Stage::Ready(plan), Request::Replay { .. }) => plan
                .preflight
                .iter()
                .filter(|line| line.level == Level::Overridable)
                .cloned()
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a key does something now.
    pub fn allows(&self, action: Action) -> bool {
        let is_ready = self.is_ready();
        match action {
            Action::Confirm => matches!(&self.stage, Stage::Ready(plan) if plan.is_allowed()),
            Action::NextFocus => is_ready,
            Action::ThroughExchange => {
                is_ready
                    && matches!(
                        &self.request,
                        Request::Replay {
                            target: crate::operate::plan::Target::DeadLetter { .. },
                            ..
                        }
                    )
            }
            Action::Resolve => {
                is_ready
                    && matches!(
                        &self.request,
                        Request::Replay {
                            target: crate::operate::plan::Target::DeadLetter { .. },
                            ..
                        } | Request::Discard {
                            is_resolved: false,
                            ..
                        }
                    )
            }
            Action::Override => !self.overridable().is_empty(),
            Action::NotDone => is_ready && self.other_outcome().is_some(),
            _ => true,
        }
    }

    /// Learns the size of the screen.
    pub fn settle(&mut self, screen: Rect, world: &World) {
        let layout = view::Layout::cut(self, screen, world);
        self.doc.set(layout.lines);
        self.doc.settle(layout.text);
    }

    /// Draws itself.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        view::draw(self, screen, buf, world);
    }
}
