//! Bytes that are not text, sixteen a line.

use super::paint::{Line, Span};
use crate::tui::theme::Role;

/// More is not shown: nobody reads a megabyte in hex.
pub const BYTES_MAX: usize = 64 * 1024;

/// `00000010  7b 22 61 22 …  |{"a"|`
pub fn dump(bytes: &[u8]) -> Vec<Line> {
    let mut lines: Vec<Line> = bytes
        .chunks(16)
        .take(BYTES_MAX / 16)
        .enumerate()
        .map(|(row, chunk)| {
            let mut digits = String::with_capacity(50);
            for (index, byte) in chunk.iter().enumerate() {
                digits.push_str(&crate::base::digest::hex(&[*byte]));
                digits.push_str(if index == 7 { "  " } else { " " });
            }
            let text: String = chunk
                .iter()
                .map(|byte| match byte {
                    0x20..=0x7e => char::from(*byte),
                    _ => '.',
                })
                .collect();
            vec![
                Span::new(format!("{:08x}  ", row * 16), Role::Dim),
                Span::new(format!("{digits:<50}"), Role::Text),
                Span::new(format!("|{text}|"), Role::Dim),
            ]
        })
        .collect();
    if bytes.len() > BYTES_MAX {
        lines.push(vec![Span::new(
            format!("… {} of {} bytes shown", BYTES_MAX, bytes.len()),
            Role::Warn,
        )]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::dump;

    #[test]
    fn p_01_bytes_are_shown_as_they_are() {
        let lines = dump(b"\x00\xff\x80{\"a\":1}\x1b");
        let text: String = lines[0].iter().map(|span| span.text.as_str()).collect();
        assert_eq!(
            text.trim_end(),
            "00000000  00 ff 80 7b 22 61 22 3a  31 7d 1b                 |...{\"a\":1}.|"
        );
    }
}
