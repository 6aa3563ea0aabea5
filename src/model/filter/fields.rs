//! Which fields each kind of row has: parsing, completion, help and docs read the same tables.

use crate::model::dead_letter::DeadLetterStatus as Dead;
use crate::model::operation::{ItemState, OperationState, Verb};
use crate::model::outbox::OutboxState as Outbox;

/// Kinds of rows that can be filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Outbox rows.
    Outbox,
    /// Claims.
    Leases,
    /// Queues.
    Queues,
    /// Dead letters.
    DeadLetters,
    /// Sagas.
    Sagas,
    /// Operations.
    Operations,
    /// Audit entries.
    Audit,
    /// Rules and findings.
    Findings,
    /// Drills.
    Drills,
}

impl FilterKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Outbox,
        Self::Leases,
        Self::Queues,
        Self::DeadLetters,
        Self::Sagas,
        Self::Operations,
        Self::Audit,
        Self::Findings,
        Self::Drills,
    ];
}

/// How a field's values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `:` and `~`.
    Text,
    /// Exact decimal numbers.
    Number,
    /// A length of time up to now (or left from now), `>10m`.
    Age,
    /// The payload or a path into it: decided by the value found.
    Payload,
}

/// One field of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// As typed.
    pub name: &'static str,
    /// How it compares.
    pub kind: FieldKind,
    /// One line of help.
    pub help: &'static str,
    /// The words it can have, when they are few.
    pub values: &'static [&'static str],
}

/// One way to go on typing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The whole filter with the completion in it.
    pub text: String,
    /// What is being completed, e.g. `state:failed`.
    pub shown: String,
    /// One line of help.
    pub help: &'static str,
}

const fn text(name: &'static str, help: &'static str) -> FieldSpec {
    words(name, help, &[])
}

const fn words(
    name: &'static str,
    help: &'static str,
    values: &'static [&'static str],
) -> FieldSpec {
    FieldSpec {
        name,
        kind: FieldKind::Text,
        help,
        values,
    }
}

const fn number(name: &'static str, help: &'static str) -> FieldSpec {
    FieldSpec {
        name,
        kind: FieldKind::Number,
        help,
        values: &[],
    }
}

const fn age(name: &'static str, help: &'static str) -> FieldSpec {
    FieldSpec {
        name,
        kind: FieldKind::Age,
        help,
        values: &[],
    }
}

const SERVICE: FieldSpec = text("service", "service it belongs to");
const PAYLOAD: FieldSpec = FieldSpec {
    name: "payload",
    kind: FieldKind::Payload,
    help: "payload text, or payload.a.b for a value inside",
    values: &[],
};

const OUTBOX: &[FieldSpec] = &[
    words(
        "state",
        "where the row stands",
        &[
            Outbox::Pending.word(),
            Outbox::Sending.word(),
            Outbox::Failed.word(),
            Outbox::Sent.word(),
        ],
    ),
    text("type", "event type, order.* allowed"),
    text("key", "aggregate id"),
    number("version", "place in the aggregate's sequence"),
    text("id", "event id, a prefix with *"),
    number("attempts", "attempts so far"),
    text("error", "last error"),
    age("age", "time since it was created"),
    age(
        "due",
        "time since its next attempt was due; negative when not due",
    ),
    text("token", "claim token"),
    SERVICE,
    PAYLOAD,
];

const LEASES: &[FieldSpec] = &[
    text("token", "claim token"),
    text("id", "event id under the claim"),
    number("rows", "rows under the claim"),
    number("attempts", "largest number of attempts"),
    age("left", "time left of the lease; negative when overdue"),
    age("age", "time since its oldest row was created"),
    SERVICE,
];

const QUEUES: &[FieldSpec] = &[
    text("queue", "name"),
    text("type", "classic, quorum, stream"),
    text("state", "as the broker says: running, idle, …"),
    words(
        "role",
        "what the configuration uses it for",
        &["work", "dlq", "retry", "other"],
    ),
    text("consumer", "consumer whose inbox reads it"),
    number("ready", "messages ready"),
    number("unacked", "messages delivered, not acknowledged"),
    number("consumers", "consumers attached"),
    age("lag", "estimated lag"),
    text("policy", "policy in force"),
    text("warning", "what is wrong with it"),
];

