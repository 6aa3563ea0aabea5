//! 10: a node of the broker's cluster is killed after it stored messages.

use futures::FutureExt as _;

use super::control::Control;
use super::record::len;
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{Drill, Ends, REAL};

const ORDERS: usize = 5;
const QUEUE: &str = "inventory.orders";

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 10,
    name: "node-lost",
    window: "sent, not consumed: a node of the broker's cluster is killed",
    inject: "On a cluster of three with quorum queues, the node that took the messages is killed with kill -9; clients \
             go on at another one.",
    expect: "The others serve what it had confirmed, and go on confirming: a confirm means a majority has it.",
    verify: "Every row that was marked sent is in the queue of the surviving nodes; orders placed afterwards are \
             confirmed by them; nothing is lost when the node comes back.",
    places: REAL,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let control = Control::of(&stage.ports.context)?;
    let (victim, survivor) = nodes(stage, &control).await?;
    let n = len(ORDERS);
    stage.place(ORDERS).await?;
    let dispatcher = stage.start(Role::dispatcher("orders"), None)?;
    stage.arrives(QUEUE, ORDERS).await?;
    let sent = async |stage: &Stage<'_>| -> Result<u64, Trouble> {
        let facts = stage.facts().await?;
        Ok(len(facts
            .events
            .iter()
            .filter(|event| event.state == "sent")
            .count()))
    };
    until("the rows are marked", stage.patience(), async || {
        Ok(sent(stage).await? == n)
    })
    .await?;
    let url = control.run(&["url", &survivor]).await?;
    stage.move_to(&url).await?;
    control.run(&["kill", &victim]).await?;
    stage.step(format!("killed {victim}; {survivor} goes on"));
    let survived = stage.arrives(QUEUE, ORDERS).await;
    stage.check(Check::is(
        "what was confirmed is served by the others",
        survived.is_ok(),
    ));
    stage.before().await?;
    stage.place(ORDERS).await?;
    let confirmed = until("the others confirm", stage.patience(), async || {
        Ok(sent(stage).await? == n + n)
    })
    .await;
    stage.check(Check::is(
        "a majority goes on confirming",
        confirmed.is_ok(),
    ));
    stage.stop(dispatcher).await?;

    stage.fault_is_over();
    let totals = stage.recovers_with_everything().await;
    // Whatever was found: the cluster is whole again afterwards.
    control.run(&["start", &victim]).await?;
    stage.step(format!("started {victim} again"));
    let done = totals?.consumer("inventory", "done");
    stage.check(Check::equal("events the inventory did", &(n + n), &done));
    Ok(())
}

/// The node the context names, and another one.
async fn nodes(stage: &Stage<'_>, control: &Control) -> Result<(String, String), Trouble> {
    let broker = stage.bench().broker()?;
    let kind = broker
        .queue(QUEUE)
        .await
        .told()?
        .and_then(|facts| facts.kind);
    if kind.as_deref() != Some("quorum") {
        return Err(Trouble::NotConfigured(format!(
            "{QUEUE} is {}: this drill needs quorum queues, set [contexts.{}.drill] quorum = true before they are made",
            kind.unwrap_or_else(|| "of an unknown kind".to_owned()),
            stage.ports.context.name
        )));
    }
    let list = control.run(&["list"]).await?;
    let names: Vec<&str> = list
        .lines()
        .filter(|name| name.starts_with("rabbitmq"))
        .collect();
    if names.len() < 3 {
        return Err(Trouble::NotConfigured(format!(
            "this drill needs a cluster of three nodes, the control program lists {}",
            names.len()
        )));
    }
    let server = |url: &str| {
        let parsed = url::Url::parse(url).ok()?;
        Some((parsed.host_str()?.to_owned(), parsed.port().unwrap_or(5672)))
    };
    let own = stage
        .ports
        .context
        .amqp
        .as_ref()
        .and_then(|url| server(url.expose()));
    let mut victim = None;
    let mut survivor = None;
    for name in names {
        let url = control.run(&["url", name]).await?;
        if own.is_some() && server(&url) == own {
            victim = Some(name.to_owned());
        } else {
            survivor = Some(name.to_owned());
        }
    }
    match (victim, survivor) {
        (Some(victim), Some(survivor)) => Ok((victim, survivor)),
        _ => Err(Trouble::NotConfigured(
            "the context's amqp URL is none of the nodes the control program lists".to_owned(),
        )),
    }
}
