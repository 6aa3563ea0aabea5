//! 14: the consumer is slower than the producer.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::faults::HANDLER_IS_SLOW;
use super::record::{self, len};
use super::stage::{Actor, Fault, Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{Drill, Ends, REAL};
use crate::observe::Observer;
use crate::store::Value;

const ORDERS: usize = 240;
const QUEUE: &str = "inventory.orders";
/// Events between two looks at the clock.
const STRETCH: u64 = 60;
/// Events handled before the clock is looked at.
const WARM: u64 = 20;
/// A second consumer must be worth at least so much, in hundredths: half again.
const GAIN: u64 = 130;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 14,
    name: "backlog",
    window: "sent, not consumed: the queue grows faster than it is read",
    inject: "Orders pile up in the inventory's queue, whose handler takes 50 ms longer than usual; one consumer works, \
             then a second one joins.",
    expect: "The lag and the time to drain are visible; a second consumer shortens it; nothing is skipped.",
    verify: "The queue shows its depth and a lag in seconds; with two consumers at least 1.3 times as many events are \
             done in the same time; at the end every order is confirmed.",
    places: REAL,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

const DONE: &str = "SELECT COUNT(*) FROM reservations WHERE order_no >= ? AND order_no < ?";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.place(ORDERS).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives(QUEUE, ORDERS).await?;
    stage.stop(dispatcher).await?;
    stage.before().await?;
    let slow = Some(Fault::AlwaysThrows(HANDLER_IS_SLOW));
    let one = stage.start(Role::consumer("inventory"), slow)?;
    let with_one = stretch(stage, WARM).await?;
    let is_told = lag_is_told(stage).await;
    stage.check(Check::is("depth and lag of the queue are visible", is_told));
    let two = stage.start(Role::consumer("inventory"), slow)?;
    stage.consumers(QUEUE, 2).await?;
    let so_far = done(stage).await?;
    let with_two = stretch(stage, so_far).await?;
    let hundredths = with_one.as_millis() * 100 / with_two.as_millis().max(1);
    stage.step(format!(
        "{STRETCH} events took {:.2} s with one consumer, {:.2} s with two",
        with_one.as_secs_f64(),
        with_two.as_secs_f64()
    ));
    stage.check(Check::at_least(
        "hundredths of the speed of one that two have",
        GAIN,
        u64::try_from(hundredths).unwrap_or(u64::MAX),
    ));
    stage.fault_is_over();
    for actor in [one, two] {
        stop(stage, actor).await?;
    }
    stage.recovers_with_everything().await?;
    let all = done(stage).await?;
    stage.check(Check::equal("reservations", &len(ORDERS), &all));
    Ok(())
}

async fn stop(stage: &mut Stage<'_>, actor: Actor) -> Result<(), Trouble> {
    stage.stop(actor).await.map(|_| ())
}

async fn done(stage: &Stage<'_>) -> Result<u64, Trouble> {
    let range = [
        Value::Int(stage.numbers().start),
        Value::Int(stage.numbers().end),
    ];
    record::count(stage.ports, "inventory", DONE, &range).await
}

/// How long a stretch of events takes that begins when `from` are done.
async fn stretch(stage: &Stage<'_>, from: u64) -> Result<Duration, Trouble> {
    let reached = async |n: u64| {
        until(&format!("{n} events done"), stage.patience(), async || {
            Ok(done(stage).await? >= n)
        })
        .await
    };
    reached(from).await?;
    // The clock begins with what is really done: the look itself takes time.
    let from = done(stage).await?;
    let began = Instant::now();
    reached(from + STRETCH).await?;
    let took = began.elapsed();
    let more = done(stage).await?.saturating_sub(from).max(STRETCH);
    // As if exactly a stretch had been done.
    let factor = f64::from(u32::try_from(STRETCH).unwrap_or(u32::MAX))
        / f64::from(u32::try_from(more).unwrap_or(u32::MAX));
    Ok(took.mul_f64(factor))
}

/// True when the same snapshot that the console shows tells the queue's depth and lag.
async fn lag_is_told(stage: &Stage<'_>) -> bool {
    let observer = Observer::new(stage.ports.clone());
    until("the queue's lag", stage.patience(), async || {
        let snapshot = observer.queues(1).await;
        Ok(snapshot.queues.iter().any(|queue| {
            queue.facts.name == QUEUE
                && queue.lag_s.is_some_and(|lag| lag > 0.0)
                && queue.facts.ready.is_some_and(|ready| ready > 0)
        }))
    })
    .await
    .is_ok()
}
