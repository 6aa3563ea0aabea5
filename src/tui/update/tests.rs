//! Scripts: events in, model and effects out.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::operation::ItemState;
use crate::model::outbox::OutboxState;
use crate::operate::plan::{Applied, ItemResult, Level, OperateError, PreflightLine};
use crate::tui::event::Outcome;
use crate::tui::test_support::{
    causes, dead_letter_view, dead_letters, flow, fresh, health, key, key_event, leases, message,
    model, model_of, now, operation, outbox, outbox_row, outbox_rows, plan, press, read_ago, send,
    shown, typed,
};

const SIZE: (u16, u16) = (120, 36);

/// Dead letters with the cursor on the first row.
fn on_a_letter() -> Model {
    let mut model = model(PaneId::DeadLetters, SIZE);
    fresh(&mut model, dead_letters(9));
    press(&mut model, KeyCode::Tab);
    model
}

/// The dialog of a replay with its plan on screen.
fn with_plan(plan: crate::operate::plan::Plan) -> Model {
    let mut model = on_a_letter();
    let effects = key(&mut model, 'R');
    let job = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Plan(job, _) => Some(*job),
            _ => None,
        })
        .expect("a plan is asked for");
    send(
        &mut model,
        Event::Outcome(Outcome::Planned(job, Ok(Box::new(plan)))),
    );
    model
}

fn applies(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::Apply(..)))
}

/// Types a reason, leaves the field, presses `y`, and waits until it is quiet.
fn confirm(model: &mut Model) -> Vec<Effect> {
    press(model, KeyCode::Tab);
    typed(model, "because");
    press(model, KeyCode::Enter);
    assert!(!applies(&key(model, 'y')), "only quiet confirms");
    send(model, Event::Tick)
}

fn dialog(model: &Model) -> &PlanDialog {
    match &model.overlay {
        Some(Overlay::Plan(dialog)) => dialog,
        other => panic!("no plan dialog: {other:?}"),
    }
}

#[test]
fn number_keys_open_the_panes_and_tell_the_feeds() {
    let mut model = model(PaneId::Overview, SIZE);
    let effects = key(&mut model, '5');
    assert_eq!(model.active, PaneId::DeadLetters);
    assert!(matches!(&effects[..], [Effect::Watch(views)] if views.active == ["dead_letters"]));
    let effects = key(&mut model, '7');
    assert_eq!(model.active, PaneId::Scans);
    assert!(matches!(&effects[..], [Effect::Watch(views)] if views.active == ["scans"]));
}

#[test]
fn r_plans_and_only_y_after_a_reason_applies() {
    let mut model = with_plan(plan());
    assert!(!applies(&key(&mut model, 'y')), "no reason yet");
    assert!(shown(&model).contains("a reason is needed"));
    // The missing field has the focus now: letters are text, and Enter only moves on.
    typed(&mut model, "sku made optional, y");
    assert!(!applies(&press(&mut model, KeyCode::Enter)));
    assert!(!applies(&key(&mut model, 'y')));
    let effects = send(&mut model, Event::Tick);
    assert!(
        matches!(&effects[..], [Effect::Apply(_, _, confirmation), ..] if confirmation.reason == "sku made optional, y")
    );
    assert_eq!(model.applying.len(), 1);
}

#[test]
fn enter_and_the_triggering_key_never_confirm() {
    for code in [KeyCode::Enter, KeyCode::Char('R'), KeyCode::Char(' ')] {
        let mut model = with_plan(plan());
        press(&mut model, KeyCode::Tab);
        typed(&mut model, "because");
        press(&mut model, KeyCode::Enter);
        assert!(!applies(&press(&mut model, code)), "{code:?}");
        assert!(!applies(&send(&mut model, Event::Tick)), "{code:?}");
    }
}

#[test]
fn r_01_y_twice_applies_once() {
    let mut model = with_plan(plan());
    let effects = confirm(&mut model);
    assert!(applies(&effects));
    for _ in 0..3 {
        assert!(!applies(&key(&mut model, 'y')));
        assert!(!applies(&send(&mut model, Event::Tick)));
    }
}