const DEAD_LETTERS: &[FieldSpec] = &[
    words(
        "status",
        "where it stands",
        &[
            Dead::Open.word(),
            Dead::Replaying.word(),
            Dead::Replayed.word(),
            Dead::Resolved.word(),
            Dead::Repaired.word(),
            Dead::Discarded.word(),
        ],
    ),
    text("consumer", "who failed on it"),
    text("type", "event type, order.* allowed"),
    text("key", "aggregate id"),
    number("version", "place in the aggregate's sequence"),
    text("id", "event id, a prefix with *"),
    text("class", "error class, the cause it is grouped by"),
    text("error", "error class or summary"),
    text("reason", "rejected, expired, delivery_limit, …"),
    text("queue", "queue it failed in"),
    text("dlq", "queue it was collected from"),
    text("exchange", "exchange it was first published to"),
    number("deaths", "how many times it died"),
    number("replays", "how often it was replayed"),
    number("bytes", "payload size"),
    age("age", "time since its last death"),
    age("first", "time since its first death"),
    text("owner", "who takes care of it; \"\" for nobody"),
    text("note", "free text"),
    words("allowed", "whether a replay is allowed", &["yes", "no"]),
    text("trace", "trace id"),
    SERVICE,
    PAYLOAD,
];

const SAGAS: &[FieldSpec] = &[
    text("state", "as stored: running, compensating, …"),
    text("type", "saga type"),
    text("key", "business key"),
    text("id", "saga id, or an event one of its steps waits for"),
    text("step", "name of a step"),
    text("error", "error of a step, or why it could not be moved"),
    text("owner", "who looks after it"),
    text("look", "why a person should look"),
    age("age", "time since its last change"),
    age("overdue", "time since its deadline; negative before it"),
    SERVICE,
];

const OPERATIONS: &[FieldSpec] = &[
    words(
        "state",
        "where it stands",
        &[
            OperationState::Running.word(),
            OperationState::Finished.word(),
            OperationState::Unknown.word(),
        ],
    ),
    words(
        "verb",
        "what it does",
        &[
            Verb::Replay.word(),
            Verb::Repair.word(),
            Verb::Release.word(),
            Verb::Discard.word(),
            Verb::SagaRetry.word(),
            Verb::SagaQuery.word(),
            Verb::SagaCompensate.word(),
            Verb::SagaHandled.word(),
            Verb::SagaAssign.word(),
        ],
    ),
    words(
        "item",
        "where one of its items stands",
        &[
            ItemState::Reserved.word(),
            ItemState::Publishing.word(),
            ItemState::Published.word(),
            ItemState::Consumed.word(),
            ItemState::DiedAgain.word(),
            ItemState::Unroutable.word(),
            ItemState::Refused.word(),
            ItemState::Unknown.word(),
            ItemState::Applied.word(),
        ],
    ),
    text("id", "operation id, or an event it acts on"),
    text("consumer", "consumer of an item"),
    text("actor", "who"),
    text("reason", "why"),
    text("ticket", "ticket"),
    age("age", "time since it was confirmed"),
    SERVICE,
];

const AUDIT: &[FieldSpec] = &[
    number("seq", "number in the chain"),
    text("actor", "who"),
    text("action", "what: a verb, unlock, assign, note"),
    words(
        "phase",
        "part of an operation",
        &["intent", "outcome", "refused"],
    ),
    text("id", "operation id or subject"),
    text("subject", "on what"),
    text("reason", "why"),
    text("detail", "everything else"),
    age("age", "time since it was written"),
    SERVICE,
];

const FINDINGS: &[FieldSpec] = &[
    text("rule", "rule that found it"),
    text("class", "kind of difference"),
    text("subject", "what it is about"),
    text("what", "the sentence"),
    text("owner", "who looks after it; \"\" for nobody"),
    text("note", "free text"),
    text("id", "finding id, a prefix with *"),
    age("age", "time since it was first seen"),
    SERVICE,
];

