//! JSON laid out for reading straight from its text: digits, key order and escapes stay as they
//! are, nothing is parsed into a number and back (P-06).

use super::paint::{Line, Span};
use crate::base::mask::MASK;
use crate::tui::theme::Role;

/// Deeper nesting is shown as raw text (P-09).
pub const DEPTH_MAX: usize = 128;

/// Lays JSON text out, two blanks a level. Values under one of the `masked` paths
/// (`customer.email`) are not shown.
///
/// # Errors
/// Why it is not laid out, for a person.
pub fn pretty(text: &str, masked: &[String]) -> Result<Vec<Line>, String> {
    check(text)?;
    let mut layout = Layout {
        text,
        masked,
        lines: Vec::new(),
        line: Vec::new(),
        path: Vec::new(),
    };
    layout.run();
    Ok(layout.lines)
}

/// A nesting that is too deep is told apart from text that is no JSON at all.
fn check(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if deepest > DEPTH_MAX {
        return Err(format!("not parsed: too deep ({deepest} levels)"));
    }
    serde_json::from_str::<&serde_json::value::RawValue>(text)
        .map(|_| ())
        .map_err(|error| format!("not JSON: {error}"))
}

/// One level of the walk: where it is inside of an object or an array.
struct Level<'a> {
    is_object: bool,
    key: Option<&'a str>,
    is_empty: bool,
}

struct Layout<'a> {
    text: &'a str,
    masked: &'a [String],
    lines: Vec<Line>,
    line: Line,
    path: Vec<Level<'a>>,
}

