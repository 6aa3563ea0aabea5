//! `[contexts.NAME.consumer]`: limits of the consumer runtime.

use std::time::Duration;

use super::section::Section;
use super::{ConfigError, InboxPart, duration};
use crate::model::dead_letter::retry_queue;

/// Longest wait between two tries: a week, well under what a queue's time to live can hold.
const DELAY_MAX: Duration = Duration::from_hours(24 * 7);
/// Retry queues a work queue gets at most.
const DELAYS_MAX: usize = 10;
/// Longest name of a queue, in bytes (N-05).
pub const NAME_BYTES_MAX: usize = 255;

/// Limits of the consumer runtime; all have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerLimits {
    /// Messages in flight.
    pub prefetch: u16,
    /// Events handled at the same time; those of one aggregate one after the other.
    pub lanes: u16,
    /// Wait before each further try, in a queue with that time to live: one more try than waits.
    pub retry_delays: Vec<Duration>,
    /// Time limit of one try.
    pub time_limit: Duration,
    /// How long a stop waits for what is being handled.
    pub drain_limit: Duration,
}

impl Default for ConsumerLimits {
    fn default() -> Self {
        Self {
            prefetch: 50,
            lanes: 4,
            retry_delays: [1, 5, 30].map(Duration::from_secs).to_vec(),
            time_limit: Duration::from_secs(10),
            drain_limit: Duration::from_secs(8),
        }
    }
}

pub(super) fn read(
    context: &Section<'_>,
    statement_timeout: Duration,
) -> Result<ConsumerLimits, ConfigError> {
    let base = ConsumerLimits::default();
    let Some(section) = context.section("consumer")? else {
        return Ok(base);
    };
    section.only(&[
        "prefetch",
        "lanes",
        "retry_delays",
        "time_limit",
        "drain_limit",
    ])?;
    let small = |key: &'static str, most: u64, default: u16| -> Result<u16, ConfigError> {
        let given = section.integer(key, 1..=most)?;
        Ok(given.and_then(|n| u16::try_from(n).ok()).unwrap_or(default))
    };
    let limits = ConsumerLimits {
        prefetch: small("prefetch", 10_000, base.prefetch)?,
        // Each lane holds one of the writing sessions while it works; two are left to the others.
        lanes: small("lanes", 6, base.lanes)?,
        retry_delays: delays(&section)?.unwrap_or(base.retry_delays),
        time_limit: super::context::positive(&section, "time_limit", base.time_limit)?,
        drain_limit: super::context::positive(&section, "drain_limit", base.drain_limit)?,
    };
    if limits.time_limit < statement_timeout {
        return Err(section.error(
            "time_limit",
            format!(
                "a handler would be stopped before a single statement may time out: time_limit {} is \
                 below statement_timeout {}",
                duration::show(limits.time_limit),
                duration::show(statement_timeout)
            ),
            format!("make time_limit at least {}", duration::show(statement_timeout)),
        ));
    }
    Ok(limits)
}

fn delays(section: &Section<'_>) -> Result<Option<Vec<Duration>>, ConfigError> {
    const KEY: &str = "retry_delays";
    let Some(texts) = section.texts(KEY)? else {
        return Ok(None);
    };
    if texts.len() > DELAYS_MAX {
        return Err(section.error(
            KEY,
            format!("has {} entries; each makes a queue", texts.len()),
            format!("use at most {DELAYS_MAX}"),
        ));
    }
    texts
        .iter()
        .map(|text| {
            let delay = duration::parse(text)
                .map_err(|problem| section.error(KEY, format!("has an entry that {problem}"), duration::FORM))?;
            if delay.is_zero() || delay > DELAY_MAX {
                return Err(section.error(
                    KEY,
                    "has an entry that is zero or longer than a week",
                    "use waits such as [\"1s\", \"5s\", \"30s\"]; an empty list makes every failure a dead letter at once",
                ));
            }
            Ok(delay)
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// Every name that will be made from a configured one has to fit as well (N-05).
pub(super) fn check_names(
    section: &Section<'_>,
    inbox: Option<&InboxPart>,
    dead_letter_queues: &[String],
    limits: &ConsumerLimits,
) -> Result<(), ConfigError> {
    let retries = inbox.into_iter().flat_map(|inbox| {
        limits
            .retry_delays
            .iter()
            .map(|delay| ("inbox", retry_queue(&inbox.queue, *delay)))
    });
    let parked = dead_letter_queues
        .iter()
        .map(|queue| ("dead_letters", format!("{queue}.parked")));
    for (key, name) in retries.chain(parked) {
        if name.len() > NAME_BYTES_MAX {
            return Err(section.error(
                key,
                format!(
                    "has a queue from whose name {name:?} is made, which has {} bytes; a broker takes \
                     {NAME_BYTES_MAX}",
                    name.len()
                ),
                "use a shorter queue name",
            ));
        }
    }
    Ok(())
}
