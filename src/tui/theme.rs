//! Colours by role, at four depths: true colour (only when the terminal says so), 256, 16, none.
//! Colour is never the only sign: every role that carries meaning also has a word or a glyph, and
//! selection survives without colour as reverse video (T-15).

use ratatui::style::{Color, Modifier, Style};

/// Which palette.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// For dark backgrounds.
    #[default]
    Dark,
    /// For light backgrounds.
    Light,
    /// The terminal's own 16 colours, on any background.
    Ansi,
    /// No colour at all.
    Mono,
}

impl ThemeName {
    /// Every theme by its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("dark", Self::Dark),
        ("light", Self::Light),
        ("ansi", Self::Ansi),
        ("mono", Self::Mono),
    ];

    /// The theme of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(name, _)| *name == word)
            .map(|(_, theme)| theme)
    }
}

/// How many colours the terminal takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 24 bits.
    True,
    /// The 256-colour table.
    Indexed,
    /// Sixteen.
    Sixteen,
    /// None.
    None,
}

impl Depth {
    /// From what the terminal says of itself. True colour is used only when `COLORTERM` says so;
    /// `NO_COLOR` (any value that is not empty) and terminals known to be without colour win.
    pub fn detect(var: impl Fn(&str) -> Option<String>) -> Self {
        if var("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Self::None;
        }
        let term = var("TERM").unwrap_or_default();
        if term.is_empty() || term == "dumb" || term.ends_with("mono") || term.starts_with("vt") {
            return Self::None;
        }
        let colorterm = var("COLORTERM").unwrap_or_default();
        if colorterm == "truecolor" || colorterm == "24bit" {
            Self::True
        } else if term.contains("256color") {
            Self::Indexed
        } else {
            Self::Sixteen
        }
    }
}

/// What a piece of text is, as far as looks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Ordinary text.
    Text,
    /// Less important text.
    Dim,
    /// Headings and what stands out.
    Strong,
    /// Lines around things.
    Border,
    /// Titles of boxes, active tabs.
    Accent,
    /// As it should be.
    Good,
    /// Worth knowing.
    Warn,
    /// Wrong.
    Bad,
    /// Not known, or too old.
    Unknown,
    /// A key that can be pressed.
    Key,
    /// The row under the cursor, where the keys go.
    Selected,
    /// The row under the cursor of a list that has not the focus.
    SelectedAway,
    /// The bar at the top and the bottom.
    Bar,
    /// A sandbox's name.
    Sandbox,
    /// A staging context's name.
    Staging,
    /// A production context's name: loud.
    Production,
    /// A text field.
    Field,
    /// A line added by a diff.
    Added,
    /// A line removed by a diff.
    Removed,
}

/// A colour at its three depths.
#[derive(Clone, Copy)]
struct Ink(u32, u8, Color);

impl Ink {
    const fn at(self, depth: Depth) -> Option<Color> {
        match depth {
            Depth::True => {
                let [_, r, g, b] = self.0.to_be_bytes();
                Some(Color::Rgb(r, g, b))
            }
            Depth::Indexed => Some(Color::Indexed(self.1)),
            Depth::Sixteen => Some(self.2),
            Depth::None => None,
        }
    }
}

/// The inks of one background.
struct Palette {
    text: Ink,
    dim: Ink,
    strong: Ink,
    border: Ink,
    accent: Ink,
    good: Ink,
    warn: Ink,
    bad: Ink,
    unknown: Ink,
    key: Ink,
    selected: Ink,
    away: Ink,
    bar: Ink,
    field: Ink,
    paper: Ink,
}

const DARK: Palette = Palette {
    text: Ink(0x00c8_d0da, 252, Color::Gray),
    dim: Ink(0x0080_8b99, 245, Color::DarkGray),
    strong: Ink(0x00f2_f5f8, 255, Color::White),
    border: Ink(0x0042_4b57, 239, Color::DarkGray),
    accent: Ink(0x007f_b4f0, 110, Color::Cyan),
    good: Ink(0x007b_c48a, 114, Color::Green),
    warn: Ink(0x00e5_b567, 179, Color::Yellow),
    bad: Ink(0x00f0_7a75, 203, Color::LightRed),
    unknown: Ink(0x00b7_95d8, 140, Color::Magenta),
    key: Ink(0x007f_b4f0, 110, Color::Cyan),
    selected: Ink(0x0029_4266, 24, Color::Blue),
    away: Ink(0x0027_2e38, 236, Color::DarkGray),
    bar: Ink(0x001d_232b, 235, Color::Black),
    field: Ink(0x0027_2e38, 236, Color::Black),
    paper: Ink(0x0012_161b, 233, Color::Black),
};

