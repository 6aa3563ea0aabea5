//! Scans, findings, and what reconciliation reads.

use std::time::Duration;

use redrive::base::clock::Timestamp;
use redrive::base::digest::sha256_hex;
use redrive::model::audit::AuditRecord;
use redrive::model::count::Count;
use redrive::model::ids::{ClaimToken, EventId, FindingId, ScanId};
use redrive::model::outbox::OutboxState;
use redrive::model::saga::SagaState;
use redrive::model::scan::{
    Difference, Fact, Finding, FindingQuery, FindingState, NotCompared, Progress, Scan, ScanState,
};
use redrive::store::scan::{NewFindings, NewScan, PlaceCursor, RuleQuery, ScanStep, WalkFrom};
use redrive::store::{Guarded, StoreError, Value};

use super::fixture::{Fixture, consumer};

const LEASE: Duration = Duration::from_mins(2);
const DAY: Duration = Duration::from_hours(24);

fn ids(ids: &[&str]) -> Vec<EventId> {
    ids.iter().map(|id| EventId::new(*id)).collect()
}

async fn begin(f: &Fixture, rule: &str) -> (ScanId, ClaimToken) {
    let new = NewScan {
        scan_id: ScanId::generate(),
        rule: rule.to_owned(),
        actor: "mia@desk".to_owned(),
        token: ClaimToken::generate(),
        lease: LEASE,
        progress: Progress::default(),
    };
    f.store.begin_scan(&new).await.expect("begins");
    (new.scan_id, new.token)
}

async fn scan(f: &Fixture, id: &ScanId) -> Scan {
    let found = f.store.scans_by_prefix(id.as_str()).await.expect("reads");
    found.into_iter().next().expect("is kept")
}

fn step(id: &ScanId, token: &ClaimToken, state: ScanState) -> ScanStep {
    ScanStep {
        scan_id: id.clone(),
        token: token.clone(),
        lease: LEASE,
        state,
        rows_read: 1_200,
        not_compared: vec![NotCompared {
            what: "inbox of inventory".to_owned(),
            reason: "not reachable".to_owned(),
            is_unreachable: true,
        }],
        progress: Progress {
            parts: 2,
            parts_done: 1,
            part: Some("orders".to_owned()),
            cursor: Some("7".to_owned()),
            examined: 500,
            explained: [("waits in queue q".to_owned(), 3)].into(),
            ..Progress::default()
        },
    }
}

fn difference(subject: &str) -> Difference {
    Difference {
        class: "sent_not_consumed".to_owned(),
        subject: subject.to_owned(),
        service: "orders".to_owned(),
        summary: format!("{subject} is lost – 注文"),
        event_id: Some(EventId::new(subject)),
        consumer: Some(consumer()),
        since: None,
        at: None,
        facts: vec![Fact::new("type", "order.created")],
        suggestion: None,
    }
}

fn found(id: &ScanId, rule: &str, subjects: &[&str]) -> NewFindings {
    NewFindings {
        scan_id: id.clone(),
        rule: rule.to_owned(),
        differences: subjects.iter().map(|subject| difference(subject)).collect(),
    }
}

async fn findings(f: &Fixture, state: FindingState) -> Vec<Finding> {
    let mut query = FindingQuery {
        state,
        after: None,
        limit: 2,
    };
    let mut all = Vec::new();
    loop {
        let page = f.store.findings_page(&query).await.expect("reads");
        all.extend(page.rows);
        match page.next {
            None => return all,
            next => query.after = next,
        }
    }
}

fn audit(subject: &FindingId) -> AuditRecord {
    AuditRecord {
        actor: "mia@desk".to_owned(),
        action: "assign".to_owned(),
        phase: "outcome".to_owned(),
        operation_id: None,
        subject: subject.to_string(),
        reason: String::new(),
        detail: "{}".to_owned(),
    }
}

