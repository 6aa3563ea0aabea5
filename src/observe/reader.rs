//! What all reads share: a limit and a name for each, the reason when it failed, and patience with a
//! server that is down.
//!
//! ```text
//!          unreachable or timed out                pause over: one read may try
//! open ─────────────────────────────▶ shut ─────────────────────────────────────▶ trying
//!   ▲                                  ▲            failed: pause doubled            │ │
//!   │                                  └─────────────────────────────────────────────┘ │
//!   └──────────────────────────────────────────────────────────────────────────────────┘ answered
//! ```
//!
//! A server that cannot be reached shuts the gate for every read of it. A read that only timed out, or that the
//! management API refuses this account, shuts its own gate: a slow statement on one table and a missing right in one
//! vhost say nothing about the others.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::deadline::within;
use crate::base::human;
use crate::broker::{BrokerError, BrokerResult};
use crate::store::{StoreError, StoreResult};

use super::snapshot::{PerService, Unread};

/// Message port of the broker, as a gate and on screens.
pub(crate) const AMQP: &str = "amqp";
/// Management API, as a gate and on screens.
pub(crate) const MANAGEMENT: &str = "mgmt";

/// The gate of a service's database.
pub(super) fn database_gate(service: &str) -> String {
    format!("db {service}")
}

/// Pauses between tries of a server that is down: 1 to 2 s at first, 15 to 30 s in the end.
const PAUSE: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(30),
};

/// An adapter has its own limits with better words; ours only has to hold when it does not.
const GRACE: Duration = Duration::from_millis(500);

/// Runs reads within their limits.
pub(crate) struct Reader {
    limit: Duration,
    gates: Mutex<HashMap<String, Gate>>,
}

#[derive(Debug, Default)]
struct Gate {
    /// When a server last answered; `None` once it failed.
    answered_at: Option<Instant>,
    failures: u32,
    /// Raised by every answer and every failure, so that of several reads that were under way when a
    /// server died only the first doubles the pause.
    epoch: u64,
    next_try: Option<Instant>,
    last_error: String,
}

/// Why a read failed, and whose fault that is.
struct Failure {
    reason: String,
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing on this server can be read.
    ServerDown,
    /// This read did not come back.
    TimedOut,
    /// The account may not read this, and will not be let in within a second either.
    Refused,
    /// The server answered: no.
    Answered,
}

impl Gate {
    fn open(&mut self) {
        if self.next_try.take().is_some() {
            self.failures = 0;
            self.epoch += 1;
        }
    }
}

impl Reader {
    pub(super) fn new(statement_timeout: Duration) -> Self {
        Self {
            limit: statement_timeout.saturating_add(GRACE),
            gates: Mutex::default(),
        }
    }

    /// Reads from a database; `part` is e.g. `outbox`.
    pub(crate) async fn store<T>(
        &self,
        service: &str,
        part: &'static str,
        work: impl Future<Output = StoreResult<T>> + Send,
    ) -> Result<T, Unread> {
        let what = format!("{part} of {service}");
        let server = database_gate(service);
        self.read(&server, what, part, async {
            work.await.map_err(|error| Failure {
                reach: match error {
                    StoreError::Unavailable { .. } => Reach::ServerDown,
                    StoreError::TimedOut { .. } => Reach::TimedOut,
                    StoreError::Contended { .. }
                    | StoreError::Denied { .. }
                    | StoreError::Mapping { .. }
                    | StoreError::Unsupported { .. }
                    | StoreError::Failed { .. } => Reach::Answered,
                },
                reason: error.to_string(),
            })
        })
        .await
    }

    /// Reads from the broker; `server` is [`AMQP`] or [`MANAGEMENT`].
    pub(crate) async fn broker<T>(
        &self,
        server: &'static str,
        what: String,
        operation: &'static str,
        work: impl Future<Output = BrokerResult<T>> + Send,
    ) -> Result<T, Unread> {
        self.read(server, what, operation, async {
            work.await.map_err(|error| Failure {
                reach: match error {
                    // Wrong credentials and a page that is no management API do not mend themselves
                    // within a second either: no tight retry (M-06).
                    BrokerError::Denied(_) if server == MANAGEMENT => Reach::Refused,
                    BrokerError::Protocol(_) if server == MANAGEMENT => Reach::ServerDown,
                    BrokerError::Unavailable(_) => Reach::ServerDown,
                    BrokerError::TimedOut { .. } => Reach::TimedOut,
                    BrokerError::NotFound(_)
                    | BrokerError::Denied(_)
                    | BrokerError::NotConfigured(_)
                    | BrokerError::Protocol(_) => Reach::Answered,
                },
                reason: error.to_string(),
            })
        })
        .await
    }

