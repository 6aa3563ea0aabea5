//! Stories of one event: from the dead letter to its proof, on SQLite and the in-process broker.

use std::sync::Arc;
use std::time::Duration;

use super::plan::{Access, Level, OperateError, Request, Target};
use super::test_support::{
    CONSUMER, DLQ, Letter, QUEUE, Scene, act, because, level, line, operation_of, operator, refusal,
};
use crate::broker::{Broker, NewQueue, Topology};
use crate::config::Environment;
use crate::model::dead_letter::{DeadLetterStatus, NewDeath};
use crate::model::ids::{ClaimToken, ConsumerName, OperationId};
use crate::model::message::{FieldValue, Payload};
use crate::model::operation::{ItemState, OperationState, Verb};
use crate::model::outbox::OutboxState;
use crate::pipeline::headers::REPLAYS;
use crate::pipeline::test_support::{Meddler, new_event};
use crate::store::inbox::ArchiveRequest;
use crate::store::{
    Begun, ClaimRequest, FailedAttempt, Guarded, ItemStep, NewOperation, Reservation,
};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn r_03_a_replay_goes_to_the_failed_queue_only_and_is_proven_by_the_inbox() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert!(plan.is_allowed(), "{:?}", plan.preflight);
    assert_eq!(level(&plan, "same_content"), Level::Pass);
    assert_eq!(level(&plan, "inbox_absent"), Level::Pass);
    assert_eq!(level(&plan, "consumers"), Level::Warning);
    assert_eq!(
        plan.command_line,
        format!(
            "redrive replay {} --consumer inventory --context demo --reason … --apply",
            letter.event.event_id
        )
    );

    let applied = scene
        .operator
        .apply(&plan, &because("sku optional"))
        .await
        .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Published);
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replaying);
    let mut taken = scene.bench.take(QUEUE).await;
    assert_eq!(taken.len(), 1);
    assert_eq!(scene.bench.ready("payment.orders").await, 0);
    assert_eq!(scene.bench.ready("orders.results").await, 0);
    let message = taken.remove(0).message;
    assert_eq!(message.payload, letter.event.payload, "byte for byte");
    assert_eq!(
        message.properties.message_id.as_deref(),
        Some(letter.event.event_id.as_str())
    );
    assert_eq!(message.properties.delivery_mode, Some(2));
    assert_eq!(operation_of(&message), Some(plan.operation_id.clone()));
    assert_eq!(
        message.properties.headers.get(REPLAYS),
        Some(&FieldValue::I64(1))
    );

    assert_eq!(scene.operator.prove_once().await.expect("looks"), vec![]);
    scene.processed(CONSUMER, &letter.event).await;
    let operation = scene
        .operator
        .follow(CONSUMER, &plan.operation_id, SOON)
        .await
        .expect("follows");
    assert_eq!(operation.state, OperationState::Finished);
    assert_eq!(operation.items[0].state, ItemState::Consumed);
    assert!(
        operation.items[0]
            .evidence
            .as_deref()
            .is_some_and(|why| why.starts_with("inbox row of inventory at"))
    );
    let after = scene.letter(&letter).await;
    assert_eq!(after.status, DeadLetterStatus::Replayed);
    assert_eq!(after.replays, 1);
    assert_eq!(
        scene.audit().await,
        [
            "mia@desk replay intent",
            "mia@desk replay outcome",
            "mia@desk replay outcome"
        ]
    );
    scene.assert_chains_verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_01_two_consoles_publish_once_and_the_second_is_told_who_holds_it() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let (mia, leo) = (Arc::clone(&scene.operator), scene.second("leo@laptop"));
    let request = letter.replay();
    let (one, two) = (
        mia.plan(&request).await.expect("plans"),
        leo.plan(&request).await.expect("plans"),
    );
    let reason = because("both pressed");
    let (first, second) = tokio::join!(mia.apply(&one, &reason), leo.apply(&two, &reason));
    let refused = match (first, second) {
        (Ok(_), refused @ Err(_)) | (refused @ Err(_), Ok(_)) => refused,
        both => panic!("one of them publishes: {both:?}"),
    };
    let (check, why) = refusal(refused);
    assert_eq!(check, "held");
    assert!(why.starts_with("already being replayed by "), "{why}");
    assert!(why.contains(" since 20"), "{why}");
    assert_eq!(scene.bench.ready(QUEUE).await, 1);
    let audit = scene.audit().await;
    let count = |phase: &str| audit.iter().filter(|line| line.ends_with(phase)).count();
    assert_eq!((count("intent"), count("refused")), (1, 1), "{audit:?}");

    // The same plan once more: its own operation holds the letter.
    let (check, _) = refusal(mia.apply(&one, &reason).await);
    assert_eq!(check, "held");
    // And a new plan says so before anything is confirmed.
    let again = mia.plan(&request).await.expect("plans");
    assert_eq!(level(&again, "held"), Level::Refusal);
    assert_eq!(scene.bench.ready(QUEUE).await, 1);
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn r_02_what_is_solved_is_not_replayed_from_an_old_list() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let old = scene.operator.plan(&letter.replay()).await.expect("plans");
    let newer = scene.operator.plan(&letter.replay()).await.expect("plans");
    scene
        .operator
        .apply(&newer, &because("first"))
        .await
        .expect("applies");
    scene.processed(CONSUMER, &letter.event).await;
    scene.operator.prove_once().await.expect("looks");

    let (check, why) = refusal(scene.operator.apply(&old, &because("second")).await);
    assert_eq!(check, "inbox_absent");
    assert!(why.contains("processed it at "), "{why}");
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert!(
        line(&plan, "closed").text.starts_with("replayed at "),
        "{:?}",
        line(&plan, "closed")
    );
    assert_eq!(scene.bench.ready(QUEUE).await, 1);
}

