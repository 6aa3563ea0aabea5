//! The soak, small: everything is killed every few seconds, and nothing is lost or doubled.

#[path = "../bench/soak/soak/mod.rs"]
mod soak;

use soak::{Addresses, Plan};

use super::arena::variable;

#[tokio::test(flavor = "multi_thread")]
async fn every_process_is_killed_every_few_seconds_and_all_counts_are_exact() {
    let addresses = Addresses {
        mariadb: variable("REDRIVE_TEST_MARIADB_URL"),
        amqp: variable("REDRIVE_TEST_AMQP_URL"),
        management: variable("REDRIVE_TEST_MANAGEMENT_URL"),
    };
    let plan = Plan {
        events: 2_000,
        seed: 7,
    };
    let outcome = soak::run(&addresses, &plan).await.expect("runs");
    assert!(outcome.events >= plan.events, "{outcome:?}");
    let wrong = [
        outcome.lost,
        outcome.doubled,
        outcome.wrong_cents,
        outcome.wrong_states,
    ];
    assert_eq!(wrong, [0; 4], "{outcome:?}");
    assert!(outcome.kills >= outcome.kills_least, "{outcome:?}");
    assert!(
        outcome.kills > 0,
        "nothing was killed in {:?}",
        outcome.took
    );
}
