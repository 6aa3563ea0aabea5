//! An order's way, and every way back, with one effect at each stop.

use std::time::Duration;

use super::*;
use crate::base::backoff::Backoff;
use crate::model::ids::SagaId;
use crate::model::saga::machine::Answer;
use crate::model::saga::manual::{Manual, act};
use crate::model::saga::{Saga, SagaRef, SagaState, Side, StepState};
use crate::pipeline::saga_coordinator::{Recorded, Task};
use crate::sandbox::event::{Link, UNKNOWN};
use crate::sandbox::order_saga::Command;
use crate::store::Guarded;

const TEA: &str = "SKU-TEA";

/// The pipeline without chance, and whatever of its workers a test lets run.
struct Flow {
    bench: Bench,
    saga: OrderSaga,
    workers: Vec<Box<dyn Worker>>,
}

fn hasty() -> Tempo {
    let ms = Duration::from_millis;
    Tempo {
        timeout: ms(60),
        attempts_max: 3,
        backoff: Backoff {
            base: ms(5),
            cap: ms(20),
        },
        query: Backoff {
            base: ms(10),
            cap: ms(60),
        },
        reserved_for: Duration::from_hours(1),
    }
}

/// Nobody asks: only results move a saga.
fn patient() -> Tempo {
    Tempo {
        timeout: Duration::from_hours(1),
        ..hasty()
    }
}

impl Flow {
    async fn new() -> Self {
        Self::with(hasty()).await
    }

    async fn with(tempo: Tempo) -> Self {
        let bench = Bench::new().await;
        prepare_bare(&bench.ports, false).await.expect("prepares");
        let mut flow = Self {
            saga: OrderSaga::new(&bench.ports, tempo),
            workers: Vec::new(),
            bench,
        };
        flow.restart(tempo);
        flow
    }

    /// Other workers on the same rows and queues.
    fn restart(&mut self, tempo: Tempo) {
        let program = program_with(&self.bench.ports, Chance::NONE, tempo);
        self.workers =
            crate::pipeline::build(&self.bench.ports, &[], &program).expect("builds workers");
    }

    fn request(number: i64, sku: &str) -> OrderRequest {
        OrderRequest {
            idempotency_key: format!("client-{number}"),
            order_no: Some(number),
            email: "a@example.org".to_owned(),
            sku: Some(sku.to_owned()),
            quantity: 2,
            amount_cents: 990,
        }
    }

    async fn place(&self, number: i64, sku: &str) -> SagaId {
        let orders = self.bench.store("orders");
        let request = Self::request(number, sku);
        let accepted = place_order(orders.as_ref(), &self.saga, &request).await;
        let accepted = accepted.expect("accepted");
        assert!(accepted.is_new);
        assert_eq!(accepted.state, "pending_inventory");
        accepted.saga_id
    }

    async fn fault(&self, number: i64, fault: ProcessorFault, times: u32) {
        let payment = self.bench.store("payment");
        let set = set_fault(payment.as_ref(), number, Some((fault, times)));
        set.await.expect("set");
    }

