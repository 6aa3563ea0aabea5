//! A replay from its plan to its proof: once, to the consumer that failed, through crashes and time.

use super::*;

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

/// The copy of an earlier replay, which had no outcome, dies while a second one is under way.
#[tokio::test]
async fn r_13_the_death_of_another_operations_copy_is_not_this_ones_answer() {
    let scene = Scene::new().await;
    let letter = scene.dead().await;
    let applied = act(&scene.operator, &letter.replay())
        .await
        .expect("applies");
    let another = OperationId::generate();
    scene.died(&letter.event, Some(&another), |_| {}).await;
    scene.operator.prove_once().await.expect("looks");
    assert_eq!(
        scene.state(&applied.operation_id).await,
        ItemState::Published
    );

    scene.processed("inventory", &letter.event).await;
    scene.operator.prove_once().await.expect("looks");
    assert_eq!(
        scene.state(&applied.operation_id).await,
        ItemState::Consumed
    );
    assert_eq!(scene.status(&letter).await, DeadLetterStatus::Replayed);
}
