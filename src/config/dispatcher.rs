//! `[contexts.NAME.dispatcher]`: the limits of dispatcher and reaper, and how they must fit together.

use std::time::Duration;

use super::context::{number, positive};
use super::section::Section;
use super::{ConfigError, Thresholds, duration};
use crate::base::backoff::Backoff;

/// Which rows of an outbox may go next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest due first. A row that waits for a retry is passed by all others.
    #[default]
    Due,
    /// Rows of one aggregate in version order: an earlier one that is not sent holds the later ones.
    Sequence,
}

impl Order {
    const ALL: [Self; 2] = [Self::Due, Self::Sequence];

    /// The word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Sequence => "sequence",
        }
    }

    /// What one row takes at least of a batch's time. A sequence's rows wait for each other's confirm.
    const fn row_time(self) -> Duration {
        match self {
            Self::Due => Duration::from_micros(50),
            Self::Sequence => Duration::from_millis(2),
        }
    }
}

/// Limits of dispatcher and reaper; all have defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DispatcherSettings {
    /// Rows a claim.
    pub batch_rows: u32,
    /// How long a claim holds.
    pub lease: Duration,
    /// How long a batch may take to be confirmed.
    pub send_deadline: Duration,
    /// How long the answer to a claim and the sent mark may take, each: the context's limit of one
    /// statement.
    pub statement_timeout: Duration,
    /// So many attempts are made at least before a row fails for good.
    pub attempts_max: u32,
    /// A row younger than this does not fail for good, however many attempts were made.
    pub give_up_after: Duration,
    /// Wait between attempts.
    pub backoff: Backoff,
    /// Which rows may go next.
    pub order: Order,
    /// Pause when nothing was due.
    pub idle: Duration,
    /// Expired rows the reaper takes back in one transaction.
    pub reap_rows: u32,
    /// Pause of the reaper when nothing had expired.
    pub reap_every: Duration,
}

impl Default for DispatcherSettings {
    fn default() -> Self {
        Self {
            batch_rows: 200,
            lease: Duration::from_secs(30),
            send_deadline: Duration::from_secs(10),
            statement_timeout: Thresholds::default().statement_timeout,
            // With these waits half an hour, and never less than ten minutes.
            attempts_max: 24,
            give_up_after: Duration::from_hours(24),
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_mins(5),
            },
            order: Order::Due,
            idle: Duration::from_millis(200),
            reap_rows: 500,
            reap_every: Duration::from_secs(1),
        }
    }
}

/// Limits that contradict each other: which one to look at first, why, and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Keys, the one to change first.
    pub keys: [&'static str; 2],
    /// The arithmetic.
    pub problem: String,
    /// What would fit.
    pub fix: String,
}

impl DispatcherSettings {
    /// What a batch may take from the database's reading of its clock to the sent mark.
    pub const fn batch_time(&self) -> Duration {
        self.send_deadline
            .saturating_add(self.statement_timeout)
            .saturating_add(self.statement_timeout)
    }

    /// Checks batch size, send deadline and lease against each other: a batch that outlives its lease is
    /// sent by somebody else while this one is still at work.
    ///
    /// # Errors
    /// The first [`Contradiction`], with the numbers.
    pub fn check(&self) -> Result<(), Contradiction> {
        let show = duration::show;
        let sending = self.order.row_time().saturating_mul(self.batch_rows);
        if sending > self.send_deadline {
            return Err(Contradiction {
                keys: ["batch_rows", "send_deadline"],
                problem: format!(
                    "a batch may not be sent in time: batch_rows {} × {:?} a row (order = \"{}\") = {}, \
                     which is above send_deadline {}",
                    self.batch_rows,
                    self.order.row_time(),
                    self.order.word(),
                    show(sending),
                    show(self.send_deadline)
                ),
                fix: format!(
                    "make send_deadline at least {}, or batch_rows smaller",
                    show(sending)
                ),
            });
        }
        let needed = self.batch_time();
        if needed >= self.lease {
            return Err(Contradiction {
                keys: ["lease", "send_deadline"],
                problem: format!(
                    "a batch may outlive its lease: statement_timeout {0} (the claim's answer) + \
                     send_deadline {1} + statement_timeout {0} (the sent mark) = {2}, which is not below \
                     lease {3}",
                    show(self.statement_timeout),
                    show(self.send_deadline),
                    show(needed),
                    show(self.lease)
                ),
                fix: format!("make lease longer than {}", show(needed)),
            });
        }
        Ok(())
    }
}

pub(super) fn read(
    context: &Section<'_>,
    thresholds: &Thresholds,
) -> Result<DispatcherSettings, ConfigError> {
    let base = DispatcherSettings {
        statement_timeout: thresholds.statement_timeout,
        ..DispatcherSettings::default()
    };
    let Some(section) = context.section("dispatcher")? else {
        return checked(context, base);
    };
    section.only(&[
        "batch_rows",
        "lease",
        "send_deadline",
        "attempts_max",
        "give_up_after",
        "backoff_base",
        "backoff_cap",
        "order",
        "idle",
        "reap_rows",
        "reap_every",
    ])?;
    let settings = DispatcherSettings {
        batch_rows: number(&section, "batch_rows", 1..=10_000, base.batch_rows)?,
        lease: positive(&section, "lease", base.lease)?,
        send_deadline: positive(&section, "send_deadline", base.send_deadline)?,
        attempts_max: number(&section, "attempts_max", 1..=1_000, base.attempts_max)?,
        give_up_after: positive(&section, "give_up_after", base.give_up_after)?,
        backoff: Backoff {
            base: positive(&section, "backoff_base", base.backoff.base)?,
            cap: positive(&section, "backoff_cap", base.backoff.cap)?,
        },
        order: order(&section)?,
        idle: positive(&section, "idle", base.idle)?,
        reap_rows: number(&section, "reap_rows", 1..=5_000, base.reap_rows)?,
        reap_every: positive(&section, "reap_every", base.reap_every)?,
        ..base
    };
    if settings.backoff.cap < settings.backoff.base {
        return Err(section.error(
            if section.has("backoff_cap") {
                "backoff_cap"
            } else {
                "backoff_base"
            },
            format!(
                "turns the backoff round: the first wait is up to {}, the longest {}",
                duration::show(settings.backoff.base),
                duration::show(settings.backoff.cap)
            ),
            "make backoff_cap at least backoff_base",
        ));
    }
    checked(&section, settings)
}

fn order(section: &Section<'_>) -> Result<Order, ConfigError> {
    let Some(word) = section.name("order")? else {
        return Ok(Order::Due);
    };
    Order::ALL
        .into_iter()
        .find(|order| order.word() == word)
        .ok_or_else(|| {
            section.error(
                "order",
                "is not an order",
                "use \"due\" (oldest due first) or \"sequence\" (rows of one aggregate by version)",
            )
        })
}

fn checked(
    section: &Section<'_>,
    settings: DispatcherSettings,
) -> Result<DispatcherSettings, ConfigError> {
    settings.check().map(|()| settings).map_err(|found| {
        let key = found.keys.into_iter().find(|key| section.has(key));
        section.error(key.unwrap_or_default(), found.problem, found.fix)
    })
}