    /// Makes passes over the workers, without those of `without`, until a number is as wanted.
    async fn run(
        &mut self,
        without: Option<(&str, &str)>,
        (service, statement, wanted): (&str, &'static str, i64),
    ) {
        let started = tokio::time::Instant::now();
        while self.bench.number(service, statement).await != wanted {
            assert!(
                started.elapsed() < Duration::from_mins(1),
                "never {wanted}: {statement}"
            );
            for worker in &mut self.workers {
                if without != Some((worker.name(), worker.service())) {
                    let report = worker.run_once().await;
                    assert_eq!(report.problem, None, "{report:?}");
                }
            }
        }
    }

    /// An order is charged, and its result is still on its way.
    async fn charge_untold(&mut self) {
        let asked = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'";
        self.run(Some(("consumer", "payment")), ("orders", asked, 1))
            .await;
        self.run(Some(("consumer", "orders")), ("payment", CHARGED, 1))
            .await;
    }

    async fn number(&self, service: &str, statement: &'static str) -> i64 {
        self.bench.number(service, statement).await
    }

    async fn saga(&self, id: &SagaId) -> Saga {
        let found = self.bench.store("orders").saga(id).await;
        found.expect("reads").expect("a saga")
    }
}

const CONFIRMED: &str = "SELECT COUNT(*) FROM orders WHERE state = 'confirmed'";
const CANCELLED: &str = "SELECT COUNT(*) FROM orders WHERE state = 'cancelled'";
const RESERVED: &str = "SELECT COALESCE(SUM(reserved), 0) FROM stock";
const CHARGED: &str = "SELECT COUNT(*) FROM payments WHERE state = 'charged'";
const REFUNDED: &str =
    "SELECT COALESCE(SUM(amount_cents), 0) FROM refunds WHERE state = 'refunded'";
const TAKEN: &str = "SELECT COALESCE(SUM(CASE kind WHEN 'charge' THEN amount_cents \
     ELSE -amount_cents END), 0) FROM processor_ledger";
const COMPENSATED: &str = "SELECT COUNT(*) FROM sagas WHERE state = 'compensated'";
const CHARGED_EVENTS: &str =
    "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charged'";
const MAILS: &str = "SELECT COUNT(*) FROM mails";

#[tokio::test]
async fn an_order_is_confirmed_by_the_result_of_its_charge_and_not_before() {
    let mut flow = Flow::with(patient()).await;
    let id = flow.place(1, TEA).await;
    flow.charge_untold().await;
    assert_eq!(
        flow.number("orders", CONFIRMED).await,
        0,
        "charged, not told"
    );
    flow.run(None, ("notification", MAILS, 2)).await;
    assert_eq!(flow.number("orders", CONFIRMED).await, 1);
    assert_eq!(flow.saga(&id).await.state, SagaState::Completed);
    assert_eq!(flow.number("inventory", RESERVED).await, 2);
    assert_eq!(flow.number("payment", TAKEN).await, 990);
    let own = "SELECT SUM(aggregate_version) FROM outbox_events WHERE event_type LIKE 'order.%'";
    assert_eq!(flow.number("orders", own).await, 3, "v1 and v2: no gap");
}

#[tokio::test]
async fn a_repeated_request_is_the_same_order_and_makes_no_second_event() {
    let mut flow = Flow::new().await;
    flow.place(1, TEA).await;
    let orders = flow.bench.store("orders");
    let again = place_order(orders.as_ref(), &flow.saga, &Flow::request(1, TEA)).await;
    let again = again.expect("accepted again");
    assert!(!again.is_new);
    assert_eq!(
        (again.order_no, again.state.as_str()),
        (1, "pending_inventory")
    );
    let events = "SELECT COUNT(*) FROM outbox_events";
    assert_eq!(flow.number("orders", events).await, 1);
    flow.run(None, ("orders", CONFIRMED, 1)).await;
    let later = place_order(orders.as_ref(), &flow.saga, &Flow::request(1, TEA)).await;
    assert_eq!(later.expect("accepted").state, "confirmed");
    let same = || Flow::request(1, TEA);
    let others = [
        OrderRequest {
            amount_cents: 1,
            ..same()
        },
        OrderRequest {
            sku: Some("SKU-CUP".to_owned()),
            ..same()
        },
        OrderRequest {
            quantity: 3,
            ..same()
        },
        OrderRequest {
            email: "b@example.org".to_owned(),
            ..same()
        },
        OrderRequest {
            order_no: Some(2),
            ..same()
        },
    ];
    for other in others {
        let refused = place_order(orders.as_ref(), &flow.saga, &other).await;
        assert!(
            matches!(refused, Err(PlaceError::OtherContent { order_no: 1, .. })),
            "{other:?}: {refused:?}"
        );
    }
    // Two at once, without a number: one order.
    let request = OrderRequest {
        idempotency_key: "both".to_owned(),
        order_no: None,
        ..Flow::request(0, TEA)
    };
    let (a, b) = futures::join!(
        place_order(orders.as_ref(), &flow.saga, &request),
        place_order(orders.as_ref(), &flow.saga, &request)
    );
    let (a, b) = (a.expect("accepted"), b.expect("accepted"));
    assert_eq!((a.order_no, &a.saga_id), (b.order_no, &b.saga_id));
    assert_ne!(a.is_new, b.is_new);
}

#[tokio::test]
async fn a_refused_card_releases_the_stock_and_cancels() {
    let mut flow = Flow::new().await;
    flow.fault(1, ProcessorFault::Refuses, 1).await;
    let id = flow.place(1, TEA).await;
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("orders", CANCELLED).await, 1);
    assert_eq!(flow.number("inventory", RESERVED).await, 0);
    assert_eq!(flow.number("payment", TAKEN).await, 0);
    let saga = flow.saga(&id).await;
    assert_eq!(saga.steps[0].compensation, StepState::Succeeded);
    assert_eq!(saga.steps[1].forward, StepState::Failed);
    assert_eq!(saga.steps[1].compensation, StepState::Skipped);
    flow.run(None, ("notification", MAILS, 2)).await;
}