#[test]
fn t_10_a_stream_of_keys_never_confirms() {
    let mut model = with_plan(plan());
    press(&mut model, KeyCode::Tab);
    typed(&mut model, "because");
    press(&mut model, KeyCode::Enter);
    // `y` and whatever follows it within a few milliseconds, as an unbracketed paste comes.
    for c in "yyxy".chars() {
        let effects = update(&mut model, key_event(KeyCode::Char(c)));
        assert!(!applies(&effects));
        model.world.now = model.world.now.plus(Duration::from_millis(1));
    }
    assert!(!applies(&send(&mut model, Event::Tick)));
    assert!(shown(&model).contains("faster than a person types"));
    // On its own it works.
    key(&mut model, 'y');
    assert!(applies(&send(&mut model, Event::Tick)));
}

#[test]
fn t_10_pasted_text_is_text_in_a_field_and_nothing_elsewhere() {
    let text = "order-42\nr\ny\nd\ny\n".to_owned();
    let mut model = on_a_letter();
    let effects = send(&mut model, Event::Paste(text.clone()));
    assert!(effects.is_empty());
    assert!(model.overlay.is_none());

    let mut model = with_plan(plan());
    send(&mut model, Event::Paste(text.clone()));
    assert!(!applies(&send(&mut model, Event::Tick)));
    press(&mut model, KeyCode::Tab);
    send(&mut model, Event::Paste(text.clone()));
    assert!(shown(&model).contains("order-42 r y d y"));

    let mut model = on_a_letter();
    key(&mut model, '/');
    send(&mut model, Event::Paste(text));
    assert!(
        matches!(&model.overlay, Some(Overlay::Line(line)) if line.value() == "order-42 r y d y")
    );
}

#[test]
fn t_10_a_plan_must_have_been_on_screen() {
    let mut model = on_a_letter();
    key(&mut model, 'R');
    let job = dialog(&model).job;
    update(
        &mut model,
        Event::Outcome(Outcome::Planned(job, Ok(Box::new(plan())))),
    );
    model.world.now = model.world.now.plus(Duration::from_millis(100));
    update(&mut model, key_event(KeyCode::Char('y')));
    assert!(shown(&model).contains("read it first"));
    assert!(!applies(&send(&mut model, Event::Tick)));
}

#[test]
fn t_09_no_confirmation_outlives_a_stop() {
    let mut model = with_plan(plan());
    press(&mut model, KeyCode::Tab);
    typed(&mut model, "because");
    press(&mut model, KeyCode::Enter);
    key(&mut model, 'y');
    model.world.now = model.world.now.plus(Duration::from_mins(5));
    let effects = update(&mut model, Event::Resumed);
    assert!(!applies(&effects));
    assert!(effects.contains(&Effect::Terminal(TerminalEffect::Redraw)));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Watch(_)))
    );
}

#[test]
fn a_refused_plan_cannot_be_confirmed_but_told_in_words_it_is_planned_again() {
    let mut refused = plan();
    refused.preflight.push(PreflightLine {
        check: "inbox_retention".into(),
        level: Level::Overridable,
        text: "older than the inbox keeps: the effect could happen twice".into(),
    });
    let mut model = with_plan(refused);
    assert!(!applies(&confirm(&mut model)));
    assert!(shown(&model).contains("refused (inbox_retention)"));
    key(&mut model, 'o');
    typed(&mut model, "inbox");
    assert!(
        press(&mut model, KeyCode::Enter).is_empty(),
        "not the name of a check"
    );
    typed(&mut model, "_retention");
    let effects = press(&mut model, KeyCode::Enter);
    assert!(
        effects.iter().any(|effect| matches!(
            effect,
            Effect::Plan(_, Request::Replay { overrides, .. }) if overrides == &["inbox_retention"]
        )),
        "{effects:?}"
    );
}

