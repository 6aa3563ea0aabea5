//! A line of bars with gaps where nothing was known: a gap is not a zero.

/// The newest `width` points as one character each. Zero is the lowest bar, unknown is a blank.
pub fn bars(points: impl DoubleEndedIterator<Item = Option<f64>>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut newest: Vec<Option<f64>> = points.rev().take(width).collect();
    newest.reverse();
    let top = newest
        .iter()
        .flatten()
        .copied()
        .filter(|value| value.is_finite())
        .fold(0.0_f64, f64::max);
    let mut out = String::with_capacity(width * 3);
    for _ in newest.len()..width {
        out.push(' ');
    }
    for point in newest {
        let bar = match point {
            Some(value) if value.is_finite() => {
                let share = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between 0 and 7"
                )]
                let step = (share * 7.0).round() as usize;
                BARS.get(step).copied().unwrap_or(' ')
            }
            _ => ' ',
        };
        out.push(bar);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn a_gap_is_not_a_zero() {
        let points = [Some(0.0), None, Some(7.0), Some(3.5)];
        assert_eq!(bars(points.into_iter(), 6), "  ▁ █▅");
        assert_eq!(bars([Some(0.0), Some(0.0)].into_iter(), 2), "▁▁");
    }
}