#[tokio::test]
async fn too_little_stock_is_a_business_rejection_with_its_result() {
    let mut flow = Flow::new().await;
    flow.place(1, SOLD_OUT).await;
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("orders", CANCELLED).await, 1);
    let result = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'inventory.rejected'";
    assert_eq!(flow.number("inventory", result).await, 1);
    assert_eq!(
        flow.number("inventory", "SELECT COUNT(*) FROM dead_letters")
            .await,
        0
    );
    assert_eq!(
        flow.number("payment", "SELECT COUNT(*) FROM payments")
            .await,
        0
    );
}

#[tokio::test]
async fn stock_is_never_negative_whatever_is_ordered() {
    let mut flow = Flow::new().await;
    let mut tx = flow.bench.store("inventory").begin().await.expect("begins");
    let few = "UPDATE stock SET on_hand = 5 WHERE sku = 'SKU-TEA'";
    tx.execute(few, &[]).await.expect("executes");
    tx.commit().await.expect("commits");
    for number in 1..=4 {
        flow.place(number, TEA).await;
    }
    flow.run(
        None,
        (
            "orders",
            "SELECT COUNT(*) FROM orders WHERE state IN ('confirmed', 'cancelled')",
            4,
        ),
    )
    .await;
    assert_eq!(flow.number("orders", CONFIRMED).await, 2);
    assert_eq!(flow.number("inventory", RESERVED).await, 4);
    assert_eq!(flow.number("payment", TAKEN).await, 2 * 990);
}

#[tokio::test]
async fn cancelled_after_the_charge_gives_the_money_back() {
    let mut flow = Flow::with(patient()).await;
    let id = flow.place(1, TEA).await;
    flow.charge_untold().await;
    let orders = flow.bench.store("orders");
    let cancelled = cancel_order(orders.as_ref(), &flow.saga, 1, "the customer").await;
    assert!(
        matches!(cancelled, Ok(Recorded::Taken(..))),
        "{cancelled:?}"
    );
    assert_eq!(flow.saga(&id).await.state, SagaState::Compensating);
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("payment", REFUNDED).await, 990);
    assert_eq!(flow.number("payment", TAKEN).await, 0);
    assert_eq!(flow.number("inventory", RESERVED).await, 0);
    assert_eq!(flow.number("orders", CANCELLED).await, 1);
    let too_late = cancel_order(orders.as_ref(), &flow.saga, 1, "again").await;
    assert!(matches!(too_late, Ok(Recorded::Taken(..))));
}

#[tokio::test]
async fn a_charge_whose_answer_was_lost_is_asked_for_and_not_cancelled_blindly() {
    let mut flow = Flow::new().await;
    flow.fault(1, ProcessorFault::AnswerLost, 1).await;
    let id = flow.place(1, TEA).await;
    flow.run(None, ("orders", CONFIRMED, 1)).await;
    assert_eq!(flow.number("payment", CHARGED).await, 1);
    assert_eq!(flow.number("payment", TAKEN).await, 990, "charged once");
    let charge = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'";
    assert_eq!(
        flow.number("orders", charge).await,
        1,
        "asked, not sent again"
    );
    assert_eq!(flow.saga(&id).await.state, SagaState::Completed);
    assert_eq!(
        flow.number("payment", CHARGED_EVENTS).await,
        1,
        "no order is confirmed without a result event"
    );
}

/// The charge was consumed and its answer lost; the order is cancelled before anybody asks.
#[tokio::test]
async fn a_charge_whose_answer_was_lost_is_given_back_when_the_order_is_cancelled() {
    let mut flow = Flow::with(patient()).await;
    flow.fault(1, ProcessorFault::AnswerLost, 1).await;
    let id = flow.place(1, TEA).await;
    let unknown = "SELECT COUNT(*) FROM payments WHERE state = 'unknown'";
    flow.run(None, ("payment", unknown, 1)).await;
    let orders = flow.bench.store("orders");
    cancel_order(orders.as_ref(), &flow.saga, 1, "the customer")
        .await
        .expect("cancels");
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("payment", CHARGED_EVENTS).await, 1);
    assert_eq!(flow.number("payment", REFUNDED).await, 990);
    assert_eq!(flow.number("payment", TAKEN).await, 0);
    assert_eq!(flow.number("inventory", RESERVED).await, 0);
    assert_eq!(flow.saga(&id).await.attention, None, "nothing was late");
}