const DRILLS: &[FieldSpec] = &[
    text("drill", "its name"),
    words("verdict", "how it ended", &["passed", "failed", "running"]),
    text("window", "the crash window"),
];

/// The fields of a kind.
pub(super) const fn known(kind: FilterKind) -> &'static [FieldSpec] {
    match kind {
        FilterKind::Outbox => OUTBOX,
        FilterKind::Leases => LEASES,
        FilterKind::Queues => QUEUES,
        FilterKind::DeadLetters => DEAD_LETTERS,
        FilterKind::Sagas => SAGAS,
        FilterKind::Operations => OPERATIONS,
        FilterKind::Audit => AUDIT,
        FilterKind::Findings => FINDINGS,
        FilterKind::Drills => DRILLS,
    }
}

/// True for `payload` and `payload.a.b`.
pub(super) fn is_payload(name: &str) -> bool {
    name == PAYLOAD.name || name.starts_with("payload.")
}

/// The field called `name`, of a kind or of any.
pub(super) fn find(kind: Option<FilterKind>, name: &str) -> Option<&'static FieldSpec> {
    let wanted = if is_payload(name) { PAYLOAD.name } else { name };
    specs(kind).find(|spec| spec.name == wanted)
}

fn specs(kind: Option<FilterKind>) -> impl Iterator<Item = &'static FieldSpec> {
    FilterKind::ALL
        .into_iter()
        .filter(move |each| kind.is_none_or(|kind| kind == *each))
        .flat_map(known)
}

/// Problem and remedy for a field that is not there.
pub(super) fn unknown_field(kind: Option<FilterKind>, name: &str) -> (String, String) {
    let mut names: Vec<&str> = specs(kind).map(|spec| spec.name).collect();
    names.sort_unstable();
    names.dedup();
    let nearest = names
        .iter()
        .map(|known| (distance(known, name), *known))
        .min()
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len());
    let hint = match nearest {
        Some((_, known)) => format!("did you mean {known}? fields here: "),
        None => "fields here: ".to_owned(),
    };
    (
        format!("there is no field {name}"),
        format!(
            "{hint}{}; to search for the text, quote it",
            names.join(" ")
        ),
    )
}

/// Edits between two short words.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut previous = i;
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX - 1);
            let beside = next.last().copied().unwrap_or(usize::MAX - 1);
            next.push(
                (previous + usize::from(a != *b))
                    .min(above + 1)
                    .min(beside + 1),
            );
            previous = above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

/// What may follow at the end of `typed`: values after `state:`, else field names.
pub(super) fn completions(kind: FilterKind, typed: &str) -> Vec<Completion> {
    let mut start = typed.len() - typed.trim_start().len();
    loop {
        let rest = typed.get(start..).unwrap_or_default();
        let end = start + super::parse::term_length(rest);
        match typed.get(end..).map(str::trim_start) {
            Some(after) if end < typed.len() => start = typed.len() - after.len(),
            _ => break,
        }
    }
    let (before, last) = typed.split_at_checked(start).unwrap_or((typed, ""));
    let (sign, body) = match last.strip_prefix('!') {
        Some(body) => ("!", body),
        None => ("", last),
    };
    let complete = |shown: String, help| Completion {
        text: format!("{before}{sign}{shown}"),
        shown,
        help,
    };
    if let Some((name, begun)) = body.split_once(':') {
        return known(kind)
            .iter()
            .filter(|spec| spec.name == name)
            .flat_map(|spec| spec.values.iter().map(move |value| (spec, *value)))
            .filter(|(_, value)| value.starts_with(begun) && *value != begun)
            .map(|(spec, value)| complete(format!("{name}:{value}"), spec.help))
            .collect();
    }
    known(kind)
        .iter()
        .filter(|spec| spec.name.starts_with(body))
        .map(|spec| {
            let sign = match spec.kind {
                FieldKind::Text => ":",
                FieldKind::Number | FieldKind::Age => ">",
                FieldKind::Payload => ".",
            };
            complete(format!("{}{sign}", spec.name), spec.help)
        })
        .collect()
}
