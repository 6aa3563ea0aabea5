//! A text to scroll in, of any size: lines are wrapped once for a width, and only what is visible
//! is drawn (T-04: a line of a megabyte, a hundred thousand lines).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::paint::{self, Line, Span, columns};
use crate::base::text;
use crate::tui::theme::{Role, Theme};

/// A text, wrapped, with its scroll position.
#[derive(Clone, Debug, Default)]
pub struct Doc {
    lines: Vec<Line>,
    rows: Vec<Line>,
    width: u16,
    height: u16,
    top: usize,
}

impl Doc {
    /// Replaces the text; the scroll position stays where it can.
    pub fn set(&mut self, lines: Vec<Line>) {
        if self.lines == lines {
            return;
        }
        self.lines = lines;
        self.wrap();
    }

    /// Back to the beginning: another thing is shown.
    pub fn rewind(&mut self) {
        self.top = 0;
    }

    /// Gives it the size it is drawn at.
    pub fn settle(&mut self, area: Rect) {
        self.height = area.height;
        if self.width != area.width {
            self.width = area.width;
            self.wrap();
        }
        self.top = self.top.min(self.last_top());
    }

    /// Rows after wrapping.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True without text.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Scrolls by rows.
    pub fn move_by(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows).min(self.last_top());
    }

    /// Scrolls by pages.
    pub fn page_by(&mut self, pages: isize) {
        let rows = isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1);
        self.move_by(rows.saturating_mul(pages));
    }

    /// Scrolls so that the next row with `needle` (whatever its case) is on top; `false` when there
    /// is none. Starts over at the end.
    pub fn find(&mut self, needle: &str) -> bool {
        let needle = needle.to_lowercase();
        if needle.is_empty() || self.rows.is_empty() {
            return false;
        }
        let hit = |row: &Line| {
            let text: String = row.iter().map(|span| span.text.as_str()).collect();
            text.to_lowercase().contains(&needle)
        };
        let count = self.rows.len();
        let found = (1..=count)
            .map(|step| (self.top + step) % count)
            .find(|index| self.rows.get(*index).is_some_and(hit));
        if let Some(index) = found {
            self.top = index.min(self.last_top());
        }
        found.is_some()
    }

    /// `1-20/13 000`, or nothing when everything is visible.
    pub fn position(&self) -> String {
        use crate::base::human::grouped;
        let height = usize::from(self.height);
        if self.rows.len() <= height {
            return String::new();
        }
        let number = |n: usize| grouped(u64::try_from(n).unwrap_or(u64::MAX));
        format!(
            "{}-{}/{}",
            number(self.top + 1),
            number((self.top + height).min(self.rows.len())),
            number(self.rows.len())
        )
    }

    /// Draws the visible rows.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        let visible = self
            .rows
            .iter()
            .skip(self.top)
            .take(usize::from(area.height));
        for (offset, row) in visible.enumerate() {
            paint::put_line(
                buf,
                (area.x, area.y + columns(offset)),
                area.width,
                row,
                theme,
                None,
            );
        }
    }

    fn last_top(&self) -> usize {
        self.rows.len().saturating_sub(usize::from(self.height))
    }

    fn wrap(&mut self) {
        let width = usize::from(self.width.max(1));
        self.rows.clear();
        for line in &self.lines {
            wrap_line(line, width, &mut self.rows);
        }
    }
}

/// Cuts one line into rows of at most `width` columns. Continuations of a `label  value` line stand
/// under its value when there is room for that.
fn wrap_line(line: &Line, width: usize, rows: &mut Vec<Line>) {
    let hang = match line.as_slice() {
        [label, _, ..] if matches!(label.role, Role::Dim | Role::Key) => {
            let label = paint::width_of(&label.text);
            if label * 2 <= width { label } else { 0 }
        }
        _ => 0,
    };
    let mut row: Line = Vec::new();
    let mut used = 0;
    for span in line {
        let safe = if span.text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            span.text.clone()
        } else {
            text::safe(&span.text)
        };
        let mut rest = safe.as_str();
        while !rest.is_empty() {
            let room = width.saturating_sub(used);
            let (taken, columns_taken) = break_at(rest, room);
            if taken == 0 && used <= hang && room + hang.min(width) >= width {
                // Wider than a whole row: nothing can show it.
                break;
            }
            let (now, later) = rest.split_at(taken);
            if taken > 0 {
                row.push(Span::new(now, span.role));
                used += columns_taken;
            }
            // A blank that would begin a row has done its work.
            rest = match later.strip_prefix(' ') {
                Some(trimmed) if taken > 0 => trimmed,
                _ => later,
            };
            if !rest.is_empty() {
                rows.push(std::mem::take(&mut row));
                if hang > 0 {
                    row.push(Span::new(" ".repeat(hang), Role::Text));
                }
                used = hang;
            }
        }
    }
    rows.push(row);
}

