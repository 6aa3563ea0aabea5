//! A text field: typing, pasting, moving. A pasted line break becomes a blank (T-10).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use tui_input::{Input, InputRequest};

use super::paint::{self, columns};
use crate::tui::theme::{Role, Theme};

/// More than this is not taken: a reason is a sentence, not a document.
const LENGTH_MAX: usize = 500;

/// Text being typed.
#[derive(Clone, Debug, Default)]
pub struct Field {
    input: Input,
}

impl Field {
    /// A field that holds some text, the cursor at its end.
    pub fn with(text: &str) -> Self {
        Self {
            input: Input::new(text.to_owned()),
        }
    }

    /// What was typed.
    pub fn value(&self) -> &str {
        self.input.value()
    }

    /// True when nothing but blanks was typed.
    pub fn is_blank(&self) -> bool {
        self.value().trim().is_empty()
    }

    /// Replaces the text.
    pub fn set(&mut self, text: &str) {
        self.input = Input::new(text.to_owned());
    }

    /// Takes a key; `false` when the key means nothing to a text field.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let request = match (key.code, is_ctrl) {
            (KeyCode::Char('a'), true) | (KeyCode::Home, _) => InputRequest::GoToStart,
            (KeyCode::Char('e'), true) | (KeyCode::End, _) => InputRequest::GoToEnd,
            (KeyCode::Char('u'), true) => InputRequest::DeleteLine,
            (KeyCode::Char('k'), true) => InputRequest::DeleteTillEnd,
            (KeyCode::Char('w') | KeyCode::Backspace, true) => InputRequest::DeletePrevWord,
            (KeyCode::Char('h'), true) | (KeyCode::Backspace, false) => {
                InputRequest::DeletePrevChar
            }
            (KeyCode::Delete, _) => InputRequest::DeleteNextChar,
            (KeyCode::Left, false) => InputRequest::GoToPrevChar,
            (KeyCode::Right, false) => InputRequest::GoToNextChar,
            (KeyCode::Left, true) => InputRequest::GoToPrevWord,
            (KeyCode::Right, true) => InputRequest::GoToNextWord,
            (KeyCode::Char(c), false) => {
                self.insert(c);
                return true;
            }
            _ => return false,
        };
        self.input.handle(request);
        true
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: &str) {
        for c in text.trim_end_matches(['\r', '\n']).chars() {
            self.insert(if c.is_control() { ' ' } else { c });
        }
    }

    fn insert(&mut self, c: char) {
        if self.input.value().len() < LENGTH_MAX {
            self.input.handle(InputRequest::InsertChar(c));
        }
    }

    /// Draws the text in its field, the cursor when it has the focus.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme, is_focused: bool) {
        let area = area.intersection(buf.area);
        if area.width == 0 || area.height == 0 {
            return;
        }
        let style = theme.style(Role::Field);
        paint::shade(buf, Rect { height: 1, ..area }, style);
        // The part left of the cursor is scrolled so that the cursor is always seen.
        let before: String = self
            .input
            .value()
            .chars()
            .take(self.input.cursor())
            .collect();
        let after: String = self
            .input
            .value()
            .chars()
            .skip(self.input.cursor())
            .collect();
        let room = usize::from(area.width.saturating_sub(1));
        let mut shown = crate::base::text::safe(&before);
        while crate::base::text::width(&shown) > room {
            let mut rest = shown.chars();
            rest.next();
            shown = rest.as_str().to_owned();
        }
        let used = paint::put(buf, area.x, area.y, area.width, &shown, style);
        paint::put(
            buf,
            area.x + used,
            area.y,
            area.width.saturating_sub(used),
            &after,
            style,
        );
        if is_focused {
            let x = area.x + used.min(columns(room));
            if let Some(cell) = buf.cell_mut((x, area.y)) {
                cell.set_style(style.add_modifier(Modifier::REVERSED));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Field;

    #[test]
    fn t_10_pasted_line_breaks_are_text() {
        let mut field = Field::default();
        field.paste("order-42\nr\ny\nd\ny\n");
        assert_eq!(field.value(), "order-42 r y d y");
    }
}
