//! 12: duplicates, and events in another order than they happened.

use futures::FutureExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::record::{self, len};
use super::stage::{Role, Stage};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::broker::Outgoing;
use crate::store::Value;

const ORDERS: usize = 12;
const COPIES: usize = 3;
const RESULTS: &str = "orders.results";
const MAIL: &str = "notification.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 12,
    name: "shuffled",
    window: "events arrive more than once and in another order than they happened",
    inject: "What waits for the orders service, and then for the notification, is taken out of its queue and put \
             back three times, newest first, then shuffled: a confirmation before the order it is about.",
    expect: "Each event takes effect once; an early one waits for the one before it.",
    verify: "Each reservation is answered once, each order has two mails and ends confirmed, and early events were \
             parked.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

const MAILS: &str = "SELECT COUNT(*) FROM mails WHERE order_no >= ? AND order_no < ?";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(ORDERS).await?;
    let mut crew = Vec::new();
    for role in [
        Role::dispatcher("orders"),
        Role::dispatcher("inventory"),
        Role::dispatcher("payment"),
        Role::consumer("inventory"),
        Role::consumer("payment"),
    ] {
        crew.push(stage.start(role, None)?);
    }
    stage.arrives(RESULTS, ORDERS).await?;
    shuffle(stage, RESULTS, ORDERS).await?;
    let orders = stage.start(Role::consumer("orders"), None)?;
    // An order's first event and its confirmation, while nobody writes mails.
    stage.arrives(MAIL, 2 * ORDERS).await?;
    stage.arrives(RESULTS, 0).await?;
    crew.push(orders);
    for actor in crew {
        stage.stop(actor).await?;
    }
    stage.before().await?;
    shuffle(stage, MAIL, 2 * ORDERS).await?;

    stage.fault_is_over();
    let totals = stage.recovers_with_everything().await?;
    let parked = totals.consumer("notification", "parked");
    stage.check(Check::at_least(
        "mails that waited for the one before",
        1,
        parked,
    ));
    let range = [
        Value::Int(stage.numbers().start),
        Value::Int(stage.numbers().end),
    ];
    let mails = record::count(stage.ports, "notification", MAILS, &range).await?;
    stage.check(Check::equal("mails", &len(2 * ORDERS), &mails));
    Ok(())
}

/// Takes `n` messages out and puts them back, the newest first.
pub(super) async fn reverse(stage: &mut Stage<'_>, queue: &str, n: usize) -> Result<(), Trouble> {
    let taken = stage.take(queue, n).await?;
    stage
        .publish(taken.messages.iter().rev().cloned().collect())
        .await?;
    taken.give_up().await?;
    stage.step(format!(
        "put {n} messages of {queue} back, the newest first"
    ));
    stage.arrives(queue, n).await
}

/// Takes `n` messages out and puts each back several times in another order; a message is given up
/// only after its copies are confirmed.
async fn shuffle(stage: &mut Stage<'_>, queue: &str, n: usize) -> Result<(), Trouble> {
    let taken = stage.take(queue, n).await?;
    // The newest first; the other copies by chance.
    let mut copies: Vec<Outgoing> = taken.messages.iter().rev().cloned().collect();
    let rest = taken.messages.iter().cycle().take(n * (COPIES - 1));
    let mut rest: Vec<Outgoing> = rest.cloned().collect();
    rest.shuffle(&mut StdRng::seed_from_u64(12));
    copies.extend(rest);
    stage.publish(copies).await?;
    taken.give_up().await?;
    stage.step(format!(
        "put {n} messages of {queue} back {COPIES} times, shuffled"
    ));
    stage.arrives(queue, n * COPIES).await
}
