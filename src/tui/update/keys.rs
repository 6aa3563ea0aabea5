//! Keys, pasted text and the mouse.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};

use super::{asks, command, everywhere, plan};
use crate::model::filter::Filter;
use crate::tui::dialog::Overlay;
use crate::tui::dialog::form::{Form, FormStep};
use crate::tui::dialog::journey::JourneyStep;
use crate::tui::dialog::line::{Kind, LineEdit, LineStep};
use crate::tui::dialog::plan::PlanStep;
use crate::tui::event::{Effect, TerminalEffect};
use crate::tui::keymap::{self, Action};
use crate::tui::layout::Areas;
use crate::tui::model::Model;
use crate::tui::view;
use crate::tui::widget::toast::Toast;

/// Keys closer together than this come from a stream, not from a person (held keys repeat slower).
const HUMAN_GAP: Duration = Duration::from_millis(12);

/// One key.
pub fn key(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let now = model.world.now;
    model.is_burst = model
        .last_key_at
        .is_some_and(|last| now < last.plus(HUMAN_GAP));
    model.last_key_at = Some(now);
    // Who goes on has read it.
    model.toast.take_if(|toast| toast.is_read(now));
    if let Some(Overlay::Plan(dialog)) = &mut model.overlay {
        dialog.disarm();
    }
    let scopes = model.scopes();
    let Some(binding) = keymap::find(&scopes, key) else {
        text(model, key);
        return Vec::new();
    };
    let action = binding.action;
    // A confirmation that came too fast says so itself.
    if binding.is_guarded && model.is_burst && action != Action::Confirm {
        model.toast = Some(Toast::note(
            format!(
                "{} ignored: keys came faster than a person types",
                binding.name
            ),
            now,
        ));
        return Vec::new();
    }
    if matches!(action, Action::Interrupt | Action::Suspend | Action::Redraw) {
        return everywhere(model, action).unwrap_or_default();
    }
    match &model.overlay {
        Some(_) => overlay(model, action, key.code == KeyCode::Enter),
        None => pane(model, action),
    }
}

/// A key that no table knows: text, where text is taken.
fn text(model: &mut Model, key: KeyEvent) {
    match &mut model.overlay {
        Some(Overlay::Plan(dialog)) if dialog.is_in_field() => dialog.key(key),
        Some(Overlay::Form(form)) => form.key(key),
        Some(Overlay::Line(line)) => {
            line.key(key);
            preview(model);
        }
        Some(Overlay::Plan(_) | Overlay::Page(_) | Overlay::Journey(_)) | None => {}
    }
}

/// Pasted text: text in a field, nothing anywhere else (T-10).
pub fn paste(model: &mut Model, text: &str) {
    match &mut model.overlay {
        Some(Overlay::Plan(dialog)) => dialog.paste(text),
        Some(Overlay::Form(form)) => form.paste(text),
        Some(Overlay::Line(line)) => {
            line.paste(text);
            preview(model);
        }
        Some(Overlay::Page(_) | Overlay::Journey(_)) | None => {
            model.toast = Some(Toast::note(
                "pasted text does nothing here; / filters",
                model.world.now,
            ));
        }
    }
}

/// A filter takes effect while it is typed, as soon as it can be read.
fn preview(model: &mut Model) {
    let Some(Overlay::Line(line)) = &model.overlay else {
        return;
    };
    let Kind::Filter(kind) = line.kind else {
        return;
    };
    let text = line.value().trim().to_owned();
    if let Ok(filter) = Filter::parse_for(kind, &text) {
        let (pane, world) = model.pane_and_world();
        pane.set_filter(&text, filter, world);
    }
}

pub(super) fn pane(model: &mut Model, action: Action) -> Vec<Effect> {
    match action {
        Action::Filter => {
            open_filter(model);
            return Vec::new();
        }
        Action::Command => {
            model.overlay = Some(Overlay::Line(LineEdit::new(
                Kind::Command,
                "",
                &model.contexts,
            )));
            return Vec::new();
        }
        _ => {}
    }
    if let Some(effects) = everywhere(model, action) {
        return effects;
    }
    let (pane, world) = model.pane_and_world();
    let wanted = pane.act(action, world);
    asks(model, wanted)
}

fn open_filter(model: &mut Model) {
    let pane = model.pane();
    let (kind, text) = if pane.is_in_detail() {
        (Kind::Search, String::new())
    } else if let Some(kind) = pane.filter_kind() {
        (Kind::Filter(kind), pane.filter_text().to_owned())
    } else {
        model.toast = Some(Toast::note(
            "nothing to filter here; filters belong to the panes with rows",
            model.world.now,
        ));
        return;
    };
    model.overlay = Some(Overlay::Line(LineEdit::new(kind, &text, &[])));
}