#[test]
fn production_wants_its_name_typed_exactly() {
    let mut guarded = plan();
    guarded.confirm.context_name = Some("orders".into());
    guarded.confirm.count = Some(1);
    guarded.confirm.word = Some("again".into());
    guarded.confirm.ticket_pattern = Some("OPS-####".into());
    let mut model = with_plan(guarded);
    for text in ["because", "OPS-123", "or\u{200b}ders", "1", "again"] {
        press(&mut model, KeyCode::Tab);
        typed(&mut model, text);
    }
    press(&mut model, KeyCode::Enter);
    key(&mut model, 'y');
    assert!(!applies(&send(&mut model, Event::Tick)));
    assert!(shown(&model).contains("a ticket like OPS-#### is needed, this is none"));
    assert!(shown(&model).contains("because"), "what was typed stays");
    typed(&mut model, "4");
    press(&mut model, KeyCode::Esc);
    key(&mut model, 'y');
    assert!(!applies(&send(&mut model, Event::Tick)));
    assert!(shown(&model).contains("type the context's name exactly"));
    for _ in 0.."or\u{200b}ders".chars().count() {
        press(&mut model, KeyCode::Backspace);
    }
    typed(&mut model, "orders");
    press(&mut model, KeyCode::Esc);
    key(&mut model, 'y');
    let effects = send(&mut model, Event::Tick);
    assert!(matches!(&effects[..], [Effect::Apply(_, _, c), ..]
        if c.context_name.as_deref() == Some("orders") && c.count == Some(1)
            && c.word.as_deref() == Some("again") && c.ticket.as_deref() == Some("OPS-1234")));
}

#[test]
fn a_locked_context_asks_to_be_unlocked_and_then_goes_on() {
    let mut model = model_of(
        crate::config::Environment::Production,
        Access::Locked,
        PaneId::DeadLetters,
        SIZE,
    );
    fresh(&mut model, dead_letters(3));
    press(&mut model, KeyCode::Tab);
    assert!(key(&mut model, 'R').is_empty());
    assert!(shown(&model).contains("Unlock shop"));
    typed(&mut model, "shop");
    press(&mut model, KeyCode::Enter);
    typed(&mut model, "incident 12");
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(
        effects,
        [Effect::Unlock {
            context_name: "shop".into(),
            reason: "incident 12".into()
        }]
    );
    let until = model.world.now.plus(Duration::from_mins(15));
    model.world.access = Access::Unlocked { until };
    let effects = send(
        &mut model,
        Event::Outcome(Outcome::Unlocked(Ok(Access::Unlocked { until }))),
    );
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Plan(..)))
    );
}

#[test]
fn read_only_explains_itself() {
    let mut model = model_of(
        crate::config::Environment::Production,
        Access::ReadOnly,
        PaneId::DeadLetters,
        SIZE,
    );
    fresh(&mut model, dead_letters(3));
    press(&mut model, KeyCode::Tab);
    for c in ['R', 'E', 'D', 'a', 'n', 'U'] {
        assert!(key(&mut model, c).is_empty(), "{c}");
        assert!(
            shown(&model).contains("read-only, by the configuration"),
            "{c}"
        );
    }
}

#[test]
fn progress_and_proof_reach_the_dialog() {
    let mut model = with_plan(plan());
    let effects = confirm(&mut model);
    let job = match &effects[..] {
        [Effect::Apply(job, ..), ..] => *job,
        other => panic!("{other:?}"),
    };
    let moved = operation(1, ItemState::Consumed);
    let effects = send(
        &mut model,
        Event::Outcome(Outcome::Applied(
            job,
            Ok(Applied {
                operation_id: moved.operation_id.clone(),
                verb: moved.verb,
                service: "inventory".into(),
                items: vec![ItemResult {
                    event_id: None,
                    state: ItemState::Published,
                    evidence: "confirmed by the broker".into(),
                    new_event_id: None,
                }],
            }),
        )),
    );
    assert!(effects.contains(&Effect::Prove));
    assert!(model.applying.is_empty());
    assert!(
        shown(&model).contains("✓ published  ──▶  ▶ consumed?"),
        "{}",
        shown(&model)
    );
    send(&mut model, Event::Outcome(Outcome::Proven(vec![moved])));
    assert!(shown(&model).contains("✓ published  ──▶  ✓ consumed"));
    assert!(shown(&model).contains("inbox row of inventory at 14:01:12"));
    assert!(model.following.is_empty());
    press(&mut model, KeyCode::Esc);
    assert!(model.overlay.is_none());
}

