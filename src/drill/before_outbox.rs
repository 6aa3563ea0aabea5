//! 1: the business transaction breaks between the order and its event.

use futures::FutureExt as _;

use super::order;
use super::stage::{Fault, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::base::crash::{ARMED, held};
use crate::sandbox::{AFTER_INSERT, OrderRequest};

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 1,
    name: "before-outbox",
    window: "before the business commit: the order is inserted, its event is not",
    inject: "The producer throws, and then dies of kill -9, after the order's insert and before the \
             event's.",
    expect: "Neither the order nor the event exists. The client asks again under its idempotency key: one \
             order, one event.",
    verify: "No row of the order in either table after each fault; after the repeated request the order is \
             confirmed, reserved and paid once.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

fn nothing_exists(stage: &mut Stage<'_>, after: &str, facts: &super::record::Facts) {
    let orders: u64 = facts.record.orders.iter().map(|count| count.rows).sum();
    stage.check(Check::equal(format!("orders after {after}"), &0, &orders));
    stage.check(Check::equal(
        format!("events after {after}"),
        &0,
        &facts.record.events,
    ));
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let first = order::order(stage.next_number(), stage.sku());
    throw(stage, &first).await?;
    let facts = stage.before().await?;
    nothing_exists(stage, "the throw", &facts);
    if stage.is_real() {
        kill(stage).await?;
        let facts = stage.facts().await?;
        nothing_exists(stage, "kill -9", &facts);
    }
    stage.fault_is_over();
    // The client asks again, twice: it cannot know whether its first answer was lost.
    let placed = order::place(stage.ports, &first).await?;
    let again = order::place(stage.ports, &first).await?;
    stage.check(Check::is("asked again, it is a new order", placed.is_new));
    stage.check(Check::is(
        "asked a third time, it is the same order",
        !again.is_new && again.event_id == placed.event_id,
    ));
    stage.count(placed);
    stage.recovers_with_everything().await?;
    Ok(())
}

/// The producer unwinds from the point: its transaction is dropped, as by any throw.
async fn throw(stage: &mut Stage<'_>, request: &OrderRequest) -> Result<(), Trouble> {
    ARMED.arm(AFTER_INSERT, "1*return(hold)");
    let (ports, request) = (stage.ports.clone(), request.clone());
    let producer = stage.spawn(async move { order::place(&ports, &request).await.is_ok() });
    until("the order's insert", stage.patience(), async || {
        Ok(held::is_at(AFTER_INSERT))
    })
    .await?;
    held::end(AFTER_INSERT);
    let ended = producer.await;
    stage.step("the producer threw after the order's insert");
    stage.check(Check::is(
        "the client was not told that it has an order",
        ended.is_err(),
    ));
    Ok(())
}

async fn kill(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let mut arguments = stage.lines()?.global_arguments();
    let number = stage.next_number().to_string();
    arguments
        .extend(["drill", "place", "--first", &number, "--sku", stage.sku()].map(str::to_owned));
    let fault = Fault::Dies(AFTER_INSERT);
    let mut producer = stage.process("producer".to_owned(), arguments, Some(fault))?;
    let signal = producer.dies(stage.patience()).await?;
    stage.step(format!("the producer died of signal {signal}"));
    Ok(())
}
