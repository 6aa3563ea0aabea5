//! From a key press to its frame while the database does not answer: never reached, or hanging after
//! it had filled the screen.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, bail, eyre};

use crate::context::{Addresses, Home};
use crate::figures::Figures;
use crate::first_frame::{FRAME, milliseconds, nowhere};
use crate::fixture::Ready;
use crate::proxy::Proxy;
use crate::pty::{Console, PANES};
use crate::report::note;
use crate::servers::Servers;

const PRESSES: usize = 300;

/// A press without a frame by then counts as this long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Through the rows of a list and back to the first, and between list and detail.
const ROWS: [&str; 10] = ["j", "j", "j", "k", "\t", "\t", "j", "k", "k", "k"];

pub fn measure(servers: &Servers, ready: &Ready, figures: &mut Figures) -> Result<()> {
    let silent = Proxy::silent()?;
    let home = Home::new(&nowhere(&silent))?;
    let mut console = Console::start(&home)?;
    console.wait_for(FRAME, Duration::from_secs(10))?;
    figures.set("key_to_frame_p99_unreached", p99(&mut console, &PANES)?);
    drop(console);

    let database = Proxy::to(address(&ready.url)?)?;
    let home = Home::new(&Addresses {
        database: through(&ready.url, database.address)?,
        amqp: servers.amqp.clone(),
        management: servers.management.clone(),
    })?;
    let mut console = Console::start(&home)?;
    console.wait_for(FRAME, Duration::from_secs(10))?;
    console.press("2")?;
    console.wait_for("order.created", Duration::from_secs(10))?;
    database.freeze();
    // Until every read hangs: more than one round of polling.
    console.rest(Duration::from_secs(2))?;
    figures.set("key_to_frame_p99_hanging", p99(&mut console, &ROWS)?);
    Ok(())
}

/// The time within which 99 % of the presses had their frame, in milliseconds.
fn p99(console: &mut Console, keys: &[&str]) -> Result<f64> {
    let mut times = Vec::new();
    for press in 0..PRESSES {
        // Fast typing, never in step with the polling.
        console.rest(Duration::from_millis(40 + 7 * (press as u64 % 7)))?;
        times.push(frame_after(console, keys[press % keys.len()])?);
    }
    times.sort();
    let unseen = times.iter().filter(|time| **time == PATIENCE).count();
    let at = |percent: usize| milliseconds(times[PRESSES * percent / 100 - 1]);
    note(&format!(
        "key to frame in ms: median {:.1}, p90 {:.1}, p99 {:.1}, worst {:.1}, {unseen} without a frame",
        at(50),
        at(90),
        at(99),
        at(100)
    ));
    if unseen > PRESSES / 100 {
        bail!(
            "{unseen} of {PRESSES} presses changed nothing; the screen:\n{}",
            console.text()
        );
    }
    Ok(at(99))
}

fn frame_after(console: &mut Console, key: &str) -> Result<Duration> {
    let pressed = console.press(key)?;
    let deadline = Instant::now() + PATIENCE;
    while let Some(burst) = console.next_burst(deadline)? {
        if burst.changed_below_top {
            return Ok(burst.at.saturating_duration_since(pressed));
        }
    }
    Ok(PATIENCE)
}

/// Host and port of a URL.
fn address(url: &str) -> Result<SocketAddr> {
    place(url)?
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| eyre!("no address"))
}

/// The URL, at another host and port.
fn through(url: &str, proxy: SocketAddr) -> Result<String> {
    Ok(url.replacen(place(url)?, &proxy.to_string(), 1))
}

fn place(url: &str) -> Result<&str> {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after_scheme.split('/').next().unwrap_or_default();
    authority
        .rsplit('@')
        .next()
        .filter(|place| !place.is_empty())
        .ok_or_else(|| eyre!("no host"))
}
