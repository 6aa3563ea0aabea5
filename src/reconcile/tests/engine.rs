//! What a scan leaves: findings that stay the same, that go, that are not recorded; scans that are
//! stopped and resumed.

use std::sync::Mutex;

use super::*;
use crate::model::scan::{FindingState, ScanState};

async fn findings(bench: &Bench, state: FindingState) -> Vec<Finding> {
    let query = FindingQuery {
        state,
        after: None,
        limit: 100,
    };
    let page = reconciler(bench).findings(&query).await;
    page.expect("reads").rows
}

async fn lost(bench: &Bench, id: &str) {
    Sent {
        id,
        key: id,
        kind: "payment.charge",
        ..Sent::default()
    }
    .write(bench)
    .await;
}

#[tokio::test]
async fn a_difference_is_one_finding_however_often_it_is_seen_and_goes_when_it_is_gone() {
    let bench = bench().await;
    lost(&bench, "first").await;
    lost(&bench, "second").await;
    scan(&bench, "sent-not-consumed").await;
    let before = findings(&bench, FindingState::Open).await;
    assert_eq!(before.len(), 2);
    let first = before
        .iter()
        .find(|finding| finding.difference.subject == "payment first")
        .expect("found");
    let operator = crate::operate::Operator::new(bench.ports.clone(), "mia@desk".to_owned(), false);
    operator
        .annotate_finding("orders", &first.finding_id, Some("leo"), Some("looks"))
        .await
        .expect("takes it");

    // Seen again: the same finding, with its owner and its first time.
    let again = scan(&bench, "sent-not-consumed").await;
    let kept = reconciler(&bench)
        .finding(first.finding_id.as_str())
        .await
        .expect("is kept");
    assert_eq!(kept.first_seen_at, first.first_seen_at);
    assert!(kept.last_seen_at >= first.last_seen_at);
    assert_eq!(kept.scan_id, again.scan.scan_id);
    assert_eq!(
        (kept.owner.as_deref(), kept.note.as_deref()),
        (Some("leo"), Some("looks"))
    );
    let open = reconciler(&bench).open_findings().await.expect("counts");
    assert_eq!(open, Some(Count::Exact(2)));

    // Consumed: gone. Another rule's findings stay.
    dead(&bench, ("payment", "nobodys"), "open", None).await;
    scan(&bench, "dead-letters-unowned").await;
    consumed(&bench, ("payment", "first"), "{}", 1).await;
    let cleared = scan(&bench, "sent-not-consumed").await;
    assert_eq!(cleared.scan.progress.cleared, 1);
    let open = findings(&bench, FindingState::Open).await;
    let subjects: Vec<_> = open.iter().map(|f| f.difference.subject.as_str()).collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert!(!subjects.contains(&"payment first"));
    let gone = findings(&bench, FindingState::Gone).await;
    assert_eq!(gone.len(), 1);

    // Back again: the same finding is open, since now.
    execute(&bench, "payment", "DELETE FROM consumer_inbox", &[]).await;
    scan(&bench, "sent-not-consumed").await;
    let back = reconciler(&bench)
        .finding(first.finding_id.as_str())
        .await
        .expect("is kept");
    assert_eq!(back.state, FindingState::Open);
    assert!(back.first_seen_at > first.first_seen_at);
}

#[tokio::test]
async fn a_scan_that_could_not_read_everything_clears_nothing() {
    let bench = bench().await;
    lost(&bench, "first").await;
    scan(&bench, "sent-not-consumed").await;
    execute(&bench, "payment", "DROP TABLE consumer_inbox", &[]).await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert!(!outcome.scan.not_compared.is_empty());
    assert_eq!(findings(&bench, FindingState::Open).await.len(), 1);
}

#[tokio::test]
async fn a_read_only_context_is_scanned_and_nothing_is_written() {
    let bench = bench().await;
    lost(&bench, "first").await;
    let reconciler = Reconciler::new(bench.ports.clone(), "mia@desk".to_owned(), true);
    let outcome = reconciler
        .run("sent-not-consumed", &Watch::nobody())
        .await
        .expect("runs");
    assert_eq!(subjects(&outcome, "sent_not_consumed"), ["payment first"]);
    let why = outcome.not_recorded.expect("says so");
    assert_eq!(why, "not recorded: the context is read-only");
    for count in [
        "SELECT COUNT(*) FROM scans",
        "SELECT COUNT(*) FROM findings",
    ] {
        assert_eq!(bench.number("orders", count).await, 0, "{count}");
    }
}

