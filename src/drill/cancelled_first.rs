//! 8: the cancellation arrives before the order it is about, and a version is missing.

use futures::FutureExt as _;

use super::record::{self, len, of_state};
use super::shuffled::reverse;
use super::stage::{Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends, order};
use crate::sandbox::{OrderSaga, Tempo, cancel_order};
use crate::store::Value;

const STOCK: &str = "inventory.orders";
const MAIL: &str = "notification.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 8,
    name: "cancelled-first",
    window: "sent, not consumed in order: the cancellation overtakes the creation",
    inject: "An order is placed and cancelled; the inventory and the notification get the cancellation first, and the \
             notification's copy of the creation is kept back.",
    expect: "The inventory leaves a tombstone, and the late creation does not bring the order back to life. The \
             notification parks what came early as a durable task that names the missing version, and goes on when it \
             comes.",
    verify: "The order ends cancelled, nothing is reserved or charged; one waiting row names version 1 while it is \
             missing and is gone at the end; two mails.",
    places: BOTH,
    ends: Ends::Own,
    play: |stage| play(stage).boxed_local(),
};

const WAITING: &str = "SELECT COUNT(*) FROM waiting_events WHERE aggregate_id >= ? AND aggregate_id < ? \
     AND missing_version = 1";
const MAILS: &str = "SELECT COUNT(*) FROM mails WHERE order_no >= ? AND order_no < ?";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(1).await?;
    let number = stage.numbers().start;
    let orders = stage.ports.store("orders").cloned();
    let orders = orders.ok_or_else(|| order::absent("orders"))?;
    let saga = OrderSaga::new(stage.ports, Tempo::default());
    cancel_order(
        orders.as_ref(),
        &saga,
        number,
        "the customer changed their mind",
    )
    .await?;
    stage.step("cancelled the order");
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    let sent = async || Ok(record::open(stage.ports, stage.numbers()).await?.1 == 0);
    until("the order's events are sent", stage.patience(), sent).await?;
    stage.stop(dispatcher).await?;
    let n = usize::try_from(stage.ready(STOCK).await?).unwrap_or_default();
    reverse(stage, STOCK, n).await?;

    // The creation is kept back: the cancellation finds a gap.
    let mut kept = stage.take(MAIL, 2).await?;
    let late = kept.messages.remove(0);
    stage.publish(kept.messages.clone()).await?;
    kept.give_up().await?;
    stage.step("kept the creation back from the notification");
    let notification = stage.start(Role::consumer("notification"), None)?;
    let keys = stage.keys();
    let waiting =
        async |stage: &Stage<'_>| record::count(stage.ports, "notification", WAITING, &keys).await;
    let parked = until("what came early is parked", stage.patience(), async || {
        Ok(waiting(stage).await? == 1)
    })
    .await;
    stage.check(Check::is(
        "what came early waits, and names what is missing",
        parked.is_ok(),
    ));
    stage.stop(notification).await?;
    stage.before().await?;

    stage.fault_is_over();
    stage.publish(vec![late]).await?;
    stage.recovers_with_everything().await?;
    let facts = stage.facts().await?;
    let (cancelled, _) = of_state(&facts.record.orders, "cancelled");
    stage.check(Check::equal("orders cancelled", &1, &cancelled));
    stage.check(Check::equal(
        "pieces taken from stock",
        &0,
        &facts.record.stock.reserved,
    ));
    let (reserved, _) = of_state(&facts.record.reservations, "reserved");
    stage.check(Check::equal("reservations", &0, &reserved));
    let charges: u64 = facts.record.payments.iter().map(|count| count.rows).sum();
    stage.check(Check::equal("payments", &0, &charges));
    stage.check(Check::equal(
        "rows that still wait",
        &0,
        &waiting(stage).await?,
    ));
    let range = [
        Value::Int(stage.numbers().start),
        Value::Int(stage.numbers().end),
    ];
    let mails = record::count(stage.ports, "notification", MAILS, &range).await?;
    stage.check(Check::equal("mails: created, cancelled", &2, &mails));
    stage.check(Check::equal(
        "open dead letters",
        &0,
        &facts.record.dead_letters,
    ));
    let confirmed = facts
        .events
        .iter()
        .filter(|event| event.event_type == "order.confirmed");
    stage.check(Check::equal(
        "confirmations told",
        &0,
        &len(confirmed.count()),
    ));
    Ok(())
}
