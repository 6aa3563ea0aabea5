//! What a person may do to a saga, from plan to audit entry.

use std::time::Duration;

use crate::config::Environment;
use crate::model::ids::SagaId;
use crate::model::operation::{ItemState, Verb};
use crate::model::saga::machine::Answer;
use crate::model::saga::{Saga, SagaRef, SagaState, Side, StepState};
use crate::operate::plan::{Access, Confirmation, Level, OperateError, Plan, Request, SagaWish};
use crate::operate::test_support::Scene;
use crate::pipeline::Worker as _;
use crate::pipeline::saga_coordinator::{
    Coordinator, CoordinatorSettings, Reply, SagaDefinition, key_of, record,
};
use crate::sandbox::{OrderRequest, OrderSaga, Tempo, cancel_order, place_order};

struct Stuck {
    scene: Scene,
    saga: OrderSaga,
    id: SagaId,
}

impl Stuck {
    /// An order whose charge waits for its answer.
    async fn new(change: impl FnOnce(&mut crate::config::Context)) -> Self {
        let scene = Scene::with(change).await;
        let tempo = Tempo {
            timeout: Duration::from_hours(1),
            ..Tempo::default()
        };
        let saga = OrderSaga::new(&scene.bench.ports, tempo);
        let request = OrderRequest {
            idempotency_key: "c-1".to_owned(),
            order_no: Some(8_800),
            email: "a@example.org".to_owned(),
            sku: Some("SKU-TEA".to_owned()),
            quantity: 1,
            amount_cents: 350,
        };
        let orders = scene.bench.store("orders");
        let accepted = place_order(orders.as_ref(), &saga, &request).await;
        let id = accepted.expect("accepted").saga_id;
        let stuck = Self { scene, saga, id };
        stuck
            .say("reserve_stock", Side::Forward, Answer::Succeeded)
            .await;
        stuck
    }

    async fn say(&self, step: &str, side: Side, answer: Answer) {
        let mut tx = self
            .scene
            .bench
            .store("orders")
            .begin()
            .await
            .expect("begins");
        let reply = Reply {
            key: key_of("order", "8800", step, side),
            answer,
            event_id: crate::model::ids::EventId::generate(),
        };
        record(tx.as_mut(), &self.saga, &reply)
            .await
            .expect("records");
        tx.commit().await.expect("commits");
    }

    async fn now(&self) -> Saga {
        let found = self.scene.bench.store("orders").saga(&self.id).await;
        found.expect("reads").expect("the saga")
    }

    async fn plan(&self, wish: SagaWish) -> Plan {
        let request = Request::Saga {
            service: "orders".to_owned(),
            saga_id: self.id.clone(),
            step: None,
            wish,
        };
        self.scene.operator.plan(&request).await.expect("plans")
    }

    async fn act(&self, wish: SagaWish, told: Option<&str>) -> Result<String, OperateError> {
        let plan = self.plan(wish).await;
        self.apply(&plan, told).await
    }

    async fn apply(&self, plan: &Plan, told: Option<&str>) -> Result<String, OperateError> {
        let confirmation = Confirmation {
            reason: "stuck since noon".to_owned(),
            told: told.map(ToOwned::to_owned),
            ..Confirmation::default()
        };
        let applied = self.scene.operator.apply(plan, &confirmation).await?;
        assert_eq!(applied.items[0].state, ItemState::Applied);
        Ok(applied.items[0].evidence.clone())
    }

    /// The coordinator's next pass.
    async fn coordinate(&self) -> crate::pipeline::Report {
        let definitions: Vec<std::sync::Arc<dyn SagaDefinition>> = vec![std::sync::Arc::new(
            OrderSaga::new(&self.scene.bench.ports, Tempo::default()),
        )];
        let store = self.scene.bench.store("orders");
        let settings = CoordinatorSettings::default();
        let coordinator = Coordinator::new("orders", store, definitions, settings);
        coordinator.expect("valid").run_once().await
    }

    async fn sent(&self, kind: &'static str) -> i64 {
        let statement = match kind {
            "payment.charge" => {
                "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'"
            }
            _ => "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.refund'",
        };
        self.scene.bench.number("orders", statement).await
    }
}

fn line<'a>(plan: &'a Plan, check: &str) -> &'a str {
    let found = plan.preflight.iter().find(|line| line.check == check);
    &found
        .unwrap_or_else(|| panic!("no line {check}: {plan:?}"))
        .text
}

