//! A table whose columns keep their place: widths are declared, not measured, so that nothing jumps
//! when rows change. What does not fit is dropped by rank, never squeezed into noise.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::list::ListState;
use super::paint::{self, Span, columns};
use crate::tui::theme::{Role, Theme, ink_only};

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Columns it wants.
    pub width: u16,
    /// Columns it needs.
    pub min: u16,
    /// Share of what is left over; 0 = none.
    pub grow: u16,
    /// Numbers stand at the right.
    pub is_right: bool,
    /// 0 = always shown; the highest number is dropped first.
    pub rank: u8,
}

impl Column {
    /// A text column.
    pub const fn text(title: &'static str, min: u16, width: u16, grow: u16, rank: u8) -> Self {
        Self {
            title,
            width,
            min,
            grow,
            is_right: false,
            rank,
        }
    }

    /// A number column.
    pub const fn number(title: &'static str, width: u16, rank: u8) -> Self {
        Self {
            title,
            width,
            min: width,
            grow: 0,
            is_right: true,
            rank,
        }
    }
}

/// Space between columns.
const GAP: u16 = 2;
/// Cursor and mark at the left.
const GUTTER: u16 = 3;

/// Where each column stands: `None` for those that were dropped.
pub fn fit(table: &[Column], room: u16) -> Vec<Option<(u16, u16)>> {
    let mut shown: Vec<bool> = vec![true; table.len()];
    let need = |shown: &[bool], of: fn(&Column) -> u16| -> u16 {
        let parts = table.iter().zip(shown).filter(|(_, is)| **is);
        let count = columns(parts.clone().count());
        parts
            .map(|(column, _)| of(column))
            .fold(0_u16, u16::saturating_add)
            .saturating_add(GAP.saturating_mul(count.saturating_sub(1)))
    };
    while need(&shown, |column| column.min) > room {
        let worst = table
            .iter()
            .enumerate()
            .filter(|(index, column)| shown[*index] && column.rank > 0)
            .max_by_key(|(index, column)| (column.rank, *index));
        match worst {
            Some((index, _)) => shown[index] = false,
            None => break,
        }
    }
    let mut widths: Vec<u16> = table.iter().map(|column| column.min).collect();
    let mut spare = room.saturating_sub(need(&shown, |column| column.min));
    for (index, column) in table.iter().enumerate().filter(|(i, _)| shown[*i]) {
        let more = column.width.saturating_sub(column.min).min(spare);
        widths[index] += more;
        spare -= more;
    }
    let shares: u16 = table
        .iter()
        .zip(&shown)
        .filter(|(_, is)| **is)
        .map(|(column, _)| column.grow)
        .sum();
    if shares > 0 {
        let mut left = spare;
        for (index, column) in table.iter().enumerate().filter(|(i, _)| shown[*i]) {
            let more = u16::try_from(u32::from(spare) * u32::from(column.grow) / u32::from(shares))
                .unwrap_or(0)
                .min(left);
            widths[index] += more;
            left -= more;
        }
    }
    let mut x = 0_u16;
    table
        .iter()
        .enumerate()
        .map(|(index, _)| {
            shown[index].then(|| {
                let at = (x, widths[index].min(room.saturating_sub(x)));
                x = x.saturating_add(widths[index]).saturating_add(GAP);
                at
            })
        })
        .collect()
}

/// How a table is drawn.
pub struct Table<'a> {
    /// Its columns.
    pub columns: &'a [Column],
    /// Its cursor.
    pub list: &'a ListState,
    /// True when the keys go here.
    pub is_focused: bool,
    /// Looks.
    pub theme: Theme,
}

impl Table<'_> {
    /// Rows that fit in a height, the heading taken off.
    pub fn rows_in(area: Rect) -> usize {
        usize::from(area.height.saturating_sub(1))
    }

    /// Draws heading and visible rows; `cells` is asked for the visible ones only, one cell a column.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, cells: impl Fn(usize) -> Vec<Span>) {
        let area = area.intersection(buf.area);
        if area.height == 0 || area.width <= GUTTER {
            return;
        }
        let room = area.width - GUTTER - 1;
        let fitted = fit(self.columns, room);
        let left = area.x + GUTTER;
        for (column, at) in self.columns.iter().zip(&fitted) {
            if let Some((x, width)) = at {
                self.put_cell(
                    buf,
                    (left + x, area.y),
                    *width,
                    column,
                    &Span::new(column.title, Role::Dim),
                    None,
                );
            }
        }
        let height = Self::rows_in(area);
        for (offset, index) in self.list.visible(height).enumerate() {
            let y = area.y + 1 + columns(offset);
            let is_selected = self.list.selected() == Some(index);
            let base = is_selected.then(|| {
                self.theme.style(if self.is_focused {
                    Role::Selected
                } else {
                    Role::SelectedAway
                })
            });
            if let Some(style) = base {
                paint::shade(buf, Rect::new(area.x, y, area.width, 1), style);
            }
            if is_selected {
                let style = self.theme.style(Role::Accent);
                let style = base.map_or(style, |base| base.patch(ink_only(style)));
                paint::put(buf, area.x, y, 1, "▸", style);
            }
            if self.list.is_row_marked(index) {
                let style = base.unwrap_or_else(|| self.theme.style(Role::Warn));
                paint::put(buf, area.x + 1, y, 1, "●", style);
            }
            for ((column, at), cell) in self.columns.iter().zip(&fitted).zip(cells(index)) {
                if let Some((x, width)) = at {
                    self.put_cell(buf, (left + x, y), *width, column, &cell, base);
                }
            }
        }
    }

    fn put_cell(
        &self,
        buf: &mut Buffer,
        at: (u16, u16),
        width: u16,
        column: &Column,
        cell: &Span,
        base: Option<ratatui::style::Style>,
    ) {
        let pad = if column.is_right {
            width.saturating_sub(columns(paint::width_of(&cell.text)))
        } else {
            0
        };
        paint::put_line(
            buf,
            (at.0 + pad, at.1),
            width - pad,
            std::slice::from_ref(cell),
            self.theme,
            base,
        );
    }

    /// The row under a click, if any.
    pub fn row_at(list: &ListState, area: Rect, y: u16) -> Option<usize> {
        let first = area.y.checked_add(1)?;
        let offset = usize::from(y.checked_sub(first)?);
        if offset >= Self::rows_in(area) {
            return None;
        }
        let index = list.top() + offset;
        (index < list.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: [Column; 4] = [
        Column::text("event", 8, 13, 0, 0),
        Column::number("n", 6, 0),
        Column::text("owner", 5, 8, 0, 2),
        Column::text("error", 10, 20, 1, 1),
    ];

    #[test]
    fn what_does_not_fit_is_dropped_by_rank() {
        let shown =
            |room| -> Vec<bool> { fit(&COLUMNS, room).iter().map(Option::is_some).collect() };
        assert_eq!(shown(80), [true, true, true, true]);
        assert_eq!(shown(30), [true, true, false, true]);
        assert_eq!(shown(20), [true, true, false, false]);
    }

    proptest! {
        #[test]
        fn t_01_columns_never_leave_their_room(room in 0_u16..300) {
            for (x, width) in fit(&COLUMNS, room).into_iter().flatten() {
                prop_assert!(width == 0 || x + width <= room);
            }
        }
    }
}
