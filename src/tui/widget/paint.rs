//! The only way text reaches the buffer: made safe, cut on a grapheme border, never outside its
//! area (P-10, N-07, T-01).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::merge::MergeStrategy;
use ratatui::widgets::{Block, BorderType, Borders, Clear, Widget};

use crate::base::text;
use crate::tui::theme::{Role, Theme, ink_only};

/// Text of one looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it says; made safe when drawn.
    pub text: String,
    /// What it is.
    pub role: Role,
}

impl Span {
    /// A span.
    pub fn new(text: impl Into<String>, role: Role) -> Self {
        Self {
            text: text.into(),
            role,
        }
    }
}

/// Spans on one line.
pub type Line = Vec<Span>;

/// A line of one span.
pub fn line(text: impl Into<String>, role: Role) -> Line {
    vec![Span::new(text, role)]
}

/// A length as screen columns, saturating.
pub fn columns(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

/// Columns `text` takes once it is safe.
pub fn width_of(text: &str) -> usize {
    if is_plain(text) {
        text.len()
    } else {
        text::width(&text::safe(text))
    }
}

/// True for text that is its own safe form, one column a byte.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Puts text at `x`, `y`, at most `room` columns wide; returns the columns used. Outside of the
/// buffer it does nothing.
pub fn put(buf: &mut Buffer, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
    let area = buf.area;
    if room == 0 || y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
        return 0;
    }
    let room = room.min(area.right() - x);
    let shown = if is_plain(text) && text.len() <= usize::from(room) {
        std::borrow::Cow::Borrowed(text)
    } else {
        // Cutting first bounds the work for a line of a megabyte; the cut is made again after
        // making it safe, because tokens are wider than what they stand for.
        let rough = text::cut_bytes(text, usize::from(room).saturating_mul(64).max(256));
        std::borrow::Cow::Owned(text::cut(&text::safe(rough), usize::from(room)))
    };
    let mut used: u16 = 0;
    for cluster in text::clusters(&shown) {
        let w = columns(text::width(cluster));
        if w == 0 || used + w > room {
            continue;
        }
        if let Some(cell) = buf.cell_mut((x + used, y)) {
            cell.set_symbol(cluster).set_style(style);
        }
        // The second half of a wide cluster is an empty cell, so that nothing shines through.
        for extra in 1..w {
            if let Some(cell) = buf.cell_mut((x + used + extra, y)) {
                cell.reset();
                cell.set_symbol("").set_style(style);
            }
        }
        used += w;
    }
    used
}

/// Puts spans one after the other; returns the columns used. Every span's style lies over `base`.
pub fn put_line(
    buf: &mut Buffer,
    at: (u16, u16),
    room: u16,
    spans: &[Span],
    theme: Theme,
    base: Option<Style>,
) -> u16 {
    let mut used = 0;
    for span in spans {
        let style = match base {
            // A selected row keeps its own paper, and its own ink when it has none of its own.
            Some(base) => base.patch(ink_only(theme.style(span.role))),
            None => theme.style(span.role),
        };
        used += put(
            buf,
            at.0.saturating_add(used),
            at.1,
            room.saturating_sub(used),
            &span.text,
            style,
        );
    }
    used
}

/// Columns all spans take.
pub fn line_width(spans: &[Span]) -> usize {
    spans.iter().map(|span| width_of(&span.text)).sum()
}

/// A box with a title; returns what is inside.
pub fn boxed(buf: &mut Buffer, area: Rect, title: &str, theme: Theme) -> Rect {
    boxed_as(buf, area, title, theme, Role::Border)
}

/// A box whose border has a role of its own.
pub fn boxed_as(buf: &mut Buffer, area: Rect, title: &str, theme: Theme, border: Role) -> Rect {
    let area = area.intersection(buf.area);
    if area.width < 2 || area.height < 2 {
        return Rect::new(area.x, area.y, 0, 0);
    }
    let block = Block::new()
        .borders(Borders::ALL)
        .merge_borders(MergeStrategy::Exact)
        .border_type(BorderType::Plain)
        .border_style(theme.style(border));
    let inner = block.inner(area);
    block.render(area, buf);
    if !title.is_empty() {
        let room = area.width.saturating_sub(4);
        let title = format!(" {title} ");
        put(
            buf,
            area.x + 1,
            area.y,
            room,
            &title,
            theme.style(Role::Accent),
        );
    }
    inner
}

/// A horizontal rule with a title in it.
pub fn rule(buf: &mut Buffer, area: Rect, theme: Theme) {
    for x in area.x..area.right() {
        put(buf, x, area.y, 1, "─", theme.style(Role::Border));
    }
}

/// Empties an area, for what lies over others.
pub fn clear(buf: &mut Buffer, area: Rect) {
    Clear.render(area.intersection(buf.area), buf);
}

/// Lays a style over an area.
pub fn shade(buf: &mut Buffer, area: Rect, style: Style) {
    buf.set_style(area.intersection(buf.area), style);
}

/// The first `height` rows of an area, and the rest.
pub fn split_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (
        Rect { height, ..area },
        Rect {
            y: area.y + height,
            height: area.height - height,
            ..area
        },
    )
}

/// An area without `by` columns at its left and right.
pub fn inset(area: Rect, by: u16) -> Rect {
    let by = by.min(area.width / 2);
    Rect {
        x: area.x + by,
        width: area.width - 2 * by,
        ..area
    }
}

/// A box of at most this size in the middle of an area.
pub fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_07_wide_clusters_keep_columns_aligned() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 14, 6));
        let names = [
            "注文🧾.dlq",
            "ｶﾞ.queue",
            "👩‍🔬-lab",
            "e\u{301}tat",
            "\u{202e}qld.sredro",
            "or\u{200b}ders.dlq",
        ];
        for (row, name) in names.into_iter().enumerate() {
            let y = columns(row);
            put(&mut buf, 0, y, 12, name, Style::new());
            put(&mut buf, 12, y, 1, "|", Style::new());
        }
        for y in 0..6 {
            assert_eq!(buf[(12, y)].symbol(), "|", "row {y}");
        }
        let row = |y: u16| -> String { (0..12).map(|x| buf[(x, y)].symbol()).collect() };
        assert!(row(4).starts_with("\\u{202e}qld"), "{}", row(4));
        assert!(row(5).contains("\\u{200b}"), "{}", row(5));
    }

    #[test]
    fn t_01_nothing_is_drawn_outside_of_the_buffer() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 2, 1));
        assert_eq!(put(&mut buf, 5, 0, 10, "x", Style::new()), 0);
        assert_eq!(put(&mut buf, 0, 5, 10, "x", Style::new()), 0);
        assert_eq!(put(&mut buf, 0, 0, 10, "注文", Style::new()), 1);
    }
}
