//! How the panes look: each one empty, loading, typical, huge, stale, failing and read-only, at 80×24
//! and 120×36; colours by region; no size and no state panics.

use std::time::{Duration, Instant};

use crossterm::event::KeyCode;
use proptest::prelude::*;

use super::{PANES, PaneId};
use crate::config::Environment;
use crate::model::message::{FieldTable, FieldValue, Message, Payload, Properties};
use crate::observe::snapshot::Reading;
use crate::operate::plan::Access;
use crate::tui::event::{Event, Outcome};
use crate::tui::model::Model;
use crate::tui::test_support::{
    audit, causes, causes_calm, dead_letter_view, dead_letters, draw, event_id, flow, flow_calm,
    fresh, health, key, key_event, leases, message, model, model_of, operations, outbox, plan,
    press, queues, read_ago, sagas, scans, shown, text_of, theme, unread,
};
use crate::tui::theme::{Depth, Role, Theme, ThemeName};
use crate::tui::update::update;
use crate::tui::world::Fresh;

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 36)];

/// Everything a pane may show, with about `n` rows.
fn fill(model: &mut Model, n: u32) {
    fresh(model, health());
    // Two looks agree: then it is said.
    for seconds in [1, 0] {
        fresh(
            model,
            read_ago(if n == 0 { flow_calm() } else { flow() }, seconds),
        );
        fresh(
            model,
            read_ago(if n == 0 { causes_calm() } else { causes() }, seconds),
        );
    }
    fresh(model, outbox(n.into()));
    fresh(model, leases(n));
    fresh(model, queues(n.into()));
    fresh(model, dead_letters(n.into()));
    fresh(model, sagas(n.into()));
    fresh(model, scans(n.into()));
    fresh(model, operations(n.into()));
    fresh(model, audit(n.into()));
    if n > 0 {
        fresh(model, dead_letter_view(1, message()));
    }
    model.sync_pane(model.active);
    model.settle();
}

fn failing<T: Clone>(reading: &Reading<T>) -> Reading<T> {
    Reading {
        problem: Some("database of orders is not reachable: connection refused".into()),
        ..reading.clone()
    }
}

/// Every feed says that nothing answers.
fn fail(model: &mut Model, had: bool) {
    if had {
        fill(model, 9);
        model.world.now = model.world.now.plus(Duration::from_secs(12));
    }
    let readings = model.world.readings.clone();
    for event in [
        Fresh::Flow(failing(&readings.flow)),
        Fresh::Causes(failing(&readings.causes)),
        Fresh::Outbox(failing(&readings.outbox)),
        Fresh::Leases(failing(&readings.leases)),
        Fresh::Queues(failing(&readings.queues)),
        Fresh::DeadLetters(failing(&readings.dead_letters)),
        Fresh::Sagas(failing(&readings.sagas)),
        Fresh::Scans(failing(&readings.scans)),
        Fresh::Operations(failing(&readings.operations)),
        Fresh::Audit(failing(&readings.audit)),
    ] {
        fresh(model, event);
    }
}

fn state(name: &str, pane: PaneId, size: (u16, u16)) -> Model {
    let mut model = match name {
        "read-only" => model_of(Environment::Production, Access::ReadOnly, pane, size),
        _ => model(pane, size),
    };
    match name {
        "loading" => {}
        "empty" => fill(&mut model, 0),
        "typical" | "read-only" => fill(&mut model, 9),
        "huge" => fill(&mut model, 250),
        "stale" => fail(&mut model, true),
        "error" => fail(&mut model, false),
        other => panic!("no state {other}"),
    }
    model
}

const STATES: [&str; 7] = [
    "typical",
    "empty",
    "loading",
    "huge",
    "stale",
    "error",
    "read-only",
];

#[test]
fn every_pane_in_every_state_at_both_sizes() {
    for spec in PANES {
        let mut all: Vec<String> = Vec::new();
        for name in STATES {
            for size in SIZES {
                let screen = shown(&state(name, spec.id, size));
                all.push(format!("=== {name} {}x{}\n{screen}", size.0, size.1));
            }
        }
        insta::assert_snapshot!(spec.word, all.concat());
    }
}

