//! 18: the broker takes nothing because of a memory alarm (cases B-06, Q-04).

use std::time::Duration;

use futures::FutureExt as _;

use super::control::Control;
use super::record::len;
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::Check;
use super::{BOTH, Drill, Ends};

const ORDERS: usize = 6;
/// How long the alarm lasts once the dispatcher knows of it: longer than a lease.
const BLOCKED: Duration = Duration::from_secs(8);
/// What a broker has instead of its limit while the alarm is on.
const LOW: [&str; 3] = ["set_vm_memory_high_watermark", "absolute", "1MB"];
/// Recovery at once: a pause of the dispatcher, a confirm, the rest of the pipeline.
const AT_ONCE_S: u64 = 10;

/// Registration.
pub(super) const DRILL: Drill = Drill {
    number: 18,
    name: "broker-blocked",
    window: "after the business commit, before a claim: the broker is blocked by a memory alarm",
    inject: "The broker raises a memory alarm and stops reading; orders go on being placed.",
    expect: "Nothing is claimed in vain: rows stay pending without an attempt, no lease runs out, nothing fails. When \
             the alarm is over, everything goes out at once.",
    verify: "No row placed under the alarm was attempted, none is in sending or failed; all orders are confirmed within \
             10 s of the alarm's end.",
    places: BOTH,
    ends: Ends::Confirmed,
    play: |stage| play(stage).boxed_local(),
};

async fn play(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let alarm = Alarm::of(stage).await?;
    let everything = stage.start(Role::ALL, None)?;
    stage.place(1).await?;
    stage.recovers().await?;
    alarm.raise(stage).await?;
    let played = under_alarm(stage, &everything).await;
    let lowered = alarm.lower(stage).await;
    stage.fault_is_over();
    played?;
    lowered?;
    stage.recovers().await?;
    let took = stage.rto().map_or(u64::MAX, |rto| rto.as_secs());
    stage.check(Check::at_most("seconds to recover", AT_ONCE_S, took));
    stage.stop(everything).await?;
    Ok(())
}

async fn under_alarm(
    stage: &mut Stage<'_>,
    everything: &super::stage::Actor,
) -> Result<(), Trouble> {
    if stage.is_real() {
        // A broker says that it is blocked when it is sent something: this order finds out.
        stage.place(1).await?;
        stage.says(everything, "blocked").await?;
    }
    let told = stage.placed().len();
    stage.place(ORDERS).await?;
    let before = stage.before().await?;
    let tried_before: i64 = before.events.iter().map(|event| event.attempts).sum();
    tokio::time::sleep(BLOCKED).await;
    let facts = stage.facts().await?;
    let later: Vec<_> = stage
        .placed()
        .iter()
        .skip(told)
        .map(|p| p.event_id.clone())
        .collect();
    let in_vain = facts
        .events
        .iter()
        .filter(|event| later.contains(&event.event_id) && event.attempts > 0);
    stage.check(Check::equal(
        "rows claimed in vain",
        &0,
        &len(in_vain.count()),
    ));
    let storm: i64 = facts.events.iter().map(|event| event.attempts).sum::<i64>() - tried_before;
    stage.check(Check::at_most(
        "claims while the dispatcher knew of the alarm",
        1,
        u64::try_from(storm).unwrap_or_default(),
    ));
    let failed = facts.events.iter().filter(|event| event.state == "failed");
    stage.check(Check::equal("rows given up", &0, &len(failed.count())));
    Ok(())
}

/// The alarm, however it is raised here.
enum Alarm {
    Embedded,
    Node {
        control: Control,
        name: String,
        limit: Vec<String>,
    },
}

impl Alarm {
    async fn of(stage: &Stage<'_>) -> Result<Self, Trouble> {
        if !stage.is_real() {
            return Ok(Self::Embedded);
        }
        let control = Control::of(&stage.ports.context)?;
        let nodes = control.run(&["list"]).await?;
        let node = nodes.lines().find(|name| name.starts_with("rabbitmq"));
        let name = node.map(str::to_owned).ok_or_else(|| {
            Trouble::NotConfigured("the control program lists no rabbitmq node".to_owned())
        })?;
        let asked = [
            "ctl",
            &name,
            "--quiet",
            "eval",
            "vm_memory_monitor:get_vm_memory_high_watermark().",
        ];
        let told = control.run(&asked).await?;
        let limit = limit_of(&told).ok_or_else(|| {
            Trouble::NotConfigured(format!("the node's memory limit cannot be read: {told}"))
        })?;
        Ok(Self::Node {
            control,
            name,
            limit,
        })
    }

    async fn raise(&self, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        match self {
            Self::Embedded => block(stage, Some("memory alarm")),
            Self::Node { control, name, .. } => {
                control
                    .run(&[&["ctl", name, "--quiet"], LOW.as_slice()].concat())
                    .await?;
                let broker = stage.bench().broker()?.clone();
                until("the node's memory alarm", stage.patience(), async || {
                    let nodes = broker.overview().await.told()?.nodes.unwrap_or_default();
                    Ok(nodes.iter().any(|node| node.memory_alarm == Some(true)))
                })
                .await?;
            }
        }
        stage.step("the broker is blocked by a memory alarm");
        Ok(())
    }

    async fn lower(&self, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        match self {
            Self::Embedded => block(stage, None),
            Self::Node {
                control,
                name,
                limit,
            } => {
                let limit: Vec<&str> = limit.iter().map(String::as_str).collect();
                let set = ["ctl", name, "--quiet", "set_vm_memory_high_watermark"];
                control.run(&[set.as_slice(), &limit].concat()).await?;
            }
        }
        Ok(())
    }
}

fn block(stage: &Stage<'_>, reason: Option<&str>) {
    if let Some(switchboard) = &stage.bench().switchboard {
        switchboard.block(reason);
    }
}

/// What sets the limit back: `0.4`, or `{absolute,"512MiB"}`, or `{absolute,536870912}`.
fn limit_of(told: &str) -> Option<Vec<String>> {
    let told = told.trim();
    if let Some(rest) = told.strip_prefix("{absolute,") {
        let size = rest.trim_end_matches('}').trim().trim_matches('"');
        return (!size.is_empty()).then(|| vec!["absolute".to_owned(), size.to_owned()]);
    }
    told.parse::<f64>().ok().map(|_| vec![told.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::limit_of;

    #[test]
    fn a_limit_is_set_back_as_it_was() {
        assert_eq!(limit_of("0.4"), Some(vec!["0.4".to_owned()]));
        let absolute = |size: &str| Some(vec!["absolute".to_owned(), size.to_owned()]);
        assert_eq!(limit_of("{absolute,\"512MiB\"}\n"), absolute("512MiB"));
        assert_eq!(limit_of("{absolute,536870912}"), absolute("536870912"));
        assert_eq!(limit_of("{error,nodedown}"), None);
    }
}
