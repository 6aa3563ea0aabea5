//! Each check on tables that agree, and on tables that do not.

use super::*;
use crate::model::scan::{NotCompared, ScanState};
use crate::pipeline::test_support::message;

/// C-03: 500 published 20 minutes ago, the consumer stopped: 490 wait in its queue, 10 are dead.
#[tokio::test]
async fn c_03_backlog_is_not_loss() {
    let bench = bench().await;
    let mut waiting = Vec::new();
    for n in 0..500 {
        let id = format!("event-{n:03}");
        Sent {
            id: &id,
            kind: "payment.charge",
            version: 0,
            created_s: 1_200,
            sent_s: 1_200,
            ..Sent::default()
        }
        .write(&bench)
        .await;
        if n < 10 {
            dead(&bench, ("payment", &id), "open", Some("mia")).await;
        } else {
            waiting.push(message(Some(&id), "payment.charge", b"{}"));
        }
    }
    bench.put("payment.orders", waiting).await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    let progress = &outcome.scan.progress;
    assert_eq!(outcome.found, [], "nothing is lost");
    assert_eq!(progress.explained.get("dead letter, open"), Some(&10));
    let waits: Vec<_> = progress
        .explained
        .iter()
        .filter(|(why, _)| why.starts_with("waits in queue payment.orders"))
        .collect();
    assert_eq!(
        waits.iter().map(|(_, n)| **n).sum::<u64>(),
        490,
        "{progress:?}"
    );
    assert_eq!(progress.examined, 500);

    // The queue was purged: now they are lost, by id, and the dead ones are not.
    bench.take("payment.orders").await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    let lost = subjects(&outcome, "sent_not_consumed");
    assert_eq!(lost.len(), 490);
    assert_eq!(lost.first().map(String::as_str), Some("payment event-010"));
}

/// C-04: 100 published to two consumers. Each inbox has 100 rows, of which 5 are a second copy under
/// another id, and 5 ids are missing.
#[tokio::test]
async fn c_04_counts_that_balance_hide_nothing() {
    let bench = bench().await;
    for n in 0..100 {
        let id = format!("event-{n:03}");
        Sent {
            id: &id,
            key: &id,
            ..Sent::default()
        }
        .write(&bench)
        .await;
        for (consumer, first_missing) in [("inventory", 0), ("notification", 50)] {
            let is_missing = (first_missing..first_missing + 5).contains(&n);
            if !is_missing {
                consumed(&bench, (consumer, &id), &payload_of(&id), 3_000).await;
            }
            if (90..95).contains(&n) {
                let other = format!("message-{n:03}");
                consumed(&bench, (consumer, &other), &payload_of(&id), 2_900).await;
            }
        }
    }
    for consumer in ["inventory", "notification"] {
        let count = bench
            .number(consumer, "SELECT COUNT(*) FROM consumer_inbox")
            .await;
        assert_eq!(count, 100, "the counts balance");
    }
    let outcome = scan(&bench, "sent-not-consumed").await;
    let missing = subjects(&outcome, "sent_not_consumed");
    let expected: Vec<String> = (0..5)
        .map(|n| format!("inventory event-{n:03}"))
        .chain((50..55).map(|n| format!("notification event-{n:03}")))
        .collect();
    assert_eq!(missing, expected);
    let outcome = scan(&bench, "inbox-without-outbox").await;
    let twice = subjects(&outcome, "consumed_twice");
    let expected: Vec<String> = ["inventory", "notification"]
        .iter()
        .flat_map(|consumer| (90..95).map(move |n| format!("{consumer} message-{n:03}")))
        .collect();
    assert_eq!(twice, expected);
    assert_eq!(outcome.found.len(), 10);
}

/// C-01: written three days ago, sent again five seconds ago: in flight until its grace is over.
#[tokio::test]
async fn c_01_grace_counts_from_the_last_transition() {
    let bench = bench().await;
    let three_days = 3 * 24 * 3_600;
    Sent {
        id: "moved",
        kind: "payment.charge",
        created_s: three_days,
        sent_s: 5,
        ..Sent::default()
    }
    .write(&bench)
    .await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert_eq!(outcome.found, []);
    assert_eq!(outcome.scan.progress.in_flight, 1);
    let over = [ago(GRACE.as_secs() + 1)];
    execute(
        &bench,
        "orders",
        "UPDATE outbox_events SET sent_at = ?",
        &over,
    )
    .await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert_eq!(subjects(&outcome, "sent_not_consumed"), ["payment moved"]);
    assert_eq!(outcome.scan.progress.in_flight, 0);
}

#[tokio::test]
async fn what_nobody_is_bound_to_is_nobodys_loss_and_what_waits_for_a_version_is_not_lost() {
    let bench = bench().await;
    Sent {
        kind: "order.gifted",
        ..Sent::default()
    }
    .write(&bench)
    .await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert!(outcome.scan.is_clean(), "{:?}", outcome.scan);
}

