//! What an action will do, frozen before it runs: the value both the dialog and the command line
//! print, and the only thing that can be applied.

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::base::digest::sha256_hex;
use crate::config::Environment;
use crate::model::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId, SagaId};
use crate::model::message::{Message, Payload};
use crate::model::operation::{ItemState, Verb};
use crate::store::StoreError;

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Send a dead letter again.
    Replay {
        /// Which.
        target: Target,
        /// Through the original exchange instead of straight to the failed queue.
        through_exchange: bool,
        /// To this queue instead.
        to_queue: Option<String>,
        /// Refusals told in words to be ignored: the `check` names of preflight lines that may be overridden.
        overrides: Vec<String>,
    },
    /// Issue a new, linked event.
    Repair {
        /// Which.
        target: Target,
        /// The edited payload.
        payload: Payload,
    },
    /// An expired lease back to pending.
    Release {
        /// Service of the outbox.
        service: String,
        /// The claim.
        claim_token: ClaimToken,
    },
    /// Give a dead letter up.
    Discard {
        /// Which.
        target: Target,
        /// Close it as already processed instead.
        is_resolved: bool,
    },
    /// Move a saga by hand.
    Saga {
        /// Service that keeps it.
        service: String,
        /// Which.
        saga_id: SagaId,
        /// The step meant; `None`: the one that holds it up.
        step: Option<i64>,
        /// What is wanted.
        wish: SagaWish,
    },
}

/// What somebody wants with a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "wish")]
pub enum SagaWish {
    /// Send the step's command again, now.
    Retry,
    /// Ask what became of it, now.
    Query,
    /// Turn round.
    Compensate,
    /// A person saw to it.
    Handled {
        /// Whether it is done (or undone).
        is_done: bool,
        /// What shows it; `None`: typed with the confirmation.
        evidence: Option<String>,
    },
    /// Somebody looks after it.
    Assign {
        /// Who; `-`: nobody; `None`: typed with the confirmation.
        owner: Option<String>,
    },
}

/// The thing acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Target {
    /// A consumer's dead letter.
    DeadLetter {
        /// Service that keeps it.
        service: String,
        /// Row.
        dead_letter_id: DeadLetterId,
    },
    /// A failed outbox row.
    OutboxRow {
        /// Service of the outbox.
        service: String,
        /// Event.
        event_id: EventId,
    },
}

/// How a preflight line came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// ✓
    Pass,
    /// ! worth knowing
    Warning,
    /// ✖ refused unless the request overrides this check in words
    Overridable,
    /// ✖ refused
    Refusal,
}

/// One preflight line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreflightLine {
    /// Stable name of the check, e.g. `inbox_absent`.
    pub check: String,
    /// How it came out.
    pub level: Level,
    /// One sentence.
    pub text: String,
}

impl PreflightLine {
    /// A line.
    pub(super) fn new(check: &str, level: Level, text: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            level,
            text: text.into(),
        }
    }
}

/// What happens to a header or property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeaderChange {
    /// `remove`, `clear`, `set`.
    pub action: String,
    /// Header or property, e.g. `x-death`, `expiration`.
    pub field: String,
    /// What was there; `None` when nothing.
    pub original: Option<String>,
    /// What will be there.
    pub becomes: Option<String>,
}

/// Where it goes and who will see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Destination {
    /// `""` = straight to the queue.
    pub exchange: String,
    /// Routing key (the queue's name for the default exchange).
    pub routing_key: String,
    /// Consumers attached to it; `None` = not known.
    pub consumers: Option<u64>,
    /// Queues that get a copy.
    pub queues: Vec<String>,
    /// One sentence, e.g. `queue inventory.orders (2 consumers); not through shop.events`.
    pub text: String,
}

