//! Untrusted text made safe for a terminal (P-10, N-07): control characters, bidirectional
//! overrides and zero-width characters become visible tokens; cutting never splits a cluster.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// `text` with every character that could act on a terminal, or hide in one, made visible:
/// C0 as control pictures (`␛`), DEL as `␡`, C1, bidi and zero-width as `\u{202e}`. Line feeds and
/// tabs become `␊` and `␉`; callers that lay out lines split first.
pub fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('?')),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}'
            | '\u{200b}'..='\u{200c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{61c}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}' => {
                out.extend(c.escape_unicode());
            }
            _ => out.push(c),
        }
    }
    out
}

/// Bytes as safe text: UTF-8 runs as [`safe`] shows them, every other byte as `\xNN`.
pub fn safe_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&safe(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str("\\x");
            out.push_str(&super::digest::hex(&[*byte]));
        }
    }
    out
}

/// Characters of one column that never join another one of their kind: printable ASCII, boxes and bars. They are
/// most of a screen, and worth not being looked up in tables.
const fn is_single(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{2500}'..='\u{259f}')
}

/// The grapheme clusters of `text` (UAX #29): what takes a cell, or two, together.
pub fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.chars();
        let first = chars.next()?;
        let is_alone = is_single(first) && chars.next().is_none_or(is_single);
        let length = if is_alone {
            first.len_utf8()
        } else {
            rest.graphemes(true).next()?.len()
        };
        let (cluster, after) = rest.split_at(length);
        rest = after;
        Some(cluster)
    })
}

/// Columns `text` takes on a terminal.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return text.len();
    }
    clusters(text).map(cluster_width).sum()
}

fn cluster_width(cluster: &str) -> usize {
    let mut chars = cluster.chars();
    if chars.next().is_some_and(is_single) && chars.next().is_none() {
        return 1;
    }
    cluster.width().min(2)
}

/// `text` cut to at most `columns`, on a grapheme border, ending in `…` when something was cut.
pub fn cut(text: &str, columns: usize) -> String {
    let mut used = 0;
    let mut fits = 0;
    for cluster in clusters(text) {
        used += cluster_width(cluster);
        if used < columns {
            fits += cluster.len();
        }
        if used > columns {
            let start = text.get(..fits).unwrap_or_default();
            return if columns == 0 {
                String::new()
            } else {
                format!("{start}…")
            };
        }
    }
    text.to_owned()
}

/// `text` cut to at most `limit` bytes of UTF-8 on a character border (P-13).
pub fn cut_bytes(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_10_escape_sequences_become_visible() {
        let shown = safe("\u{1b}]0;PWNED\u{7}\u{9b}31m\u{7f}\u{202e}x\u{2066}");
        assert_eq!(shown, "␛]0;PWNED␇\\u{9b}31m␡\\u{202e}x\\u{2066}");
        assert_eq!(safe_bytes(b"Auc\x92a\x00"), "Auc\\x92a␀");
    }

    #[test]
    fn t_14_a_cluster_is_never_split() {
        assert_eq!(cut("👩‍🔬 lab", 2), "…");
        assert_eq!(cut("👩‍🔬 lab", 3), "👩‍🔬…");
        assert_eq!(cut("注文🧾.dlq", 5), "注文…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn t_14_clusters_are_those_of_the_tables() {
        const PIECES: [&str; 16] = [
            "a",
            " ",
            "~",
            "─",
            "█",
            "…",
            "e\u{301}",
            "\u{301}",
            "注",
            "👩‍🔬",
            "🇩🇪",
            "🇩",
            "\u{600}",
            "\u{200d}",
            "\r\n",
            "ｶﾞ",
        ];
        let texts = proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..9);
        proptest::proptest!(|(pieces in texts)| {
            let text = pieces.concat();
            let of_tables: Vec<&str> = text.graphemes(true).collect();
            proptest::prop_assert_eq!(clusters(&text).collect::<Vec<_>>(), of_tables.clone());
            let wide: usize = of_tables.iter().map(|g| g.width().min(2)).sum();
            proptest::prop_assert_eq!(width(&text), wide);
            for columns in 0..6 {
                let cut = cut(&text, columns);
                proptest::prop_assert!(width(&cut) <= columns, "{cut:?}");
                proptest::prop_assert_eq!(cut == text, wide <= columns);
            }
        });
    }

    #[test]
    fn p_13_a_text_is_cut_between_characters() {
        let text = format!("{}こんにちは", "x".repeat(996));
        assert_eq!(cut_bytes(&text, 1000), format!("{}こ", "x".repeat(996)));
    }
}
