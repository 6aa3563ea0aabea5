//! `cargo bench --bench verdicts`: a healthy pipeline under load for five minutes, and `redrive doctor` all
//! the time with short limits (docs/figures.md):
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! `REDRIVE_HEALTHY_SECONDS` makes it shorter. What was said goes to standard error. Exit code 1 when a figure is
//! short of its target; a run that cannot go on ends with a panic.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot go on fails"
)]
#![expect(
    dead_code,
    reason = "the stage is that of the stories, which do more with it"
)]

mod doctor;
#[path = "../../support/node.rs"]
mod node;
#[path = "../../support/pty.rs"]
mod pty;
#[path = "../../stories/redrive.rs"]
mod redrive;
#[path = "../report.rs"]
mod report;
#[path = "../console/servers.rs"]
mod servers;
#[path = "../../stories/shop.rs"]
mod shop;

use std::process::ExitCode;
use std::time::Duration;

use doctor::healthy::{Seen, under_load};
use doctor::stage::Stage;
use report::{Figure, Report, float, note};
use servers::{Place, Servers};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench` to `cargo bench` only; `cargo test --benches` must not take minutes.
    if !arguments.iter().any(|argument| argument == "--bench") {
        note("nothing measured: run `cargo bench --bench verdicts`");
        return ExitCode::SUCCESS;
    }
    let seconds = std::env::var("REDRIVE_HEALTHY_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(300);
    match Servers::private_or_restart(&arguments).expect("servers") {
        Place::Restarted(code) => code,
        Place::Here(_) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            report(&runtime.block_on(measured(seconds)))
        }
    }
}

async fn measured(seconds: u64) -> Seen {
    let mut stage = Stage::open("bench_verdicts").await;
    let seen = under_load(&mut stage, Duration::from_secs(seconds)).await;
    stage.nothing_is_lost_and_nothing_doubled().await;
    stage.close().await;
    seen
}

fn report(seen: &Seen) -> ExitCode {
    if let Some(said) = &seen.said {
        note(&format!("said: {said:#?}"));
    }
    let said = u64::from(seen.said.is_some());
    let orders = u64::try_from(seen.events).unwrap_or(0);
    let figures = [
        (Figure::at_most("healthy_verdicts", "verdicts", 0.0), said),
        (Figure::at_least("healthy_runs", "runs", 1.0), seen.runs),
        (Figure::at_least("healthy_orders", "orders", 1.0), orders),
    ];
    let mut report = Report::default();
    for (figure, value) in figures {
        report.figure(&figure, Some(float(value)));
    }
    report.exit_code()
}
