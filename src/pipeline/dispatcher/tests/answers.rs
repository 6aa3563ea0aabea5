//! Statements that do their work while their answer is lost: asked again they find nothing to do, and that is
//! no lost fence.

use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;
use crate::model::ids::ClaimToken;
use crate::store::{Claim, FailedAttempt, OutboxStore, Reaped, StoreError, StoreResult};

/// A database of which some answers to fenced statements get lost: it commits, and the caller is told that
/// it did not answer in time.
struct LosesAnswers {
    inner: Arc<dyn Store>,
    lost: AtomicU32,
}

impl LosesAnswers {
    fn tell(&self, answer: StoreResult<u64>) -> StoreResult<u64> {
        let is_lost = self
            .lost
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match is_lost {
            Err(_) => answer,
            Ok(_) => Err(StoreError::TimedOut {
                service: "orders".to_owned(),
                operation: "a fenced statement",
                after: Duration::from_secs(3),
            }),
        }
    }
}

#[async_trait]
impl OutboxStore for LosesAnswers {
    async fn claim_batch(&self, request: &ClaimRequest) -> StoreResult<Claim> {
        self.inner.claim_batch(request).await
    }
    async fn complete(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64> {
        self.tell(self.inner.complete(token, event_ids).await)
    }
    async fn renew(&self, token: &ClaimToken, lease: Duration) -> StoreResult<u64> {
        self.inner.renew(token, lease).await
    }
    async fn outbox_states(
        &self,
        event_ids: &[EventId],
    ) -> StoreResult<Vec<(EventId, OutboxState)>> {
        self.inner.outbox_states(event_ids).await
    }
    async fn fail_attempts(
        &self,
        token: &ClaimToken,
        attempts: &[FailedAttempt],
    ) -> StoreResult<u64> {
        self.tell(self.inner.fail_attempts(token, attempts).await)
    }
    async fn give_back(&self, token: &ClaimToken, event_ids: &[EventId]) -> StoreResult<u64> {
        self.tell(self.inner.give_back(token, event_ids).await)
    }
    async fn claim_sequences(&self, request: &ClaimRequest) -> StoreResult<Claim> {
        self.inner.claim_sequences(request).await
    }
    async fn wake_sequences(&self, sent: &[(AggregateId, i64)]) -> StoreResult<u64> {
        self.inner.wake_sequences(sent).await
    }
    async fn reap(&self, limit: u32) -> StoreResult<Reaped> {
        self.inner.reap(limit).await
    }
}

fn losing(dispatcher: Dispatcher, bench: &Bench) -> Dispatcher {
    losing_some(1, dispatcher, bench)
}

fn losing_some(lost: u32, mut dispatcher: Dispatcher, bench: &Bench) -> Dispatcher {
    dispatcher.desk.store = Arc::new(LosesAnswers {
        inner: bench.store("orders"),
        lost: AtomicU32::new(lost),
    });
    dispatcher
}

#[tokio::test]
async fn a_sent_mark_whose_answer_was_lost_is_no_lost_fence() {
    let bench = Bench::new().await;
    append_all(&bench, &[of("1", 1), of("2", 1)]).await;
    let mut dispatcher = losing(dispatcher(&bench, settings()), &bench);
    let report = dispatcher.run_once().await;
    assert_eq!(
        (report.get("sent"), report.get("lost_fence")),
        (2, 0),
        "{report:?}"
    );
    assert_eq!(report.problem, None);
}

/// All tries of a pass lose their answer; the next one marks late, and finds it done.
#[tokio::test]
async fn a_late_mark_that_had_worked_before_is_no_lost_fence() {
    let bench = Bench::new().await;
    append_all(&bench, &[of("1", 1), of("2", 1)]).await;
    let mut dispatcher = losing_some(3, dispatcher(&bench, settings()), &bench);
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("confirmed"), report.get("sent")), (2, 0));
    assert!(report.problem.expect("told").contains("not marked yet"));
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("sent"), report.get("lost_fence")), (2, 0));
    assert_eq!(report.problem, None);
    assert_eq!(bench.ready("inventory.orders").await, 2, "each once");
}

/// An outage outlasts the lease: what was confirmed before it is somebody else's when it is over.
#[tokio::test]
async fn rows_lost_to_an_outage_are_told_and_hold_up_nothing() {
    let bench = Bench::new().await;
    append_all(&bench, &[of("1", 1)]).await;
    let store = bench.store("orders");
    let is_first = Arc::new(AtomicBool::new(true));
    let hook: Hook = Arc::new(move || {
        let (store, is_first) = (Arc::clone(&store), Arc::clone(&is_first));
        Box::pin(async move {
            if is_first.swap(false, Ordering::SeqCst) {
                let leases = store.leases(10).await.expect("leases");
                let group = &leases.groups[0];
                let token = group.claim_token.clone().expect("a token");
                assert_eq!(store.give_back(&token, &group.sample).await, Ok(1));
            }
        })
    });
    let mut dispatcher = losing_some(3, meddling(&bench, settings(), hook), &bench);
    let report = dispatcher.run_once().await;
    assert!(report.problem.expect("told").contains("not marked yet"));
    let report = dispatcher.run_once().await;
    let problem = report.problem.clone().expect("told");
    assert!(problem.contains("belonged to somebody else"), "{problem}");
    assert_eq!((report.get("sent"), report.get("lost_fence")), (1, 1));
    assert!(
        report.is_idle,
        "the outage is over: the loop must not wait as if it were not"
    );
}

#[tokio::test]
async fn a_failed_attempt_whose_answer_was_lost_is_no_lost_fence() {
    let bench = Bench::new().await;
    let bad = unroutable(of("1", 1));
    append_all(&bench, std::slice::from_ref(&bad)).await;
    let mut dispatcher = losing(dispatcher(&bench, settings()), &bench);
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("failed"), report.get("lost_fence")), (1, 0));
    assert_eq!(report.problem, None);
    assert_eq!(state(&bench, &bad.event_id).await.0, OutboxState::Failed);
}

#[tokio::test]
async fn rows_that_somebody_else_took_are_lost_whatever_was_answered() {
    let bench = Bench::new().await;
    append_all(&bench, &[of("1", 1)]).await;
    let store = bench.store("orders");
    let hook: Hook = Arc::new(move || {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let leases = store.leases(10).await.expect("leases");
            let group = &leases.groups[0];
            let token = group.claim_token.clone().expect("a token");
            assert_eq!(store.give_back(&token, &group.sample).await, Ok(1));
        })
    });
    let mut dispatcher = losing(meddling(&bench, settings(), hook), &bench);
    let report = dispatcher.run_once().await;
    assert_eq!((report.get("sent"), report.get("lost_fence")), (0, 1));
    let problem = report.problem.expect("told");
    assert!(problem.contains("belonged to somebody else"), "{problem}");
}
