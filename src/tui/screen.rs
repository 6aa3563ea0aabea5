//! Two buffers and the difference between them as escape sequences. Nothing is written when nothing
//! changed, and no colour is written that the terminal was not said to have.

use std::fmt::Write as _;
use std::io::{self, Write};

use crossterm::style::{Attribute, SetAttribute};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::base::text;

/// Synchronized output: from here on the terminal keeps what it gets, until the frame is whole. Those
/// that do not know the mode ignore it.
const BEGIN_FRAME: &str = "\x1b[?2026h";
/// The frame is whole.
const END_FRAME: &str = "\x1b[?2026l";

/// A terminal as cells.
pub struct Screen<W: Write> {
    out: W,
    /// What the terminal shows.
    shown: Buffer,
    /// The frame before it, to be drawn into again.
    spare: Buffer,
    /// True when what it shows is not known.
    is_unknown: bool,
    /// Frames written.
    frames: u64,
}

impl<W: Write> Screen<W> {
    /// A screen whose content is not known.
    pub fn new(out: W) -> Self {
        Self {
            out,
            shown: Buffer::empty(Rect::ZERO),
            spare: Buffer::empty(Rect::ZERO),
            is_unknown: true,
            frames: 0,
        }
    }

    /// The next frame is written whole.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Frames that were written; unchanged ones are not.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// The terminal's writer, for sequences that draw nothing.
    pub const fn writer(&mut self) -> &mut W {
        &mut self.out
    }

    /// An empty buffer to draw the next frame into.
    pub fn blank(&mut self, area: Rect) -> Buffer {
        let mut blank = std::mem::replace(&mut self.spare, Buffer::empty(Rect::ZERO));
        blank.resize(area);
        blank.reset();
        blank
    }

    /// Shows a buffer; writes only what differs.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, next: Buffer) -> io::Result<()> {
        let is_whole = self.is_unknown || self.shown.area != next.area;
        let mut text = String::new();
        if is_whole {
            text.push_str("\x1b[0m\x1b[2J");
        }
        let mut pen = Pen::default();
        let width = next.area.width;
        for y in 0..next.area.height {
            if !is_whole && row(&self.shown, y) == row(&next, y) {
                continue;
            }
            let mut x = 0;
            while x < width {
                let Some(cell) = next.cell((x, y)) else { break };
                let columns = u16::try_from(text::width(cell.symbol()))
                    .unwrap_or(1)
                    .clamp(1, width - x);
                let is_same = !is_whole
                    && (0..columns)
                        .all(|extra| self.shown.cell((x + extra, y)) == next.cell((x + extra, y)));
                if !is_same {
                    pen.put(&mut text, x, y, cell, columns);
                }
                x += columns;
            }
        }
        self.spare = std::mem::replace(&mut self.shown, next);
        self.is_unknown = false;
        if text.is_empty() {
            return Ok(());
        }
        text.insert_str(0, BEGIN_FRAME);
        text.push_str("\x1b[0m");
        text.push_str(END_FRAME);
        self.frames += 1;
        // One write a frame. A line may still carry it in pieces: the marks keep them together.
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// The cells of one line.
fn row(buf: &Buffer, y: u16) -> &[Cell] {
    let width = usize::from(buf.area.width);
    let start = usize::from(y) * width;
    buf.content.get(start..start + width).unwrap_or_default()
}

/// Where the terminal's cursor is and how it writes.
#[derive(Default)]
struct Pen {
    at: Option<(u16, u16)>,
    style: Option<Style>,
}

impl Pen {
    fn put(&mut self, out: &mut String, x: u16, y: u16, cell: &Cell, columns: u16) {
        if self.at != Some((x, y)) {
            push(out, format_args!("\x1b[{};{}H", y + 1, x + 1));
        }
        let style = cell.style();
        if self.style != Some(style) {
            sgr(out, style);
            self.style = Some(style);
        }
        let symbol = match cell.symbol() {
            "" => " ",
            symbol => symbol,
        };
        out.push_str(symbol);
        // Terminals disagree about the width of what is not one plain character: after such a
        // cluster the cursor is placed again instead of trusted (T-14).
        let is_sure = columns == 1 && symbol.chars().count() == 1;
        self.at = is_sure.then_some((x + 1, y));
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes everything.
    out.write_fmt(text).unwrap_or_default();
}

fn sgr(out: &mut String, style: Style) {
    out.push_str("\x1b[0");
    for (modifier, code) in [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ] {
        if style.add_modifier.contains(modifier) {
            push(out, format_args!(";{code}"));
        }
    }
    if let Some(colour) = style.fg {
        sgr_colour(out, colour, 30);
    }
    if let Some(colour) = style.bg {
        sgr_colour(out, colour, 40);
    }
    out.push('m');
}

fn sgr_colour(out: &mut String, colour: Color, base: u8) {
    let plain = |index: u8| -> u8 {
        if index < 8 {
            base + index
        } else {
            base + 60 + index - 8
        }
    };
    let index = match colour {
        Color::Reset => return,
        Color::Rgb(r, g, b) => {
            push(out, format_args!(";{};2;{r};{g};{b}", base + 8));
            return;
        }
        Color::Indexed(index) => {
            push(out, format_args!(";{};5;{index}", base + 8));
            return;
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    push(out, format_args!(";{}", plain(index)));
}

/// The sequence that resets every attribute.
pub fn reset() -> String {
    SetAttribute(Attribute::Reset).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(text: &str, style: Style) -> Buffer {
        let mut buf = Buffer::empty(Rect::new(0, 0, 10, 1));
        crate::tui::widget::paint::put(&mut buf, 0, 0, 10, text, style);
        buf
    }

    #[test]
    fn an_unchanged_frame_writes_nothing() {
        let mut screen = Screen::new(Vec::new());
        screen.show(buffer("abc", Style::new())).expect("writes");
        let written = screen.writer().len();
        screen.show(buffer("abc", Style::new())).expect("writes");
        assert_eq!(screen.writer().len(), written);
        assert_eq!(screen.frames(), 1);
        screen.show(buffer("abd", Style::new())).expect("writes");
        let last = String::from_utf8(screen.writer()[written..].to_vec()).expect("text");
        assert_eq!(
            last, "\x1b[?2026h\x1b[1;3H\x1b[0md\x1b[0m\x1b[?2026l",
            "kept together"
        );
    }

    #[test]
    fn t_14_a_wide_cluster_leaves_nothing_behind() {
        let mut screen = Screen::new(Vec::new());
        let mut terminal = vt100::Parser::new(1, 10, 0);
        for text in ["注文🧾", "ab注", "x", "👩‍🔬y", "注文", "abcdefgh"] {
            screen.show(buffer(text, Style::new())).expect("writes");
            let bytes = std::mem::take(screen.writer());
            terminal.process(&bytes);
        }
        assert_eq!(terminal.screen().contents().trim_end(), "abcdefgh");
    }
}
