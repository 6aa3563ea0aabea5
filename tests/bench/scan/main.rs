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

mod scan;
#[path = "../console/servers.rs"]
#[expect(dead_code, reason = "the scan makes databases of its own")]
mod servers;

use std::process::ExitCode;

use scan::{Addresses, Outcome, Plan, note};
use servers::{Place, Servers};

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

/// A count as a figure's value.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
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
    let figures: [(&str, &str, Bound, Value); 10] = [
        (
            "scan_orders",
            "orders",
            Bound::AtLeast(float(plan.orders)),
            |o| float(o.examined),
        ),
        (
            "scan_faults_found",
            "faults",
            Bound::AtLeast(float(plan.faults)),
            |o| float(o.found),
        ),
        (
            "scan_faults_found_again",
            "faults",
            Bound::AtLeast(float(plan.faults)),
            |o| float(o.found_again),
        ),
        ("scan_wrong_class", "faults", Bound::AtMost(0.0), |o| {
            float(o.wrong)
        }),
        ("scan_false_findings", "findings", Bound::AtMost(0.0), |o| {
            float(o.invented)
        }),
        ("scan_not_compared", "parts", Bound::AtMost(0.0), |o| {
            float(o.not_compared)
        }),
        (
            "scan_rows_read_per_order",
            "rows",
            Bound::AtMost(5.0),
            |o| float(o.rows_read) / float(o.orders_counted),
        ),
        (
            "scan_orders_placed_meanwhile",
            "orders",
            Bound::AtLeast(1.0),
            |o| float(o.placed),
        ),
        (
            "scan_parts_named_with_a_service_away",
            "parts",
            Bound::AtLeast(1.0),
            |o| float(o.away_named),
        ),
        (
            "scan_wrong_with_a_service_away",
            "findings",
            Bound::AtMost(0.0),
            |o| float(o.away_wrong),
        ),
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