/// What a confirmation must contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConfirmRules {
    /// Name of the context to be typed (production).
    pub context_name: Option<String>,
    /// Count to be typed (several events).
    pub count: Option<u64>,
    /// Pattern of the ticket.
    pub ticket_pattern: Option<String>,
    /// An extra word to be typed, e.g. `again` from the third replay on.
    pub word: Option<String>,
    /// What else has to be told: `evidence` or `owner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

impl ConfirmRules {
    /// Whether `given` is a ticket these rules take, so that a screen can say no before anything is
    /// sent off; [`super::Operator::apply`] asks the same again.
    pub fn takes_ticket(&self, given: &str) -> bool {
        self.ticket_pattern
            .as_ref()
            .is_none_or(|pattern| super::guard::is_ticket(pattern, given))
    }
}

/// The frozen plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Identity of the operation it becomes when applied.
    pub operation_id: OperationId,
    /// What.
    pub verb: Verb,
    /// Context.
    pub context: String,
    /// Its environment.
    pub environment: Environment,
    /// Service whose database records the operation.
    pub service: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Headline: `order.created  key 8812  v3  died 2m ago at inventory  deaths 1  replays 0`.
    pub headline: String,
    /// The event acted on.
    pub event_id: Option<EventId>,
    /// The consumer.
    pub consumer: Option<ConsumerName>,
    /// What is acted on.
    pub target: Option<Target>,
    /// Where it goes; `None` for verbs that send nothing.
    pub destination: Option<Destination>,
    /// e.g. `412 B  sha256 9f2c…  equals the outbox row`.
    pub payload: Option<String>,
    /// Headers kept as they are.
    pub headers_kept: u64,
    /// Headers and properties that change.
    pub header_changes: Vec<HeaderChange>,
    /// Preflight, worst last.
    pub preflight: Vec<PreflightLine>,
    /// Unified diff (repair).
    pub diff: Option<String>,
    /// The same as a command line, without `--apply`'s confirmation.
    pub command_line: String,
    /// What the confirmation must contain.
    pub confirm: ConfirmRules,
    /// SHA-256 over everything above that matters: what was approved is what runs.
    pub digest: String,
    /// What `apply` needs and nobody reads.
    #[serde(skip)]
    pub frozen: Frozen,
}

impl Plan {
    /// True when nothing forbids it.
    pub fn is_allowed(&self) -> bool {
        !self
            .preflight
            .iter()
            .any(|line| line.level >= Level::Overridable)
    }

    /// Sorts the preflight (worst last) and sets the digest: the last step of making a plan.
    pub(super) fn sealed(mut self) -> Self {
        self.preflight.sort_by_key(|line| line.level);
        self.digest = self.computed_digest();
        self
    }

    /// SHA-256 over the plan as JSON without its time and digest, and over what is frozen.
    pub fn computed_digest(&self) -> String {
        let mut shown = serde_json::json!(self);
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("made_at");
            fields.remove("digest");
        }
        let all = serde_json::json!([shown, self.frozen.identity()]);
        sha256_hex(all.to_string().as_bytes())
    }

    /// The lines that forbid it.
    pub fn refusals(&self) -> impl Iterator<Item = &PreflightLine> {
        self.preflight
            .iter()
            .filter(|line| line.level >= Level::Overridable)
    }
}

/// The exact rows and bytes a plan was made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Frozen {
    /// A dead letter's replay.
    Replay {
        /// Row.
        dead_letter_id: DeadLetterId,
        /// Row version.
        version: i64,
        /// Payload digest.
        payload_sha256: String,
        /// What is sent.
        message: Box<Message>,
    },
    /// A failed outbox row's replay.
    OutboxReplay {
        /// Event.
        event_id: EventId,
        /// Attempts seen.
        attempts: i64,
    },
    /// A repair.
    Repair {
        /// Row.
        dead_letter_id: DeadLetterId,
        /// Row version.
        version: i64,
        /// Payload digest.
        payload_sha256: String,
        /// The new event.
        new_event: Box<crate::model::outbox::NewEvent>,
    },
    /// A release.
    Release {
        /// Claim.
        claim_token: ClaimToken,
    },
    /// A discard or resolve.
    Close {
        /// Row.
        dead_letter_id: DeadLetterId,
        /// Row version.
        version: i64,
        /// Payload digest.
        payload_sha256: String,
        /// Resolve instead of discard.
        is_resolved: bool,
    },
    /// A saga moved by hand.
    Saga {
        /// Which.
        saga_id: SagaId,
        /// Its version.
        version: i64,
        /// The step meant.
        step: Option<i64>,
        /// What is wanted.
        wish: SagaWish,
    },
}

