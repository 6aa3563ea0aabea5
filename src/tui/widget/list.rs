//! A cursor over rows that is held by id, not by position: a refresh never moves it to a neighbour.

use std::collections::BTreeSet;

/// Cursor, marks and scroll of one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListState {
    ids: Vec<String>,
    selected: Option<String>,
    /// Where the selected row was last seen; the next move starts there when it is gone.
    index: usize,
    top: usize,
    height: usize,
    marks: BTreeSet<String>,
    has_more: bool,
}

impl ListState {
    /// Takes the rows' ids in their new order. The cursor stays on its row wherever that went. A
    /// row that left takes the cursor with it: no action can hit a neighbour by accident.
    pub fn sync(&mut self, ids: Vec<String>) {
        self.ids = ids;
        match &self.selected {
            None => self.select_index(0),
            Some(id) => {
                if let Some(index) = self.ids.iter().position(|other| other == id) {
                    self.index = index;
                }
            }
        }
        if !self.marks.is_empty() {
            let there: BTreeSet<&String> = self.ids.iter().collect();
            self.marks.retain(|mark| there.contains(mark));
        }
        self.scroll();
    }

    /// Says that these rows are one page of more, so that a page is never taken for the whole.
    pub fn set_has_more(&mut self, has_more: bool) {
        self.has_more = has_more;
    }

    /// Forgets everything: another list is shown.
    pub fn reset(&mut self) {
        let height = self.height;
        *self = Self {
            height,
            ..Self::default()
        };
    }

    /// How many rows are visible.
    pub fn set_height(&mut self, height: usize) {
        self.height = height;
        self.scroll();
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The first visible row.
    pub fn top(&self) -> usize {
        self.top
    }

    /// The visible rows.
    pub fn visible(&self, height: usize) -> std::ops::Range<usize> {
        let top = self.top.min(self.ids.len());
        top..top.saturating_add(height).min(self.ids.len())
    }

    /// The cursor's row, if it is still in the list.
    pub fn selected(&self) -> Option<usize> {
        let id = self.selected.as_ref()?;
        (self.ids.get(self.index) == Some(id)).then_some(self.index)
    }

    /// The cursor's id, if its row is still in the list.
    pub fn selected_id(&self) -> Option<&str> {
        self.selected()
            .and_then(|index| self.ids.get(index))
            .map(String::as_str)
    }

    /// True when the row under the cursor has left the list.
    pub fn is_gone(&self) -> bool {
        self.selected.is_some() && self.selected().is_none() && !self.ids.is_empty()
    }

    /// Puts the cursor on an id; `false` when it is not in the list.
    pub fn select(&mut self, id: &str) -> bool {
        match self.ids.iter().position(|other| other == id) {
            Some(index) => {
                self.select_index(index);
                true
            }
            None => false,
        }
    }

    /// Puts the cursor on a row.
    pub fn select_index(&mut self, index: usize) {
        let index = index.min(self.ids.len().saturating_sub(1));
        self.index = index;
        self.selected = self.ids.get(index).cloned();
        self.scroll();
    }

    /// Puts a cursor that has no row any more on the first: for rows that the operator asked for, not
    /// for those that a refresh brings.
    pub fn land(&mut self) {
        if self.is_gone() {
            self.select_index(0);
        }
    }

    /// Moves the cursor by rows.
    pub fn move_by(&mut self, rows: isize) {
        if self.ids.is_empty() {
            return;
        }
        let target = if self.is_gone() {
            // The row that took its place is one step away in either direction.
            let step = rows.saturating_sub(rows.signum());
            self.index.saturating_add_signed(step)
        } else {
            self.index.saturating_add_signed(rows)
        };
        self.select_index(target);
    }

    /// Moves the cursor by pages.
    pub fn page_by(&mut self, pages: isize) {
        let rows = isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1);
        self.move_by(rows.saturating_mul(pages));
    }

    /// Marks or unmarks the cursor's row and goes on.
    pub fn toggle_mark(&mut self) {
        if let Some(id) = self.selected_id().map(str::to_owned) {
            if !self.marks.remove(&id) {
                self.marks.insert(id);
            }
            self.move_by(1);
        }
    }