/// How many bytes of `text` go on a row with `room` columns, and their columns: up to the last blank
/// for prose, up to the border for what has no blank near it.
fn break_at(line: &str, room: usize) -> (usize, usize) {
    let (taken, columns_taken) = take_columns(line, room);
    let (now, later) = line.split_at(taken);
    if later.is_empty() || later.starts_with(' ') {
        return (taken, columns_taken);
    }
    match now.rfind(' ') {
        Some(at) if at * 2 > taken => (at, text::width(now.get(..at).unwrap_or_default())),
        _ => (taken, columns_taken),
    }
}

/// How many bytes of `text` fit into `room` columns, on a grapheme border, and their columns.
fn take_columns(text: &str, room: usize) -> (usize, usize) {
    let ascii = text.bytes().take(room).take_while(u8::is_ascii).count();
    // All of it plain, or cut between two plain characters: no clusters to look at.
    if ascii == text.len() || (ascii == room && text.as_bytes().get(room).is_none_or(u8::is_ascii))
    {
        return (ascii, ascii);
    }
    let mut bytes = 0;
    let mut used = 0;
    for cluster in text::clusters(text) {
        let w = text::width(cluster);
        if used + w > room {
            break;
        }
        bytes += cluster.len();
        used += w;
    }
    (bytes, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::widget::paint::line;

    fn doc(lines: Vec<Line>, width: u16, height: u16) -> Doc {
        let mut doc = Doc::default();
        doc.set(lines);
        doc.settle(Rect::new(0, 0, width, height));
        doc
    }

    #[test]
    fn t_04_a_line_of_a_megabyte_and_a_hundred_thousand_lines() {
        let mut long = doc(vec![line("x".repeat(1_048_576), Role::Text)], 80, 20);
        assert_eq!(long.len(), 1_048_576_usize.div_ceil(80));
        long.move_by(isize::MAX);
        assert!(
            long.position().ends_with("13 108/13 108"),
            "{}",
            long.position()
        );

        let lines = (0..100_000)
            .map(|n| line(n.to_string(), Role::Text))
            .collect();
        let mut many = doc(lines, 80, 20);
        many.move_by(isize::MAX);
        assert_eq!(many.position(), "99 981-100 000/100 000");
        assert!(many.find("4242"));
        assert!(many.position().starts_with("4 243-"), "{}", many.position());
    }

    #[test]
    fn t_14_a_wide_cluster_is_never_split_by_wrapping() {
        let wrapped = doc(vec![line("注文🧾👩‍🔬", Role::Text)], 3, 9);
        let rows: Vec<String> = wrapped
            .rows
            .iter()
            .map(|row| row.iter().map(|span| span.text.as_str()).collect())
            .collect();
        // A joiner hides things, so it is shown; clusters around it stay whole.
        assert!(rows.iter().all(|row| text::width(row) <= 3), "{rows:?}");
        assert_eq!(rows[0], "注");
        let narrow = doc(vec![line("注", Role::Text)], 1, 1);
        assert_eq!(narrow.len(), 1);
    }

    #[test]
    fn prose_breaks_between_words() {
        let wrapped = doc(
            vec![line("the same event id, the same bytes", Role::Text)],
            14,
            9,
        );
        let rows: Vec<String> = wrapped
            .rows
            .iter()
            .map(|row| row.iter().map(|span| span.text.as_str()).collect())
            .collect();
        assert_eq!(rows, ["the same event", "id, the same", "bytes"]);
    }

    #[test]
    fn a_value_hangs_under_itself() {
        let wrapped = doc(
            vec![vec![
                Span::new("error  ", Role::Dim),
                Span::new("abcdefghij", Role::Text),
            ]],
            14,
            9,
        );
        let rows: Vec<String> = wrapped
            .rows
            .iter()
            .map(|row| row.iter().map(|span| span.text.as_str()).collect())
            .collect();
        assert_eq!(rows, ["error  abcdefg", "       hij"]);
    }
}