#[tokio::test]
async fn r_02_a_closed_letter_is_refused_by_the_database_too() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let old = scene.operator.plan(&letter.replay()).await.expect("plans");
    act(&scene.operator, &discard(&letter, false))
        .await
        .expect("discards");
    let (check, why) = refusal(scene.operator.apply(&old, &because("old list")).await);
    assert_eq!(check, "closed");
    assert!(why.starts_with("discarded at "), "{why}");
    assert_eq!(scene.bench.ready(QUEUE).await, 0);
}

fn discard(letter: &Letter, is_resolved: bool) -> Request {
    Request::Discard {
        target: letter.target(),
        is_resolved,
    }
}

/// An operation as a console leaves it that is killed: reserved, and stepped to `state`.
async fn killed(scene: &Scene, letter: &Letter, state: ItemState) -> OperationId {
    let store = scene.bench.store(CONSUMER);
    let row = scene.letter(letter).await;
    let operation = NewOperation {
        operation_id: OperationId::generate(),
        verb: Verb::Replay,
        actor: "mia@desk".to_owned(),
        reason: "rollout".to_owned(),
        ticket: None,
        plan_digest: String::new(),
        plan: "{}".to_owned(),
    };
    let reservation = Reservation {
        dead_letter_id: letter.dead_letter_id.clone(),
        version: row.version,
        payload_sha256: row.payload_sha256,
        token: ClaimToken::generate(),
        // Over at once: its holder gives no more sign.
        lease: Duration::ZERO,
    };
    let audit = crate::model::audit::AuditRecord {
        actor: "mia@desk".to_owned(),
        action: "replay".to_owned(),
        phase: "intent".to_owned(),
        operation_id: Some(operation.operation_id.clone()),
        subject: letter.event.event_id.to_string(),
        reason: "rollout".to_owned(),
        detail: "{}".to_owned(),
    };
    let begun = store
        .begin_replay(&operation, std::slice::from_ref(&reservation), &audit)
        .await
        .expect("begins");
    assert_eq!(begun, Begun::Started);
    if state == ItemState::Publishing {
        let step = ItemStep {
            operation_id: operation.operation_id.clone(),
            no: 1,
            token: reservation.token,
            from: vec![ItemState::Reserved],
            to: ItemState::Publishing,
            evidence: "being sent".to_owned(),
            audit: None,
        };
        assert_eq!(store.step_item(&step).await.expect("steps"), Guarded::Done);
    }
    operation.operation_id
}

#[tokio::test]
async fn r_05_a_crash_before_the_publish_gives_the_letter_back() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let id = killed(&scene, &letter, ItemState::Reserved).await;
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replaying);
    let changed = scene.operator.prove_once().await.expect("looks");
    assert_eq!(changed.len(), 1);
    assert_eq!(scene.state(&id).await, ItemState::Refused);
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    assert_eq!(scene.bench.ready(QUEUE).await, 0);
}

