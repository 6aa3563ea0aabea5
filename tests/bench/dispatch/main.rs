//! `cargo bench --bench dispatch`: the dispatcher end to end against a bare publisher and a per-row script,
//! and what a claim costs on a million due rows (docs/figures.md), one line a figure:
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! Everything is measured in one run on the same servers and events; throughputs appear only as ratios of
//! that run. Words after `--` choose groups: `cargo bench --bench dispatch -- claim`. Exit code 1 when a
//! figure is short of its target or could not be measured. Progress and details go to standard error.

mod bare;
mod claim;
#[path = "../console/counters.rs"]
mod counters;
mod figures;
#[path = "../groups.rs"]
mod groups;
mod outbox;
#[path = "../report.rs"]
mod report;
mod script;
#[path = "../console/servers.rs"]
mod servers;
mod throughput;

use std::process::ExitCode;

use figures::{Figures, Group};
use groups::Grouping as _;
use report::note;
use servers::{Place, Servers};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench` to `cargo bench` only; `cargo test --benches` must not take minutes.
    if !arguments.iter().any(|argument| argument == "--bench") {
        note("nothing measured: run `cargo bench --bench dispatch`");
        return ExitCode::SUCCESS;
    }
    match Servers::private_or_restart(&arguments) {
        Ok(Place::Here(servers)) => measure(&servers, Figures::new(&arguments)),
        Ok(Place::Restarted(code)) => code,
        Err(error) => {
            note(&format!("no servers: {error:#}"));
            Figures::new(&arguments).finish()
        }
    }
}

fn measure(servers: &Servers, mut figures: Figures) -> ExitCode {
    for group in figures.groups() {
        note(&format!("{} ...", group.word()));
        let runtime = tokio::runtime::Runtime::new();
        let measured = runtime.map_err(Into::into).and_then(|runtime| {
            runtime.block_on(async {
                match group {
                    Group::Throughput => throughput::measure(servers, &mut figures).await,
                    Group::Claim => claim::measure(servers, &mut figures).await,
                }
            })
        });
        // A figure of a group that failed stays without a value, and is reported as missing.
        if let Err(error) = measured {
            Figures::failed(group, &error);
        }
    }
    figures.finish()
}