#[tokio::test]
async fn an_effect_without_an_event_is_found_and_one_older_than_the_outboxes_is_not() {
    let bench = bench().await;
    consumed(&bench, ("inventory", "stranger"), "x", 3_000).await;
    let outcome = scan(&bench, "inbox-without-outbox").await;
    let not_compared = &outcome.scan.not_compared;
    assert!(
        not_compared
            .iter()
            .any(|missing| missing.reason.contains("nothing to compare with")),
        "empty outboxes are not clean: {not_compared:?}"
    );
    Sent::default().write(&bench).await;
    consumed(&bench, ("inventory", "ancient"), "y", 7_200).await;
    let outcome = scan(&bench, "inbox-without-outbox").await;
    assert_eq!(
        subjects(&outcome, "inbox_without_outbox"),
        ["inventory stranger"]
    );
    assert_eq!(outcome.scan.progress.explained.values().sum::<u64>(), 1);
}

#[tokio::test]
async fn the_same_id_with_other_content_is_found() {
    let bench = bench().await;
    for id in ["same", "other"] {
        Sent {
            id,
            key: id,
            ..Sent::default()
        }
        .write(&bench)
        .await;
    }
    consumed(&bench, ("inventory", "same"), &payload_of("same"), 3_000).await;
    consumed(&bench, ("inventory", "other"), "{\"changed\":1}", 3_000).await;
    let outcome = scan(&bench, "other-content").await;
    assert_eq!(subjects(&outcome, "other_content"), ["inventory other"]);
}

#[tokio::test]
async fn a_version_missing_in_the_middle_is_found_and_a_beginning_is_not() {
    let bench = bench().await;
    for (id, key, version) in [
        ("a1", "a", 1),
        ("a4", "a", 4),
        ("b7", "b", 7),
        ("b8", "b", 8),
        ("c0", "c", 0),
        ("c3", "c", 3),
    ] {
        Sent {
            id,
            key,
            version,
            ..Sent::default()
        }
        .write(&bench)
        .await;
    }
    let outcome = scan(&bench, "version-gaps").await;
    assert_eq!(subjects(&outcome, "version_gap"), ["orders a 2-3"]);
}

#[tokio::test]
async fn open_letters_without_an_owner_are_found() {
    let bench = bench().await;
    dead(&bench, ("payment", "mine"), "open", Some("mia")).await;
    dead(&bench, ("payment", "nobodys"), "open", None).await;
    dead(&bench, ("payment", "closed"), "discarded", None).await;
    let outcome = scan(&bench, "dead-letters-unowned").await;
    assert_eq!(
        subjects(&outcome, "dead_letter_unowned"),
        ["letter-nobodys"]
    );
    let suggestion = outcome
        .found
        .first()
        .and_then(|difference| difference.suggestion.clone())
        .expect("suggests");
    assert_eq!(
        suggestion.command,
        "redrive replay nobodys --consumer payment"
    );
}

#[tokio::test]
async fn intents_without_an_outcome_and_overdue_sagas_are_found() {
    let bench = bench().await;
    execute(
        &bench,
        "payment",
        "INSERT INTO operations (operation_id, verb, state, actor, reason, plan_digest, plan_text, created_at) \
         VALUES ('op-1', 'replay', 'running', 'leo', 'why', 'd', '{}', ?)",
        &[ago(900)],
    )
    .await;
    execute(
        &bench,
        "payment",
        "INSERT INTO operation_items (operation_id, item_no, state, token, updated_at) \
         VALUES ('op-1', 1, 'publishing', 't', ?)",
        &[ago(900)],
    )
    .await;
    let outcome = scan(&bench, "intents-without-outcome").await;
    assert_eq!(subjects(&outcome, "intent_without_outcome"), ["op-1"]);

    for (id, state, deadline, updated) in [
        ("saga-over", "running", 900, 800),
        ("saga-moved", "compensating", 900, 5),
        ("saga-done", "completed", 900, 800),
    ] {
        execute(
            &bench,
            "orders",
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, deadline_at, updated_at) \
             VALUES (?, 'order', ?, ?, ?, ?)",
            &[text(id), text(id), text(state), ago(deadline), ago(updated)],
        )
        .await;
    }
    let outcome = scan(&bench, "sagas-overdue").await;
    assert_eq!(subjects(&outcome, "saga_overdue"), ["saga-over"]);
    assert_eq!(outcome.scan.progress.in_flight, 1);
}

/// A part that cannot be read is named; nothing is called missing because of it, and nothing clean.
#[tokio::test]
async fn what_cannot_be_read_is_not_clean_and_not_lost() {
    let bench = bench().await;
    Sent::default().write(&bench).await;
    execute(&bench, "inventory", "DROP TABLE consumer_inbox", &[]).await;
    consumed(&bench, ("notification", "e-1"), &payload_of("e-1"), 3_000).await;
    let outcome = scan(&bench, "sent-not-consumed").await;
    assert_eq!(outcome.found, []);
    assert_eq!(outcome.scan.state, ScanState::Finished);
    assert!(!outcome.scan.is_clean());
    let [NotCompared { what, reason, .. }] = outcome.scan.not_compared.as_slice() else {
        panic!("one part: {:?}", outcome.scan.not_compared);
    };
    assert_eq!(what, "inbox of inventory");
    assert!(reason.contains("consumer_inbox"), "{reason}");
}