#[tokio::test]
async fn r_05_a_crash_after_the_publish_is_unknown_not_sent_again_and_resolves_itself() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let id = killed(&scene, &letter, ItemState::Publishing).await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert!(
        line(&plan, "held")
            .text
            .starts_with("already being replayed by mia@desk since "),
        "who and when survive the crash"
    );

    scene.operator.prove_once().await.expect("looks");
    let operation = scene.operation(&id).await;
    assert_eq!(operation.state, OperationState::Unknown);
    assert_eq!(operation.items[0].state, ItemState::Unknown);
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replaying);
    assert_eq!(scene.bench.ready(QUEUE).await, 0, "never sent by itself");

    scene.processed(CONSUMER, &letter.event).await;
    scene.operator.prove_once().await.expect("looks");
    assert_eq!(scene.state(&id).await, ItemState::Consumed);
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replayed);
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn r_05_an_unknown_replay_is_sent_again_only_when_told_and_under_the_same_id() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let id = killed(&scene, &letter, ItemState::Publishing).await;
    scene.operator.prove_once().await.expect("looks");

    let (check, _) = refusal(act(&scene.operator, &letter.replay()).await);
    assert_eq!(check, "unknown_outcome");
    let applied = act(
        &scene.operator,
        &letter.replay_overriding("unknown_outcome"),
    )
    .await
    .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Published);
    assert_eq!(scene.state(&id).await, ItemState::Refused, "given up");
    let taken = scene.bench.take(QUEUE).await;
    assert_eq!(
        taken[0].message.properties.message_id.as_deref(),
        Some(letter.event.event_id.as_str())
    );
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn r_07_the_inbox_of_this_consumer_decides() {
    // (c) no row, (d) another consumer's row only: normal.
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    scene.processed("payment", &letter.event).await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "inbox_absent"), Level::Pass);
    // (b) an inbox row is only ever written with its effect: there is no half-done row to find.
    // (a) this consumer's row: it would skip it.
    scene.processed(CONSUMER, &letter.event).await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "inbox_absent"), Level::Refusal);
    assert!(
        line(&plan, "inbox_absent")
            .text
            .starts_with("consumer will skip this: already processed at ")
    );
    let (check, _) = refusal(scene.operator.apply(&plan, &because("x")).await);
    assert_eq!(check, "inbox_absent");
    // And what the line offers works.
    act(&scene.operator, &discard(&letter, true))
        .await
        .expect("closes");
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Resolved);
}

#[tokio::test]
async fn r_13_the_next_death_of_a_replayed_event_opens_the_letter_again() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let applied = act(&scene.operator, &letter.replay())
        .await
        .expect("applies");
    let taken = scene.bench.take(QUEUE).await;
    let mark = operation_of(&taken[0].message);
    assert_eq!(mark.as_ref(), Some(&applied.operation_id));
    scene.died(&letter.event, mark.as_ref(), |_| {}).await;

    scene.operator.prove_once().await.expect("looks");
    assert_eq!(
        scene.state(&applied.operation_id).await,
        ItemState::DiedAgain
    );
    let after = scene.letter(&letter).await;
    assert_eq!(after.status, DeadLetterStatus::Open);
    assert_eq!(after.deaths, 2);
    assert_eq!(after.replays, 1);
}

#[tokio::test]
async fn r_09_from_the_third_replay_on_a_word_must_be_typed() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    for _ in 0..2 {
        let applied = act(&scene.operator, &letter.replay())
            .await
            .expect("applies");
        scene
            .died(&letter.event, Some(&applied.operation_id), |_| {})
            .await;
        scene.operator.prove_once().await.expect("looks");
    }
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(plan.confirm.word.as_deref(), Some("again"));
    assert!(
        line(&plan, "replays")
            .text
            .starts_with("replayed 2 times, last death 0s after replay"),
        "{:?}",
        line(&plan, "replays")
    );
    let mut answer = because("third time");
    let (check, _) = refusal(scene.operator.apply(&plan, &answer).await);
    assert_eq!(check, "word");
    answer.word = Some("again".to_owned());
    scene.operator.apply(&plan, &answer).await.expect("applies");
    assert_eq!(scene.bench.ready(QUEUE).await, 3);
}

#[tokio::test]
async fn r_09_a_death_faster_than_our_record_is_counted_by_the_mark_on_the_message() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            let headers = &mut death.message.properties.headers;
            headers.set(REPLAYS, FieldValue::I64(2));
        })
        .await;
    assert_eq!(scene.letter(&letter).await.replays, 0);
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(plan.confirm.word.as_deref(), Some("again"));
    assert!(plan.headline.ends_with("replays 2"), "{}", plan.headline);
}

#[tokio::test]
async fn r_12_empty_mistyped_and_dead_letter_targets_are_refused() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    for (queue, check, wanted) in [
        ("", "target_empty", Level::Refusal),
        (" ", "target_empty", Level::Refusal),
        ("inventory.orders ", "target_space", Level::Refusal),
        ("Inventory.Orders", "destination_exists", Level::Refusal),
        (DLQ, "target_is_dlq", Level::Overridable),
        ("payment.orders.dlq", "target_is_dlq", Level::Overridable),
        ("payment.orders", "other_queue", Level::Warning),
    ] {
        let plan = scene
            .operator
            .plan(&letter.replay_to(queue))
            .await
            .expect("plans");
        assert_eq!(level(&plan, check), wanted, "{queue:?}");
        assert_eq!(plan.is_allowed(), wanted == Level::Warning, "{queue:?}");
    }
    let told = Request::Replay {
        target: letter.target(),
        through_exchange: false,
        to_queue: Some(DLQ.to_owned()),
        overrides: vec!["target_is_dlq".to_owned()],
    };
    let plan = scene.operator.plan(&told).await.expect("plans");
    assert!(plan.is_allowed(), "{:?}", plan.preflight);
}

