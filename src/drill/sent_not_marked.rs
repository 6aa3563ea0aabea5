//! 3: the broker has confirmed, the outbox does not know it yet.

use futures::FutureExt as _;

use super::record::len;
use super::stage::{Fault, Role, Stage};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::pipeline::dispatcher::AFTER_CONFIRM;

const ORDERS: usize = 3;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 3,
    name: "sent-not-marked",
    window: "confirmed, before the sent mark: sent, and not marked",
    inject: "The dispatcher dies of kill -9 after the broker's confirms and before it marks the rows.",
    expect: "After the lease the same events are sent again under the same ids; the inbox absorbs the second \
             copies and stock is reserved once.",
    verify: "The rows are left in sending; each event is delivered twice and consumed once; pieces in stock equal \
             pieces ordered.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let n = len(ORDERS);
    stage.place(ORDERS).await?;
    let fault = Fault::Dies(AFTER_CONFIRM);
    let mut dispatcher = stage.start(Role::dispatcher("orders"), Some(fault))?;
    stage.dies(&mut dispatcher).await?;
    stage.arrives("inventory.orders", ORDERS).await?;
    let before = stage.before().await?;
    let sending = before
        .events
        .iter()
        .filter(|event| event.state == "sending")
        .count();
    stage.check(Check::equal("rows left under a lease", &n, &len(sending)));

    stage.fault_is_over();
    let totals = stage.recovers_with_everything().await?;
    let done = totals.consumer("inventory", "done");
    stage.check(Check::equal("events the inventory did", &n, &done));
    for service in ["inventory", "notification"] {
        let twice = totals.consumer(service, "duplicates");
        stage.check(Check::equal(
            format!("second copies {service} absorbed"),
            &n,
            &twice,
        ));
    }
    Ok(())
}
