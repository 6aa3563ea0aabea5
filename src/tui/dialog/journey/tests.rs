//! The journey on the screen: opened by `t`, drawn at both sizes, left by Esc or to its evidence.

use crossterm::event::KeyCode;

use crate::diagnose::journey::TraceError;
use crate::diagnose::journey::story::example;
use crate::observe::snapshot::Unread;
use crate::tui::dialog::Overlay;
use crate::tui::event::{Effect, Event, Job, Outcome, TerminalEffect};
use crate::tui::model::Model;
use crate::tui::pane::PaneId;
use crate::tui::test_support::{
    audit, dead_letters, fresh, key, leases, model, operations, outbox, press, queues, sagas, send,
    shown,
};

/// A model on a pane with rows, and what `t` asked for.
fn opened(pane: PaneId, size: (u16, u16)) -> (Model, Option<(Job, String)>) {
    let mut model = model(pane, size);
    for reading in [
        outbox(3),
        leases(3),
        queues(3),
        dead_letters(3),
        sagas(3),
        operations(3),
        audit(3),
    ] {
        fresh(&mut model, reading);
    }
    model.sync_pane(pane);
    model.settle();
    let asked = key(&mut model, 't')
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Trace(job, id) => Some((job, id)),
            _ => None,
        });
    (model, asked)
}

fn told(model: &mut Model, job: Job) {
    let story = Ok(Box::new(example()));
    send(model, Event::Outcome(Outcome::Traced(job, story)));
}

#[test]
fn t_opens_a_journey_on_every_pane_with_something_to_follow() {
    for pane in [
        PaneId::Outbox,
        PaneId::Leases,
        PaneId::DeadLetters,
        PaneId::Sagas,
        PaneId::Operations,
        PaneId::Audit,
    ] {
        let (model, asked) = opened(pane, (80, 24));
        let (_, id) = asked.unwrap_or_else(|| panic!("{pane:?} asks for a journey"));
        assert!(!id.is_empty());
        assert!(
            matches!(model.overlay, Some(Overlay::Journey(_))),
            "{pane:?}"
        );
    }
    for pane in [PaneId::Overview, PaneId::Queues] {
        let (model, asked) = opened(pane, (80, 24));
        assert_eq!(asked, None, "{pane:?}");
        assert!(model.overlay.is_none());
        assert!(model.toast.is_some(), "{pane:?} says why");
    }
}

#[test]
fn a_journey_at_both_sizes_while_read_told_and_failed() {
    let mut all = Vec::new();
    for size in [(80, 24), (120, 36)] {
        let (mut model, asked) = opened(PaneId::DeadLetters, size);
        let (job, id) = asked.expect("asked");
        all.push(format!("=== reading {size:?}\n{}", shown(&model)));
        told(&mut model, job);
        all.push(format!("=== told {size:?}\n{}", shown(&model)));
        key(&mut model, 'G');
        all.push(format!("=== at its end {size:?}\n{}", shown(&model)));
        let failed = Err(TraceError::Unread {
            id,
            unread: vec![Unread {
                what: "outbox event of orders".to_owned(),
                reason: "database of orders is not reachable: connection refused".to_owned(),
                is_unreachable: true,
            }],
        });
        send(&mut model, Event::Outcome(Outcome::Traced(job, failed)));
        all.push(format!("=== failed {size:?}\n{}", shown(&model)));
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn the_whole_story_stands_on_a_screen_of_120_by_36() {
    let (mut model, asked) = opened(PaneId::DeadLetters, (120, 36));
    told(&mut model, asked.expect("asked").0);
    let screen = shown(&model);
    for moment in &example().moments {
        let beginning: String = moment.text.chars().take(40).collect();
        assert!(screen.contains(&beginning), "{beginning}\n{screen}");
    }
    assert!(screen.contains("no gap, no conflict"), "{screen}");
}

#[test]
fn enter_goes_to_the_evidence_and_esc_goes_back() {
    let (mut model, asked) = opened(PaneId::DeadLetters, (120, 36));
    told(&mut model, asked.expect("asked").0);
    press(&mut model, KeyCode::Esc);
    assert!(model.overlay.is_none());
    assert_eq!(model.active, PaneId::DeadLetters);

    let (job, _) = key(&mut model, 't')
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Trace(job, id) => Some((job, id)),
            _ => None,
        })
        .expect("asked again");
    told(&mut model, job);
    // The first moment is the outbox row.
    press(&mut model, KeyCode::Enter);
    assert!(model.overlay.is_none());
    assert_eq!(model.active, PaneId::Outbox);
}

#[test]
fn a_line_gives_its_id_and_a_late_answer_is_dropped() {
    let (mut model, asked) = opened(PaneId::DeadLetters, (120, 36));
    let (job, _) = asked.expect("asked");
    let again = key(&mut model, 'r');
    assert!(
        matches!(again.as_slice(), [Effect::Trace(_, _)]),
        "{again:?}"
    );
    told(&mut model, job);
    assert!(
        shown(&model).contains("reading the tables"),
        "the first answer is late"
    );
    told(&mut model, job + 1);
    model.world.now = model.world.now.plus(std::time::Duration::from_secs(1));
    let copied = key(&mut model, 'y');
    let id = example().moments[0].event_id.clone().expect("an event");
    assert!(
        copied.contains(&Effect::Terminal(TerminalEffect::Copy(id.to_string()))),
        "{copied:?}"
    );
}
