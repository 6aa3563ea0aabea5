//! Where the keys go: causes, rows, detail, and the cursor in each.

use super::{Ask, DeadLetters, Part};
use crate::model::filter::Filter;
use crate::tui::keymap::Action;

impl DeadLetters {
    /// Moves the cursor of the part that has the keys.
    pub(super) fn movement(&mut self, action: Action) -> Vec<Ask> {
        if self.part == Part::Detail {
            match action {
                Action::Up => self.doc.move_by(-1),
                Action::Down => self.doc.move_by(1),
                Action::PageUp => self.doc.page_by(-1),
                Action::PageDown => self.doc.page_by(1),
                Action::First => self.doc.move_by(isize::MIN + 1),
                Action::Last => self.doc.move_by(isize::MAX),
                _ => {}
            }
            return Vec::new();
        }
        let is_groups = self.part == Part::Groups;
        let list = if is_groups {
            &mut self.groups
        } else {
            &mut self.rows
        };
        let before = list.selected_id().map(str::to_owned);
        match action {
            Action::Up => list.move_by(-1),
            Action::Down => list.move_by(1),
            Action::PageUp => list.page_by(-1),
            Action::PageDown => list.page_by(1),
            Action::First => list.select_index(0),
            Action::Last => list.select_index(usize::MAX),
            _ => {}
        }
        if list.selected_id() == before.as_deref() {
            return Vec::new();
        }
        self.doc.rewind();
        if is_groups {
            self.page = None;
            self.rows.reset();
        }
        Vec::new()
    }

    /// To the next part.
    pub(super) fn step_focus(&mut self, by: isize) {
        const PARTS: [Part; 3] = [Part::Groups, Part::Rows, Part::Detail];
        let here = PARTS
            .iter()
            .position(|part| *part == self.part)
            .unwrap_or(0);
        let next = (here + 3).saturating_add_signed(by) % 3;
        self.part = PARTS[next];
    }

    /// One step out; `true` when the rows must be chosen anew.
    pub(super) fn back(&mut self) -> bool {
        match self.part {
            Part::Detail => self.part = Part::Rows,
            Part::Rows if self.rows.clear_marks() => {}
            Part::Rows | Part::Groups if !self.filter_text.is_empty() => {
                self.filter_text.clear();
                self.filter = Filter::default();
                return true;
            }
            Part::Rows => self.part = Part::Groups,
            Part::Groups => {
                self.groups.select_index(0);
                return true;
            }
        }
        false
    }
}
