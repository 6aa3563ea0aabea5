//! What a queue is to this configuration, how far it lags, and what is wrong with it. Pure: facts in,
//! view out. A fact that was not told warns of nothing (M-03).

use std::borrow::Cow;
use std::collections::HashMap;

use crate::broker::{Binding, BrokerOverview, QueueFacts};
use crate::config::Context;
use crate::model::dead_letter::work_queue_of;
use crate::model::filter::{FieldText, Fields, FilterKind};

use super::snapshot::QueueView;

/// What the broker does with a quorum queue's messages when nothing else is set (RabbitMQ 4.0).
const DEFAULT_DELIVERY_LIMIT: i64 = 20;

/// What a warning needs besides the queue itself.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) statistics_off: bool,
    /// `RabbitMQ 4.1.0` and later limit deliveries by default.
    pub(super) has_default_limit: bool,
    /// Bindings of the exchanges that work queues dead-letter to; `None` = no such exchange.
    pub(super) dead_letter_exchanges: HashMap<String, Option<Vec<Binding>>>,
}

/// Seconds the queue's head is behind and how that was found: `empty`, `head` (the head message's
/// own time) or `rate` (ready / acknowledged a second). `None` when nothing tells: also when nothing
/// is being acknowledged, because then the lag has no bound.
pub(super) fn estimate_lag(facts: &QueueFacts) -> Option<(f64, &'static str)> {
    match (facts.ready, facts.head_age_s) {
        (Some(0), _) => Some((0.0, "empty")),
        (_, Some(age)) => Some((age.max(0.0), "head")),
        (Some(ready), None) => {
            let rate = facts.rate_ack.or(facts.rate_out)?;
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let ready = ready as f64;
            (rate > 0.0).then(|| (ready / rate, "rate"))
        }
        (None, None) => None,
    }
}

/// Queues the configuration names: work queues, then DLQs, each once.
pub(super) fn configured(context: &Context) -> Vec<String> {
    let work = context
        .services
        .iter()
        .filter_map(|service| Some(service.inbox.as_ref()?.queue.clone()));
    let dead = context
        .services
        .iter()
        .filter_map(|service| service.dead_letters.as_ref())
        .flat_map(|part| part.queues.iter().cloned());
    let mut names = Vec::new();
    for name in work.chain(dead) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What the configuration uses a queue for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Work,
    DeadLetters,
    Retry,
    Other,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::DeadLetters => "dlq",
            Self::Retry => "retry",
            Self::Other => "other",
        }
    }
}

pub(super) fn role(context: &Context, queue: &str) -> Role {
    let is_work_queue = |name: &str| {
        let mut inboxes = context.services.iter().filter_map(|s| s.inbox.as_ref());
        inboxes.any(|inbox| inbox.queue == name)
    };
    let is_dead = |service: &crate::config::Service| {
        service
            .dead_letters
            .as_ref()
            .is_some_and(|part| part.queues.iter().any(|name| name == queue))
    };
    if is_work_queue(queue) {
        Role::Work
    } else if context.services.iter().any(is_dead) {
        Role::DeadLetters
    } else if work_queue_of(queue).is_some_and(is_work_queue) {
        Role::Retry
    } else {
        Role::Other
    }
}

fn consumer_of(context: &Context, queue: &str) -> Option<String> {
    context
        .services
        .iter()
        .filter_map(|service| service.inbox.as_ref())
        .find(|inbox| inbox.queue == queue)
        .map(|inbox| inbox.consumer.to_string())
}

pub(super) fn view(context: &Context, facts: QueueFacts, around: &Surroundings) -> QueueView {
    let lag = estimate_lag(&facts);
    let role = role(context, &facts.name);
    QueueView {
        consumer: consumer_of(context, &facts.name),
        role: role.word().to_owned(),
        lag_s: lag.map(|(seconds, _)| seconds),
        lag_source: lag.map(|(_, source)| source.to_owned()),
        warnings: warnings(&facts, role, around),
        facts,
    }
}

pub(super) fn missing_view(context: &Context, name: &str) -> QueueView {
    QueueView {
        facts: QueueFacts {
            name: name.to_owned(),
            ..QueueFacts::default()
        },
        consumer: consumer_of(context, name),
        role: role(context, name).word().to_owned(),
        lag_s: None,
        lag_source: None,
        warnings: vec![NOT_THERE.to_owned()],
    }
}

/// How the warning of a queue begins that loses what it rejects.
const TO_NOTHING: &str = "dead-letters to nothing";

impl QueueView {
    /// The warning of a work queue whose rejected messages are lost.
    pub fn dead_letters_to_nothing(&self) -> Option<&str> {
        let mut warnings = self.warnings.iter().map(String::as_str);
        warnings.find(|warning| warning.starts_with(TO_NOTHING))
    }

    /// True when the broker's management told about this queue; else only its depth is known.
    pub const fn is_told(&self) -> bool {
        self.facts.kind.is_some()
    }

    /// True for a configured queue that is not there.
    pub fn is_missing(&self) -> bool {
        self.warnings.iter().any(|warning| warning == NOT_THERE)
    }

    /// The members that are not online, of all members, of a quorum queue.
    pub fn members_missing(&self) -> Option<(Vec<&str>, usize)> {
        let (members, online) = (
            self.facts.members.as_ref()?,
            self.facts.members_online.as_ref()?,
        );
        let missing = members.iter().filter(|member| !online.contains(member));
        Some((missing.map(String::as_str).collect(), members.len()))
    }
}

