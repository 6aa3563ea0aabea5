//! T-15: what each kind of terminal is sent. Colour is used as far as the terminal takes it, and
//! nothing on the screen is told by colour alone.

use crate::pty::{Console, LEAVE_SCREEN};
use crate::start;

/// The console with the rows of its dead letters under the cursor.
fn at_the_letters(environment: &[(&str, &str)]) -> Console {
    let mut console = start(&["demo", "--seed", "7"], environment);
    console.wait_for("Verdicts");
    console.press("5");
    console.wait_for("allowed");
    console.press("\t");
    console.wait("a row under the cursor", |console| {
        selected_row(console).is_some_and(|row| row.is_reversed || row.is_filled)
    });
    console
}

/// Parameters of every SGR sequence that was written.
fn styles(written: &str) -> Vec<Vec<String>> {
    written
        .split("\x1b[")
        .skip(1)
        .filter_map(|part| {
            let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
            part[end..].starts_with('m').then(|| {
                part[..end]
                    .split([';', ':'])
                    .map(ToOwned::to_owned)
                    .collect()
            })
        })
        .collect()
}

/// True when a colour was chosen with `38`/`48` in this form (`2`: 24 bits, `5`: of a table).
fn chooses(styles: &[Vec<String>], form: &str) -> bool {
    styles.iter().any(|style| {
        style
            .windows(2)
            .any(|pair| (pair[0] == "38" || pair[0] == "48") && pair[1] == form)
    })
}

/// True when one of the 16 colours was chosen.
fn has_base_colour(styles: &[Vec<String>]) -> bool {
    styles.iter().flatten().any(|parameter| {
        parameter
            .parse::<u32>()
            .is_ok_and(|n| matches!(n, 30..=37 | 40..=47 | 90..=97 | 100..=107))
    })
}

/// How the row under the cursor stands out.
struct Selected {
    /// Its mark, which is there without any style.
    has_mark: bool,
    is_reversed: bool,
    /// Bold on a background of its own.
    is_filled: bool,
}

/// The marked row of the lower list.
fn selected_row(console: &Console) -> Option<Selected> {
    let screen = console.screen.screen();
    let (_, columns) = screen.size();
    let (row, text) = (0..)
        .zip(screen.rows(0, columns))
        .filter(|(_, text)| text.starts_with('▸') && text.contains('…'))
        .last()?;
    let cell = screen.cell(row, 3)?;
    Some(Selected {
        has_mark: text.starts_with('▸'),
        is_reversed: cell.inverse(),
        is_filled: cell.bold() && cell.bgcolor() != vt100::Color::Default,
    })
}

fn leave(mut console: Console) -> Vec<Vec<String>> {
    console.press("q");
    console.wait_written(LEAVE_SCREEN);
    let styles = styles(&console.written);
    console.end();
    styles
}

#[test]
fn t_15_no_color_means_none() {
    let console = at_the_letters(&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]);
    let row = selected_row(&console).expect("a selection");
    assert!(row.is_reversed && row.has_mark);
    let styles = leave(console);
    assert!(
        !chooses(&styles, "2") && !chooses(&styles, "5"),
        "{styles:?}"
    );
    assert!(!has_base_colour(&styles), "{styles:?}");
}

#[test]
fn t_15_a_terminal_of_16_colours_is_sent_no_others() {
    for term in ["linux", "screen", "xterm"] {
        let console = at_the_letters(&[("TERM", term)]);
        let row = selected_row(&console).expect("a selection");
        assert!(row.has_mark && (row.is_reversed || row.is_filled), "{term}");
        let styles = leave(console);
        assert!(!chooses(&styles, "2"), "TERM={term}: 24 bits: {styles:?}");
        assert!(
            !chooses(&styles, "5"),
            "TERM={term}: 256 colours: {styles:?}"
        );
        assert!(has_base_colour(&styles), "TERM={term}: has colours");
    }
}

#[test]
fn t_15_true_colour_is_used_only_when_the_terminal_says_so() {
    let styles = leave(at_the_letters(&[("TERM", "xterm-256color")]));
    assert!(
        chooses(&styles, "5") && !chooses(&styles, "2"),
        "{styles:?}"
    );
    let styles = leave(at_the_letters(&[
        ("TERM", "xterm-256color"),
        ("COLORTERM", "truecolor"),
    ]));
    assert!(chooses(&styles, "2"), "{styles:?}");
}

#[test]
fn t_15_terminals_without_colour_get_none() {
    for term in ["xterm-mono", "vt220"] {
        let console = at_the_letters(&[("TERM", term), ("COLORTERM", "truecolor")]);
        let row = selected_row(&console).expect("a selection");
        assert!(row.has_mark && row.is_reversed, "{term}");
        let styles = leave(console);
        assert!(!has_base_colour(&styles), "{term}: {styles:?}");
        assert!(!chooses(&styles, "2") && !chooses(&styles, "5"), "{term}");
    }
}
