//! 5: the channel is closed between the consumer's commit and its acknowledgement.

use futures::FutureExt as _;

use super::record::len;
use super::stage::{Fault, Role, Stage};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::pipeline::consumer::AFTER_COMMIT;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 5,
    name: "ack-lost",
    window: "consumer committed, acknowledgement lost: the channel is closed",
    inject: "The inventory commits; before it acknowledges, its connection to the broker is cut.",
    expect: "The message is delivered again; the inbox row says that it was done, and it is only acknowledged.",
    verify: "One inbox row, one reservation, at least two deliveries, one of them absorbed as a duplicate.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(1).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives("inventory.orders", 1).await?;
    stage.stop(dispatcher).await?;

    let fault = Fault::Stands(AFTER_COMMIT);
    let consumer = stage.start(Role::consumer("inventory"), Some(fault))?;
    stage.stands(&consumer).await?;
    let facts = stage.before().await?;
    let inbox = facts
        .consumed
        .iter()
        .filter(|(consumer, _)| consumer == "inventory")
        .count();
    stage.check(Check::equal("inbox rows after the commit", &1, &len(inbox)));
    if let Some(switchboard) = &stage.bench().switchboard {
        switchboard.disconnect();
    } else {
        stage.lines()?.broker()?.cut().await;
    }
    stage.step("cut the connection to the broker");
    // The consumer still stands. Until the broker has the message back, it counts the lost connection
    // as a reader that holds it.
    stage.arrives("inventory.orders", 1).await?;
    stage.step("the broker has the message again, the consumer does not know");
    stage.fault_is_over();
    stage.goes_on(&consumer)?;
    // It reads its queue again by itself, and finds the same message there.
    stage.consumers("inventory.orders", 1).await?;
    stage.arrives("inventory.orders", 0).await?;
    let own = stage.stop(consumer).await?;
    let totals = stage.recovers_with_everything().await?;
    let sum = |counter| totals.consumer("inventory", counter) + own.consumer("inventory", counter);
    stage.check(Check::equal(
        "deliveries absorbed as duplicates",
        &1,
        &sum("duplicates"),
    ));
    stage.check(Check::equal("events the inventory did", &1, &sum("done")));
    Ok(())
}
