//! `(Model, Event) -> Vec<Effect>`: synchronous and total, no I/O, no waiting. Everything the console
//! decides is decided here, so that every test is a list of events.

mod command;
mod keys;
mod outcome;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Value, json};

use super::dialog::Overlay;
use super::dialog::form::Form;
use super::dialog::journey::Journey;
use super::dialog::page::Page;
use super::dialog::plan::PlanDialog;
use super::event::{Effect, Event, TerminalEffect};
use super::keymap::Action;
use super::model::{Exit, Model};
use super::pane::drills::Ran;
use super::pane::{Ask, PaneId};
use super::widget::toast::Toast;
use super::world::Fresh;
use crate::model::filter::{Filter, FilterKind};
use crate::operate::plan::{Access, Request};

/// How long leaving waits for actions that are being applied.
pub const QUIT_PATIENCE: Duration = Duration::from_secs(10);

/// Handles one event. `model.world.now` and `model.world.access` are set by the caller.
pub fn update(model: &mut Model, event: Event) -> Vec<Effect> {
    let mut effects = match event {
        Event::Key(key) => keys::key(model, key),
        Event::Paste(text) => {
            keys::paste(model, &text);
            Vec::new()
        }
        Event::Mouse(mouse) => keys::mouse(model, mouse),
        Event::Resize(width, height) => {
            model.size = (width, height);
            Vec::new()
        }
        Event::Fresh(readings) => {
            take(model, readings);
            Vec::new()
        }
        Event::Workers(reports) => {
            model.world.workers = reports;
            model.sync_pane(PaneId::Overview);
            Vec::new()
        }
        Event::Outcome(outcome) => outcome::outcome(model, outcome),
        Event::Tick => Vec::new(),
        Event::Stop => {
            leave(model, Exit::Stopped);
            Vec::new()
        }
        Event::Resumed => resumed(model),
    };
    effects.extend(due(model));
    if let Some(hints) = model.hints.take() {
        model.hints = Some(hints.next(model));
    }
    effects.extend(watch(model, false));
    model.settle();
    effects
}

/// What time alone brings about.
fn due(model: &mut Model) -> Vec<Effect> {
    let now = model.world.now;
    let mut effects = Vec::new();
    if model.toast.as_ref().is_some_and(|toast| toast.until <= now) {
        model.toast = None;
    }
    if let Some(Overlay::Plan(dialog)) = &mut model.overlay
        && let Some((plan, confirmation)) = dialog.take_confirmed(now)
    {
        let job = dialog.job;
        model.applying.insert(job);
        effects.push(Effect::Apply(job, plan, confirmation));
    }
    if let Some(since) = model.quit_since
        && (model.applying.is_empty() || now >= since.plus(QUIT_PATIENCE))
    {
        model.exit.get_or_insert(Exit::Quit);
    }
    effects
}

/// Leaves, when what is being applied has finished.
fn leave(model: &mut Model, exit: Exit) {
    if model.applying.is_empty() {
        model.exit = Some(exit);
    } else {
        model.quit_since.get_or_insert(model.world.now);
        model.toast = Some(Toast::note(
            format!(
                "leaving when {} action{} finished; ctrl-c: at once",
                model.applying.len(),
                if model.applying.len() == 1 {
                    " has"
                } else {
                    "s have"
                }
            ),
            model.world.now,
        ));
    }
}

/// Back from a stop: nothing that was half done goes on by itself, everything is read and drawn anew.
fn resumed(model: &mut Model) -> Vec<Effect> {
    if let Some(Overlay::Plan(dialog)) = &mut model.overlay {
        dialog.disarm();
    }
    let mut effects = vec![Effect::Terminal(TerminalEffect::Redraw)];
    effects.extend(watch(model, true));
    effects
}

/// Takes new readings; each pane they are for takes them over once.
fn take(model: &mut Model, readings: Vec<Fresh>) {
    let mut of = Vec::new();
    for fresh in readings {
        let pane = pane_of(&fresh);
        if !of.contains(&pane) {
            of.push(pane);
        }
        if let Fresh::Operations(reading) = &fresh
            && let Some(Overlay::Plan(dialog)) = &mut model.overlay
            && let Some(value) = reading.value.as_deref()
        {
            let services = value.services.iter();
            for operation in services.filter_map(|part| part.value.as_ref()).flatten() {
                dialog.moved(operation);
            }
        }
        model.world.take(fresh);
    }
    // A pane that is not on screen takes over what was read when it is opened; the Overview keeps
    // a history and must see every reading.
    of.retain(|pane| *pane == model.active || *pane == PaneId::Overview);
    for pane in of {
        model.sync_pane(pane);
    }
}

