//! Faults between the business transaction and the broker.

use redrive::drill::proxy::Line;

use super::super::shop::{Event, OTHER_QUEUE, until};
use super::stage::{LATE, Stage, text};

/// The business transaction ends before its commit.
pub async fn thrown_before_the_commit(stage: &mut Stage) {
    let event = Event::order(1, true);
    let mut tx = stage.shop.orders.begin().await.expect("begins");
    sqlx::query(
        "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload)
         VALUES (?, '8801', 1, 'order.created', ?)",
    )
    .bind(&event.id)
    .bind(String::from_utf8_lossy(&event.body).as_ref())
    .execute(&mut *tx)
    .await
    .expect("an outbox row");
    let session: (i64,) = sqlx::query_as("SELECT CAST(CONNECTION_ID() AS SIGNED)")
        .fetch_one(&mut *tx)
        .await
        .expect("an id");
    stage.orders(&format!("KILL {}", session.0)).await;
    // Its session is gone: there is nothing to roll back.
    drop(tx);
    stage.event = Some(event);
}

/// The client asks again, under the same key.
pub async fn the_client_asks_again(stage: &mut Stage) {
    assert_eq!(
        stage
            .number("SELECT COUNT(*) FROM outbox_events WHERE status = 'pending'")
            .await,
        0
    );
    let event = stage.event.take().expect("an event");
    stage.emit(&event, "order.created", 0).await;
    stage.pipeline_goes_on().await;
    assert_eq!(stage.shop.effects(&event).await, 1);
}

pub async fn nobody_claims(stage: &mut Stage) {
    stage
        .emit(&Event::order(1, true), "order.created", LATE)
        .await;
}

/// A dispatcher is killed at a crash point, and its lease runs out.
pub async fn killed_at(stage: &mut Stage, point: &str) {
    stage.order(1).await;
    let console = stage.console_with("doctor", |text| text);
    stage
        .start_until(&console, "dispatcher", (point, "pause"))
        .await;
    stage.kill_worker().await;
    stage.time_passes().await;
}

/// The same when the message was on its way: the consumer takes it.
pub async fn killed_with_its_bytes_out(stage: &mut Stage, point: &str) {
    killed_at(stage, point).await;
    stage.all_is_consumed().await;
}

pub async fn the_pipeline_goes_on(stage: &mut Stage) {
    stage.pipeline_goes_on().await;
}

/// A dispatcher hangs with its batch for longer than the lease; the reaper takes the rows back.
pub async fn a_batch_outlives_its_lease(stage: &mut Stage) {
    stage.order(3).await;
    let console = stage.console_with("doctor", |text| text);
    stage
        .start_until(&console, "dispatcher", ("dispatcher.after_claim", "pause"))
        .await;
    stage.time_passes().await;
    stage.console.run(&["worker", "reaper", "--once"]).await;
}

pub async fn the_hanging_dispatcher_ends(stage: &mut Stage) {
    stage.kill_worker().await;
    stage.pipeline_goes_on().await;
}

/// Half a minute of orders, and a dispatcher that needs a second for each.
pub async fn a_dispatcher_is_too_slow(stage: &mut Stage) {
    for n in 0..30 {
        let late = LATE * 2 + u32::try_from(n).expect("small");
        stage
            .emit(&Event::order(n, true), "order.created", late)
            .await;
    }
    let slow = stage.console_with("slow", |text| {
        text + "[contexts.shop.dispatcher]\nbatch_rows = 1\n"
    });
    stage
        .start_until(
            &slow,
            "dispatcher",
            ("dispatcher.after_claim", "sleep(1000)"),
        )
        .await;
}

/// A transaction reads rows for update and is left open.
pub async fn rows_are_locked(stage: &mut Stage) {
    stage
        .emit(&Event::order(1, true), "order.created", LATE)
        .await;
    let mut holder = stage.shop.orders.begin().await.expect("begins");
    sqlx::query("SELECT event_id FROM outbox_events WHERE status = 'pending' FOR UPDATE")
        .fetch_all(&mut *holder)
        .await
        .expect("locks");
    let locked_at: String = sqlx::query_scalar("SELECT CAST(NOW(6) AS CHAR)")
        .fetch_one(&mut *holder)
        .await
        .expect("the time");
    stage.holder = Some(holder);
    // It passes over the locked row.
    stage.dispatch().await;
    // Not asked of INNODB_TRX: that is not renewed while it is read more often than every 100 ms.
    let age = format!("SELECT TIMESTAMPDIFF(SECOND, '{locked_at}', SYSDATE())");
    until("the transaction is older than the limit", || async {
        stage.number(&age).await >= 2
    })
    .await;
}

