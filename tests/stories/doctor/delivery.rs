//! Faults between the broker and the consumer's acknowledgement.

use std::time::Duration;

use super::super::shop::{DLQ, Event, QUEUE, until};
use super::consumer::Manner;
use super::stage::{Stage, rate};

/// The consumer commits, and its acknowledgement never arrives: the event comes again.
pub async fn the_ack_is_lost(stage: &mut Stage) {
    stage.change_consumer(Some(Manner::LosesItsAck)).await;
    let event = Event::order(1, true);
    stage.emit(&event, "order.created", 0).await;
    stage.dispatch().await;
    until("the effect is there", || async {
        stage.shop.effects(&event).await == 1
    })
    .await;
    stage.event = Some(event);
    stage.shop.arrives(QUEUE, 1).await;
    stage.change_consumer(Some(Manner::Works)).await;
    stage.shop.arrives(QUEUE, 0).await;
    until("it was delivered again", || async {
        stage
            .consumer
            .as_ref()
            .is_some_and(|consumer| consumer.taken() == 1)
    })
    .await;
}

pub async fn it_took_effect_once(stage: &mut Stage) {
    let event = stage.event.take().expect("an event");
    assert_eq!(stage.shop.effects(&event).await, 1);
}

/// Three orders wait for a consumer that behaves like this.
async fn waits_for(stage: &mut Stage, manner: Option<Manner>) {
    stage.change_consumer(manner).await;
    stage.order(3).await;
    stage.dispatch().await;
}

pub async fn the_consumer_is_gone(stage: &mut Stage) {
    waits_for(stage, None).await;
    stage.shop.arrives(QUEUE, 3).await;
}

pub async fn the_consumer_hangs(stage: &mut Stage) {
    waits_for(stage, Some(Manner::Hangs)).await;
    stage.shop.arrives(QUEUE, 2).await;
    // Time passes: the last ones consumed are no pace any more, and these three are old.
    stage
        .inventory("UPDATE consumer_inbox SET processed_at = processed_at - INTERVAL 1 MINUTE")
        .await;
    stage
        .orders("UPDATE outbox_events SET sent_at = sent_at - INTERVAL 1 MINUTE")
        .await;
    stage.is_still("ack").await;
}

/// Far more orders come than the consumer can take.
pub async fn the_consumer_is_slow(stage: &mut Stage) {
    stage
        .change_consumer(Some(Manner::Slow(Duration::from_millis(500))))
        .await;
    stage.order(120).await;
    stage.dispatch().await;
}

pub async fn the_consumer_gives_back(stage: &mut Stage) {
    waits_for(stage, Some(Manner::GivesBack)).await;
    stage
        .statistics("redeliveries in the statistics", |facts| {
            rate(facts, "redeliver") > 1.0
        })
        .await;
}

/// A consumer that works takes the place of the one that does not.
pub async fn the_consumer_is_restarted(stage: &mut Stage) {
    stage.change_consumer(Some(Manner::Works)).await;
    stage.all_is_consumed().await;
}

/// The same after a loop: its last turns stand in the statistics for a moment.
pub async fn the_loop_ends(stage: &mut Stage) {
    the_consumer_is_restarted(stage).await;
    stage.is_still("redeliver").await;
}

/// The broker confirmed an event and lost it: its node came back without its disk.
pub async fn an_event_is_lost(stage: &mut Stage) {
    stage.order(1).await;
    stage
        .orders(
            "UPDATE outbox_events SET status = 'sent', attempts = 1,
             sent_at = NOW(6) - INTERVAL 30 SECOND WHERE status = 'pending'",
        )
        .await;
}

pub async fn it_is_booked_by_hand(stage: &mut Stage) {
    stage.reconciled_by_hand().await;
}

pub async fn one_event_dies(stage: &mut Stage) {
    stage.died(1).await;
    stage.shop.collect(1).await;
}

pub async fn many_die_of_one_cause(stage: &mut Stage) {
    stage.died(3).await;
    stage.shop.collect(3).await;
}

pub async fn nobody_collects(stage: &mut Stage) {
    stage.died(1).await;
}

/// A person looks at the letters, and discards them with a reason.
pub async fn letters_are_discarded(stage: &mut Stage) {
    if stage.shop.depth(DLQ).await > 0 {
        let ready = stage.shop.depth(DLQ).await;
        stage.shop.collect(ready).await;
    }
    let letters: Vec<(String,)> =
        sqlx::query_as("SELECT event_id FROM dead_letters WHERE status = 'open'")
            .fetch_all(&stage.shop.inventory)
            .await
            .expect("letters");
    for (id,) in letters {
        let words = ["discard", &id, "--consumer", "inventory"];
        let apply = ["--apply", "--yes", "--reason", "a test order"];
        stage.console.run(&[&words[..], &apply].concat()).await;
    }
}

/// Another tool has closed them all.
pub async fn letters_are_gone(stage: &mut Stage) {
    stage
        .inventory("UPDATE dead_letters SET status = 'discarded'")
        .await;
}

/// Somebody declared the queue again and forgot where it dead-letters to.
pub async fn the_queue_dead_letters_to_nothing(stage: &mut Stage) {
    stage.change_consumer(None).await;
    stage.shop.delete_queue(QUEUE).await;
    stage.declare_work_queue(false).await;
    stage.change_consumer(Some(Manner::Works)).await;
    is_listed(stage).await;
}

pub async fn the_queue_is_gone(stage: &mut Stage) {
    stage.change_consumer(None).await;
    stage.shop.delete_queue(QUEUE).await;
}

pub async fn the_queue_is_declared_well(stage: &mut Stage) {
    stage.change_consumer(None).await;
    stage.shop.delete_queue(QUEUE).await;
    stage.declare_work_queue(true).await;
    stage.change_consumer(Some(Manner::Works)).await;
    is_listed(stage).await;
}

async fn is_listed(stage: &Stage) {
    let is_listed =
        |facts: &serde_json::Value| facts["type"] == "quorum" && facts["consumers"] == 1;
    stage.statistics("the new queue is listed", is_listed).await;
}
