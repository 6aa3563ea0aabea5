//! A frame, what the terminal shows, and the difference between them as escape sequences. Nothing is written when
//! nothing changed, and no colour is written that the terminal was not said to have.

use std::collections::HashMap;
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
    shown: Shown,
    /// The last frame, to be drawn into again.
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
            shown: Shown::default(),
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
        let is_whole =
            self.is_unknown || self.shown.area != next.area || self.shown.faces.is_full();
        let mut text = String::new();
        if is_whole {
            text.push_str("\x1b[0m\x1b[2J");
            self.shown.start(next.area);
        }
        let mut pen = Pen::default();
        let width = usize::from(next.area.width).max(1);
        let shown = &mut self.shown;
        for (y, (row, glyphs)) in (0..).zip(
            next.content
                .chunks(width)
                .zip(shown.glyphs.chunks_mut(width)),
        ) {
            let mut cells = (0..).zip(row.iter().zip(glyphs));
            while let Some((x, (cell, glyph))) = cells.next() {
                let columns = columns_of(cell).clamp(1, next.area.width - x);
                let mut is_same = shown.faces.replace(glyph, cell);
                for (_, (cell, glyph)) in cells.by_ref().take(usize::from(columns) - 1) {
                    is_same &= shown.faces.replace(glyph, cell);
                }
                if is_whole || !is_same {
                    pen.put(&mut text, x, y, cell, columns);
                }
            }
        }
        self.spare = next;
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

/// Columns a cell's cluster takes.
fn columns_of(cell: &Cell) -> u16 {
    match cell.symbol() {
        symbol if symbol.len() <= 1 => 1,
        symbol => u16::try_from(text::width(symbol)).unwrap_or(1),
    }
}

/// What a terminal shows. Small, because every frame looks at all of it: a cell takes eight bytes instead of the
/// buffer's forty.
#[derive(Default)]
struct Shown {
    area: Rect,
    glyphs: Vec<Glyph>,
    faces: Faces,
}

/// A cell in small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Glyph {
    /// A character, or from [`CLUSTERS`] on the number of a cluster of several; 0: nothing, the second half of a wide one.
    symbol: u32,
    /// The number of a style.
    style: u32,
}

/// The first number that is no character.
const CLUSTERS: u32 = char::MAX as u32 + 1;

/// What the numbers in a [`Glyph`] stand for.
#[derive(Default)]
struct Faces {
    /// As many as a theme has; the last one found is looked at first.
    styles: Vec<Style>,
    last: usize,
    clusters: HashMap<Box<str>, u32>,
}

impl Shown {
    /// Nothing is shown, on this area.
    fn start(&mut self, area: Rect) {
        let cells = usize::from(area.width) * usize::from(area.height);
        self.area = area;
        self.glyphs.clear();
        self.glyphs.resize(cells, Glyph::default());
        self.faces = Faces::default();
    }
}

/// Numbers of clusters that are kept; then everything is written anew.
const CLUSTERS_MAX: usize = 4096;

impl Faces {
    fn is_full(&self) -> bool {
        self.clusters.len() > CLUSTERS_MAX
    }

    /// Puts a cell in the place of a glyph; true when it was the same.
    fn replace(&mut self, glyph: &mut Glyph, cell: &Cell) -> bool {
        let next = Glyph {
            symbol: self.symbol(cell.symbol()),
            style: self.style(cell.style()),
        };
        std::mem::replace(glyph, next) == next
    }

    fn symbol(&mut self, symbol: &str) -> u32 {
        let mut chars = symbol.chars();
        match (chars.next(), chars.next()) {
            (None, _) => 0,
            (Some(one), None) => u32::from(one),
            _ => self.cluster(symbol),
        }
    }

    fn cluster(&mut self, symbol: &str) -> u32 {
        if let Some(number) = self.clusters.get(symbol) {
            return *number;
        }
        let number =
            CLUSTERS.saturating_add(u32::try_from(self.clusters.len()).unwrap_or(u32::MAX));
        self.clusters.insert(symbol.into(), number);
        number
    }

    fn style(&mut self, style: Style) -> u32 {
        if self.styles.get(self.last) != Some(&style) {
            let found = self.styles.iter().position(|known| *known == style);
            self.last = found.unwrap_or_else(|| {
                self.styles.push(style);
                self.styles.len() - 1
            });
        }
        u32::try_from(self.last).unwrap_or(u32::MAX)
    }
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
    fn clusters_without_end_are_forgotten_and_still_drawn_right() {
        let mut screen = Screen::new(Vec::new());
        let mut terminal = vt100::Parser::new(1, 10, 0);
        for n in 0..6_000_u32 {
            let mark = char::from_u32(0x300 + n % 0x70).expect("a mark");
            let base = char::from_u32(0x4e00 + n / 0x70).expect("a letter");
            let text = format!("{base}{mark}|");
            screen.show(buffer(&text, Style::new())).expect("writes");
            terminal.process(&std::mem::take(screen.writer()));
            assert_eq!(terminal.screen().contents().trim_end(), text);
            assert!(screen.shown.faces.clusters.len() <= CLUSTERS_MAX + 2);
        }
    }

    #[test]
    fn a_style_alone_is_a_difference() {
        let mut screen = Screen::new(Vec::new());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        for style in [Style::new(), bold, Style::new(), bold] {
            screen.show(buffer("abc", style)).expect("writes");
        }
        assert_eq!(screen.frames(), 4);
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
