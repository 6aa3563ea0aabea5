//! The last minutes of four numbers. What was not known leaves a gap.

use std::collections::VecDeque;

use crate::base::clock::Timestamp;
use crate::observe::snapshot::FlowSnapshot;
use crate::tui::world::World;

/// Points kept: more than the widest box shows.
const POINTS_MAX: usize = 240;

/// Newest last.
pub type Points = VecDeque<Option<f64>>;

/// Four series, one point a reading.
#[derive(Default)]
pub struct History {
    last: Option<Timestamp>,
    has_gap: bool,
    pub oldest_due_s: Points,
    pub published_per_s: Points,
    pub lag_s: Points,
    pub deaths_per_min: Points,
}

/// The largest known value; `None` when nothing is known.
pub fn largest(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().fold(None, |most: Option<f64>, value| {
        Some(most.map_or(value, |most| most.max(value)))
    })
}

/// Seconds the oldest due event of all outboxes waits; zero only when every outbox says that
/// nothing is due.
pub fn oldest_due(flow: &FlowSnapshot) -> Option<f64> {
    if flow.outboxes.iter().any(|part| part.value.is_none()) {
        return None;
    }
    largest(flow.outboxes.iter().map(|part| {
        part.value
            .as_ref()
            .and_then(|counts| counts.oldest_due_s.or(counts.due.is_zero().then_some(0.0)))
    }))
}

/// The largest lag of a consumer.
pub fn largest_lag(flow: &FlowSnapshot) -> Option<f64> {
    largest(flow.consumers.iter().map(|consumer| consumer.lag_s))
}

impl History {
    /// Takes the flow's latest reading, once.
    pub fn record(&mut self, world: &World) {
        let reading = &world.readings.flow;
        if reading.problem.is_some() {
            // One blank column a time of silence, not one a try.
            if !self.has_gap && self.last.is_some() {
                self.push([None; 4]);
            }
            self.has_gap = true;
            return;
        }
        let (Some(flow), Some(at)) = (reading.value.as_deref(), reading.read_at) else {
            return;
        };
        if self.last == Some(at) {
            return;
        }
        self.last = Some(at);
        self.has_gap = false;
        self.push([
            oldest_due(flow),
            flow.published_per_s,
            largest_lag(flow),
            flow.deaths_per_min,
        ]);
    }

    fn push(&mut self, points: [Option<f64>; 4]) {
        let series = [
            &mut self.oldest_due_s,
            &mut self.published_per_s,
            &mut self.lag_s,
            &mut self.deaths_per_min,
        ];
        for (series, point) in series.into_iter().zip(points) {
            series.push_back(point);
            if series.len() > POINTS_MAX {
                series.pop_front();
            }
        }
    }
}
