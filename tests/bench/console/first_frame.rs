//! From the start of the process to the first frame, while neither database nor broker answers.

use std::time::Duration;

use color_eyre::eyre::Result;

use crate::context::{Addresses, Home};
use crate::figures::Figures;
use crate::proxy::Proxy;
use crate::pty::Console;
use crate::report::note;

const STARTS: usize = 20;

/// Stands on every frame: the first pane's name.
pub const FRAME: &str = "Overview";

pub fn measure(figures: &mut Figures) -> Result<()> {
    let silent = Proxy::silent()?;
    let home = Home::new(&nowhere(&silent))?;
    // The first start reads the program from the disk, which is not the program's time.
    let mut times = Vec::new();
    for _ in 0..=STARTS {
        let mut console = Console::start(&home)?;
        let shown = console.wait_for(FRAME, Duration::from_secs(10))?;
        times.push(milliseconds(shown - console.started));
    }
    times.remove(0);
    times.sort_by(f64::total_cmp);
    note(&format!("first frames in ms: {times:.1?}"));
    figures.set(
        "first_frame_median",
        f64::midpoint(times[STARTS / 2 - 1], times[STARTS / 2]),
    );
    figures.set("first_frame_worst", times[STARTS - 1]);
    Ok(())
}

/// Every server behind one listener that never answers.
pub fn nowhere(silent: &Proxy) -> Addresses {
    let at = silent.address;
    Addresses {
        database: format!("mysql://t:pw@{at}/bench"),
        amqp: format!("amqp://t:pw@{at}/%2f"),
        management: format!("http://t:pw@{at}"),
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