/// Cancelled while the charge lies in its queue; then it is done, and its answer is lost.
#[tokio::test]
async fn a_silent_charge_of_an_order_that_was_cancelled_before_is_given_back() {
    let mut flow = Flow::new().await;
    flow.fault(1, ProcessorFault::AnswerLost, 1).await;
    let id = flow.place(1, TEA).await;
    let charge = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'";
    let payment = Some(("consumer", "payment"));
    flow.run(payment, ("orders", charge, 1)).await;
    let orders = flow.bench.store("orders");
    cancel_order(orders.as_ref(), &flow.saga, 1, "the customer")
        .await
        .expect("cancels");
    let released = "SELECT COUNT(*) FROM saga_steps WHERE compensation_state = 'succeeded'";
    flow.run(payment, ("orders", released, 1)).await;
    assert_eq!(flow.number("inventory", RESERVED).await, 0, "not held up");
    assert_eq!(flow.saga(&id).await.state, SagaState::Compensating);
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("payment", REFUNDED).await, 990);
    assert_eq!(flow.number("payment", TAKEN).await, 0);
}

/// The charge is consumed between the two looks of a question: it is never "not found".
#[tokio::test]
async fn a_charge_that_is_done_while_it_is_asked_about_is_not_taken_for_lost() {
    let mut flow = Flow::with(patient()).await;
    let id = flow.place(1, TEA).await;
    let charge = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'";
    flow.run(Some(("consumer", "payment")), ("orders", charge, 1))
        .await;
    let saga = flow.saga(&id).await;
    let step = saga.step(2).expect("the charge");
    let task = Task {
        saga: &saga,
        data: "",
        step,
        side: Side::Forward,
        key: step.forward_key.as_deref().expect("a key"),
    };
    let payment = flow.bench.store("payment");
    let ask = async |command| {
        let asked = OrderSaga::charged(payment.as_ref(), 1, (&task, command)).await;
        asked.expect("answers")
    };
    let before = Command::of(payment.as_ref(), "payment", step).await;
    let before = before.expect("reads");
    assert_eq!(before, Command::UnderWay);
    assert_eq!(ask(before).await, Answer::InFlight);
    flow.run(Some(("consumer", "orders")), ("payment", CHARGED, 1))
        .await;
    assert_eq!(ask(before).await, Answer::Succeeded);
    let after = Command::of(payment.as_ref(), "payment", step).await;
    assert_eq!(after, Ok(Command::Consumed));
}

/// No catalogue has the sku, so the order's event is a dead letter, and a person gives the order up.
#[tokio::test]
async fn an_order_that_a_person_gives_up_is_cancelled_and_everybody_is_told() {
    let mut flow = Flow::with(patient()).await;
    let id = flow.place(1, UNKNOWN).await;
    let dead = "SELECT COUNT(*) FROM dead_letters";
    flow.run(None, ("inventory", dead, 1)).await;
    let not_done = Manual::Handled {
        is_done: false,
        evidence: "no such sku".to_owned(),
    };
    let orders = flow.bench.store("orders");
    let mut tx = orders.begin().await.expect("begins");
    let work = tx.saga(&SagaRef::Id(id.clone())).await.expect("locks");
    let work = work.expect("a saga");
    let after = act(&work.saga, None, &not_done, work.now).expect("may be handled");
    assert_eq!(after.state, SagaState::Compensated);
    let moved = tx.saga_move(&work.saga, &after, None).await;
    assert_eq!(moved, Ok(Guarded::Done));
    tx.commit().await.expect("commits");
    flow.run(None, ("orders", CANCELLED, 1)).await;
    let tombs = "SELECT COUNT(*) FROM reservations WHERE state = 'cancelled'";
    flow.run(None, ("inventory", tombs, 1)).await;
    flow.run(None, ("notification", MAILS, 2)).await;
    assert_eq!(flow.saga(&id).await.due_at, None, "looked at once");
}

#[tokio::test]
async fn a_request_the_processor_never_got_is_sent_again_under_the_same_key() {
    let mut flow = Flow::new().await;
    flow.fault(1, ProcessorFault::RequestLost, 1).await;
    flow.place(1, TEA).await;
    flow.run(None, ("orders", CONFIRMED, 1)).await;
    assert_eq!(flow.number("payment", TAKEN).await, 990);
    let charge = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.charge'";
    assert_eq!(flow.number("orders", charge).await, 2);
    assert_eq!(
        flow.number("payment", "SELECT COUNT(*) FROM payments")
            .await,
        1
    );
}

