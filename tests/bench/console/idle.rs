//! What a console costs that nobody touches: on a million rows, looking once a second.

use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, WrapErr, eyre};

use crate::figures::Figures;
use crate::first_frame::FRAME;
use crate::fixture::Ready;
use crate::pty::{Console, PANES};
use crate::report::{float, note};

/// How long it is watched.
const WATCH: Duration = Duration::from_secs(30);

/// For the first answers of every pane.
const SETTLE: Duration = Duration::from_secs(2);

pub fn measure(ready: &Ready, figures: &mut Figures) -> Result<()> {
    let mut console = Console::start(&ready.home)?;
    console.wait_for(FRAME, Duration::from_secs(10))?;
    // Every pane once, so that the peak of memory is that of a console in use; the last one stays.
    for pane in PANES {
        console.press(pane)?;
        console.rest(SETTLE)?;
    }
    console.rest(SETTLE)?;
    let before = cpu_ticks(&console)?;
    let bursts = console.rest(WATCH)?;
    let ticks = cpu_ticks(&console)? - before;
    let bytes: usize = bursts.iter().map(|burst| burst.bytes).sum();
    let useless = bursts.iter().filter(|burst| !burst.changed).count();
    note(&format!(
        "idle: {} writes, {bytes} bytes, {ticks} ticks of CPU",
        bursts.len()
    ));
    figures.set("idle_useless_writes", float(useless as u64));
    figures.set("idle_terminal", float(bytes as u64) / WATCH.as_secs_f64());
    figures.set(
        "idle_cpu",
        100.0 * float(ticks) / TICKS_PER_SECOND / WATCH.as_secs_f64(),
    );
    figures.set("memory_peak_1m", peak_memory_mib(&console)?);
    // A kernel need not count them: no figure rests on it.
    note(&match touched_each_second(&mut console) {
        Ok(pages) => {
            format!("idle: pages of 4 KiB touched a second, in {LOOKS} seconds: {pages:?}")
        }
        Err(error) => format!("idle: pages touched were not counted: {error}"),
    });
    let took = untouched_for_a_second(&mut console)?;
    note(&format!(
        "idle: this machine takes {:.1} ms to touch {PAGES} pages that nobody touched for a second",
        took.as_secs_f64() * 1000.0
    ));
    Ok(())
}

/// Pages of memory that are touched to learn what the machine takes for it.
const PAGES: usize = 2000;

const PAGE_BYTES: usize = 4096;

/// What the machine adds to `idle_cpu`: how long it takes to touch memory again, page by page and in no order, after a
/// second in which nobody did.
fn untouched_for_a_second(console: &mut Console) -> Result<Duration> {
    let memory = vec![1_u8; PAGES * PAGE_BYTES];
    console.rest(Duration::from_secs(1))?;
    let began = Instant::now();
    let mut sum = 0_u64;
    for n in 0..PAGES {
        // A step that shares no factor with the number of pages comes to each of them once.
        let page = n * 617 % PAGES;
        sum += u64::from(memory.get(page * PAGE_BYTES).copied().unwrap_or(0));
    }
    std::hint::black_box(sum);
    Ok(began.elapsed())
}

/// Pages touched in each of some seconds, the fewest first.
fn touched_each_second(console: &mut Console) -> Result<Vec<u64>> {
    let mut touched = Vec::new();
    for _ in 0..LOOKS {
        console.forget_touched()?;
        console.rest(Duration::from_secs(1))?;
        touched.push(touched_pages(console)?);
    }
    touched.sort_unstable();
    Ok(touched)
}

/// Seconds in which touched pages are counted: two with a look at causes, which is every five.
const LOOKS: usize = 10;

/// Pages touched since they were forgotten, of the program and of its own memory; libraries are shared with
/// others, who touch them too.
fn touched_pages(console: &Console) -> Result<u64> {
    let maps = console.process_file("smaps")?;
    let (mut is_ours, mut kib) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Referenced:"), Some(value)) if is_ours => kib += value.parse::<u64>()?,
            (Some(word), _) if !word.ends_with(':') => is_ours = !line.contains(".so"),
            _ => {}
        }
    }
    Ok(kib / 4)
}

/// The unit of `/proc/PID/stat` is fixed by the kernel's interface (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time so far.
fn cpu_ticks(console: &Console) -> Result<u64> {
    let stat = console.process_file("stat")?;
    // After the name, which may hold blanks: state is field 3, utime 14, stime 15.
    let (_, rest) = stat
        .rsplit_once(") ")
        .ok_or_else(|| eyre!("odd /proc/PID/stat"))?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| -> Result<u64> {
        fields
            .get(number - 3)
            .ok_or_else(|| eyre!("short /proc/PID/stat"))?
            .parse()
            .wrap_err("stat")
    };
    Ok(field(14)? + field(15)?)
}

/// The largest resident size so far.
fn peak_memory_mib(console: &Console) -> Result<f64> {
    let status = console.process_file("status")?;
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .ok_or_else(|| eyre!("no VmHWM in /proc/PID/status"))?;
    Ok(float(kib) / 1024.0)
}
