//! Queues as the console shows them: facts of the management API, completed by passive declares
//! where it tells nothing, and judged.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;

use crate::broker::{Binding, Broker, BrokerError, BrokerOverview, QueueFacts, QueuePage};
use crate::config::Context;
use crate::model::filter::{FieldText, Fields, FilterKind};

use super::Observer;
use super::reader::{MANAGEMENT, joined};
use super::snapshot::{QueueSnapshot, QueueView, Unread};

/// What the broker does with a quorum queue's messages when nothing else is set (RabbitMQ 4.0).
const DEFAULT_DELIVERY_LIMIT: i64 = 20;

/// What a warning needs besides the queue itself.
#[derive(Default)]
struct Surroundings {
    statistics_off: bool,
    /// `RabbitMQ 4.1.0` and later limit deliveries by default.
    has_default_limit: bool,
    /// Bindings of the exchanges that work queues dead-letter to; `None` = no such exchange.
    dead_letter_exchanges: HashMap<String, Option<Vec<Binding>>>,
}

impl Observer {
    /// Queues, a page from 1.
    pub async fn queues(&self, page: u32) -> QueueSnapshot {
        let Some(broker) = &self.ports.broker else {
            return QueueSnapshot {
                unread: vec![Unread {
                    what: "queues".to_owned(),
                    reason: "no broker is configured".to_owned(),
                    is_unreachable: false,
                }],
                ..QueueSnapshot::default()
            };
        };
        let mut unread = Vec::new();
        let (overview, told) = tokio::join!(self.overview(broker), self.page(broker, page));
        let overview = overview.map_err(|reason| unread.push(reason)).ok();
        let told = told.map_err(|reason| unread.push(reason)).ok();
        let total = told.as_ref().and_then(|told| told.total);
        let statistics_off = told.as_ref().is_some_and(|told| told.statistics_off);
        let is_told = told.is_some();
        let (queues, missing) = self.with_configured(broker, page, told, &mut unread).await;
        let around = Surroundings {
            statistics_off,
            has_default_limit: overview.as_ref().is_some_and(has_default_limit),
            dead_letter_exchanges: if is_told {
                self.dead_letter_exchanges(broker, &queues, &mut unread)
                    .await
            } else {
                HashMap::new()
            },
        };
        let context = &self.ports.context;
        let queues = queues
            .into_iter()
            .map(|facts| view(context, facts, &around))
            .chain(missing.iter().map(|name| missing_view(context, name)))
            .collect();
        // One reason is enough when both endpoints failed for the same one.
        unread.dedup_by(|later, earlier| later.reason == earlier.reason);
        QueueSnapshot {
            queues,
            total,
            overview,
            statistics_off,
            unread,
        }
    }

    async fn overview(&self, broker: &Arc<dyn Broker>) -> Result<BrokerOverview, Unread> {
        let what = "broker overview".to_owned();
        self.reader
            .broker(MANAGEMENT, what, "management overview", broker.overview())
            .await
    }

    async fn page(&self, broker: &Arc<dyn Broker>, page: u32) -> Result<QueuePage, Unread> {
        let rows = self.ports.context.thresholds.page_rows;
        let what = "queue list".to_owned();
        self.reader
            .broker(MANAGEMENT, what, "queue list", broker.queues(page, rows))
            .await
    }

    /// The page with the configured queues first. They are on the first page only, so that no queue
    /// is shown twice; what the management API does not tell about them is asked of the queues
    /// themselves. The second list holds configured queues that do not exist.
    async fn with_configured(
        &self,
        broker: &Arc<dyn Broker>,
        page: u32,
        told: Option<QueuePage>,
        unread: &mut Vec<Unread>,
    ) -> (Vec<QueueFacts>, Vec<String>) {
        let names = configured(&self.ports.context);
        let is_told = told.is_some();
        let (mut own, others): (Vec<_>, Vec<_>) = told
            .map(|told| told.queues)
            .unwrap_or_default()
            .into_iter()
            .partition(|facts| names.contains(&facts.name));
        if page > 1 {
            return (others, Vec::new());
        }
        let mut missing = Vec::new();
        let reads = join_all(names.iter().map(|name| {
            let known = own.iter().position(|facts| facts.name == *name);
            let known = known.map(|index| own.swap_remove(index));
            self.configured_facts(broker, name, known, is_told)
        }))
        .await;
        let mut first = Vec::new();
        for (name, read) in names.iter().zip(reads) {
            match read {
                Ok(Some(facts)) => first.push(facts),
                Ok(None) => missing.push(name.clone()),
                Err(reason) => unread.push(reason),
            }
        }
        first.extend(others);
        (first, missing)
    }

