//! The scan itself: also run, small, as a test.

#[path = "../../soak/soak/arena.rs"]
#[expect(dead_code, reason = "the soak uses the rest")]
mod arena;
mod load;
mod seed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, ensure, eyre};
use redrive::assembly::{Options, Services};
use redrive::base::secret::SecretUrl;
use redrive::config::{ScanSettings, load as config};
use redrive::reconcile::{Outcome as Scanned, Watch};
use redrive::sandbox;
use sqlx::{MySqlConnection, Row as _};

use arena::Arena;

/// Where the servers are.
pub struct Addresses {
    /// Without a database.
    pub mariadb: String,
    pub amqp: String,
    pub management: String,
}

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub orders: u64,
    pub faults: u64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Orders looked at under load.
    pub examined: u64,
    /// Faults found and rightly classified.
    pub found: u64,
    /// Faults found under another class.
    pub wrong: u64,
    /// Findings about orders that have no fault.
    pub invented: u64,
    /// Parts that were not compared.
    pub not_compared: u64,
    /// Orders placed while it ran.
    pub placed: u64,
    /// Rows the server read for one scan, with nobody else at work.
    pub rows_read: u64,
    /// Orders that scan looked at.
    pub orders_counted: u64,
    /// Faults that scan found and rightly classified: the same ones.
    pub found_again: u64,
    /// With one service away: parts that were said not to be compared, all of that service.
    pub away_named: u64,
    /// What was said wrongly then: findings without a fault or under another class, and findings cleared.
    pub away_wrong: u64,
}

/// What changed less than so long ago is in flight: an order takes a second or two here.
const GRACE: Duration = Duration::from_secs(20);
/// The service that is away in the last scan: every confirmed order needs its payment to be called fine.
const AWAY: &str = "payment";

/// Faults that were not found are told up to so many.
const TOLD: usize = 10;

pub async fn run(addresses: &Addresses, plan: Plan) -> Result<Outcome> {
    let arena = Arena::open(addresses).await?;
    let outcome = play(&arena, plan).await;
    let closed = arena.close().await;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}

async fn play(arena: &Arena, plan: Plan) -> Result<Outcome> {
    arena.prepare().await?;
    let mut database = arena.connect().await?;
    note(&format!(
        "{} orders, {} faults ...",
        plan.orders, plan.faults
    ));
    let expected = seed::fill(&mut database, arena, plan).await?;
    let services = services(arena)?;
    let load = load::Load::start(&services).await?;
    // The load runs when the scan begins, and the consumers have overtaken what was seeded: before that, what
    // was sent an hour ago may well be in a queue that is not empty.
    load.wait_for(&mut database, 5).await?;
    let before = load.placed();
    let scanned = scan(&services).await;
    let placed = load.placed() - before;
    load.stop().await;
    let scanned = scanned?;
    let counted = counted(&mut database, &services).await;
    services.close().await;
    let (rows_read, again) = counted?;
    let mut outcome = judge(&scanned, &expected);
    outcome.placed = placed;
    outcome.rows_read = rows_read;
    outcome.orders_counted = again.scan.progress.examined;
    outcome.found_again = judge(&again, &expected).found;
    let blind = services_with(arena, Some(AWAY))?;
    let scanned = scan(&blind).await;
    blind.close().await;
    let scanned = scanned?;
    let judged = judge(&scanned, &expected);
    let missing = &scanned.scan.not_compared;
    let is_all_of_it = missing
        .iter()
        .all(|part| part.what.ends_with(AWAY) && part.is_unreachable);
    outcome.away_named = if is_all_of_it {
        missing.len() as u64
    } else {
        0
    };
    outcome.away_wrong = judged.wrong + judged.invented + scanned.scan.progress.cleared;
    Ok(outcome)
}

fn services(arena: &Arena) -> Result<Services> {
    services_with(arena, None)
}