pub async fn the_holder_rolls_back(stage: &mut Stage) {
    let holder = stage.holder.take().expect("a holder");
    holder.rollback().await.expect("rolls back");
    stage.pipeline_goes_on().await;
}

/// The broker's answers to a dispatcher are lost on the way.
pub async fn the_confirm_is_lost(stage: &mut Stage) {
    let url = stage.shop.amqp_url.clone();
    let through = stage.proxy_to(&url).await;
    let deaf = stage.console_with("deaf", |text| {
        text.replace(&url, &through) + "[contexts.shop.dispatcher]\nsend_deadline = \"1s\"\n"
    });
    stage.start(&deaf, &["dispatcher"]);
    // It has its channel before it claims anything: the first order goes through.
    stage.order(1).await;
    stage.all_is_consumed().await;
    until("the first order is marked", || async {
        stage
            .number("SELECT COUNT(*) FROM outbox_events WHERE status <> 'sent'")
            .await
            == 0
    })
    .await;
    stage.line(Line::NoReplies);
    stage.order(1).await;
    until("the dispatcher does not know", || async {
        let unknown =
            "SELECT COUNT(*) FROM outbox_events WHERE last_error LIKE 'unknown whether sent%'";
        stage.number(unknown).await == 1
    })
    .await;
    // It went out all the same, and took effect: only nobody told the dispatcher.
    stage.all_is_consumed().await;
    stage.kill_worker().await;
}

/// A queue that is full refuses what the broker was sent.
pub async fn a_full_queue_refuses(stage: &mut Stage) {
    let full = vec![
        ("x-max-length", lapin::types::AMQPValue::LongInt(0)),
        ("x-overflow", text("reject-publish")),
    ];
    stage.declare(OTHER_QUEUE, full).await;
    stage.order(2).await;
    stage.dispatch().await;
}

pub async fn the_full_queue_goes(stage: &mut Stage) {
    stage.shop.delete_queue(OTHER_QUEUE).await;
    stage.pipeline_goes_on().await;
}

pub async fn no_queue_for_a_type(stage: &mut Stage) {
    stage.emit(&Event::order(1, true), "shipment.lost", 0).await;
    stage.dispatch().await;
}

/// A row names an exchange the broker does not have.
pub async fn an_exchange_is_wrong(stage: &mut Stage) {
    stage.order(1).await;
    stage
        .orders("UPDATE outbox_events SET exchange_name = 'shop.evnets' WHERE status = 'pending'")
        .await;
    stage.dispatch().await;
}

/// In sequence: the first version of an aggregate has no queue, the second waits behind it.
pub async fn a_head_is_dead(stage: &mut Stage) {
    let of_one_aggregate = |version| Event {
        key: "in-sequence".to_owned(),
        version,
        ..Event::order(version, true)
    };
    let (head, next) = (of_one_aggregate(1), of_one_aggregate(2));
    stage.emit(&head, "shipment.lost", 0).await;
    let order = "[contexts.shop.dispatcher]\norder = \"sequence\"\n";
    let in_sequence = stage.console_with("sequence", |text| text + order);
    in_sequence.run(&["worker", "dispatcher", "--once"]).await;
    stage.emit(&next, "order.created", 0).await;
    in_sequence.run(&["worker", "dispatcher", "--once"]).await;
}

/// A person mends what was wrong with the rows, and sends them again.
pub async fn the_rows_are_mended(stage: &mut Stage) {
    stage
        .orders(
            "UPDATE outbox_events SET event_type = 'order.created', exchange_name = NULL, status = 'pending',
             last_error = NULL, next_attempt_at = NOW(6) WHERE status = 'failed'",
        )
        .await;
    stage.pipeline_goes_on().await;
}
