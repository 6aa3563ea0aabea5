//! The last two minutes of the Overview's numbers, for its sparklines. What was not known at a time
//! is a gap, never a zero.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::clock::Timestamp;

use super::snapshot::FlowSnapshot;

/// Points a series keeps.
pub const POINTS: usize = 120;

/// One number over time: oldest first, one point an interval, `None` where it was not known.
pub type Series = VecDeque<Option<f64>>;

/// Series of the Overview, all of the same length and with the same times.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Time between two points.
    pub every: Duration,
    /// Age of the oldest pending row over all outboxes, in seconds.
    pub oldest_pending_s: Series,
    /// Publishes a second.
    pub published_per_s: Series,
    /// Largest consumer lag, in seconds.
    pub lag_s: Series,
    /// Deaths a minute.
    pub deaths_per_min: Series,
    /// Number of the interval of the newest point since the epoch.
    newest: Option<i64>,
}

impl History {
    /// An empty history with a point every `every`.
    pub fn new(every: Duration) -> Self {
        Self {
            every: every.max(Duration::from_millis(1)),
            oldest_pending_s: Series::new(),
            published_per_s: Series::new(),
            lag_s: Series::new(),
            deaths_per_min: Series::new(),
            newest: None,
        }
    }

    /// Points each series has.
    pub fn len(&self) -> usize {
        self.lag_s.len()
    }

    /// True before the first reading.
    pub fn is_empty(&self) -> bool {
        self.lag_s.is_empty()
    }

    /// Takes the numbers read at `at`. Intervals without a reading since the last one become gaps; a
    /// second reading within an interval replaces the first.
    pub fn accept(&mut self, at: Timestamp, flow: &FlowSnapshot) {
        let every_us = i64::try_from(self.every.as_micros()).unwrap_or(i64::MAX);
        let interval = at.micros().div_euclid(every_us);
        match self.newest {
            // A clock that was set back: the times no longer line up.
            Some(newest) if interval < newest => self.clear(),
            Some(newest) if interval == newest => self.pop(),
            Some(newest) => {
                let missed = usize::try_from(interval - newest - 1).unwrap_or(POINTS);
                for _ in 0..missed.min(POINTS) {
                    self.push([None; 4]);
                }
            }
            None => {}
        }
        self.newest = Some(interval);
        self.push([
            oldest_pending(flow),
            flow.published_per_s,
            largest_lag(flow),
            flow.deaths_per_min,
        ]);
    }

    fn series(&mut self) -> [&mut Series; 4] {
        [
            &mut self.oldest_pending_s,
            &mut self.published_per_s,
            &mut self.lag_s,
            &mut self.deaths_per_min,
        ]
    }

    fn push(&mut self, values: [Option<f64>; 4]) {
        for (series, value) in self.series().into_iter().zip(values) {
            if series.len() == POINTS {
                series.pop_front();
            }
            series.push_back(value);
        }
    }

    fn pop(&mut self) {
        for series in self.series() {
            series.pop_back();
        }
    }

    fn clear(&mut self) {
        for series in self.series() {
            series.clear();
        }
    }
}

/// The oldest pending age, falling back to the oldest due one where only that is told. `None` when an
/// outbox does not tell: the oldest may be there.
fn oldest_pending(flow: &FlowSnapshot) -> Option<f64> {
    let ages = flow.outboxes.iter().map(|part| {
        let counts = part.value.as_ref()?;
        if counts.pending.is_zero() {
            return Some(0.0);
        }
        counts.oldest_pending_s.or(counts.oldest_due_s)
    });
    largest(ages)
}

fn largest_lag(flow: &FlowSnapshot) -> Option<f64> {
    largest(flow.consumers.iter().map(|consumer| consumer.lag_s))
}

/// The largest, if all are known and there are any.
fn largest(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values
        .reduce(|left, right| Some(left?.max(right?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(published_per_s: Option<f64>) -> FlowSnapshot {
        FlowSnapshot {
            published_per_s,
            ..FlowSnapshot::default()
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    #[test]
    fn unknown_and_missed_intervals_are_gaps() {
        let mut history = History::new(Duration::from_secs(1));
        history.accept(at(1_000), &flow(Some(5.0)));
        history.accept(at(1_400), &flow(Some(6.0)));
        history.accept(at(2_100), &flow(None));
        history.accept(at(5_000), &flow(Some(0.0)));
        assert_eq!(
            history.published_per_s,
            [Some(6.0), None, None, None, Some(0.0)]
        );
        assert_eq!(history.lag_s, [None; 5], "no consumers: nothing is known");
    }

    #[test]
    fn it_keeps_its_length_and_survives_a_clock_set_back() {
        let mut history = History::new(Duration::from_secs(1));
        for second in 0..500 {
            history.accept(at(second * 1_000), &flow(Some(1.0)));
        }
        assert_eq!(history.len(), POINTS);
        history.accept(at(900_000), &flow(Some(2.0)));
        assert_eq!(history.len(), POINTS);
        assert_eq!(history.published_per_s.iter().flatten().count(), 1);
        history.accept(at(1_000), &flow(Some(3.0)));
        assert_eq!(history.published_per_s, [Some(3.0)]);
    }
}
