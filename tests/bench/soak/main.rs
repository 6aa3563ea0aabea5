//! `cargo bench --bench soak`: the whole pipeline under load while every process is killed with `kill -9`
//! every few seconds; at the end counts, amounts and states are exact (docs/figures.md):
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! `REDRIVE_SOAK_EVENTS` makes it shorter, `REDRIVE_SOAK_SEED` kills in another order. Progress goes to
//! standard error. Exit code 1 when a figure is short of its target or could not be measured.

#[path = "../console/servers.rs"]
#[expect(dead_code, reason = "the soak makes databases of its own")]
mod servers;
mod soak;

use std::process::ExitCode;

use servers::{Place, Servers};
use soak::{Outcome, Plan, note};

/// What a figure is held against.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

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

/// A count as a figure's value.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
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
    let figures: [(&str, &str, Bound, Value); 8] = [
        (
            "soak_events",
            "events",
            Bound::AtLeast(float(plan.events)),
            |o| float(o.events),
        ),
        ("soak_lost", "events", Bound::AtMost(0.0), |o| float(o.lost)),
        ("soak_doubled", "effects", Bound::AtMost(0.0), |o| {
            float(o.doubled)
        }),
        ("soak_wrong_amounts", "cents", Bound::AtMost(0.0), |o| {
            float(o.wrong_cents)
        }),
        ("soak_wrong_states", "rows", Bound::AtMost(0.0), |o| {
            float(o.wrong_states)
        }),
        ("soak_kills", "kills", Bound::AtLeast(12.0), |o| {
            float(o.kills)
        }),
        (
            "soak_kills_of_least_killed",
            "kills",
            Bound::AtLeast(1.0),
            |o| float(o.kills_least),
        ),
        ("soak_minutes", "min", Bound::AtMost(8.0), |o| {
            o.took.as_secs_f64() / 60.0
        }),
    ];
    let mut is_short = false;
    for (name, unit, bound, value) in figures {
        let (shown, word) = match outcome.map(value) {
            None => ("?".to_owned(), "missing"),
            Some(value) => {
                let holds = match bound {
                    Bound::AtMost(most) => value <= most,
                    Bound::AtLeast(least) => value >= least,
                };
                (format!("{value:.3}"), if holds { "ok" } else { "short" })
            }
        };
        is_short |= word != "ok";
        let bound = match bound {
            Bound::AtMost(most) => format!("<={most}"),
            Bound::AtLeast(least) => format!(">={least}"),
        };
        let shown = if shown.contains('.') {
            shown.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            shown
        };
        line(&format!(
            "figure {name} {shown} {unit} target {bound} {word}"
        ));
    }
    ExitCode::from(u8::from(is_short))
}

#[expect(clippy::print_stdout, reason = "the report is this program's output")]
fn line(text: &str) {
    println!("{text}");
}
