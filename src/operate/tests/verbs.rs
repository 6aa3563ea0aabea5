//! The other verbs: repair, requeue, release; and that each is registered.

use super::*;

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

#[test]
fn every_file_of_a_verb_is_registered_once() {
    let names: std::collections::BTreeSet<_> = crate::operate::OPERATIONS
        .iter()
        .map(|entry| entry.name)
        .collect();
    let verbs: std::collections::BTreeSet<_> = Verb::ALL.iter().map(|verb| verb.word()).collect();
    assert_eq!(names, verbs);
    let keys: std::collections::BTreeSet<_> = crate::operate::OPERATIONS
        .iter()
        .map(|entry| entry.key)
        .collect();
    assert_eq!(keys.len(), names.len());
    assert!(keys.iter().all(char::is_ascii_uppercase), "uppercase acts");
    for entry in crate::operate::OPERATIONS {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/operate")
            .join(entry.file);
        assert!(path.is_file(), "{}", entry.file);
    }
}
