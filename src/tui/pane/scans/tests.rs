//! A scan from key to finding.

use super::*;
use crate::config::Environment;
use crate::operate::plan::Access;
use crate::reconcile::Outcome as Ended;
use crate::tui::event::{Effect, Event, Outcome};
use crate::tui::model::Model;
use crate::tui::test_support::{fresh, key, model_of, press, run, scans, send, shown};
use crossterm::event::KeyCode;

const SIZE: (u16, u16) = (120, 36);

fn model(access: Access) -> Model {
    let mut model = model_of(Environment::Staging, access, PaneId::Scans, SIZE);
    fresh(&mut model, scans(2));
    model.sync_pane(PaneId::Scans);
    model
}

#[test]
fn a_rule_that_was_never_run_is_not_clean() {
    let text = shown(&model(Access::Writable));
    assert!(text.contains("? never run"), "{text}");
    assert!(text.contains("? 1 part not compared"), "{text}");
    assert!(text.contains("✓ 1 200 looked at"), "{text}");
    assert!(text.contains("2 open findings"), "{text}");
}

#[test]
fn s_starts_the_rule_and_esc_stops_it() {
    let mut model = model(Access::Writable);
    let effects = key(&mut model, 'S');
    assert_eq!(effects, [Effect::Scan("sent-not-consumed".to_owned())]);
    let running = Box::new(run("sent-not-consumed", ScanState::Running, 0));
    send(&mut model, Event::Outcome(Outcome::Scanning(running)));
    let text = shown(&model);
    assert!(text.contains("▶ part 2 of 3, 1 200"), "{text}");
    assert!(text.contains("is running, Esc stops it"), "{text}");
    assert!(key(&mut model, 'S').is_empty(), "one at a time");
    assert_eq!(press(&mut model, KeyCode::Esc), [Effect::StopScan]);

    let ended = Ended {
        scan: run("sent-not-consumed", ScanState::Stopped, 0),
        found: vec![],
        not_recorded: None,
    };
    send(
        &mut model,
        Event::Outcome(Outcome::Scanned(Ok(Box::new(ended)))),
    );
    let text = shown(&model);
    assert!(text.contains("stopped before its end"), "{text}");
    assert!(model.world.scanning.is_none());
}

#[test]
fn a_finding_shows_its_evidence_and_opens_the_plan_it_suggests() {
    let mut model = model(Access::Writable);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    let text = shown(&model);
    assert!(text.contains("not there"), "{text}");
    assert!(text.contains("R opens its plan"), "{text}");
    let effects = key(&mut model, 'R');
    let id = crate::tui::test_support::event_id(1).to_string();
    assert!(
        matches!(effects.as_slice(), [Effect::Resolve(_, target)] if *target == id),
        "{effects:?}"
    );
}

#[test]
fn t_follows_the_event_of_a_finding_and_no_rule() {
    let mut model = model(Access::Writable);
    assert!(key(&mut model, 't').is_empty(), "a rule has no journey");
    press(&mut model, KeyCode::Down);
    let effects = key(&mut model, 't');
    let id = crate::tui::test_support::event_id(1).to_string();
    assert!(
        matches!(effects.as_slice(), [Effect::Trace(_, target)] if *target == id),
        "{effects:?}"
    );
}

#[test]
fn a_scan_that_is_not_kept_shows_what_it_found() {
    let mut model = model(Access::ReadOnly);
    assert_eq!(key(&mut model, 'S').len(), 1, "a scan only reads");
    let found = match &model.world.scans[1] {
        ScanRow::Finding(finding) => finding.difference.clone(),
        ScanRow::Rule(_) => panic!("a finding stands under its rule"),
    };
    let ended = Ended {
        scan: run("sent-not-consumed", ScanState::Finished, 1),
        found: vec![found],
        not_recorded: Some("not recorded: the context is read-only".to_owned()),
    };
    send(
        &mut model,
        Event::Outcome(Outcome::Scanned(Ok(Box::new(ended)))),
    );
    let text = shown(&model);
    assert!(
        text.contains("not recorded: the context is read-only"),
        "{text}"
    );
    assert!(text.contains("order.created was sent"), "{text}");
}
