//! What the tabs of a dead letter say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::dead_letter::DeadLetterStatus;
use crate::model::message::{Message, Payload};
use crate::model::page::Cursor;
use crate::observe::snapshot::Reading;
use crate::tui::model::Model;
use crate::tui::pane::PaneId;
use crate::tui::test_support::{
    dead_letter_view, dead_letters, fresh, key, letter, message, model, press, shown, typed,
};
use crate::tui::world::Fresh;
use crossterm::event::KeyCode;

const SIZE: (u16, u16) = (120, 36);

/// The pane with the letter open at its payload.
fn payload_of(body: &[u8], encoding: Option<&str>) -> Model {
    let mut message: Message = message();
    message.payload = Payload::new(body.to_vec());
    message.properties.content_encoding = encoding.map(str::to_owned);
    let mut model = model(PaneId::DeadLetters, SIZE);
    fresh(&mut model, dead_letters(3));
    fresh(&mut model, dead_letter_view(1, message));
    press(&mut model, KeyCode::Right);
    model
}

#[test]
fn p_02_a_gzip_body_is_unpacked_for_the_eye_only() {
    let body = STANDARD
        .decode(
            "H4sIAAAAAAACAw3LQQrDIBBA0bvMOhYnSUkn+14gkHWYjiNkoRXRgJTcva7/+z/QS2M5TgcrWHz5SVDN4kY2i8xq6I\
             Nsnjx6K+RQEWGA0pJ2nbiFvj6EU6lZXS8cvjUWWJGIBpCas0Zp3b73De4/OpsSZmwAAAA=",
        )
        .expect("base64");
    let mut model = payload_of(&body, Some("gzip"));
    let text = shown(&model);
    assert!(
        text.contains("unpacked for the eye, 108 B; replayed as it is"),
        "{text}"
    );
    assert!(
        text.contains(r#""amount": 1999"#),
        "JSON is laid out: {text}"
    );
    assert!(text.contains("gzip"), "{text}");
    // In hex it is what will be sent.
    key(&mut model, 'v');
    key(&mut model, 'v');
    let text = shown(&model);
    assert!(text.contains("1f 8b 08"), "{text}");
}

#[test]
fn p_02_a_body_that_says_gzip_and_is_not_is_told_and_shown_as_it_is() {
    let text = shown(&payload_of(br#"{"a":1}"#, Some("gzip")));
    assert!(text.contains("declared gzip, is not"), "{text}");
    assert!(text.contains("\"a\": 1"), "{text}");
}

#[test]
fn p_12_an_error_envelope_is_told_and_shown_as_it_is() {
    let body = br#"{"error":"reject","num_attempts":6,"payload":"eyJjYW5kaWRhdGVfaWQiOiIxIn0=","properties":"e30="}"#;
    let text = shown(&payload_of(body, None));
    assert!(
        text.contains("! the body looks like an error envelope; the original is inside"),
        "{text}"
    );
    assert!(
        text.contains("eyJjYW5kaWRhdGVfaWQiOiIxIn0="),
        "not unwrapped: {text}"
    );
}

#[test]
fn a_neighbour_that_was_replayed_is_not_called_dead() {
    for (status, says) in [
        (DeadLetterStatus::Open, "dead too"),
        (DeadLetterStatus::Replayed, ", replayed"),
        (DeadLetterStatus::Discarded, ", discarded"),
    ] {
        let mut model = payload_of(b"{}", None);
        let reading = model.world.readings.dead_letter.clone();
        let mut view = reading.value.as_deref().cloned().flatten().expect("a view");
        let mut sibling = letter(2);
        sibling.event_id = view
            .sequence
            .rows
            .iter()
            .map(|row| row.event_id.clone())
            .find(|id| view.detail.letter.event_id.as_ref() != Some(id));
        sibling.status = status;
        for row in &mut view.sequence.rows {
            row.state = crate::model::outbox::OutboxState::Sent;
        }
        view.siblings = vec![sibling];
        fresh(
            &mut model,
            Fresh::DeadLetter(Reading {
                value: Some(Some(view).into()),
                ..reading
            }),
        );
        for _ in 0..4 {
            press(&mut model, KeyCode::Right);
        }
        let text = shown(&model);
        assert!(text.contains(says), "{status:?}: {text}");
        assert_eq!(
            text.contains("dead too"),
            status == DeadLetterStatus::Open,
            "{text}"
        );
    }
}

/// One page, as the answer to the question the console asks last.
fn page(model: &mut Model, first: u64, has_more: bool) {
    let Fresh::DeadLetters(mut reading) = dead_letters(1) else {
        panic!("dead letters");
    };
    let mut value = reading.value.as_deref().cloned().expect("a value");
    let facts = value.services[0].value.as_mut().expect("read");
    facts.page.rows = (first..first + 3).map(letter).collect();
    facts.page.next = has_more.then(|| Cursor {
        at: facts.page.rows[2].last_died_at,
        id: facts.page.rows[2].dead_letter_id.to_string(),
    });
    reading.value = Some(value.into());
    reading.generation = model.views.generation;
    fresh(model, Fresh::DeadLetters(reading));
}

#[test]
fn the_rows_of_a_page_that_was_left_are_not_shown_as_the_first() {
    for way in ["<", "/type:order.created\r"] {
        let mut model = model(PaneId::DeadLetters, SIZE);
        page(&mut model, 1, true);
        key(&mut model, '>');
        page(&mut model, 22, false);
        let second = letter(22).event_id.expect("an id").to_string();
        let tail = format!("…{}", &second[second.len() - 4..]);
        assert!(shown(&model).contains(&tail), "{}", shown(&model));
        for c in way.chars() {
            match c {
                '\r' => press(&mut model, KeyCode::Enter),
                c => key(&mut model, c),
            };
        }
        assert!(!shown(&model).contains(&tail), "{way}: {}", shown(&model));
        page(&mut model, 1, true);
        // The cursor is on a row of this page, and not on one that has left it.
        assert!(shown(&model).contains("1/3"), "{way}: {}", shown(&model));
    }
}

#[test]
fn a_filter_by_status_asks_for_letters_of_that_status() {
    let mut model = model(PaneId::DeadLetters, SIZE);
    fresh(&mut model, dead_letters(3));
    key(&mut model, '/');
    typed(&mut model, "status:discarded");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.views.dead_letters.status, DeadLetterStatus::Discarded);
    key(&mut model, '/');
    for _ in 0.."status:discarded".len() {
        press(&mut model, KeyCode::Backspace);
    }
    typed(&mut model, "status:bogus");
    press(&mut model, KeyCode::Enter);
    let text = shown(&model);
    assert!(text.contains("status is never \"bogus\""), "{text}");
}
