//! Whose clock a time is from, and what it is on ours.

use serde::Serialize;

use crate::base::clock::Timestamp;

use super::super::facts::Facts;

/// A skew below this is noise of the measurement, whatever the round trip was, in microseconds.
const NOISE_US: u64 = 50_000;

/// A database's clock against ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockNote {
    /// Whose.
    pub service: String,
    /// Its clock minus ours, in seconds; `None`: not known, its times are told as they are.
    pub skew_s: Option<f64>,
    /// True when it was subtracted.
    pub is_subtracted: bool,
}

/// The clocks of all databases.
pub struct Clocks {
    of: Vec<(String, Option<i64>)>,
}

impl Clocks {
    /// From what was measured.
    pub fn new(facts: &Facts) -> Self {
        Self {
            of: facts
                .clocks
                .iter()
                .map(|clock| {
                    let noise = clock.round_trip_us.unwrap_or(0).max(NOISE_US);
                    let skew = clock
                        .skew_us
                        .map(|skew| if skew.unsigned_abs() > noise { skew } else { 0 });
                    (clock.service.clone(), skew)
                })
                .collect(),
        }
    }

    /// What is subtracted from a service's times; `None`: its clock is not known.
    pub fn skew(&self, service: &str) -> Option<i64> {
        let known = self.of.iter().find(|(of, _)| of == service);
        known.and_then(|(_, skew)| *skew)
    }

    /// A service's time on our clock.
    pub fn here(&self, service: &str, at: Timestamp) -> Timestamp {
        let skew = self.skew(service).unwrap_or(0);
        Timestamp::from_micros(at.micros().saturating_sub(skew))
    }

    /// One note a database.
    pub fn notes(&self, facts: &Facts) -> Vec<ClockNote> {
        let seconds = |us: i64| {
            let at = Timestamp::from_micros(us);
            at.seconds_since(Timestamp::from_micros(0))
        };
        facts
            .clocks
            .iter()
            .map(|clock| ClockNote {
                service: clock.service.clone(),
                skew_s: clock.skew_us.map(seconds),
                is_subtracted: self.skew(&clock.service).is_some_and(|skew| skew != 0),
            })
            .collect()
    }
}

/// The clocks in one line.
pub struct ClockShown<'a>(pub &'a [ClockNote]);

impl std::fmt::Display for ClockShown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("clocks   ")?;
        for (index, note) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match note.skew_s {
                Some(skew) => write!(f, "{} {skew:+.2}s", note.service)?,
                None => write!(f, "{} not known", note.service)?,
            }
            if note.is_subtracted {
                f.write_str(" (subtracted)")?;
            }
        }
        Ok(())
    }
}
