//! One validated [`Config`] from a TOML file, the environment and flags (product.md section 8).
//! The types live here; reading, `${VAR}`, secret commands and validation in `load`.

pub mod alerting;
pub mod consuming;
mod context;
mod dispatcher;
mod drilling;
pub mod duration;
pub mod init;
mod interpolate;
pub mod load;
pub mod retention;
pub mod scanning;
mod section;
mod service;
pub mod show;
mod url;
pub mod verdicts;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::crash::CrashPoints;
use crate::base::secret::SecretUrl;
use crate::model::ids::ConsumerName;
use crate::model::operation::Verb;

pub use alerting::{AlertSettings, AlertTarget};
pub use consuming::ConsumerLimits;
pub use dispatcher::{Contradiction, DispatcherSettings, Order};
pub use drilling::DrillSettings;
pub use retention::RetentionSettings;
pub use scanning::{ScanRule, ScanSettings};
pub use verdicts::VerdictSettings;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file it was read from; `None` for the built-in demo.
    pub path: Option<PathBuf>,
    /// The context used when none is named.
    pub default_context: Option<String>,
    /// Contexts in the order of the file.
    pub contexts: Vec<Context>,
}

/// How careful to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Faults may be injected, tables created, nothing matters.
    Sandbox,
    /// Writes ask for a reason.
    Staging,
    /// Opens read-only, unlocks for some minutes, writes want the context's name typed.
    Production,
}

impl Environment {
    /// The word in the file and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Staging => "staging",
            Self::Production => "production",
        }
    }

    /// Crash points, which act in a sandbox only.
    pub const fn crash_points(self) -> CrashPoints {
        CrashPoints::new(matches!(self, Self::Sandbox))
    }
}

/// One environment: its services, databases, broker, and how careful to be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Its name in the file.
    pub name: String,
    /// How careful to be.
    pub environment: Environment,
    /// Never writes, whatever else is set (invariant 9).
    pub read_only: bool,
    /// `amqp://…`, `amqps://…`, or `embedded:` for the in-process broker. `None`: no broker is
    /// looked at, and everything that needs one says so.
    pub amqp: Option<SecretUrl>,
    /// `http://…` or `https://…` of the management API.
    pub management: Option<SecretUrl>,
    /// Its services in the order of the file.
    pub services: Vec<Service>,
    /// Verbs that may be used at all; empty list = none.
    pub rights: Vec<Verb>,
    /// Event types that are never replayed.
    pub never_replay: Vec<String>,
    /// How long inbox rows are kept: an older event could take effect twice. `None`: for ever.
    pub inbox_retention: Option<Duration>,
    /// Regular shape of a ticket, as a simple pattern with `#` for digits (`OPS-####` = at least one
    /// digit a `#`). `None`: no ticket is asked for.
    pub ticket_pattern: Option<String>,
    /// How long an unlock of a production context lasts.
    pub unlock: Duration,
    /// Payload paths (`customer.email`) shown as `•••` on screens and in exports.
    pub masked: Vec<String>,
    /// Owners by pattern: first match wins.
    pub owners: Vec<OwnerRule>,
    /// Limits and intervals.
    pub thresholds: Thresholds,
    /// The dispatcher's limits.
    pub dispatcher: DispatcherSettings,
    /// The consumer runtime's limits.
    pub consumer: ConsumerLimits,
    /// What drills may do to the broker.
    pub drill: DrillSettings,
    /// How inbox rows are forgotten.
    pub retention: RetentionSettings,
    /// When something counts as wrong.
    pub verdicts: VerdictSettings,
    /// Who is told about deaths.
    pub on_death: Option<AlertSettings>,
    /// How patient scans are, and the context's own rules.
    pub scan: ScanSettings,
}

/// One service: a database and the parts of the pipeline that live in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// `mysql://…` (MySQL, MariaDB) or `sqlite:…`.
    pub database: SecretUrl,
    /// Events it emits.
    pub outbox: Option<OutboxPart>,
    /// Events it has consumed.
    pub inbox: Option<InboxPart>,
    /// Events it could not consume.
    pub dead_letters: Option<DeadLetterPart>,
    /// Sagas it coordinates.
    pub sagas: Option<SagaPart>,
    /// True when our own operations, audit and repairs tables live in its database (default: when it
    /// has `dead_letters`, `outbox` or `sagas` in the native layout).
    pub journal: bool,
}

/// Where a service's outbox is and what it publishes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxPart {
    /// `native` or `compact`.
    pub layout: String,
    /// Table name; the layout's when `None`.
    pub table: Option<String>,
    /// Exchange its events go to unless the row says otherwise.
    pub exchange: String,
}

/// Where a service's inbox is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxPart {
    /// `native` or `compact`.
    pub layout: String,
    /// Table name; the layout's when `None`.
    pub table: Option<String>,
    /// The consumer's name in it.
    pub consumer: ConsumerName,
    /// The queue it consumes.
    pub queue: String,
}

/// Where a service's dead letters are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterPart {
    /// `native`.
    pub layout: String,
    /// Table name; the layout's when `None`.
    pub table: Option<String>,
    /// DLQs to collect from.
    pub queues: Vec<String>,
}

/// Where a service's sagas are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaPart {
    /// `native`.
    pub layout: String,
    /// Table name; the layout's when `None`.
    pub table: Option<String>,
}

/// Who owns the dead letters that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRule {
    /// Consumer, or any.
    pub consumer: Option<String>,
    /// Event type, `order.*` allowed, or any.
    pub event_type: Option<String>,
    /// Owner.
    pub owner: String,
}

/// Limits and intervals of a context; all have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// How often feeds look.
    pub refresh: Duration,
    /// Data older than this is drawn as stale.
    pub stale_after: Duration,
    /// Time limit of one statement.
    pub statement_timeout: Duration,
    /// Counting stops here.
    pub count_cap: u64,
    /// Rows a page.
    pub page_rows: u32,
    /// Clock skew against the database that is shown as a warning.
    pub clock_skew: Duration,
    /// How long a published replay waits for its proof before it is *unknown*.
    pub proof_deadline: Duration,
    /// Time limit of one publish.
    pub publish_deadline: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(1),
            stale_after: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(3),
            count_cap: 10_000,
            page_rows: 100,
            clock_skew: Duration::from_secs(2),
            proof_deadline: Duration::from_mins(1),
            publish_deadline: Duration::from_secs(10),
        }
    }
}

/// A configuration that cannot be used: names the file, the key and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {key}: {problem}; {fix}")]
pub struct ConfigError {
    /// File path, environment variable or flag it came from.
    pub origin: String,
    /// Dotted key, e.g. `contexts.shop.services[0].database`.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub fix: String,
}

impl Context {
    /// The service called `name`.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// The service whose inbox belongs to `consumer`.
    pub fn service_of_consumer(&self, consumer: &ConsumerName) -> Option<&Service> {
        self.services.iter().find(|service| {
            service
                .inbox
                .as_ref()
                .is_some_and(|inbox| inbox.consumer == *consumer)
        })
    }
}