#[test]
fn details_and_dialogs() {
    let mut all: Vec<String> = Vec::new();
    for spec in PANES.iter().filter(|spec| spec.id != PaneId::Overview) {
        let mut model = state("typical", spec.id, SIZES[1]);
        press(&mut model, KeyCode::Enter);
        if spec.id == PaneId::DeadLetters {
            for tab in ["Why", "Payload", "Headers", "Deaths", "Inbox", "Sequence"] {
                let mut model = state("typical", spec.id, SIZES[1]);
                press(&mut model, KeyCode::Tab);
                press(&mut model, KeyCode::Tab);
                for _ in 0..["Why", "Payload", "Headers", "Deaths", "Inbox", "Sequence"]
                    .iter()
                    .position(|other| *other == tab)
                    .expect("listed")
                {
                    press(&mut model, KeyCode::Right);
                }
                all.push(format!("=== dead letter, {tab}\n{}", shown(&model)));
            }
        } else {
            all.push(format!("=== {} detail\n{}", spec.word, shown(&model)));
        }
    }
    insta::assert_snapshot!("details", all.concat());
}

fn dialog(size: (u16, u16), environment: Environment) -> Model {
    let mut model = model_of(environment, Access::Writable, PaneId::DeadLetters, size);
    fill(&mut model, 9);
    press(&mut model, KeyCode::Tab);
    key(&mut model, 'R');
    let mut plan = plan();
    plan.environment = environment;
    if environment == Environment::Production {
        plan.confirm.context_name = Some("shop".into());
    }
    let job = match &model.overlay {
        Some(crate::tui::dialog::Overlay::Plan(dialog)) => dialog.job,
        other => panic!("{other:?}"),
    };
    update(
        &mut model,
        Event::Outcome(Outcome::Planned(job, Ok(Box::new(plan)))),
    );
    model
}

#[test]
fn the_replay_dialog() {
    let mut all: Vec<String> = Vec::new();
    for size in SIZES {
        for environment in [Environment::Staging, Environment::Production] {
            let mut model = dialog(size, environment);
            press(&mut model, KeyCode::Tab);
            all.push(format!("=== {environment:?} {}x{}\n", size.0, size.1));
            all.push(shown(&model));
        }
    }
    let mut model = model(PaneId::DeadLetters, SIZES[0]);
    fill(&mut model, 9);
    key(&mut model, '?');
    all.push(format!("=== help\n{}", shown(&model)));
    press(&mut model, KeyCode::Esc);
    key(&mut model, '/');
    key(&mut model, 'a');
    all.push(format!("=== filter\n{}", shown(&model)));
    insta::assert_snapshot!("dialogs", all.concat());
}

#[test]
fn what_is_wrong_is_red_and_what_is_unknown_is_neither_zero_nor_green() {
    let model = state("typical", PaneId::Overview, SIZES[1]);
    let buf = draw(&model);
    let colour_of = |needle: &str| {
        let text = text_of(&buf);
        let (y, row) = text
            .lines()
            .enumerate()
            .find(|(_, row)| row.contains(needle))
            .unwrap_or_else(|| panic!("{needle} in {text}"));
        let byte = row.find(needle).expect("there");
        let x = row[..byte].chars().count();
        buf.cell((
            u16::try_from(x).expect("small"),
            u16::try_from(y).expect("small"),
        ))
        .expect("inside")
        .style()
    };
    let role = |role| theme().style(role).fg;
    assert_eq!(
        colour_of("inventory.orders has 0 consumers").fg,
        role(Role::Bad)
    );
    assert_eq!(
        colour_of("9 dead letters are open in 2 causes").fg,
        role(Role::Warn)
    );
    assert_eq!(colour_of(" staging ").bg, theme().style(Role::Staging).bg);

    let model = state("loading", PaneId::Overview, SIZES[1]);
    let text = shown(&model);
    assert!(text.contains("db ?") && text.contains("amqp ?"), "{text}");
    assert!(
        !text.contains('✓'),
        "nothing is healthy that was not read: {text}"
    );

    let mut model = state("typical", PaneId::Queues, SIZES[1]);
    key(&mut model, 'G');
    assert!(shown(&model).contains("other.4"), "{}", shown(&model));
    let row = shown(&model)
        .lines()
        .find(|row| row.contains("other.4"))
        .expect("there")
        .to_owned();
    assert!(row.contains('?') && !row.contains(" 0 "), "{row}");
}

