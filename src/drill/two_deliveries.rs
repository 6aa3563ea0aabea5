//! 6: the same event on two connections at once.

use futures::FutureExt as _;

use super::stage::{Fault, Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::pipeline::consumer::BEFORE_COMMIT;

const QUEUE: &str = "inventory.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 6,
    name: "two-deliveries",
    window: "the same event at two consumers at the same time",
    inject: "Two inventories on two connections get a copy each; the first stands between its statements and its \
             commit while the second has the same event in hand.",
    expect: "One of them commits; the other meets the inbox row and does nothing.",
    verify: "One effect, one inbox row, three deliveries with the dispatcher's own, two of them absorbed.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let stands = Some(Fault::Stands(BEFORE_COMMIT));
    let one = stage.start(Role::consumer("inventory"), stands)?;
    let two = stage.start(Role::consumer("inventory"), stands)?;
    stage.consumers(QUEUE, 2).await?;
    stage.place(1).await?;
    // Read now: while one stands before its commit, SQLite has no room for anybody else.
    stage.before().await?;
    let event_id = stage.placed().first().map(|placed| placed.event_id.clone());
    stage
        .publish_copies("orders", event_id.as_ref(), QUEUE, 2)
        .await?;
    until(
        "one of two stands before its commit",
        stage.patience(),
        async || Ok(stage.is_standing(&one).await || stage.is_standing(&two).await),
    )
    .await?;
    stage.step("one stands before its commit");
    stage.arrives(QUEUE, 0).await?;
    stage.fault_is_over();
    for actor in [&one, &two] {
        // Without the inbox's guard the second comes there as well.
        if stage.is_standing(actor).await {
            stage.goes_on(actor)?;
        }
    }
    let rest = stage.start(Role::ALL, None)?;
    stage.recovers().await?;
    let mut absorbed = 0;
    let mut done = 0;
    for actor in [one, two, rest] {
        if stage.is_standing(&actor).await {
            stage.goes_on(&actor)?;
        }
        let totals = stage.stop(actor).await?;
        absorbed += totals.consumer("inventory", "duplicates");
        done += totals.consumer("inventory", "done");
    }
    stage.check(Check::equal("events the inventory did", &1, &done));
    stage.check(Check::equal("copies absorbed", &2, &absorbed));
    Ok(())
}