#[test]
fn a_drifted_plan_is_shown_anew_not_applied() {
    let mut model = with_plan(plan());
    confirm(&mut model);
    let job = dialog(&model).job;
    let effects = send(
        &mut model,
        Event::Outcome(Outcome::Applied(
            job,
            Err(OperateError::Refused {
                check: "drifted".into(),
                reason: "row version is 2".into(),
            }),
        )),
    );
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Plan(..)))
    );
    assert!(matches!(
        dialog(&model).stage,
        crate::tui::dialog::plan::Stage::Planning
    ));
}

#[test]
fn a_late_plan_for_another_dialog_is_dropped() {
    let mut model = on_a_letter();
    key(&mut model, 'R');
    let late = dialog(&model).job;
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Down);
    key(&mut model, 'R');
    send(
        &mut model,
        Event::Outcome(Outcome::Planned(late, Ok(Box::new(plan())))),
    );
    assert!(!dialog(&model).is_ready());
}

#[test]
fn quit_waits_for_what_is_being_applied_and_ctrl_c_twice_does_not() {
    let mut waiting = with_plan(plan());
    confirm(&mut waiting);
    press(&mut waiting, KeyCode::Esc);
    key(&mut waiting, 'q');
    assert_eq!(waiting.exit, None);
    assert!(shown(&waiting).contains("leaving when 1 action has finished"));
    let ctrl_c = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    send(&mut waiting, ctrl_c);
    assert_eq!(waiting.exit, Some(Exit::Quit));

    let mut bounded = with_plan(plan());
    confirm(&mut bounded);
    press(&mut bounded, KeyCode::Esc);
    key(&mut bounded, 'q');
    bounded.world.now = bounded.world.now.plus(QUIT_PATIENCE);
    update(&mut bounded, Event::Tick);
    assert_eq!(bounded.exit, Some(Exit::Quit));

    let mut idle = model(PaneId::Overview, SIZE);
    key(&mut idle, 'q');
    assert_eq!(idle.exit, Some(Exit::Quit));
}

#[test]
fn the_selection_is_held_by_id() {
    let mut model = model(PaneId::Outbox, SIZE);
    fresh(&mut model, outbox(5));
    press(&mut model, KeyCode::Down);
    let id = model.pane().subject(&model.world).expect("a row");
    let mut rows: Vec<_> = (1..=5)
        .rev()
        .map(|n| outbox_row(n, OutboxState::Pending))
        .collect();
    rows.insert(0, outbox_row(77, OutboxState::Pending));
    fresh(&mut model, outbox_rows(rows, OutboxState::Pending));
    assert_eq!(model.pane().subject(&model.world), Some(id));
    // The row goes: nothing is under the cursor, and nothing can be hit by accident.
    fresh(
        &mut model,
        outbox_rows(
            vec![outbox_row(9, OutboxState::Pending)],
            OutboxState::Pending,
        ),
    );
    assert_eq!(model.pane().subject(&model.world), None);
    assert!(shown(&model).contains("the row left this list"));
}

#[test]
fn r_in_the_outbox_is_for_failed_rows_only() {
    let mut model = model(PaneId::Outbox, SIZE);
    fresh(&mut model, outbox(2));
    assert!(key(&mut model, 'R').is_empty());
    press(&mut model, KeyCode::Right);
    let effects = press(&mut model, KeyCode::Right);
    assert!(
        matches!(&effects[..], [Effect::Watch(views)] if views.outbox.state == OutboxState::Failed)
    );
    fresh(
        &mut model,
        outbox_rows(
            vec![outbox_row(1, OutboxState::Failed)],
            OutboxState::Failed,
        ),
    );
    let effects = key(&mut model, 'R');
    assert!(matches!(&effects[..], [Effect::Plan(..)]), "{effects:?}");
}

