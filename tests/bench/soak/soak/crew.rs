//! The processes of the soak: two dispatchers, two consumers of each kind, a reaper, a collector, two
//! producers. Each is killed with `kill -9` every few seconds and started again.
//!
//! No saga coordinator: a timer that asks about what did not come would mend a loss.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use color_eyre::eyre::{Result, WrapErr, bail};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::Plan;
use super::arena::{Arena, SERVICES, SKU};

/// A process lives so long at least and at most, in milliseconds.
const LIVES_MS: std::ops::RangeInclusive<u64> = 3_000..=9_000;
/// Between two looks at the processes.
const TICK: Duration = Duration::from_millis(50);
/// Orders of one run of a producer.
const CHUNK: u64 = 100;
/// Orders under way beyond which no producer starts: the queues stay short, so that kills hit work.
const OPEN_MAX: u64 = 1_500;
/// The first order's number.
const FIRST: u64 = 1_000_000_000;
const PRODUCERS: usize = 2;

/// What a process does.
enum Job {
    Worker(Vec<&'static str>),
    /// Chunks of orders, one after the other; the same one again when it was killed.
    Producer {
        chunk: Option<u64>,
    },
}

struct Member {
    name: String,
    job: Job,
    child: Option<Child>,
    dies_at: Instant,
    kills: u64,
}

pub struct Crew<'a> {
    arena: &'a Arena,
    members: Vec<Member>,
    random: StdRng,
    orders: u64,
    /// Orders that were given to a producer.
    given: u64,
    /// Orders of chunks that were placed.
    placed: u64,
    may_place: bool,
    is_killing: bool,
}

impl<'a> Crew<'a> {
    pub fn new(arena: &'a Arena, plan: &Plan) -> Self {
        let mut random = StdRng::seed_from_u64(plan.seed);
        let mut jobs = Vec::new();
        for n in 1..=2 {
            jobs.push((format!("dispatcher-{n}"), Job::Worker(vec!["dispatcher"])));
            for (service, _) in SERVICES {
                let job = Job::Worker(vec!["consumer", "--service", service]);
                jobs.push((format!("{service}-consumer-{n}"), job));
            }
        }
        jobs.push(("reaper".to_owned(), Job::Worker(vec!["reaper"])));
        jobs.push(("collector".to_owned(), Job::Worker(vec!["collector"])));
        for n in 1..=PRODUCERS {
            jobs.push((format!("producer-{n}"), Job::Producer { chunk: None }));
        }
        let members = jobs
            .into_iter()
            .map(|(name, job)| Member {
                name,
                job,
                child: None,
                dies_at: Instant::now() + life(&mut random),
                kills: 0,
            })
            .collect();
        Self {
            arena,
            members,
            random,
            orders: plan.orders(),
            given: 0,
            placed: 0,
            may_place: true,
            is_killing: true,
        }
    }

    /// Lets them work, kills whose time has come, and starts what is not running.
    pub async fn work(&mut self, so_long: Duration) -> Result<()> {
        let end = Instant::now() + so_long;
        let mut ticks = tokio::time::interval(TICK);
        while Instant::now() < end {
            ticks.tick().await;
            for index in 0..self.members.len() {
                self.look_after(index).await?;
            }
        }
        Ok(())
    }

    async fn look_after(&mut self, index: usize) -> Result<()> {
        let (is_killing, may_place) = (self.is_killing, self.may_place);
        let Some(member) = self.members.get_mut(index) else {
            return Ok(());
        };
        if let Some(child) = &mut member.child {
            if let Some(status) = child.try_wait()? {
                member.child = None;
                match &mut member.job {
                    Job::Producer { chunk } if status.success() => {
                        *chunk = None;
                        self.placed += CHUNK;
                    }
                    Job::Producer { .. } => {}
                    Job::Worker(_) => bail!(
                        "{} ended by itself with {status}; {}",
                        member.name,
                        log_of(self.arena, &member.name)
                    ),
                }
            } else if is_killing && Instant::now() >= member.dies_at {
                child.start_kill()?;
                child.wait().await?;
                member.child = None;
                member.kills += 1;
            } else {
                return Ok(());
            }
        }
        let arguments: Vec<String> = match &mut member.job {
            Job::Worker(words) => {
                let worker = ["worker"].into_iter().chain(words.iter().copied());
                worker.map(str::to_owned).collect()
            }
            Job::Producer { chunk } => {
                if chunk.is_none() && may_place && self.given < self.orders {
                    *chunk = Some(self.given);
                    self.given += CHUNK;
                }
                let Some(from) = *chunk else {
                    return Ok(());
                };
                let count = CHUNK.min(self.orders - from);
                let first = (FIRST + from).to_string();
                let words = ["drill", "place", "--first", &first, "--sku", SKU];
                let mut words: Vec<String> = words.map(str::to_owned).to_vec();
                words.extend(["--patience".to_owned(), "60".to_owned()]);
                words.extend(["--count".to_owned(), count.to_string()]);
                words
            }
        };
        member.child = Some(start(self.arena, &member.name, &arguments)?);
        member.dies_at = Instant::now() + life(&mut self.random);
        Ok(())
    }

    /// Whether producers may start: not while too much is under way.
    pub const fn may_place(&mut self, open: u64) {
        self.may_place = open < OPEN_MAX;
    }

    /// True when every order was placed.
    pub fn has_placed(&self) -> bool {
        let is_idle = |member: &Member| !matches!(member.job, Job::Producer { chunk: Some(_) });
        self.given >= self.orders && self.members.iter().all(is_idle)
    }

    pub fn placed(&self) -> u64 {
        self.placed.min(self.orders)
    }

    /// No further kills.
    pub const fn keep_alive(&mut self) {
        self.is_killing = false;
    }

    pub fn kills(&self) -> u64 {
        self.members.iter().map(|member| member.kills).sum()
    }

    /// Kills of the worker that was killed least often. A producer may be done before its time.
    pub fn kills_least(&self) -> u64 {
        let workers = self
            .members
            .iter()
            .filter(|m| matches!(m.job, Job::Worker(_)));
        workers.map(|member| member.kills).min().unwrap_or_default()
    }

    /// Ends all of them.
    pub async fn stop(mut self) -> Result<()> {
        for member in &mut self.members {
            if let Some(child) = &mut member.child {
                child.start_kill()?;
                child.wait().await?;
            }
        }
        Ok(())
    }
}

fn life(random: &mut StdRng) -> Duration {
    Duration::from_millis(random.random_range(LIVES_MS))
}

fn start(arena: &Arena, name: &str, arguments: &[String]) -> Result<Child> {
    let log = File::create(arena.folder().join(format!("{name}.log")))?;
    Command::new(env!("CARGO_BIN_EXE_redrive"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", arena.folder())
        .arg("--config")
        .arg(arena.config())
        .args(["--output", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .wrap_err_with(|| format!("{name} does not start"))
}

fn log_of(arena: &Arena, name: &str) -> String {
    let text = std::fs::read_to_string(arena.folder().join(format!("{name}.log")));
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(5);
    lines.get(from..).unwrap_or_default().join(" | ")
}