#[test]
fn an_unreadable_service_is_named_with_its_reason() {
    let mut model = model(PaneId::Outbox, SIZES[1]);
    fresh(&mut model, outbox(3));
    let mut snapshot = model
        .world
        .readings
        .outbox
        .value
        .as_deref()
        .expect("read")
        .clone();
    snapshot.services.push(unread("inventory", "outbox"));
    let reading = Reading {
        value: Some(snapshot.into()),
        ..model.world.readings.outbox.clone()
    };
    fresh(&mut model, Fresh::Outbox(reading));
    let text = shown(&model);
    assert!(
        text.contains("outbox of inventory: database of inventory is not reachable: connection refused since 14:02:11"),
        "{text}"
    );
    assert!(text.contains("inventory ?"), "{text}");
}

#[test]
fn p_10_nothing_a_stranger_wrote_reaches_the_terminal_as_a_control() {
    let mut hostile = message();
    hostile.payload =
        Payload::new(b"{\"n\":\"\x1b]0;PWNED\x07\x1b[2J\xc2\x9b31m\x7f\xe2\x80\xae\"}".to_vec());
    let mut model = model(PaneId::DeadLetters, SIZES[1]);
    fresh(&mut model, dead_letters(3));
    fresh(&mut model, dead_letter_view(1, hostile));
    press(&mut model, KeyCode::Right);
    for _ in 0..2 {
        for cell in &draw(&model).content {
            assert!(
                !cell
                    .symbol()
                    .chars()
                    .any(|c| c.is_control() || c == '\u{202e}'),
                "{:?}",
                cell.symbol()
            );
        }
        press(&mut model, KeyCode::Right);
    }
}

#[test]
fn t_15_without_colour_everything_can_still_be_told() {
    let mut model = state("typical", PaneId::DeadLetters, SIZES[0]);
    model.world.theme = Theme::new(ThemeName::Dark, Depth::None, false);
    let buf = draw(&model);
    for cell in &buf.content {
        let style = cell.style();
        assert!(
            style.fg.is_none_or(|c| c == ratatui::style::Color::Reset)
                && style.bg.is_none_or(|c| c == ratatui::style::Color::Reset)
        );
    }
    let text = text_of(&buf);
    assert!(text.contains('▸'), "the cursor has a glyph: {text}");
    let mut screen = crate::tui::screen::Screen::new(Vec::new());
    screen.show(buf).expect("writes");
    let bytes = String::from_utf8(screen.writer().clone()).expect("text");
    for colour in ["[0;3", "[0;4", ";38;", ";48;", "[0;9"] {
        assert!(
            !bytes.contains(colour) || colour == "[0;4" && !bytes.contains("[0;4;4"),
            "{colour}"
        );
    }
}

#[test]
fn t_14_an_ascii_terminal_gets_ascii() {
    for spec in PANES {
        let mut model = state("typical", spec.id, SIZES[0]);
        model.world.theme = Theme::new(ThemeName::Dark, Depth::Sixteen, true);
        assert!(shown(&model).is_ascii(), "{}", spec.word);
    }
}

#[test]
fn t_01_every_screen_and_dialog_at_every_size() {
    let sizes = [
        (80, 24),
        (46, 44),
        (60, 15),
        (61, 15),
        (40, 10),
        (20, 5),
        (10, 3),
        (2, 2),
        (1, 1),
        (0, 0),
        (300, 5),
    ];
    for spec in PANES {
        for name in ["typical", "error", "stale"] {
            let mut model = state(name, spec.id, SIZES[0]);
            for open in ["", "?", "/", ":", "R", "U", "\t"] {
                if let Some(c) = open.chars().next() {
                    press(&mut model, KeyCode::Char(c));
                }
                for size in sizes {
                    update(&mut model, Event::Resize(size.0, size.1));
                    let text = shown(&model);
                    if size.0 >= 40 && (size.0 < 60 || size.1 < 15) && size.1 > 0 {
                        assert!(text.contains("terminal too small (needs 60×15)"), "{text}");
                    }
                }
                press(&mut model, KeyCode::Esc);
            }
        }
    }
    let mut model = dialog(SIZES[0], Environment::Production);
    for size in sizes {
        update(&mut model, Event::Resize(size.0, size.1));
        draw(&model);
    }
    update(&mut model, Event::Resize(80, 24));
    assert!(
        shown(&model).contains("Replay 0197c3f2"),
        "the dialog came back"
    );
}

