//! What waits for a person: held sequences, forgetful inboxes, sagas, operations and findings.

use super::super::redrive::replay;
use super::super::shop::{Event, until};
use super::consumer::Manner;
use super::stage::Stage;

const APPLY: [&str; 4] = ["--apply", "--yes", "--reason", "seen to by hand"];

pub async fn a_version_is_missing(stage: &mut Stage) {
    stage
        .inventory(
            "INSERT INTO waiting_events (consumer_name, event_id, aggregate_id, version,
             missing_version, exchange_name, routing_key, properties, headers, payload,
             payload_sha256, parked_at, attempted_at, deadline_at) VALUES ('inventory', 'w-1', 'k', 3, 2,
             'shop.events', 'order.paid', '{}', '{}', '', REPEAT('a', 64), NOW(6) - INTERVAL 1 MINUTE,
             NOW(6), NOW(6) + INTERVAL 1 HOUR)",
        )
        .await;
}

pub async fn the_gap_closes(stage: &mut Stage) {
    stage.inventory("DELETE FROM waiting_events").await;
}

/// The archiver of a configuration that keeps less than events may be replayed.
pub async fn the_inbox_forgets(stage: &mut Stage) {
    stage.order(1).await;
    stage.pipeline_goes_on().await;
    stage
        .inventory("UPDATE consumer_inbox SET processed_at = NOW(6) - INTERVAL 10 DAY ORDER BY event_id DESC LIMIT 1")
        .await;
    let short = stage.console_with("short", |text| {
        let sandbox = "environment = \"sandbox\"\n";
        let kept = format!("{sandbox}inbox_retention = \"3d\"\n");
        text.replacen(sandbox, &kept, 1)
            .replace("replay_window = \"14d\"\n", "")
    });
    short.run(&["worker", "inbox-archiver", "--once"]).await;
    let archived = stage
        .shop
        .count("SELECT COUNT(*) FROM consumer_inbox_archive")
        .await;
    assert_eq!(archived, 1, "forgotten");
}

/// A person puts the rows back from the archive.
pub async fn the_inbox_remembers(stage: &mut Stage) {
    for statement in [
        "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at)
         SELECT consumer_name, event_id, payload_sha256, processed_at FROM consumer_inbox_archive",
        "DELETE FROM consumer_inbox_archive",
        "DELETE FROM inbox_horizons",
    ] {
        stage.inventory(statement).await;
    }
}

async fn saga(stage: &Stage, state: &str, forward: &str, compensation: &str) {
    stage
        .orders(&format!(
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, deadline_at, updated_at)
             VALUES ('saga-1', 'order', '8801', '{state}', NOW(6) - INTERVAL 1 MINUTE, NOW(6) - INTERVAL 2 MINUTE)"
        ))
        .await;
    stage
        .orders(&format!(
            "INSERT INTO saga_steps (saga_id, step_no, name, forward_state, compensation_state, attempts,
             forward_key, compensation_key, last_error) VALUES ('saga-1', 1, 'charge', '{forward}',
             '{compensation}', 5, 'order-8801:charge', 'order-8801:charge:undo', 'the processor refuses')"
        ))
        .await;
}

pub async fn a_saga_gets_no_answer(stage: &mut Stage) {
    saga(stage, "running", "in_flight", "pending").await;
}

pub async fn the_answer_comes(stage: &mut Stage) {
    stage
        .orders("UPDATE saga_steps SET forward_state = 'succeeded'")
        .await;
    stage.orders("UPDATE sagas SET state = 'completed'").await;
    forget_sagas(stage).await;
}

pub async fn a_refund_is_refused(stage: &mut Stage) {
    saga(stage, "compensation_failed", "succeeded", "failed").await;
}

/// A person refunds by other means, and says so.
pub async fn a_person_refunds(stage: &mut Stage) {
    let words = ["saga", "handled", "saga-1", "--evidence", "receipt 4711"];
    stage.console.run(&[&words[..], &APPLY].concat()).await;
    assert_eq!(
        stage
            .number("SELECT COUNT(*) FROM sagas WHERE state = 'compensated'")
            .await,
        1
    );
    forget_sagas(stage).await;
}

/// The next row may begin a saga of the same order.
async fn forget_sagas(stage: &Stage) {
    stage.orders("DELETE FROM saga_steps").await;
    stage.orders("DELETE FROM sagas").await;
}

/// The console is killed between the confirm of a replay and its completion.
pub async fn a_console_dies_in_a_replay(stage: &mut Stage) {
    stage.died(1).await;
    stage.shop.collect(1).await;
    let letter: (String,) =
        sqlx::query_as("SELECT event_id FROM dead_letters WHERE status = 'open'")
            .fetch_one(&stage.shop.inventory)
            .await
            .expect("a letter");
    stage.change_consumer(Some(Manner::Hangs)).await;
    let mut child = stage
        .console
        .start_until("replay.after_confirm", &replay(&letter.0, &[]));
    until("the event is out at the consumer", || async {
        stage
            .consumer
            .as_ref()
            .is_some_and(|consumer| consumer.taken() == 1)
    })
    .await;
    child.kill().await.expect("kill -9");
    // Until its reservation runs out the console may be alive.
    stage
        .inventory("UPDATE operation_items SET lease_until = NOW(6) - INTERVAL 5 SECOND WHERE lease_until IS NOT NULL")
        .await;
}

/// The consumer consumes it after all: the next look finds the inbox row.
pub async fn its_outcome_is_found(stage: &mut Stage) {
    stage.change_consumer(Some(Manner::Mended)).await;
    let replayed = "SELECT COUNT(*) FROM dead_letters WHERE status = 'replayed'";
    until("the replay is proven", || async {
        stage.console.try_run(&["operations"]).await;
        stage.shop.count(replayed).await > 0
    })
    .await;
    stage.change_consumer(Some(Manner::Works)).await;
}

/// An effect that no event stands for: a scan finds it.
pub async fn a_scan_finds_a_difference(stage: &mut Stage) {
    // What is older than every outbox proves nothing: this one reaches back for longer.
    stage
        .emit(&Event::order(2, true), "order.created", 7_200)
        .await;
    stage.pipeline_goes_on().await;
    let orphan = Event::order(1, true);
    stage
        .inventory(&format!(
            "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at)
             VALUES ('inventory', '{}', REPEAT('a', 64), NOW(6) - INTERVAL 1 HOUR)",
            orphan.id
        ))
        .await;
    stage.event = Some(orphan);
    let found = stage
        .console
        .try_run(&["scan", "run", "inbox-without-outbox"])
        .await;
    assert_eq!(found.code, 3, "{found:#?}");
}

/// A person settles it, and the scan finds it gone.
pub async fn the_difference_is_settled(stage: &mut Stage) {
    let orphan = stage.event.take().expect("an event");
    stage
        .inventory(&format!(
            "DELETE FROM consumer_inbox WHERE event_id = '{}'",
            orphan.id
        ))
        .await;
    stage
        .console
        .run(&["scan", "run", "inbox-without-outbox"])
        .await;
}
