//! 14: the consumer is slower than the producer.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::faults::{HANDLER_IS_SLOW, SLOW};
use super::record::{self, len};
use super::stage::{Actor, Fault, Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{Drill, Ends, REAL};
use crate::config::ConsumerLimits;
use crate::observe::Observer;
use crate::store::Value;

const ORDERS: usize = 240;
const QUEUE: &str = "inventory.orders";
/// Events that must be done before the clock is looked at.
const WARM: u64 = 8;
/// Events between two looks at the clock, with one consumer: for the record.
const ALONE: u64 = 12;
/// The same with two: what is compared with the most that one can do.
const TOGETHER: u64 = 40;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 14,
    name: "backlog",
    window: "sent, not consumed: the queue grows faster than it is read",
    inject: "Orders pile up in the inventory's queue, whose handler takes a second longer than usual; one consumer \
             works, then a second one joins.",
    expect: "The lag and the time to drain are visible; a second consumer shortens it; nothing is skipped.",
    verify: "The queue shows its depth and a lag in seconds; two consumers do more events than one could in the same \
             time, and both had a share; at the end every order is confirmed.",
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
    reached(stage, WARM).await?;
    let (alone, with_one) = stretch(stage, ALONE).await?;
    stage.step(told("one consumer", alone, with_one));
    let is_told = lag_is_told(stage).await;
    stage.check(Check::is("depth and lag of the queue are visible", is_told));
    let two = stage.start(Role::consumer("inventory"), slow)?;
    stage.consumers(QUEUE, 2).await?;
    let (together, with_two) = stretch(stage, TOGETHER).await?;
    stage.step(told("two consumers", together, with_two));
    let most = most_of_one(with_two);
    stage.check(Check::at_least(
        format!(
            "events two did in {:.2} s, of which one can do {most} at the most",
            with_two.as_secs_f64()
        ),
        most + 1,
        together,
    ));
    stage.fault_is_over();
    for actor in [one, two] {
        let share = stop(stage, actor).await?;
        stage.check(Check::at_least("events of a consumer's share", 1, share));
    }
    stage.recovers_with_everything().await?;
    let all = done(stage).await?;
    stage.check(Check::equal("reservations", &len(ORDERS), &all));
    Ok(())
}

/// Stops a consumer; how many events it did.
async fn stop(stage: &mut Stage<'_>, actor: Actor) -> Result<u64, Trouble> {
    let totals = stage.stop(actor).await?;
    Ok(totals.consumer("inventory", "done"))
}

/// The most events that one consumer can do in a time: each lane ends one as often as its slow handler
/// fits in, and one that it had begun before. No speed of a machine changes that.
fn most_of_one(time: Duration) -> u64 {
    let lanes = u64::from(ConsumerLimits::default().lanes);
    let fits = time.as_millis() / SLOW.as_millis().max(1);
    lanes.saturating_mul(u64::try_from(fits).unwrap_or(u64::MAX).saturating_add(1))
}

fn told(who: &str, events: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a handful of events")]
    let rate = events as f64 / seconds.max(f64::EPSILON);
    format!("{who}: {events} events in {seconds:.2} s, {rate:.1}/s")
}

async fn done(stage: &Stage<'_>) -> Result<u64, Trouble> {
    let range = [
        Value::Int(stage.numbers().start),
        Value::Int(stage.numbers().end),
    ];
    record::count(stage.ports, "inventory", DONE, &range).await
}

/// Waits until so many events are done.
async fn reached(stage: &Stage<'_>, n: u64) -> Result<(), Trouble> {
    until(&format!("{n} events done"), stage.patience(), async || {
        Ok(done(stage).await? >= n)
    })
    .await
}

/// Waits until at least `n` more events are done; how many were, and how long it took.
async fn stretch(stage: &Stage<'_>, n: u64) -> Result<(u64, Duration), Trouble> {
    // The clock first and last: what is compared with its time was all done within it.
    let began = Instant::now();
    let from = done(stage).await?;
    reached(stage, from + n).await?;
    let all = done(stage).await?;
    Ok((all.saturating_sub(from), began.elapsed()))
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
