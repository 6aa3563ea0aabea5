//! `[contexts.NAME.verdicts]`: when something counts as wrong, and how long it must have been so before it is
//! said.

use std::time::Duration;

use super::context::{number, positive};
use super::section::Section;
use super::{ConfigError, duration};

/// Limits of the verdicts; all have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictSettings {
    /// How often causes are looked for; the counts are read with every refresh.
    pub every: Duration,
    /// Looks in a row in which a thing must be wrong before it is said.
    pub looks: u32,
    /// Looks in a row in which it must be right again before it is no longer said.
    pub quiet_looks: u32,
    /// A due event that nobody claims for longer.
    pub due: Duration,
    /// A lease that is over and not taken back for longer.
    pub lease: Duration,
    /// A wait for a lock that lasts longer.
    pub lock_wait: Duration,
    /// A transaction that holds row locks for longer, while events wait.
    pub transaction: Duration,
    /// A consumer that is further behind.
    pub lag: Duration,
    /// An event sent longer ago should have reached its consumers.
    pub consumed: Duration,
    /// Sent events are followed up for so long.
    pub followed: Duration,
    /// An event that waits longer for an earlier version.
    pub waiting: Duration,
    /// Dead letters of one cause that make it a poison group.
    pub poison: u64,
}

impl Default for VerdictSettings {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            looks: 2,
            quiet_looks: 2,
            due: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            lock_wait: Duration::from_secs(5),
            transaction: Duration::from_mins(1),
            lag: Duration::from_mins(1),
            consumed: Duration::from_mins(2),
            followed: Duration::from_hours(1),
            waiting: Duration::from_mins(1),
            poison: 10,
        }
    }
}

pub(super) fn read(context: &Section<'_>) -> Result<VerdictSettings, ConfigError> {
    let base = VerdictSettings::default();
    let Some(section) = context.section("verdicts")? else {
        return Ok(base);
    };
    section.only(&[
        "every",
        "looks",
        "quiet_looks",
        "due",
        "lease",
        "lock_wait",
        "transaction",
        "lag",
        "consumed",
        "followed",
        "waiting",
        "poison",
    ])?;
    let settings = VerdictSettings {
        every: positive(&section, "every", base.every)?,
        looks: number(&section, "looks", 1..=100, base.looks)?,
        quiet_looks: number(&section, "quiet_looks", 1..=100, base.quiet_looks)?,
        due: positive(&section, "due", base.due)?,
        lease: positive(&section, "lease", base.lease)?,
        lock_wait: positive(&section, "lock_wait", base.lock_wait)?,
        transaction: positive(&section, "transaction", base.transaction)?,
        lag: positive(&section, "lag", base.lag)?,
        consumed: positive(&section, "consumed", base.consumed)?,
        followed: positive(&section, "followed", base.followed)?,
        waiting: positive(&section, "waiting", base.waiting)?,
        poison: section
            .integer("poison", 1..=1_000_000)?
            .unwrap_or(base.poison),
    };
    if settings.followed <= settings.consumed {
        return Err(section.error(
            if section.has("followed") {
                "followed"
            } else {
                "consumed"
            },
            format!(
                "leaves nothing to look at: sent events are followed up for {} (followed), and may take {} \
                 (consumed)",
                duration::show(settings.followed),
                duration::show(settings.consumed)
            ),
            "make followed longer than consumed",
        ));
    }
    Ok(settings)
}