/// The pane that shows a reading.
fn pane_of(fresh: &Fresh) -> PaneId {
    match fresh {
        Fresh::Flow(_) | Fresh::Health(_) | Fresh::Causes(_) => PaneId::Overview,
        Fresh::Outbox(_) => PaneId::Outbox,
        Fresh::Leases(_) => PaneId::Leases,
        Fresh::Queues(_) => PaneId::Queues,
        Fresh::DeadLetters(_) | Fresh::DeadLetter(_) => PaneId::DeadLetters,
        Fresh::Sagas(_) => PaneId::Sagas,
        Fresh::Scans(_) => PaneId::Scans,
        Fresh::Operations(_) => PaneId::Operations,
        Fresh::Audit(_) => PaneId::Audit,
    }
}

/// Tells the feeds what is looked at, if that changed or must be read again.
fn watch(model: &mut Model, is_forced: bool) -> Option<Effect> {
    let mut views = model.views.clone();
    views.is_paused = model.world.paused_at.is_some();
    views.active = vec![model.active.spec().feed];
    views.dead_letter = None;
    model.pane().watch(&mut views);
    if views.dead_letter.is_some() {
        views.active.push("dead_letter");
    }
    let is_proof_open =
        matches!(&model.overlay, Some(Overlay::Plan(dialog)) if dialog.operation().is_some());
    if is_proof_open && !views.active.contains(&"operations") {
        views.active.push("operations");
    }
    if !is_forced && views == model.views {
        return None;
    }
    views.generation = model.views.generation + 1;
    model.views = views.clone();
    Some(Effect::Watch(Box::new(views)))
}

/// Goes to a pane.
fn go(model: &mut Model, id: PaneId, target: Option<&str>) {
    if !id.is_in(model.world.context.environment) {
        let text = "drills are for sandboxes: this context is none";
        model.toast = Some(Toast::note(text, model.world.now));
        return;
    }
    model.active = id;
    model.sync_pane(id);
    if let Some(target) = target {
        let (pane, world) = model.pane_and_world();
        // The outbox shows one state at a time: it takes its filter apart itself.
        let filter = pane
            .filter_kind()
            .filter(|kind| *kind != FilterKind::Outbox && target.contains(':'))
            .and_then(|kind| Filter::parse_for(kind, target).ok());
        match filter {
            Some(filter) => pane.set_filter(target, filter, world),
            None => pane.select(target, world),
        }
    }
}

/// Asks for a journey, in the view that is open or in a new one.
fn journey(model: &mut Model, id: String) -> Effect {
    let job = model.new_job();
    match &mut model.overlay {
        Some(Overlay::Journey(view)) => view.wait(job),
        _ => model.overlay = Some(Overlay::Journey(Box::new(Journey::new(id.clone(), job)))),
    }
    Effect::Trace(job, id)
}

/// Does what a pane asks for.
fn asks(model: &mut Model, asks: Vec<Ask>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for ask in asks {
        effects.extend(self::ask(model, ask));
    }
    effects
}

fn ask(model: &mut Model, ask: Ask) -> Vec<Effect> {
    match ask {
        Ask::Explain(why) => {
            model.toast = Some(Toast::note(why, model.world.now));
            Vec::new()
        }
        Ask::Go(pane, target) => {
            go(model, pane, target.as_deref());
            Vec::new()
        }
        Ask::Page(title, lines) => {
            model.overlay = Some(Overlay::Page(Page::new(title, lines)));
            Vec::new()
        }
        Ask::Resolve(id) => {
            let job = model.new_job();
            vec![Effect::Resolve(job, id)]
        }
        Ask::Scan(rule) => {
            let text = format!("{rule} is starting; Esc stops it");
            model.toast = Some(Toast::note(text, model.world.now));
            vec![Effect::Scan(rule)]
        }
        Ask::StopScan => {
            model.toast = Some(Toast::note("stopping the scan …", model.world.now));
            vec![Effect::StopScan]
        }
        Ask::Drill(number) => {
            let rows = &mut model.world.drills;
            if let Some(row) = rows.iter_mut().find(|row| row.number == number) {
                row.ran = Ran::Now;
                let text = format!("drill {number} {} is running …", row.name);
                model.toast = Some(Toast::note(text, model.world.now));
            }
            model.sync_pane(PaneId::Drills);
            vec![Effect::Drill(number)]
        }
        Ask::VerifyAudit => {
            model.toast = Some(Toast::note("checking the audit chains …", model.world.now));
            vec![Effect::VerifyAudit]
        }
        Ask::Watch => {
            let effect = watch(model, true);
            let feed = model.active.spec().feed;
            model.world.ask(feed, model.views.generation);
            model.sync_pane(model.active);
            effect.into_iter().collect()
        }
        acting @ (Ask::Plan(_) | Ask::Repair(_) | Ask::Annotate { .. }) => act(model, acting),
    }
}

