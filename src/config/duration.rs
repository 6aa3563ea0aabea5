//! Durations as the configuration and the flags write them: `250ms`, `30s`, `5m`, `2h`, `30d`, and
//! sums such as `1h30m`.

use std::time::Duration;

/// Units, the longest suffix first so that `ms` is not read as `m`.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// What a duration must look like, for error texts.
pub const FORM: &str =
    "write it as a number with a unit, e.g. \"250ms\", \"30s\", \"5m\", \"12h\" or \"30d\"";

/// Reads a duration; the error says what is wrong without repeating the text.
///
/// # Errors
/// A number without a unit, an unknown unit, or a value beyond 64 bits of milliseconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("is empty".to_owned());
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let number: u64 = number
            .parse()
            .map_err(|_| "does not start with a whole number".to_owned())?;
        let (unit, scale) = UNITS
            .iter()
            .find(|(unit, _)| {
                tail.strip_prefix(unit)
                    .is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphabetic()))
            })
            .ok_or_else(|| "has no unit".to_owned())?;
        total_ms = number
            .checked_mul(*scale)
            .and_then(|ms| total_ms.checked_add(ms))
            .ok_or_else(|| "is too long".to_owned())?;
        rest = tail.strip_prefix(unit).unwrap_or_default().trim_start();
    }
    Ok(Duration::from_millis(total_ms))
}

/// The shortest form that [`parse`] reads back: `30s`, `1m30s`, `250ms`, `0s`.
pub fn show(of: Duration) -> String {
    let mut left = u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, scale) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ] {
        if left >= scale {
            out.push_str(&(left / scale).to_string());
            out.push_str(unit);
            left %= scale;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("250ms", 250)]
    #[case("30s", 30_000)]
    #[case("5m", 300_000)]
    #[case("1h30m", 5_400_000)]
    #[case("30d", 2_592_000_000)]
    #[case("0s", 0)]
    fn a_duration_reads_and_shows(#[case] text: &str, #[case] ms: u64) {
        let of = Duration::from_millis(ms);
        assert_eq!(parse(text), Ok(of));
        assert_eq!(show(of), text);
    }

    #[rstest]
    #[case("")]
    #[case("30")]
    #[case("30 parsecs")]
    #[case("s")]
    #[case("-5s")]
    #[case("99999999999999999999d")]
    #[case("99999999999999999d")]
    fn anything_else_is_refused(#[case] text: &str) {
        assert!(parse(text).is_err(), "{text}");
    }
}