/// The reservation runs out while the charge lies in its queue; then the charge succeeds.
#[tokio::test]
async fn s_01_a_charge_that_comes_after_the_reservation_ran_out_is_given_back() {
    let tempo = Tempo {
        reserved_for: Duration::from_millis(400),
        ..hasty()
    };
    let mut flow = Flow::with(tempo).await;
    let id = flow.place(1, TEA).await;
    let told =
        "SELECT COUNT(*) FROM sagas WHERE state = 'compensating' AND attention_at IS NOT NULL";
    flow.run(Some(("consumer", "payment")), ("orders", told, 1))
        .await;
    assert_eq!(flow.number("orders", CANCELLED).await, 1);
    assert_eq!(flow.number("inventory", RESERVED).await, 0, "not held up");
    assert_eq!(flow.number("payment", TAKEN).await, 0);
    flow.run(None, ("payment", REFUNDED, 990)).await;
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(
        flow.number("payment", TAKEN).await,
        0,
        "charged and given back"
    );
    let saga = flow.saga(&id).await;
    assert_eq!(saga.steps[1].compensation, StepState::Succeeded);
    assert!(saga.steps[1].conflict.is_some(), "recorded: {saga:?}");
    let told = saga.attention.expect("listed for a person");
    assert!(told.contains("it is given back"), "{told}");
    assert_eq!(
        flow.number("payment", "SELECT COUNT(*) FROM dead_letters")
            .await,
        0
    );
    assert_eq!(
        flow.number("orders", "SELECT COUNT(*) FROM dead_letters")
            .await,
        0
    );
}

#[tokio::test]
async fn s_02_a_refund_that_is_refused_is_retried_handed_over_and_survives_a_restart() {
    let mut flow = Flow::with(patient()).await;
    flow.fault(1, ProcessorFault::RefusesRefund, 3).await;
    let id = flow.place(1, TEA).await;
    flow.charge_untold().await;
    let orders = flow.bench.store("orders");
    cancel_order(orders.as_ref(), &flow.saga, 1, "the customer")
        .await
        .expect("cancels");
    let failed = "SELECT COUNT(*) FROM sagas WHERE state = 'compensation_failed'";
    flow.run(None, ("orders", failed, 1)).await;
    let asked = "SELECT COUNT(*) FROM outbox_events WHERE event_type = 'payment.refund'";
    assert_eq!(
        flow.number("orders", asked).await,
        3,
        "tried as often as allowed"
    );
    assert_eq!(
        flow.number("inventory", RESERVED).await,
        0,
        "the stock is not held up"
    );
    flow.restart(patient());
    for _ in 0..3 {
        for worker in &mut flow.workers {
            worker.run_once().await;
        }
    }
    let saga = flow.saga(&id).await;
    assert_eq!(saga.state, SagaState::CompensationFailed);
    assert!(saga.needs_attention());
    assert!(
        saga.steps[1]
            .last_error
            .as_deref()
            .is_some_and(|e| e.contains("409"))
    );
    assert_eq!(
        flow.number("payment", TAKEN).await,
        990,
        "and nothing is forgotten"
    );
}

#[tokio::test]
async fn an_order_cancelled_before_it_came_does_not_come_back_to_life() {
    let mut flow = Flow::new().await;
    flow.place(1, TEA).await;
    let orders = flow.bench.store("orders");
    let cancelled = cancel_order(orders.as_ref(), &flow.saga, 1, "the customer").await;
    assert!(cancelled.is_ok());
    // The queue gives them in the wrong order.
    let order = Order {
        order_no: 1,
        customer: Customer {
            email: "a@example.org".to_owned(),
        },
        sku: Some(TEA.to_owned()),
        quantity: 2,
        amount_cents: 990,
        reason: None,
    };
    let event = order
        .event("order.cancelled", Link::default())
        .expect("an event");
    let message = crate::pipeline::test_support::message(
        Some("early-cancel"),
        "order.cancelled",
        event.payload.bytes(),
    );
    flow.bench.put("inventory.orders", vec![message]).await;
    let tombs = "SELECT COUNT(*) FROM reservations WHERE state = 'cancelled'";
    for worker in &mut flow.workers {
        if (worker.name(), worker.service()) == ("consumer", "inventory") {
            worker.run_once().await;
        }
    }
    assert_eq!(flow.number("inventory", tombs).await, 1);
    flow.run(None, ("orders", COMPENSATED, 1)).await;
    assert_eq!(flow.number("inventory", tombs).await, 1, "still");
    assert_eq!(flow.number("inventory", RESERVED).await, 0);
    assert_eq!(flow.number("payment", TAKEN).await, 0);
}
