//! Numbers that say how well they are known. Unknown is never zero (design invariant 11).

use serde::{Serialize, Serializer};

/// A count that stopped at a limit instead of walking a whole table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Every row was counted.
    Exact(u64),
    /// Counting stopped here: there are at least this many (`≥ 10 000`).
    AtLeast(u64),
    /// Estimated by the database from its statistics (`~9.8 M`).
    About(u64),
}

impl Count {
    /// From a count taken over at most `cap + 1` rows.
    pub fn capped(counted: u64, cap: u64) -> Self {
        if counted > cap {
            Self::AtLeast(cap)
        } else {
            Self::Exact(counted)
        }
    }

    /// The number without its quality, for sorting and sparklines.
    pub fn floor(self) -> u64 {
        match self {
            Self::Exact(n) | Self::AtLeast(n) | Self::About(n) => n,
        }
    }

    /// True only for a count known to be zero.
    pub fn is_zero(self) -> bool {
        self == Self::Exact(0)
    }

    /// Sum over services: as exact as the least exact part.
    pub fn plus(self, other: Self) -> Self {
        let sum = self.floor().saturating_add(other.floor());
        match (self, other) {
            (Self::Exact(_), Self::Exact(_)) => Self::Exact(sum),
            (Self::About(_), _) | (_, Self::About(_)) => Self::About(sum),
            _ => Self::AtLeast(sum),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::base::human::grouped;
        match self {
            Self::Exact(n) => f.write_str(&grouped(*n)),
            Self::AtLeast(n) => write!(f, "≥ {}", grouped(*n)),
            Self::About(n) => write!(f, "~{}", grouped(*n)),
        }
    }
}

/// `{"n": 10000, "quality": "at_least"}`; quality is `exact`, `at_least` or `about`.
impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Count", 2)?;
        out.serialize_field("n", &self.floor())?;
        out.serialize_field(
            "quality",
            match self {
                Self::Exact(_) => "exact",
                Self::AtLeast(_) => "at_least",
                Self::About(_) => "about",
            },
        )?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_capped_count_says_so() {
        assert_eq!(Count::capped(10_000, 10_000).to_string(), "10 000");
        assert_eq!(Count::capped(10_001, 10_000).to_string(), "≥ 10 000");
        assert!(!Count::AtLeast(0).is_zero());
    }
}