impl Frozen {
    /// What the digest binds of it.
    fn identity(&self) -> serde_json::Value {
        match self {
            Self::Replay {
                dead_letter_id,
                version,
                payload_sha256,
                message,
            } => serde_json::json!([
                "replay",
                dead_letter_id,
                version,
                payload_sha256,
                message.properties,
                message.payload.sha256()
            ]),
            Self::OutboxReplay { event_id, attempts } => {
                serde_json::json!(["outbox_replay", event_id, attempts])
            }
            Self::Repair {
                dead_letter_id,
                version,
                payload_sha256,
                new_event,
            } => serde_json::json!([
                "repair",
                dead_letter_id,
                version,
                payload_sha256,
                new_event.event_id,
                new_event.aggregate_id,
                new_event.aggregate_version,
                new_event.event_type,
                new_event.schema_version,
                new_event.payload.sha256(),
                new_event.headers,
                new_event.exchange,
                new_event.routing_key,
                new_event.trace_id,
                new_event.causation_id
            ]),
            Self::Saga {
                saga_id,
                version,
                step,
                wish,
            } => serde_json::json!(["saga", saga_id, version, step, wish]),
            Self::Release { claim_token } => serde_json::json!(["release", claim_token]),
            Self::Close {
                dead_letter_id,
                version,
                payload_sha256,
                is_resolved,
            } => serde_json::json!([
                "close",
                dead_letter_id,
                version,
                payload_sha256,
                is_resolved
            ]),
        }
    }
}

/// What the operator answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// Why; never empty.
    pub reason: String,
    /// Ticket, if asked for.
    pub ticket: Option<String>,
    /// Typed context name, if asked for.
    pub context_name: Option<String>,
    /// Typed count, if asked for.
    pub count: Option<u64>,
    /// Typed extra word, if asked for.
    pub word: Option<String>,
    /// The evidence or owner, if asked for.
    pub told: Option<String>,
}

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ItemResult {
    /// Event.
    pub event_id: Option<EventId>,
    /// State.
    pub state: ItemState,
    /// What shows it.
    pub evidence: String,
    /// The new event of a repair.
    pub new_event_id: Option<EventId>,
}

/// What `apply` did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applied {
    /// The operation.
    pub operation_id: OperationId,
    /// Verb.
    pub verb: Verb,
    /// Service that records it.
    pub service: String,
    /// Items.
    pub items: Vec<ItemResult>,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperateError {
    /// A guard said no (exit code 4).
    #[error("refused ({check}): {reason}")]
    Refused {
        /// Stable name, e.g. `read_only`, `never_replay`, `held`, `closed`, `drifted`.
        check: String,
        /// One sentence.
        reason: String,
    },
    /// The argument names nothing (exit code 2).
    #[error("{0}")]
    NotFound(String),
    /// The argument names several things (exit code 2); the text lists them and the flag to use.
    #[error("{0}")]
    Ambiguous(String),
    /// A database could not be asked or did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker could not be asked.
    #[error(transparent)]
    Broker(#[from] crate::broker::BrokerError),
}

/// Whether writing is possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "access")]
pub enum Access {
    /// Never, by the configuration or a flag.
    ReadOnly,
    /// Not now: a production context that has not been unlocked.
    Locked,
    /// Yes, until then.
    Unlocked {
        /// On our clock.
        until: Timestamp,
    },
    /// Yes.
    Writable,
}