const LIGHT: Palette = Palette {
    text: Ink(0x002b_323a, 236, Color::Black),
    dim: Ink(0x0068_737f, 243, Color::DarkGray),
    strong: Ink(0x0008_0b0e, 232, Color::Black),
    border: Ink(0x00b4_bdc7, 250, Color::Gray),
    accent: Ink(0x0018_5fb0, 25, Color::Blue),
    good: Ink(0x001f_7a38, 28, Color::Green),
    warn: Ink(0x008f_5e00, 94, Color::Yellow),
    bad: Ink(0x00b3_1d1d, 124, Color::Red),
    unknown: Ink(0x0077_3aa8, 91, Color::Magenta),
    key: Ink(0x0018_5fb0, 25, Color::Blue),
    selected: Ink(0x00c5_dcf7, 153, Color::Cyan),
    away: Ink(0x00e4_e9ee, 254, Color::Gray),
    bar: Ink(0x00e9_edf1, 255, Color::Gray),
    field: Ink(0x00e4_e9ee, 254, Color::Gray),
    paper: Ink(0x00ff_ffff, 231, Color::White),
};

/// Roles to styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Which palette.
    pub name: ThemeName,
    /// At which depth.
    pub depth: Depth,
    /// What the terminal could take.
    pub terminal: Depth,
    /// True when the locale cannot show more than ASCII.
    pub is_ascii: bool,
}

impl Theme {
    /// A theme at a depth; `Mono` and `Ansi` lower the depth by themselves.
    pub fn new(name: ThemeName, terminal: Depth, is_ascii: bool) -> Self {
        let depth = match (name, terminal) {
            (ThemeName::Mono, _) | (_, Depth::None) => Depth::None,
            (ThemeName::Ansi, _) => Depth::Sixteen,
            (ThemeName::Dark | ThemeName::Light, depth) => depth,
        };
        Self {
            name,
            depth,
            terminal,
            is_ascii,
        }
    }

    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        if self.depth == Depth::None {
            return Self::mono(role);
        }
        let palette = if self.name == ThemeName::Light {
            &LIGHT
        } else {
            &DARK
        };
        let ink = |ink: Ink| {
            ink.at(self.depth)
                .map_or_else(Style::new, |colour| Style::new().fg(colour))
        };
        let on = |style: Style, paper: Ink| match paper.at(self.depth) {
            Some(colour) => style.bg(colour),
            None => style,
        };
        // With the terminal's own sixteen colours the background is not known: ordinary text keeps
        // the terminal's ink, and bars are told by reverse video instead of by a shade.
        let is_plain = self.depth == Depth::Sixteen;
        match role {
            Role::Text | Role::Bar if is_plain => Style::new(),
            Role::Text => ink(palette.text),
            Role::Dim | Role::Border if is_plain => Style::new().add_modifier(Modifier::DIM),
            Role::Dim => ink(palette.dim),
            Role::Strong if is_plain => Style::new().add_modifier(Modifier::BOLD),
            Role::Strong => ink(palette.strong).add_modifier(Modifier::BOLD),
            Role::Border => ink(palette.border),
            Role::Accent => ink(palette.accent).add_modifier(Modifier::BOLD),
            Role::Good | Role::Added => ink(palette.good),
            Role::Warn => ink(palette.warn),
            Role::Bad => ink(palette.bad).add_modifier(Modifier::BOLD),
            Role::Removed => ink(palette.bad),
            Role::Unknown => ink(palette.unknown),
            Role::Key => ink(palette.key).add_modifier(Modifier::BOLD),
            Role::Selected if is_plain => Style::new().add_modifier(Modifier::REVERSED),
            Role::Selected => {
                on(ink(palette.strong), palette.selected).add_modifier(Modifier::BOLD)
            }
            Role::SelectedAway | Role::Field if is_plain => {
                Style::new().add_modifier(Modifier::UNDERLINED)
            }
            Role::SelectedAway => on(ink(palette.text), palette.away),
            Role::Bar => on(ink(palette.text), palette.bar),
            Role::Sandbox => on(ink(palette.paper), palette.good).add_modifier(Modifier::BOLD),
            Role::Staging => on(ink(palette.paper), palette.warn).add_modifier(Modifier::BOLD),
            Role::Production => on(ink(palette.paper), palette.bad).add_modifier(Modifier::BOLD),
            Role::Field => on(ink(palette.strong), palette.field),
        }
    }

    fn mono(role: Role) -> Style {
        let plain = Style::new();
        match role {
            Role::Strong | Role::Accent | Role::Bad | Role::Key => {
                plain.add_modifier(Modifier::BOLD)
            }
            Role::Selected | Role::Production => {
                plain.add_modifier(Modifier::REVERSED | Modifier::BOLD)
            }
            Role::SelectedAway | Role::Field => plain.add_modifier(Modifier::UNDERLINED),
            Role::Sandbox | Role::Staging => plain.add_modifier(Modifier::REVERSED),
            Role::Dim | Role::Border => plain.add_modifier(Modifier::DIM),
            Role::Text
            | Role::Good
            | Role::Warn
            | Role::Unknown
            | Role::Bar
            | Role::Added
            | Role::Removed => plain,
        }
    }

    /// The paper under everything; the terminal's own where the depth is low.
    pub fn paper(self) -> Style {
        Style::new()
    }
}

