//! A healthy pipeline under load, looked at all the time. The story does it for a minute, `cargo bench
//! --bench verdicts` for five.

use std::time::{Duration, Instant};

use super::super::redrive::Answer;
use super::super::shop::Event;
use super::stage::{Stage, is_quiet};

/// Orders placed between two runs of the doctor.
const ORDERS: i64 = 100;

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// Orders placed.
    pub events: i64,
    /// Runs of `redrive doctor`.
    pub runs: u64,
    /// The first answer that was not quiet; the load ended with it.
    pub said: Option<Answer>,
}

/// Places orders, and asks the doctor with limits that are shorter than anybody would set them. When it
/// returns every order has taken effect.
pub async fn under_load(stage: &mut Stage, lasting: Duration) -> Seen {
    let console = stage.console_with("doctor", |text| text);
    stage.start(&console, &["dispatcher", "reaper", "collector"]);
    stage.look_through("strict", |text| {
        let strict = text.replace("due = \"20s\"", "due = \"2s\"");
        assert_ne!(strict, text);
        strict
    });
    let mut seen = Seen {
        events: 0,
        runs: 0,
        said: None,
    };
    let began = Instant::now();
    while began.elapsed() < lasting && seen.said.is_none() {
        for _ in 0..ORDERS {
            let order = Event::order(seen.events, true);
            stage.emit(&order, "order.created", 0).await;
            seen.events += 1;
        }
        let answer = stage.doctor().await;
        seen.runs += 1;
        seen.said = (!is_quiet(&answer)).then_some(answer);
    }
    stage.kill_worker().await;
    stage.pipeline_goes_on().await;
    seen
}
