//! Runs drills one after the other, each on a stage of its own, each within a bound.

use std::time::Duration;

use tokio::time::Instant;

use super::oracle;
use super::stage::{Role, Stage, until};
use super::trouble::{Told as _, Trouble};
use super::verdict::{DrillReport, Verdict};
use super::{Bench, Drill, Ends, Where};
use crate::config::Environment;
use crate::sandbox;

/// One drill may take so long; the slowest waits for a database that is away for half a minute.
const LIMIT: Duration = Duration::from_mins(4);
/// How long a pipeline with messages of before may take to become quiet.
const QUIET: Duration = Duration::from_mins(1);

/// Runs the chosen drills; `told` hears of each as it ends.
///
/// # Errors
/// When nothing could be run at all: the context is no sandbox, is not the sandbox's pipeline, is in
/// use, or a server did not answer.
pub async fn run(
    bench: &Bench,
    chosen: &[&'static Drill],
    mut told: impl FnMut(&DrillReport),
) -> Result<Vec<DrillReport>, Trouble> {
    allowed(bench)?;
    sandbox::prepare_bare(&bench.ports, bench.ports.context.drill.quorum)
        .await
        .map_err(Trouble::Unreachable)?;
    nobody_else(bench).await?;
    let mut reports = Vec::new();
    for drill in chosen {
        let report = one(bench, drill).await;
        told(&report);
        reports.push(report);
    }
    Ok(reports)
}

fn allowed(bench: &Bench) -> Result<(), Trouble> {
    let context = &bench.ports.context;
    if context.environment != Environment::Sandbox {
        return Err(Trouble::Refused(format!(
            "context {} is marked {}: drills inject faults and run only where environment = \"sandbox\"",
            context.name,
            context.environment.word()
        )));
    }
    if bench.is_read_only {
        return Err(Trouble::Refused(format!(
            "context {} is read-only and a drill writes; nothing was done",
            context.name
        )));
    }
    if sandbox::program(&bench.ports, sandbox::Chance::NONE)
        .handlers
        .is_empty()
    {
        return Err(Trouble::Refused(format!(
            "context {} is not the sandbox's own pipeline: drills need the services orders, inventory, payment \
             and notification with the queues of docs/drills.md",
            context.name
        )));
    }
    Ok(())
}

/// A drill counts deliveries and kills consumers: it needs the queues to itself.
async fn nobody_else(bench: &Bench) -> Result<(), Trouble> {
    let broker = bench.broker()?;
    for (_, queue, _) in sandbox::SERVICES {
        let depth = broker.depth(queue).await.told()?;
        if let Some(consumers) = depth.map(|depth| depth.consumers).filter(|n| *n > 0) {
            return Err(Trouble::Refused(format!(
                "{queue} has {consumers} consumers: stop the workers of context {} first, a drill needs its \
                 queues to itself",
                bench.ports.context.name
            )));
        }
    }
    Ok(())
}

/// Lets messages of before be consumed, so that no crash point is met by one of them.
async fn quiet(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    if stage.is_quiet().await? {
        return Ok(());
    }
    stage.step("consuming what was there before");
    let rest = stage.start(Role::ALL, None)?;
    let waited = until("quiet queues", QUIET, async || stage.is_quiet().await).await;
    stage.stop(rest).await?;
    stage.forget_deliveries();
    waited
}

fn empty(bench: &Bench, drill: &Drill) -> DrillReport {
    DrillReport {
        number: drill.number,
        name: drill.name,
        window: drill.window,
        place: bench.place.word(),
        inject: drill.inject,
        expect: drill.expect,
        verify: drill.verify,
        verdict: Verdict::NotRun,
        reason: None,
        is_dependency: false,
        checks: Vec::new(),
        steps: Vec::new(),
        before: None,
        after: None,
        deliveries: Vec::new(),
        rpo_rows: None,
        rto_s: None,
        took_s: 0.0,
    }
}

async fn one(bench: &Bench, drill: &Drill) -> DrillReport {
    let mut report = empty(bench, drill);
    if !drill.places.contains(&bench.place) {
        let needed = match bench.place {
            Where::Embedded => {
                "the fault needs processes and connections: run it on a context with RabbitMQ"
            }
            Where::Real => "the fault exists in the embedded pipeline only: run it with --embedded",
        };
        report.reason = Some(needed.to_owned());
        return report;
    }
    let began = Instant::now();
    let mut stage = match Stage::open(bench).await {
        Ok(stage) => stage,
        Err(trouble) => return not_run(report, &trouble),
    };
    let play = async {
        quiet(&mut stage).await?;
        (drill.play)(&mut stage).await
    };
    let played = match tokio::time::timeout(LIMIT, play).await {
        Ok(played) => played,
        Err(_) => Err(Trouble::late("the end of the drill", LIMIT)),
    };
    let facts = stage.facts().await;
    let findings = stage.close();
    report.took_s = began.elapsed().as_secs_f64();
    report.steps = findings.steps;
    report.checks = findings.checks;
    report.before = findings.before;
    report.deliveries = findings.deliveries;
    report.rto_s = findings.rto.map(|rto| rto.as_secs_f64());
    match facts {
        Ok(facts) => {
            if drill.ends == Ends::Confirmed {
                let (checks, lost) =
                    oracle::confirmed(&findings.placed, findings.dead_letters, &facts);
                report.checks.extend(checks);
                report.rpo_rows = Some(lost);
            } else {
                report.rpo_rows = Some(oracle::lost_orders(&findings.placed, &facts));
            }
            report.after = Some(facts.record);
        }
        Err(trouble) => report.reason = Some(format!("the end could not be read: {trouble}")),
    }
    report.verdict = if report.reason.is_none() && report.checks.iter().all(|check| check.holds) {
        Verdict::Passed
    } else {
        Verdict::Failed
    };
    match played {
        Ok(()) => report,
        Err(Trouble::Stuck(what)) => {
            report.verdict = Verdict::Failed;
            report.reason = Some(what);
            report
        }
        Err(trouble) => not_run(report, &trouble),
    }
}

/// A server that is away or a program that is missing says nothing about the guards.
fn not_run(mut report: DrillReport, trouble: &Trouble) -> DrillReport {
    report.verdict = Verdict::NotRun;
    report.is_dependency = true;
    report.reason = Some(trouble.to_string());
    report
}