/// The warning of a configured queue that is not there.
const NOT_THERE: &str = "does not exist on this broker";

/// What is wrong with a queue, as far as it is known: missing facts warn of nothing (M-03).
fn warnings(facts: &QueueFacts, role: Role, around: &Surroundings) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(state_warning(facts));
    out.extend(consumer_warning(facts, role));
    out.extend(member_warning(facts));
    if role == Role::Work {
        out.extend(dead_letter_warning(facts, around));
    }
    out.extend(redelivery_warning(facts));
    out
}

/// Only states known to be good pass in silence (M-09).
fn state_warning(facts: &QueueFacts) -> Option<String> {
    match facts.state.as_deref()? {
        "running" | "idle" => None,
        "flow" => Some("flow control: its publishers are slowed down".to_owned()),
        other => Some(format!("state {other}")),
    }
}

fn consumer_warning(facts: &QueueFacts, role: Role) -> Option<String> {
    match (facts.consumers?, facts.ready?, role) {
        (0, ready, Role::Work | Role::Other) if ready > 0 => {
            Some(format!("no consumer, {ready} ready"))
        }
        (0, _, Role::Work) => Some("no consumer".to_owned()),
        (0, ready, Role::DeadLetters) if ready > 0 => Some(format!(
            "{ready} not collected and no collector is attached"
        )),
        // Emptied by time alone.
        (1.., _, Role::Retry) => {
            Some("has a consumer: messages are taken before their time".to_owned())
        }
        _ => None,
    }
}

fn member_warning(facts: &QueueFacts) -> Option<String> {
    let (members, online) = (facts.members.as_ref()?, facts.members_online.as_ref()?);
    let missing: Vec<&str> = members
        .iter()
        .filter(|member| !online.contains(member))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let up = members.len() - missing.len();
    let stopped = if up * 2 <= members.len() {
        ": no majority, the queue is stopped"
    } else {
        ""
    };
    Some(format!(
        "{up} of {} members online, {} missing{stopped}",
        members.len(),
        missing.join(", ")
    ))
}

fn dead_letter_warning(facts: &QueueFacts, around: &Surroundings) -> Option<String> {
    // The kind is told with the arguments: without it nothing is known about them.
    let kind = facts.kind.as_deref()?;
    if kind == "stream" || (around.statistics_off && facts.policy.is_none()) {
        return None;
    }
    let Some(exchange) = &facts.dead_letter_exchange else {
        let limit = facts.delivery_limit.or_else(|| {
            (kind == "quorum" && around.has_default_limit).then_some(DEFAULT_DELIVERY_LIMIT)
        });
        return Some(match limit {
            Some(limit) => format!(
                "dead-letters to nothing: a rejected message, or one delivered {limit} times, is lost"
            ),
            None => "dead-letters to nothing: a rejected message is lost".to_owned(),
        });
    };
    match around.dead_letter_exchanges.get(exchange)? {
        None => Some(format!(
            "dead-letters to nothing: exchange {exchange} does not exist"
        )),
        Some(bindings) if bindings.is_empty() => Some(format!(
            "dead-letters to nothing: no queue is bound to exchange {exchange}"
        )),
        Some(_) => None,
    }
}

/// More than half of what is delivered has been delivered before, and is not done with then either: a
/// requeue loop.
fn redelivery_warning(facts: &QueueFacts) -> Option<String> {
    let (again, out) = (facts.rate_redelivered?, facts.rate_out?);
    let is_done_with = facts.rate_ack.is_some_and(|acked| acked >= again);
    (again >= 1.0 && again * 2.0 > out && !is_done_with)
        .then(|| format!("{again:.0}/s of {out:.0}/s are redeliveries: a requeue loop"))
}

pub(super) fn has_default_limit(overview: &BrokerOverview) -> bool {
    overview
        .product
        .strip_prefix("RabbitMQ ")
        .and_then(|version| version.split('.').next())
        .and_then(|major| major.parse::<u32>().ok())
        .is_some_and(|major| major >= 4)
}

impl Fields for QueueView {
    fn kind(&self) -> FilterKind {
        FilterKind::Queues
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "queue" => borrowed(Some(&self.facts.name)),
            "type" => borrowed(self.facts.kind.as_deref()),
            "state" => borrowed(self.facts.state.as_deref()),
            "role" => borrowed(Some(&self.role)),
            "consumer" => borrowed(self.consumer.as_deref()),
            "ready" => number(self.facts.ready),
            "unacked" => number(self.facts.unacked),
            "consumers" => number(self.facts.consumers),
            "lag" => self.lag_s.map(FieldText::Seconds),
            "policy" => borrowed(self.facts.policy.as_deref()),
            "warning" => Some(FieldText::Any(
                self.warnings
                    .iter()
                    .map(|w| Cow::Borrowed(w.as_str()))
                    .collect(),
            )),
            _ => None,
        }
    }
}

fn borrowed(text: Option<&str>) -> Option<FieldText<'_>> {
    text.map(|text| FieldText::Text(Cow::Borrowed(text)))
}

fn number(of: Option<u64>) -> Option<FieldText<'static>> {
    of.map(|n| FieldText::Number(n.to_string()))
}