/// A scan's rows are its token's; whoever stops it or takes it over makes the token worthless.
pub async fn a_scan_moves_on_by_its_token_alone(f: &Fixture) {
    let (id, token) = begin(f, "r").await;
    let other = ClaimToken::generate();
    let running = |token| step(&id, token, ScanState::Running);
    assert_eq!(f.store.step_scan(&running(&token)).await, Ok(Guarded::Done));
    assert_eq!(
        f.store.step_scan(&running(&other)).await,
        Ok(Guarded::LostRace)
    );
    let kept = scan(f, &id).await;
    assert_eq!((kept.state, kept.rows_read), (ScanState::Running, 1_200));
    assert_eq!(kept.progress, running(&token).progress);
    assert_eq!(kept.not_compared, running(&token).not_compared);
    assert!(kept.lease_until > Some(kept.started_at));

    // It is worked on: nobody takes it over. Stopped: anybody does, and the old token is worthless.
    let take = f.store.resume_scan(&id, &other, LEASE).await;
    assert_eq!(take, Ok(Guarded::LostRace));
    assert_eq!(f.store.stop_scan(&id).await, Ok(Guarded::Done));
    assert_eq!(f.store.stop_scan(&id).await, Ok(Guarded::LostRace));
    assert_eq!(
        f.store.step_scan(&running(&token)).await,
        Ok(Guarded::LostRace)
    );
    let take = f.store.resume_scan(&id, &other, LEASE).await;
    assert_eq!(take, Ok(Guarded::Done));
    assert_eq!(scan(f, &id).await.finished_at, None);

    // One whose holder gave no sign for its lease is taken over, too.
    let before = f.moment(-1_000_000);
    f.sql(format!("UPDATE scans SET lease_until = {before}"))
        .await;
    let third = ClaimToken::generate();
    let take = f.store.resume_scan(&id, &third, LEASE).await;
    assert_eq!(take, Ok(Guarded::Done));
    let end = step(&id, &third, ScanState::Finished);
    assert_eq!(f.store.step_scan(&end).await, Ok(Guarded::Done));
    assert_eq!(f.store.step_scan(&end).await, Ok(Guarded::LostRace));
    let over = scan(f, &id).await;
    assert_eq!(over.state, ScanState::Finished);
    assert!(over.finished_at.is_some());
    let take = f.store.resume_scan(&id, &other, LEASE).await;
    assert_eq!(take, Ok(Guarded::LostRace));
}

/// The same difference is one row, with its owner and first time; gone and back it is the same row anew.
pub async fn a_difference_is_one_finding(f: &Fixture) {
    let (first, token) = begin(f, "r").await;
    let three = found(&first, "r", &["a", "b", "c"]);
    let recorded = f.store.record_findings(&token, &three).await;
    assert_eq!(recorded, Ok(Guarded::Done));
    let lost = f
        .store
        .record_findings(&ClaimToken::generate(), &three)
        .await;
    assert_eq!(
        lost,
        Ok(Guarded::LostRace),
        "only the scan's own token writes"
    );
    let before = findings(f, FindingState::Open).await;
    assert_eq!(before.len(), 3);
    let a = before
        .iter()
        .find(|finding| finding.difference.subject == "a")
        .expect("is kept");
    assert_eq!(a.difference, difference("a"));
    assert_eq!((a.rule.as_str(), &a.scan_id), ("r", &first));
    assert_eq!(f.store.open_findings().await, Ok(Some(Count::Exact(3))));

    let done = f
        .store
        .annotate_finding(
            &a.finding_id,
            Some("leo"),
            Some("looks"),
            &audit(&a.finding_id),
        )
        .await;
    assert_eq!(done, Ok(Guarded::Done));
    let unknown = FindingId::generate();
    let lost = f
        .store
        .annotate_finding(&unknown, Some("leo"), None, &audit(&unknown))
        .await;
    assert_eq!(lost, Ok(Guarded::LostRace));
    assert_eq!(f.number("SELECT COUNT(*) FROM audit_log").await, 1);

    let (second, token) = begin(f, "r").await;
    let again = found(&second, "r", &["a", "b"]);
    let recorded = f.store.record_findings(&token, &again).await;
    assert_eq!(recorded, Ok(Guarded::Done));
    assert_eq!(clear(f, &token, ("other", &second), None).await, 0);
    assert_eq!(clear(f, &token, ("r", &second), None).await, 1);
    assert_eq!(clear(f, &token, ("r", &second), None).await, 0);
    let gone = findings(f, FindingState::Gone).await;
    let subjects: Vec<_> = gone.iter().map(|g| g.difference.subject.as_str()).collect();
    assert_eq!(subjects, ["c"]);
    let prefix = &a.finding_id.as_str()[..36];
    let kept = f.store.findings_by_prefix(prefix).await.expect("reads");
    let kept = kept.first().expect("is kept");
    assert_eq!(kept.first_seen_at, a.first_seen_at);
    assert_eq!(kept.owner.as_deref(), Some("leo"));
    assert_eq!(kept.note.as_deref(), Some("looks"));

    let back = found(&second, "r", &["c"]);
    let recorded = f.store.record_findings(&token, &back).await;
    assert_eq!(recorded, Ok(Guarded::Done));
    let open = findings(f, FindingState::Open).await;
    let c = open
        .iter()
        .find(|finding| finding.difference.subject == "c")
        .expect("is open again");
    assert_eq!(c.finding_id, gone.first().expect("was gone").finding_id);
    assert!(c.first_seen_at > a.first_seen_at);
}

/// Findings that are gone; the number.
async fn clear(
    f: &Fixture,
    token: &ClaimToken,
    (rule, scan): (&str, &ScanId),
    since: Option<Timestamp>,
) -> u64 {
    let cleared = f.store.clear_findings(token, rule, scan, since).await;
    cleared.expect("clears")
}