/// Sessions of the scan's own; the database of a service that is away is a port where nobody listens.
fn services_with(arena: &Arena, away: Option<&str>) -> Result<Services> {
    let config = config::load(Some(&arena.config()), &|_| None)?;
    let mut context = config.context(None)?.clone();
    for service in &mut context.services {
        if away == Some(service.name.as_str()) {
            service.database = SecretUrl::new("mysql://t:pw@127.0.0.1:1/away".to_owned());
        }
    }
    context.scan = ScanSettings {
        grace: GRACE,
        second_look: Duration::from_secs(1),
        rules: sandbox::scan_rules(),
        ..ScanSettings::default()
    };
    let options = Options {
        actor: "bench@localhost".to_owned(),
        read_only: false,
    };
    Ok(Services::open(Arc::new(context), options)?)
}

async fn scan(services: &Services) -> Result<Scanned> {
    let from = Instant::now();
    let scanned = services
        .reconciler
        .run("orders-stuck", &Watch::nobody())
        .await?;
    note(&format!(
        "{} orders looked at in {:.1?}, {} found, {} in flight, {:?}",
        scanned.scan.progress.examined,
        from.elapsed(),
        scanned.found.len(),
        scanned.scan.progress.in_flight,
        scanned.scan.progress.explained
    ));
    ensure!(scanned.not_recorded.is_none(), "{:?}", scanned.not_recorded);
    for missing in &scanned.scan.not_compared {
        note(&format!(
            "not compared: {}: {}",
            missing.what, missing.reason
        ));
    }
    Ok(scanned)
}

/// Rows the whole server reads for one scan. Looking costs the same twice.
async fn counted(database: &mut MySqlConnection, services: &Services) -> Result<(u64, Scanned)> {
    let zero = reads(database).await?;
    let own = reads(database).await? - zero;
    let before = reads(database).await?;
    let scanned = scan(services).await?;
    let after = reads(database).await?;
    Ok(((after - before).saturating_sub(own), scanned))
}

async fn reads(database: &mut MySqlConnection) -> Result<u64> {
    let rows = sqlx::query("SHOW GLOBAL STATUS LIKE 'Handler\\_read\\_%'")
        .fetch_all(database)
        .await?;
    let mut total = 0;
    for row in rows {
        let name: String = row.try_get(0)?;
        let value: String = row.try_get(1)?;
        if name != "Handler_read_retry" {
            total += value.parse::<u64>()?;
        }
    }
    Ok(total)
}

/// What was found against what was seeded; the rest is for the caller to say.
fn judge(scanned: &Scanned, expected: &BTreeMap<String, &'static str>) -> Outcome {
    let (mut found, mut wrong, mut invented) = (0, 0, 0);
    let is_found = |order: &str| scanned.found.iter().any(|one| one.subject == order);
    let missing = expected.iter().filter(|(order, _)| !is_found(order));
    for (order, class) in missing.take(TOLD) {
        note(&format!("not found: {class} of order {order}"));
    }
    for difference in &scanned.found {
        match expected.get(&difference.subject) {
            Some(class) if *class == difference.class => found += 1,
            Some(class) => {
                wrong += 1;
                note(&format!(
                    "{class} was called {}: {}",
                    difference.class, difference.summary
                ));
            }
            None => {
                invented += 1;
                note(&format!(
                    "no fault: {}: {}",
                    difference.class, difference.summary
                ));
            }
        }
    }
    Outcome {
        examined: scanned.scan.progress.examined,
        found,
        wrong,
        invented,
        not_compared: scanned.scan.not_compared.len() as u64,
        placed: 0,
        rows_read: 0,
        orders_counted: 0,
        found_again: 0,
        away_named: 0,
        away_wrong: 0,
    }
}

/// A sentence as an error.
fn told(problem: String) -> color_eyre::eyre::Report {
    eyre!(problem)
}

/// Progress and details, beside the report.
#[expect(clippy::print_stderr, reason = "for whoever waits or wonders")]
pub fn note(text: &str) {
    eprintln!("# {text}");
}
