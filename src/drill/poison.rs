//! 13: a stream of messages that nobody can read.

use std::collections::BTreeSet;

use futures::FutureExt as _;

use super::record::len;
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends, order};
use crate::broker::Outgoing;
use crate::model::ids::{AggregateId, EventId};
use crate::model::message::{FieldValue, Message, Payload, Properties};

const POISON: usize = 24;
const ORDERS: usize = 6;
const QUEUE: &str = "inventory.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 13,
    name: "poison",
    window: "consumer keeps failing: a stream of invalid messages",
    inject: "Messages that are no JSON, lack a field, have an unknown type or an unknown sku arrive at the inventory's \
             queue, with good orders among them.",
    expect: "Each invalid one ends as a dead letter with its reason, and somebody is told, not once a message; the \
             good ones are not held up.",
    verify: "As many open dead letters as invalid messages, in some few causes; at least one alert and no more than \
             causes; every good order is confirmed.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.expects_dead_letters(len(POISON));
    let poison: Vec<Outgoing> = (0..POISON).map(|n| invalid(stage, n)).collect();
    let (first, second) = poison.split_at(POISON / 2);
    stage.publish(first.to_vec()).await?;
    stage.place(ORDERS).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives(QUEUE, POISON / 2 + ORDERS).await?;
    stage.stop(dispatcher).await?;
    stage.publish(second.to_vec()).await?;
    stage.step(format!(
        "{POISON} invalid messages around {ORDERS} good ones"
    ));
    stage.before().await?;

    stage.fault_is_over();
    let rest = stage.start(Role::ALL, None)?;
    stage.recovers().await?;
    let collected = until(
        "every invalid message is a dead letter",
        stage.patience(),
        async || Ok(stage.facts().await?.record.dead_letters == len(POISON)),
    )
    .await;
    stage.check(Check::is(
        "every invalid message is a dead letter",
        collected.is_ok(),
    ));
    let alerted = until("somebody is told", stage.patience(), async || {
        Ok(stage.alerts() > 0)
    })
    .await;
    stage.stop(rest).await?;
    let classes = classes(stage).await?;
    stage.check(Check::at_least("causes they are grouped by", 2, classes));
    stage.check(Check::is("somebody was told", alerted.is_ok()));
    stage.check(Check::at_most("alerts", classes, stage.alerts()));
    Ok(())
}

fn key(stage: &Stage<'_>, n: usize) -> i64 {
    stage.numbers().end - 1 - i64::try_from(n).unwrap_or_default()
}

/// Causes of the drill's dead letters.
async fn classes(stage: &Stage<'_>) -> Result<u64, Trouble> {
    let store = stage.ports.store("inventory").cloned();
    let store = store.ok_or_else(|| order::absent("inventory"))?;
    let mut classes = BTreeSet::new();
    for n in 0..POISON {
        let aggregate = AggregateId::new(key(stage, n).to_string());
        let letters = store.dead_letters_of_aggregate(&aggregate).await.told()?;
        classes.extend(letters.into_iter().map(|letter| letter.error_class));
    }
    Ok(len(classes.len()))
}

/// An invalid message that belongs to the drill by its key.
fn invalid(stage: &Stage<'_>, n: usize) -> Outgoing {
    let number = key(stage, n);
    let (kind, body) = match n % 4 {
        0 => ("order.created", "{not json".to_owned()),
        1 => ("order.created", format!("{{\"order_no\":{number}}}")),
        2 => ("order.misspelt", format!("{{\"order_no\":{number}}}")),
        _ => (
            "order.created",
            format!(
                "{{\"order_no\":{number},\"customer\":{{\"email\":\"drill@example.org\"}},\"sku\":\"SKU-404\",\
                 \"quantity\":1,\"amount_cents\":700}}"
            ),
        ),
    };
    let mut properties = Properties {
        content_type: Some("application/json".to_owned()),
        delivery_mode: Some(2),
        message_id: Some(EventId::generate().to_string()),
        kind: Some(kind.to_owned()),
        ..Properties::default()
    };
    properties
        .headers
        .set("aggregate_id", FieldValue::text(number.to_string()));
    properties
        .headers
        .set("aggregate_version", FieldValue::I64(1));
    Outgoing {
        exchange: String::new(),
        routing_key: QUEUE.to_owned(),
        message: Message {
            properties,
            payload: Payload::new(body),
        },
    }
}
