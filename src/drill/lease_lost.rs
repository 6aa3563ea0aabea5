//! 7: a dispatcher is paused past its lease (cases Q-04, B-06).

use futures::FutureExt as _;

use super::record::len;
use super::stage::{Fault, Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends};
use crate::model::ids::EventId;
use crate::model::outbox::OutboxRow;
use crate::pipeline::dispatcher::{AFTER_CLAIM, AFTER_CONFIRM};
use crate::pipeline::reaper;

const ORDERS: usize = 2;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 7,
    name: "lease-lost",
    window: "dispatcher A paused past its lease, B has taken over, A resumes",
    inject: "Dispatcher A stands between confirm and sent mark until its lease has run out; the reaper takes its rows \
             back, B claims them; A goes on.",
    expect: "The reaper takes nothing while the lease runs. A's completion matches no row and says so; the rows stay \
             B's until B completes them.",
    verify: "Nothing is reaped early; the token in each row is B's before and after A has ended; A counts its lost \
             fence; B marks them sent.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn rows(stage: &Stage<'_>) -> Result<Vec<OutboxRow>, Trouble> {
    let Some(store) = stage.ports.store("orders") else {
        return Err(Trouble::NotConfigured(
            "the context has no service orders".to_owned(),
        ));
    };
    let ids: Vec<EventId> = stage.placed().iter().map(|p| p.event_id.clone()).collect();
    let mut rows = Vec::new();
    for id in &ids {
        rows.extend(store.outbox_event(id).await.told()?.map(|event| event.row));
    }
    Ok(rows)
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let n = len(ORDERS);
    stage.place(ORDERS).await?;
    let dispatcher = Role::dispatcher("orders");
    let a = stage.start_once(dispatcher, Some(Fault::Stands(AFTER_CONFIRM)))?;
    stage.stands(&a).await?;
    stage.before().await?;
    let of_a = rows(stage).await?;
    let reaper = Role::of(reaper::NAME, "orders");
    let early = stage.start_once(reaper, None)?;
    let reaped = stage
        .report(early)
        .await?
        .get(reaper::NAME, "orders", "reaped");
    stage.check(Check::equal(
        "rows taken back before the lease ran out",
        &0,
        &reaped,
    ));
    let Some(store) = stage.ports.store("orders").cloned() else {
        return Ok(());
    };
    until("A's lease runs out", stage.patience(), async || {
        let leases = store.leases(100).await.told()?;
        Ok(leases
            .groups
            .iter()
            .all(|group| group.left_s.is_some_and(|left| left < 0.0)))
    })
    .await?;
    stage.step("A's lease has run out");
    let late = stage.start_once(reaper, None)?;
    let reaped = stage
        .report(late)
        .await?
        .get(reaper::NAME, "orders", "reaped");
    stage.check(Check::equal("rows taken back after it", &n, &reaped));
    let b = stage.start_once(dispatcher, Some(Fault::Stands(AFTER_CLAIM)))?;
    stage.stands(&b).await?;
    let of_b = rows(stage).await?;
    let tokens =
        |rows: &[OutboxRow]| -> Vec<_> { rows.iter().map(|row| row.claim_token.clone()).collect() };
    let taken = len(of_a
        .iter()
        .zip(&of_b)
        .filter(|(a, b)| a.claim_token != b.claim_token)
        .count());
    stage.check(Check::equal("rows B took over", &n, &taken));

    stage.fault_is_over();
    stage.goes_on(&a)?;
    let totals = stage.report(a).await?;
    let lost = totals.dispatcher("orders", "lost_fence");
    stage.check(Check::equal("lost fences A counted", &n, &lost));
    let after_a = rows(stage).await?;
    let is_untouched = tokens(&after_a) == tokens(&of_b)
        && after_a
            .iter()
            .zip(&of_b)
            .all(|(after, before)| after.state == before.state);
    stage.check(Check::is(
        "rows that B holds were left alone by A",
        is_untouched,
    ));

    stage.goes_on(&b)?;
    let totals = stage.report(b).await?;
    let sent = totals.dispatcher("orders", "sent");
    stage.check(Check::equal("rows B marked sent", &n, &sent));
    stage.recovers_with_everything().await?;
    Ok(())
}
