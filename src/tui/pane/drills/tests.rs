//! A drill from key to verdict.

use serde_json::json;

use super::*;
use crate::config::Environment;
use crate::operate::plan::Access;
use crate::tui::event::{Effect, Event, Outcome};
use crate::tui::test_support::{key, model_of, press, send, shown};
use crossterm::event::KeyCode;

const SIZE: (u16, u16) = (120, 36);

#[test]
fn only_a_sandbox_has_the_pane() {
    let mut staging = model_of(
        Environment::Staging,
        Access::Writable,
        PaneId::Overview,
        SIZE,
    );
    key(&mut staging, '0');
    assert_eq!(staging.active, PaneId::Overview);
    let text = shown(&staging);
    assert!(text.contains("drills are for sandboxes"), "{text}");
    assert!(!text.contains("0 Drills"), "{text}");

    let mut sandbox = model_of(
        Environment::Sandbox,
        Access::Writable,
        PaneId::Overview,
        SIZE,
    );
    assert!(shown(&sandbox).contains("0 Drills"));
    key(&mut sandbox, '0');
    assert_eq!(sandbox.active, PaneId::Drills);
    assert!(shown(&sandbox).contains("sent-not-marked"));
}

#[test]
fn a_drill_runs_once_and_shows_what_it_found() {
    let mut model = model_of(Environment::Sandbox, Access::Writable, PaneId::Drills, SIZE);
    let effects = key(&mut model, 'R');
    assert_eq!(effects, [Effect::Drill(1)]);
    assert!(shown(&model).contains("running"));
    assert!(key(&mut model, 'R').is_empty(), "one at a time");

    let report = json!({
        "verdict": "failed", "reason": null, "rpo_rows": 1, "rto_s": null,
        "checks": [
            {"claim": "orders confirmed", "expected": "1", "found": "1", "holds": true},
            {"claim": "pieces taken from stock", "expected": "2", "found": "4", "holds": false},
        ],
        "steps": [{"at_s": 0.25, "what": "placed 1 orders"}],
    });
    send(&mut model, Event::Outcome(Outcome::Drilled(1, Ok(report))));
    press(&mut model, KeyCode::Enter);
    let text = shown(&model);
    assert!(text.contains("failed"), "{text}");
    assert!(
        text.contains("pieces taken from stock: expected 2, found 4"),
        "{text}"
    );
    assert!(text.contains("placed 1 orders"), "{text}");

    let problem = "inventory.orders has 1 consumers".to_owned();
    send(
        &mut model,
        Event::Outcome(Outcome::Drilled(1, Err(problem))),
    );
    assert!(shown(&model).contains("inventory.orders has 1 consumers"));
}

#[test]
fn a_read_only_console_runs_none() {
    let mut model = model_of(Environment::Sandbox, Access::ReadOnly, PaneId::Drills, SIZE);
    assert!(key(&mut model, 'R').is_empty());
    assert!(shown(&model).contains("a drill writes"));
}
