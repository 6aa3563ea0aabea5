//! 17: the databases are away for half a minute, under load.

use std::time::Duration;

use futures::FutureExt as _;
use serde::Deserialize;

use super::proxy::Line;
use super::record::{self, len};
use super::stage::{Role, Stage, until};
use super::trouble::Trouble;
use super::verdict::Check;
use super::{Drill, Ends, REAL, order};
use crate::model::ids::EventId;
use crate::store::Value;

const ORDERS: usize = 150;
/// Placed before the databases go.
const BEFORE: u64 = 30;
/// How long they are away.
const AWAY: Duration = Duration::from_secs(30);
/// Connections a second that all processes together may try meanwhile: some twenty workers and two
/// pools of sessions each, and none of them in a loop without a pause.
const TRIES_A_SECOND: u64 = 60;
/// The producer has to outlive the outage.
const LOAD: Duration = Duration::from_mins(2);

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 17,
    name: "database-gone",
    window: "anywhere: the databases are gone for 30 s under load, then back",
    inject: "Orders are being placed and the whole pipeline is at work when every connection to the databases is cut \
             and refused for 30 s.",
    expect: "Clients repeat their requests, workers wait with growing pauses, messages go back to their queues; when \
             the databases are back, everything goes on.",
    verify: "Every order exists once, is reserved, paid and confirmed once, nothing died of the outage, and no more than \
             60 connections a second were tried meanwhile.",
    places: REAL,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

const PLACED: &str = "SELECT COUNT(*) FROM orders WHERE order_no >= ? AND order_no < ?";

#[derive(Deserialize)]
struct Answer {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    order_no: i64,
    event_id: String,
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let everything = stage.start(Role::ALL, None)?;
    let mut arguments = stage.lines()?.global_arguments();
    let (first, count) = (stage.next_number().to_string(), ORDERS.to_string());
    let patience = LOAD.as_secs().to_string();
    let words = [
        "drill",
        "place",
        "--first",
        &first,
        "--count",
        &count,
        "--sku",
        stage.sku(),
    ];
    arguments.extend(words.map(str::to_owned));
    arguments.extend(["--patience", &patience].map(str::to_owned));
    let mut producer = stage.process("producer".to_owned(), arguments, None)?;
    let range = [
        Value::Int(stage.numbers().start),
        Value::Int(stage.numbers().end),
    ];
    until("orders are being placed", stage.patience(), async || {
        Ok(record::count(stage.ports, "orders", PLACED, &range).await? >= BEFORE)
    })
    .await?;
    stage.lines()?.databases(Line::Refused)?;
    stage.step("the databases are gone");
    stage.before().await?;
    let refused = stage.lines()?.databases_refused();
    tokio::time::sleep(AWAY).await;
    let tried = stage.lines()?.databases_refused() - refused;
    let bound = TRIES_A_SECOND * AWAY.as_secs();
    stage.check(Check::at_least(
        "connections tried while they were away",
        1,
        tried,
    ));
    stage.check(Check::at_most(
        "connections tried while they were away",
        bound,
        tried,
    ));
    stage.lines()?.databases(Line::Open)?;
    stage.fault_is_over();

    let answer: Answer = producer.answer(LOAD).await?;
    for item in answer.items {
        let request = order::order(item.order_no, stage.sku());
        stage.count(order::Placed {
            order_no: item.order_no,
            quantity: request.quantity,
            amount_cents: request.amount_cents,
            event_id: EventId::new(item.event_id),
            is_new: true,
        });
    }
    let placed = len(stage.placed().len());
    stage.check(Check::equal(
        "orders the client was told of",
        &len(ORDERS),
        &placed,
    ));
    stage.recovers().await?;
    stage.stop(everything).await?;
    Ok(())
}
