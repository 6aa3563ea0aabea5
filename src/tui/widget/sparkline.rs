//! Bars over time with gaps where nothing was known: a gap is not a zero.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The newest `width` points as columns of `rows` lines, top line first. Zero is the lowest bar,
/// unknown is a blank column.
pub fn bars(
    points: impl DoubleEndedIterator<Item = Option<f64>>,
    width: usize,
    rows: usize,
) -> Vec<String> {
    let mut newest: Vec<Option<f64>> = points
        .rev()
        .take(width)
        .map(|point| point.filter(|value| value.is_finite()))
        .collect();
    newest.resize(width, None);
    newest.reverse();
    let top = newest.iter().flatten().copied().fold(0.0_f64, f64::max);
    let steps: Vec<Option<usize>> = newest
        .iter()
        .map(|point| point.map(|value| step(value, top, rows * 8)))
        .collect();
    (0..rows)
        .rev()
        .map(|row| {
            steps
                .iter()
                .map(|step| match step {
                    // The eighths of a column that reach into this line.
                    Some(step) => match step.saturating_sub(row * 8).min(8) {
                        0 => ' ',
                        eighths => BARS.get(eighths - 1).copied().unwrap_or(' '),
                    },
                    None => ' ',
                })
                .collect()
        })
        .collect()
}

/// A value's height in eighths of a line: at least one, so that a zero is seen as a zero.
fn step(value: f64, top: f64, eighths: usize) -> usize {
    if top <= 0.0 || value <= 0.0 {
        return 1;
    }
    let most = f64::from(u32::try_from(eighths.saturating_sub(1)).unwrap_or(7));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of eighths"
    )]
    let step = (value / top * most).round() as usize;
    step + 1
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn a_gap_is_not_a_zero() {
        let points = [Some(0.0), None, Some(7.0), Some(3.5)];
        assert_eq!(bars(points.into_iter(), 6, 1), ["  ▁ █▅"]);
        assert_eq!(bars([Some(0.0), Some(0.0)].into_iter(), 2, 1), ["▁▁"]);
        assert_eq!(bars([Some(1.0), Some(0.4)].into_iter(), 2, 2), ["█ ", "█▇"]);
    }
}
