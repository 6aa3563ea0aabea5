//! Ages, counts and sizes as a person reads them: `4s`, `1h12m`, `12 304`, `412 B`.

use std::time::Duration;

/// An age in at most two units: `0s`, `59s`, `2m`, `18m`, `1h12m`, `3d4h`. Under ten minutes the
/// seconds are kept (`2m05s`).
pub fn age(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_owned();
    }
    if seconds < 0.0 {
        return format!("-{}", age(-seconds));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above; saturates"
    )]
    let s = seconds as u64;
    let (m, h, d) = (s / 60, s / 3600, s / 86_400);
    match s {
        0..60 => format!("{s}s"),
        60..600 if !s.is_multiple_of(60) => format!("{m}m{:02}s", s % 60),
        60..3600 => format!("{m}m"),
        3600..86_400 if m % 60 != 0 => format!("{h}h{:02}m", m % 60),
        3600..86_400 => format!("{h}h"),
        _ if h % 24 != 0 => format!("{d}d{}h", h % 24),
        _ => format!("{d}d"),
    }
}

/// [`age`] of a duration.
pub fn duration(of: Duration) -> String {
    age(of.as_secs_f64())
}

/// Digits in groups of three, separated by a narrow-safe plain space: `12 304`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Bytes in the largest unit that keeps three digits: `412 B`, `1.0 KiB`, `20.0 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let mut value = count as f64 / 1024.0;
    let mut unit = "KiB";
    for next in UNITS.iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0.4, "0s")]
    #[case(59.9, "59s")]
    #[case(120.0, "2m")]
    #[case(125.0, "2m05s")]
    #[case(1080.0, "18m")]
    #[case(4320.0, "1h12m")]
    #[case(273_600.0, "3d4h")]
    #[case(-5.0, "-5s")]
    #[case(f64::NAN, "?")]
    fn ages(#[case] seconds: f64, #[case] shown: &str) {
        assert_eq!(age(seconds), shown);
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(12_304), "12 304");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(bytes(412), "412 B");
        assert_eq!(bytes(20 * 1024 * 1024), "20.0 MiB");
    }
}
