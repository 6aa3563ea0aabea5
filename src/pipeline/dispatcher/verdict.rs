//! What an attempt's outcome means for its row. Pure.

use std::time::Duration;

use crate::base::human::duration as shown;
use crate::broker::PublishOutcome;
use crate::config::DispatcherSettings;

/// Age alone makes nobody give up before so many attempts: after a long outage, or when a person has set
/// an old row back, the first hiccup must not be the end.
const ATTEMPTS_MIN: u32 = 3;

/// What happens to a row after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Confirmed and routed: mark it.
    Sent,
    /// Back to pending, later: the trouble may pass by itself.
    Retry {
        /// Stored as the row's last error.
        error: String,
    },
    /// No further attempt by itself: nothing would change, or enough was tried.
    Fail {
        /// Stored as the row's last error.
        error: String,
    },
    /// Back to pending at once, the attempt not counted: it never left.
    GiveBack {
        /// Why, for the report.
        reason: String,
    },
}

/// Decides what an attempt's outcome means. `attempts` counts the attempt just made, `age` is the time
/// since the event was committed, by the database's clock.
pub fn verdict(
    outcome: &PublishOutcome,
    attempts: u32,
    age: Duration,
    settings: &DispatcherSettings,
) -> Next {
    let error = match outcome {
        PublishOutcome::Confirmed => return Next::Sent,
        PublishOutcome::Returned(detail) => {
            return Next::Fail {
                error: format!("unroutable: {detail}"),
            };
        }
        PublishOutcome::Refused(detail) => {
            return Next::Fail {
                error: format!("refused: {detail}"),
            };
        }
        PublishOutcome::Unsent(reason) => {
            return Next::GiveBack {
                reason: reason.clone(),
            };
        }
        PublishOutcome::Nacked => "refused by broker (nack): queue full or limit".to_owned(),
        PublishOutcome::Unknown(detail) => format!("unknown whether sent: {detail}"),
    };
    if attempts >= settings.attempts_max {
        return Next::Fail {
            error: format!("given up after {attempts} attempts: {error}"),
        };
    }
    if attempts >= ATTEMPTS_MIN && age >= settings.give_up_after {
        return Next::Fail {
            error: format!(
                "given up {} after its commit, after {attempts} attempts: {error}",
                shown(age)
            ),
        };
    }
    Next::Retry { error }
}

/// Why a row is not even tried, or `None`: it was claimed more often than it may be tried, so the last
/// attempts ended without a word. What kills each dispatcher that takes it must not kill the next.
pub fn exhausted(attempts: u32, settings: &DispatcherSettings) -> Option<String> {
    (attempts > settings.attempts_max).then(|| {
        format!(
            "given up after {} attempts: the last one ended without an outcome, its dispatcher died or \
             its lease ran out; it may have been sent",
            attempts - 1
        )
    })
}

/// The counter of an outcome.
pub const fn counter(outcome: &PublishOutcome) -> &'static str {
    match outcome {
        PublishOutcome::Confirmed => "confirmed",
        PublishOutcome::Returned(_) => "unroutable",
        PublishOutcome::Nacked => "nacked",
        PublishOutcome::Refused(_) => "refused",
        PublishOutcome::Unsent(_) => "unsent",
        PublishOutcome::Unknown(_) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const OLD: Duration = Duration::from_hours(50);

    #[rstest]
    #[case(PublishOutcome::Confirmed, 8, HOUR, "sent")]
    #[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 1, HOUR, "fail unroutable: 312 NO_ROUTE")]
    #[case(PublishOutcome::Refused("exchange not found".into()), 1, HOUR, "fail refused: exchange not found")]
    #[case(PublishOutcome::Unsent("no connection".into()), 8, OLD, "give back no connection")]
    #[case(
        PublishOutcome::Nacked,
        7,
        HOUR,
        "retry refused by broker (nack): queue full or limit"
    )]
    #[case(
        PublishOutcome::Nacked,
        9,
        HOUR,
        "fail given up after 9 attempts: refused by broker (nack): queue full or limit"
    )]
    #[case(PublishOutcome::Unknown("no confirm".into()), 2, OLD, "retry unknown whether sent: no confirm")]
    #[case(
        PublishOutcome::Unknown("no confirm".into()),
        3,
        OLD,
        "fail given up 2d2h after its commit, after 3 attempts: unknown whether sent: no confirm"
    )]
    fn every_outcome_has_one_consequence(
        #[case] outcome: PublishOutcome,
        #[case] attempts: u32,
        #[case] age: Duration,
        #[case] expected: &str,
    ) {
        let settings = DispatcherSettings::default();
        let said = match verdict(&outcome, attempts, age, &settings) {
            Next::Sent => "sent".to_owned(),
            Next::Retry { error } => format!("retry {error}"),
            Next::Fail { error } => format!("fail {error}"),
            Next::GiveBack { reason } => format!("give back {reason}"),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_row_that_kills_its_dispatchers_is_given_up_untried() {
        let settings = DispatcherSettings::default();
        assert_eq!(exhausted(8, &settings), None);
        let why = exhausted(9, &settings).expect("enough");
        assert!(why.contains("after 8 attempts"), "{why}");
    }
}
