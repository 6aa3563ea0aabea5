//! 11: the consumer's process is killed between its commit and its acknowledgement.

use futures::FutureExt as _;

use super::record::len;
use super::stage::{Fault, Role, Stage};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::pipeline::consumer::AFTER_COMMIT;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 11,
    name: "killed-after-commit",
    window: "consumer committed, acknowledgement lost: the process is killed",
    inject: "The inventory's process dies of kill -9 after its commit and before its acknowledgement.",
    expect: "The message is delivered again to the next inventory, whose inbox row says that it was done.",
    verify: "Inbox row and reservation are there when the process is gone, and the message is back in the queue; at \
             the end there is one effect from two deliveries.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(1).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives("inventory.orders", 1).await?;
    stage.stop(dispatcher).await?;

    let fault = Fault::Dies(AFTER_COMMIT);
    let mut consumer = stage.start(Role::consumer("inventory"), Some(fault))?;
    stage.dies(&mut consumer).await?;
    let waited = stage.arrives("inventory.orders", 1).await;
    stage.check(Check::is(
        "the message is back in the queue",
        waited.is_ok(),
    ));
    let facts = stage.before().await?;
    let inbox = facts
        .consumed
        .iter()
        .filter(|(consumer, _)| consumer == "inventory")
        .count();
    stage.check(Check::equal(
        "inbox rows when the process is gone",
        &1,
        &len(inbox),
    ));

    stage.fault_is_over();
    let totals = stage.recovers_with_everything().await?;
    stage.check(Check::equal(
        "deliveries absorbed as duplicates",
        &1,
        &totals.consumer("inventory", "duplicates"),
    ));
    Ok(())
}