#[tokio::test]
async fn b_01_a_returned_message_is_not_published_and_the_letter_stays_open() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            death.source_routing_key = Some("nobody.listens".to_owned());
        })
        .await;
    let plan = scene
        .operator
        .plan(&letter.through_exchange())
        .await
        .expect("plans");
    let to = plan.destination.clone().expect("a destination");
    assert_eq!(
        to.queues,
        [
            "inventory.orders",
            "notification.orders",
            "orders.results",
            "payment.orders"
        ]
    );
    let applied = scene
        .operator
        .apply(&plan, &because("x"))
        .await
        .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Unroutable);
    assert!(
        applied.items[0].evidence.starts_with("unroutable: "),
        "{:?}",
        applied.items
    );
    let after = scene.letter(&letter).await;
    assert_eq!(after.status, DeadLetterStatus::Open);
    assert_eq!(after.replays, 0);
}

#[tokio::test]
async fn through_the_exchange_the_plan_says_who_else_gets_it() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    scene.processed("payment", &letter.event).await;
    let plan = scene
        .operator
        .plan(&letter.through_exchange())
        .await
        .expect("plans");
    let radius: Vec<_> = plan
        .preflight
        .iter()
        .filter(|line| line.check == "blast_radius")
        .map(|line| line.text.clone())
        .collect();
    assert_eq!(radius.len(), 3, "{radius:?}");
    assert!(
        radius
            .iter()
            .any(|text| text.starts_with("payment has it since "))
    );
    assert!(
        radius.contains(&"orders has no inbox row: it will take effect there too".to_owned()),
        "{radius:?}"
    );
}

#[tokio::test]
async fn b_04_a_full_queue_refuses_and_nothing_is_lost() {
    let scene = Scene::new().await;
    scene
        .bench
        .broker
        .declare(&Topology {
            exchanges: vec![],
            queues: vec![NewQueue {
                name: "full".to_owned(),
                max_length: Some(1),
                ..NewQueue::default()
            }],
        })
        .await
        .expect("declares");
    scene
        .bench
        .put("full", vec![crate::model::message::Message::default()])
        .await;
    for _ in 0..5 {
        let letter = scene.dead().await;
        let applied = act(&scene.operator, &letter.replay_to("full"))
            .await
            .expect("applies");
        assert_eq!(applied.items[0].state, ItemState::Refused);
        assert_eq!(
            applied.items[0].evidence,
            "refused by broker (nack): queue full or limit"
        );
        assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    }
}

#[tokio::test]
async fn b_06_a_blocked_broker_is_said_before_and_nothing_is_sent_when_it_blocks_in_between() {
    let scene = Scene::with(|context| {
        context.thresholds.publish_deadline = Duration::from_millis(50);
    })
    .await;
    let letter = scene.dead().await;
    scene.bench.broker.set_blocked(Some("memory"));
    let (check, why) = refusal(act(&scene.operator, &letter.replay()).await);
    assert_eq!(check, "blocked");
    assert!(why.contains("memory"), "{why}");
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    scene.bench.broker.set_blocked(None);

    // It blocks after the reservation: nothing left, which is certain, and the letter is open again.
    let mut meddler = Meddler::new(&scene.bench.broker);
    let broker = Arc::clone(&scene.bench.broker);
    meddler.before_publish = Some(Arc::new(move || {
        broker.set_blocked(Some("memory"));
        Box::pin(async {})
    }));
    let mut ports = scene.bench.ports.clone();
    ports.broker = Some(Arc::new(meddler));
    let operator = super::Operator::new(ports, "mia@desk".to_owned(), false);
    let applied = act(&operator, &letter.replay()).await.expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Refused);
    assert!(
        applied.items[0]
            .evidence
            .contains("not sent: broker blocked"),
        "{:?}",
        applied.items
    );
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Open);
    scene.bench.broker.set_blocked(None);
    let applied = act(&scene.operator, &letter.replay()).await.expect("goes");
    assert_eq!(applied.items[0].state, ItemState::Published);
}

