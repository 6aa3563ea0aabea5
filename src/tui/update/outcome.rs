//! What came of an effect.

use serde_json::Value;

use super::{act, plan, watch};
use crate::model::operation::{ItemState, Operation};
use crate::model::scan::ScanState;
use crate::operate::plan::{Access, Applied, OperateError, Plan, Request, Target};
use crate::reconcile::Outcome as Ended;
use crate::tui::dialog::Overlay;
use crate::tui::dialog::page::Page;
use crate::tui::dialog::plan::Stage;
use crate::tui::event::{Effect, Job, Outcome, TerminalEffect};
use crate::tui::model::Model;
use crate::tui::pane::PaneId;
use crate::tui::pane::browser::short_id;
use crate::tui::pane::drills::Ran;
use crate::tui::theme::Role;
use crate::tui::widget::paint::Span;
use crate::tui::widget::toast::Toast;

/// Differences shown of a scan that is not kept.
const SHOWN_MAX: usize = 200;

/// Handles one outcome.
pub fn outcome(model: &mut Model, outcome: Outcome) -> Vec<Effect> {
    let now = model.world.now;
    let mut bad = |text: String| model.toast = Some(Toast::bad(text, now));
    match outcome {
        Outcome::Planned(job, result) => {
            planned(model, job, result);
            Vec::new()
        }
        Outcome::Applied(job, result) => applied(model, job, result),
        Outcome::Resolved(_, Ok(target)) => act(
            model,
            crate::tui::pane::Ask::Plan(Request::Replay {
                target,
                through_exchange: false,
                to_queue: None,
                overrides: Vec::new(),
            }),
        ),
        Outcome::Resolved(_, Err(error))
        | Outcome::Unlocked(Err(error))
        | Outcome::Annotated(Err(error))
        | Outcome::PayloadRead(_, Err(error)) => {
            bad(error.to_string());
            Vec::new()
        }
        Outcome::Traced(job, told) => {
            if let Some(Overlay::Journey(view)) = &mut model.overlay
                && view.job == job
            {
                model.toast = None;
                view.take(told);
            }
            Vec::new()
        }
        Outcome::Proven(operations) => proven(model, &operations),
        Outcome::ProofProblem(problem) => {
            // Nobody waits for proof: the feeds say what is not reachable.
            if !model.following.is_empty() {
                bad(format!("proof cannot be looked for: {problem}"));
            }
            Vec::new()
        }
        Outcome::Unlocked(Ok(access)) => unlocked(model, access),
        Outcome::Annotated(Ok(())) => {
            model.toast = Some(Toast::good("written", now));
            watch(model, true).into_iter().collect()
        }
        Outcome::Verified(chains) => {
            model.toast = None;
            model.overlay = Some(Overlay::Page(Page::new(
                "Audit chains",
                chain_lines(&chains),
            )));
            Vec::new()
        }
        Outcome::PayloadRead(target, Ok(payload)) => {
            if std::str::from_utf8(payload.bytes()).is_err() {
                bad("the payload is not text: an editor would damage it".to_owned());
                return Vec::new();
            }
            vec![Effect::Terminal(TerminalEffect::Edit(target, payload))]
        }
        Outcome::Edited(target, result) => edited(model, target, result),
        Outcome::Exported(Ok(path)) => {
            model.toast = Some(Toast::good(format!("written to {}", path.display()), now));
            Vec::new()
        }
        Outcome::Exported(Err(why)) => {
            bad(format!("not exported: {why}"));
            Vec::new()
        }
        Outcome::Scanning(scan) => {
            model.world.scanning = Some(*scan);
            model.world.lay_out_scans();
            model.sync_pane(PaneId::Scans);
            Vec::new()
        }
        Outcome::Scanned(result) => {
            model.world.scanning = None;
            scanned(model, result);
            model.world.lay_out_scans();
            model.sync_pane(PaneId::Scans);
            watch(model, true).into_iter().collect()
        }
        Outcome::Drilled(number, result) => {
            drilled(model, number, result);
            Vec::new()
        }
        Outcome::Copied(id) => {
            model.toast = Some(Toast::good(format!("copied {id}"), now));
            Vec::new()
        }
    }
}

