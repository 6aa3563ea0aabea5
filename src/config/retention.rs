//! `[contexts.NAME.retention]`: how long the inbox remembers, compared with how long events are replayed
//! (I-01).

use std::time::Duration;

use super::section::Section;
use super::{ConfigError, duration};

/// How inbox rows are forgotten; all have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// How long after its death an event may be replayed as a matter of course. `None`: as long as
    /// the inbox remembers.
    pub replay_window: Option<Duration>,
    /// True: rows move to an archive. False: they go.
    pub archive: bool,
    /// Rows a transaction.
    pub batch_rows: u32,
    /// Between looks.
    pub interval: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            replay_window: None,
            archive: true,
            batch_rows: 500,
            interval: Duration::from_mins(1),
        }
    }
}

pub(super) fn read(
    context: &Section<'_>,
    inbox_retention: Option<Duration>,
) -> Result<RetentionSettings, ConfigError> {
    let base = RetentionSettings::default();
    let Some(section) = context.section("retention")? else {
        return Ok(base);
    };
    section.only(&["replay_window", "archive", "batch_rows", "interval"])?;
    let settings = RetentionSettings {
        replay_window: section.duration("replay_window")?,
        archive: section.boolean("archive")?.unwrap_or(base.archive),
        batch_rows: section
            .integer("batch_rows", 1..=500)?
            .and_then(|rows| u32::try_from(rows).ok())
            .unwrap_or(base.batch_rows),
        interval: super::context::positive(&section, "interval", base.interval)?,
    };
    if let (Some(window), Some(kept)) = (settings.replay_window, inbox_retention)
        && kept < window
    {
        return Err(section.error(
            "replay_window",
            format!(
                "is longer than the inbox remembers: a dead letter may be replayed for {}, inbox_retention is \
                 {}, and in between an event could take effect twice",
                duration::show(window),
                duration::show(kept)
            ),
            format!(
                "make inbox_retention at least {}, or shorten replay_window",
                duration::show(window)
            ),
        ));
    }
    Ok(settings)
}