fn overlay(model: &mut Model, action: Action, is_enter: bool) -> Vec<Effect> {
    let now = model.world.now;
    let is_burst = model.is_burst;
    match &mut model.overlay {
        Some(Overlay::Page(page)) => {
            if page.act(action) {
                model.overlay = None;
            }
            Vec::new()
        }
        Some(Overlay::Journey(view)) => {
            let step = view.act(action);
            journey_step(model, step)
        }
        Some(Overlay::Form(form)) => {
            let step = form.act(action, is_enter, &model.world);
            form_step(model, step)
        }
        Some(Overlay::Line(line)) => {
            let kind = line.kind;
            let step = line.act(action);
            line_step(model, kind, step)
        }
        Some(Overlay::Plan(dialog)) => match dialog.act(action, is_burst, now) {
            PlanStep::Stay => Vec::new(),
            PlanStep::Close => {
                model.overlay = None;
                Vec::new()
            }
            PlanStep::Replan(request) => plan(model, request),
            PlanStep::Override(lines) => {
                let request = dialog.request.clone();
                let checks = lines.iter().map(|line| line.check.clone()).collect();
                let reasons = lines
                    .iter()
                    .map(|line| format!("✖ {}: {}", line.check, line.text))
                    .collect();
                model.overlay = Some(Overlay::Form(Form::overriding(request, checks, reasons)));
                Vec::new()
            }
        },
        None => Vec::new(),
    }
}

fn journey_step(model: &mut Model, step: JourneyStep) -> Vec<Effect> {
    match step {
        JourneyStep::Stay => Vec::new(),
        JourneyStep::Close => {
            model.overlay = None;
            Vec::new()
        }
        JourneyStep::Again(id) => {
            model.toast = Some(Toast::note("reading again …", model.world.now));
            vec![super::journey(model, id)]
        }
        JourneyStep::Go(pane, target) => {
            model.overlay = None;
            super::go(model, pane, Some(&target));
            Vec::new()
        }
        JourneyStep::Copy(id) => vec![Effect::Terminal(TerminalEffect::Copy(id))],
        JourneyStep::Explain(why) => {
            model.toast = Some(Toast::note(why, model.world.now));
            Vec::new()
        }
    }
}

fn form_step(model: &mut Model, step: FormStep) -> Vec<Effect> {
    match step {
        FormStep::Stay => Vec::new(),
        FormStep::Close => {
            model.overlay = None;
            model.pending = None;
            Vec::new()
        }
        FormStep::Send(effect) => {
            model.overlay = None;
            vec![effect]
        }
        FormStep::Plan(request) => {
            model.overlay = None;
            plan(model, request)
        }
    }
}

fn line_step(model: &mut Model, kind: Kind, step: LineStep) -> Vec<Effect> {
    match (kind, step) {
        (_, LineStep::Stay) => {
            preview(model);
            Vec::new()
        }
        (Kind::Filter(of), LineStep::Close(before)) => {
            model.overlay = None;
            if let Ok(filter) = Filter::parse_for(of, &before) {
                let (pane, world) = model.pane_and_world();
                pane.set_filter(&before, filter, world);
            }
            Vec::new()
        }
        (_, LineStep::Close(_)) => {
            model.overlay = None;
            Vec::new()
        }
        (Kind::Filter(of), LineStep::Take(text)) => {
            let text = text.trim().to_owned();
            match Filter::parse_whole(of, &text) {
                Ok(filter) => {
                    model.overlay = None;
                    let (pane, world) = model.pane_and_world();
                    pane.set_filter(&text, filter, world);
                    pane.land(world);
                }
                Err(error) => refuse(model, error.to_string()),
            }
            Vec::new()
        }
        (Kind::Search, LineStep::Take(text)) => {
            model.overlay = None;
            let (pane, _) = model.pane_and_world();
            if !pane.search(text.trim()) {
                model.toast = Some(Toast::note(
                    format!("no {text:?} in this text"),
                    model.world.now,
                ));
            }
            Vec::new()
        }
        (Kind::Command, LineStep::Take(text)) => {
            model.overlay = None;
            command::run(model, &text)
        }
    }
}

fn refuse(model: &mut Model, problem: String) {
    if let Some(Overlay::Line(line)) = &mut model.overlay {
        line.refuse(problem);
    }
}

/// The mouse: a click selects a tab or a row, the wheel scrolls.
pub fn mouse(model: &mut Model, mouse: MouseEvent) -> Vec<Effect> {
    let steps = match mouse.kind {
        MouseEventKind::ScrollUp => Some(Action::Up),
        MouseEventKind::ScrollDown => Some(Action::Down),
        _ => None,
    };
    if let Some(action) = steps {
        return (0..3)
            .flat_map(|_| match &model.overlay {
                None => pane(model, action),
                Some(Overlay::Page(_) | Overlay::Journey(_)) => overlay(model, action, false),
                Some(_) => Vec::new(),
            })
            .collect();
    }
    // Nothing in a dialog can be clicked: a confirmation is typed.
    if mouse.kind != MouseEventKind::Down(MouseButton::Left) || model.overlay.is_some() {
        return Vec::new();
    }
    let areas = Areas::cut(model.screen(), model.hints.is_some());
    let at = (mouse.column, mouse.row);
    if at.1 == areas.tabs.y {
        if let Some(id) = view::tab_at(model, areas.tabs, at.0) {
            super::go(model, id, None);
        }
        return Vec::new();
    }
    if areas.body.contains(at.into()) {
        let (pane, world) = model.pane_and_world();
        let wanted = pane.click(at, areas.body, world);
        return asks(model, wanted);
    }
    Vec::new()
}