#[tokio::test]
async fn h_02_h_05_h_06_the_replayed_copy_as_the_queue_has_it() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            let properties = &mut death.message.properties;
            properties.headers.set(
                "CC",
                FieldValue::Array(vec![FieldValue::text("payment.orders")]),
            );
            properties.headers.set("x-tenant", FieldValue::I16(-7));
            properties.expiration = Some("3000".to_owned());
            properties.content_encoding = Some("gzip".to_owned());
            properties.priority = Some(7);
            properties.app_id = Some("shop-web".to_owned());
            properties.reply_to = Some("replies".to_owned());
        })
        .await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    scene
        .operator
        .apply(&plan, &because("x"))
        .await
        .expect("applies");
    assert_eq!(scene.bench.ready("payment.orders").await, 0);
    let sent = scene.bench.take(QUEUE).await.remove(0).message.properties;
    assert_eq!(sent.expiration, None);
    assert_eq!(sent.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(sent.priority, Some(7));
    assert_eq!(sent.app_id.as_deref(), Some("shop-web"));
    assert_eq!(sent.reply_to.as_deref(), Some("replies"));
    assert_eq!(sent.headers.get("x-tenant"), Some(&FieldValue::I16(-7)));
    // Every change is in the audit entry, with what was there.
    let entries = scene.bench.store(CONSUMER).audit_page(None, 10).await;
    let intent = entries.expect("reads").pop().expect("an entry");
    assert_eq!(intent.record.phase, "intent");
    assert!(
        intent.record.detail.contains("payment.orders"),
        "{}",
        intent.record.detail
    );
    assert!(intent.record.detail.contains("3000"));
}

#[tokio::test]
async fn drift_between_plan_and_apply_is_refused_and_recorded() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    scene
        .operator
        .annotate(CONSUMER, &letter.dead_letter_id, Some("leo"), None)
        .await
        .expect("assigns");
    let (check, why) = refusal(scene.operator.apply(&plan, &because("x")).await);
    assert_eq!(check, "drifted");
    assert!(why.contains("plan again"), "{why}");
    assert_eq!(scene.bench.ready(QUEUE).await, 0);
    assert_eq!(
        scene.audit().await,
        ["mia@desk assign outcome", "mia@desk replay refused"]
    );
    assert_eq!(scene.letter(&letter).await.owner.as_deref(), Some("leo"));
}

#[tokio::test]
async fn read_only_writes_nothing_at_all() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let looker = operator(&scene.bench, "ann@desk", true);
    assert_eq!(looker.access(), Access::ReadOnly);
    let plan = looker.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "read_only"), Level::Refusal);
    assert_eq!(
        refusal(looker.apply(&plan, &because("x")).await).0,
        "read_only"
    );
    assert_eq!(refusal(looker.unlock("demo", "x").await).0, "read_only");
    let note = looker
        .annotate(CONSUMER, &letter.dead_letter_id, None, Some("hm"))
        .await;
    assert_eq!(refusal(note).0, "read_only");
    killed(&scene, &letter, ItemState::Reserved).await;
    assert_eq!(looker.prove_once().await.expect("looks"), vec![]);
    // Only what the test itself wrote.
    assert_eq!(scene.audit().await, ["mia@desk replay intent"]);
}

#[tokio::test]
async fn production_is_unlocked_with_its_name_and_both_are_audited() {
    let scene = Scene::with(|context| {
        context.environment = Environment::Production;
    })
    .await;
    let letter = scene.dead().await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "locked"), Level::Warning);
    assert_eq!(
        refusal(scene.operator.apply(&plan, &because("x")).await).0,
        "locked"
    );
    assert_eq!(
        refusal(scene.operator.unlock("shop", "x").await).0,
        "context_name"
    );
    assert_eq!(scene.audit().await, Vec::<String>::new());

    let access = scene.operator.unlock("demo", "incident 7").await;
    assert!(matches!(access, Ok(Access::Unlocked { .. })), "{access:?}");
    assert_eq!(
        refusal(scene.operator.apply(&plan, &because("x")).await).0,
        "context_name"
    );
    let mut answer = because("x");
    answer.context_name = Some("demo".to_owned());
    scene.operator.apply(&plan, &answer).await.expect("applies");
    scene.operator.lock();
    assert_eq!(scene.operator.access(), Access::Locked);
    assert_eq!(
        scene.audit().await,
        [
            "mia@desk unlock outcome",
            "mia@desk replay refused",
            "mia@desk replay intent",
            "mia@desk replay outcome"
        ]
    );
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn an_action_runs_to_its_end_when_its_caller_is_gone() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    let reason = because("terminal closed");
    {
        let apply = scene.operator.apply(&plan, &reason);
        futures::pin_mut!(apply);
        // Begun, and dropped at its first wait.
        assert!(futures::poll!(apply.as_mut()).is_pending());
    }
    assert!(scene.operator.finish(SOON).await);
    assert_eq!(scene.state(&plan.operation_id).await, ItemState::Published);
    assert_eq!(scene.bench.ready(QUEUE).await, 1);
}