    /// True when the id is marked.
    pub fn is_marked(&self, id: &str) -> bool {
        self.marks.contains(id)
    }

    /// True when the row is marked.
    pub fn is_row_marked(&self, index: usize) -> bool {
        self.ids
            .get(index)
            .is_some_and(|id| self.marks.contains(id))
    }

    /// How many rows are marked.
    pub fn marked(&self) -> usize {
        self.marks.len()
    }

    /// Unmarks all; `false` when none was marked.
    pub fn clear_marks(&mut self) -> bool {
        let had = !self.marks.is_empty();
        self.marks.clear();
        had
    }

    /// `12/1 203`, for titles.
    pub fn position(&self) -> String {
        use crate::base::human::grouped;
        let total = u64::try_from(self.ids.len()).unwrap_or(u64::MAX);
        let more = if self.has_more { "+  > next page" } else { "" };
        match self.selected() {
            Some(index) => format!(
                "{}/{}{more}",
                grouped(u64::try_from(index + 1).unwrap_or(u64::MAX)),
                grouped(total)
            ),
            None => format!("–/{}{more}", grouped(total)),
        }
    }

    fn scroll(&mut self) {
        let height = self.height.max(1);
        if self.index < self.top {
            self.top = self.index;
        } else if self.index >= self.top + height {
            self.top = self.index + 1 - height;
        }
        self.top = self.top.min(self.ids.len().saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn r_15_a_page_is_not_taken_for_the_whole() {
        let mut list = ListState::default();
        list.sync(ids(&["a", "b"]));
        assert_eq!(list.position(), "1/2");
        list.set_has_more(true);
        assert_eq!(list.position(), "1/2+  > next page");
    }

    #[test]
    fn a_refresh_never_moves_the_selection_to_a_neighbour() {
        let mut list = ListState::default();
        list.set_height(5);
        list.sync(ids(&["a", "b", "c"]));
        list.move_by(1);
        assert_eq!(list.selected_id(), Some("b"));
        list.sync(ids(&["new", "c", "b", "a"]));
        assert_eq!(list.selected_id(), Some("b"));
        list.sync(ids(&["new", "c", "a"]));
        assert_eq!(list.selected_id(), None);
        assert!(list.is_gone());
        list.move_by(1);
        assert_eq!(list.selected_id(), Some("a"));
    }

    #[test]
    fn t_04_two_hundred_thousand_rows_scroll_to_the_end() {
        let mut list = ListState::default();
        list.set_height(20);
        list.sync((0..200_000).map(|n| n.to_string()).collect());
        list.move_by(isize::MAX);
        assert_eq!(list.selected(), Some(199_999));
        assert_eq!(list.visible(20), 199_980..200_000);
        assert_eq!(list.position(), "200 000/200 000");
    }

    proptest! {
        #[test]
        fn the_cursor_is_always_visible(n in 0_usize..200, height in 0_usize..40, moves in prop::collection::vec(-50_isize..50, 0..20)) {
            let mut list = ListState::default();
            list.sync((0..n).map(|i| i.to_string()).collect());
            list.set_height(height);
            for step in moves {
                list.move_by(step);
                if let Some(index) = list.selected() {
                    prop_assert!(list.visible(height.max(1)).contains(&index));
                }
            }
        }
    }

    #[test]
    fn a_row_that_does_not_pass_the_operators_filter_gives_the_cursor_to_the_first_that_does() {
        let ids = |range: std::ops::Range<u32>| range.map(|n| n.to_string()).collect::<Vec<_>>();
        let mut list = ListState::default();
        list.sync(ids(0..9));
        list.select("4");
        list.sync(ids(6..9));
        assert_eq!(list.selected_id(), None, "a refresh moves nothing");
        list.land();
        assert_eq!(list.selected_id(), Some("6"));
        list.select("8");
        list.sync(ids(7..9));
        list.land();
        assert_eq!(list.selected_id(), Some("8"), "what passes keeps it");
    }
}
