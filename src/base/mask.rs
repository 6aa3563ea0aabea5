//! Payload paths nobody is shown (`masked` in the configuration), hidden in the text itself: every
//! other byte, key order and digits included, stays as it is.

use std::borrow::Cow;
use std::ops::Range;

/// What stands for a masked value.
pub const MASK: &str = "•••";

/// The two texts with the values under the `masked` paths (`customer.email`) replaced, so that they
/// can be compared on a screen. A value that became another one still shows that it did.
///
/// `None` when one of them is no JSON: nobody can tell where its paths are.
#[must_use]
pub fn pair<'a>(
    before: &'a str,
    after: &'a str,
    masked: &[String],
) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    if masked.is_empty() {
        return Some((Cow::Borrowed(before), Cow::Borrowed(after)));
    }
    let old = values(before, masked)?;
    let new = values(after, masked)?;
    let was: Vec<&str> = old.iter().filter_map(|at| before.get(at.clone())).collect();
    let hidden_before = hide(before, &old, |_, _| false);
    let hidden_after = hide(after, &new, |n, value| was.get(n) != Some(&value));
    Some((Cow::Owned(hidden_before), Cow::Owned(hidden_after)))
}

fn hide(text: &str, values: &[Range<usize>], is_changed: impl Fn(usize, &str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (n, value) in values.iter().enumerate() {
        out.push_str(text.get(from..value.start).unwrap_or_default());
        let shown = text.get(value.clone()).unwrap_or_default();
        let word = if is_changed(n, shown) { " changed" } else { "" };
        out.extend(["\"", MASK, word, "\""]);
        from = value.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Where the values under the `masked` paths stand in a JSON text; lists are walked through.
fn values(text: &str, masked: &[String]) -> Option<Vec<Range<usize>>> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut walk = Walk::default();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at).copied() {
        let end = token_end(text, at, byte);
        walk.token(text.get(at..end).unwrap_or_default(), at..end, masked);
        at = end;
    }
    Some(walk.found)
}

/// The end of the token that starts at `at`.
fn token_end(text: &str, at: usize, first: u8) -> usize {
    let rest = text.as_bytes().get(at + 1..).unwrap_or_default();
    let length = match first {
        b'"' => {
            let mut is_escaped = false;
            rest.iter()
                .position(|byte| {
                    let is_end = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    is_end
                })
                .map_or(rest.len(), |end| end + 1)
        }
        b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => 0,
        _ => rest
            .iter()
            .position(|byte| b",]}: \t\r\n".contains(byte))
            .unwrap_or(rest.len()),
    };
    at + 1 + length
}

/// The walk through a text known to be JSON.
#[derive(Default)]
struct Walk {
    /// The key at each level; a list has none of its own.
    path: Vec<Option<String>>,
    is_list: Vec<bool>,
    is_value_next: bool,
    /// The start and the level of the masked container the walk is inside of.
    hiding: Option<(usize, usize)>,
    found: Vec<Range<usize>>,
}

impl Walk {
    fn token(&mut self, token: &str, place: Range<usize>, masked: &[String]) {
        match token {
            "{" | "[" => {
                if self.hiding.is_none() && self.is_masked(masked) {
                    self.hiding = Some((place.start, self.path.len()));
                }
                self.path.push(None);
                self.is_list.push(token == "[");
                self.is_value_next = token == "[";
            }
            "}" | "]" => {
                self.path.pop();
                self.is_list.pop();
                if let Some((start, level)) = self.hiding
                    && level == self.path.len()
                {
                    self.found.push(start..place.end);
                    self.hiding = None;
                }
            }
            "," => self.is_value_next = self.is_list.last().copied().unwrap_or(false),
            ":" => self.is_value_next = true,
            _ if token.trim().is_empty() => {}
            _ if !self.is_value_next && !self.path.is_empty() => {
                if let Some(key) = self.path.last_mut() {
                    *key = serde_json::from_str(token).ok();
                }
            }
            _ => {
                if self.hiding.is_none() && self.is_masked(masked) {
                    self.found.push(place);
                }
            }
        }
    }

    fn is_masked(&self, masked: &[String]) -> bool {
        masked.iter().any(|path| {
            path.split('.')
                .eq(self.path.iter().flatten().map(String::as_str))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn masked_values_are_hidden_and_the_rest_keeps_its_bytes() {
        let before = r#"{"n": 12345678901234567890.10,"customer":[{"email":"a@b"},{"em\u0061il":"x\"y"}],"card":{"no":[1]},"email":"kept"}"#;
        let (hidden, same) =
            pair(before, before, &paths(&["customer.email", "card"])).expect("both are JSON");
        assert_eq!(
            hidden,
            r#"{"n": 12345678901234567890.10,"customer":[{"email":"•••"},{"em\u0061il":"•••"}],"card":"•••","email":"kept"}"#
        );
        assert_eq!(hidden, same);
    }

    #[test]
    fn a_masked_value_that_changed_says_so_and_no_more() {
        let masked = paths(&["email"]);
        let (before, after) =
            pair(r#"{"email":"a@b"}"#, r#"{"email":"c@d"}"#, &masked).expect("both are JSON");
        assert_eq!(before, r#"{"email":"•••"}"#);
        assert_eq!(after, r#"{"email":"••• changed"}"#);
    }

    #[test]
    fn text_that_is_no_json_is_not_searched() {
        assert!(pair("{\"email\":\"a@b\"", "{}", &paths(&["email"])).is_none());
        assert!(pair("any text", "{}", &[]).is_some());
    }
}
