//! 2: nobody dispatches when the order is committed.

use futures::FutureExt as _;

use super::stage::{Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends, record};

const ORDERS: usize = 3;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 2,
    name: "dispatcher-down",
    window: "after the business commit, before a claim: a pending event",
    inject: "The dispatcher is stopped, orders are committed, and the dispatcher is started later.",
    expect: "The events wait as pending rows and arrive under their original ids: nothing is made anew.",
    verify: "The rows are pending while nobody dispatches; the inventory's inbox then holds exactly the ids that \
             were committed, each claimed once.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.stop(dispatcher).await?;
    let consumer = stage.start(Role::consumer("inventory"), None)?;
    stage.consumers("inventory.orders", 1).await?;
    stage.place(ORDERS).await?;
    let before = stage.before().await?;
    let waiting = |facts: &record::Facts| {
        record::len(
            facts
                .events
                .iter()
                .filter(|event| event.state == "pending")
                .count(),
        )
    };
    let n = record::len(ORDERS);
    stage.check(Check::equal(
        "events that wait as pending",
        &n,
        &waiting(&before),
    ));

    stage.fault_is_over();
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    let created: Vec<_> = stage.placed().iter().map(|p| p.event_id.clone()).collect();
    let arrived = async |stage: &Stage<'_>| {
        let facts = stage.facts().await?;
        let n = created
            .iter()
            .filter(|id| {
                facts
                    .consumed
                    .contains(&("inventory".to_owned(), (*id).clone()))
            })
            .count();
        Ok::<usize, Trouble>(n)
    };
    let waited = until(
        "the original events in the inbox",
        stage.patience(),
        async || Ok(arrived(stage).await? == created.len()),
    )
    .await;
    if !matches!(waited, Ok(()) | Err(Trouble::Stuck(_))) {
        return waited;
    }
    let found = record::len(arrived(stage).await?);
    stage.check(Check::equal(
        "original ids in the inventory's inbox",
        &n,
        &found,
    ));
    let facts = stage.facts().await?;
    let once = facts
        .events
        .iter()
        .filter(|event| event.event_type == "order.created" && event.attempts == 1)
        .count();
    stage.check(Check::equal(
        "events claimed exactly once",
        &n,
        &record::len(once),
    ));
    stage.stop(dispatcher).await?;
    stage.stop(consumer).await?;
    stage.recovers_with_everything().await?;
    Ok(())
}
