//! 9: the producer dies between sending and hearing the confirm.

use futures::FutureExt as _;

use super::proxy::Line;
use super::record::{Facts, len};
use super::stage::{Actor, Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{Drill, Ends, REAL};

const ORDERS: usize = 2;
const QUEUE: &str = "inventory.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 9,
    name: "confirm-lost",
    window: "sent, confirm not heard: nobody knows whether the broker has it",
    inject: "The dispatcher is killed while its confirms are held back: once the broker has the messages, once they \
             never left the line.",
    expect: "No row is marked sent on a hope. Each is sent (again) after its lease; the business data is as it was.",
    verify: "Rows stay in sending after both kills; what the broker had is delivered twice and absorbed, what it had \
             not is delivered once; every order is confirmed once.",
    places: REAL,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

fn unmarked(facts: &Facts) -> u64 {
    let rows = facts.events.iter().filter(|event| event.state == "sending");
    len(rows.count())
}

/// A dispatcher whose connection has carried a message already, and with it all it needs to publish; the
/// queue holds `messages` then. The mark alone does not say it: where a guard was taken away, it comes
/// before the message.
async fn warm(stage: &mut Stage<'_>, messages: usize) -> Result<Actor, Trouble> {
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    let sent = async |stage: &Stage<'_>| {
        let facts = stage.facts().await?;
        Ok::<_, Trouble>(
            facts
                .events
                .iter()
                .filter(|event| event.state == "sent")
                .count(),
        )
    };
    let before = sent(stage).await?;
    stage.place(1).await?;
    until("a first event is marked", stage.patience(), async || {
        Ok(sent(stage).await? > before)
    })
    .await?;
    stage.arrives(QUEUE, messages).await?;
    Ok(dispatcher)
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let n = len(ORDERS);
    let dispatcher = warm(stage, 1).await?;
    // Placed while it stands still: it claims and sends them together.
    stage.freeze(&dispatcher).await?;
    stage.place(ORDERS).await?;
    stage.lines()?.broker()?.set(Line::NoReplies);
    stage.goes_on(&dispatcher)?;
    stage.arrives(QUEUE, 1 + ORDERS).await?;
    stage.step("the broker has the messages, the dispatcher does not know");
    stage.kill(dispatcher).await?;
    let facts = stage.facts().await?;
    stage.check(Check::equal(
        "rows not marked, the broker has them",
        &n,
        &unmarked(&facts),
    ));
    stage.lines()?.broker()?.set(Line::Open);

    let dispatcher = warm(stage, 2 + ORDERS).await?;
    stage.freeze(&dispatcher).await?;
    stage.place(ORDERS).await?;
    stage.lines()?.broker()?.set(Line::Silent);
    let held = stage.lines()?.broker()?.held_bytes();
    stage.goes_on(&dispatcher)?;
    until("messages on the line", stage.patience(), async || {
        Ok(stage.lines()?.broker()?.held_bytes() > held)
    })
    .await?;
    stage.kill(dispatcher).await?;
    let facts = stage.before().await?;
    let marked = facts
        .events
        .iter()
        .filter(|event| event.state == "sent")
        .count();
    stage.check(Check::equal(
        "rows marked, of two whose confirm was heard",
        &2,
        &len(marked),
    ));
    stage.lines()?.broker()?.cut().await;
    stage.lines()?.broker()?.set(Line::Open);

    stage.fault_is_over();
    let totals = stage.recovers_with_everything().await?;
    let orders = len(2 * (1 + ORDERS));
    let (done, twice) = (
        totals.consumer("inventory", "done"),
        totals.consumer("inventory", "duplicates"),
    );
    stage.check(Check::equal("events the inventory did", &orders, &done));
    stage.check(Check::equal("second copies absorbed", &n, &twice));
    Ok(())
}