#[tokio::test]
async fn a_retry_is_planned_in_words_sent_by_the_coordinator_and_audited() {
    let stuck = Stuck::new(|_| {}).await;
    let plan = stuck.plan(SagaWish::Retry).await;
    assert!(plan.is_allowed());
    assert!(plan.headline.contains("order 8800"), "{}", plan.headline);
    assert!(line(&plan, "key").contains("order-8800:charge"));
    assert!(line(&plan, "outcome").contains("not known"));
    assert!(
        plan.command_line
            .starts_with(&format!("redrive saga retry {} --service orders", stuck.id)),
        "{}",
        plan.command_line
    );
    stuck.apply(&plan, None).await.expect("applies");
    assert_eq!(
        stuck.sent("payment.charge").await,
        1,
        "nothing is sent from here"
    );
    let report = stuck.coordinate().await;
    assert_eq!(report.get("moved"), 1, "{report:?}");
    assert_eq!(stuck.sent("payment.charge").await, 2);
    let orders = stuck.scene.bench.store("orders");
    let page = orders.operations_page(None, 5).await.expect("reads");
    assert_eq!(page.rows[0].verb, Verb::SagaRetry);
    assert_eq!(orders.audit_verify().await, Ok(Ok(1)));
    let entry = orders.audit_page(None, 5).await.expect("reads").remove(0);
    assert_eq!(entry.record.subject, stuck.id.to_string());
}

#[tokio::test]
async fn a_query_is_asked_and_its_answer_moves_the_saga() {
    let stuck = Stuck::new(|_| {}).await;
    let told = stuck.act(SagaWish::Query, None).await.expect("applies");
    assert!(told.contains("asked"), "{told}");
    assert_eq!(stuck.now().await.steps[1].forward, StepState::Unknown);
    let report = stuck.coordinate().await;
    assert_eq!(report.get("asked"), 1, "{report:?}");
    let saga = stuck.now().await;
    assert_eq!(
        saga.steps[1].forward,
        StepState::InFlight,
        "the command is still on its way"
    );
    assert_eq!(saga.steps[1].queries, 1);
}

#[tokio::test]
async fn compensate_says_what_is_undone_and_what_is_asked_about() {
    let stuck = Stuck::new(|_| {}).await;
    let plan = stuck.plan(SagaWish::Compensate).await;
    assert!(line(&plan, "undo").contains("reserve_stock"));
    assert!(line(&plan, "outcome").contains("charge"));
    assert!(line(&plan, "one_way").contains("once"));
    stuck.apply(&plan, None).await.expect("applies");
    assert_eq!(stuck.now().await.state, SagaState::Compensating);
    let state = "SELECT COUNT(*) FROM orders WHERE state = 'cancelled'";
    stuck.coordinate().await;
    let bench = &stuck.scene.bench;
    assert_eq!(bench.number("orders", state).await, 1, "the order follows");
    let again = stuck.plan(SagaWish::Compensate).await;
    assert!(!again.is_allowed());
    let refused = stuck.apply(&again, None).await.expect_err("refused");
    assert!(matches!(refused, OperateError::Refused { check, .. } if check == "state"));
}

/// The refund was refused five times; a person retries only that step, then sees to it by hand.
#[tokio::test]
async fn s_02_a_failed_compensation_is_retried_or_handled_with_evidence() {
    let stuck = Stuck::new(|_| {}).await;
    let orders = stuck.scene.bench.store("orders");
    cancel_order(orders.as_ref(), &stuck.saga, 8_800, "customer")
        .await
        .expect("cancels");
    stuck.say("charge", Side::Forward, Answer::Succeeded).await;
    let mut tx = orders.begin().await.expect("begins");
    let of = SagaRef::Id(stuck.id.clone());
    let work = tx.saga(&of).await.expect("locks").expect("there");
    let mut after = work.saga.clone();
    after.steps[0].compensation = StepState::Succeeded;
    after.steps[1].compensation = StepState::Failed;
    after.steps[1].attempts = 5;
    after.state = SagaState::CompensationFailed;
    after.attention = Some("charge could not be undone in 5 tries".to_owned());
    after.due_at = None;
    tx.saga_move(&work.saga, &after, None)
        .await
        .expect("writes");
    tx.commit().await.expect("commits");
    let listed = orders.sagas(5).await.expect("lists");
    assert_eq!(listed[0].saga_id, stuck.id, "on top");

    let before = stuck.sent("payment.refund").await;
    stuck.act(SagaWish::Retry, None).await.expect("applies");
    let saga = stuck.now().await;
    assert_eq!(saga.state, SagaState::Compensating);
    assert_eq!(
        saga.steps[0].compensation,
        StepState::Succeeded,
        "only that step"
    );
    stuck.coordinate().await;
    assert_eq!(stuck.sent("payment.refund").await, before + 1);

    let handled = SagaWish::Handled {
        is_done: true,
        evidence: None,
    };
    let plan = stuck.plan(handled.clone()).await;
    assert_eq!(plan.confirm.told.as_deref(), Some("evidence"));
    assert!(line(&plan, "evidence").contains("nothing is checked"));
    let missing = stuck.apply(&plan, Some("  ")).await.expect_err("refused");
    assert!(matches!(missing, OperateError::Refused { check, .. } if check == "evidence"));
    let told = stuck
        .act(handled, Some("bank receipt 4711"))
        .await
        .expect("applies");
    assert!(told.contains("4711"), "{told}");
    let saga = stuck.now().await;
    assert_eq!(saga.state, SagaState::Compensated);
    assert_eq!(saga.evidence.as_deref(), Some("bank receipt 4711"));
    assert!(!saga.needs_attention());
}

