//! Where things stand on the screen.

use ratatui::layout::Rect;

/// Narrower or lower than this nothing can be read.
pub const MIN: (u16, u16) = (60, 15);

/// The lines of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Context, health, clock.
    pub top: Rect,
    /// Tabs.
    pub tabs: Rect,
    /// The pane.
    pub body: Rect,
    /// The guided line, if there is one.
    pub hint: Rect,
    /// The keys that work here.
    pub bar: Rect,
}

impl Areas {
    /// Cuts a screen.
    pub fn cut(screen: Rect, has_hint: bool) -> Self {
        let row = |y: u16, height: u16| {
            let y = y.min(screen.height);
            Rect {
                y: screen.y + y,
                height: height.min(screen.height - y),
                ..screen
            }
        };
        let hint = u16::from(has_hint);
        let body = screen.height.saturating_sub(3 + hint);
        Self {
            top: row(0, 1),
            tabs: row(1, 1),
            body: row(2, body),
            hint: row(2 + body, hint),
            bar: row(2 + body + hint, 1),
        }
    }
}

/// True when the screen is too small for anything.
pub const fn is_too_small(size: (u16, u16)) -> bool {
    size.0 < MIN.0 || size.1 < MIN.1
}
