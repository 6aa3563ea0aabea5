use rstest::rstest;

use super::*;

fn settings() -> DispatcherSettings {
    DispatcherSettings::default()
}

#[rstest]
#[case(PublishOutcome::Confirmed, 8, "sent")]
#[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 1, "slow unroutable: 312 NO_ROUTE")]
#[case(PublishOutcome::Returned("312 NO_ROUTE".into()), 8, "fail given up after 8 attempts: unroutable: 312 NO_ROUTE")]
#[case(PublishOutcome::Refused("exchange not found".into()), 1, "slow refused: exchange not found")]
#[case(
    PublishOutcome::Nacked,
    7,
    "backoff refused by broker (nack): queue full or limit"
)]
#[case(
    PublishOutcome::Nacked,
    9,
    "fail given up after 9 attempts: refused by broker (nack): queue full or limit"
)]
#[case(PublishOutcome::Unknown("no confirm".into()), 1, "backoff unknown whether sent: no confirm")]
fn every_outcome_has_one_consequence(
    #[case] outcome: PublishOutcome,
    #[case] attempts: u32,
    #[case] expected: &str,
) {
    let said = match verdict(&outcome, attempts, &settings()) {
        Next::Sent => "sent".to_owned(),
        Next::Retry {
            wait: Wait::Slow,
            error,
        } => format!("slow {error}"),
        Next::Retry {
            wait: Wait::Backoff,
            error,
        } => format!("backoff {error}"),
        Next::Fail { error } => format!("fail {error}"),
    };
    assert_eq!(said, expected);
}