    async fn configured_facts(
        &self,
        broker: &Arc<dyn Broker>,
        name: &str,
        known: Option<QueueFacts>,
        is_told: bool,
    ) -> Result<Option<QueueFacts>, Unread> {
        let known = match known {
            Some(known) => Some(known),
            // On another page of the list.
            None if is_told => self
                .reader
                .broker(
                    MANAGEMENT,
                    format!("facts of {name}"),
                    "queue facts",
                    broker.queue(name),
                )
                .await
                .unwrap_or_default(),
            None => None,
        };
        match known {
            Some(known) if known.ready.is_some() && known.consumers.is_some() => Ok(Some(known)),
            known => {
                let depth = self.depth(name).await;
                match (known, depth) {
                    (Some(known), Ok(Some(depth))) => Ok(Some(QueueFacts {
                        ready: known.ready.or(Some(depth.ready)),
                        consumers: known.consumers.or(Some(depth.consumers)),
                        ..known
                    })),
                    (Some(known), _) => Ok(Some(known)),
                    (None, Ok(depth)) => Ok(depth.map(|depth| QueueFacts {
                        name: name.to_owned(),
                        ready: Some(depth.ready),
                        consumers: Some(depth.consumers),
                        ..QueueFacts::default()
                    })),
                    (None, Err(reason)) => Err(reason),
                }
            }
        }
    }

    /// What is bound to the exchanges that work queues dead-letter to.
    async fn dead_letter_exchanges(
        &self,
        broker: &Arc<dyn Broker>,
        queues: &[QueueFacts],
        unread: &mut Vec<Unread>,
    ) -> HashMap<String, Option<Vec<Binding>>> {
        let context = &self.ports.context;
        let mut names: Vec<&str> = queues
            .iter()
            .filter(|facts| role(context, &facts.name) == Role::Work)
            .filter_map(|facts| facts.dead_letter_exchange.as_deref())
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        let reads = join_all(names.iter().map(|name| async move {
            let bindings = async {
                match broker.bindings(name).await {
                    Ok(bindings) => Ok(Some(bindings)),
                    Err(BrokerError::NotFound(_)) => Ok(None),
                    Err(error) => Err(error),
                }
            };
            self.reader
                .broker(
                    MANAGEMENT,
                    format!("bindings of {name}"),
                    "bindings",
                    bindings,
                )
                .await
        }))
        .await;
        let mut out = HashMap::new();
        for (name, read) in names.into_iter().zip(reads) {
            match read {
                Ok(bindings) => {
                    out.insert(name.to_owned(), bindings);
                }
                Err(reason) => unread.push(reason),
            }
        }
        out
    }
}

impl QueueSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        let reasons: Vec<&str> = self.unread.iter().map(|u| u.reason.as_str()).collect();
        (self.queues.is_empty() && !reasons.is_empty()).then(|| joined(&reasons))
    }

    /// Alarms of nodes: publishers are blocked while one lasts (B-06).
    pub fn alarms(&self) -> Vec<String> {
        let nodes = self.overview.iter().flat_map(|o| o.nodes.iter().flatten());
        nodes
            .flat_map(|node| {
                [
                    (node.memory_alarm == Some(true))
                        .then_some("memory alarm: publishing is blocked"),
                    (node.disk_alarm == Some(true)).then_some("disk alarm: publishing is blocked"),
                    (node.is_running == Some(false)).then_some("the node is down"),
                ]
                .into_iter()
                .flatten()
                .map(|alarm| format!("{}: {alarm}", node.name))
            })
            .collect()
    }
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
    Other,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::DeadLetters => "dlq",
            Self::Other => "other",
        }
    }
}

pub(super) fn role(context: &Context, queue: &str) -> Role {
    let is_work = |service: &crate::config::Service| {
        service
            .inbox
            .as_ref()
            .is_some_and(|inbox| inbox.queue == queue)
    };
    let is_dead = |service: &crate::config::Service| {
        service
            .dead_letters
            .as_ref()
            .is_some_and(|part| part.queues.iter().any(|name| name == queue))
    };
    if context.services.iter().any(is_work) {
        Role::Work
    } else if context.services.iter().any(is_dead) {
        Role::DeadLetters
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

fn view(context: &Context, facts: QueueFacts, around: &Surroundings) -> QueueView {
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

fn missing_view(context: &Context, name: &str) -> QueueView {
    QueueView {
        facts: QueueFacts {
            name: name.to_owned(),
            ..QueueFacts::default()
        },
        consumer: consumer_of(context, name),
        role: role(context, name).word().to_owned(),
        lag_s: None,
        lag_source: None,
        warnings: vec!["does not exist on this broker".to_owned()],
    }
}

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

/// More than half of what is delivered has been delivered before: a requeue loop.
fn redelivery_warning(facts: &QueueFacts) -> Option<String> {
    let (again, out) = (facts.rate_redelivered?, facts.rate_out?);
    (again >= 1.0 && again * 2.0 > out)
        .then(|| format!("{again:.0}/s of {out:.0}/s are redeliveries: a requeue loop"))
}

fn has_default_limit(overview: &BrokerOverview) -> bool {
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
