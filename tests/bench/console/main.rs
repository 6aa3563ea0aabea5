//! `cargo bench --bench console`: the figures redrive promises (docs/figures.md), one line each:
//!
//! ```text
//! figure <name> <value> <unit> target <bound> ok|short|missing
//! ```
//!
//! Figures are counts, or times of one process; nothing is compared with another run. Words after
//! `--` choose groups: `cargo bench --bench console -- claim keys`. Exit code 1 when a figure is
//! short of its target or could not be measured. Progress and details go to standard error.

mod claim;
mod context;
mod counters;
mod figures;
mod first_frame;
mod fixture;
#[path = "../groups.rs"]
mod groups;
mod idle;
mod keys;
mod pages;
mod proxy;
mod pty;
mod queues;
mod refresh;
#[path = "../report.rs"]
mod report;
mod servers;

use std::process::ExitCode;

use color_eyre::eyre::Result;

use figures::{Figures, Group};
use fixture::{Fixture, Fixtures};
use groups::Grouping as _;
use report::note;
use servers::Servers;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench` to `cargo bench` only; `cargo test --benches` must not take minutes.
    if !arguments.iter().any(|argument| argument == "--bench") {
        note("nothing measured: run `cargo bench --bench console`");
        return ExitCode::SUCCESS;
    }
    match Servers::private_or_restart(&arguments) {
        Ok(servers::Place::Here(servers)) => measure(&servers, Figures::new(&arguments)),
        Ok(servers::Place::Restarted(code)) => code,
        Err(error) => {
            note(&format!("no servers: {error:#}"));
            Figures::new(&arguments).finish()
        }
    }
}

fn measure(servers: &Servers, mut figures: Figures) -> ExitCode {
    // A figure of a group that fails stays without a value, and is reported as missing.
    let fixtures = Fixtures::new(servers);
    for group in figures.groups() {
        note(&format!("{} ...", group.word()));
        if let Err(error) = run(group, servers, &fixtures, &mut figures) {
            Figures::failed(group, &error);
        }
    }
    figures.finish()
}

fn run(
    group: Group,
    servers: &Servers,
    fixtures: &Fixtures<'_>,
    figures: &mut Figures,
) -> Result<()> {
    match group {
        Group::FirstFrame => first_frame::measure(figures),
        Group::Keys => keys::measure(servers, &fixtures.ready(Fixture::Small)?, figures),
        Group::Refresh => refresh::measure(servers, fixtures, figures),
        Group::Pages => pages::measure(servers, fixtures, figures),
        Group::Idle => idle::measure(&fixtures.ready(Fixture::Large)?, figures),
        Group::Claim => claim::measure(servers, &fixtures.ready(Fixture::Backlog)?, figures),
    }
}