#[tokio::test]
async fn a_stopped_scan_goes_on_where_it_was() {
    let bench = bench().await;
    for n in 0..1_200 {
        lost(&bench, &format!("event-{n:04}")).await;
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stop = CancellationToken::new();
    let watch = {
        let (seen, stop) = (Arc::clone(&seen), stop.clone());
        Watch {
            stop: stop.clone(),
            tell: Arc::new(move |scan: &Scan| {
                seen.lock()
                    .expect("not poisoned")
                    .push(scan.progress.examined);
                stop.cancel();
            }),
        }
    };
    let reconciler = reconciler(&bench);
    let stopped = reconciler.run("sent-not-consumed", &watch).await;
    let stopped = stopped.expect("stops").scan;
    assert_eq!(stopped.state, ScanState::Stopped);
    assert_eq!(seen.lock().expect("not poisoned").first(), Some(&500));
    let kept = reconciler
        .scan(stopped.scan_id.as_str())
        .await
        .expect("kept");
    assert_eq!(kept.state, ScanState::Stopped);
    assert!(kept.progress.cursor.is_some());

    let id = &stopped.scan_id.as_str()[..13];
    let resumed = reconciler
        .resume(id, &Watch::nobody())
        .await
        .expect("goes on");
    assert_eq!(resumed.scan.state, ScanState::Finished);
    assert_eq!(resumed.scan.progress.examined, 1_200, "nothing twice");
    assert_eq!(resumed.scan.progress.found, 1_200);
    assert!(resumed.found.len() < 1_200, "what was found before is kept");
    let open = reconciler.open_findings().await.expect("counts");
    assert_eq!(open, Some(Count::Exact(1_200)));
    let over = reconciler.resume(id, &Watch::nobody()).await;
    assert!(over.is_err(), "a finished scan is not resumed");
}

#[tokio::test]
async fn a_scan_that_somebody_else_stopped_ends_and_writes_no_more() {
    let bench = bench().await;
    for n in 0..1_200 {
        lost(&bench, &format!("event-{n:04}")).await;
    }
    let stopper = Arc::new(reconciler(&bench));
    let started = Arc::new(Mutex::new(None));
    let watch = {
        let started = Arc::clone(&started);
        Watch {
            tell: Arc::new(move |scan: &Scan| {
                *started.lock().expect("not poisoned") = Some(scan.scan_id.clone());
            }),
            ..Watch::nobody()
        }
    };
    let store = bench.store("orders");
    // The other console: as soon as the scan is there, its row is stopped.
    let other = async {
        loop {
            let page = stopper.scans(1).await.expect("reads");
            if let Some(scan) = page.rows.first() {
                return store.stop_scan(&scan.scan_id).await.expect("stops");
            }
            tokio::task::yield_now().await;
        }
    };
    let reconciler = reconciler(&bench);
    let (outcome, guarded) = tokio::join!(reconciler.run("sent-not-consumed", &watch), other);
    let outcome = outcome.expect("ends");
    assert_eq!(guarded, Guarded::Done);
    assert_eq!(outcome.scan.state, ScanState::Stopped);
    let kept = reconciler
        .scan(outcome.scan.scan_id.as_str())
        .await
        .expect("kept");
    assert_eq!(kept.state, ScanState::Stopped);
}

#[tokio::test]
async fn nothing_to_compare_is_not_clean() {
    let bench = bench().await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert!(!outcome.scan.is_clean());
    let reason = &outcome.scan.not_compared.first().expect("said").reason;
    assert_eq!(reason, "nothing to compare: no row is younger than 7d");
    // Of what is only listed when something is wrong, none is clean.
    assert!(scan(&bench, "sagas-overdue").await.scan.is_clean());
}

#[tokio::test]
async fn an_unknown_rule_is_told_with_the_known_ones() {
    let bench = bench().await;
    let error = reconciler(&bench).run("nonsense", &Watch::nobody()).await;
    let error = error.expect_err("is refused").to_string();
    assert!(
        error.contains("sent-not-consumed") && error.contains("orders-stuck"),
        "{error}"
    );
}
