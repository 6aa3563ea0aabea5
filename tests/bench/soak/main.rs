//! `cargo bench --bench soak`: the whole pipeline under load while every process is killed with `kill -9`
//! every few seconds; at the end counts, amounts and states are exact (docs/figures.md):
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! `REDRIVE_SOAK_EVENTS` makes it shorter, `REDRIVE_SOAK_SEED` kills in another order. Progress goes to
//! standard error. Exit code 1 when a figure is short of its target or could not be measured.

#[path = "../report.rs"]
mod report;
#[path = "../console/servers.rs"]
#[expect(dead_code, reason = "the soak makes databases of its own")]
mod servers;
mod soak;

use std::process::ExitCode;

use report::{Figure, Report, float, note};
use servers::{Place, Servers};
use soak::{Outcome, Plan};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench` to `cargo bench` only; `cargo test --benches` must not take minutes.
    if !arguments.iter().any(|argument| argument == "--bench") {
        note("nothing measured: run `cargo bench --bench soak`");
        return ExitCode::SUCCESS;
    }
    let plan = plan();
    let outcome = match Servers::private_or_restart(&arguments) {
        Ok(Place::Restarted(code)) => return code,
        Ok(Place::Here(servers)) => tokio::runtime::Runtime::new()
            .map_err(Into::into)
            .and_then(|runtime| runtime.block_on(run(&servers, &plan))),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(outcome) => report(&plan, Some(&outcome)),
        Err(error) => {
            note(&format!("not measured: {error:#}"));
            report(&plan, None)
        }
    }
}

/// What is asked for by the environment.
fn plan() -> Plan {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok();
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    Plan {
        events: number("REDRIVE_SOAK_EVENTS", 200_000),
        seed: number("REDRIVE_SOAK_SEED", 1),
    }
}

async fn run(servers: &Servers, plan: &Plan) -> color_eyre::eyre::Result<Outcome> {
    let addresses = soak::Addresses {
        mariadb: servers.mariadb.clone(),
        amqp: servers.amqp.clone(),
        management: servers.management.clone(),
    };
    soak::run(&addresses, plan).await
}

fn report(plan: &Plan, outcome: Option<&Outcome>) -> ExitCode {
    type Value = fn(&Outcome) -> f64;
    let figures: [(Figure, Value); 8] = [
        (
            Figure::at_least("soak_events", "events", float(plan.events)),
            |o| float(o.events),
        ),
        (Figure::at_most("soak_lost", "events", 0.0), |o| {
            float(o.lost)
        }),
        (Figure::at_most("soak_doubled", "effects", 0.0), |o| {
            float(o.doubled)
        }),
        (Figure::at_most("soak_wrong_amounts", "cents", 0.0), |o| {
            float(o.wrong_cents)
        }),
        (Figure::at_most("soak_wrong_states", "rows", 0.0), |o| {
            float(o.wrong_states)
        }),
        (Figure::at_least("soak_kills", "kills", 12.0), |o| {
            float(o.kills)
        }),
        (
            Figure::at_least("soak_kills_of_least_killed", "kills", 1.0),
            |o| float(o.kills_least),
        ),
        (Figure::at_most("soak_minutes", "min", 8.0), |o| {
            o.took.as_secs_f64() / 60.0
        }),
    ];
    let mut report = Report::default();
    for (figure, value) in figures {
        report.figure(&figure, outcome.map(value));
    }
    report.exit_code()
}