#[test]
fn l_releases_expired_leases_only() {
    let mut model = model(PaneId::Leases, SIZE);
    fresh(&mut model, leases(5));
    let effects = key(&mut model, 'L');
    assert!(
        matches!(&effects[..], [Effect::Plan(_, Request::Release { .. })]),
        "{effects:?}"
    );
    press(&mut model, KeyCode::Esc);
    key(&mut model, 'G');
    assert!(key(&mut model, 'L').is_empty());
    assert!(shown(&model).contains("has not expired"));
}

#[test]
fn a_filter_works_while_it_is_typed_and_esc_takes_it_back() {
    let mut model = on_a_letter();
    key(&mut model, '/');
    typed(&mut model, "type:order.cancelled");
    assert_eq!(model.pane().export(&model.world).len(), 1);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.pane().export(&model.world).len(), 9);
    key(&mut model, '/');
    typed(&mut model, "nonsense:1");
    press(&mut model, KeyCode::Enter);
    assert!(
        shown(&model).contains("there is no field nonsense"),
        "{}",
        shown(&model)
    );
}

#[test]
fn marks_decide_what_is_exported() {
    let mut model = on_a_letter();
    key(&mut model, ' ');
    key(&mut model, ' ');
    let effects = key(&mut model, 'x');
    let Some(Effect::Export { name, body }) = effects.first() else {
        panic!("{effects:?}");
    };
    assert_eq!(name, "redrive-dead-letters-20260102T140212Z.json");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["items"].as_array().expect("items").len(), 2);
    assert_eq!(body["schema"], "redrive/1");
    assert_eq!(body["complete"], true);
}

#[test]
fn pause_stops_reading_and_the_clock() {
    let mut model = model(PaneId::Overview, SIZE);
    fresh(&mut model, flow());
    let effects = key(&mut model, 'p');
    assert!(matches!(&effects[..], [Effect::Watch(views)] if views.is_paused));
    let before = shown(&model);
    model.world.now = model.world.now.plus(Duration::from_hours(1));
    update(&mut model, Event::Tick);
    assert_eq!(shown(&model), before);
    assert_eq!(model.wake_at(), None, "nothing changes by itself");
}

#[test]
fn the_command_bar_goes_to_panes_and_runs_verbs() {
    let mut model = on_a_letter();
    key(&mut model, ':');
    typed(&mut model, "que");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.active, PaneId::Queues);
    key(&mut model, ':');
    typed(&mut model, "replay 0197c3f2");
    let effects = press(&mut model, KeyCode::Enter);
    assert!(matches!(&effects[..], [Effect::Resolve(_, id)] if id == "0197c3f2"));
    key(&mut model, ':');
    typed(&mut model, "q");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.exit, Some(Exit::Quit));
}

#[test]
fn enter_on_a_fact_goes_to_its_evidence() {
    let mut model = model(PaneId::Overview, SIZE);
    fresh(&mut model, health());
    for seconds in [1, 0] {
        fresh(&mut model, read_ago(flow(), seconds));
        fresh(&mut model, read_ago(causes(), seconds));
    }
    press(&mut model, KeyCode::Enter);
    assert_eq!(
        model.active,
        PaneId::Leases,
        "expired leases are among the worst"
    );
    key(&mut model, '1');
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.active, PaneId::Outbox);
    let (pane, _) = model.pane_and_world();
    assert_eq!(pane.filter_text(), "type:order.created.v9");
    key(&mut model, '1');
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.active, PaneId::Queues);
    let (pane, _) = model.pane_and_world();
    assert_eq!(pane.filter_text(), "queue:inventory.orders");
}

#[test]
fn a_repair_that_is_no_json_keeps_the_text() {
    let mut model = on_a_letter();
    let effects = key(&mut model, 'E');
    let Some(Effect::ReadPayload(target)) = effects.first().cloned() else {
        panic!("{effects:?}");
    };
    send(
        &mut model,
        Event::Outcome(Outcome::Edited(
            target.clone(),
            Ok(Some(b"{\"a\":".to_vec())),
        )),
    );
    assert!(shown(&model).contains("not JSON"));
    let effects = key(&mut model, 'E');
    assert!(matches!(
        &effects[..],
        [Effect::Terminal(TerminalEffect::Edit(_, payload))] if payload.bytes() == b"{\"a\":"
    ));
    let effects = send(
        &mut model,
        Event::Outcome(Outcome::Edited(target, Ok(Some(b"{\"a\":1.10}".to_vec())))),
    );
    assert!(
        matches!(&effects[0], Effect::Plan(_, Request::Repair { payload, .. }) if payload.bytes() == b"{\"a\":1.10}")
    );
}

