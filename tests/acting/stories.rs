//! The stories.

use std::time::Duration;

use redrive::model::message::FieldValue;
use redrive::model::operation::{ItemState, OperationState};
use redrive::operate::plan::OperateError;

use super::arena::{Arena, CONSUMER, DLQ, QUEUE, because, message, replay};

/// Longer than the lease of a console that was killed: publish deadline and two statements.
const PAST_THE_LEASE: Duration = Duration::from_secs(6);

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_06_h_08_a_replay_is_byte_equal_keeps_types_and_is_proven() {
    Arena::run(|arena| async move {
        let mut original = message("{\"f\":1.10,\"big\":4634343214213523454}");
        let properties = &mut original.properties;
        properties.priority = Some(7);
        properties.app_id = Some("shop-web".to_owned());
        properties.correlation_id = Some("corr-77".to_owned());
        properties.reply_to = Some("replies".to_owned());
        properties.timestamp = Some(1_767_323_045);
        properties.content_encoding = Some("identity".to_owned());
        properties.headers.set("tenant", FieldValue::I16(-300));
        properties.headers.set(
            "price",
            FieldValue::Decimal {
                scale: 2,
                value: 0xffff_f831,
            },
        );
        let target = arena.dies(original.clone()).await;
        let plan = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        assert!(plan.is_allowed(), "{:?}", plan.preflight);
        let applied = arena
            .operator()
            .apply(&plan, &because("rollout"))
            .await
            .expect("applies");
        assert_eq!(applied.items[0].state, ItemState::Published);

        let sent = arena.take(QUEUE, 1).await.remove(0).message;
        assert_eq!(sent.payload, original.payload);
        let (before, after) = (&original.properties, &sent.properties);
        assert_eq!(after.message_id, before.message_id);
        assert_eq!(after.priority, before.priority);
        assert_eq!(after.app_id, before.app_id);
        assert_eq!(after.correlation_id, before.correlation_id);
        assert_eq!(after.reply_to, before.reply_to);
        assert_eq!(after.timestamp, before.timestamp);
        assert_eq!(after.kind, before.kind);
        assert_eq!(after.content_encoding, before.content_encoding);
        for header in ["tenant", "price"] {
            assert_eq!(after.headers.get(header), before.headers.get(header));
        }
        assert!(after.headers.get("x-death").is_none());

        arena.processed(&original).await;
        let operation = arena
            .operator()
            .follow(CONSUMER, &plan.operation_id, SOON)
            .await
            .expect("follows");
        assert_eq!(operation.items[0].state, ItemState::Consumed);
        arena.assert_chain_verifies().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_01_a_foreign_user_id_costs_no_neighbour_its_publish() {
    Arena::run(|arena| async move {
        let mut targets = Vec::new();
        for n in 0..10 {
            let mut message = message(&format!("{{\"n\":{n}}}"));
            if n == 4 {
                message.properties.user_id = arena.broker().user();
                assert!(message.properties.user_id.is_some());
            }
            targets.push(arena.dies(message).await);
        }
        let ops = arena.console_as_other_user().await;
        let mut cleared = 0;
        for target in &targets {
            let plan = ops.operator.plan(&replay(target)).await.expect("plans");
            cleared += plan
                .header_changes
                .iter()
                .filter(|change| change.field == "user_id" && change.action == "clear")
                .count();
            let applied = ops
                .operator
                .apply(&plan, &because("batch"))
                .await
                .expect("applies");
            assert_eq!(applied.items[0].state, ItemState::Published);
        }
        assert_eq!(cleared, 1, "shown before confirming");
        ops.close().await;
        arena.delete_other_user().await;
        let taken = arena.take(QUEUE, 10).await;
        let mut ids: Vec<_> = taken
            .iter()
            .filter_map(|delivery| delivery.message.properties.message_id.clone())
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 10, "each exactly once");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_01_two_consoles_publish_once() {
    Arena::run(|arena| async move {
        let original = message("{}");
        let target = arena.dies(original).await;
        let other = arena.console("leo@laptop");
        let request = replay(&target);
        let (one, two) = (
            arena.operator().plan(&request).await.expect("plans"),
            other.operator.plan(&request).await.expect("plans"),
        );
        let reason = because("both");
        let results = tokio::join!(
            arena.operator().apply(&one, &reason),
            other.operator.apply(&two, &reason)
        );
        let refused = match results {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            both => panic!("one of them publishes: {both:?}"),
        };
        assert!(
            matches!(&refused, OperateError::Refused { check, .. } if check == "held"),
            "{refused:?}"
        );
        arena.take(QUEUE, 1).await;
        arena.assert_chain_verifies().await;
        other.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_01_a_queue_that_was_deleted_is_found_by_the_plan_and_by_the_publish() {
    Arena::run(|arena| async move {
        let target = arena.dies(message("{}")).await;
        let old = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        assert!(old.is_allowed(), "{:?}", old.preflight);
        arena.delete_queue(QUEUE).await;

        let plan = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        assert!(
            plan.refusals()
                .any(|line| line.text == "target queue inventory.orders does not exist"),
            "{:?}",
            plan.preflight
        );
        // The plan of a minute ago: mandatory finds it.
        let applied = arena
            .operator()
            .apply(&old, &because("old plan"))
            .await
            .expect("applies");
        assert_eq!(applied.items[0].state, ItemState::Unroutable);
        assert!(
            applied.items[0].evidence.contains("NO_ROUTE"),
            "{:?}",
            applied.items
        );
        let again = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        assert!(
            again
                .preflight
                .iter()
                .any(|line| line.text == "open: nobody else holds it")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_05_a_console_killed_after_the_confirm_is_unknown_and_resolves_from_the_inbox() {
    Arena::run(|arena| async move {
        let original = message("{}");
        let id = original.properties.message_id.clone().expect("an id");
        arena.dies(original.clone()).await;
        let killed = arena.redrive(
            &["replay", &id, "--apply", "--yes", "--reason", "rollout"],
            &[("FAILPOINTS", "replay.after_confirm=return(abort)")],
        );
        assert_eq!(killed.status.code(), None, "{killed:?}");
        arena.take(QUEUE, 1).await;

        let held = arena.redrive(
            &["replay", &id, "--apply", "--yes", "--reason", "again"],
            &[],
        );
        assert_eq!(held.status.code(), Some(4), "{held:?}");
        let page = arena
            .store()
            .operations_page(None, 10)
            .await
            .expect("reads");
        let operation = page.rows[0].operation_id.clone();

        // The next console: unknown once the dead one's lease is over, and nothing is sent again.
        let next = arena
            .operator()
            .follow(CONSUMER, &operation, PAST_THE_LEASE)
            .await
            .expect("follows");
        assert_eq!(next.state, OperationState::Unknown, "{next:?}");
        assert_eq!(next.items[0].state, ItemState::Unknown);
        arena.take(QUEUE, 0).await;

        arena.processed(&original).await;
        let next = arena
            .operator()
            .follow(CONSUMER, &operation, SOON)
            .await
            .expect("follows");
        assert_eq!(next.items[0].state, ItemState::Consumed);
        arena.assert_chain_verifies().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_13_a_replay_that_dies_again_is_collected_and_linked_to_its_operation() {
    Arena::run(|arena| async move {
        let target = arena.dies(message("{}")).await;
        let plan = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        arena
            .operator()
            .apply(&plan, &because("try"))
            .await
            .expect("applies");
        let sent = arena.take(QUEUE, 1).await.remove(0).message;
        // The consumer rejects it again.
        arena.dies(sent).await;
        let operation = arena
            .operator()
            .follow(CONSUMER, &plan.operation_id, SOON)
            .await
            .expect("follows");
        assert_eq!(operation.items[0].state, ItemState::DiedAgain);
        arena.take(DLQ, 0).await;
        let again = arena
            .operator()
            .plan(&replay(&target))
            .await
            .expect("plans");
        assert!(again.headline.contains("deaths 2"), "{}", again.headline);
        assert!(again.is_allowed(), "{:?}", again.preflight);
        assert_eq!(
            arena.operation(&plan.operation_id).await.state,
            OperationState::Finished
        );
    })
    .await;
}
