//! Rates that do not fall to zero between two samples.
//!
//! RabbitMQ takes samples at a fixed pace, and from the end of one until the next has come it answers 0 for every rate
//! of a queue: a busy queue looks still for part of each second. So a queue whose rates are all 0 keeps the last ones
//! for a moment; if they are still 0 then, it is still.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::QueueFacts;

/// Longer than a sample is late, and as short as nobody misses.
const GAP: Duration = Duration::from_secs(2);

/// Published, delivered, acknowledged and redelivered a second.
type Told = [Option<f64>; 4];

/// The last rates of each queue that moved.
#[derive(Debug, Default)]
pub(super) struct Rates {
    last: Mutex<HashMap<String, (Instant, Told)>>,
}

impl Rates {
    /// Puts the last rates in the place of zeros that are no answer yet.
    pub(super) fn steady(&self, facts: &mut QueueFacts) {
        let told = [
            facts.rate_in,
            facts.rate_out,
            facts.rate_ack,
            facts.rate_redelivered,
        ];
        let is_moving = told.iter().flatten().any(|rate| *rate > 0.0);
        // Nothing that can panic runs while it is held.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        last.retain(|_, (at, _)| now.duration_since(*at) < GAP);
        if is_moving {
            last.insert(facts.name.clone(), (now, told));
        } else if told.iter().any(Option::is_some)
            && let Some((_, told)) = last.get(&facts.name)
        {
            [
                facts.rate_in,
                facts.rate_out,
                facts.rate_ack,
                facts.rate_redelivered,
            ] = *told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(rate: Option<f64>) -> QueueFacts {
        QueueFacts {
            name: "inventory.orders".to_owned(),
            rate_in: rate,
            rate_redelivered: rate,
            ..QueueFacts::default()
        }
    }

    fn shown(rates: &Rates, rate: Option<f64>) -> Option<f64> {
        let mut facts = queue(rate);
        rates.steady(&mut facts);
        assert_eq!(facts.rate_in, facts.rate_redelivered);
        facts.rate_redelivered
    }

    #[tokio::test(start_paused = true)]
    async fn a_zero_between_two_samples_is_no_answer_and_a_lasting_one_is() {
        let rates = Rates::default();
        assert_eq!(shown(&rates, Some(0.0)), Some(0.0), "nothing before it");
        assert_eq!(shown(&rates, Some(160.0)), Some(160.0));
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(shown(&rates, Some(0.0)), Some(160.0));
        tokio::time::advance(Duration::from_millis(1_699)).await;
        assert_eq!(shown(&rates, Some(0.0)), Some(160.0), "not begun again");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(shown(&rates, Some(0.0)), Some(0.0), "it is still");
        assert_eq!(shown(&rates, Some(5.0)), Some(5.0));
        assert_eq!(shown(&rates, None), None, "not told is not known");
    }

    #[tokio::test(start_paused = true)]
    async fn queues_do_not_speak_for_each_other() {
        let rates = Rates::default();
        assert_eq!(shown(&rates, Some(160.0)), Some(160.0));
        let mut other = QueueFacts {
            name: "payment.orders".to_owned(),
            ..queue(Some(0.0))
        };
        rates.steady(&mut other);
        assert_eq!(other.rate_in, Some(0.0));
    }
}
