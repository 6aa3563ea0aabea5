//! The guided line of the demo: what to press next. Each step goes when it has been done.

use super::dialog::Overlay;
use super::model::Model;
use super::pane::PaneId;

/// What shows that a step was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// This pane is open.
    Pane(PaneId),
    /// A plan waits for its confirmation.
    PlanShown,
    /// A plan was applied.
    Applied,
    /// Its items have their final state.
    Proven,
    /// The dialog is closed.
    Closed,
    /// Never: the last line stays.
    Never,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to press, and why.
    pub text: String,
    /// What shows that it was done.
    pub until: Until,
}

/// Steps in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    steps: Vec<Step>,
    at: usize,
}

impl Script {
    /// A script of one's own.
    pub const fn new(steps: Vec<Step>) -> Self {
        Self { steps, at: 0 }
    }

    /// How to see a replay consumed.
    pub fn demo() -> Self {
        let step = |text: &str, until| Step {
            text: text.to_owned(),
            until,
        };
        Self::new(vec![
            step(
                "This is a live pipeline. Press 5: some events died on their way.",
                Until::Pane(PaneId::DeadLetters),
            ),
            step(
                "Press Tab to reach the rows, choose one that is allowed, press R: the plan of its replay.",
                Until::PlanShown,
            ),
            step(
                "Nothing is sent yet. Tab, type a reason, Enter, then y.",
                Until::Applied,
            ),
            step(
                "Published under its own id. Watch: consumed when its inbox row appears, else it died again.",
                Until::Proven,
            ),
            step("That is the proof. Esc closes the dialog.", Until::Closed),
            step(
                "8 has the operation, 9 its audit entries, 1 the whole flow, ? every key, q leaves.",
                Until::Never,
            ),
        ])
    }

    /// The line to show.
    pub fn text(&self) -> Option<&str> {
        self.steps.get(self.at).map(|step| step.text.as_str())
    }

    /// True when the step on screen has been done.
    fn is_done(&self, model: &Model) -> bool {
        let plan = match &model.overlay {
            Some(Overlay::Plan(dialog)) => Some(dialog),
            _ => None,
        };
        match self.steps.get(self.at).map(|step| step.until) {
            Some(Until::Pane(pane)) => model.active == pane,
            Some(Until::PlanShown) => plan.is_some_and(|dialog| dialog.is_ready()),
            Some(Until::Applied) => plan.is_some_and(|dialog| dialog.operation().is_some()),
            Some(Until::Proven) => plan.is_none_or(|dialog| {
                dialog.operation().is_some_and(|(applied, operation)| {
                    operation.map_or_else(
                        || applied.items.iter().all(|item| item.state.is_final()),
                        |operation| operation.items.iter().all(|item| item.state.is_final()),
                    )
                })
            }),
            Some(Until::Closed) => plan.is_none(),
            Some(Until::Never) | None => false,
        }
    }

    /// The script after whatever just happened.
    pub fn next(&self, model: &Model) -> Self {
        let mut script = self.clone();
        while script.is_done(model) {
            script.at += 1;
        }
        script
    }
}
