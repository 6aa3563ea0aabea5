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

/// Columns `text` takes on a terminal.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        // Most of a screen, and worth not being looked up in tables.
        return text.len();
    }
    text.graphemes(true).map(|g| g.width().min(2)).sum()
}

/// `text` cut to at most `columns`, on a grapheme border, ending in `…` when something was cut.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let mut out = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        let w = cluster.width().min(2);
        if used + w > room {
            break;
        }
        used += w;
        out.push_str(cluster);
    }
    out.push('…');
    out
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
    fn p_13_a_text_is_cut_between_characters() {
        let text = format!("{}こんにちは", "x".repeat(996));
        assert_eq!(cut_bytes(&text, 1000), format!("{}こ", "x".repeat(996)));
    }
}