/// In flight for hours; the operator takes it over, and the success comes in the same moment.
#[tokio::test]
async fn s_05_a_plan_that_was_overtaken_by_the_answer_is_refused() {
    let stuck = Stuck::new(|_| {}).await;
    let plan = stuck.plan(SagaWish::Retry).await;
    stuck.say("charge", Side::Forward, Answer::Succeeded).await;
    assert_eq!(stuck.now().await.state, SagaState::Completed);
    let refused = stuck.apply(&plan, None).await.expect_err("refused");
    assert!(matches!(refused, OperateError::Refused { check, .. } if check == "drifted"));
    assert_eq!(stuck.sent("payment.charge").await, 1, "once");

    // The other way round: the retry first, then the late success. It counts once.
    let stuck = Stuck::new(|_| {}).await;
    stuck.act(SagaWish::Retry, None).await.expect("applies");
    stuck.say("charge", Side::Forward, Answer::Succeeded).await;
    stuck.say("charge", Side::Forward, Answer::Succeeded).await;
    assert_eq!(stuck.now().await.state, SagaState::Completed);
    assert!(stuck.coordinate().await.is_idle, "and is not sent again");
    assert_eq!(stuck.sent("payment.charge").await, 1);
}

#[tokio::test]
async fn an_owner_is_set_whatever_happened_meanwhile_and_taken_away() {
    let stuck = Stuck::new(|_| {}).await;
    let plan = stuck.plan(SagaWish::Assign { owner: None }).await;
    assert_eq!(plan.confirm.told.as_deref(), Some("owner"));
    stuck.say("charge", Side::Forward, Answer::Succeeded).await;
    stuck.apply(&plan, Some("mia")).await.expect("applies");
    assert_eq!(stuck.now().await.owner.as_deref(), Some("mia"));
    let nobody = SagaWish::Assign {
        owner: Some("-".to_owned()),
    };
    stuck.act(nobody, None).await.expect("applies");
    assert_eq!(stuck.now().await.owner, None);
}

#[tokio::test]
async fn rights_read_only_and_the_lock_hold_for_sagas_too() {
    let stuck = Stuck::new(|context| context.rights = vec![Verb::SagaQuery]).await;
    let plan = stuck.plan(SagaWish::Retry).await;
    let rights = plan.refusals().find(|line| line.check == "rights");
    assert_eq!(rights.expect("refused").level, Level::Refusal);
    assert!(stuck.plan(SagaWish::Query).await.is_allowed());

    let stuck = Stuck::new(|context| context.environment = Environment::Production).await;
    assert_eq!(stuck.scene.operator.access(), Access::Locked);
    let refused = stuck.act(SagaWish::Query, None).await.expect_err("locked");
    assert!(matches!(refused, OperateError::Refused { check, .. } if check == "locked"));
}

#[tokio::test]
async fn a_saga_is_found_by_the_beginning_of_its_id() {
    let stuck = Stuck::new(|_| {}).await;
    let operator = &stuck.scene.operator;
    let prefix = stuck.id.as_str().get(..13).expect("long");
    let found = operator.resolve_saga(prefix, None).await;
    assert_eq!(found, Ok(("orders".to_owned(), stuck.id.clone())));
    let nobody = operator.resolve_saga("no-such-saga", None).await;
    assert!(matches!(nobody, Err(OperateError::NotFound(_))));
    let elsewhere = operator.resolve_saga(prefix, Some("inventory")).await;
    assert!(matches!(elsewhere, Err(OperateError::NotFound(_))));
}