    async fn read<T>(
        &self,
        server: &str,
        what: String,
        operation: &'static str,
        work: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Unread> {
        let unreachable = |reason| Unread {
            what: what.clone(),
            reason,
            is_unreachable: true,
        };
        let server_epoch = self.enter(server).map_err(unreachable)?;
        let own_epoch = self.enter(&what).map_err(unreachable)?;
        let failure = match within(operation, self.limit, work).await {
            Ok(Ok(value)) => {
                self.answered(server, &what);
                return Ok(value);
            }
            Ok(Err(failure)) => failure,
            Err(timed_out) => Failure {
                reason: timed_out.to_string(),
                reach: Reach::TimedOut,
            },
        };
        match failure.reach {
            Reach::ServerDown => self.failed(server, server_epoch, &failure.reason),
            Reach::TimedOut | Reach::Refused => self.failed(&what, own_epoch, &failure.reason),
            Reach::Answered => {
                self.answered(server, &what);
            }
        }
        Err(Unread {
            what,
            reason: failure.reason,
            is_unreachable: failure.reach != Reach::Answered,
        })
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        // Nothing that can panic runs while it is held.
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate's epoch, or why the server is not asked now.
    fn enter(&self, name: &str) -> Result<u64, String> {
        let mut gates = self.gates();
        let Some(gate) = gates.get_mut(name) else {
            return Ok(0);
        };
        let now = Instant::now();
        match gate.next_try {
            Some(at) if now < at => Err(format!(
                "{} (next try within {})",
                gate.last_error,
                human::duration(PAUSE.ceiling(gate.failures))
            )),
            Some(_) => {
                // This read is the one that tries; the others wait for what it finds.
                gate.next_try = Some(now + pause(gate.failures));
                Ok(gate.epoch)
            }
            None => Ok(gate.epoch),
        }
    }

    fn answered(&self, server: &str, what: &str) {
        let mut gates = self.gates();
        if !gates.contains_key(server) {
            gates.insert(server.to_owned(), Gate::default());
        }
        if let Some(gate) = gates.get_mut(server) {
            gate.open();
            gate.answered_at = Some(Instant::now());
        }
        if let Some(gate) = gates.get_mut(what) {
            gate.open();
        }
    }

    /// True while a part of a service is not asked for, because it came back late.
    pub(super) fn is_shut(&self, service: &str, part: &str) -> bool {
        let gates = self.gates();
        let next_try = gates
            .get(&format!("{part} of {service}"))
            .and_then(|gate| gate.next_try);
        next_try.is_some_and(|at| Instant::now() < at)
    }

    /// True when some read of `server` was answered within `time` and none failed since.
    pub(super) fn heard(&self, server: &str, time: Duration) -> bool {
        let gates = self.gates();
        let answered_at = gates.get(server).and_then(|gate| gate.answered_at);
        answered_at.is_some_and(|at| at.elapsed() <= time)
    }

    fn failed(&self, name: &str, epoch: u64, reason: &str) {
        let mut gates = self.gates();
        let gate = gates.entry(name.to_owned()).or_default();
        gate.answered_at = None;
        if gate.epoch == epoch {
            gate.epoch += 1;
            gate.failures = gate.failures.saturating_add(1);
            gate.next_try = Some(Instant::now() + pause(gate.failures));
        }
        reason.clone_into(&mut gate.last_error);
    }
}

/// Half of the ceiling for certain, the other half by chance: never more than one try a second.
fn pause(failures: u32) -> Duration {
    let half = Backoff {
        base: PAUSE.base / 2,
        cap: PAUSE.cap / 2,
    };
    half.ceiling(failures) + half.delay(failures)
}

/// A service's part: its value, or why there is none.
pub(super) fn part<T>(service: &str, read: Result<T, Unread>) -> PerService<T> {
    let (value, unread) = match read {
        Ok(value) => (Some(value), None),
        Err(unread) => (None, Some(unread)),
    };
    PerService {
        service: service.to_owned(),
        value,
        unread,
    }
}

/// The reasons, when not one part could be read.
pub(super) fn nothing_read<T>(parts: &[PerService<T>]) -> Option<String> {
    let reasons: Vec<&str> = parts
        .iter()
        .filter(|part| part.value.is_none())
        .filter_map(|part| Some(part.unread.as_ref()?.reason.as_str()))
        .collect();
    (!parts.is_empty() && reasons.len() == parts.len()).then(|| joined(&reasons))
}

/// Reasons in one line, each once.
pub(super) fn joined(reasons: &[&str]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for reason in reasons {
        if !seen.contains(reason) {
            seen.push(reason);
        }
    }
    seen.join("; ")
}
