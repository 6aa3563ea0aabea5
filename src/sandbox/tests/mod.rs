//! The reference pipeline from prepared tables to confirmed orders, on the embedded pipeline.

mod flow;

use super::*;
use crate::pipeline::test_support::Bench;

const SEED: u64 = 7;

/// Makes passes over all workers until `done` says so; the bound turns a hang into a failure.
async fn run_until(workers: &mut [Box<dyn Worker>], mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        for worker in workers.iter_mut() {
            let report = worker.run_once().await;
            assert_eq!(report.problem, None, "{report:?}");
        }
        if done().await {
            return;
        }
    }
    panic!("never came true");
}

#[tokio::test]
async fn an_order_flows_to_its_confirmation_with_one_effect_at_each_stop() {
    let bench = Bench::new().await;
    prepare(&bench.ports).await.expect("prepares");
    let mut workers = workers(&bench.ports, SEED).expect("builds");
    run_until(&mut workers, async || {
        bench
            .number(
                "orders",
                "SELECT COUNT(*) FROM orders WHERE state = 'confirmed'",
            )
            .await
            >= 2
    })
    .await;
    let confirmed = bench
        .number(
            "orders",
            "SELECT COUNT(*) FROM orders WHERE state = 'confirmed'",
        )
        .await;
    let charged = bench
        .number(
            "payment",
            "SELECT COUNT(*) FROM payments WHERE state = 'charged'",
        )
        .await;
    let reserved = bench
        .number(
            "inventory",
            "SELECT SUM(quantity) FROM reservations WHERE state = 'reserved'",
        )
        .await;
    let held = bench
        .number("inventory", "SELECT SUM(reserved) FROM stock")
        .await;
    assert!(confirmed <= charged);
    assert_eq!(reserved, held);
    let completed = bench
        .number(
            "orders",
            "SELECT COUNT(*) FROM sagas WHERE state = 'completed'",
        )
        .await;
    assert_eq!(completed, confirmed);
}

#[tokio::test]
async fn every_pane_has_something_to_show_before_any_worker_has_run() {
    let bench = Bench::new().await;
    prepare(&bench.ports).await.expect("prepares");
    prepare(&bench.ports)
        .await
        .expect("prepares again, and changes nothing");
    let groups = bench
        .store("inventory")
        .dead_letter_groups()
        .await
        .expect("groups");
    assert_eq!(groups.groups.len(), 3);
    assert_eq!(bench.open_letters("inventory").await.len(), 13);
    assert_eq!(bench.open_letters("payment").await.len(), 3);
    let orders = bench.store("orders");
    let counts = orders.outbox_counts().await.expect("counts");
    assert_eq!(counts.failed.floor(), 3);
    let leases = bench
        .store("notification")
        .leases(10)
        .await
        .expect("leases");
    assert_eq!(leases.groups[0].rows, 3);
    let sagas = orders.sagas(50).await.expect("sagas");
    assert!(sagas[0].needs_attention());
    assert!(sagas.len() > 10);
    let operations = bench
        .store("inventory")
        .operations_page(None, 10)
        .await
        .expect("operations");
    assert_eq!(operations.rows.len(), 1);
    assert!(
        bench
            .store("inventory")
            .audit_verify()
            .await
            .expect("reads")
            .is_ok()
    );
}

/// The order whose refund is refused has happened everywhere but at the card processor.
#[tokio::test]
async fn what_was_sent_before_the_demo_opens_was_seen_by_those_who_get_it() {
    let bench = Bench::new().await;
    prepare(&bench.ports).await.expect("prepares");
    let sent = bench.ports.store("orders").expect("a service");
    let day = std::time::Duration::from_hours(24);
    let sent = sent.sent_recently(day, 200).await.expect("reads");
    let mut looked_at = 0;
    for (service, _, bound) in topology::SERVICES {
        let store = bench.ports.store(service).expect("a service");
        let due = sent
            .iter()
            .filter(|event| bound.contains(&event.event_type.as_str()));
        let ids: Vec<_> = due.clone().map(|event| event.event_id.clone()).collect();
        let consumer = crate::model::ids::ConsumerName::new(service);
        let seen = store.seen_by(&consumer, &ids).await.expect("reads");
        let missing: Vec<_> = due
            .filter(|event| !seen.contains(&event.event_id))
            .collect();
        assert!(missing.is_empty(), "{service}: {missing:?}");
        looked_at += ids.len();
    }
    assert!(looked_at > 4, "{looked_at}");
}

#[tokio::test]
async fn a_context_that_is_no_sandbox_is_refused() {
    let bench = Bench::with(|context| context.environment = Environment::Production).await;
    let refused = prepare(&bench.ports).await.expect_err("refused");
    assert!(refused.contains("runs only where environment"), "{refused}");
    assert!(workers(&bench.ports, SEED).is_err());
}

#[tokio::test]
async fn a_dead_dispatcher_s_lease_stays_until_it_is_released_and_then_its_rows_go_out() {
    let bench = Bench::new().await;
    prepare(&bench.ports).await.expect("prepares");
    let store = bench.store(standby::SERVICE);
    let mut standby = standby::Standby::new(&bench.ports)
        .expect("valid")
        .expect("a standby");
    let overdue = async || {
        let leases = store.leases(10).await.expect("leases");
        let left = leases.groups.first().and_then(|group| group.left_s);
        left.is_some_and(|left| left < 0.0)
    };
    while !overdue().await {
        assert_eq!(standby.run_once().await.get("claimed"), 0);
    }
    assert_eq!(standby.run_once().await.get("claimed"), 0);
    let lease = store.leases(10).await.expect("leases").groups.remove(0);
    let token = lease.claim_token.expect("a token");
    assert_eq!(store.give_back(&token, &lease.sample).await, Ok(3));
    let mut sent = 0;
    for _ in 0..3 {
        sent += standby.run_once().await.get("sent");
    }
    assert_eq!(sent, 3);
}

#[tokio::test]
async fn a_team_s_own_sandbox_is_not_consumed_by_ours() {
    let bench = Bench::with(|context| context.services.retain(|s| s.name != "payment")).await;
    assert!(program(&bench.ports, Chance::of(SEED)).handlers.is_empty());
    let named = ["consumer".to_owned()];
    let mut workers =
        crate::pipeline::build(&bench.ports, &named, &crate::pipeline::Program::default())
            .expect("builds");
    let report = workers[0].run_once().await;
    assert!(
        report
            .problem
            .expect("told")
            .contains("no handler for consumer orders")
    );
}