#[test]
fn t_04_big_payloads_and_many_headers() {
    let many: FieldTable = (0..3_000)
        .map(|n| (format!("x-header-{n}"), FieldValue::text("v".repeat(40))))
        .collect();
    let bodies = [
        Payload::new(format!("{{\"a\":\"{}\"}}", "x".repeat(1_048_576))),
        Payload::new("line\n".repeat(100_000)),
        Payload::new(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        Payload::new(vec![0xff; 1_048_576]),
    ];
    for payload in bodies {
        let mut model = model(PaneId::DeadLetters, SIZES[1]);
        fresh(&mut model, dead_letters(3));
        fresh(
            &mut model,
            dead_letter_view(
                1,
                Message {
                    properties: Properties {
                        headers: many.clone(),
                        ..Properties::default()
                    },
                    payload,
                },
            ),
        );
        press(&mut model, KeyCode::Tab);
        press(&mut model, KeyCode::Tab);
        press(&mut model, KeyCode::Right);
        for code in [
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
        ] {
            press(&mut model, code);
            draw(&model);
        }
        press(&mut model, KeyCode::Right);
        press(&mut model, KeyCode::End);
        assert!(shown(&model).contains("x-header-2999"));
        assert!(
            shown(&model).contains("/3 "),
            "the position is shown: {}",
            shown(&model)
        );
    }
}

#[test]
fn a_key_is_on_screen_within_a_frame() {
    let mut model = state("huge", PaneId::DeadLetters, SIZES[1]);
    press(&mut model, KeyCode::Tab);
    let mut times: Vec<Duration> = (0..200)
        .map(|n| {
            let started = Instant::now();
            update(
                &mut model,
                key_event(if n % 2 == 0 {
                    KeyCode::Down
                } else {
                    KeyCode::Up
                }),
            );
            draw(&model);
            started.elapsed()
        })
        .collect();
    times.sort();
    // The bound is the requirement; a debug build on a busy machine is held to its median.
    let median = times[times.len() / 2];
    assert!(median < Duration::from_millis(16), "{median:?}");
}

#[test]
fn the_row_count_that_is_shown_is_the_whole() {
    let mut model = state("huge", PaneId::DeadLetters, SIZES[1]);
    press(&mut model, KeyCode::Tab);
    let text = shown(&model);
    assert!(text.contains("250 open in 2 causes"), "{text}");
    assert!(text.contains("/250"), "{text}");
    assert_eq!(event_id(1).as_str().len(), 36);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn t_03_resize_storms_never_panic_and_never_confirm(
        pane in 0_usize..8,
        rows in 0_u32..30,
        steps in prop::collection::vec((0_u16..250, 0_u16..80, 0_usize..12), 1..12),
    ) {
        let mut model = model(PANES[pane].id, (80, 24));
        fill(&mut model, rows);
        let keys = [
            KeyCode::Down, KeyCode::Up, KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Right,
            KeyCode::Char('?'), KeyCode::Char('R'), KeyCode::Char('/'), KeyCode::End, KeyCode::PageDown, KeyCode::Char('y'),
        ];
        for (width, height, choice) in steps {
            let before = model.pane().subject(&model.world);
            let effects = update(&mut model, Event::Resize(width, height));
            prop_assert!(effects.is_empty());
            prop_assert_eq!(before, model.pane().subject(&model.world));
            draw(&model);
            let effects = press(&mut model, keys[choice]);
            prop_assert!(!effects.iter().any(|e| matches!(e, crate::tui::event::Effect::Apply(..))));
            draw(&model);
        }
    }
}