/// Two scans of one rule at a time: what the younger one saw is not gone because the older one had looked
/// before it was there; and a scan that was taken from its holder clears nothing.
pub async fn a_finding_that_another_scan_saw_meanwhile_stays(f: &Fixture) {
    let (zeroth, token) = begin(f, "r").await;
    let seen = found(&zeroth, "r", &["long gone"]);
    let recorded = f.store.record_findings(&token, &seen).await;
    assert_eq!(recorded, Ok(Guarded::Done));
    let (older, older_token) = begin(f, "r").await;
    let (younger, token) = begin(f, "r").await;
    let new = found(&younger, "r", &["new"]);
    let began = scan(f, &older).await.started_at;
    // SQLite's clock has milliseconds: until it has moved on.
    loop {
        let recorded = f.store.record_findings(&token, &new).await;
        assert_eq!(recorded, Ok(Guarded::Done));
        let open = findings(f, FindingState::Open).await;
        let mut seen = open.iter().filter(|g| g.difference.subject == "new");
        if seen.all(|finding| finding.last_seen_at > began) {
            break;
        }
    }
    assert_eq!(clear(f, &token, ("r", &older), None).await, 0);
    assert_eq!(clear(f, &older_token, ("r", &older), None).await, 1);
    let open = findings(f, FindingState::Open).await;
    let subjects: Vec<_> = open.iter().map(|g| g.difference.subject.as_str()).collect();
    assert_eq!(subjects, ["new"]);
}

/// A scan that looks less far back does not clear what it did not look at.
pub async fn a_finding_older_than_the_look_stays(f: &Fixture) {
    let (first, token) = begin(f, "r").await;
    let started = scan(f, &first).await.started_at;
    let mut two = found(&first, "r", &["old", "young"]);
    two.differences[0].at = Some(started.minus(DAY * 9));
    two.differences[1].at = Some(started.minus(DAY));
    let recorded = f.store.record_findings(&token, &two).await;
    assert_eq!(recorded, Ok(Guarded::Done));
    let (second, token) = begin(f, "r").await;
    let since = Some(started.minus(DAY * 7));
    assert_eq!(clear(f, &token, ("r", &second), since).await, 1);
    let open = findings(f, FindingState::Open).await;
    let subjects: Vec<_> = open.iter().map(|g| g.difference.subject.as_str()).collect();
    assert_eq!(subjects, ["old"]);
}

/// Walks go by key, a page at a time, and rows are found by id with what their payload hashes to.
pub async fn walks_reach_every_row_once(f: &Fixture) {
    let emitted = ["e-1", "e-2", "e-3", "e-4", "e-5"];
    f.emit(&emitted).await;
    f.sql("UPDATE outbox_events SET status = 'sent' WHERE event_id <> 'e-5'")
        .await;
    let mut from = WalkFrom {
        window: DAY,
        after: None,
        limit: 2,
    };
    let mut seen = Vec::new();
    loop {
        let walk = f.store.walk_sent(&from).await.expect("walks");
        assert!(walk.rows.iter().all(|row| row.created_at <= walk.now));
        seen.extend(walk.rows.into_iter().map(|row| row.event_id.to_string()));
        match walk.next {
            None => break,
            next => from.after = next,
        }
    }
    seen.sort();
    assert_eq!(seen, ["e-1", "e-2", "e-3", "e-4"]);

    let known = f.store.find_events(&ids(&["e-5", "nobody"]), true).await;
    let known = known.expect("finds");
    let [only] = known.as_slice() else {
        panic!("one row: {known:?}");
    };
    assert_eq!(only.state, OutboxState::Pending);
    let whole = f.store.outbox_event(&EventId::new("e-5")).await;
    let whole = whole.expect("reads").expect("is there");
    assert_eq!(
        only.payload_sha256.as_deref(),
        Some(sha256_hex(whole.payload.bytes()).as_str())
    );

    let mut after: Option<PlaceCursor> = None;
    let mut versions = Vec::new();
    loop {
        let walk = f.store.walk_places(after.as_ref(), 2).await.expect("walks");
        versions.extend(walk.rows.iter().map(|row| row.version));
        let Some(last) = walk.rows.last().filter(|_| walk.is_full) else {
            break;
        };
        after = Some(PlaceCursor {
            aggregate_id: last.aggregate_id.to_string(),
            version: last.version,
            event_id: last.event_id.to_string(),
        });
    }
    assert_eq!(versions, [1, 2, 3, 4, 5]);
}

