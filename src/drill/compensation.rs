//! 16: what was done cannot be undone.

use futures::FutureExt as _;

use super::record::{self, of_state};
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends, order};
use crate::model::ids::SagaId;
use crate::model::saga::{Saga, SagaState};
use crate::operate::Operator;
use crate::operate::plan::{Confirmation, Request, SagaWish};
use crate::sandbox::{OrderSaga, ProcessorFault, Tempo, cancel_order, set_fault};
use crate::store::{Store, Value};

/// Tries that are refused: more than a coordinator makes.
const REFUSED: u32 = 50;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 16,
    name: "compensation-fails",
    window: "a saga turns round, and a step cannot be undone",
    inject: "An order is cancelled after its card was charged; the processor refuses the refund, again and again; the \
             whole pipeline is killed with kill -9 and started again.",
    expect: "The refund is tried a bounded number of times and then handed to a person; the stock is given back all the \
             same; after the restart nothing is forgotten. A person's retry, once the processor gives in, finishes it.",
    verify: "The saga says compensation_failed with its step and reason, before and after the restart; stock is free; \
             after the retry there is one refund over the charged amount.",
    places: BOTH,
    ends: Ends::Own,
    play: |stage| play(stage).boxed_local(),
};

const REFUNDS: &str = "SELECT COUNT(*) FROM refunds WHERE order_no >= ? AND order_no < ?";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let number = stage.numbers().start;
    let payment = stage.ports.store("payment").cloned();
    let payment = payment.ok_or_else(|| order::absent("payment"))?;
    let orders = stage.ports.store("orders").cloned();
    let orders = orders.ok_or_else(|| order::absent("orders"))?;
    charge_and_cancel(stage, orders.as_ref()).await?;
    let fault = Some((ProcessorFault::RefusesRefund, REFUSED));
    set_fault(payment.as_ref(), number, fault).await.told()?;
    let id = saga_of(orders.as_ref(), number).await?;

    let everything = stage.start(Role::ALL, None)?;
    let handed_over = wait_for(stage, orders.as_ref(), &id, SagaState::CompensationFailed).await;
    stage.check(Check::is("a person is asked", handed_over.is_ok()));
    let facts = stage.before().await?;
    stage.check(Check::equal(
        "pieces still taken from stock",
        &0,
        &facts.record.stock.reserved,
    ));
    stage.kill(everything).await?;
    let saga = now(orders.as_ref(), &id).await?;
    let tried = saga.steps.iter().map(|step| step.attempts).max();
    stage.check(Check::at_most(
        "tries of the refund",
        5,
        u64::try_from(tried.unwrap_or_default()).unwrap_or_default(),
    ));

    let everything = stage.start(Role::ALL, None)?;
    // Any pass of the new coordinator would show here.
    stage.consumers("payment.orders", 1).await?;
    let remembered = now(orders.as_ref(), &id).await?;
    let is_the_same = remembered.state == SagaState::CompensationFailed
        && remembered.attention.is_some()
        && remembered
            .steps
            .iter()
            .any(|step| step.last_error.is_some());
    stage.check(Check::is(
        "nothing is forgotten after the restart",
        is_the_same,
    ));

    set_fault(payment.as_ref(), number, None).await.told()?;
    stage.step("the processor gives in");
    stage.fault_is_over();
    retry(stage, &remembered).await?;
    let undone = wait_for(stage, orders.as_ref(), &id, SagaState::Compensated).await;
    if undone.is_ok() {
        stage.recovered();
    }
    stage.stop(everything).await?;
    stage.check(Check::is("a person's retry finishes it", undone.is_ok()));
    let facts = stage.facts().await?;
    let (cancelled, _) = of_state(&facts.record.orders, "cancelled");
    stage.check(Check::equal("orders cancelled", &1, &cancelled));
    let cents = stage
        .placed()
        .iter()
        .map(|placed| placed.amount_cents)
        .sum::<i64>();
    let (refunded, refunded_cents) = of_state(&facts.record.payments, "refunded");
    stage.check(Check::equal("payments refunded", &1, &refunded));
    stage.check(Check::equal("cents refunded", &cents, &refunded_cents));
    let range = [Value::Int(number), Value::Int(stage.numbers().end)];
    let refunds = record::count(stage.ports, "payment", REFUNDS, &range).await?;
    stage.check(Check::equal("refunds", &1, &refunds));
    stage.check(Check::equal(
        "open dead letters",
        &0,
        &facts.record.dead_letters,
    ));
    Ok(())
}

/// An order whose card is charged, cancelled before its saga has heard of the charge.
async fn charge_and_cancel(stage: &mut Stage<'_>, orders: &dyn Store) -> Result<(), Trouble> {
    stage.place(1).await?;
    let mut crew = Vec::new();
    for role in [
        Role::dispatcher("orders"),
        Role::dispatcher("inventory"),
        Role::consumer("inventory"),
        Role::consumer("orders"),
    ] {
        crew.push(stage.start(role, None)?);
    }
    stage.arrives("payment.orders", 1).await?;
    for actor in crew {
        stage.stop(actor).await?;
    }
    let payment = stage.start(Role::consumer("payment"), None)?;
    until("the card is charged", stage.patience(), async || {
        let facts = stage.facts().await?;
        Ok(of_state(&facts.record.payments, "charged").0 == 1)
    })
    .await?;
    stage.stop(payment).await?;
    let saga = OrderSaga::new(stage.ports, Tempo::default());
    let number = stage.numbers().start;
    cancel_order(orders, &saga, number, "the customer changed their mind").await?;
    stage.step("cancelled the order after the charge");
    Ok(())
}

/// The saga of an order, looked for while nothing moves it: lists are read state by state.
async fn saga_of(orders: &dyn Store, number: i64) -> Result<SagaId, Trouble> {
    let key = number.to_string();
    let sagas = orders.sagas(500).await.told()?;
    let own = sagas.into_iter().find(|saga| saga.business_key == key);
    own.map(|saga| saga.saga_id)
        .ok_or_else(|| Trouble::Stuck(format!("order {number} has no saga among those listed")))
}

async fn now(orders: &dyn Store, id: &SagaId) -> Result<Saga, Trouble> {
    let saga = orders.saga(id).await.told()?;
    saga.ok_or_else(|| Trouble::Stuck(format!("saga {id} is gone")))
}

async fn wait_for(
    stage: &Stage<'_>,
    orders: &dyn Store,
    id: &SagaId,
    state: SagaState,
) -> Result<(), Trouble> {
    // Three tries with pauses of up to five seconds, on a busy machine.
    let patience = stage.patience() * 3;
    until(
        &format!("the saga is {}", state.word()),
        patience,
        async || Ok(now(orders, id).await?.state == state),
    )
    .await
}

/// What an operator does in pane 6, or by `redrive saga retry`.
async fn retry(stage: &mut Stage<'_>, saga: &Saga) -> Result<(), Trouble> {
    let refused = |error: crate::operate::plan::OperateError| Trouble::Stuck(error.to_string());
    let operator = Operator::new(stage.ports.clone(), "drill@redrive".to_owned(), false);
    let request = Request::Saga {
        service: "orders".to_owned(),
        saga_id: saga.saga_id.clone(),
        step: None,
        wish: SagaWish::Retry,
    };
    let plan = operator.plan(&request).await.map_err(refused)?;
    let confirmation = Confirmation {
        reason: "the processor takes refunds again".to_owned(),
        count: Some(1),
        ..Confirmation::default()
    };
    operator
        .apply(&plan, &confirmation)
        .await
        .map_err(refused)?;
    stage.step("an operator has the refund tried again");
    Ok(())
}
