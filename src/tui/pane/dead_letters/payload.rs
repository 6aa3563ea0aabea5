//! The payload tab: laid out JSON, text, or hex; unpacked for the eye only.

use std::io::Read as _;

use super::ViewAs;
use crate::base::human;
use crate::model::message::Properties;
use crate::observe::snapshot::DeadLetterView;
use crate::tui::theme::Role;
use crate::tui::widget::paint::{Line, Span, line};
use crate::tui::widget::{hex, json};
use crate::tui::world::World;

/// A body that unpacks to more than this is not shown whole.
const UNPACKED_MAX: u64 = 4 * 1024 * 1024;

/// The text of the tab.
pub fn payload(view: &DeadLetterView, view_as: ViewAs, world: &World) -> Vec<Line> {
    let message = &view.detail.message;
    let bytes = message.payload.bytes();
    let kind = message
        .properties
        .content_type
        .as_deref()
        .unwrap_or("no content type");
    let mut out = vec![vec![
        Span::new(
            format!(
                "{}  {kind}{}  ",
                human::bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
                message
                    .properties
                    .content_encoding
                    .as_ref()
                    .map_or_else(String::new, |encoding| format!(", {encoding}")),
            ),
            Role::Text,
        ),
        Span::new(
            format!("sha256 {:.12}…", view.detail.letter.payload_sha256),
            Role::Dim,
        ),
    ]];
    if bytes.is_empty() {
        out.push(line("an empty body", Role::Dim));
        return out;
    }
    let unpacked = unpacked(&message.properties, bytes, &mut out);
    let shown = unpacked.as_deref().unwrap_or(bytes);
    if let Some(why) = not_shown(shown, view_as, &world.context.masked) {
        out.push(line(why, Role::Warn));
        return out;
    }
    if view_as == ViewAs::Hex {
        out.extend(hex::dump(bytes));
        return out;
    }
    if looks_like_envelope(shown) {
        out.push(vec![Span::new(
            "! the body looks like an error envelope; the original is inside",
            Role::Warn,
        )]);
    }
    match std::str::from_utf8(shown) {
        Err(_) => {
            out.push(line(
                "not UTF-8 text: shown in hex, replayed byte by byte",
                Role::Warn,
            ));
            out.extend(hex::dump(shown));
        }
        Ok(text) if view_as == ViewAs::Json => match json::pretty(text, &world.context.masked) {
            Ok(lines) => out.extend(lines),
            Err(why) => {
                out.push(line(format!("{why}; shown as text"), Role::Warn));
                out.extend(raw(text));
            }
        },
        Ok(text) => out.extend(raw(text)),
    }
    out
}

/// Why these bytes are not shown this way where parts of payloads are masked: the masked paths can
/// only be told in JSON that is laid out.
fn not_shown(bytes: &[u8], view_as: ViewAs, masked: &[String]) -> Option<&'static str> {
    if masked.is_empty() {
        return None;
    }
    let is_laid_out =
        std::str::from_utf8(bytes).is_ok_and(|text| json::pretty(text, masked).is_ok());
    match (is_laid_out, view_as) {
        (true, ViewAs::Json) => None,
        (true, _) => Some("not shown this way: this context masks parts of payloads (v: laid out)"),
        (false, _) => Some(
            "not shown: this context masks parts of payloads, and this is not JSON they could be found in",
        ),
    }
}

/// Text as it is, line by line.
fn raw(text: &str) -> Vec<Line> {
    text.split('\n')
        .map(|part| line(part, Role::Text))
        .collect()
}

/// The unpacked body of a message that says it is gzip, for the eye only: what is sent stays as it
/// is (P-02).
fn unpacked(properties: &Properties, bytes: &[u8], out: &mut Vec<Line>) -> Option<Vec<u8>> {
    if properties.content_encoding.as_deref() != Some("gzip") {
        return None;
    }
    let mut body = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(bytes)
        .take(UNPACKED_MAX)
        .read_to_end(&mut body);
    if read.is_err() {
        out.push(line("declared gzip, is not", Role::Warn));
        return None;
    }
    out.push(line(
        format!(
            "unpacked for the eye, {}; replayed as it is",
            human::bytes(u64::try_from(body.len()).unwrap_or(u64::MAX))
        ),
        Role::Dim,
    ));
    Some(body)
}

/// True for a JSON object that wraps another message and its error (P-12).
fn looks_like_envelope(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Envelope {
        error: Option<serde::de::IgnoredAny>,
        payload: Option<String>,
    }
    serde_json::from_slice::<Envelope>(bytes)
        .is_ok_and(|envelope| envelope.error.is_some() && envelope.payload.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_parts_are_not_shown_another_way() {
        let masked = ["customer.email".to_owned()];
        let body = br#"{"customer":{"email":"mia@shop"}}"#;
        assert_eq!(not_shown(body, ViewAs::Json, &masked), None);
        assert!(not_shown(body, ViewAs::Text, &masked).is_some());
        assert!(not_shown(body, ViewAs::Hex, &masked).is_some());
        assert!(not_shown(b"{\"email\":\"mia@shop\"", ViewAs::Json, &masked).is_some());
        assert!(not_shown(&[0xff, 0xfe], ViewAs::Hex, &masked).is_some());
        assert_eq!(not_shown(&[0xff, 0xfe], ViewAs::Hex, &[]), None);
    }
}