#[test]
fn the_detail_is_asked_for_by_the_row_under_the_cursor() {
    let mut model = on_a_letter();
    let effects = press(&mut model, KeyCode::Down);
    assert!(
        matches!(&effects[..], [Effect::Watch(views)] if views.dead_letter == Some(("inventory".into(), "dl-2".into())) && views.active.contains(&"dead_letter")),
        "{effects:?}"
    );
    // An answer about another letter is not shown as if it were about this one.
    fresh(&mut model, dead_letter_view(1, message()));
    assert!(shown(&model).contains("reading …"));
    fresh(&mut model, dead_letter_view(2, message()));
    assert!(shown(&model).contains("same payload"));
}

#[test]
fn a_cause_is_asked_for_by_the_group_under_the_cursor() {
    let mut model = model(PaneId::DeadLetters, SIZE);
    fresh(&mut model, dead_letters(9));
    press(&mut model, KeyCode::Down);
    let effects = press(&mut model, KeyCode::Down);
    assert!(
        matches!(&effects[..], [Effect::Watch(views)]
            if views.dead_letters.event_type == Some(Some("order.cancelled".into()))
                && views.dead_letters.status == DeadLetterStatus::Open),
        "{effects:?}"
    );
    assert_eq!(model.pane().export(&model.world).len(), 1);
}

#[test]
fn t_12_keys_are_answered_while_nothing_was_ever_read() {
    for id in crate::tui::pane::PANES.iter().map(|spec| spec.id) {
        let mut model = model(id, SIZE);
        for c in "jkgGhl ysaRELDn><v/".chars() {
            key(&mut model, c);
        }
        press(&mut model, KeyCode::Esc);
        key(&mut model, '?');
        assert!(shown(&model).contains("Help"), "{id:?}");
        press(&mut model, KeyCode::Esc);
        key(&mut model, 'q');
        assert_eq!(model.exit, Some(Exit::Quit), "{id:?}");
    }
}

#[test]
fn hints_follow_what_was_done() {
    let mut model = model(PaneId::Overview, SIZE);
    model.hints = Some(crate::tui::Script::demo());
    key(&mut model, '2');
    assert!(shown(&model).contains("Press 5"));
    key(&mut model, '5');
    assert!(shown(&model).contains("press R"));
    assert_eq!(now().to_clock(), "14:02:11");
}

#[test]
fn nothing_is_called_well_before_what_is_wrong_would_be_said() {
    use crate::tui::test_support::{causes_calm, flow_calm};

    let mut model = model(PaneId::Overview, SIZE);
    fresh(&mut model, health());
    let mut look = |seconds| {
        fresh(&mut model, read_ago(flow_calm(), seconds));
        fresh(&mut model, read_ago(causes_calm(), seconds));
        shown(&model)
    };
    let first = look(1);
    assert!(first.contains("looking: no verdict yet"), "{first}");
    let second = look(0);
    assert!(second.contains("nothing is wrong"), "{second}");
}

#[test]
fn a_message_that_was_read_goes_with_the_next_key() {
    let mut model = on_a_letter();
    key(&mut model, ':');
    typed(&mut model, "bogus");
    press(&mut model, KeyCode::Enter);
    let said = "no command \"bogus\"";
    assert!(shown(&model).contains(said), "{}", shown(&model));
    // A key that was on its way when it came does not take it away.
    key(&mut model, 'j');
    assert!(shown(&model).contains(said), "{}", shown(&model));
    model.world.now = model.world.now.plus(Duration::from_secs(2));
    key(&mut model, 'j');
    assert!(!shown(&model).contains(said), "{}", shown(&model));
}