#[tokio::test]
async fn p_06_a_repair_issues_a_linked_event_and_closes_the_original() {
    const NUMBERS: &str = r#"{"id":4634343214213523454,"huge":123456789012345678901234567890,"f":1.10,"e":1E400,"sku":null}"#;
    let scene = Scene::new().await;
    let event = new_event("order.created", NUMBERS);
    let letter = scene.dead_event(&event, |_| {}).await;
    let edited = Payload::new(NUMBERS.replace("null", "\"a-1\"").into_bytes());
    let request = Request::Repair {
        target: letter.target(),
        payload: edited.clone(),
    };
    let plan = scene.operator.plan(&request).await.expect("plans");
    assert!(plan.is_allowed(), "{:?}", plan.preflight);
    assert!(
        plan.diff
            .as_deref()
            .is_some_and(|diff| diff.contains("a-1"))
    );
    let applied = scene
        .operator
        .apply(&plan, &because("sku was missing"))
        .await
        .expect("applies");
    let new_id = applied.items[0].new_event_id.clone().expect("a new event");
    assert_ne!(new_id, event.event_id);
    let store = scene.bench.store(CONSUMER);
    let issued = store.outbox_event(&new_id).await.expect("reads");
    let issued = issued.expect("the new event");
    assert_eq!(issued.payload, edited, "byte for byte");
    assert_eq!(issued.row.state, OutboxState::Pending);
    assert_eq!(
        issued.causation_id.as_deref(),
        Some(event.event_id.as_str())
    );
    assert_eq!(
        (issued.exchange.as_deref(), issued.routing_key.as_deref()),
        (Some(""), Some(QUEUE))
    );
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Repaired);
    assert_eq!(scene.bench.ready(QUEUE).await, 0, "the dispatcher sends it");
    let (check, _) = refusal(act(&scene.operator, &request).await);
    assert_eq!(check, "closed");
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn a_failed_outbox_row_goes_back_to_pending_once() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    scene.bench.append("orders", &event).await;
    let orders = scene.bench.store("orders");
    let claim = orders
        .claim_batch(&ClaimRequest {
            batch_rows: 10,
            lease: SOON,
        })
        .await
        .expect("claims");
    let id = event.event_id.as_str();
    let sending = scene.operator.resolve(id, None).await;
    assert!(
        matches!(&sending, Err(OperateError::NotFound(why)) if why.contains("it is sending in the outbox of orders")),
        "{sending:?}"
    );
    let attempt = FailedAttempt {
        event_id: event.event_id.clone(),
        error: "312 NO_ROUTE".to_owned(),
        retry_after: None,
    };
    orders
        .fail_attempts(&claim.token, &[attempt])
        .await
        .expect("fails");

    let target = scene.operator.resolve(id, None).await.expect("resolves");
    assert_eq!(
        target,
        Target::OutboxRow {
            service: "orders".to_owned(),
            event_id: event.event_id.clone()
        }
    );
    let request = Request::Replay {
        target,
        through_exchange: false,
        to_queue: None,
        overrides: vec![],
    };
    let (first, second) = (
        scene.operator.plan(&request).await.expect("plans"),
        scene.operator.plan(&request).await.expect("plans"),
    );
    assert!(first.is_allowed(), "{:?}", first.preflight);
    let applied = scene
        .operator
        .apply(&first, &because("bound now"))
        .await
        .expect("applies");
    assert_eq!(applied.items[0].state, ItemState::Applied);
    let row = orders.outbox_event(&event.event_id).await.expect("reads");
    assert_eq!(row.expect("the row").row.state, OutboxState::Pending);
    let (check, _) = refusal(scene.operator.apply(&second, &because("again")).await);
    assert_eq!(check, "closed");
    scene.assert_chains_verify().await;
}

