//! Time as this program sees it: microseconds since the epoch, UTC. Leases never use it: they live
//! on the database's clock (design invariant 3).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in UTC with microseconds. Serialises as RFC 3339, e.g. `2026-01-02T03:04:05.678901Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `micros` microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The calendar form; `None` outside the years chrono can express.
    pub fn to_datetime(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(self.0)
    }

    /// RFC 3339 with microseconds and `Z`, the form of every JSON answer.
    pub fn to_rfc3339(self) -> String {
        match self.to_datetime() {
            Some(at) => at.to_rfc3339_opts(SecondsFormat::Micros, true),
            None => format!("@{}us", self.0),
        }
    }

    /// `HH:MM:SS` in UTC, for screens.
    pub fn to_clock(self) -> String {
        self.to_datetime()
            .map_or_else(|| "?".to_owned(), |at| at.format("%H:%M:%S").to_string())
    }

    /// Parses RFC 3339 with any offset; fractions below a microsecond are cut.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|at| Self(at.timestamp_micros()))
    }

    /// Microseconds from `earlier` to `self`; negative when `earlier` is later.
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds from `earlier` to `self`; negative when `earlier` is later.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact to the microsecond for 285 years"
        )]
        let micros = self.micros_since(earlier) as f64;
        micros / 1e6
    }

    /// The instant `by` later, saturating.
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// The instant `by` earlier, saturating.
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl std::fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_rfc3339())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_rfc3339(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("not an RFC 3339 time: {text:?}")))
    }
}

/// Where "now" comes from: the machine, or a test that holds it still.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// Microseconds since the epoch, moved by the test that owns it.
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands at `at` until moved.
    pub fn fixed(at: Timestamp) -> Self {
        Self::Fixed(Arc::new(AtomicI64::new(at.micros())))
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        match self {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one place that reads the machine's clock"
            )]
            Self::System => Timestamp(Utc::now().timestamp_micros()),
            Self::Fixed(at) => Timestamp(at.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_its_json_form_to_the_microsecond() {
        let at = Timestamp::from_micros(1_767_323_045_678_901);
        assert_eq!(at.to_rfc3339(), "2026-01-02T03:04:05.678901Z");
        assert_eq!(
            Timestamp::parse_rfc3339("2026-01-02T04:04:05.678901999+01:00"),
            Some(at)
        );
    }
}