/// Inbox rows, dead letters and waiting events by id; overdue sagas by their deadline.
pub async fn rows_are_found_by_id(f: &Fixture) {
    for id in ["e-1", "e-2"] {
        let mut tx = f.store.begin().await.expect("begins");
        let inserted = tx.inbox_insert(&consumer(), &EventId::new(id), "d1").await;
        inserted.expect("inserts");
        tx.commit().await.expect("commits");
    }
    let wanted = ids(&["e-1", "e-2", "e-3"]);
    let found = f.store.find_consumed(&wanted).await.expect("finds");
    assert_eq!(found.len(), 2);
    assert_eq!(
        found.first().and_then(|row| row.payload_sha256.clone()),
        Some("d1".to_owned())
    );
    let from = WalkFrom {
        window: DAY,
        after: None,
        limit: 1,
    };
    let first = f.store.walk_inbox(&from).await.expect("walks");
    let rest = WalkFrom {
        after: first.next.clone(),
        limit: 10,
        ..from
    };
    let rest = f.store.walk_inbox(&rest).await.expect("walks");
    assert_eq!((first.rows.len(), rest.rows.len()), (1, 1));
    assert_eq!(f.store.newest_consumed(5).await.expect("reads").len(), 2);
    // What the archive keeps is known as well.
    f.sql(
        "INSERT INTO consumer_inbox_archive (consumer_name, event_id, payload_sha256, processed_at, archived_at) \
         SELECT consumer_name, 'e-3', payload_sha256, processed_at, processed_at FROM consumer_inbox \
         WHERE event_id = 'e-1'",
    )
    .await;
    assert_eq!(
        f.store.find_consumed(&wanted).await.expect("finds").len(),
        3
    );

    f.bury("e-9").await;
    let marks = f
        .store
        .find_letters(&consumer(), &ids(&["e-9", "e-1"]))
        .await;
    let marks = marks.expect("finds");
    assert_eq!(marks.len(), 1);
    assert_eq!(f.store.find_waiting(&wanted).await, Ok(vec![]));

    let (past, future) = (f.moment(-60_000_000), f.moment(60_000_000));
    for (id, state, deadline) in [
        ("s-1", "running", &past),
        ("s-2", "running", &future),
        ("s-3", "completed", &past),
    ] {
        f.sql(format!(
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, deadline_at, updated_at) \
             VALUES ('{id}', 'order', '{id}', '{state}', {deadline}, {past})"
        ))
        .await;
    }
    let overdue = f.store.overdue_sagas(SagaState::Running, None, 10).await;
    let overdue = overdue.expect("reads");
    let found: Vec<_> = overdue.rows.iter().map(|s| s.saga_id.as_str()).collect();
    assert_eq!(found, ["s-1"]);
    assert!(overdue.next.is_none());
}

/// A rule's query reads columns by name, times as microseconds, in a session that cannot write, and ends
/// when it returns too much.
pub async fn a_rule_reads_and_nothing_else(f: &Fixture) {
    f.emit(&["e-1", "e-2", "e-3"]).await;
    let query = |statement: &str, rows_max| RuleQuery {
        statement: statement.to_owned(),
        values: vec![Value::Int(1)],
        rows_max,
    };
    let read = "SELECT event_id, aggregate_version AS v, created_at AS changed_at, last_error \
         FROM outbox_events WHERE aggregate_version > ? ORDER BY event_id";
    let answer = f.store.rule_rows(&query(read, 10)).await.expect("reads");
    assert_eq!(
        answer.columns,
        ["event_id", "v", "changed_at", "last_error"]
    );
    assert_eq!(answer.rows.len(), 2);
    let Some([Value::Text(id), Value::Int(2), Value::Int(at), Value::Null]) =
        answer.rows.first().map(Vec::as_slice)
    else {
        panic!("{:?}", answer.rows);
    };
    assert_eq!(id, "e-2");
    assert!((answer.now.micros() - at).abs() < 600_000_000, "{at}");

    let too_much = f.store.rule_rows(&query(read, 1)).await;
    let Err(StoreError::Unsupported { reason, .. }) = too_much else {
        panic!("{too_much:?}");
    };
    assert!(reason.contains("more than 1 rows"), "{reason}");
    // The session that was given up does not come back half read.
    assert_eq!(
        f.store
            .rule_rows(&query(read, 2))
            .await
            .expect("reads")
            .rows
            .len(),
        2
    );
    let write = "DELETE FROM outbox_events WHERE aggregate_version > ?";
    let denied = f.store.rule_rows(&query(write, 10)).await;
    assert!(denied.is_err(), "{denied:?}");
    assert_eq!(f.number("SELECT COUNT(*) FROM outbox_events").await, 3);
    let wrong = "SELECT nothing FROM outbox_events WHERE aggregate_version > ?";
    let told = f.store.rule_rows(&query(wrong, 10)).await;
    let told = told.expect_err("is told").to_string();
    assert!(told.contains("nothing"), "{told}");
}
