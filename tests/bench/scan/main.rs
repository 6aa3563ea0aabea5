//! `cargo bench --bench scan`: the sandbox's rules over many orders with faults of every class, while the
//! pipeline runs under load (docs/figures.md):
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! `REDRIVE_SCAN_ORDERS` makes it shorter. What a scan costs is counted in a second run, when nobody else
//! reads. Progress goes to standard error. Exit code 1 when a figure is short of its target or could not be
//! measured.

#[path = "../report.rs"]
mod report;
mod scan;
#[path = "../console/servers.rs"]
#[expect(dead_code, reason = "the scan makes databases of its own")]
mod servers;

use std::process::ExitCode;

use report::{Figure, Report, float, note};
use scan::{Addresses, Outcome, Plan};
use servers::{Place, Servers};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench` to `cargo bench` only; `cargo test --benches` must not take minutes.
    if !arguments.iter().any(|argument| argument == "--bench") {
        note("nothing measured: run `cargo bench --bench scan`");
        return ExitCode::SUCCESS;
    }
    let orders = std::env::var("REDRIVE_SCAN_ORDERS").ok();
    let orders = orders.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let plan = Plan {
        orders,
        faults: 500.min(orders / 4),
    };
    let outcome = match Servers::private_or_restart(&arguments) {
        Ok(Place::Restarted(code)) => return code,
        Ok(Place::Here(servers)) => tokio::runtime::Runtime::new()
            .map_err(Into::into)
            .and_then(|runtime| runtime.block_on(run(&servers, plan))),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(outcome) => report(plan, Some(&outcome)),
        Err(error) => {
            note(&format!("not measured: {error:#}"));
            report(plan, None)
        }
    }
}

async fn run(servers: &Servers, plan: Plan) -> color_eyre::eyre::Result<Outcome> {
    let addresses = Addresses {
        mariadb: servers.mariadb.clone(),
        amqp: servers.amqp.clone(),
        management: servers.management.clone(),
    };
    scan::run(&addresses, plan).await
}

fn report(plan: Plan, outcome: Option<&Outcome>) -> ExitCode {
    type Value = fn(&Outcome) -> f64;
    let figures: [(Figure, Value); 10] = [
        (
            Figure::at_least("scan_orders", "orders", float(plan.orders)),
            |o| float(o.examined),
        ),
        (
            Figure::at_least("scan_faults_found", "faults", float(plan.faults)),
            |o| float(o.found),
        ),
        (
            Figure::at_least("scan_faults_found_again", "faults", float(plan.faults)),
            |o| float(o.found_again),
        ),
        (Figure::at_most("scan_wrong_class", "faults", 0.0), |o| {
            float(o.wrong)
        }),
        (
            Figure::at_most("scan_false_findings", "findings", 0.0),
            |o| float(o.invented),
        ),
        (Figure::at_most("scan_not_compared", "parts", 0.0), |o| {
            float(o.not_compared)
        }),
        (
            Figure::at_most("scan_rows_read_per_order", "rows", 5.0),
            |o| float(o.rows_read) / float(o.orders_counted),
        ),
        (
            Figure::at_least("scan_orders_placed_meanwhile", "orders", 1.0),
            |o| float(o.placed),
        ),
        (
            Figure::at_least("scan_parts_named_with_a_service_away", "parts", 1.0),
            |o| float(o.away_named),
        ),
        (
            Figure::at_most("scan_wrong_with_a_service_away", "findings", 0.0),
            |o| float(o.away_wrong),
        ),
    ];
    let mut report = Report::default();
    for (figure, value) in figures {
        report.figure(&figure, outcome.map(value));
    }
    report.exit_code()
}
