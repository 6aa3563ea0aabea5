//! What an attempt's outcome means for its row. Pure.

use std::time::Duration;

use crate::base::human::duration as shown;
use crate::broker::PublishOutcome;
use crate::config::DispatcherSettings;
use crate::model::outbox::REAPED_AGAIN;

/// A row that ended its dispatchers is tried so often at most. Fewer than a row the broker answers for: each
/// such attempt costs a process and a lease.
const SILENT_MAX: u32 = 8;

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
/// since the event was committed, by the database's clock, if that is known.
///
/// Attempts and age must both be used up. A full queue nacks at once, so attempts alone are gone in a
/// minute; and after a long outage, or when a person has set an old row back, age alone is gone before
/// the first attempt.
pub fn verdict(
    outcome: &PublishOutcome,
    attempts: u32,
    age: Option<Duration>,
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
    if attempts < settings.attempts_max || age.is_some_and(|age| age < settings.give_up_after) {
        return Next::Retry { error };
    }
    let age = age.map_or_else(String::new, |age| {
        format!(", {} after its commit", shown(age))
    });
    Next::Fail {
        error: format!("given up after {attempts} attempts{age}: {error}"),
    }
}

/// Why a row is not even tried, or `None`: its last attempts ended without a word. What kills each dispatcher
/// that takes it must not kill the next. One that died while a row was retried for long proves nothing;
/// two in a row are believed. Where no error is kept, attempts alone must do.
pub fn exhausted(
    attempts: u32,
    last_error: Option<&str>,
    settings: &DispatcherSettings,
) -> Option<String> {
    let is_exhausted = match last_error {
        Some(REAPED_AGAIN) => attempts > settings.attempts_max.min(SILENT_MAX),
        Some(_) => false,
        None => attempts > settings.attempts_max,
    };
    is_exhausted.then(|| {
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
    use crate::model::outbox::REAPED;

    const HOUR: Duration = Duration::from_hours(1);
    const OLD: Duration = Duration::from_hours(50);

    #[rstest]
    #[case(PublishOutcome::Confirmed, 8, HOUR, "sent")]
    #[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 1, HOUR, "fail unroutable: 312 NO_ROUTE")]
    #[case(PublishOutcome::Refused("exchange not found".into()), 1, HOUR, "fail refused: exchange not found")]
    #[case(PublishOutcome::Unsent("no connection".into()), 8, OLD, "give back no connection")]
    #[case(
        PublishOutcome::Nacked,
        300,
        HOUR,
        "retry refused by broker (nack): queue full or limit"
    )]
    #[case(
        PublishOutcome::Nacked,
        23,
        OLD,
        "retry refused by broker (nack): queue full or limit"
    )]
    #[case(
        PublishOutcome::Nacked,
        24,
        OLD,
        "fail given up after 24 attempts, 2d2h after its commit: refused by broker (nack): queue full or limit"
    )]
    #[case(PublishOutcome::Unknown("no confirm".into()), 300, HOUR, "retry unknown whether sent: no confirm")]
    #[case(
        PublishOutcome::Unknown("no confirm".into()),
        24,
        OLD,
        "fail given up after 24 attempts, 2d2h after its commit: unknown whether sent: no confirm"
    )]
    fn every_outcome_has_one_consequence(
        #[case] outcome: PublishOutcome,
        #[case] attempts: u32,
        #[case] age: Duration,
        #[case] expected: &str,
    ) {
        let settings = DispatcherSettings::default();
        let said = match verdict(&outcome, attempts, Some(age), &settings) {
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
        let again = Some(REAPED_AGAIN);
        assert_eq!(exhausted(8, again, &settings), None);
        let why = exhausted(9, again, &settings).expect("enough");
        assert!(why.contains("after 8 attempts"), "{why}");
        assert_eq!(exhausted(24, None, &settings), None);
        assert!(exhausted(25, None, &settings).is_some());
    }

    #[test]
    fn a_row_the_broker_answers_for_is_not_given_up_with_one_dispatcher() {
        let settings = DispatcherSettings::default();
        for error in [REAPED, "refused by broker (nack): queue full or limit"] {
            assert_eq!(exhausted(300, Some(error), &settings), None, "{error}");
        }
    }

    #[test]
    fn without_a_time_of_commit_attempts_decide() {
        let settings = DispatcherSettings::default();
        let after = |attempts| verdict(&PublishOutcome::Nacked, attempts, None, &settings);
        assert!(matches!(after(23), Next::Retry { .. }));
        assert!(matches!(after(24), Next::Fail { .. }));
    }

    /// Even for a row that is older than `give_up_after`: whatever the dice say, its attempts last as long as
    /// a broker's short limit. The chance of less than ten minutes is below one in a million.
    #[test]
    fn the_attempts_of_an_old_row_outlast_a_full_queue() {
        let settings = DispatcherSettings::default();
        for _ in 0..1_000 {
            let waits: Duration = (1..settings.attempts_max)
                .map(|attempts| settings.backoff.delay(attempts))
                .sum();
            assert!(waits >= Duration::from_mins(10), "{waits:?}");
        }
    }
}