/// A style without its paper, to be laid over something that has one.
pub const fn ink_only(mut style: Style) -> Style {
    style.bg = None;
    style
}

/// True when the locale's words say UTF-8.
pub fn is_utf8_locale(var: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(var)
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

/// Glyphs and their ASCII stand-ins, each one column wide.
const STAND_INS: [(&str, &str); 16] = [
    ("✓▆", "+"),
    ("✖", "x"),
    ("▸▶→", ">"),
    ("●•◆▇", "*"),
    ("◀←", "<"),
    ("○◇", "o"),
    ("…", "~"),
    ("·▂", "."),
    ("–─━╌═▄", "-"),
    ("│┃║", "|"),
    ("▏▁", "_"),
    ("▃", ":"),
    ("▅", "="),
    ("█", "#"),
    ("≥▲↑", "^"),
    ("▼↓", "v"),
];

/// The ASCII stand-in of a glyph, one column wide (T-14: `LANG=C`).
pub fn ascii(symbol: &str) -> &'static str {
    let is_box = |c: char| ('─'..='╿').contains(&c);
    STAND_INS
        .iter()
        .find(|(glyphs, _)| glyphs.contains(symbol))
        .map_or(
            if symbol.chars().all(is_box) { "+" } else { "?" },
            |(_, plain)| *plain,
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    const ROLES: [Role; 19] = [
        Role::Text,
        Role::Dim,
        Role::Strong,
        Role::Border,
        Role::Accent,
        Role::Good,
        Role::Warn,
        Role::Bad,
        Role::Unknown,
        Role::Key,
        Role::Selected,
        Role::SelectedAway,
        Role::Bar,
        Role::Sandbox,
        Role::Staging,
        Role::Production,
        Role::Field,
        Role::Added,
        Role::Removed,
    ];

    #[test]
    fn t_15_true_colour_only_when_the_terminal_says_so() {
        let depth = |vars: &[(&str, &str)]| Depth::detect(env(vars));
        assert_eq!(depth(&[("TERM", "screen")]), Depth::Sixteen);
        assert_eq!(depth(&[("TERM", "linux")]), Depth::Sixteen);
        assert_eq!(depth(&[("TERM", "xterm-mono")]), Depth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Depth::Indexed);
        assert_eq!(
            depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            Depth::True
        );
        assert_eq!(
            depth(&[
                ("TERM", "xterm-256color"),
                ("COLORTERM", "truecolor"),
                ("NO_COLOR", "1")
            ]),
            Depth::None
        );
        for role in ROLES {
            for name in [ThemeName::Dark, ThemeName::Light, ThemeName::Ansi] {
                let style = Theme::new(name, Depth::Sixteen, false).style(role);
                for colour in [style.fg, style.bg].into_iter().flatten() {
                    assert!(
                        !matches!(colour, Color::Rgb(..) | Color::Indexed(_)),
                        "{role:?} {colour:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn t_15_without_colour_nothing_is_coloured_and_selection_still_shows() {
        let theme = Theme::new(ThemeName::Dark, Depth::None, false);
        for role in ROLES {
            let style = theme.style(role);
            assert_eq!((style.fg, style.bg), (None, None), "{role:?}");
        }
        assert!(
            theme
                .style(Role::Selected)
                .add_modifier
                .contains(Modifier::REVERSED)
        );
    }

    #[test]
    fn t_14_the_locale_decides_about_ascii() {
        assert!(is_utf8_locale(env(&[("LANG", "de_DE.UTF-8")])));
        assert!(!is_utf8_locale(env(&[("LANG", "C")])));
        assert!(!is_utf8_locale(env(&[
            ("LANG", "de_DE.UTF-8"),
            ("LC_ALL", "C")
        ])));
    }
}
