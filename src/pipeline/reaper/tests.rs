//! The reaper on SQLite: what it takes back, what it leaves, and what it says where there is no lease.

use super::*;
use crate::pipeline::test_support::{Bench, new_event};
use crate::store::ClaimRequest;

const ORDERS: &str = "orders";

fn settings() -> DispatcherSettings {
    DispatcherSettings {
        reap_rows: 2,
        ..DispatcherSettings::default()
    }
}

async fn claim(bench: &Bench, rows: u32, lease: Duration) -> crate::store::Claim {
    let request = ClaimRequest {
        batch_rows: rows,
        lease,
    };
    let claim = bench.store(ORDERS).claim_batch(&request).await;
    claim.expect("claims")
}

#[tokio::test]
async fn expired_rows_go_back_a_few_at_a_time_and_keep_their_attempts() {
    let bench = Bench::new().await;
    for _ in 0..4 {
        bench
            .append(ORDERS, &new_event("order.created", "{}"))
            .await;
    }
    let dead = claim(&bench, 3, Duration::ZERO).await;
    let alive = claim(&bench, 1, Duration::from_mins(1)).await;
    let mut reaper = Reaper::new(ORDERS, settings(), bench.store(ORDERS));
    let report = reaper.run_once().await;
    assert_eq!((report.get("reaped"), report.is_idle), (2, false));
    let report = reaper.run_once().await;
    assert_eq!((report.get("reaped"), report.is_idle), (1, true));
    assert_eq!(reaper.run_once().await.get("reaped"), 0);
    let store = bench.store(ORDERS);
    let ids: Vec<_> = dead.events.iter().map(|e| e.row.event_id.clone()).collect();
    assert_eq!(store.complete(&dead.token, &ids).await, Ok(0), "the fence");
    let row = store.outbox_event(&ids[0]).await.expect("reads");
    let row = row.expect("the row").row;
    assert_eq!((row.state, row.attempts), (OutboxState::Pending, Some(1)));
    assert!(row.last_error.expect("told").contains("lease ran out"));
    let kept = [alive.events[0].row.event_id.clone()];
    assert_eq!(store.complete(&alive.token, &kept).await, Ok(1));
}

#[tokio::test]
async fn without_a_lease_a_row_that_does_not_move_is_told_and_left() {
    let bench = Bench::with(|context| {
        context.services.retain(|service| service.name == ORDERS);
        for service in &mut context.services {
            let outbox = service.outbox.as_mut().expect("an outbox");
            outbox.layout = "compact".to_owned();
            outbox.table = Some("team_outbox".to_owned());
        }
    })
    .await;
    bench
        .append(ORDERS, &new_event("order.created", "{}"))
        .await;
    let event = claim(&bench, 1, Duration::ZERO).await.events.remove(0);
    let limits = DispatcherSettings {
        lease: Duration::from_millis(1),
        ..settings()
    };
    let mut reaper = Reaper::new(ORDERS, limits, bench.store(ORDERS));
    let report = loop {
        let report = reaper.run_once().await;
        if report.problem.is_some() {
            break report;
        }
    };
    assert_eq!((report.get("stuck"), report.is_idle), (1, true));
    let problem = report.problem.expect("told");
    assert!(problem.contains("no lease"), "{problem}");
    assert!(problem.contains(event.row.event_id.as_str()), "{problem}");
    let row = bench.store(ORDERS).outbox_event(&event.row.event_id).await;
    let row = row.expect("reads").expect("the row").row;
    assert_eq!(row.state, OutboxState::Sending);
    let patient = Reaper::new(ORDERS, settings(), bench.store(ORDERS))
        .run_once()
        .await;
    assert_eq!(patient.problem, None, "not before a lease would have ended");
}
