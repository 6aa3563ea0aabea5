//! Events a second from claim to sent mark, against the bare loop and the script of the same run.

use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, bail, ensure};
use redrive::base::tasks::Tasks;
use redrive::pipeline::Worker;

use crate::bare::Bare;
use crate::figures::Figures;
use crate::outbox::Outbox;
use crate::report::{float, note};
use crate::script;
use crate::servers::Servers;

/// Rounds; each gives its own ratios, and the median counts: a machine is not equally busy all the time.
const ROUNDS: usize = 9;
/// Events of one measurement.
const EVENTS: u64 = 20_000;
/// Events of one measurement of the script.
const EVENTS_OF_SCRIPT: u64 = 1_000;
/// Longest a measurement may take.
const PATIENCE: Duration = Duration::from_mins(2);

pub async fn measure(servers: &Servers, figures: &mut Figures) -> Result<()> {
    let bare = Bare::connect(&servers.amqp).await?;
    let outbox = Outbox::create(servers, "redrive_bench_dispatch").await?;
    let python = script::python().await;
    // Connections, caches and the broker's files are warm before anything counts.
    bare.publish(EVENTS / 3).await?;
    dispatched(&bare, &outbox, 1, EVENTS / 3).await?;
    let (mut one_over, mut two_over, mut over_script) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        bare.purge().await?;
        // Half before and half after, so that a change of the machine's load meets both sides.
        let before = bare.publish(EVENTS / 2).await?;
        // What was measured before leaves the servers work to do: neither is always the second.
        let (one, two);
        if round % 2 == 0 {
            two = dispatched(&bare, &outbox, 2, EVENTS).await?;
            one = dispatched(&bare, &outbox, 1, EVENTS).await?;
        } else {
            one = dispatched(&bare, &outbox, 1, EVENTS).await?;
            two = dispatched(&bare, &outbox, 2, EVENTS).await?;
        }
        let limit = rate(EVENTS, before + bare.publish(EVENTS / 2).await?);
        one_over.push(one / limit);
        two_over.push(two / limit);
        let mut per_row = None;
        if let Some(python) = &python {
            bare.purge().await?;
            outbox.refill(EVENTS_OF_SCRIPT).await?;
            let took = script::run(python, servers, &outbox, EVENTS_OF_SCRIPT).await?;
            let rate = rate(EVENTS_OF_SCRIPT, took);
            over_script.push(one / rate);
            per_row = Some(rate);
        }
        note(&format!(
            "round {round}: bare {limit:.0}/s, one worker {one:.0}/s ({:.2}), two {two:.0}/s ({:.2}), script {}",
            one / limit,
            two / limit,
            per_row.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.0}/s")),
        ));
    }
    figures.set("dispatch_1_worker_over_bare", median(one_over));
    let two = median(two_over);
    figures.set("dispatch_2_workers_over_bare", two);
    note(&format!(
        "the stretch of 0.60 with two workers is {}",
        if two >= 0.6 { "reached" } else { "not reached" }
    ));
    if python.is_some() {
        figures.set("dispatch_1_worker_over_python_per_row", median(over_script));
    }
    bare.close().await
}

/// Events a second of so many workers, each with connections of its own, from the first claim to the last
/// sent mark.
async fn dispatched(bare: &Bare, outbox: &Outbox, workers: usize, events: u64) -> Result<f64> {
    bare.purge().await?;
    outbox.refill(events).await?;
    let mut running = Vec::new();
    let mut all = Vec::new();
    for _ in 0..workers {
        let services = outbox.services()?;
        let worker = services
            .workers(&["dispatcher".to_owned()], None)?
            .remove(0);
        // Sessions and channel are open before the clock starts.
        if let Some(store) = services.ports.store("orders") {
            store.probe().await?;
        }
        if let Some(broker) = &services.ports.broker {
            broker.probe().await?;
        }
        all.push(services);
        running.push(worker);
    }
    let began = Instant::now();
    let tasks = Tasks::new();
    let done = futures::future::join_all(
        running
            .into_iter()
            .map(|worker| tasks.spawn(until_idle(worker))),
    );
    let Ok(done) = tokio::time::timeout(PATIENCE, done).await else {
        bail!("the dispatcher did not finish {events} events in {PATIENCE:?}");
    };
    let took = began.elapsed();
    let mut sent = 0;
    for worker in done {
        sent += worker??;
    }
    ensure!(sent == events, "{sent} of {events} events were sent");
    ensure!(
        outbox.count("sent").await? == events,
        "the table does not agree"
    );
    for services in all {
        services.close().await;
    }
    Ok(rate(events, took))
}

async fn until_idle(mut worker: Box<dyn Worker>) -> Result<u64> {
    let mut sent = 0;
    loop {
        let report = worker.run_once().await;
        if let Some(problem) = report.problem {
            bail!("{problem}");
        }
        sent += report.get("sent");
        if report.is_idle {
            worker.drain().await;
            return Ok(sent);
        }
    }
}

fn rate(events: u64, took: Duration) -> f64 {
    float(events) / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
