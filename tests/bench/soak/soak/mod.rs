//! The soak itself: also run, small, as a test.

mod arena;
mod crew;
mod verify;

use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, ensure};

use arena::Arena;
use crew::Crew;

/// Where the servers are.
pub struct Addresses {
    /// Without a database.
    pub mariadb: String,
    pub amqp: String,
    pub management: String,
}

/// How much, and in which order things are killed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub events: u64,
    pub seed: u64,
}

/// Events of six orders: created, reserved, charge, charged, confirmed each, and one receipt.
const EVENTS_OF_SIX: u64 = 31;
/// Nothing takes longer, whatever is wrong.
const LIMIT: Duration = Duration::from_mins(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

impl Plan {
    /// Orders that make at least so many events.
    pub const fn orders(&self) -> u64 {
        (self.events * 6).div_ceil(EVENTS_OF_SIX) + 6
    }
}

/// What was found at the end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Events in all outboxes.
    pub events: u64,
    /// Orders and events that are missing somewhere.
    pub lost: u64,
    /// Effects that happened twice.
    pub doubled: u64,
    /// Differences of amounts.
    pub wrong_cents: u64,
    /// Rows in a state they must not be in.
    pub wrong_states: u64,
    /// Kills in all.
    pub kills: u64,
    /// Kills of the process that was killed least often.
    pub kills_least: u64,
    pub took: Duration,
}

/// Places orders, kills everything again and again, waits until all is done, and counts.
pub async fn run(addresses: &Addresses, plan: &Plan) -> Result<Outcome> {
    let began = Instant::now();
    let arena = Arena::open(addresses).await?;
    let outcome = play(&arena, plan, began).await;
    let closed = arena.close().await;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}

async fn play(arena: &Arena, plan: &Plan, began: Instant) -> Result<Outcome> {
    arena.prepare().await?;
    let mut crew = Crew::new(arena, plan);
    let mut database = arena.connect().await?;
    let mut told = Instant::now();
    let mut is_open = true;
    while is_open {
        ensure!(began.elapsed() < LIMIT, "not over after {LIMIT:?}");
        crew.work(LOOK).await?;
        let open = verify::open(&mut database, arena).await?;
        crew.may_place(open.orders);
        is_open = !crew.has_placed() || open.orders > 0;
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            note(&format!(
                "{:.0} s: {} placed, {} under way, {} events not sent, {} kills",
                began.elapsed().as_secs_f64(),
                crew.placed(),
                open.orders,
                open.events,
                crew.kills()
            ));
        }
    }
    let (kills, kills_least) = (crew.kills(), crew.kills_least());
    // The last mails and receipts, without further kills.
    crew.keep_alive();
    while verify::open(&mut database, arena).await?.events > 0
        || verify::missing(&mut database, arena).await? > 0
    {
        ensure!(began.elapsed() < LIMIT, "not settled after {LIMIT:?}");
        crew.work(LOOK).await?;
    }
    let took = began.elapsed();
    crew.stop().await?;
    note(&format!(
        "{} orders in {:.0} s, {kills} kills, {kills_least} of the process killed least",
        plan.orders(),
        took.as_secs_f64()
    ));
    let found = verify::count_end(&mut database, arena, plan).await?;
    Ok(Outcome {
        kills,
        kills_least,
        took,
        ..found
    })
}

/// Progress and details, beside the report.
#[expect(clippy::print_stderr, reason = "for whoever waits or wonders")]
pub fn note(text: &str) {
    eprintln!("# {text}");
}
