//! A dispatcher without a guard, and one that is stopped where it hurts. Each runs in a process of its own.

use super::*;
use crate::pipeline::test_support::is_alone;

/// What the other tests would see without it: an event nobody has, marked sent.
#[tokio::test]
async fn b_01_without_the_confirm_guard_an_unroutable_event_is_marked_sent() {
    if !is_alone(
        module_path!(),
        "b_01_without_the_confirm_guard_an_unroutable_event_is_marked_sent",
    ) {
        return;
    }
    let bench = Bench::new().await;
    let event = new_event("nobody.listens", "{}");
    bench.append("orders", &event).await;
    let points = CrashPoints::new(true);
    points.arm("guard.sent_after_confirm", "return(off)");
    let mut dispatcher = dispatcher(&bench, settings()).with_crash_points(points);
    dispatcher.run_once().await;
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Sent);
}

/// A process that was stopped right after its claim, for longer than the lease can spare.
#[tokio::test]
async fn a_claim_that_got_too_old_is_not_sent() {
    if !is_alone(module_path!(), "a_claim_that_got_too_old_is_not_sent") {
        return;
    }
    let bench = Bench::new().await;
    let event = of("8812", 1);
    append_all(&bench, std::slice::from_ref(&event)).await;
    let points = CrashPoints::new(true);
    points.arm("dispatcher.after_claim", "1*sleep(400)");
    let limits = DispatcherSettings {
        lease: Duration::from_millis(300),
        send_deadline: Duration::from_millis(100),
        statement_timeout: Duration::from_millis(20),
        ..settings()
    };
    let mut dispatcher = dispatcher(&bench, limits).with_crash_points(points);
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("given_back"), report.get("confirmed")), (1, 0));
    assert!(
        report
            .problem
            .expect("told")
            .contains("too slow for the lease")
    );
    assert_eq!(bench.ready("inventory.orders").await, 0);
    assert_eq!(state(&bench, &event.event_id).await.0, OutboxState::Pending);
}
