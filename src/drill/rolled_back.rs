//! 4: the consumer fails between its statements and its commit.

use futures::FutureExt as _;

use super::faults::HANDLER_THROWS;
use super::record::Facts;
use super::stage::{Fault, Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::pipeline::consumer::BEFORE_COMMIT;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 4,
    name: "rolled-back",
    window: "the consumer's statements are done, nothing is committed",
    inject: "The inventory dies of kill -9 after its statements and before its commit; then its handler throws at \
             the same place.",
    expect: "Inbox row and stock are rolled back together; the event comes again and is done once.",
    verify: "After the kill neither the inbox row nor the reservation is there and the message is back in the queue; \
             at the end each event has one inbox row and one reservation.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

fn done_by_inventory(facts: &Facts) -> u64 {
    let rows = facts.consumed.iter();
    super::record::len(rows.filter(|(consumer, _)| consumer == "inventory").count())
}

fn nothing_is_left(stage: &mut Stage<'_>, facts: &Facts) {
    let inbox = done_by_inventory(facts);
    stage.check(Check::equal("inbox rows after the kill", &0, &inbox));
    stage.check(Check::equal(
        "pieces reserved after the kill",
        &0,
        &facts.record.stock.reserved,
    ));
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(1).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives("inventory.orders", 1).await?;
    stage.stop(dispatcher).await?;

    let fault = Fault::Dies(BEFORE_COMMIT);
    let mut consumer = stage.start(Role::consumer("inventory"), Some(fault))?;
    stage.dies(&mut consumer).await?;
    // Its connection is gone with it: the broker takes the message back.
    let waited = stage.arrives("inventory.orders", 1).await;
    let facts = stage.before().await?;
    nothing_is_left(stage, &facts);
    stage.check(Check::is(
        "the message is back in the queue",
        waited.is_ok(),
    ));

    stage.fault_is_over();
    let fault = Fault::Throws(HANDLER_THROWS);
    let consumer = stage.start(Role::consumer("inventory"), Some(fault))?;
    let waited = until(
        "the event is done after all",
        stage.patience(),
        async || Ok(done_by_inventory(&stage.facts().await?) == 1),
    )
    .await;
    stage.check(Check::is("done when it was tried again", waited.is_ok()));
    let own = stage.stop(consumer).await?;
    let totals = stage.recovers_with_everything().await?;
    let sum = |counter| totals.consumer("inventory", counter) + own.consumer("inventory", counter);
    stage.check(Check::equal("events the inventory did", &1, &sum("done")));
    Ok(())
}
