//! What a plan looks up, what it refuses, and what is refused again when it is applied.

use super::*;

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