#[tokio::test]
async fn only_an_expired_lease_is_released() {
    let scene = Scene::new().await;
    for _ in 0..3 {
        scene
            .bench
            .append("orders", &new_event("order.created", "{}"))
            .await;
    }
    let orders = scene.bench.store("orders");
    let claim = |rows, lease| {
        let orders = Arc::clone(&orders);
        async move {
            let request = ClaimRequest {
                batch_rows: rows,
                lease,
            };
            orders.claim_batch(&request).await.expect("claims").token
        }
    };
    let alive = claim(1, Duration::from_mins(5)).await;
    let dead = claim(2, Duration::ZERO).await;
    let request = |token: &ClaimToken| Request::Release {
        service: "orders".to_owned(),
        claim_token: token.clone(),
    };
    let plan = scene.operator.plan(&request(&alive)).await.expect("plans");
    assert_eq!(level(&plan, "lease_expired"), Level::Refusal);

    let plan = scene.operator.plan(&request(&dead)).await.expect("plans");
    assert!(plan.is_allowed(), "{:?}", plan.preflight);
    assert_eq!(plan.confirm.count, Some(2));
    let mut answer = because("dispatcher was killed");
    assert_eq!(
        refusal(scene.operator.apply(&plan, &answer).await).0,
        "count"
    );
    answer.count = Some(2);
    let applied = scene.operator.apply(&plan, &answer).await.expect("applies");
    assert_eq!(applied.items[0].evidence, "2 rows back to pending");
    let (check, _) = refusal(scene.operator.apply(&plan, &answer).await);
    assert_eq!(check, "drifted");
    let gone = scene.operator.plan(&request(&dead)).await;
    assert!(matches!(gone, Err(OperateError::NotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn an_id_names_one_thing_or_is_asked_about() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let id = letter.event.event_id.as_str();
    let resolve = |text: &str, consumer: Option<&str>| {
        let operator = Arc::clone(&scene.operator);
        let (text, consumer) = (text.to_owned(), consumer.map(ConsumerName::from));
        async move { operator.resolve(&text, consumer.as_ref()).await }
    };
    assert_eq!(resolve(id, None).await, Ok(letter.target()));
    assert_eq!(
        resolve(&format!(" {id}\n"), None).await,
        Ok(letter.target())
    );
    // A unique prefix will do, and so will the letter's own id.
    assert_eq!(resolve(&id[..30], None).await, Ok(letter.target()));
    assert_eq!(
        resolve(letter.dead_letter_id.as_str(), None).await,
        Ok(letter.target())
    );
    // Too short, unknown, of another consumer: said with where was looked.
    for (text, consumer) in [
        (&id[..7], None),
        ("00000000-none", None),
        (id, Some("payment")),
    ] {
        let result = resolve(text, consumer).await;
        assert!(
            matches!(&result, Err(OperateError::NotFound(why)) if why.contains("dead letters of inventory")),
            "{result:?}"
        );
    }
    // The same event dead at a second consumer.
    scene
        .died(&letter.event, None, |death| {
            death.consumer = ConsumerName::new("audit");
        })
        .await;
    let result = resolve(id, None).await;
    assert!(
        matches!(&result, Err(OperateError::Ambiguous(why))
            if why.contains("--consumer inventory") && why.contains("--consumer audit")),
        "{result:?}"
    );
    assert_eq!(resolve(id, Some(CONSUMER)).await, Ok(letter.target()));
    // Two ids with one beginning.
    let other = scene.dead().await;
    let shared: String = id
        .chars()
        .zip(other.event.event_id.as_str().chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    if shared.len() >= 8 {
        let result = resolve(&shared, None).await;
        assert!(
            matches!(result, Err(OperateError::Ambiguous(_))),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_type_that_is_never_replayed_is_refused_in_plan_and_apply() {
    let scene = Scene::new().await;
    let event = new_event("order.cancelled", "{}");
    let letter = scene.dead_event(&event, |_| {}).await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "never_replay"), Level::Refusal);
    let told = letter.replay_overriding("never_replay");
    assert_eq!(
        refusal(act(&scene.operator, &told).await).0,
        "never_replay",
        "a refusal cannot be overridden"
    );
    assert_eq!(scene.bench.ready(QUEUE).await, 0);
}

#[tokio::test]
async fn the_sequence_and_the_original_are_looked_up() {
    let scene = Scene::new().await;
    let versions: Vec<_> = (1..=4)
        .map(|version| {
            let mut event = new_event("order.created", "{}");
            event.aggregate_version = version;
            event
        })
        .collect();
    let first = scene.dead_event(&versions[0], |_| {}).await;
    let second = scene.dead_event(&versions[1], |_| {}).await;
    scene.bench.append("orders", &versions[2]).await;
    scene.bench.append("orders", &versions[3]).await;
    scene.processed(CONSUMER, &versions[3]).await;

    let plan = scene.operator.plan(&second.replay()).await.expect("plans");
    assert_eq!(
        line(&plan, "sequence").text,
        "v1 of key 8812 died before it: replay that first; later events of 8812 were already processed (v4)"
    );
    let plan = scene.operator.plan(&first.replay()).await.expect("plans");
    assert!(
        line(&plan, "sequence")
            .text
            .ends_with("v2 of this key waits behind it"),
        "{:?}",
        line(&plan, "sequence")
    );
    // Same id, other content.
    let event = new_event("order.created", r#"{"a":1}"#);
    let letter = scene
        .dead_event(&event, |death| {
            death.message.payload = Payload::new(br#"{"a":2}"#.to_vec());
        })
        .await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "same_content"), Level::Overridable);
    assert!(!plan.is_allowed());
}

#[test]
fn every_file_of_a_verb_is_registered_once() {
    let names: std::collections::BTreeSet<_> =
        super::OPERATIONS.iter().map(|entry| entry.name).collect();
    let verbs: std::collections::BTreeSet<_> = Verb::ALL.iter().map(|verb| verb.word()).collect();
    assert_eq!(names, verbs);
    let keys: std::collections::BTreeSet<_> =
        super::OPERATIONS.iter().map(|entry| entry.key).collect();
    assert_eq!(keys.len(), names.len());
    assert!(keys.iter().all(char::is_ascii_uppercase), "uppercase acts");
    for entry in super::OPERATIONS {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/operate")
            .join(entry.file);
        assert!(path.is_file(), "{}", entry.file);
    }
}

#[tokio::test]
async fn h_03_a_second_rejection_has_a_well_formed_history_of_its_own() {
    let scene = Scene::new().await;
    let event = new_event("order.created", "{}");
    let letter = scene
        .dead_event(&event, |death| {
            let entry = [
                ("count".to_owned(), FieldValue::I64(1)),
                ("reason".to_owned(), FieldValue::text("rejected")),
                ("queue".to_owned(), FieldValue::text("billing.orders")),
            ];
            let headers = &mut death.message.properties.headers;
            headers.set(
                "x-death",
                FieldValue::Array(vec![FieldValue::Table(entry.into_iter().collect())]),
            );
            headers.set("x-first-death-queue", FieldValue::text("billing.orders"));
        })
        .await;
    act(&scene.operator, &letter.replay())
        .await
        .expect("applies");
    let mut consumer = scene.bench.broker.consumer(QUEUE, 1).await.expect("opens");
    let delivery = consumer.next().await.expect("the replay");
    consumer.reject(delivery.tag, false).await.expect("rejects");
    let dead = scene.bench.take(DLQ).await.remove(0).message;
    let deaths = crate::broker::deaths::deaths(&dead.properties.headers);
    assert_eq!(deaths.len(), 1);
    assert_eq!((deaths[0].queue.as_str(), deaths[0].count), (QUEUE, 1));
    assert_eq!(
        dead.properties.headers.get("x-first-death-queue"),
        Some(&FieldValue::text(QUEUE))
    );
}

#[tokio::test]
async fn r_11_a_replay_names_later_events_that_were_processed_and_those_that_wait() {
    let scene = Scene::new().await;
    let event = |version: i64| {
        let mut event = new_event("order.changed", &format!(r#"{{"v":{version}}}"#));
        event.aggregate_id = "order-42".into();
        event.aggregate_version = version;
        event
    };
    let keyed = |death: &mut NewDeath, version: i64| {
        death.aggregate_id = Some("order-42".into());
        death.aggregate_version = Some(version);
    };
    // Newest first, as a list may show them.
    for version in [8, 6] {
        let processed = event(version);
        scene.bench.append("orders", &processed).await;
        scene.processed(CONSUMER, &processed).await;
    }
    let seven = scene.dead_event(&event(7), |death| keyed(death, 7)).await;
    let five = scene.dead_event(&event(5), |death| keyed(death, 5)).await;
    let plan = scene.operator.plan(&five.replay()).await.expect("plans");
    let told = line(&plan, "sequence");
    assert_eq!(told.level, Level::Warning);
    assert_eq!(
        told.text,
        "later events of order-42 were already processed (v6, v8); v7 of this key waits behind it"
    );
    let plan = scene.operator.plan(&seven.replay()).await.expect("plans");
    let told = &line(&plan, "sequence").text;
    assert!(
        told.starts_with("v5 of key order-42 died before it: replay that first"),
        "{told}"
    );
}

#[tokio::test]
async fn i_01_what_the_inbox_has_forgotten_is_not_replayed_as_if_it_were_new() {
    let scene = Scene::with(|context| context.inbox_retention = None).await;
    let letter = scene.dead().await;
    scene.processed(CONSUMER, &letter.event).await;
    // Somebody forces the archiver past the letter, as a cleaning job of one's own would.
    let forget = ArchiveRequest {
        consumer: CONSUMER.into(),
        keep: Duration::ZERO,
        rows_max: 10,
        archive: true,
    };
    let store = scene.bench.store(CONSUMER);
    let aged = "UPDATE consumer_inbox SET processed_at = processed_at - 1000000";
    scene.bench.execute(CONSUMER, aged).await;
    assert_eq!(store.archive_inbox(&forget).await.expect("moves").rows, 1);
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    let told = line(&plan, "inbox_absent");
    assert_eq!(told.level, Level::Refusal);
    assert!(told.text.contains("the archive has the row"), "{told:?}");
    // Without an archive only the horizon is left: refused unless told in words.
    scene
        .bench
        .execute(CONSUMER, "DELETE FROM consumer_inbox_archive")
        .await;
    scene
        .bench
        .execute(
            CONSUMER,
            "UPDATE inbox_horizons SET horizon_at = horizon_at + 3600000000",
        )
        .await;
    let plan = scene.operator.plan(&letter.replay()).await.expect("plans");
    assert_eq!(level(&plan, "inbox_retention"), Level::Overridable);
    let told = &line(&plan, "inbox_retention").text;
    assert!(
        told.contains("duplicate protection no longer applies"),
        "{told}"
    );
    let overriding = letter.replay_overriding("inbox_retention");
    let plan = scene.operator.plan(&overriding).await.expect("plans");
    assert_eq!(level(&plan, "inbox_retention"), Level::Warning);
}