/// Says how a scan ended; what is not kept is shown at once.
fn scanned(model: &mut Model, result: Result<Box<Ended>, String>) {
    let now = model.world.now;
    let ended = match result {
        Ok(ended) => ended,
        Err(problem) => {
            model.toast = Some(Toast::bad(problem, now));
            return;
        }
    };
    let scan = &ended.scan;
    let mut told = vec![format!("{}: {} found", scan.rule, ended.found.len())];
    if !scan.not_compared.is_empty() {
        told.push(format!("{} parts not compared", scan.not_compared.len()));
    }
    if scan.state != ScanState::Finished {
        told.push(format!("{} before its end", scan.state.word()));
    }
    let text = told.join(", ");
    model.toast = Some(if scan.is_clean() {
        Toast::good(text, now)
    } else {
        Toast::bad(text, now)
    });
    if let Some(why) = &ended.not_recorded {
        let mut lines = vec![vec![Span::new(why.clone(), Role::Warn)], Vec::new()];
        lines.extend(ended.found.iter().take(SHOWN_MAX).map(|difference| {
            vec![
                Span::new(format!("{}  ", difference.class), Role::Warn),
                Span::new(difference.summary.clone(), Role::Text),
            ]
        }));
        let more = ended.found.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            lines.push(vec![Span::new(format!("and {more} more"), Role::Dim)]);
        }
        model.overlay = Some(Overlay::Page(Page::new("Scan", lines)));
    }
}

/// Keeps a drill's report, and says how it ended.
fn drilled(model: &mut Model, number: u8, result: Result<Value, String>) {
    let now = model.world.now;
    let rows = &mut model.world.drills;
    let Some(row) = rows.iter_mut().find(|row| row.number == number) else {
        return;
    };
    row.ran = match result {
        Ok(report) => Ran::Report(report),
        Err(problem) => Ran::Problem(problem),
    };
    let mut text = format!("drill {number} {}: {}", row.name, row.verdict());
    if let Some(why) = row.why() {
        text.push_str(": ");
        text.push_str(&why);
    }
    model.toast = Some(if row.verdict() == "passed" {
        Toast::good(text, now)
    } else {
        Toast::bad(text, now)
    });
    model.sync_pane(PaneId::Drills);
}

/// The plan dialog, if the answer is for it.
fn planned(model: &mut Model, job: Job, result: Result<Box<Plan>, OperateError>) {
    if let Some(Overlay::Plan(dialog)) = &mut model.overlay
        && dialog.job == job
    {
        dialog.planned(result, model.world.now);
    }
}

fn applied(model: &mut Model, job: Job, result: Result<Applied, OperateError>) -> Vec<Effect> {
    let now = model.world.now;
    model.applying.remove(&job);
    if let Ok(applied) = &result
        && applied.items.iter().any(|item| !item.state.is_final())
    {
        model.following.insert(applied.operation_id.clone());
    }
    let mut effects = vec![Effect::Prove];
    let drifted = matches!(&result, Err(OperateError::Refused { check, .. }) if check == "drifted");
    match &mut model.overlay {
        Some(Overlay::Plan(dialog)) if dialog.job == job => {
            if drifted && matches!(dialog.stage, Stage::Applying(_)) {
                // What was approved is not what is there any more: shown anew, confirmed anew.
                let request = dialog.request.clone();
                model.toast = Some(Toast::bad(
                    "it changed since the plan: nothing was done, planned again",
                    now,
                ));
                effects.extend(plan(model, request));
            } else {
                dialog.applied(result);
            }
        }
        _ => {
            model.toast = Some(match result {
                Ok(applied) => summary(
                    applied.verb.word(),
                    applied.items.iter().map(|item| item.state),
                    now,
                ),
                Err(error) => Toast::bad(error.to_string(), now),
            });
        }
    }
    effects.extend(watch(model, true));
    effects
}

