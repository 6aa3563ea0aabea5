//! One saga in full, its keys, and the ways to the message that blocks it.

use crossterm::event::KeyCode;

use crate::operate::plan::{Request, SagaWish};
use crate::tui::dialog::Overlay;
use crate::tui::event::Effect;
use crate::tui::model::Model;
use crate::tui::pane::PaneId;
use crate::tui::test_support::{event_id, fresh, key, model, press, sagas, shown};

fn pane(size: (u16, u16)) -> Model {
    let mut model = model(PaneId::Sagas, size);
    fresh(&mut model, sagas(7));
    model.sync_pane(PaneId::Sagas);
    model.settle();
    model
}

/// The pane with the cursor on the saga of `ord-<n>`.
fn at(n: i64, size: (u16, u16)) -> Model {
    let mut model = pane(size);
    for _ in 0..7 {
        let cursor = shown(&model);
        let is_here = cursor
            .lines()
            .any(|line| line.contains('▸') && line.contains(&format!("ord-{n} ")));
        if is_here {
            return model;
        }
        key(&mut model, 'j');
    }
    panic!("no row of ord-{n}");
}

#[test]
fn a_saga_in_full() {
    let mut all = Vec::new();
    for size in [(80, 24), (120, 36)] {
        for n in [1, 2, 4, 5, 6] {
            let mut model = at(n, size);
            press(&mut model, KeyCode::Enter);
            model.settle();
            all.push(format!(
                "=== ord-{n} {}x{}\n{}",
                size.0,
                size.1,
                shown(&model)
            ));
        }
    }
    insta::assert_snapshot!("saga_details", all.concat());
}

fn asked(effects: &[Effect]) -> Option<&Request> {
    effects.iter().find_map(|effect| match effect {
        Effect::Plan(_, request) => Some(request),
        _ => None,
    })
}

#[test]
fn uppercase_keys_ask_for_a_plan_about_the_saga_under_the_cursor() {
    let wishes = [
        ('T', SagaWish::Retry),
        ('Q', SagaWish::Query),
        ('C', SagaWish::Compensate),
        ('A', SagaWish::Assign { owner: None }),
        (
            'H',
            SagaWish::Handled {
                is_done: true,
                evidence: None,
            },
        ),
    ];
    for (pressed, wanted) in wishes {
        let mut model = at(1, (120, 36));
        let effects = key(&mut model, pressed);
        match asked(&effects) {
            Some(Request::Saga { saga_id, wish, .. }) => {
                assert!(saga_id.as_str().ends_with("0001"));
                assert_eq!(*wish, wanted, "{pressed}");
            }
            other => panic!("{pressed}: {other:?}"),
        }
    }
}

#[test]
fn handled_can_be_turned_into_not_done() {
    let mut model = at(1, (120, 36));
    key(&mut model, 'H');
    let Some(Overlay::Plan(dialog)) = &mut model.overlay else {
        panic!("no dialog");
    };
    let mut plan = crate::tui::test_support::plan();
    plan.verb = crate::model::operation::Verb::SagaHandled;
    plan.event_id = None;
    plan.destination = None;
    plan.payload = None;
    plan.header_changes = Vec::new();
    plan.headline = "order ord-1  running  v4".to_owned();
    plan.confirm.told = Some("evidence".to_owned());
    dialog.planned(Ok(Box::new(plan)), model.world.now);
    press(&mut model, KeyCode::Tab);
    let screen = shown(&model);
    insta::assert_snapshot!("handled_dialog", screen);
    press(&mut model, KeyCode::Esc);
    let effects = key(&mut model, 'n');
    match asked(&effects) {
        Some(Request::Saga {
            wish: SagaWish::Handled { is_done, .. },
            ..
        }) => assert!(!is_done),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_message_that_blocks_it_is_one_key_away() {
    let wanted = format!("id:{}", event_id(1));
    let mut model = at(1, (120, 36));
    press(&mut model, KeyCode::Right);
    assert_eq!(model.active, PaneId::DeadLetters);
    assert_eq!(model.pane().filter_text(), wanted);
    let mut model = at(1, (120, 36));
    key(&mut model, 'o');
    assert_eq!(model.active, PaneId::Outbox);
    assert_eq!(model.pane().filter_text(), wanted);
    assert_eq!(model.views.outbox.event, Some(event_id(1)));
}