/// Starts an action, or says what stands in its way.
fn act(model: &mut Model, ask: Ask) -> Vec<Effect> {
    if !model.world.is_writable() {
        if model.world.access == Access::ReadOnly {
            model.toast = Some(Toast::bad(
                "read-only, by the configuration or --read-only: nothing can be changed from here",
                model.world.now,
            ));
        } else {
            model.pending = Some(ask);
            model.overlay = Some(Overlay::Form(Form::unlock(&model.world)));
        }
        return Vec::new();
    }
    match ask {
        Ask::Plan(request) => plan(model, request),
        Ask::Repair(target) => match &model.draft {
            // An edit that was not taken is not lost: the editor opens with it.
            Some((of, bytes)) if *of == target => {
                vec![Effect::Terminal(TerminalEffect::Edit(
                    target,
                    crate::model::message::Payload::new(bytes.clone()),
                ))]
            }
            _ => vec![Effect::ReadPayload(target)],
        },
        Ask::Annotate {
            service,
            id,
            what,
            current,
        } => {
            model.overlay = Some(Overlay::Form(Form::annotate(service, id, what, &current)));
            Vec::new()
        }
        other => self::ask(model, other),
    }
}

/// Asks for a plan, in the dialog that is open or in a new one.
fn plan(model: &mut Model, request: Request) -> Vec<Effect> {
    let job = model.new_job();
    match &mut model.overlay {
        Some(Overlay::Plan(dialog)) => dialog.replan(request.clone(), job),
        _ => {
            model.overlay = Some(Overlay::Plan(Box::new(PlanDialog::new(
                request.clone(),
                job,
                model.world.now,
            ))));
        }
    }
    vec![Effect::Plan(job, request)]
}

/// What the keys of every pane do.
fn everywhere(model: &mut Model, action: Action) -> Option<Vec<Effect>> {
    let now = model.world.now;
    Some(match action {
        Action::Pane(id) => {
            go(model, id, None);
            Vec::new()
        }
        Action::Quit => {
            leave(model, Exit::Quit);
            Vec::new()
        }
        Action::Interrupt => {
            if model.quit_since.is_some() {
                model.exit = Some(Exit::Quit);
            } else {
                leave(model, Exit::Quit);
            }
            Vec::new()
        }
        Action::Suspend => vec![Effect::Terminal(TerminalEffect::Suspend)],
        Action::Redraw => vec![Effect::Terminal(TerminalEffect::Redraw)],
        Action::Help => {
            let spec = model.active.spec();
            let page = Page::help(spec.title, spec.scope, model.pane().filter_kind());
            model.overlay = Some(Overlay::Page(page));
            Vec::new()
        }
        Action::Pause => {
            model.world.paused_at = match model.world.paused_at {
                None => Some(now),
                Some(_) => None,
            };
            Vec::new()
        }
        Action::Refresh => {
            if model.world.paused_at.is_some() {
                model.toast = Some(Toast::note("paused: p goes on reading", now));
                return Some(Vec::new());
            }
            model.toast = Some(Toast::note("reading again …", now));
            watch(model, true).into_iter().collect()
        }
        Action::Copy => {
            if let Some(id) = model.pane().subject(&model.world) {
                return Some(vec![Effect::Terminal(TerminalEffect::Copy(id))]);
            }
            model.toast = Some(Toast::note("nothing to copy is under the cursor", now));
            Vec::new()
        }
        Action::Journey => {
            if let Some(id) = model.pane().journey(&model.world) {
                return Some(vec![journey(model, id)]);
            }
            model.toast = Some(Toast::note(
                "nothing under the cursor has a journey: choose an event, a dead letter, a saga or an operation; \
                 `redrive trace ID` takes any id",
                now,
            ));
            Vec::new()
        }
        Action::Export => vec![export(model)],
        Action::Unlock => match model.world.access {
            Access::Locked => {
                model.overlay = Some(Overlay::Form(Form::unlock(&model.world)));
                Vec::new()
            }
            Access::Unlocked { .. } => {
                model.toast = Some(Toast::good("locked again", now));
                vec![Effect::Lock]
            }
            Access::ReadOnly => {
                model.toast = Some(Toast::bad(
                    "read-only, by the configuration or --read-only: it cannot be unlocked",
                    now,
                ));
                Vec::new()
            }
            Access::Writable => {
                model.toast = Some(Toast::note("this context is not locked", now));
                Vec::new()
            }
        },
        _ => return None,
    })
}

/// The rows on screen in the envelope of the command line.
fn export(model: &Model) -> Effect {
    let spec = model.active.spec();
    let standing = model.world.readings.standing(spec.feed);
    let unread: Vec<Value> = standing
        .unread
        .iter()
        .filter_map(|unread| serde_json::to_value(unread).ok())
        .collect();
    let body = json!({
        "schema": "redrive/1",
        "kind": spec.word,
        "context": model.world.context.name,
        "as_of": standing.read_at,
        "complete": unread.is_empty() && standing.problem.is_none(),
        "unread": unread,
        "items": model.pane().export(&model.world),
    });
    let stamp = model.world.now.to_datetime().map_or_else(
        || "now".to_owned(),
        |at| at.format("%Y%m%dT%H%M%SZ").to_string(),
    );
    Effect::Export {
        name: format!("redrive-{}-{stamp}.json", spec.word.replace('_', "-")),
        body: format!("{body:#}\n"),
    }
}
