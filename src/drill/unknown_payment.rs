//! 15: a payment times out, and nobody knows whether the card was charged.

use futures::FutureExt as _;

use super::record::{self, of_state};
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends, order};
use crate::sandbox::{ProcessorFault, set_fault};
use crate::store::Value;

/// What the card processor does to each order.
const FAULTS: [ProcessorFault; 3] = [
    ProcessorFault::AnswerLost,
    ProcessorFault::RequestLost,
    ProcessorFault::Away,
];

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 15,
    name: "unknown-payment",
    window: "a saga's step times out: unknown whether the card was charged",
    inject: "The card processor charges and its answer is lost; it is never reached; it charges and cannot even be asked \
             for a while.",
    expect: "The saga asks before it decides anything: a charge that was made is taken, one that was not is sent again \
             under the same key, and an order nobody can tell about waits.",
    verify: "No order is cancelled; the third waits while the processor is away; each card is charged exactly once in \
             the processor's own ledger; all three orders are confirmed.",
    places: BOTH,
    ends: Ends::Own,
    play: |stage| play(stage).boxed_local(),
};

const CHARGES: &str = "SELECT COUNT(*) FROM processor_ledger WHERE order_no >= ? AND order_no < ? \
     AND kind = 'charge'";
const STATE: &str =
    "SELECT COUNT(*) FROM orders WHERE order_no >= ? AND order_no < ? AND state = ?";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let payment = stage.ports.store("payment").cloned();
    let payment = payment.ok_or_else(|| order::absent("payment"))?;
    let orders = stage.ports.store("orders").cloned();
    let orders = orders.ok_or_else(|| order::absent("orders"))?;
    let first = stage.numbers().start;
    for (number, fault) in (first..).zip(FAULTS) {
        set_fault(payment.as_ref(), number, Some((fault, 1)))
            .await
            .told()?;
    }
    stage.place(FAULTS.len()).await?;
    let away = first + 2;
    let everything = stage.start(Role::ALL, None)?;
    let in_state = async |stage: &Stage<'_>, numbers: std::ops::Range<i64>, state: &str| {
        let values = [
            Value::Int(numbers.start),
            Value::Int(numbers.end),
            Value::Text(state.to_owned()),
        ];
        record::count(stage.ports, "orders", STATE, &values).await
    };
    let known = until(
        "the two that can be asked about are confirmed",
        stage.patience(),
        async || Ok(in_state(stage, first..away, "confirmed").await? == 2),
    )
    .await;
    stage.check(Check::is(
        "what can be asked about is confirmed",
        known.is_ok(),
    ));
    let asked = until("the third was asked about", stage.patience(), async || {
        let sagas = orders.sagas(500).await.told()?;
        let key = away.to_string();
        let own = sagas.iter().find(|saga| saga.business_key == key);
        Ok(own.is_some_and(|saga| saga.steps.iter().any(|step| step.queries > 0)))
    })
    .await;
    stage.check(Check::is("the third was asked about", asked.is_ok()));
    let waiting = in_state(stage, away..away + 1, "reserved").await?;
    stage.check(Check::equal(
        "orders that wait while nobody can tell",
        &1,
        &waiting,
    ));
    stage.before().await?;

    set_fault(payment.as_ref(), away, None).await.told()?;
    stage.step("the card processor can be asked again");
    stage.fault_is_over();
    stage.recovers().await?;
    stage.stop(everything).await?;
    let facts = stage.facts().await?;
    let (n, cents) = (
        record::len(FAULTS.len()),
        stage
            .placed()
            .iter()
            .map(|placed| placed.amount_cents)
            .sum::<i64>(),
    );
    let (confirmed, confirmed_cents) = of_state(&facts.record.orders, "confirmed");
    stage.check(Check::equal("orders confirmed", &n, &confirmed));
    stage.check(Check::equal(
        "cents of confirmed orders",
        &cents,
        &confirmed_cents,
    ));
    let (charged, charged_cents) = of_state(&facts.record.payments, "charged");
    stage.check(Check::equal("payments", &n, &charged));
    stage.check(Check::equal("cents charged", &cents, &charged_cents));
    let range = [Value::Int(first), Value::Int(stage.numbers().end)];
    let charges = record::count(stage.ports, "payment", CHARGES, &range).await?;
    stage.check(Check::equal(
        "charges in the processor's ledger",
        &n,
        &charges,
    ));
    stage.check(Check::equal(
        "open dead letters",
        &0,
        &facts.record.dead_letters,
    ));
    Ok(())
}