impl Layout<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while let Some(byte) = self.text.as_bytes().get(at).copied() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                b'{' | b'[' => {
                    if self.is_masked() {
                        let end = self.skip_value(at);
                        self.push(MASK, Role::Unknown);
                        at = end;
                        continue;
                    }
                    self.open(byte);
                    at += 1;
                }
                b'}' | b']' => {
                    self.close(byte);
                    at += 1;
                }
                b',' => {
                    self.push(",", Role::Dim);
                    self.end_line();
                    if let Some(level) = self.path.last_mut() {
                        level.key = None;
                    }
                    at += 1;
                }
                b':' => {
                    self.push(": ", Role::Dim);
                    at += 1;
                }
                b'"' => at = self.string(at),
                _ => at = self.scalar(at),
            }
        }
        self.end_line();
    }

    fn open(&mut self, byte: u8) {
        self.start_value();
        self.push(if byte == b'{' { "{" } else { "[" }, Role::Dim);
        self.path.push(Level {
            is_object: byte == b'{',
            key: None,
            is_empty: true,
        });
    }

    fn close(&mut self, byte: u8) {
        let was_empty = self.path.pop().is_none_or(|level| level.is_empty);
        if !was_empty {
            self.end_line();
            self.indent();
        }
        self.push(if byte == b'}' { "}" } else { "]" }, Role::Dim);
    }

    /// Before a value or a key: a new line inside of a container.
    fn start_value(&mut self) {
        let is_key_place = self
            .path
            .last()
            .is_some_and(|level| !level.is_object || level.key.is_none());
        if is_key_place {
            if let Some(level) = self.path.last_mut()
                && level.is_empty
            {
                level.is_empty = false;
                self.end_line();
            }
            self.indent();
        }
    }

    fn string(&mut self, start: usize) -> usize {
        let end = string_end(self.text, start);
        let token = self.text.get(start..end).unwrap_or_default();
        let is_key = self
            .path
            .last()
            .is_some_and(|level| level.is_object && level.key.is_none());
        self.start_value();
        if is_key {
            self.push(token, Role::Accent);
            if let Some(level) = self.path.last_mut() {
                level.key = Some(token.trim_matches('"'));
            }
        } else if self.is_masked() {
            self.push(MASK, Role::Unknown);
        } else {
            self.push(token, Role::Good);
        }
        end
    }

    fn scalar(&mut self, start: usize) -> usize {
        let rest = self.text.get(start..).unwrap_or_default();
        let length = rest
            .find(|c: char| matches!(c, ',' | '}' | ']' | ':') || c.is_ascii_whitespace())
            .unwrap_or(rest.len())
            .max(1);
        let token = rest.get(..length).unwrap_or(rest);
        self.start_value();
        if self.is_masked() {
            self.push(MASK, Role::Unknown);
        } else {
            self.push(token, Role::Warn);
        }
        start + token.len().max(1)
    }

    /// The end of the container that starts at `start`.
    fn skip_value(&mut self, start: usize) -> usize {
        self.start_value();
        let mut depth = 0_usize;
        let mut at = start;
        while let Some(byte) = self.text.as_bytes().get(at).copied() {
            match byte {
                b'"' => {
                    at = string_end(self.text, at);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn is_masked(&self) -> bool {
        if self.masked.is_empty() {
            return false;
        }
        let path: Vec<&str> = self.path.iter().filter_map(|level| level.key).collect();
        let path = path.join(".");
        self.masked.contains(&path)
    }

    fn indent(&mut self) {
        if self.line.is_empty() {
            let depth = self.path.len();
            self.line.push(Span::new("  ".repeat(depth), Role::Text));
        }
    }

    fn push(&mut self, text: &str, role: Role) {
        self.line.push(Span::new(text, role));
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.lines.push(std::mem::take(&mut self.line));
        }
    }
}

/// Just after the closing quote of the string that starts at `start`.
fn string_end(text: &str, start: usize) -> usize {
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(start + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, masked: &[&str]) -> String {
        let masked: Vec<String> = masked.iter().map(|mask| (*mask).to_owned()).collect();
        pretty(text, &masked)
            .expect("is JSON")
            .iter()
            .map(|line| line.iter().map(|span| span.text.as_str()).collect())
            .collect::<Vec<String>>()
            .join("\n")
    }

    #[test]
    fn p_06_digits_are_shown_as_they_were_sent() {
        let body = r#"{"order_id":4634343214213523454,"neg":-9223372036854775808,"u64":18446744073709551615,"huge":123456789012345678901234567890,"f":1.10,"e":1E400}"#;
        let text = shown(body, &[]);
        for digits in [
            "4634343214213523454",
            "-9223372036854775808",
            "18446744073709551615",
            "123456789012345678901234567890",
            "1.10",
            "1E400",
        ] {
            assert!(text.contains(digits), "{digits} in {text}");
        }
        let joined: String = text.split_whitespace().collect();
        assert_eq!(joined, body);
    }

    #[test]
    fn a_document_is_laid_out() {
        assert_eq!(
            shown(r#"{"a":[1,{"b":null}],"e":{},"s":"x\"y,]"}"#, &[]),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"e\": {},\n  \"s\": \"x\\\"y,]\"\n}"
        );
        assert_eq!(shown("[]", &[]), "[]");
        assert_eq!(shown(" 12 ", &[]), "12");
    }

    #[test]
    fn masked_paths_are_not_shown() {
        let text = shown(
            r#"{"customer":{"email":"mia@shop","card":{"no":"4111"}},"lines":[{"sku":1}]}"#,
            &["customer.email", "customer.card", "lines.sku"],
        );
        assert!(
            !text.contains("mia@shop") && !text.contains("4111"),
            "{text}"
        );
        assert!(text.contains("\"email\": •••"), "{text}");
        assert!(text.contains("\"sku\": •••"), "{text}");
    }

    #[test]
    fn p_09_deep_nesting_is_refused_with_the_reason() {
        for depth in [129, 100_000] {
            let body = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let why = pretty(&body, &[]).expect_err("too deep");
            assert!(why.starts_with("not parsed: too deep"), "{why}");
        }
        assert!(
            pretty("{\"a\":", &[])
                .expect_err("cut off")
                .starts_with("not JSON")
        );
    }
}