fn proven(model: &mut Model, operations: &[Operation]) -> Vec<Effect> {
    let now = model.world.now;
    for operation in operations {
        let is_shown = match &mut model.overlay {
            Some(Overlay::Plan(dialog)) => dialog.moved(operation),
            _ => false,
        };
        let is_final = operation.items.iter().all(|item| item.state.is_final());
        let is_followed = if is_final {
            model.following.remove(&operation.operation_id)
        } else {
            model.following.contains(&operation.operation_id)
        };
        if is_followed && !is_shown {
            let event = operation
                .items
                .first()
                .and_then(|item| item.event_id.as_ref())
                .map_or_else(String::new, |id| format!(" {}", short_id(id.as_str())));
            model.toast = Some(summary(
                &format!("{}{event}", operation.verb.word()),
                operation.items.iter().map(|item| item.state),
                now,
            ));
        }
    }
    if operations.is_empty() {
        Vec::new()
    } else {
        watch(model, true).into_iter().collect()
    }
}

/// `replay 0197…: consumed`
fn summary(
    what: &str,
    states: impl Iterator<Item = ItemState> + Clone,
    now: crate::base::clock::Timestamp,
) -> Toast {
    let words = states
        .clone()
        .map(|state| state.word().replace('_', " "))
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!("{what}: {words}");
    let mut states = states;
    if states
        .clone()
        .all(|state| matches!(state, ItemState::Consumed | ItemState::Applied))
    {
        Toast::good(text, now)
    } else if states.any(|state| {
        matches!(
            state,
            ItemState::DiedAgain | ItemState::Unroutable | ItemState::Refused
        )
    }) {
        Toast::bad(text, now)
    } else {
        Toast::note(text, now)
    }
}

fn unlocked(model: &mut Model, access: Access) -> Vec<Effect> {
    model.world.access = access;
    model.toast = Some(Toast::good(
        match model.world.unlocked_for() {
            Some(left) => format!("unlocked for {}", crate::base::human::duration(left)),
            None => "unlocked".to_owned(),
        },
        model.world.now,
    ));
    match model.pending.take() {
        // The key that met the lock is what was wanted.
        Some(ask) => act(model, ask),
        None => Vec::new(),
    }
}

fn chain_lines(chains: &[(String, Result<i64, String>)]) -> Vec<Vec<Span>> {
    let mut lines: Vec<Vec<Span>> = chains
        .iter()
        .map(|(service, result)| match result {
            Ok(entries) => vec![
                Span::new("✓ ", Role::Good),
                Span::new(format!("{service:<14} "), Role::Strong),
                Span::new(
                    format!(
                        "{entries} entr{}, every hash follows from the one before",
                        if *entries == 1 { "y" } else { "ies" }
                    ),
                    Role::Text,
                ),
            ],
            Err(fault) => vec![
                Span::new("✖ ", Role::Bad),
                Span::new(format!("{service:<14} "), Role::Strong),
                Span::new(fault.clone(), Role::Bad),
            ],
        })
        .collect();
    if lines.is_empty() {
        lines.push(vec![Span::new("? no service has a journal", Role::Unknown)]);
    }
    lines
}

fn edited(
    model: &mut Model,
    target: Target,
    result: Result<Option<Vec<u8>>, String>,
) -> Vec<Effect> {
    let now = model.world.now;
    match result {
        Err(why) => {
            model.toast = Some(Toast::bad(format!("not edited: {why}"), now));
            Vec::new()
        }
        Ok(None) => {
            model.toast = Some(Toast::note("nothing was changed: no repair", now));
            Vec::new()
        }
        Ok(Some(bytes)) => {
            model.draft = Some((target.clone(), bytes.clone()));
            if let Err(error) = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes) {
                model.toast = Some(Toast::bad(
                    format!("not JSON: {error}; E edits your text again"),
                    now,
                ));
                return Vec::new();
            }
            plan(
                model,
                Request::Repair {
                    target,
                    payload: crate::model::message::Payload::new(bytes),
                },
            )
        }
    }
}
