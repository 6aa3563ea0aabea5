//! 19: the broker takes a message that no queue is bound for.

use futures::FutureExt as _;

use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends, order};
use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldTable, Payload};
use crate::model::outbox::{NewEvent, OutboxRow, OutboxState};
use crate::store::Value;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 19,
    name: "unroutable",
    window: "confirmed by the broker, and in no queue: nobody would ever see it",
    inject: "An event is committed for which no queue is bound, among others that have their queues.",
    expect: "It comes back (mandatory) and is not marked sent: it waits with its reason until somebody binds a queue. \
             The others go out.",
    verify: "The row is not sent and its last error says unroutable; every order is confirmed.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

/// The row of the drill's own event, never one that was sent. Primary key.
const TAKE_BACK: &str = "DELETE FROM outbox_events WHERE event_id = ? AND status <> 'sent'";

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let orders = stage.ports.store("orders").cloned();
    let orders = orders.ok_or_else(|| order::absent("orders"))?;
    // Not one of the orders' events: it has no order.
    let event = NewEvent {
        event_id: EventId::generate(),
        aggregate_id: AggregateId::new(format!("drill-{}", stage.next_number())),
        aggregate_version: 1,
        event_type: "drill.unheard".to_owned(),
        schema_version: 1,
        payload: Payload::new("{}"),
        headers: FieldTable::new(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    };
    let mut tx = orders.begin().await.told()?;
    tx.append(&event).await.told()?;
    tx.commit().await.told()?;
    stage.step("committed an event that nobody listens to");
    stage.place(2).await?;
    stage.before().await?;

    stage.fault_is_over();
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    let row = async || -> Result<Option<OutboxRow>, Trouble> {
        let found = orders.outbox_event(&event.event_id).await.told()?;
        Ok(found.map(|event| event.row))
    };
    until("the event was tried", stage.patience(), async || {
        let tried = |row: &OutboxRow| row.state == OutboxState::Sent || row.last_error.is_some();
        Ok(row().await?.as_ref().is_some_and(tried))
    })
    .await?;
    stage.stop(dispatcher).await?;
    let found = row().await?;
    let is_sent = found
        .as_ref()
        .is_some_and(|row| row.state == OutboxState::Sent);
    let says_so = found
        .and_then(|row| row.last_error)
        .is_some_and(|error| error.contains("unroutable"));
    stage.check(Check::is(
        "the event that nobody heard is not marked sent",
        !is_sent,
    ));
    stage.check(Check::is("its last error says unroutable", says_so));
    let mut tx = orders.begin().await.told()?;
    tx.execute(TAKE_BACK, &[Value::Text(event.event_id.to_string())])
        .await
        .told()?;
    tx.commit().await.told()?;
    stage.recovers_with_everything().await?;
    Ok(())
}
